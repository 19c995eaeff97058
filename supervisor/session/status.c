/* Describes a session to others. */
#include "supervisor/session/status.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/state/copies.h"

enum { LINES_SEEN = 1024 }; /* bytes */

const char *session_name(const struct session *s)
{
        return s->name;
}

enum session_state session_state(const struct session *s)
{
        return s->state;
}

bool session_has_cells(const struct session *s)
{
        return s->queue.first != NULL;
}

bool session_is_full(const struct session *s)
{
        return s->queue.n >= SESSION_CELLS_MAX;
}

bool session_is_single(const struct session *s)
{
        return s->single;
}

bool session_awaits(const struct session *s, uint32_t serial)
{
        return (s->state == SESSION_CREATING || s->state == SESSION_DISCARDING) &&
               s->serial == serial;
}

bool session_has_target(const struct session *s, uint32_t target)
{
        return s->state >= SESSION_IDLE && s->target == target;
}

const char *session_lost(const struct session *s)
{
        return s->lost;
}

/* The last line that is not blank among the newest bytes of a text; a longer one is cut. */
static void copy_last_line(const struct buffer *text, char to[SESSION_LINE_MAX + 1])
{
        size_t most = LINES_SEEN, end = text->length, begin;
        const char *bytes = end > 0 ? buffer_bytes(text) : "";

        while (end > 0 && most-- > 0 && strchr(" \t\r\n", bytes[end - 1]))
                end--;
        for (begin = end; begin > 0 && most > 0 && !strchr("\r\n", bytes[begin - 1]); most--)
                begin--;
        while (begin < end && ((unsigned char)bytes[begin] & 0xc0) == 0x80)
                begin++;
        size_t n = end - begin < SESSION_LINE_MAX ? end - begin : SESSION_LINE_MAX;
        memcpy(to, bytes + begin, n);
        to[n] = '\0';
        utf8_trim(to);
}

void session_describe_running(const struct session *s, struct session_running *ret)
{
        const struct cell *cell = session_current(s);

        *ret = (struct session_running){};
        if (!cell)
                return;
        memcpy(ret->code, cell->excerpt, sizeof(ret->code));
        ret->duration_us = clock_us() - cell->started_us;
        for (int i = 0; i < CELL_STREAMS && !ret->line[0]; i++) {
                const struct capture *c = &cell->outcome.streams[i];
                copy_last_line(c->tail.length > 0 ? &c->tail : &c->head, ret->line);
        }
}

static int append_traffic(const struct session_traffic *t, struct buffer *to)
{
        return buffer_printf(
                to,
                ",\"tool_calls\":%llu,\"sent_bytes\":%llu,\"received_bytes\":%llu,\"output_bytes\":%llu",
                (unsigned long long)t->calls, (unsigned long long)t->sent,
                (unsigned long long)t->received, (unsigned long long)t->output);
}

/* The last line that the running cell has printed. */
static int append_line(const struct session *s, struct buffer *to)
{
        struct session_running running;

        session_describe_running(s, &running);
        if (!running.line[0])
                return 0;
        int r = buffer_append_text(to, ",\"line\":");
        return r < 0 ? r : json_append_string(to, running.line, strlen(running.line));
}

/* The sums of all cells, with the calls of the one that runs. */
static struct session_traffic traffic_of(const struct session *s)
{
        const struct cell *cell = session_current(s);
        struct session_traffic t = s->history.traffic;

        if (cell)
                t.calls += cell->outcome.calls_total;
        return t;
}

static int append_last(const struct session *s, struct buffer *to)
{
        const struct session_last *last = &s->history.last;
        const char *status = session_current(s) ? NULL : cell_status_name(last->status);
        uint64_t took = status ? last->duration_us : clock_us() - last->started_us;

        int r = buffer_printf(to, ",\"last\":{\"code\":");
        if (r >= 0)
                r = json_append_string(to, last->code, strlen(last->code));
        if (r >= 0 && status)
                r = buffer_printf(to, ",\"status\":\"%s\"", status);
        if (r >= 0)
                r = buffer_printf(to, ",\"duration_ms\":%llu", (unsigned long long)(took / 1000));
        if (r >= 0 && status)
                r = buffer_printf(to, ",\"cpu_ms\":%llu,\"memory_peak_bytes\":%llu",
                                  (unsigned long long)(last->cpu_us / 1000),
                                  (unsigned long long)last->memory_peak);
        if (r >= 0 && status)
                r = append_traffic(&last->traffic, to);
        if (r >= 0 && !status)
                r = append_line(s, to);
        return r < 0 ? r : buffer_append(to, "}", 1);
}

static int append_copies(const struct session *s, struct buffer *to)
{
        const struct copy *list = s->copies->list;
        size_t n = 0, newest = s->copies->n - 1;

        while (newest > 0 && list[newest].of_block)
                newest--;
        int r = buffer_printf(to, ",\"copy_of_cell\":%llu,\"checkpoints\":[",
                              (unsigned long long)list[newest].of);
        for (size_t i = 0; i < s->copies->n && r >= 0; i++) {
                if (list[i].name[0])
                        r = buffer_printf(
                                to, "%s{\"name\":\"%s\",\"cell\":%llu,\"age_ms\":%llu}",
                                n++ > 0 ? "," : "", list[i].name, (unsigned long long)list[i].of,
                                (unsigned long long)((clock_us() - list[i].made_us) / 1000));
        }
        return r < 0 ? r : buffer_append(to, "]", 1);
}

static int append_receipts(const struct session *s, struct buffer *to)
{
        struct json_out out = {.to = to, .more = true};

        receipts_put_all(&out, "receipts", &s->receipts);
        return out.error;
}

int session_append_status(const struct session *s, struct buffer *to)
{
        enum monitor_usage kind = session_usage_kind(s);
        uint64_t now = clock_us();
        bool runs = session_current(s) != NULL;
        const struct session_traffic traffic = traffic_of(s);
        bool idle = s->state >= SESSION_IDLE && s->state <= SESSION_SETTLING;

        int r = buffer_printf(to, "{\"name\":\"%s\"", s->name);
        if (r >= 0 && s->profile)
                r = buffer_printf(to, ",\"profile\":\"%s\"", s->profile->name);
        if (r < 0)
                return r;
        r = buffer_printf(
                to,
                ",\"state\":\"%s\",\"age_ms\":%llu,\"memory_bytes\":%llu,\"memory_peak_bytes\":%llu,\"cells\":%llu,\"waiting\":%zu",
                session_state_name(s->state), (unsigned long long)((now - s->born_us) / 1000),
                (unsigned long long)meter_memory(&s->meter, kind),
                (unsigned long long)meter_most(&s->meter, kind),
                (unsigned long long)s->history.n_run, s->queue.n - runs);
        if (r >= 0)
                r = buffer_printf(to, ",\"cpu_ms\":%llu",
                                  (unsigned long long)(meter_cpu_us(&s->meter, kind) / 1000));
        if (r >= 0)
                r = append_traffic(&traffic, to);
        if (r >= 0 && s->tasks.is_known)
                r = buffer_printf(to, ",\"tasks_made\":%llu", (unsigned long long)s->tasks.total);
        if (r >= 0 && idle)
                r = buffer_printf(to, ",\"idle_ms\":%llu",
                                  (unsigned long long)((now - s->history.used_us) / 1000));
        if (r >= 0 && copies_newest((struct session *)s))
                r = append_copies(s, to);
        if (r >= 0 && s->history.n_run > 0)
                r = append_last(s, to);
        if (r >= 0)
                r = append_receipts(s, to);
        return r < 0 ? r : buffer_append(to, "}", 1);
}

int session_append_receipt(const struct session *s, uint64_t cell, struct buffer *to)
{
        const struct receipt *receipt = receipts_find(&s->receipts, cell);
        struct json_out out = {.to = to};

        if (!receipt)
                return -ENOENT;
        receipts_put(&out, receipt, true);
        return out.error;
}
