/* What the owner sees and commands. */
#include "supervisor/session/session-list.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "supervisor/session/usage.h"

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

static const char *state_name(const struct session *s)
{
        return s->state == SESSION_IDLE && s->freezing.done ? "frozen"
                                                            : session_state_name(s->state);
}

static int append_one(const struct session *s, struct buffer *to)
{
        enum monitor_usage kind = (enum monitor_usage)s->set->hello.facts;
        uint64_t now = clock_us();
        bool runs = session_current(s) != NULL;

        int r = buffer_printf(to, "{\"name\":\"%s\"", s->name);
        if (r >= 0 && s->profile)
                r = buffer_printf(to, ",\"profile\":\"%s\"", s->profile->name);
        if (r < 0)
                return r;
        r = buffer_printf(
                to,
                ",\"state\":\"%s\",\"age_ms\":%llu,\"memory_bytes\":%llu,\"memory_peak_bytes\":%llu,\"cells\":%llu,\"waiting\":%zu",
                state_name(s), (unsigned long long)((now - s->born_us) / 1000),
                (unsigned long long)usage_memory(kind, s->memory_fd),
                (unsigned long long)usage_memory_peak(kind, s->peak_fd),
                (unsigned long long)s->n_run, s->n_cells - runs);
        if (r >= 0 && s->state == SESSION_IDLE)
                r = buffer_printf(to, ",\"idle_ms\":%llu",
                                  (unsigned long long)((now - s->used_us) / 1000));
        if (r >= 0 && s->n_run > 0)
                r = append_last(s, to);
        return r < 0 ? r : buffer_append(to, "}", 1);
}

int sessions_append_list(const struct sessions *sessions, struct buffer *to)
{
        bool first = true;

        int r = buffer_append(to, "[", 1);
        for (const struct session *s = sessions->first; s && r >= 0; s = s->next) {
                if (s->state == SESSION_NONE)
                        continue;
                if (!first)
                        r = buffer_append(to, ",", 1);
                first = false;
                if (r >= 0)
                        r = append_one(s, to);
        }
        return r < 0 ? r : buffer_append(to, "]", 1);
}

static struct session *find_live(struct sessions *sessions, const char *name)
{
        for (struct session *s = sessions->first; s; s = s->next)
                if (s->state != SESSION_NONE && strcmp(s->name, name) == 0)
                        return s;
        return NULL;
}

static int end(struct sessions *sessions, const char *name, bool again, struct error *err)
{
        struct session *s = find_live(sessions, name);

        if (!s)
                return error_set(err, ENOENT, "no live session is called \"%s\"", name);
        session_end_by_owner(s, again);
        return 0;
}

int sessions_end(struct sessions *sessions, const char *name, struct error *err)
{
        return end(sessions, name, false, err);
}

int sessions_reset(struct sessions *sessions, const char *name, struct error *err)
{
        return end(sessions, name, true, err);
}
