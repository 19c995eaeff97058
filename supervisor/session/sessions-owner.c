/* Lists, ends and interrupts sessions, for the owner of a server and for the server as a whole. */
#include "supervisor/session/sessions-owner.h"

#include <errno.h>

#include "base/json-out.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/session.h"
#include "supervisor/session/sessions-internal.h"
#include "supervisor/session/state/restore.h"

/* ---- for the owner of the server ---- */

void sessions_count(const struct sessions *sessions, struct sessions_count *ret)
{
        *ret = (struct sessions_count){
                .names = sessions->n,
                .live = sessions_n_live(sessions),
                .max = sessions->context.hello.sessions_max,
                .spares_ready = pool_ready(sessions->pool),
                .spares_ending = pool_ending(sessions->pool),
        };
        ret->spares_coming = pool_count(sessions->pool) - ret->spares_ready;
}

int sessions_append_list(const struct sessions *sessions, struct buffer *to)
{
        struct json_out out = {.to = to};
        struct session *s;

        json_out_begin(&out, NULL, '[');
        TAILQ_FOREACH (s, &sessions->list, link) {
                if (s->state != SESSION_NONE)
                        session_put_status(&out, s);
        }
        json_out_end(&out, ']');
        return out.error;
}

/* Returns NULL with the error if no live session has this name. */
static struct session *find_live(struct sessions *sessions, const char *name, struct error *err)
{
        if (sessions_is_live(sessions, name))
                return sessions_find(sessions, name);
        error_set(err, ENOENT, "no live session is called \"%s\"", name);
        return NULL;
}

int sessions_end(struct sessions *sessions, const char *name, bool restart, struct error *err)
{
        struct session *session = find_live(sessions, name, err);

        if (session)
                session_end_by_owner(session, restart, SESSION_ENDED_BY_OWNER);
        return session ? 0 : -ENOENT;
}

struct session_rights {
        bool (*may_use)(const void *data, const char *profile);
        const void *data;
};

static bool has_forbidden_profile(const void *data, const struct cell *cell)
{
        const struct session_rights *rights = data;

        return *cell->profile && !rights->may_use(rights->data, cell->profile);
}

/* Code that waits would bring its profile back, in the next sandbox. */
void sessions_restrict(struct sessions *sessions, const char *principal,
                       bool (*may_use)(const void *data, const char *profile), const void *data)
{
        const struct session_rights rights = {may_use, data};
        struct session *s, *next;

        for (s = TAILQ_FIRST(&sessions->list); s; s = next) {
                next = TAILQ_NEXT(s, link);
                if (s->single || !session_key_is_of(s->name, principal))
                        continue;
                session_refuse_unbegun(s, has_forbidden_profile, &rights, "ProfileError",
                                       "the profile of this code is not allowed any more");
                if (*s->last_profile && !may_use(data, s->last_profile))
                        session_leave_forbidden_profile(s);
        }
}

static bool is_any(const void *data, const struct cell *cell)
{
        return true;
}

void sessions_end_of(struct sessions *sessions, const char *principal)
{
        static const char why[] = "its client has no access any more";
        struct session *s, *next;

        for (s = TAILQ_FIRST(&sessions->list); s; s = next) {
                next = TAILQ_NEXT(s, link);
                if (!session_key_is_of(s->name, principal))
                        continue;
                session_refuse_unbegun(s, is_any, NULL, "SandboxError", why);
                session_end_by_owner(s, false, why);
        }
}

size_t sessions_pending(const struct sessions *sessions)
{
        return sessions->principals.n_calls;
}

size_t sessions_killed(const struct sessions *sessions)
{
        return sessions->n_killed;
}

void sessions_interrupt(struct sessions *sessions, const char *why)
{
        struct session *s, *next;

        sessions->interrupts = why;

        for (s = TAILQ_FIRST(&sessions->list); s; s = next) {
                struct cell *after;
                next = TAILQ_NEXT(s, link);
                for (struct cell *cell = s->queue.first; cell; cell = after) {
                        after = cell->next;
                        if (!cell->cancelled)
                                cell_interrupt(cell, why);
                }
        }
}

int sessions_undo(struct sessions *sessions, const char *name, const char *checkpoint,
                  struct error *err)
{
        struct session *session = find_live(sessions, name, err);

        return session ? checkpoint_undo(session, checkpoint, err) : -ENOENT;
}
