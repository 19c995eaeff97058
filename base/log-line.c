/* Lines of the log in each format. */
#include "base/log-line.h"

#include <assert.h>
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "base/utf8.h"

enum {
        LINE_TAIL = 8,      /* space for the end of the line */
        CUT_TAIL = 64,      /* space behind a text that was cut, for the rest of the line */
        PRIORITY_ERROR = 3, /* syslog(3) */
};

static const char *const level_names[] = {
        [LOG_LEVEL_ERROR] = "error",
        [LOG_LEVEL_WARNING] = "warning",
        [LOG_LEVEL_INFO] = "info",
        [LOG_LEVEL_DEBUG] = "debug",
};
static_assert(sizeof(level_names) / sizeof(level_names[0]) == LOG_LEVEL_MAX, "a name a level");

static const char *const format_names[] = {"text", "json", "plain", "journal"};
static_assert(sizeof(format_names) / sizeof(format_names[0]) == LOG_FORMAT_MAX, "a name a format");

const char *log_level_name(enum log_level level)
{
        return level_names[level];
}

static int index_of(const char *name, const char *const *names, int n)
{
        for (int i = 0; i < n; i++)
                if (strcmp(names[i], name) == 0)
                        return i;
        return -EINVAL;
}

int log_level_from_name(const char *name)
{
        return index_of(name, level_names, LOG_LEVEL_MAX);
}

int log_format_from_name(const char *name)
{
        return index_of(name, format_names, LOG_FORMAT_MAX);
}

const char *log_format_name(enum log_format format)
{
        return format_names[format];
}

static size_t room(const struct log_line *line)
{
        return line->most - LINE_TAIL - line->n;
}

static void put(struct log_line *line, const char *text, size_t n)
{
        n = n > room(line) ? room(line) : n;
        memcpy(line->text + line->n, text, n);
        line->n += n;
}

/* Inline: the length of most texts is known to the compiler. */
static inline __attribute__((always_inline)) void put_text(struct log_line *line, const char *text)
{
        put(line, text, strlen(text));
}

static const char *number_text(uint64_t number, char to[24])
{
        char *at = to + 23;

        *at = '\0';
        do
                *--at = (char)('0' + number % 10);
        while ((number /= 10) > 0);
        return at;
}

static void put_number(struct log_line *line, uint64_t number)
{
        char text[24];

        put_text(line, number_text(number, text));
}

/* Writes a character as JSON escapes it. */
static void escape(uint32_t c, char to[13])
{
        if (c > 0xffff)
                snprintf(to, 13, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        else
                snprintf(to, 13, "\\u%04x", c);
}

/* Appends a character of JSON text. Returns how many bytes of `text` it was. */
static size_t put_character(struct log_line *line, const unsigned char *text, size_t left)
{
        int n = utf8_next(text, left < 4 ? left : 4);
        char escaped[13];

        if (n <= 0) {
                put_text(line, "\xef\xbf\xbd");
                return 1;
        }
        uint32_t c = utf8_decode(text, n);
        if (c == '"' || c == '\\') {
                put(line, "\\", 1);
        } else if (c == '\n') {
                put_text(line, "\\n");
                return 1;
        } else if (!printable_is(c)) {
                escape(c, escaped);
                put_text(line, escaped);
                return (size_t)n;
        }
        put(line, (const char *)text, (size_t)n);
        return (size_t)n;
}

/* Most of all text: it is written as it is. */
static bool is_plain(char c)
{
        return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* Cut between characters, so that `spare` bytes remain. Returns whether all of it fitted. */
static bool put_string(struct log_line *line, const char *text, size_t n, size_t spare)
{
        size_t at = 0;

        put(line, "\"", 1);
        while (at < n && room(line) > spare + 16) {
                size_t most = room(line) - spare - 16, plain = at;
                while (plain < n && plain - at < most && is_plain(text[plain]))
                        plain++;
                put(line, text + at, plain - at);
                at = plain;
                if (at < n && room(line) > spare + 16)
                        at += put_character(line, (const unsigned char *)text + at, n - at);
        }
        put(line, "\"", 1);
        return at == n;
}

static void put_time(struct log_line *line)
{
        static char second[48]; /* as it was written last */
        static time_t written = -1;
        struct timespec now;
        struct tm tm;

        clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec != written) {
                gmtime_r(&now.tv_sec, &tm);
                strftime(second, sizeof(second), "%Y-%m-%dT%H:%M:%S", &tm);
                written = now.tv_sec;
        }
        unsigned ms = (unsigned)(now.tv_nsec / 1000000);
        const char rest[] = {'.', (char)('0' + ms / 100), (char)('0' + ms / 10 % 10),
                             (char)('0' + ms % 10), 'Z'};
        put_text(line, second);
        put(line, rest, sizeof(rest));
}

/* ---- the owner of a line ---- */

/* The ids that are set, with their names. */
struct id {
        const char *name;
        const char *text; /* NULL: a number */
        uint64_t number;
        bool is_json;
        bool in_text; /* also in a line for people */
};

enum { IDS_MAX = 10 };

struct ids {
        size_t n;
        struct id list[IDS_MAX];
        char principal[128], session[160], request[512], client[160], server[160], tool[288];
};

static void add_id(struct ids *ids, const struct id *id)
{
        if (id->text ? *id->text == '\0' : id->number == 0)
                return;
        assert(ids->n < IDS_MAX);
        ids->list[ids->n++] = *id;
}

static void add_name(struct ids *ids, const char *name, const char *text, char *to, size_t size,
                     bool in_text)
{
        if (!text)
                return;
        printable_escape(to, size, text);
        add_id(ids, &(struct id){.name = name, .text = to, .in_text = in_text});
}

/* The client's id is JSON, in which control characters are already escaped. Escapes the other characters that are not
 * printed: they are in a string. Returns false if it does not fit. */
static bool take_request(const char *json, char *to, size_t size)
{
        size_t n = strlen(json), used = 0;

        for (size_t at = 0; at < n;) {
                const unsigned char *text = (const unsigned char *)json + at;
                int length = utf8_next(text, n - at);
                if (length <= 0 || used + 13 > size)
                        return false;
                uint32_t c = utf8_decode(text, length);
                if (printable_is(c))
                        memcpy(to + used, text, (size_t)length);
                else
                        escape(c, to + used);
                used += printable_is(c) ? (size_t)length : strlen(to + used);
                at += (size_t)length;
        }
        to[used] = '\0';
        return true;
}

/* The session of a principal is named PRINCIPAL:SESSION; people see it so. */
static void add_session(struct ids *ids, const struct log_ids *of, bool split)
{
        const char *colon = split && of->session ? strchr(of->session, ':') : NULL;
        char name[sizeof(ids->principal)];

        if (colon)
                snprintf(name, sizeof(name), "%.*s", (int)(colon - of->session), of->session);
        if (split)
                add_name(ids, "principal", colon ? name : of->principal, ids->principal,
                         sizeof(ids->principal), true);
        add_name(ids, "session", colon ? colon + 1 : of->session, ids->session,
                 sizeof(ids->session), true);
}

static void take_ids(struct ids *ids, const struct log_ids *of, const struct log_source *source,
                     bool split)
{
        ids->n = 0;
        if (*source->node && split)
                add_id(ids, &(struct id){.name = "node", .text = source->node});
        if (!of)
                return;
        add_session(ids, of, split);
        add_name(ids, "client", of->client, ids->client, sizeof(ids->client), false);
        if (of->request && take_request(of->request, ids->request, sizeof(ids->request))) {
                add_id(ids, &(struct id){.name = "request",
                                         .text = ids->request,
                                         .is_json = true,
                                         .in_text = true});
        }
        add_id(ids, &(struct id){.name = "cell", .number = of->cell, .in_text = true});
        add_id(ids, &(struct id){.name = "call", .number = of->call, .in_text = true});
        add_name(ids, "server", of->server, ids->server, sizeof(ids->server), true);
        add_name(ids, "tool", of->tool, ids->tool, sizeof(ids->tool), true);
        if (of->trace_id)
                add_id(ids, &(struct id){.name = "trace_id", .text = of->trace_id});
}

/* ---- lines for people ---- */

static void put_ids(struct log_line *line, const struct ids *ids)
{
        bool first = true;

        for (size_t i = 0; i < ids->n; i++) {
                const struct id *id = &ids->list[i];
                if (!id->in_text)
                        continue;
                put_text(line, first ? " [" : ", ");
                put_text(line, id->name);
                put_text(line, " ");
                if (id->text)
                        put_text(line, id->text);
                else
                        put_number(line, id->number);
                first = false;
        }
        if (!first)
                put_text(line, "]");
}

static void make_text(struct log_line *line, const struct log_source *source,
                      const struct log_message *m, const struct ids *ids)
{
        put_text(line, source->program);
        put_text(line, ": ");
        put_text(line, log_level_name(m->level));
        put_text(line, ": ");
        put_text(line, m->text);
        put_ids(line, ids);
}

/* As Python's logging writes lines: "12:00:00 cloister WARNING …", in local time. */
static void make_plain(struct log_line *line, const struct log_source *source,
                       const struct log_message *m, const struct ids *ids)
{
        time_t now = time(NULL);
        struct tm tm;
        char text[48];

        localtime_r(&now, &tm);
        strftime(text, sizeof(text), "%H:%M:%S ", &tm);
        put_text(line, text);
        put_text(line, source->program);
        put_text(line, " ");
        for (const char *c = log_level_name(m->level); *c; c++)
                put(line, (const char[]){(char)toupper((unsigned char)*c)}, 1);
        put_text(line, " ");
        put_text(line, m->text);
        put_ids(line, ids);
}

/* ---- JSON ---- */

static void put_key(struct log_line *line, const char *name)
{
        put_text(line, ",\"");
        put_text(line, name);
        put_text(line, "\":");
}

static void put_member(struct log_line *line, const struct log_field *field)
{
        size_t before = line->n;

        if (room(line) < CUT_TAIL + strlen(field->name) + field->n + 32)
                return;
        put_key(line, field->name);
        if (field->kind == LOG_NUMBER)
                put_number(line, field->number);
        else if (field->kind == LOG_BOOL)
                put_text(line, field->number ? "true" : "false");
        else if (field->kind == LOG_JSON)
                put(line, field->text, field->n);
        else if (!put_string(line, field->text, field->n, CUT_TAIL))
                line->n = before;
}

static void put_code(struct log_line *line, const struct log_field *field)
{
        put_key(line, field->name);
        bool is_whole = put_string(line, field->text, field->n, CUT_TAIL);
        put_key(line, "code_cut");
        put_text(line, is_whole && !field->number ? "false" : "true");
}

static void put_fields(struct log_line *line, const struct log_record *record, bool code,
                       void (*put_one)(struct log_line *line, const struct log_field *field))
{
        for (size_t i = 0; record && i < record->n; i++) {
                if ((record->fields[i].kind == LOG_CODE) == code)
                        put_one(line, &record->fields[i]);
        }
}

static void make_json(struct log_line *line, const struct log_source *source,
                      const struct log_message *m, const struct ids *ids)
{
        put_text(line, "{\"time\":\"");
        put_time(line);
        put_text(line, "\",\"level\":\"");
        put_text(line, log_level_name(m->level));
        put_text(line, "\",\"program\":\"");
        put_text(line, source->program);
        put_text(line, "\"");
        if (m->record) {
                put_key(line, "event");
                put_string(line, m->record->event, strlen(m->record->event), 0);
        }
        for (size_t i = 0; i < ids->n; i++) {
                put_key(line, ids->list[i].name);
                if (!ids->list[i].text)
                        put_number(line, ids->list[i].number);
                else if (ids->list[i].is_json)
                        put_text(line, ids->list[i].text);
                else
                        put_string(line, ids->list[i].text, strlen(ids->list[i].text), 0);
        }
        put_fields(line, m->record, false, put_member);
        put_key(line, "message");
        put_string(line, m->text, strlen(m->text), m->record ? CUT_TAIL : 0);
        put_fields(line, m->record, true, put_code);
        line->text[line->n++] = '}';
}

/* ---- journald ---- */

/* Appends a field, whole or not at all. name: upper case. */
static void put_entry(struct log_line *line, const char *prefix, const char *name,
                      const char *value, size_t n)
{
        const uint64_t length = htole64(n);
        size_t name_at;

        if (room(line) < strlen(prefix) + strlen(name) + sizeof(length) + n + 3)
                return;
        put_text(line, prefix);
        name_at = line->n;
        put_text(line, name);
        for (size_t i = name_at; i < line->n; i++)
                line->text[i] = (char)toupper((unsigned char)line->text[i]);
        if (memchr(value, '\n', n)) {
                put(line, "\n", 1);
                put(line, (const char *)&length, sizeof(length));
        } else {
                put(line, "=", 1);
        }
        put(line, value, n);
        put(line, "\n", 1);
}

static void put_entry_number(struct log_line *line, const char *prefix, const char *name,
                             uint64_t number)
{
        char text[24];
        const char *digits = number_text(number, text);

        put_entry(line, prefix, name, digits, strlen(digits));
}

static const char own[] = "CLOISTER_";

static void put_entry_field(struct log_line *line, const struct log_field *field)
{
        if (field->kind == LOG_NUMBER)
                put_entry_number(line, own, field->name, field->number);
        else if (field->kind == LOG_BOOL)
                put_entry(line, own, field->name, field->number ? "true" : "false",
                          field->number ? 4 : 5);
        else
                put_entry(line, own, field->name, field->text, field->n);
}

static void put_entry_code(struct log_line *line, const struct log_field *field)
{
        size_t most = room(line) > CUT_TAIL + 32 ? room(line) - CUT_TAIL - 32 : 0;
        size_t n = field->n <= most ? field->n : utf8_cut(field->text, field->n, most);
        bool is_cut = n < field->n || field->number;

        put_entry(line, own, field->name, field->text, n);
        put_entry(line, own, "code_cut", is_cut ? "true" : "false", is_cut ? 4 : 5);
}

static void make_entry(struct log_line *line, const struct log_source *source,
                       const struct log_message *m, const struct ids *ids)
{
        static const unsigned char priorities[] = {PRIORITY_ERROR, PRIORITY_ERROR + 1,
                                                   PRIORITY_ERROR + 3, PRIORITY_ERROR + 4};
        static_assert(ARRAY_SIZE(priorities) == LOG_LEVEL_MAX, "a priority for each level");
        size_t n = strlen(m->text);

        put_entry_number(line, "", "PRIORITY", priorities[m->level]);
        put_entry(line, "", "SYSLOG_IDENTIFIER", source->program, strlen(source->program));
        if (m->record) {
                put_entry(line, own, "EVENT", m->record->event, strlen(m->record->event));
                put_entry(line, "", "MESSAGE_ID", m->record->message_id,
                          strlen(m->record->message_id));
        }
        for (size_t i = 0; i < ids->n; i++) {
                const struct id *id = &ids->list[i];
                if (id->text)
                        put_entry(line, own, id->name, id->text, strlen(id->text));
                else
                        put_entry_number(line, own, id->name, id->number);
        }
        put_entry(line, "", "MESSAGE", m->text, n);
        put_fields(line, m->record, false, put_entry_field);
        put_fields(line, m->record, true, put_entry_code);
}

void log_line_make(struct log_line *line, enum log_format format, const struct log_source *source,
                   const struct log_message *message)
{
        static void (*const makers[])(struct log_line * line, const struct log_source *source,
                                      const struct log_message *m, const struct ids *ids) = {
                [LOG_FORMAT_TEXT] = make_text,
                [LOG_FORMAT_JSON] = make_json,
                [LOG_FORMAT_PLAIN] = make_plain,
                [LOG_FORMAT_JOURNAL] = make_entry,
        };
        static_assert(ARRAY_SIZE(makers) == LOG_FORMAT_MAX, "a form for each format");
        bool is_for_programs = format == LOG_FORMAT_JSON || format == LOG_FORMAT_JOURNAL;
        struct ids ids _uninitialized_;

        line->n = 0;
        line->most = message->record || format == LOG_FORMAT_JOURNAL ? LOG_RECORD_MAX
                                                                     : LOG_LINE_MAX;
        take_ids(&ids, message->ids, source, is_for_programs);
        makers[format](line, source, message, &ids);
        if (format != LOG_FORMAT_JOURNAL)
                line->text[line->n++] = '\n';
}
