/* The set of sessions. */
#include "supervisor/session/sessions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "supervisor/session/freeze.h"

enum { FORGOTTEN_AFTER = 1024 }; /* names without a sandbox that are remembered */

int sessions_new(struct sessions **ret, struct event_base *base, struct config *config,
                 const struct monitor_hello *hello, const struct tool_provider *tools,
                 const struct sessions_host *host, struct error *err)
{
        struct sessions *sessions = calloc(1, sizeof(*sessions));

        if (!sessions)
                return error_errno(err, ENOMEM, "sessions");
        *sessions = (struct sessions){.base = base,
                                      .config = config_ref(config),
                                      .hello = *hello,
                                      .tools = *tools,
                                      .host = *host};
        sessions->end = &sessions->first;
        int r = pool_new(&sessions->pool, sessions, err);
        if (r < 0) {
                sessions_free(sessions);
                return r;
        }
        *ret = sessions;
        return 0;
}

struct sessions *sessions_free(struct sessions *sessions)
{
        if (!sessions)
                return NULL;
        while (sessions->first) {
                struct session *session = sessions->first;
                sessions->first = session->next;
                session_free(session);
        }
        pool_free(sessions->pool);
        config_free(sessions->config);
        free(sessions);
        return NULL;
}

/* Names are their client's own: one that makes them collide slows down its own calls alone. FNV-1a.
 */
static struct session **bucket_of(struct sessions *sessions, const char *name)
{
        uint32_t hash = 2166136261;

        for (const unsigned char *c = (const unsigned char *)name; *c; c++)
                hash = (hash ^ *c) * 16777619;
        return &sessions->buckets[hash % SESSIONS_BUCKETS];
}

/* Where the session of this name hangs in its bucket, or would. */
static struct session **find(struct sessions *sessions, const char *name)
{
        struct session **at = bucket_of(sessions, name);

        while (*at && strcmp((*at)->name, name) != 0)
                at = &(*at)->same_bucket;
        return at;
}

/* Forgets the oldest name that has no sandbox and no cell. */
static void forget_one(struct sessions *sessions)
{
        for (struct session **at = &sessions->first; *at; at = &(*at)->next) {
                struct session *session = *at;
                if (session->state != SESSION_NONE || session->cells)
                        continue;
                struct session **in_bucket = find(sessions, session->name);
                *in_bucket = session->same_bucket;
                *at = session->next;
                if (!*at)
                        sessions->end = at;
                sessions->n--;
                session_free(session);
                return;
        }
}

static int find_or_make(struct sessions *sessions, const char *name, struct session **ret,
                        struct error *err)
{
        struct session **at = find(sessions, name);

        if (!*at) {
                int r = session_new(at, sessions, name, err);
                if (r < 0)
                        return r;
                *sessions->end = *at;
                sessions->end = &(*at)->next;
                sessions->n++;
        }
        *ret = *at;
        return 0;
}

int sessions_run(struct sessions *sessions, const char *name, const struct cell_request *request,
                 struct cell **ret, struct error *err)
{
        struct session *session;
        struct cell *cell;

        if (sessions->n > sessions->n_live + FORGOTTEN_AFTER)
                forget_one(sessions);
        int r = find_or_make(sessions, name, &session, err);
        if (r < 0)
                return r;
        if (session->n_cells >= SESSION_CELLS_MAX)
                return error_set(
                        err, EBUSY,
                        "%d calls wait in session \"%s\" already: wait for one to end, or use another session",
                        SESSION_CELLS_MAX, name);
        r = cell_new(&cell, request, err);
        if (r < 0)
                return r;
        session_push(session, cell);
        *ret = cell;
        return 0;
}

int sessions_started(struct sessions *sessions, uint32_t serial, uint32_t target,
                     const int fds[SESSION_FDS])
{
        if (pool_started(sessions->pool, serial, target, fds))
                return 0;
        for (struct session *s = sessions->first; s; s = s->next) {
                if (s->state == SESSION_CREATING && s->serial == serial) {
                        session_started(s, target, fds);
                        return 0;
                }
        }
        for (int i = 0; i < SESSION_FDS; i++)
                close(fds[i]);
        return -ENOENT;
}

int sessions_failed(struct sessions *sessions, uint32_t serial, const struct error *error)
{
        if (pool_failed(sessions->pool, serial, error))
                return 0;
        for (struct session *s = sessions->first; s; s = s->next) {
                if (s->state == SESSION_CREATING && s->serial == serial) {
                        session_failed(s, error);
                        return 0;
                }
        }
        return -ENOENT;
}

int sessions_ended(struct sessions *sessions, uint32_t target, const struct monitor_ended *ended)
{
        if (pool_ended(sessions->pool, target))
                return 0;
        for (struct session *s = sessions->first; s; s = s->next) {
                if (s->state >= SESSION_IDLE && s->target == target) {
                        session_ended(s, ended);
                        return 0;
                }
        }
        return -ENOENT;
}

void sessions_frozen(struct sessions *sessions, uint32_t target)
{
        for (struct session *s = sessions->first; s; s = s->next) {
                if (s->state == SESSION_IDLE && s->target == target)
                        freeze_done(s);
        }
}

void sessions_reload(struct sessions *sessions, struct config *config,
                     const struct monitor_hello *hello)
{
        config_free(sessions->config);
        sessions->config = config_ref(config);
        sessions->hello = *hello;
        pool_reload(sessions->pool);
}

void sessions_expect(struct sessions *sessions, const struct config_profile *profile)
{
        int i = profile ? config_find_profile(sessions->config, profile->name, NULL) : 0;

        if (i >= 0)
                pool_expect(sessions->pool, (size_t)i);
}

int sessions_find_room(struct sessions *sessions, struct error *err)
{
        size_t most = sessions->hello.sessions_max;
        struct pool *pool = sessions->pool;

        if (sessions->n_live + pool_count(pool) >= most && !pool_give_up(pool))
                return error_set(
                        err, EBUSY,
                        "%zu sessions are live, the most allowed: use one of them, or wait until an idle one is dropped",
                        most);
        return sessions->n_live - sessions->n_awaiting + pool_count(pool) + pool_ending(pool) <
               most;
}

void sessions_room(struct sessions *sessions)
{
        if (sessions->n_awaiting == 0)
                return;
        for (struct session *s = sessions->first; s; s = s->next) {
                if (s->state == SESSION_CREATING && s->serial == 0) {
                        session_retry(s);
                        return;
                }
        }
}

/* Idle workers get it with their next cell. */
void sessions_catalogue_changed(struct sessions *sessions)
{
        for (struct session *s = sessions->first; s; s = s->next) {
                if (s->state == SESSION_RUNNING || s->state == SESSION_INTERRUPTING)
                        session_send_catalogue(s);
        }
}
