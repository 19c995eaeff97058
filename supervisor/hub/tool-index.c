/* The index of the tools. */
#include "supervisor/hub/tool-index.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "rpc/background.h"
#include "supervisor/hub/tool-words.h"

enum {
        TEXT_MAX = 128 * 1024 * 1024, /* more than the words of any catalogue */
        SUBSTRING_MIN = 4, /* bytes of a word that is looked for inside those of a description */
};

/* Points, so that no number of words outweighs a better match of the name. */
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
        FIELD_NAME,      /* from here on words without their endings */
        FIELD_SERVER,
        FIELD_DESCRIPTION,
        FIELD_PARAMETERS,
        FIELD_MAX
};

struct slice {
        uint32_t at, length;
};

struct entry {
        struct slice json;   /* in the catalogue */
        struct slice server; /* its name there, with quotes */
        uint32_t fields[FIELD_MAX + 1];
        uint32_t name_length; /* of the end of FIELD_QUALIFIED */
};

struct tool_index {
        unsigned refs;
        pthread_mutex_t mutex; /* for making it */
        bool made;
        int error; /* of making it */
        struct buffer catalogue, text;
        struct entry *entries;
        size_t n, allocated;
};

struct tool_index *tool_index_new(const struct buffer *catalogue)
{
        struct tool_index *index = calloc(1, sizeof(*index));

        if (!index)
                return NULL;
        index->refs = 1;
        pthread_mutex_init(&index->mutex, NULL);
        buffer_init(&index->text, TEXT_MAX);
        buffer_init(&index->catalogue, catalogue->length + 1);
        if (buffer_append(&index->catalogue, buffer_bytes(catalogue), catalogue->length) < 0)
                return tool_index_unref(index);
        return index;
}

struct tool_index *tool_index_ref(struct tool_index *index)
{
        __atomic_add_fetch(&index->refs, 1, __ATOMIC_RELAXED);
        return index;
}

struct tool_index *tool_index_unref(struct tool_index *index)
{
        if (!index || __atomic_sub_fetch(&index->refs, 1, __ATOMIC_ACQ_REL) > 0)
                return NULL;
        pthread_mutex_destroy(&index->mutex);
        background_free(index->catalogue.data, index->catalogue.allocated);
        background_free(index->text.data, index->text.allocated);
        free(index->entries);
        free(index);
        return NULL;
}

/* ---- making it ---- */

static size_t end_of_string(const char *text, size_t at)
{
        for (at++; text[at] != '"'; at++)
                at += text[at] == '\\';
        return at;
}

static struct entry *add_entry(struct tool_index *index)
{
        if (index->n == index->allocated) {
                size_t more = index->allocated ? index->allocated * 2 : 64;
                struct entry *entries = reallocarray(index->entries, more, sizeof(*entries));
                if (!entries)
                        return NULL;
                index->entries = entries;
                index->allocated = more;
        }
        index->entries[index->n] = (struct entry){};
        return &index->entries[index->n++];
}

/*
 * Finds where each tool is. The catalogue is JSON that this process wrote, without blanks:
 * {"servers":[{"name":"…",…,"tools":[{…},…]},…]}: a server's braces are the second ones, a tool's the third.
 */
static int find_tools(struct tool_index *index)
{
        static const char before_name[] = "{\"name\":";
        const char *text = buffer_bytes(&index->catalogue);
        struct slice server = {};
        struct entry *entry = NULL;
        int depth = 0;

        for (size_t at = 0; at < index->catalogue.length; at++) {
                if (text[at] == '"')
                        at = end_of_string(text, at);
                depth += text[at] == '{';
                if (text[at] == '{' && depth == 2) {
                        size_t name = at + strlen(before_name);
                        server = (struct slice){(uint32_t)name,
                                                (uint32_t)(end_of_string(text, name) + 1 - name)};
                } else if (text[at] == '{' && depth == 3) {
                        entry = add_entry(index);
                        if (!entry)
                                return -ENOMEM;
                        entry->server = server;
                        entry->json.at = (uint32_t)at;
                } else if (text[at] == '}' && depth == 3) {
                        entry->json.length = (uint32_t)(at + 1) - entry->json.at;
                }
                depth -= text[at] == '}';
        }
        return 0;
}

static int append_words(struct tool_index *index, yyjson_val *value, bool stems)
{
        const char *text = yyjson_is_str(value) ? yyjson_get_str(value) : "";

        return tool_words_append(&index->text, text,
                                 yyjson_is_str(value) ? yyjson_get_len(value) : 0, stems,
                                 INT32_MAX);
}

static int append_parameters(struct tool_index *index, yyjson_val *tool)
{
        yyjson_val *properties = yyjson_ptr_get(tool, "/inputSchema/properties"), *key, *value;
        size_t i, n;
        int r = buffer_append(&index->text, " ", 1);

        yyjson_obj_foreach (properties, i, n, key, value) {
                if (r >= 0)
                        r = append_words(index, key, true);
        }
        return r;
}

static int append_qualified(struct tool_index *index, struct entry *entry, yyjson_val *server,
                            yyjson_val *name)
{
        int r = tool_words_lower(&index->text, yyjson_get_str(server), yyjson_get_len(server));

        if (r >= 0)
                r = buffer_append(&index->text, ".", 1);
        size_t begin = index->text.length;
        if (r >= 0)
                r = tool_words_lower(&index->text, yyjson_get_str(name), yyjson_get_len(name));
        entry->name_length = (uint32_t)(index->text.length - begin);
        return r;
}

static int append_field(struct tool_index *index, struct entry *entry, enum field field,
                        yyjson_val *server, yyjson_val *tool)
{
        yyjson_val *name = yyjson_obj_get(tool, "name");

        switch (field) {
        case FIELD_QUALIFIED:
                return append_qualified(index, entry, server, name);
        case FIELD_PLAIN:
                return append_words(index, name, false);
        case FIELD_NAME:
                return append_words(index, name, true);
        case FIELD_SERVER:
                return append_words(index, server, true);
        case FIELD_DESCRIPTION:
                return append_words(index, yyjson_obj_get(tool, "description"), true);
        default:
                return append_parameters(index, tool);
        }
}

static int read_tool(struct tool_index *index, struct entry *entry)
{
        const char *text = buffer_bytes(&index->catalogue);
        _cleanup_json_ yyjson_doc *server = NULL, *tool = NULL;
        int r = json_parse(text + entry->server.at, entry->server.length, &server, NULL);

        if (r >= 0)
                r = json_parse(text + entry->json.at, entry->json.length, &tool, NULL);
        for (int i = 0; i < FIELD_MAX && r >= 0; i++) {
                entry->fields[i] = (uint32_t)index->text.length;
                r = append_field(index, entry, (enum field)i, yyjson_doc_get_root(server),
                                 yyjson_doc_get_root(tool));
        }
        entry->fields[FIELD_MAX] = (uint32_t)index->text.length;
        return r < 0 ? r : 0;
}

static int make(struct tool_index *index)
{
        int r = find_tools(index);

        for (size_t i = 0; i < index->n && r >= 0; i++)
                r = read_tool(index, &index->entries[i]);
        return r;
}

static int make_once(struct tool_index *index)
{
        pthread_mutex_lock(&index->mutex);
        if (!index->made)
                index->error = make(index);
        index->made = true;
        pthread_mutex_unlock(&index->mutex);
        return index->error;
}

/* ---- searching ---- */

struct text {
        const char *at;
        size_t n;
};

struct query {
        struct buffer lower, plain, stems;
        struct text words[TOOL_SEARCH_WORDS_MAX]; /* in stems */
        size_t n;
};

static struct text field_of(const struct tool_index *index, const struct entry *entry,
                            enum field field)
{
        return (struct text){buffer_bytes(&index->text) + entry->fields[field],
                             entry->fields[field + 1] - entry->fields[field]};
}

static bool is_same(struct text a, struct text b)
{
        return a.n == b.n && memcmp(a.at, b.at, b.n) == 0;
}

/* How a word is in words: 2 as a word, 1 as a part of one, 0 not at all. */
static int find_word(struct text in, struct text word)
{
        const char *end = in.at + in.n, *at = in.at;
        int found = 0;

        while ((at = memmem(at, (size_t)(end - at), word.at, word.n))) {
                if (at[-1] == ' ' && at[word.n] == ' ')
                        return 2;
                found = 1;
                at = memchr(at, ' ', (size_t)(end - at));
        }
        return found;
}

static unsigned score_word(const struct tool_index *index, const struct entry *entry,
                           struct text word)
{
        static const unsigned name[] = {0, POINTS_NAME_PART, POINTS_NAME},
                              server[] = {0, 0, POINTS_SERVER},
                              description[] = {0, POINTS_DESCRIPTION_PART, POINTS_DESCRIPTION},
                              parameter[] = {0, 0, POINTS_PARAMETER};
        int described = find_word(field_of(index, entry, FIELD_DESCRIPTION), word);

        if (described == 1 && word.n < SUBSTRING_MIN)
                described = 0;
        return name[find_word(field_of(index, entry, FIELD_NAME), word)] +
               server[find_word(field_of(index, entry, FIELD_SERVER), word)] +
               description[described] +
               parameter[find_word(field_of(index, entry, FIELD_PARAMETERS), word)];
}

static unsigned score(const struct tool_index *index, const struct entry *entry,
                      const struct query *query)
{
        struct text qualified = field_of(index, entry, FIELD_QUALIFIED);
        struct text plain = field_of(index, entry, FIELD_PLAIN);
        struct text name = {qualified.at + qualified.n - entry->name_length, entry->name_length};
        struct text lower = {buffer_bytes(&query->lower), query->lower.length};
        struct text asked = {buffer_bytes(&query->plain), query->plain.length};
        unsigned points = 0;

        if (is_same(lower, name) || is_same(lower, qualified))
                points = POINTS_EXACT;
        else if (is_same(asked, plain))
                points = POINTS_SAME_WORDS;
        else if (asked.n - 1 <= plain.n && memcmp(asked.at, plain.at, asked.n - 1) == 0)
                points = POINTS_PREFIX; /* the last word may go on */
        for (size_t i = 0; i < query->n; i++)
                points += score_word(index, entry, query->words[i]);
        return points;
}

struct hit {
        unsigned points, place;
};

static int compare(const void *a, const void *b)
{
        const struct hit *x = a, *y = b;

        if (x->points != y->points)
                return x->points > y->points ? -1 : 1;
        return x->place < y->place ? -1 : x->place > y->place;
}

static int append_hit(const struct tool_index *index, const struct entry *entry, struct buffer *to)
{
        const char *text = buffer_bytes(&index->catalogue);
        int r = buffer_append_text(to, "{\"server\":");

        if (r >= 0)
                r = buffer_append(to, text + entry->server.at, entry->server.length);
        if (r >= 0)
                r = buffer_append_text(to, ",\"tool\":");
        if (r >= 0)
                r = buffer_append(to, text + entry->json.at, entry->json.length);
        return r < 0 ? r : buffer_append(to, "}", 1);
}

static int append_hits(const struct tool_index *index, const struct hit *hits, size_t n,
                       struct buffer *to)
{
        int r = buffer_append_text(to, "{\"tools\":[");

        for (size_t i = 0; i < n && r >= 0; i++) {
                if (i > 0)
                        r = buffer_append(to, ",", 1);
                if (r >= 0)
                        r = append_hit(index, &index->entries[hits[i].place], to);
        }
        return r < 0 ? r : buffer_append(to, "]}", 2);
}

static int read_query(const char *text, size_t n, struct query *query)
{
        int r = tool_words_lower(&query->lower, text, n);

        if (r >= 0)
                r = tool_words_append(&query->plain, text, n, false, TOOL_SEARCH_WORDS_MAX);
        if (r >= 0)
                r = tool_words_append(&query->stems, text, n, true, TOOL_SEARCH_WORDS_MAX);
        if (r < 0)
                return r;
        /* " word word ": each word ends with a space. */
        const char *at = buffer_bytes(&query->stems) + 1;
        for (query->n = 0; query->n < (size_t)r; query->n++) {
                const char *end = rawmemchr(at, ' ');
                query->words[query->n] = (struct text){at, (size_t)(end - at)};
                at = end + 1;
        }
        return 0;
}

static int search(const struct tool_index *index, const struct query *query, size_t limit,
                  struct buffer *to)
{
        struct hit *hits = malloc((index->n + 1) * sizeof(*hits));
        size_t n = 0;

        if (!hits)
                return -ENOMEM;
        for (size_t i = 0; i < index->n; i++) {
                unsigned points = query->n > 0 ? score(index, &index->entries[i], query) : 1;
                if (points > 0)
                        hits[n++] = (struct hit){points, (unsigned)i};
        }
        qsort(hits, n, sizeof(*hits), compare);
        int r = append_hits(index, hits, n < limit ? n : limit, to);
        free(hits);
        return r;
}

int tool_index_search(struct tool_index *index, const char *text, size_t n, size_t limit,
                      struct buffer *to)
{
        struct query query = {};
        int r = make_once(index);

        buffer_init(&query.lower, TEXT_MAX);
        buffer_init(&query.plain, TEXT_MAX);
        buffer_init(&query.stems, TEXT_MAX);
        if (r >= 0)
                r = read_query(text, n < TOOL_SEARCH_BYTES_MAX ? n : TOOL_SEARCH_BYTES_MAX, &query);
        if (r >= 0)
                r = search(index, &query, limit, to);
        buffer_done(&query.lower);
        buffer_done(&query.plain);
        buffer_done(&query.stems);
        return r;
}
