/*
 * Parses server-sent events (WHATWG HTML, "Server-sent events", 9.2.6).
 *
 *     while ((r = event_stream_feed(&s, bytes, n, &used)) == 1) {
 *             handle s.name, event_stream_data(&s), s.last_id, s.retry_ms
 *             bytes += used; n -= used;
 *     }
 *     r == 0: all bytes were used; r < 0: -EMSGSIZE, -ENOMEM: the stream cannot continue
 *
 * Bytes are handled once, wherever they are split. Every block of fields that has ended counts as an
 * event here, also one without data: it may set the id.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

enum {
        EVENT_NAME_MAX = 63,       /* a longer name is cut */
        EVENT_ID_MAX = 1024,       /* a longer id is ignored */
        EVENT_FIELD_MAX = 8,       /* the longest name of a field is "event" */
        EVENT_LINE_MAX = 64 << 10, /* of a comment, or a field that is not known */
};

struct event_stream {
        /* The event that ended last; the data is valid until the next call. */
        char name[EVENT_NAME_MAX + 1]; /* "" means "message" */
        struct buffer data;            /* with a newline at the end, unless empty */
        bool has_data;
        char last_id[EVENT_ID_MAX + 1]; /* as the server is to be told it; "": none */
        int64_t retry_ms;               /* what the server said last; -1: nothing */

        /* The parser's state. */
        enum {
                EVENT_AT_BOM,
                EVENT_IN_FIELD,
                EVENT_AT_VALUE, /* a blank may follow the colon */
                EVENT_IN_VALUE,
        } state;
        enum { EVENT_OTHER, EVENT_DATA, EVENT_NAME, EVENT_ID, EVENT_RETRY } kind;
        bool is_over;      /* the event was returned */
        bool after_return; /* the last byte was a carriage return */
        unsigned bom;      /* bytes of it that were seen */
        char field[EVENT_FIELD_MAX];
        size_t n_field, n_line, n_name, n_id;
        char id[EVENT_ID_MAX + 1]; /* of the event that is read */
        bool has_id, id_is_bad;
        int64_t retry;
        bool retry_is_bad;
};

void event_stream_init(struct event_stream *s, size_t data_max);
void event_stream_done(struct event_stream *s);

int event_stream_feed(struct event_stream *s, const char *bytes, size_t n, size_t *used);

/* The data without the last newline. */
const char *event_stream_data(const struct event_stream *s, size_t *n);

/*
 * Appends an event. id: of the event, or NULL. name: or NULL ("message"). data may have newlines; a
 * last one is left out. retry_ms: 0 for none.
 */
int sse_append_event(struct buffer *to, const char *id, const char *name, unsigned retry_ms,
                     const char *data, size_t n);
