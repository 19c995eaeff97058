/* Ready sandboxes. */
#include "tests/unit/pool-world.h"

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
        run(test_unnamed_sessions_give_way);
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
