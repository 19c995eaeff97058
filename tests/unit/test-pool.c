/* Ready sandboxes, with a fake monitor and fake workers. */
#include "supervisor/session/pool.h"

#include <errno.h>

#include "base/clock.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/session.h"
#include "tests/unit/fake-client.h"
#include "tests/unit/fake-clock.h"

enum { SANDBOXES = 32, EARLY = 30 };

#define POOL "\"pool\": {\"min\": 1, \"max\": 8}"
#define ONE  "{" POOL "}"

/* Several sandboxes at once; the one of fake-monitor.h is the newest. */
struct world {
        struct event_base *base;
        struct config *config;
        struct monitor_hello hello;
        struct sessions *sessions;
        int creates, kills;
        bool refuse;
        uint32_t profile;                   /* newest */
        struct monitor_principal principal; /* newest */
        uint32_t number;                    /* newest */
        struct {
                int rpc;
                bool killed;
        } sandbox[SANDBOXES]; /* by target, which is the serial */
};

static int on_request(void *data, const struct monitor_request *request, uint32_t *serial)
{
        struct world *w = data;
        uint32_t target = request->target;

        if (request->verb == MONITOR_SESSION_CREATE && !w->refuse) {
                w->profile = target;
                w->number = request->number;
                w->principal = request->principal;
                *serial = (uint32_t)++w->creates;
        } else if (request->verb == MONITOR_SESSION_KILL) {
                check(target > 0 && target < SANDBOXES);
                w->kills++;
                w->sandbox[target].killed = true;
        } else if (request->verb != MONITOR_SESSION_INTERRUPT) {
                return -EPIPE;
        }
        return 0;
}

/* Runs the loop for a time of the fake clock, a millisecond in each turn. */
static void spin(struct world *w, int ms)
{
        for (int i = 0; i < ms; i++) {
                event_base_loop(w->base, EVLOOP_NONBLOCK);
                fake_clock_advance_ms(1);
        }
        event_base_loop(w->base, EVLOOP_NONBLOCK);
}

static struct sessions_count count(const struct world *w)
{
        struct sessions_count count;

        sessions_count(w->sessions, &count);
        return count;
}

static size_t n_spares(const struct world *w)
{
        return count(w).spares_ready + count(w).spares_coming;
}

#define until(w, expr)                                                                             \
        do {                                                                                       \
                for (int i_ = 0; i_ < 10000 && !(expr); i_++)                                      \
                        spin(w, 1);                                                                \
                check(expr);                                                                       \
        } while (0)

/* Longer than any wait of the pool except a period, or the wait after two ends in a row. */
enum { LONG_MS = POOL_FIRST_MS + POOL_PATIENCE_MS + 50 };

static void open_world(struct world *w, const char *config, uint32_t sessions_max)
{
        const struct sandbox_requests requests = {w, on_request, NULL};
        struct error err = {};

        *w = (struct world){};
        fake_clock_skip_idle(true);
        w->hello = fake_hello;
        w->hello.sessions_max = sessions_max;
        for (int i = 0; i < SANDBOXES; i++)
                w->sandbox[i].rpc = -1;
        signal(SIGPIPE, SIG_IGN);
        fake_tools_reset("{\"servers\":[]}");
        w->base = event_base_new();
        w->config = fake_config(config);
        check_ok(sessions_new(&w->sessions, w->base, w->config, &w->hello, &fake_tool_provider,
                              &requests, &err));
}

static void close_world(struct world *w)
{
        sessions_free(w->sessions);
        for (int i = 0; i < SANDBOXES; i++)
                if (w->sandbox[i].rpc >= 0)
                        close(w->sandbox[i].rpc);
        event_base_free(w->base);
        config_free(w->config);
        buffer_done(&fake_tools.catalogue);
}

static void reload(struct world *w, const char *text)
{
        struct config *config = fake_config(text);

        sessions_reload(w->sessions, config, &w->hello);
        config_free(w->config);
        w->config = config;
}

static void expect(struct world *w, const char *profile)
{
        int i = config_find_profile(w->config, profile, NULL);

        check(i >= 0);
        sessions_expect(w->sessions, &w->config->profiles[i]);
}

/* The monitor's answer to a request. */
static void start(struct world *w, uint32_t serial)
{
        int pair[2], out[2], err[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        check_eq_int(pipe2(out, O_CLOEXEC), 0);
        check_eq_int(pipe2(err, O_CLOEXEC), 0);
        close(out[1]);
        close(err[1]);
        check(w->sandbox[serial].rpc < 0);
        w->sandbox[serial].rpc = pair[1];
        const int fds[SESSION_FDS] = {pair[0],
                                      out[0],
                                      err[0],
                                      -1,
                                      memfd_create("cpu", MFD_CLOEXEC),
                                      memfd_create("memory", MFD_CLOEXEC),
                                      memfd_create("memory", MFD_CLOEXEC)};
        check_eq_int(sessions_started(w->sessions, serial, serial, fds), 0);
        spin(w, 1);
}

static void end(struct world *w, uint32_t target)
{
        const struct monitor_ended ended = {.wait_status = SIGKILL};

        check_eq_int(sessions_ended(w->sessions, target, &ended), 0);
        spin(w, 1);
}

static void fail(struct world *w, uint32_t serial, int code)
{
        struct error error = {.code = code, .text = "there is no image"};

        check_eq_int(sessions_failed(w->sessions, serial, &error), 0);
        spin(w, 1);
}

static void begin_as(struct world *w, struct end *end, const char *name, const char *profile,
                     bool is_unnamed)
{
        const struct cell_request request = {.code = "1",
                                             .code_length = 1,
                                             .profile = profile,
                                             .profile_asked = profile != NULL,
                                             .is_unnamed = is_unnamed,
                                             .done = fake_on_done,
                                             .data = end};
        struct error err = {};
        struct cell *cell = NULL;

        memset(end, 0, sizeof(*end));
        check_ok(sessions_run(w->sessions, name, &request, &cell, &err));
        spin(w, 1);
}

static void begin(struct world *w, struct end *end, const char *name, const char *profile)
{
        begin_as(w, end, name, profile, false);
}

/* A cell has ended. */
static void answer(struct world *w, uint32_t target, uint64_t cell, const struct end *done)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_SMALL_MAX);
        static const char ok[] = "{\"status\":\"ok\"}";

        check_eq_int(frame_append(&b, FRAME_RESULT, cell, ok, strlen(ok)), 0);
        check_eq_int(write(w->sandbox[target].rpc, buffer_bytes(&b), b.length), (ssize_t)b.length);
        until(w, done->count == 1);
        check_eq_int(done->status, CELL_OK);
}

/* A new session, whose only cell has ended. */
static void run_one(struct world *w, const char *name, bool is_unnamed)
{
        struct end done;

        begin_as(w, &done, name, NULL, is_unnamed);
        uint32_t target = (uint32_t)w->creates;
        start(w, target);
        answer(w, target, 1, &done);
}

static void check_refused(struct world *w, const char *name, const char *why)
{
        int creates = w->creates, kills = w->kills;
        struct end done;

        begin(w, &done, name, NULL);
        check_eq_int(done.count, 1);
        check_has(done.why, why);
        check_eq_int(w->creates, creates);
        check_eq_int(w->kills, kills);
}

/* Whether a worker was sent something. */
static bool has_cell(struct world *w, uint32_t target)
{
        struct pollfd p = {w->sandbox[target].rpc, POLLIN, 0};

        return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

/* One ready, made by request 1; the very first was too early to stay. */
static void open_with_one(struct world *w, const char *config, uint32_t sessions_max)
{
        open_world(w, config, sessions_max);
        w->creates = EARLY - 1;
        expect(w, "default");
        until(w, w->creates == EARLY);
        start(w, EARLY);
        check_eq_int(count(w).spares_ready, 1);
        spin(w, POOL_EARLY_MS / 2);
        check_eq_int(w->creates, EARLY);
        w->creates = 0;
        until(w, w->creates == 1);
        start(w, 1);
        check(w->sandbox[EARLY].killed);
        end(w, EARLY);
        check_eq_int(count(w).spares_ready, 1);
}

static void test_nothing_before_it_is_expected(void)
{
        struct world w;
        struct end done;

        open_world(&w, ONE, 8);
        begin(&w, &done, "a", NULL);
        start(&w, 1);
        spin(&w, LONG_MS);
        check_eq_int(w.creates, 1);
        check_eq_int(n_spares(&w), 0);
        close_world(&w);
}

static void test_taken_once(void)
{
        struct world w;
        struct end a, b;

        open_with_one(&w, ONE, 8);
        spin(&w, LONG_MS);
        check_eq_int(w.creates, 1); /* not more than the minimum */
        check_eq_int(count(&w).live, 0);

        begin(&w, &a, "a", NULL);
        check(has_cell(&w, 1));
        check_eq_int(count(&w).live, 1);
        check_eq_int(n_spares(&w), 0);
        /* The next session gets another one, which is being created already. */
        until(&w, w.creates == 2);
        begin(&w, &b, "b", NULL);
        check_eq_int(w.creates, 2);
        check_eq_int(n_spares(&w), 0);
        start(&w, 2);
        check(has_cell(&w, 2));
        check_eq_int(count(&w).live, 2);
        until(&w, w.creates == 3);
        close_world(&w);
}

static void test_zero(void)
{
        struct world w;
        struct end done;

        open_world(&w, "{\"pool\": 0}", 8);
        expect(&w, "default");
        begin(&w, &done, "a", NULL);
        start(&w, 1);
        spin(&w, LONG_MS);
        check_eq_int(w.creates, 1);
        close_world(&w);
}

static void test_grows_and_shrinks(void)
{
        struct world w;
        struct end ends[6];
        static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

        open_with_one(&w, "{\"pool\": {\"min\": 1, \"max\": 3}, \"idle\": 1}", 30);
        for (int i = 0; i < 6; i++)
                begin(&w, &ends[i], names[i], NULL);
        /* Six sessions start at once. One takes a ready sandbox; five request a new one. */
        check_eq_int(w.creates, 6);
        for (uint32_t i = 2; i <= 6; i++)
                start(&w, i);
        for (uint32_t i = 7; i <= 9; i++) {
                until(&w, w.creates == (int)i);
                start(&w, i);
        }
        spin(&w, 100);
        check_eq_int(w.creates, 9);
        check_eq_int(count(&w).spares_ready, 3);
        /* No session begins: two spares end, one stays. (The sessions also expire.) */
        until(&w, count(&w).spares_ready == 1);
        check_eq_int(count(&w).spares_ending, 2);
        spin(&w, 2500);
        check_eq_int(count(&w).spares_ready, 1);
        close_world(&w);
}

static void test_another_profile(void)
{
        struct world w;
        struct end a, b;

        open_with_one(&w, "{" POOL ", \"profiles\": {\"x\": {\"pool\": 1}}}", 8);
        begin(&w, &a, "a", "x");
        check(!has_cell(&w, 1));
        check_eq_int(w.creates, 2);
        check_eq_int(w.profile, 1);
        start(&w, 2);
        check(has_cell(&w, 2));
        /* It is in use from now on. */
        until(&w, w.creates == 3);
        check_eq_int(w.profile, 1);
        start(&w, 3);
        begin(&w, &b, "b", "x");
        check(has_cell(&w, 3));
        check(!has_cell(&w, 1));
        close_world(&w);
}

static void test_reload_ends_spares(void)
{
        struct world w;
        struct end done;

        open_with_one(&w, ONE, 8);
        reload(&w, "{" POOL ", \"limits\": {\"memory\": \"1G\"}}");
        expect(&w, "default");
        check(w.sandbox[1].killed);
        begin(&w, &done, "a", NULL);
        check(!has_cell(&w, 1));
        check_eq_int(w.creates, 2);
        end(&w, 1);
        start(&w, 2);
        check(has_cell(&w, 2));

        /* A spare that was requested before the config changes, then created or refused. */
        until(&w, w.creates == 3);
        reload(&w, ONE);
        expect(&w, "default");
        start(&w, 3);
        check(w.sandbox[3].killed);
        end(&w, 3);
        until(&w, w.creates == 4);
        reload(&w, "{" POOL ", \"timeout\": 5}");
        expect(&w, "default");
        fail(&w, 4, ESTALE);
        until(&w, w.creates == 5);
        close_world(&w);
}

static void test_no_place_left(void)
{
        struct world w;
        struct end ends[4];

        open_with_one(&w, "{" POOL ", \"profiles\": {\"x\": {\"pool\": 0}}}", 3);
        begin(&w, &ends[0], "a", "x");
        begin(&w, &ends[1], "b", "x");
        start(&w, 2);
        start(&w, 3);
        /* The spare's place is needed: it is killed, and the session waits for that. */
        begin(&w, &ends[2], "c", "x");
        check(w.sandbox[1].killed);
        check_eq_int(w.creates, 3);
        /* There is no spare left to kill. */
        begin(&w, &ends[3], "d", "x");
        check_eq_int(ends[3].count, 1);
        check_has(ends[3].why, "3 sessions are live");
        end(&w, 1);
        check_eq_int(w.creates, 4);
        start(&w, 4);
        check(has_cell(&w, 4));
        /* Without a free place there are no spares; a free place gets one. */
        spin(&w, LONG_MS);
        check_eq_int(w.creates, 4);
        end(&w, 2);
        until(&w, w.creates == 5);
        check_eq_int(w.profile, 0);
        close_world(&w);
}

/* Each principal has a right to four places, or an even part of all. */
static void test_rights_of_principals(void)
{
        static const struct {
                size_t places, n, right,
                        left; /* left: for one principal, if the others have none */
        } cases[] = {{12, 1, 4, 12}, {12, 2, 4, 8}, {12, 3, 4, 4}, {12, 4, 3, 3}, {2, 64, 1, 1}};
        char name[16];

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct world w;
                open_world(&w, "{\"pool\": 0}", (uint32_t)cases[i].places);
                sessions_set_principals(w.sessions, cases[i].n, NULL, NULL);
                for (size_t k = 0; k < cases[i].left; k++) {
                        snprintf(name, sizeof(name), "alice:%zu", k);
                        run_one(&w, name, false);
                }
                if (cases[i].n == 1)
                        check_refused(&w, "alice:more", "12 sessions are live");
                else
                        check_refused(&w, "alice:more",
                                      "sessions are live, or places of other clients");
                for (size_t k = 0; k < cases[i].right && cases[i].n > 1; k++) {
                        snprintf(name, sizeof(name), "bob:%zu", k);
                        run_one(&w, name, false);
                }
                close_world(&w);
        }
}

static void sums(const void *data, const char *key, struct monitor_principal *ret)
{
        *ret = (struct monitor_principal){(uint32_t)(*key - 'a' + 1), 9, 300, 1500};
}

/* The monitor refuses bob's session until one of alice's has ended: idle ones first, the oldest first. */
static void test_memory_of_another(void)
{
        struct monitor_message refused = {
                .asked = {.verb = MONITOR_SESSION_CREATE},
                .event = {.kind = MONITOR_FAILED, .target = 1, .error = {EDQUOT, "the sum"}}};
        struct world w;
        struct end busy, bob;

        open_world(&w, "{\"pool\": 0}", 12);
        sessions_set_principals(w.sessions, 2, sums, NULL);
        begin(&w, &busy, "alice:busy", NULL);
        start(&w, 1);
        run_one(&w, "alice:old", false);
        check_eq_int(w.principal.id, 1);
        check_eq_int(w.principal.of, 2);
        check_eq_int(w.principal.memory_mib, 300);
        run_one(&w, "alice:new", false);
        begin(&w, &bob, "bob:1", NULL);
        check_eq_int(w.principal.id, 2);
        for (int i = 0; i < 2; i++) {
                refused.asked.serial = (uint32_t)w.creates;
                check_eq_int(sessions_event(w.sessions, &refused), 0);
                spin(&w, 1);
                check_eq_int(w.kills, i + 1);
                check(w.sandbox[2 + i].killed);
                /* It asks again when that one has ended, or does not end. */
                check_eq_int(w.creates, 4 + i);
                if (i == 0)
                        spin(&w, 6000);
                else
                        end(&w, (uint32_t)(2 + i));
                check_eq_int(w.creates, 5 + i);
        }
        start(&w, 6);
        check(has_cell(&w, 6));
        check_eq_int(busy.count, 0);
        end(&w, 2);
        /* The control: the refusal names nobody. */
        refused.event.target = 0;
        struct end alice;
        begin(&w, &alice, "alice:old", NULL);
        refused.asked.serial = 7;
        check_eq_int(sessions_event(w.sessions, &refused), 0);
        spin(&w, 1);
        check_has(alice.why, "the sum");
        check_eq_int(w.kills, 2);
        close_world(&w);
}

/* A spare is for one principal. Each that has called in the last minute has one, as far as the maximum allows. */
static void test_spares_of_principals(void)
{
        struct world w;
        struct end done;

        open_world(&w, "{\"pool\": {\"min\": 1, \"max\": 2}}", 20);
        sessions_set_principals(w.sessions, 2, sums, NULL);
        run_one(&w, "alice:1", false);
        expect(&w, "default");
        spin(&w, POOL_EARLY_MS);
        until(&w, w.creates == 2);
        check_eq_int(w.principal.id, 1);
        start(&w, 2);
        run_one(&w, "bob:1", false); /* bob does not get alice's */
        check(!has_cell(&w, 2));
        until(&w, w.creates == 4);
        check_eq_int(w.principal.id, 2);
        start(&w, 4);
        spin(&w, LONG_MS);
        check_eq_int(w.creates, 4);
        begin(&w, &done, "bob:2", NULL);
        check(has_cell(&w, 4));
        check(!has_cell(&w, 2));
        begin(&w, &done, "alice:2", NULL);
        check(has_cell(&w, 2));
        close_world(&w);
}

/* Who calls next is not known: at the start, and after a reload. */
static void test_no_spare_of_nobody(void)
{
        for (int n = 0; n < 2; n++) {
                struct world w;

                open_world(&w, "{\"pool\": 1}", 20);
                sessions_set_principals(w.sessions, 2, sums, NULL);
                if (n)
                        sessions_require_names(w.sessions);
                expect(&w, "default");
                spin(&w, LONG_MS);
                check_eq_int(w.creates, !n);
                if (n) {
                        run_one(&w, "alice:1", false);
                        until(&w, w.creates == 2);
                        check_eq_int(w.principal.id, 1);
                        start(&w, 2);
                        reload(&w, "{\"pool\": 1}");
                        expect(&w, "default");
                        spin(&w, LONG_MS);
                        check_eq_int(w.creates, 2);
                }
                close_world(&w);
        }
}

/* Principals that call in sessions that they have keep the spares that they do not take. */
static void test_spares_stay(void)
{
        static const char *const names[] = {"alice:1", "bob:1", "carol:1"};
        struct world w;

        open_world(&w, "{\"pool\": {\"min\": 1, \"max\": 4}}", 20);
        sessions_set_principals(w.sessions, 3, sums, NULL);
        expect(&w, "default");
        for (uint32_t i = 0; i < 3; i++) {
                run_one(&w, names[i], false);
                spin(&w, POOL_EARLY_MS + LONG_MS);
                check_eq_int(w.creates, 2 * i + 2);
                check_eq_int(w.principal.id, i + 1);
                start(&w, 2 * i + 2);
        }
        for (int periods = 0; periods < 4; periods++) {
                for (uint32_t i = 0; i < 3; i++) {
                        struct end done;
                        begin(&w, &done, names[i], NULL);
                        spin(&w, POOL_PERIOD_MS / 4);
                        answer(&w, 2 * i + 1, (uint64_t)periods + 2, &done);
                }
                check_eq_int(count(&w).spares_ready, 3);
                check_eq_int(w.creates, 6);
        }
        /* The control: none of them calls any more. */
        spin(&w, 3 * POOL_PERIOD_MS);
        for (uint32_t i = 0; i < 3; i++)
                check(w.sandbox[2 * i + 2].killed);
        close_world(&w);
}

static void test_what_others_do_not_need(void)
{
        struct world w;

        /* A place above bob's right is for whoever comes first; one that he leaves is his again. */
        open_world(&w, "{\"pool\": 0}", 4);
        sessions_set_principals(w.sessions, 2, NULL, NULL);
        run_one(&w, "bob:1", false);
        run_one(&w, "alice:1", false);
        run_one(&w, "alice:2", false);
        check_refused(&w, "alice:3", "4 sessions are live, or places of other clients");
        run_one(&w, "bob:2", false);
        check_refused(&w, "bob:3", "4 sessions are live, or places of other clients");
        end(&w, 1);
        check_refused(&w, "alice:3", "4 sessions are live, or places of other clients");
        run_one(&w, "bob:3", false);
        close_world(&w);
}

static void test_unnamed_sessions_give_way(void)
{
        struct world w;
        struct end done;

        open_world(&w, "{\"pool\": 0}", 4);
        sessions_set_principals(w.sessions, 2, NULL, NULL);
        run_one(&w, "alice:named", false);
        run_one(&w, "bob:1", true);
        run_one(&w, "alice:1", true);
        run_one(&w, "bob:2", true);
        spin(&w, SESSION_UNNAMED_MS - 100);
        check_refused(&w, "alice:2", "4 sessions are live, or places of other clients");
        spin(&w, 200);
        /* Bob has only what he has a right to: alice's own session ends for her new one. */
        begin_as(&w, &done, "alice:2", NULL, true);
        check_eq_int(w.kills, 1);
        check(w.sandbox[3].killed);
        check_eq_int(w.creates, 4);
        end(&w, 3);
        check_eq_int(w.creates, 5);
        start(&w, 5);
        check(has_cell(&w, 5));
        /* The session that gave way reports it. There is no other one for its call. */
        check_refused(&w, "alice:1", "4 sessions are live, or places of other clients");
        check_has(session_lost(sessions_find(w.sessions, "alice:1")), "no call had named it");
        close_world(&w);
}

/* The principal that has most loses its oldest; a call that names a session, also without code, keeps it. */
static void test_order_of_giving_way(void)
{
        struct world w;
        struct end done;

        open_world(&w, "{\"pool\": 0}", 6);
        sessions_set_principals(w.sessions, 3, NULL, NULL);
        run_one(&w, "bob:1", true);
        run_one(&w, "alice:1", true);
        run_one(&w, "alice:2", true);
        run_one(&w, "carol:1", true);
        sessions_set_principals(w.sessions, 1, NULL, NULL);
        run_one(&w, "alice:3", true);
        run_one(&w, "alice:4", true);
        sessions_set_principals(w.sessions, 3, NULL, NULL);
        spin(&w, SESSION_UNNAMED_MS + 100);
        sessions_note_named(w.sessions, "alice:1");
        begin(&w, &done, "carol:2", NULL);
        check(w.sandbox[3].killed);
        check_eq_int(w.kills, 1);
        end(&w, 3);
        check_eq_int(w.creates, 7);
        close_world(&w);
}

/* A principal's own number of sessions. */
static void test_quota(void)
{
        struct world w;

        open_world(&w, "{\"pool\": 0}", 8);
        run_one(&w, "alice:1", true);
        run_one(&w, "bob:1", true);
        check(sessions_quota(w.sessions, "alice", 2));
        check(sessions_quota(w.sessions, "carol", 1));
        check(!sessions_quota(w.sessions, "alice", 1));
        spin(&w, SESSION_UNNAMED_MS + 100);
        check(sessions_quota(w.sessions, "alice", 1));
        check(w.sandbox[1].killed && !w.sandbox[2].killed);
        close_world(&w);
}

/* Sixteen sandboxes of a principal are made at once; those of another one do not wait for the rest. */
static void test_many_at_once(void)
{
        struct world w;
        struct end ends[20], other;
        char name[16];

        open_world(&w, "{\"pool\": 0}", 30);
        sessions_set_principals(w.sessions, 2, NULL, NULL);
        for (int i = 0; i < 20; i++) {
                snprintf(name, sizeof(name), "alice:%d", i);
                begin(&w, &ends[i], name, NULL);
        }
        check_eq_int(w.creates, 16);
        begin(&w, &other, "bob:1", NULL);
        check_eq_int(w.creates, 17);
        for (uint32_t i = 1; i <= 4; i++)
                start(&w, i);
        check_eq_int(w.creates, 21);
        close_world(&w);
}

/* Another session takes the place first: the waiting one is refused, not forgotten. */
static void test_no_place_left_but_a_request(void)
{
        struct world w;
        struct end ends[2];

        open_world(&w, "{" POOL ", \"profiles\": {\"x\": {\"pool\": 0}}}", 1);
        expect(&w, "default");
        until(&w, w.creates == 1);
        begin(&w, &ends[0], "a", "x");
        check_eq_int(w.creates, 1);
        start(&w, 1);
        check(w.sandbox[1].killed);
        end(&w, 1);
        check_eq_int(w.creates, 2);
        check_eq_int(w.profile, 1);
        start(&w, 2);
        check(has_cell(&w, 2));
        close_world(&w);
}

static void test_deaths(void)
{
        struct world w;
        struct end done;

        /* A spare was killed from outside: it is replaced after a while. */
        open_with_one(&w, ONE, 8);
        end(&w, 1);
        spin(&w, POOL_SIZE_AGAIN_MS / 2);
        check_eq_int(w.creates, 1);
        until(&w, w.creates == 2);
        start(&w, 2);
        /* Its channel ends first: no session gets it. */
        close(w.sandbox[2].rpc);
        w.sandbox[2].rpc = -1;
        begin(&w, &done, "a", NULL);
        check(w.sandbox[2].killed);
        check_eq_int(w.creates, 3);
        start(&w, 3);
        check(has_cell(&w, 3));
        /* The second end in a row counts double. */
        end(&w, 2);
        spin(&w, POOL_SIZE_AGAIN_MS);
        check_eq_int(w.creates, 3);
        until(&w, w.creates == 4);
        close_world(&w);
}

static void test_worker_that_sends_data(void)
{
        struct world w;

        open_with_one(&w, ONE, 8);
        check_eq_int(write(w.sandbox[1].rpc, "x", 1), 1);
        until(&w, w.sandbox[1].killed);
        check_eq_int(count(&w).spares_ready, 0);
        end(&w, 1);
        until(&w, w.creates == 2);
        close_world(&w);
}

static void test_failed_request(void)
{
        struct world w;
        struct end done;

        open_world(&w, ONE, 8);
        expect(&w, "default");
        until(&w, w.creates == 1);
        fail(&w, 1, ENOENT);
        spin(&w, LONG_MS + POOL_SIZE_AGAIN_MS);
        check_eq_int(w.creates, 1);
        /* A session's request gets the error; a session that gets a sandbox shows that it works. */
        begin(&w, &done, "a", NULL);
        check_eq_int(w.creates, 2);
        fail(&w, 2, ENOENT);
        check_eq_str(done.why, "there is no image");
        spin(&w, LONG_MS);
        check_eq_int(w.creates, 2);
        begin(&w, &done, "a", NULL);
        start(&w, 3);
        until(&w, w.creates == 4);
        close_world(&w);
}

static void on_place_free(void *data)
{
}

/* A request is delayed while cells start and end, but not forever. */
static void test_patience(void)
{
        struct world w = {.base = event_base_new(), .config = fake_config(ONE)};
        const struct sandbox_requests requests = {&w, on_request, NULL};
        struct error err = {};
        struct pool *pool;
        int pair[2];

        fake_clock_skip_idle(true);
        check_ok(pool_new(&pool, w.base, w.config, 8, &requests, on_place_free, &w, &err));
        pool_expect(pool, 0);
        until(&w, w.creates == 1);
        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        const int fds[SESSION_FDS] = {pair[0],      dup(pair[0]), dup(pair[0]), -1,
                                      dup(pair[0]), dup(pair[0]), dup(pair[0])};
        uint64_t from = clock_us();
        check(pool_started(pool, 1, 1, fds));
        pool_note_activity(pool, UINT64_MAX / 2); /* later than any time in this test */
        until(&w, w.creates == 2);
        check(clock_us() - from > (POOL_EARLY_MS + POOL_PATIENCE_MS / 2) * 1000);
        pool_free(pool);
        close(pair[1]);
        event_base_free(w.base);
        config_free(w.config);
}

/* After a call has waited, the next requests follow the answers at once, although cells begin; the monitor learns how many there are. */
static void test_back_to_back(void)
{
        struct world w;
        struct end ends[4];
        static const char *const names[] = {"a", "b", "c", "d"};

        open_with_one(&w, "{\"pool\": {\"min\": 1, \"max\": 3}}", 20);
        for (int i = 0; i < 4; i++)
                begin(&w, &ends[i], names[i], NULL);
        check_eq_int(w.creates, 4);
        check_eq_int(w.number, 0);
        start(&w, 2);
        start(&w, 3);
        spin(&w, 2 * POOL_QUIET_MS);
        check_eq_int(w.creates, 4); /* "d" still waits */
        for (int i = 4; i < 7; i++) {
                start(&w, (uint32_t)i);
                check_eq_int(w.creates, i + 1);
                check_eq_int(w.number, monitor_spares((size_t)i - 3, (size_t)i - 3));
        }
        /* The control: none had to wait. */
        start(&w, 7);
        check_eq_int(count(&w).spares_ready, 3);
        spin(&w, 2 * POOL_PATIENCE_MS);
        begin(&w, &ends[0], "e", NULL);
        check_eq_int(w.creates, 7);
        until(&w, w.creates == 8);
        close_world(&w);
}

/* It falls to the minimum when a minute has passed, and not before. */
static void test_after_a_minute(void)
{
        struct world w;
        struct end ends[3];

        open_with_one(&w, "{\"pool\": {\"min\": 1, \"max\": 3}}", 20);
        begin(&w, &ends[0], "a", NULL);
        begin(&w, &ends[1], "b", NULL);
        begin(&w, &ends[2], "c", NULL);
        for (uint32_t i = 2; i <= 6; i++) {
                until(&w, w.creates >= (int)i);
                start(&w, i);
        }
        spin(&w, POOL_PERIOD_MS - 5000);
        check_eq_int(count(&w).spares_ready, 3);
        spin(&w, POOL_PERIOD_MS / 6 + 6000);
        check_eq_int(count(&w).spares_ready, 1);
        close_world(&w);
}

/* The monitor refuses a spare for lack of memory: the pool asks again after a few seconds, and logs why once a minute. */
static void test_bounded_by_memory(void)
{
        char path[] = "/tmp/cloister-pool-XXXXXX", text[4096] = "";
        int log = mkstemp(path), old = dup(2);
        struct world w;
        size_t n = 0;

        check(log >= 0 && unlink(path) == 0 && dup2(log, 2) == 2);
        open_world(&w, ONE, 8);
        expect(&w, "default");
        for (int i = 1; i <= 14; i++) {
                until(&w, w.creates == i);
                fail(&w, (uint32_t)i, EDQUOT);
                spin(&w, 1000);
                check_eq_int(w.creates, i);
        }
        check(dup2(old, 2) == 2 && pread(log, text, sizeof(text) - 1, 0) > 0);
        for (const char *at = text; (at = strstr(at, "fewer ready sandboxes than wanted")); at++)
                n++;
        check_eq_int(n, 2);
        until(&w, w.creates == 15);
        start(&w, 15);
        check_eq_int(count(&w).spares_ready, 1);
        close(log);
        close(old);
        close_world(&w);
}

/* A call that is cancelled while its sandbox is made leaves it to the pool, as no session has had it; without a pool it stays the
 * session's. */
static void test_cancelled_call(void)
{
        for (int has_pool = 0; has_pool < 2; has_pool++) {
                struct world w;
                struct end done = {}, next;
                const struct cell_request request = {
                        .code = "1", .code_length = 1, .done = fake_on_done, .data = &done};
                struct cell *cell;
                struct error err = {};

                open_world(&w, has_pool ? ONE : "{\"pool\": 0}", 8);
                run_one(&w, "early", false);
                check_ok(sessions_run(w.sessions, "a", &request, &cell, &err));
                spin(&w, 1);
                check_eq_int(w.creates, 2);
                expect(&w, "default");
                cell_cancel(cell);
                spin(&w, 1);
                check_eq_int(done.status, CELL_CANCELLED);
                start(&w, 2);
                check_eq_int(count(&w).live, 2 - has_pool);
                check_eq_int(count(&w).spares_ready, has_pool);
                check_eq_int(w.kills, 0);
                begin(&w, &next, has_pool ? "b" : "a", NULL);
                check_eq_int(w.creates, 2);
                check(has_cell(&w, 2));
                close_world(&w);
        }
}

static void test_none_while_a_session_waits(void)
{
        struct world w;
        struct end a, b;

        open_with_one(&w, ONE, 8);
        begin(&w, &a, "a", NULL);
        until(&w, w.creates == 2);
        begin(&w, &b, "b", NULL);
        spin(&w, LONG_MS);
        check_eq_int(w.creates, 2);
        close_world(&w);
}

int main(void)
{
        run(test_nothing_before_it_is_expected);
        run(test_taken_once);
        run(test_zero);
        run(test_grows_and_shrinks);
        run(test_another_profile);
        run(test_reload_ends_spares);
        run(test_no_place_left);
        run(test_no_place_left_but_a_request);
        run(test_rights_of_principals);
        run(test_memory_of_another);
        run(test_spares_of_principals);
        run(test_no_spare_of_nobody);
        run(test_spares_stay);
        run(test_what_others_do_not_need);
        run(test_unnamed_sessions_give_way);
        run(test_order_of_giving_way);
        run(test_quota);
        run(test_many_at_once);
        run(test_deaths);
        run(test_worker_that_sends_data);
        run(test_failed_request);
        run(test_patience);
        run(test_none_while_a_session_waits);
        run(test_back_to_back);
        run(test_after_a_minute);
        run(test_bounded_by_memory);
        run(test_cancelled_call);
        return 0;
}
