/* Server-sent events. */
#include "rpc/http/event-stream.h"

#include <errno.h>
#include <string.h>

enum { RETRY_MAX_MS = 24 * 3600 * 1000 };

static const char bom[] = "\xef\xbb\xbf";

void event_stream_init(struct event_stream *s, size_t data_max)
{
        *s = (struct event_stream){.retry_ms = -1};
        buffer_init(&s->data, data_max);
}

void event_stream_done(struct event_stream *s)
{
        buffer_done(&s->data);
}

const char *event_stream_data(const struct event_stream *s, size_t *n)
{
        *n = s->data.length > 0 ? s->data.length - 1 : 0;
        return s->data.length > 0 ? buffer_bytes(&s->data) : "";
}

static void begin_event(struct event_stream *s)
{
        s->is_over = false;
        s->has_data = false;
        s->name[0] = '\0';
        buffer_consume(&s->data, s->data.length);
}

/* The name of a field is complete. */
static void begin_value(struct event_stream *s)
{
        static const struct {
                const char *name;
                int kind;
        } kinds[] = {{"data", EVENT_DATA},
                     {"event", EVENT_NAME},
                     {"id", EVENT_ID},
                     {"retry", EVENT_RETRY}};

        s->kind = EVENT_OTHER;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (s->n_field == strlen(kinds[i].name) &&
                    memcmp(s->field, kinds[i].name, s->n_field) == 0)
                        s->kind = kinds[i].kind;
        }
        s->n_line = s->n_name = s->n_id = 0;
        s->id_is_bad = s->retry_is_bad = false;
        s->retry = -1;
        if (s->kind == EVENT_NAME)
                s->name[0] = '\0';
        s->has_data |= s->kind == EVENT_DATA;
        s->state = EVENT_AT_VALUE;
}

static int end_line(struct event_stream *s)
{
        if (s->state == EVENT_IN_FIELD && s->n_field > 0)
                begin_value(s);
        s->state = EVENT_IN_FIELD;
        s->n_field = 0;
        switch (s->kind) {
        case EVENT_DATA:
                s->kind = EVENT_OTHER;
                return buffer_append(&s->data, "\n", 1);
        case EVENT_NAME:
                s->name[s->n_name] = '\0';
                break;
        case EVENT_ID:
                s->has_id = !s->id_is_bad;
                s->id[s->n_id] = '\0';
                break;
        case EVENT_RETRY:
                if (!s->retry_is_bad && s->retry >= 0)
                        s->retry_ms = s->retry;
                break;
        default:
                break;
        }
        s->kind = EVENT_OTHER;
        return 0;
}

static void end_event(struct event_stream *s)
{
        if (s->has_id)
                memcpy(s->last_id, s->id, sizeof(s->id));
        s->has_id = false;
        s->is_over = true;
}

static void add_to_id(struct event_stream *s, const char *bytes, size_t n)
{
        if (s->n_id + n > EVENT_ID_MAX || memchr(bytes, '\0', n)) {
                s->id_is_bad = true;
                return;
        }
        memcpy(s->id + s->n_id, bytes, n);
        s->n_id += n;
}

static void add_to_name(struct event_stream *s, const char *bytes, size_t n)
{
        if (n > EVENT_NAME_MAX - s->n_name)
                n = EVENT_NAME_MAX - s->n_name;
        memcpy(s->name + s->n_name, bytes, n);
        s->n_name += n;
}

static void add_to_retry(struct event_stream *s, const char *bytes, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (bytes[i] < '0' || bytes[i] > '9')
                        s->retry_is_bad = true;
                if (s->retry_is_bad)
                        return;
                s->retry = (s->retry < 0 ? 0 : s->retry * 10) + (bytes[i] - '0');
                if (s->retry > RETRY_MAX_MS)
                        s->retry = RETRY_MAX_MS;
        }
}

static int add_to_value(struct event_stream *s, const char *bytes, size_t n)
{
        switch (s->kind) {
        case EVENT_DATA:
                return buffer_append(&s->data, bytes, n);
        case EVENT_NAME:
                add_to_name(s, bytes, n);
                return 0;
        case EVENT_ID:
                add_to_id(s, bytes, n);
                return 0;
        case EVENT_RETRY:
                add_to_retry(s, bytes, n);
                return 0;
        default:
                s->n_line += n;
                return s->n_line > EVENT_LINE_MAX ? -EMSGSIZE : 0;
        }
}

/* Bytes to the end of the line, which is a line feed, a carriage return or both. */
static size_t to_line_end(const char *bytes, size_t n)
{
        const char *feed = memchr(bytes, '\n', n);
        size_t most = feed ? (size_t)(feed - bytes) : n;
        const char *carriage = memchr(bytes, '\r', most);

        return carriage ? (size_t)(carriage - bytes) : most;
}

/* Takes some bytes of a line, at least one. Returns how many, or negative errno. */
static ssize_t take(struct event_stream *s, const char *bytes, size_t n)
{
        size_t length;
        int r;

        switch (s->state) {
        case EVENT_IN_FIELD:
                if (bytes[0] == ':')
                        begin_value(s);
                else if (s->n_field < EVENT_FIELD_MAX)
                        s->field[s->n_field++] = bytes[0];
                else if (s->n_line++ > EVENT_LINE_MAX)
                        return -EMSGSIZE;
                return 1;
        case EVENT_AT_VALUE:
                s->state = EVENT_IN_VALUE;
                if (bytes[0] == ' ')
                        return 1;
                __attribute__((fallthrough));
        default:
                length = to_line_end(bytes, n);
                r = add_to_value(s, bytes, length);
                return r < 0 ? r : (ssize_t)length;
        }
}

/* A byte order mark at the very beginning is skipped. Returns whether the byte was part of one. */
static bool skip_bom(struct event_stream *s, char byte)
{
        if (s->state != EVENT_AT_BOM)
                return false;
        if (byte == bom[s->bom]) {
                if (++s->bom == sizeof(bom) - 1)
                        s->state = EVENT_IN_FIELD;
                return true;
        }
        /* The previous bytes began the name of a field, which is then unknown. */
        memcpy(s->field, bom, s->bom);
        s->n_field = s->bom;
        s->state = EVENT_IN_FIELD;
        return false;
}

/* A line has ended; *is_event: it was blank, and ended an event. */
static int on_line_end(struct event_stream *s, bool *is_event)
{
        if (s->state == EVENT_IN_FIELD && s->n_field == 0) {
                end_event(s);
                *is_event = true;
                return 0;
        }
        s->n_line = 0;
        return end_line(s);
}

int event_stream_feed(struct event_stream *s, const char *bytes, size_t n, size_t *used)
{
        size_t at = 0;
        bool is_event = false;

        if (s->is_over)
                begin_event(s);
        while (at < n && !is_event) {
                char byte = bytes[at];
                bool pair = s->after_return && byte == '\n';
                ssize_t r = 1;

                s->after_return = byte == '\r';
                if (pair || skip_bom(s, byte))
                        r = 1;
                else if (byte == '\n' || byte == '\r')
                        r = on_line_end(s, &is_event);
                else
                        r = take(s, bytes + at, n - at);
                if (r < 0)
                        return (int)r;
                at += r > 0 ? (size_t)r : 1;
        }
        *used = at;
        return is_event;
}

/* ---- writing ---- */

static int append_data(struct buffer *to, const char *data, size_t n)
{
        const char *end = data + n;
        int r = 0;

        if (n > 0 && end[-1] == '\n')
                end--;
        do {
                const char *newline = data < end ? memchr(data, '\n', (size_t)(end - data)) : NULL;
                const char *line_end = newline ? newline : end;
                r = buffer_append(to, "data: ", 6);
                if (r >= 0)
                        r = buffer_append(to, data, (size_t)(line_end - data));
                if (r >= 0)
                        r = buffer_append(to, "\n", 1);
                data = line_end + 1;
        } while (r >= 0 && data <= end && n > 0);
        return r;
}

int sse_append_event(struct buffer *to, const char *id, const char *name, unsigned retry_ms,
                     const char *data, size_t n)
{
        int r = name ? buffer_printf(to, "event: %s\n", name) : 0;

        if (r >= 0 && id)
                r = buffer_printf(to, "id: %s\n", id);
        if (r >= 0 && retry_ms > 0)
                r = buffer_printf(to, "retry: %u\n", retry_ms);
        if (r >= 0)
                r = append_data(to, data, n);
        return r < 0 ? r : buffer_append(to, "\n", 1);
}
