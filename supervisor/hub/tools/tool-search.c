/* Searches the tools of a catalogue. */
#include "supervisor/hub/tools/tool-search.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "base/json.h"
#include "base/utf8.h"

static bool is_upper(uint32_t c)
{
        return c - 'A' < 26;
}

/* Latin, Greek and Cyrillic letters whose lower case is as long in UTF-8; towlower() needs a locale. */
static uint32_t lower(uint32_t c)
{
        if (c < 0x80)
                return is_upper(c) ? c + 32 : c;
        if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) ||
            (c >= 0x410 && c <= 0x42f))
                return c + 32;
        if (c >= 0x400 && c <= 0x40f)
                return c + 80;
        if ((c >= 0x100 && c <= 0x12f) || (c >= 0x132 && c <= 0x137) || (c >= 0x14a && c <= 0x177))
                return c | 1;
        return c;
}

/* Letters and digits of any alphabet. Other characters separate words. */
static bool is_letter(uint32_t c)
{
        if (c < 0x80)
                return (c | 32) - 'a' < 26 || c - '0' < 10;
        return c >= 0xc0 && c != 0xd7 && c != 0xf7 && (c < 0x2000 || c > 0x206f) &&
               (c < 0x3000 || c > 0x303f) && c != 0xfffd;
}

/* Reads the next character; bytes that are not UTF-8 count as U+0000. Returns its length. */
static size_t next(const char *text, size_t n, uint32_t *c)
{
        *c = (unsigned char)*text;
        if (*c < 0x80)
                return 1;
        int length = utf8_next((const unsigned char *)text, n);
        *c = length > 0 ? utf8_decode((const unsigned char *)text, length) : 0;
        return length > 0 ? (size_t)length : length < 0 ? (size_t)-length : n;
}

/* Writes a character of n bytes in lower case, which has as many bytes. Returns the end. */
static inline char *put_lower(char *to, const char *text, size_t n, uint32_t c)
{
        uint32_t small = lower(c);

        if (n == 1) {
                *to++ = small == c ? *text : (char)small;
                return to;
        }
        if (small == c)
                return mempcpy(to, text, n);
        *to++ = (char)(0xc0 | small >> 6);
        *to++ = (char)(0x80 | (small & 0x3f));
        return to;
}

/* The length of the English ending of a word of n bytes, if three bytes remain without it. */
static size_t ending(const char *end, size_t n)
{
        if (n >= 6 && memcmp(end - 3, "ing", 3) == 0)
                return 3;
        if (n >= 5 && (memcmp(end - 2, "es", 2) == 0 || memcmp(end - 2, "ed", 2) == 0))
                return 2;
        return n >= 4 && end[-1] == 's';
}

/* Ends a word with a space. Returns the end. */
static char *end_word(const char *begin, char *end, bool stems)
{
        if (stems)
                end -= ending(end, (size_t)(end - begin));
        *end++ = ' ';
        return end;
}

int tool_words_append(struct buffer *to, const char *text, size_t n, bool stems, int most)
{
        uint32_t c, before = 0;
        int words = 0, r = buffer_reserve(to, 2 * n + 2); /* each letter may be a word */

        if (r < 0)
                return r;
        char *at = buffer_tail(to), *word = NULL;
        *at++ = ' ';
        for (size_t i = 0, length; i < n; i += length, before = c) {
                length = next(text + i, n - i, &c);
                bool separates = !is_letter(c), is_camel = is_upper(c) && !is_upper(before);
                if (word && (separates || (is_camel && before < 0x80))) {
                        at = end_word(word, at, stems);
                        word = NULL;
                }
                if (separates)
                        continue;
                if (!word && words == most)
                        break;
                words += !word;
                word = word ? word : at;
                at = put_lower(at, text + i, length, c);
                for (; i + length < n && text[i + length] >= 'a' && text[i + length] <= 'z';
                     c = 'a')
                        *at++ = text[i + length++];
        }
        if (word)
                at = end_word(word, at, stems);
        buffer_produced(to, (size_t)(at - buffer_tail(to)));
        return words;
}

/* Appends the text in lower case. Returns 0, -EMSGSIZE or -ENOMEM. */
static int append_lower_text(struct buffer *to, const char *text, size_t n)
{
        int r = buffer_reserve(to, n);

        if (r < 0)
                return r;
        char *at = buffer_tail(to);
        uint32_t c;
        for (size_t i = 0, length; i < n; i += length) {
                length = next(text + i, n - i, &c);
                at = put_lower(at, text + i, length, c);
        }
        buffer_produced(to, n);
        return 0;
}

enum {
        TEXT_MAX = 128 * 1024 * 1024, /* more than the words of any catalogue */
        SUBSTRING_MIN = 4, /* bytes of a word that may be a part of a word of a description */
};

/* No number of words outweighs a better match of the name. */
enum {
        POINTS_EXACT = 4000,
        POINTS_SAME_WORDS = 3000,
        POINTS_PREFIX = 2000,
        POINTS_NAME = 20,
        POINTS_NAME_PART = 10,
        POINTS_SERVER = 6,
        POINTS_DESCRIPTION = 4,
        POINTS_DESCRIPTION_PART = 2,
        POINTS_PARAMETER = 2,
};

/* The texts of one tool, in this order. */
enum field {
        FIELD_QUALIFIED, /* "server.name" in lower case */
        FIELD_PLAIN,     /* the name's words, whole */
        FIELD_NAME,      /* this field and the next ones: words without their endings */
        FIELD_SERVER,
        FIELD_DESCRIPTION,
        FIELD_PARAMETERS,
        FIELD_MAX
};

struct tool {
        yyjson_val *server, *value;
        size_t fields[FIELD_MAX + 1]; /* offsets in the text */
        unsigned points;
};

struct text {
        const char *at;
        size_t n;
};

struct search {
        struct buffer lower, plain, stems;        /* of the query */
        struct text words[TOOL_SEARCH_WORDS_MAX]; /* in stems */
        size_t n_words;
        struct buffer text; /* of all tools */
        struct tool *tools;
        size_t n;
};

/* ---- the texts of the tools ---- */

static int append_words(struct search *s, yyjson_val *value, bool stems)
{
        bool is_text = yyjson_is_str(value);

        return tool_words_append(&s->text, is_text ? yyjson_get_str(value) : "",
                                 is_text ? yyjson_get_len(value) : 0, stems, INT32_MAX);
}

static int append_parameters(struct search *s, yyjson_val *tool)
{
        yyjson_val *properties = yyjson_obj_get(yyjson_obj_get(tool, "inputSchema"), "properties");
        yyjson_val *key, *value;
        size_t i, n;
        int r = buffer_append(&s->text, " ", 1);

        yyjson_obj_foreach (properties, i, n, key, value) {
                if (r >= 0)
                        r = append_words(s, key, true);
        }
        return r;
}

static int append_lower(struct search *s, yyjson_val *value)
{
        return append_lower_text(&s->text, yyjson_get_str(value), yyjson_get_len(value));
}

static int append_field(struct search *s, const struct tool *tool, enum field field)
{
        yyjson_val *name = yyjson_obj_get(tool->value, "name");
        int r;

        switch (field) {
        case FIELD_QUALIFIED:
                r = append_lower(s, tool->server);
                if (r >= 0)
                        r = buffer_append(&s->text, ".", 1);
                return r < 0 ? r : append_lower(s, name);
        case FIELD_PLAIN:
        case FIELD_NAME:
                return append_words(s, name, field == FIELD_NAME);
        case FIELD_SERVER:
                return append_words(s, tool->server, true);
        case FIELD_DESCRIPTION:
                return append_words(s, yyjson_obj_get(tool->value, "description"), true);
        default:
                return append_parameters(s, tool->value);
        }
}

static int add_tool(struct search *s, yyjson_val *server, yyjson_val *value)
{
        struct tool *tool = &s->tools[s->n++];
        int r = 0;

        *tool = (struct tool){.server = yyjson_obj_get(server, "name"),
                              .value = value,
                              .fields = {s->text.length}};
        for (int i = 0; i < FIELD_MAX && r >= 0; i++) {
                r = append_field(s, tool, (enum field)i);
                tool->fields[i + 1] = s->text.length;
        }
        return r < 0 ? r : 0;
}

static int read_catalogue(struct search *s, yyjson_val *servers)
{
        yyjson_val *server, *tool;
        size_t i, j, n, m, count = 0;
        int r = 0;

        yyjson_arr_foreach (servers, i, n, server)
                count += yyjson_arr_size(yyjson_obj_get(server, "tools"));
        s->tools = malloc((count + 1) * sizeof(*s->tools));
        if (!s->tools)
                return -ENOMEM;
        yyjson_arr_foreach (servers, i, n, server) {
                yyjson_arr_foreach (yyjson_obj_get(server, "tools"), j, m, tool) {
                        if (r >= 0)
                                r = add_tool(s, server, tool);
                }
        }
        return r;
}

/* ---- points ---- */

static struct text field_of(const struct search *s, const struct tool *tool, enum field field)
{
        return (struct text){buffer_bytes(&s->text) + tool->fields[field],
                             tool->fields[field + 1] - tool->fields[field]};
}

static bool is_same(struct text a, struct text b)
{
        return a.n == b.n && memcmp(a.at, b.at, b.n) == 0;
}

/* The points of a word that is found in a field, as a part of a word or as a word. */
static unsigned points_of(enum field field, bool is_whole, size_t n)
{
        switch (field) {
        case FIELD_NAME:
                return is_whole ? POINTS_NAME : POINTS_NAME_PART;
        case FIELD_SERVER:
                return is_whole ? POINTS_SERVER : 0;
        case FIELD_DESCRIPTION:
                return is_whole            ? POINTS_DESCRIPTION
                       : n < SUBSTRING_MIN ? 0
                                           : POINTS_DESCRIPTION_PART;
        case FIELD_PARAMETERS:
                return is_whole ? POINTS_PARAMETER : 0;
        default:
                return 0;
        }
}

/* Which words begin with a pair of bytes, a bit each: few places of the text have such a pair. */
struct pairs {
        uint16_t words[1 << 16];
};
static_assert(TOOL_SEARCH_WORDS_MAX <= 16, "a bit for each word");

static uint16_t pair_at(const char *at)
{
        uint16_t pair;

        memcpy(&pair, at, sizeof(pair));
        return pair;
}

static void read_pairs(const struct search *s, struct pairs *ret)
{
        for (size_t i = 0; i < s->n_words; i++) {
                struct text word = s->words[i];
                char begin[2] = {word.at[0], word.at[1]};
                for (int c = 0; c < (word.n == 1 ? 256 : 1); c++) {
                        if (word.n == 1)
                                begin[1] = (char)c;
                        ret->words[pair_at(begin)] |= (uint16_t)(1U << i);
                }
        }
}

/* The best match of each word counts, once. */
static unsigned rate_field(const struct search *s, const struct pairs *pairs, struct text text,
                           enum field field)
{
        unsigned best[TOOL_SEARCH_WORDS_MAX] = {}, sum = 0;
        const char *end = text.at + text.n - 1; /* a space */

        for (const char *at = text.at; at < end; at++) {
                for (unsigned bits = pairs->words[pair_at(at)]; bits; bits &= bits - 1) {
                        int i = __builtin_ctz(bits);
                        struct text word = s->words[i];
                        if (word.n > (size_t)(end - at) || memcmp(at, word.at, word.n) != 0)
                                continue;
                        bool is_whole = at[-1] == ' ' && at[word.n] == ' ';
                        unsigned points = points_of(field, is_whole, word.n);
                        sum += points > best[i] ? points - best[i] : 0;
                        best[i] = points > best[i] ? points : best[i];
                }
        }
        return sum;
}

static unsigned rate_name(const struct search *s, const struct tool *tool)
{
        struct text qualified = field_of(s, tool, FIELD_QUALIFIED);
        struct text plain = field_of(s, tool, FIELD_PLAIN);
        size_t n = yyjson_get_len(yyjson_obj_get(tool->value, "name"));
        struct text name = {qualified.at + qualified.n - n, n};
        struct text lower = {buffer_bytes(&s->lower), s->lower.length};
        struct text asked = {buffer_bytes(&s->plain), s->plain.length};

        if (is_same(lower, name) || is_same(lower, qualified))
                return POINTS_EXACT;
        if (is_same(asked, plain))
                return POINTS_SAME_WORDS;
        /* The last word of the query may be the beginning of a word. */
        if (asked.n - 1 <= plain.n && memcmp(asked.at, plain.at, asked.n - 1) == 0)
                return POINTS_PREFIX;
        return 0;
}

static void rate(struct search *s)
{
        struct pairs pairs = {};

        read_pairs(s, &pairs);
        for (size_t i = 0; i < s->n; i++) {
                struct tool *tool = &s->tools[i];
                tool->points = s->n_words > 0 ? rate_name(s, tool) : 1;
                for (int field = FIELD_NAME; s->n_words > 0 && field < FIELD_MAX; field++)
                        tool->points += rate_field(s, &pairs, field_of(s, tool, (enum field)field),
                                                   (enum field)field);
        }
}

/* ---- the answer ---- */

static int compare(const void *a, const void *b)
{
        const struct tool *x = a, *y = b;

        if (x->points != y->points)
                return x->points > y->points ? -1 : 1;
        return x->value < y->value ? -1 : x->value > y->value; /* in the order of the catalogue */
}

static int append_answer(struct search *s, size_t limit, struct buffer *to)
{
        struct json_out out = {.to = to};

        qsort(s->tools, s->n, sizeof(*s->tools), compare);
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "tools", '[');
        for (size_t i = 0; i < s->n && i < limit && s->tools[i].points > 0; i++) {
                json_out_begin(&out, NULL, '{');
                json_out_value(&out, "server", s->tools[i].server);
                json_out_value(&out, "tool", s->tools[i].value);
                json_out_end(&out, '}');
        }
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        return out.error;
}

static int read_query(struct search *s, const char *text, size_t n)
{
        int r = append_lower_text(&s->lower, text, n);

        if (r >= 0)
                r = tool_words_append(&s->plain, text, n, false, TOOL_SEARCH_WORDS_MAX);
        if (r >= 0)
                r = tool_words_append(&s->stems, text, n, true, TOOL_SEARCH_WORDS_MAX);
        if (r < 0)
                return r;
        /* " word word ": a space follows each word. */
        const char *at = buffer_bytes(&s->stems) + 1;
        for (s->n_words = 0; s->n_words < (size_t)r; s->n_words++) {
                const char *end = rawmemchr(at, ' ');
                s->words[s->n_words] = (struct text){at, (size_t)(end - at)};
                at = end + 1;
        }
        return 0;
}

int tool_search(const struct buffer *catalogue, const char *query, size_t n, size_t limit,
                struct buffer *to)
{
        struct search s = {.lower = BUFFER_INIT(TEXT_MAX),
                           .plain = BUFFER_INIT(TEXT_MAX),
                           .stems = BUFFER_INIT(TEXT_MAX),
                           .text = BUFFER_INIT(TEXT_MAX)};
        _cleanup_json_ yyjson_doc *doc = NULL;

        int r = json_parse(buffer_bytes(catalogue), catalogue->length, &doc, NULL);
        if (r >= 0)
                r = read_query(&s, query, n < TOOL_SEARCH_BYTES_MAX ? n : TOOL_SEARCH_BYTES_MAX);
        if (r >= 0)
                r = read_catalogue(&s, yyjson_obj_get(yyjson_doc_get_root(doc), "servers"));
        if (r >= 0) {
                rate(&s);
                r = append_answer(&s, limit, to);
        }
        buffer_done(&s.lower);
        buffer_done(&s.plain);
        buffer_done(&s.stems);
        buffer_done(&s.text);
        free(s.tools);
        return r;
}
