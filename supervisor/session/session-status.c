/* What others may know about a session. */
#include <string.h>

#include "base/clock.h"
#include "supervisor/session/session-internal.h"

const char *session_name(const struct session *s)
{
        return s->name;
}

enum session_state session_state(const struct session *s)
{
        return s->state;
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

static int append_last(const struct session *s, struct buffer *to)
{
        const struct session_last *last = &s->last;
        const char *status = session_current(s) ? NULL : cell_status_name(last->status);
        uint64_t took = status ? last->duration_us : clock_us() - last->started_us;

        int r = buffer_printf(to, ",\"last\":{\"code\":");
        if (r >= 0)
                r = json_append_string(to, last->code, strlen(last->code));
        if (r >= 0 && status)
                r = buffer_printf(to, ",\"status\":\"%s\"", status);
        return r < 0 ? r
                     : buffer_printf(to, ",\"duration_ms\":%llu}",
                                     (unsigned long long)(took / 1000));
}

int session_append_status(const struct session *s, struct buffer *to)
{
        enum monitor_usage kind = session_usage_kind(s);
        uint64_t now = clock_us();
        bool runs = session_current(s) != NULL;
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
                (unsigned long long)usage_memory(kind, s->memory_fd),
                (unsigned long long)usage_memory_peak(kind, s->peak_fd),
                (unsigned long long)s->n_run, s->n_cells - runs);
        if (r >= 0 && idle)
                r = buffer_printf(to, ",\"idle_ms\":%llu",
                                  (unsigned long long)((now - s->used_us) / 1000));
        if (r >= 0 && s->n_run > 0)
                r = append_last(s, to);
        return r < 0 ? r : buffer_append(to, "}", 1);
}
