/* The set of sessions, and how they and the pool share the places for sandboxes. */
#include "supervisor/session/sessions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "supervisor/service/lease.h"
#include "supervisor/service/metrics.h"
#include "supervisor/service/node.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/calls/install.h"
#include "supervisor/session/hold.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/network.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/tally.h"
#include "supervisor/session/machine/tasks.h"
#include "supervisor/session/pool.h"
#include "supervisor/session/session.h"
#include "supervisor/session/sessions-internal.h"
#include "supervisor/session/state/branch-cells.h"
#include "supervisor/session/state/copies.h"
#include "supervisor/session/state/restore.h"

enum {
        DEAD_NAMES_MAX = 1024, /* names without a sandbox that are kept */
        FREEING_MS = 5000,     /* a session that has not ended by then may never end */
        FREE_MS = 10000,       /* until a place is free, where nothing tells more */
        CREATING_MAX = 16,     /* sandboxes of a principal that the monitor makes at once */
};

static size_t n_without_sandbox(const struct sessions *sessions)
{
        return sessions->n_in[SESSION_QUEUED] + sessions->n_in[SESSION_CREATING] +
               sessions->n_in[SESSION_DISCARDING];
}

/* ---- what sessions and the pool ask for ---- */

static bool may_yield(const struct session *s, uint64_t now)
{
        return !s->is_named && !s->yields && s->state >= SESSION_IDLE &&
               s->state <= SESSION_SETTLING && !s->queue.first && s->files->n == 0 &&
               now - s->history.used_us >= SESSION_UNNAMED_MS * UINT64_C(1000);
}

/* Ends a session that may lose its place: of this principal, or of one that has more than `above`. */
static bool yield_one(struct sessions *sessions, const struct session_principal *own, size_t above)
{
        struct session *s, *found = NULL;
        uint64_t now = clock_us();
        struct error why = {};

        TAILQ_FOREACH (s, &sessions->list, link) {
                const struct session_principal *p = s->principal;
                if (may_yield(s, now) && (p == own || p->n_live > above) &&
                    (!found || p->n_live > found->principal->n_live))
                        found = s;
        }
        if (!found)
                return false;
        error_set(
                &why, EBUSY,
                "no call had named it, it had been idle for %llu s, and a new session needed its place",
                (unsigned long long)((now - found->history.used_us) / 1000000));
        found->yields = true;
        found->principal->n_live--;
        sessions->n_yielding++;
        session_dispatch(found, EVENT_OWNER_END, &(struct session_details){.error = &why});
        return true;
}

/* Whether a session of the principal may have a place, which a spare sandbox may have, or a session that is ending for it. Below its right
 * a principal may have any place, above it one to which no principal has a right. */
static int check_right(struct sessions *sessions, const struct session_principal *own,
                       struct error *err)
{
        const struct session_principals *all = &sessions->principals;
        size_t most = sessions->context.hello.sessions_max, right = principals_right(all, most);
        bool has_place;

        do {
                has_place = sessions_n_live(sessions) - sessions->n_yielding +
                                    principals_reserved(all, own, most) <
                            most;
        } while (!has_place && yield_one(sessions, own, own->n_live < right ? 0 : right));
        if (has_place)
                return 0;
        metrics_add(METRIC_REFUSED, 1, "full");
        return error_set(
                err, EBUSY,
                "%zu sessions are live%s, the most allowed: use one of them, or wait until an idle one is dropped",
                most, all->n > 1 ? ", or places of other clients" : "");
}

/* Whether a sandbox may be requested now. Otherwise EVENT_PLACE follows. */
static bool has_place(struct sessions *sessions, const struct session *s)
{
        size_t most = sessions->context.hello.sessions_max;
        struct pool *pool = sessions->pool;

        if (sessions_n_live(sessions) - sessions->n_yielding + pool_count(pool) >= most)
                pool_give_up(pool);
        /* A single principal has the whole queue: one profile whose template hangs must not keep another's. */
        bool may_create = sessions->principals.n < 2 || s->principal->n_creating < CREATING_MAX;
        return may_create && !sessions->freeing &&
               sessions_n_live(sessions) - sessions->n_in[SESSION_QUEUED] + pool_count(pool) +
                               pool_ending(pool) <
                       most;
}

static int get_sandbox(void *data, const struct session *session, size_t profile,
                       struct sandbox_offered *ret, struct error *err)
{
        struct sessions *sessions = data;

        int r = check_right(sessions, session->principal, err);

        if (r < 0)
                return r;
        const struct monitor_principal principal = principal_sums(&sessions->principals,
                                                                  session->principal);
        enum sandbox_offer offer = pool_take(sessions->pool, profile, &principal, ret);
        if (offer != SANDBOX_NONE)
                return offer;
        if (!has_place(sessions, session))
                return SANDBOX_NONE;
        r = sandbox_request_new(&sessions->context.requests, MONITOR_SESSION_CREATE, profile,
                                &principal, &ret->serial);
        return r < 0 ? r : SANDBOX_COMING;
}

static struct session *find_by_key(void *data, const char *key)
{
        return sessions_find(data, key);
}

/* The figures of its principal. */
static void count_change(struct sessions *sessions, struct session *s, enum session_state before)
{
        struct session_principal *p = s->principal;
        enum session_state now = s->state;

        sessions->n_in[before]--;
        sessions->n_in[now]++;
        if (now == SESSION_NONE) {
                s->frees_memory = false;
                sessions->freeing = sessions->freeing == s ? NULL : sessions->freeing;
        }
        p->n_creating += (now == SESSION_CREATING) - (before == SESSION_CREATING);
        p->n_keeping += (now == SESSION_KEEPING) - (before == SESSION_KEEPING);
        if (now != SESSION_NONE) {
                p->n_live += before == SESSION_NONE;
        } else if (s->yields) {
                s->yields = false;
                sessions->n_yielding--;
        } else {
                p->n_live -= before != SESSION_NONE;
        }
}

/* A sandbox has left its place, or one more may be requested. */
static void on_place_free(void *data)
{
        struct sessions *sessions = data;
        struct session *s;

        TAILQ_FOREACH (s, &sessions->list, link) {
                if (s->state == SESSION_QUEUED)
                        session_dispatch(s, EVENT_PLACE, NULL);
        }
}

/* Another session may end then: the first one keeps frees_memory. */
static void on_freed(evutil_socket_t fd, short what, void *data)
{
        ((struct sessions *)data)->freeing = NULL;
        on_place_free(data);
}

/* Of "cloister: image NAME: TEXT" the text. */
static const char *image_line_text(const char *line)
{
        static const char own[] = "cloister: image ";
        const char *text = strncmp(line, own, strlen(own)) == 0 ? strstr(line + strlen(own), ": ")
                                                                : NULL;

        return text ? text + 2 : line;
}

/* The index of the profile of a sandbox that is requested under the newest config, or -1. */
static int profile_of(const struct sessions *sessions, const struct session *s)
{
        if (s->config != sessions->context.config)
                return -1;
        return s->profile ? (int)(s->profile - s->config->profiles) : 0;
}

static bool give_back(void *data, const struct session *s, uint32_t target,
                      const int fds[SESSION_FDS])
{
        struct sessions *sessions = data;
        const struct monitor_principal principal = principal_sums(&sessions->principals,
                                                                  s->principal);
        int profile = profile_of(sessions, s);

        return profile >= 0 && pool_add(sessions->pool, (size_t)profile, &principal, target, fds);
}

static void note_call(struct sessions *sessions, const struct session *s)
{
        const struct monitor_principal principal = principal_sums(&sessions->principals,
                                                                  s->principal);
        int profile = profile_of(sessions, s);

        if (profile >= 0 && principal.id > 0)
                pool_note_call(sessions->pool, (size_t)profile, &principal);
}

static bool is_awaiting(const struct session *s)
{
        return s->state == SESSION_CREATING || s->state == SESSION_DISCARDING;
}

/* 0: the monitor sends no message about it. */
static void set_number(struct sessions *sessions, struct session *s, uint32_t number)
{
        struct session **at = &sessions->numbers[s->number % SESSIONS_BUCKETS];

        if (number == s->number)
                return;
        while (s->number && *at != s)
                at = &(*at)->same_number_bucket;
        if (s->number)
                *at = s->same_number_bucket;
        s->number = number;
        at = &sessions->numbers[number % SESSIONS_BUCKETS];
        s->same_number_bucket = *at;
        if (number)
                *at = s;
}

/* Code that was interrupted with all other has not ended by itself. */
static void note_kill(struct sessions *sessions, const struct session *s, enum session_state before)
{
        const struct cell *cell = s->queue.first;
        bool is_killed = before == SESSION_INTERRUPTING &&
                         (s->state == SESSION_KILLING || s->state == SESSION_RESTORING);

        if (sessions->interrupts && is_killed && cell &&
            cell->interrupted_by == sessions->interrupts)
                sessions->n_killed++;
}

/* Why a session that leaves SESSION_RUNNING is not held any more. */
static const char *hold_why(enum session_state now)
{
        return now == SESSION_INTERRUPTING  ? "the code was interrupted"
               : now < SESSION_INTERRUPTING ? "the code has ended"
               : now == SESSION_RESTORING   ? "the session is being restored"
                                            : "the session has ended";
}

static void state_changed(void *data, struct session *session, enum session_state before)
{
        struct sessions *sessions = data;
        enum session_state now = session->state;

        if (before == SESSION_RUNNING)
                hold_withdraw(session, hold_why(now));
        set_number(sessions, session,
                   is_awaiting(session)  ? session->serial
                   : now >= SESSION_IDLE ? session->target
                                         : 0);
        tally_session(session, before);
        count_change(sessions, session, before);
        note_kill(sessions, session, before);
        if (before == SESSION_RUNNING || now == SESSION_RUNNING)
                pool_note_activity(sessions->pool, clock_us());
        if (before < SESSION_IDLE || now == SESSION_NONE)
                pool_set_sessions(sessions->pool, sessions_n_live(sessions),
                                  n_without_sandbox(sessions));
        if (sessions->n_in[SESSION_QUEUED] > 0 && before != SESSION_QUEUED &&
            (before == SESSION_CREATING || now == SESSION_NONE))
                on_place_free(sessions);
        if (now == SESSION_RUNNING && session->principal->key[0])
                note_call(sessions, session);
        if (now == SESSION_RUNNING && !sessions->servers_started) {
                const struct tool_provider *tools = &sessions->context.tools;
                sessions->servers_started = true;
                tools->start(tools->data, session->rights, TOOL_SERVERS_ALL);
        }
}

/* ---- life ---- */

int sessions_new(struct sessions **ret, struct event_base *base, struct config *config,
                 const struct monitor_hello *hello, const struct tool_provider *tools,
                 const struct sandbox_requests *requests, struct error *err)
{
        struct sessions *sessions = calloc(1, sizeof(*sessions));

        if (!sessions)
                return error_errno(err, ENOMEM, "sessions");
        sessions->context = (struct session_context){
                .base = base,
                .config = config_ref(config),
                .hello = *hello,
                .requests = *requests,
                .tools = *tools,
                .owner = {sessions, get_sandbox, state_changed, find_by_key, give_back},
        };
        TAILQ_INIT(&sessions->list);
        sessions->principals = (struct session_principals){
                .n = 1, .base = base, .requests = &sessions->context.requests};
        sessions->freed = evtimer_new(base, on_freed, sessions);
        int r = !sessions->freed ? error_errno(err, ENOMEM, "sessions")
                                 : pool_new(&sessions->pool, base, config, hello->sessions_max,
                                            requests, on_place_free, sessions, err);
        sessions->principals.makes_spare = pool_makes_one;
        sessions->principals.pool = sessions->pool;
        if (r < 0) {
                sessions_free(sessions);
                return r;
        }
        *ret = sessions;
        return 0;
}

void sessions_set_pictures(struct sessions *sessions, const struct picture_provider *pictures)
{
        sessions->context.pictures = *pictures;
}

/* Where the session of this name hangs in its bucket, or would. FNV-1a: a client that makes its
 * own names collide slows down its own calls only. */
static struct session **find(struct sessions *sessions, const char *name)
{
        uint32_t hash = 2166136261;

        for (const unsigned char *c = (const unsigned char *)name; *c; c++)
                hash = (hash ^ *c) * 16777619;
        struct session **at = &sessions->buckets[hash % SESSIONS_BUCKETS];
        while (*at && strcmp((*at)->name, name) != 0)
                at = &(*at)->same_bucket;
        return at;
}

static void remove_session(struct sessions *sessions, struct session *s)
{
        struct session_principal *principal = s->principal;

        *find(sessions, s->name) = s->same_bucket;
        TAILQ_REMOVE(&sessions->list, s, link);
        set_number(sessions, s, 0);
        session_free(s);
        principal_unref(principal);
        sessions->n_in[SESSION_NONE]--;
        sessions->n--;
}

struct sessions *sessions_free(struct sessions *sessions)
{
        if (!sessions)
                return NULL;
        while (!TAILQ_EMPTY(&sessions->list))
                remove_session(sessions, TAILQ_FIRST(&sessions->list));
        pool_free(sessions->pool);
        loop_event_free(&sessions->freed);
        config_free(sessions->context.config);
        free(sessions);
        return NULL;
}

/* Forgets the oldest name, of the principal that has most, that has no sandbox and no cell. */
static void forget_one(struct sessions *sessions)
{
        struct session *s, *found = NULL;

        TAILQ_FOREACH (s, &sessions->list, link) {
                if (s->state == SESSION_NONE && !s->queue.first &&
                    (!found || s->principal->n_names - s->principal->n_live >
                                       found->principal->n_names - found->principal->n_live))
                        found = s;
        }
        if (found)
                remove_session(sessions, found);
}

struct session *sessions_find(struct sessions *sessions, const char *name)
{
        return *find(sessions, name);
}

const struct config *sessions_config(const struct sessions *sessions)
{
        return sessions->context.config;
}

bool sessions_is_live(struct sessions *sessions, const char *key)
{
        struct session *session = sessions_find(sessions, key);

        return session && session->state != SESSION_NONE;
}

bool sessions_quota(struct sessions *sessions, const char *principal, size_t most)
{
        const struct session_principal *p = principal_find(&sessions->principals, principal,
                                                           strlen(principal));

        return !p || p->n_live < most || yield_one(sessions, p, SIZE_MAX);
}

int sessions_admit(struct sessions *sessions, const char *key, struct error *err)
{
        struct session_principal *principal = principal_ref(&sessions->principals, key);
        int r = principal ? check_right(sessions, principal, err)
                          : error_errno(err, ENOMEM, "session");

        principal_unref(principal);
        return r;
}

/* A session that runs code may live for long: only those that are unused tell when a place is free. */
uint64_t sessions_free_ms(const struct sessions *sessions, const char *principal)
{
        uint64_t now = clock_us(), least = UINT64_MAX;
        const struct session *s;

        TAILQ_FOREACH (s, &sessions->list, link) {
                if (s->state < SESSION_IDLE || s->queue.first ||
                    (principal && strcmp(s->principal->key, principal) != 0))
                        continue;
                uint64_t most = s->is_named ? s->config->session_idle_ms : SESSION_UNNAMED_MS;
                uint64_t unused = (now - s->history.used_us) / 1000;
                uint64_t left = unused < most ? most - unused : 0;
                least = left < least ? left : least;
        }
        return least == UINT64_MAX ? FREE_MS : least;
}

void sessions_set_principals(struct sessions *sessions, size_t n,
                             void (*sums)(const void *data, const char *key,
                                          struct monitor_principal *ret),
                             const void *data)
{
        uint64_t one = sessions->context.hello.memory_max,
                 all = sessions->context.hello.memory_total;

        if (n > 1 && n != sessions->principals.n && one > 0 && all / one < n)
                log_warning(
                        "memory_total (%llu MiB) is enough for one session (%llu MiB) of each of %llu principals, and %zu have access",
                        (unsigned long long)(all >> 20), (unsigned long long)(one >> 20),
                        (unsigned long long)(all / one), n);
        sessions->principals.n = n;
        sessions->principals.sums = sums;
        sessions->principals.data = data;
}

void sessions_require_names(struct sessions *sessions)
{
        pool_require_names(sessions->pool);
}

void sessions_note_named(struct sessions *sessions, const char *key)
{
        struct session *session = sessions_find(sessions, key);

        if (session)
                session->is_named = true;
}

static int find_or_make(struct sessions *sessions, const char *name, struct session **ret,
                        struct error *err)
{
        struct session **at = find(sessions, name);

        if (!*at) {
                struct session_principal *principal = principal_ref(&sessions->principals, name);
                int r = principal ? session_new(at, &sessions->context, name, principal, err)
                                  : error_errno(err, ENOMEM, "session");
                if (r < 0) {
                        principal_unref(principal);
                        return r;
                }
                TAILQ_INSERT_TAIL(&sessions->list, *at, link);
                sessions->n++;
                sessions->n_in[SESSION_NONE]++;
        }
        *ret = *at;
        return 0;
}

/* Sessions whose names clients chose may have begun anew on another node. */
static void lose_chosen(struct sessions *sessions)
{
        char why[LEASE_WHY_MAX];
        struct session *s;

        if (!lease_take_loss(why))
                return;
        TAILQ_FOREACH (s, &sessions->list, link) {
                if (!s->single && node_bond(session_key_name(s->name)) == NODE_FREE)
                        session_lose(s, why);
        }
}

int sessions_run(struct sessions *sessions, const char *name, const struct cell_request *request,
                 struct cell **ret, struct error *err)
{
        struct session *session;
        struct cell *cell;

        lose_chosen(sessions);
        if (sessions->n_in[SESSION_NONE] > DEAD_NAMES_MAX)
                forget_one(sessions);
        int r = find_or_make(sessions, name, &session, err);
        if (r < 0)
                return r;
        session->is_named |= !request->is_unnamed;
        if (session->queue.n >= SESSION_CELLS_MAX)
                return error_set(
                        err, EBUSY,
                        "%d calls wait in session \"%s\" already: wait for one to end, or use another session",
                        SESSION_CELLS_MAX, session_key_name(name));
        r = cell_new(&cell, request, err);
        if (r >= 0 && request->from) {
                sessions_note_named(sessions, request->from);
                r = branch_begin(session, sessions_find(sessions, request->from),
                                 session_key_name(request->from), request->from_checkpoint,
                                 request->shared, cell, err);
                if (r < 0)
                        cell_free(cell);
        }
        if (r < 0)
                return r;
        session_end_lost(session);
        pool_note_activity(sessions->pool, cell->asked_us);
        session_push(session, cell);
        *ret = cell;
        return 0;
}

int sessions_check_branches(struct sessions *sessions, const char *principal, const char *name,
                            unsigned n, size_t quota, struct error *err)
{
        const struct session_principals *all = &sessions->principals;
        const struct session_principal *own = principal_find(all, principal, strlen(principal));
        size_t most = sessions->context.hello.sessions_max, own_live = own ? own->n_live : 0,
               used = sessions_n_live(sessions) - sessions->n_yielding +
                      (own ? principals_reserved(all, own, most) : 0);
        char one[SESSION_NAME_MAX + 1], key[SESSION_KEY_MAX + 1];

        for (unsigned i = 1; i <= n; i++) {
                snprintf(one, sizeof(one), "%s-%u", name, i);
                session_key_make(principal, one, key);
                const struct session *s = sessions_find(sessions, key);
                if (s && (s->state != SESSION_NONE || s->queue.first))
                        return error_set(
                                err, EEXIST,
                                "session \"%s\" is live already: branches are new sessions, so use another name",
                                one);
        }
        if (used + n <= most && (quota == 0 || own_live + n <= quota))
                return 0;
        size_t left = most > used ? most - used : 0,
               own_left = quota > own_live ? quota - own_live : 0;
        return error_set(err, EBUSY, "branches: only %zu more sessions may be live",
                         quota > 0 && own_left < left ? own_left : left);
}

/* ---- the monitor's answers ---- */

/* The session that waits for the answer with this serial. */
static struct session *find_awaiting(struct sessions *sessions, uint32_t serial)
{
        struct session *s = sessions->numbers[serial % SESSIONS_BUCKETS];

        while (s && !(is_awaiting(s) && s->serial == serial))
                s = s->same_number_bucket;
        return s;
}

static struct session *find_target(struct sessions *sessions, uint32_t target)
{
        struct session *s = sessions->numbers[target % SESSIONS_BUCKETS];

        while (s && !(s->state >= SESSION_IDLE && s->target == target))
                s = s->same_number_bucket;
        return s;
}

static int take_started(struct sessions *sessions, const struct monitor_message *message)
{
        uint32_t serial = message->asked.serial, target = message->event.target;

        if (pool_started(sessions->pool, serial, target, message->fds))
                return 0;
        struct session *session = find_awaiting(sessions, serial);
        if (!session)
                return -ENOENT;
        int profile = profile_of(sessions, session);
        if (profile >= 0)
                pool_note_made(sessions->pool, (size_t)profile);
        session_dispatch_fds(session, EVENT_STARTED,
                             &(struct session_details){.target = target, .fds = message->fds},
                             SESSION_FDS);
        return 0;
}

/* Ends a session of the principal that is most above its share of the memory: idle ones first, the oldest first. Its sandbox's
 * end lets those that wait ask again. */
static bool free_memory(struct sessions *sessions, uint32_t principal)
{
        struct error why;
        const struct timeval in = clock_timeval_ms(FREEING_MS);
        struct session *s, *found = NULL;

        TAILQ_FOREACH (s, &sessions->list, link) {
                if (principal == 0 || s->state < SESSION_IDLE || s->frees_memory ||
                    principal_sums(&sessions->principals, s->principal).id != principal)
                        continue;
                if (!found || (found->queue.first && !s->queue.first))
                        found = s;
        }
        if (!found || sessions->freeing)
                return sessions->freeing;
        found->frees_memory = true;
        sessions->freeing = found;
        (void)error_set(
                &why, EDQUOT,
                "all sessions reached \"memory_total\" (%llu MiB), and yours had more than an even share of it",
                (unsigned long long)(sessions->context.hello.memory_total >> 20));
        event_add(sessions->freed, &in);
        session_dispatch(found, EVENT_OWNER_END, &(struct session_details){.error = &why});
        return true;
}

static int take_failure(struct sessions *sessions, const struct monitor_message *message)
{
        uint32_t serial = message->asked.serial;
        const struct error *error = &message->event.error;
        const struct error again = {.code = ESTALE};

        if (pool_failed(sessions->pool, serial, error))
                return 0;
        struct session *session = find_awaiting(sessions, serial);
        if (!session)
                return -ENOENT;
        if (error->code == EDQUOT && free_memory(sessions, message->event.target))
                error = &again;
        session_dispatch(session, EVENT_FAILED, &(struct session_details){.error = error});
        return 0;
}

static int take_installer(struct sessions *sessions, const struct monitor_message *message)
{
        const struct monitor_event *event = &message->event;
        bool has_failed = event->kind == MONITOR_FAILED;
        uint32_t serial = message->asked.serial;
        const struct error again = {.code = ESTALE}, *error = &event->error;
        struct session *s;

        if (has_failed && error->code == EDQUOT && free_memory(sessions, event->target))
                error = &again;
        TAILQ_FOREACH (s, &sessions->list, link) {
                if (has_failed ? install_failed(s, serial, error)
                               : install_started(s, serial, event->target, message->fds))
                        return 0;
        }
        /* Its session has ended, or does not wait for it any more. */
        if (!has_failed)
                sandbox_request(&sessions->context.requests, MONITOR_UPSTREAM_STOP, event->target,
                                0);
        return -ENOENT;
}

/* An answer to a request about a session that exists. */
static int take_answer(struct session *session, const struct monitor_message *message)
{
        bool has_failed = message->event.kind == MONITOR_FAILED;
        uint32_t verb = message->asked.verb;

        if (verb == MONITOR_SESSION_KEEP || verb == MONITOR_SESSION_KEEP_ASIDE)
                copies_kept(session, has_failed ? &message->event.error : NULL);
        else if (verb == MONITOR_SESSION_FREEZE && !has_failed)
                session_dispatch(session, EVENT_FROZEN, NULL);
        else if (verb == MONITOR_SESSION_HOLD && has_failed)
                hold_take_failure(session);
        return 0;
}

static int take_notice(struct session *session, const struct monitor_message *message)
{
        const struct monitor_event *event = &message->event;

        switch (event->kind) {
        case MONITOR_SESSION_ENDED:
                tasks_end(session, &event->ended);
                session_dispatch(session, EVENT_ENDED,
                                 &(struct session_details){.ended = &event->ended});
                return 0;
        case MONITOR_SESSION_CLEARED:
                tasks_end(session, &event->ended);
                session_dispatch_fds(
                        session, EVENT_CLEARED,
                        &(struct session_details){.ended = &event->ended, .fds = message->fds},
                        SESSION_COUNTERS);
                return 0;
        case MONITOR_SESSION_GONE:
                copies_gone(session, event->copy);
                return 0;
        case MONITOR_SESSION_COUNTED:
                tasks_counted(session, &event->counted,
                              session->copies->is_awaited || session->copies->is_offered,
                              session->copies->asked.of_block);
                return 0;
        case MONITOR_SESSION_STOPPED:
                session_dispatch(session, EVENT_STOPPED,
                                 &(struct session_details){.stopped = event->stopped});
                return 0;
        case MONITOR_SESSION_SWEPT:
                session_dispatch(session, EVENT_SWEPT, NULL);
                return 0;
        case MONITOR_SESSION_HELD:
                hold_take_held(session, event->held);
                return 0;
        case MONITOR_SESSION_RAN:
                hold_take_ran(session);
                return 0;
        case MONITOR_SESSION_MEMORY:
                meter_sample(&session->meter, event->memory);
                return 0;
        default:
                return -ENOENT;
        }
}

/* The calls that wait for a sandbox of the profile. */
static int take_building(struct sessions *sessions, const struct monitor_event *event)
{
        char line[sizeof(event->line)];
        struct session *s;

        snprintf(line, sizeof(line), "%.*s", (int)sizeof(line) - 1, event->line);
        TAILQ_FOREACH (s, &sessions->list, link) {
                if (s->state < SESSION_IDLE && profile_of(sessions, s) == (int64_t)event->target)
                        session_tell_step(s, "image", image_line_text(line));
        }
        return 0;
}

static int take_event(struct sessions *sessions, const struct monitor_message *message)
{
        const struct monitor_event *event = &message->event;
        uint32_t verb = message->asked.verb;

        if (verb == MONITOR_SESSION_CREATE &&
            sandbox_check_answer(&sessions->check, &sessions->context.requests, message))
                return 0;
        if (event->kind == MONITOR_SESSION_STARTED)
                return take_started(sessions, message);
        if (verb == MONITOR_PRINCIPAL_REST)
                return 0;
        if (verb == MONITOR_SESSION_CREATE)
                return take_failure(sessions, message);
        if (verb == MONITOR_BRANCH_START)
                return branch_take_answer(&sessions->context, message) ? 0 : -ENOENT;
        if (verb == MONITOR_BRANCH_DROP)
                return 0;
        if (verb == MONITOR_INSTALLER_START)
                return take_installer(sessions, message);
        if (event->kind == MONITOR_PROFILE_BUILDING)
                return take_building(sessions, event);
        if (event->kind == MONITOR_SESSION_ENDED && pool_ended(sessions->pool, event->target))
                return 0;
        struct session *session = find_target(sessions,
                                              verb ? message->asked.target : event->target);
        if (!session)
                return -ENOENT;
        return verb ? take_answer(session, message) : take_notice(session, message);
}

int sessions_event(struct sessions *sessions, const struct monitor_message *message)
{
        int r = take_event(sessions, message);

        for (size_t i = 0; i < message->n_fds && r < 0; i++)
                close(message->fds[i]);
        return r;
}

/* ---- config and catalogue ---- */

void sessions_reload(struct sessions *sessions, struct config *config,
                     const struct monitor_hello *hello)
{
        struct config *before = sessions->context.config;
        struct session *s, *next;

        sessions->context.config = config_ref(config);
        sessions->context.hello = *hello;
        pool_reload(sessions->pool, config, hello->sessions_max);
        for (s = TAILQ_FIRST(&sessions->list); s; s = next) {
                next = TAILQ_NEXT(s, link);
                session_take_rights(s);
        }
        config_free(before);
}

void sessions_set_usage(struct sessions *sessions, enum monitor_usage kind)
{
        sessions->context.hello.usage = kind;
}

void sessions_inject_lost(struct sessions *sessions, const char *profile)
{
        int i = config_find_profile(sessions->context.config, profile, NULL);

        if (i >= 0)
                pool_renew(sessions->pool, (size_t)i);
}

void sessions_expect(struct sessions *sessions, const struct config_profile *profile)
{
        int i = profile ? config_find_profile(sessions->context.config, profile->name, NULL) : 0;

        if (i >= 0)
                pool_expect(sessions->pool, (size_t)i);
}

void sessions_catalogue_changed(struct sessions *sessions)
{
        struct session *s;

        /* Idle workers get it with their next cell. */
        TAILQ_FOREACH (s, &sessions->list, link) {
                enum session_state state = s->state;
                if (state == SESSION_RUNNING || state == SESSION_INTERRUPTING)
                        session_send_catalogue(s);
        }
}

void sessions_network_lost(struct sessions *sessions)
{
        struct session *s;

        TAILQ_FOREACH (s, &sessions->list, link)
                session_network_lost(s);
}

/* ---- for the checks of balancers, and for metrics ---- */

enum sandbox_ability sessions_can_start(struct sessions *sessions)
{
        sandbox_check_again(&sessions->check, &sessions->context.requests,
                            sessions->context.config->profile);
        return sessions->check.ability;
}

enum sandbox_ability sessions_starting(const struct sessions *sessions)
{
        return sessions->check.ability == SANDBOX_ABILITY_NO ? SANDBOX_ABILITY_NO
                                                             : SANDBOX_ABILITY_UNKNOWN;
}

bool sessions_have_place(const struct sessions *sessions)
{
        const struct session *s;
        uint64_t now = clock_us();

        if (sessions_n_live(sessions) - sessions->n_yielding < sessions->context.hello.sessions_max)
                return true;
        TAILQ_FOREACH (s, &sessions->list, link) {
                if (may_yield(s, now))
                        return true;
        }
        return false;
}

void sessions_visit(const struct sessions *sessions,
                    void (*visit)(void *data, struct session *session), void *data)
{
        struct session *s;

        TAILQ_FOREACH (s, &sessions->list, link) {
                if (s->state != SESSION_NONE)
                        visit(data, s);
        }
}
