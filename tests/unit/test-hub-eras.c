/* The hub with servers of both eras, and with those that are neither. */
#include <assert.h>
#include <signal.h>

#include "supervisor/hub/handshake.h"
#include "supervisor/hub/listing.h"
#include "tests/unit/hub-world.h"
#include "tests/unit/test.h"

static void set_true(void *data)
{
        *(bool *)data = true;
}

static void wait_for_all(struct world *w)
{
        bool done = false;

        check(hub_wait(w->hub, NULL, 15000, set_true, &done));
        world_until(w, &done);
}

static void check_has_tools(struct world *w, const char *server)
{
        struct told *told = world_call(w, server, "echo", "{\"n\":1}");

        check_eq_int(told->outcome, HUB_OK);
        check_has(told->result, "\"structuredContent\":{\"n\":1}");
        told_free(told);
        check(world_tools(w, server) > 15);
}

static void test_modern(void)
{
        struct world w;
        struct told *told;

        world_init(&w);
        world_add(&w, "m", "--era", "modern", "--instructions", "how", NULL);
        world_open(&w);
        wait_for_all(&w);
        check_eq_str(world_member(&w, "m", "state"), "ready");
        check_eq_str(world_member(&w, "m", "instructions"), "how");
        check_has_tools(&w, "m");
        /* Every request says who asks and what he speaks, beside what it asks. */
        told = world_call(&w, "m", "metas", "{}");
        check_has(told->result, "[\"tools/list\",{\"io.modelcontextprotocol/protocolVersion\":"
                                "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{},"
                                "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"cloister\"");
        check_has(told->result, "[\"tools/call\",{\"io.modelcontextprotocol/protocolVersion\"");
        check(!strstr(told->result, "subscriptions/listen"));
        told_free(told);
        check_eq_int(w.n_runs, 1);
        check_has(world_log(&w), "tools, modern");
        world_done(&w);
}

static void test_legacy_is_not_slowed(void)
{
        static const char *const eras[] = {"legacy", "odd", "unsupported"};
        struct world w;

        world_init(&w);
        for (size_t i = 0; i < ARRAY_SIZE(eras); i++)
                world_add(&w, eras[i], "--era", eras[i], NULL);
        world_open(&w);
        wait_for_all(&w); /* without any time */
        for (size_t i = 0; i < ARRAY_SIZE(eras); i++)
                check_has_tools(&w, eras[i]);
        check_eq_int(w.n_runs, 3);
        check_has(world_log(&w), "tools, legacy");
        world_done(&w);
}

/* Those that end over the question, say nothing to it, or end over what follows it (as servers of
 * the Python SDK before 1.10 do) are legacy; the next run knows. */
static void test_era_is_remembered(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "die", "--era", "die", NULL);
        world_add(&w, "silent", "--era", "silent", NULL);
        world_add(&w, "fragile", "--era", "fragile", NULL);
        world_open(&w);
        hub_start(w.hub, NULL, HUB_ALL);
        world_until_runs(&w, 4);
        world_pass_ms(&w, HANDSHAKE_PROBE_MS);
        wait_for_all(&w);
        check_has_tools(&w, "die");
        check_has_tools(&w, "silent");
        check_has_tools(&w, "fragile");
        check_eq_int(w.n_runs, 5);
        check_has(world_log(&w), "server die: ended with exit status 1; it is started again");
        world_shut(&w);

        w.n_runs = 0;
        world_open(&w);
        hub_start(w.hub, NULL, HUB_ALL);
        wait_for_all(&w);
        check_has_tools(&w, "die");
        check_has_tools(&w, "silent");
        check_has_tools(&w, "fragile");
        check_eq_int(w.n_runs, 3);
        world_done(&w);
}

/* One that the question makes mute is of use when it is started again. */
static void test_wedged(void)
{
        struct world w;
        struct told told;

        world_init(&w);
        w.servers[world_add(&w, "s", "--era", "wedge", NULL)].start_timeout_ms = 4000;
        world_open(&w);
        world_begin(&w, &told, "s", "echo", "{}", 0);
        world_pass_ms(&w, HANDSHAKE_PROBE_MS);
        world_pass_ms(&w, 4000 - HANDSHAKE_PROBE_MS - 1);
        check(!told.done);
        world_pass_ms(&w, 1);
        check_eq_int(told.outcome, HUB_UNAVAILABLE);
        check_has(told.message, "did not answer initialize within 4 s");
        check_has_tools(&w, "s");
        check_eq_int(w.n_runs, 2);
        world_done(&w);
}

/* One that takes the question for a beginning, and then refuses to begin. */
static void test_taken(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--era", "taken", NULL);
        world_open(&w);
        check_has_tools(&w, "s");
        check_eq_int(w.n_runs, 2);
        check_has(world_log(&w), "server s: refused initialize; it is started again");
        world_done(&w);
}

/* A modern server that was slow to start has been sent both questions. */
static void test_late(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--era", "late", NULL);
        world_open(&w);
        hub_start(w.hub, NULL, HUB_ALL);
        check_eq_int(kill(w.runs[0].pid, SIGSTOP), 0);
        world_pass_ms(&w, HANDSHAKE_PROBE_MS);
        check_eq_int(kill(w.runs[0].pid, SIGCONT), 0);
        wait_for_all(&w);
        check_has_tools(&w, "s");
        check_eq_int(w.n_runs, 1);
        check_has(world_log(&w), "tools, modern");
        world_done(&w);
}

static void test_future(void)
{
        struct world w;
        struct told *told;

        world_init(&w);
        world_add(&w, "s", "--era", "future", NULL);
        world_open(&w);
        told = world_call(&w, "s", "echo", "{}");
        check_eq_int(told->outcome, HUB_UNAVAILABLE);
        check_has(told->message,
                  "speaks MCP 2031-01-01; Cloister speaks 2024-11-05 to 2025-11-25 and 2026-07-28");
        told_free(told);
        world_done(&w);
}

/* A server that was legacy the last time and is modern now, under the same config. */
static void test_era_that_changed(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--era", "legacy", NULL);
        world_open(&w);
        check_has_tools(&w, "s");
        world_shut(&w);
        w.n_runs = 0;
        w.args[0][4] = (char *)"modern";
        world_open(&w);
        check_has_tools(&w, "s");
        check_eq_int(w.n_runs, 2);
        world_shut(&w);
        w.n_runs = 0;
        w.args[0][4] = (char *)"legacy";
        world_open(&w);
        check_has_tools(&w, "s");
        check_eq_int(w.n_runs, 1);
        world_done(&w);
}

static void check_change(struct world *w, const char *name, bool is_told, const char *arguments)
{
        size_t n = world_tools(w, "s");

        told_free(world_call(w, "s", "change", arguments));
        world_pass_ms(w, LISTING_AGAIN_MS);
        world_settle(w, "s");
        if (world_tools(w, "s") != n + is_told)
                test_fail_("%s: %zu tools, %zu before", name, world_tools(w, "s"), n);
}

static void test_subscription(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", "--listens", NULL);
        world_open(&w);
        wait_for_all(&w);
        check_change(&w, "ours", true, "{\"name\":\"a\",\"times\":5}");
        /* What belongs to a subscription of somebody else says nothing to us. */
        check_change(&w, "another's", false, "{\"name\":\"b\",\"times\":1,\"mine\":false}");
        world_done(&w);
}

/* What ends or expires is asked for again: a subscription by itself, a list that holds for a time
 * when it is used, and neither at once. */
static void test_what_ends(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", "--listens", NULL);
        world_add(&w, "t", "--era", "modern", "--ttl", "0", NULL);
        world_open(&w);
        wait_for_all(&w);
        size_t n = world_tools(&w, "t");
        told_free(world_call(&w, "t", "change", "{\"name\":\"a\",\"times\":0}"));
        told_free(world_call(&w, "s", "unlisten", "{}"));
        check_change(&w, "ended", false, "{\"name\":\"c\",\"times\":0}");
        check_eq_int(world_tools(&w, "t"), n);
        static_assert((int)HANDSHAKE_LISTEN_MS == (int)LISTING_TTL_MIN_MS, "one wait for both");
        world_pass_ms(&w, HANDSHAKE_LISTEN_MS);
        world_pass_ms(&w, LISTING_AGAIN_MS);
        world_settle(&w, "s");
        check_change(&w, "again", true, "{\"name\":\"d\",\"times\":1}");
        check_eq_int(world_tools(&w, "t"), n);
        check_has_tools(&w, "t");
        world_pass_ms(&w, LISTING_AGAIN_MS);
        world_until_tools(&w, "t", n + 1);
        world_done(&w);
}

static void check_refused(struct world *w, const char *result, const char *part)
{
        struct told *told = world_call(w, "s", "raw", result);

        check_eq_int(told->outcome, HUB_PROTOCOL);
        check(told->sent);
        check_has(told->message, part);
        told_free(told);
}

static void test_results_that_are_no_end(void)
{
        struct world w;
        struct told *told;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", NULL);
        world_open(&w);
        check_refused(
                &w,
                "{\"result\":\"{\\\"resultType\\\":\\\"input_required\\\",\\\"inputRequests\\\":"
                "{\\\"k\\\":{\\\"method\\\":\\\"elicitation/create\\\"}},"
                "\\\"requestState\\\":\\\"x\\\"}\"}",
                "asks for input before it goes on (elicitation/create)");
        check_refused(&w,
                      "{\"result\":\"{\\\"resultType\\\":\\\"task\\\",\\\"taskId\\\":\\\"1\\\"}\"}",
                      "a result of type \"task\"");
        told = world_call(
                &w, "s", "raw",
                "{\"result\":\"{\\\"resultType\\\":\\\"complete\\\",\\\"content\\\":[]}\"}");
        check_eq_int(told->outcome, HUB_OK);
        told_free(told);
        told = world_call(&w, "s", "raw", "{\"result\":\"{\\\"content\\\":[]}\"}");
        check_eq_int(told->outcome, HUB_OK);
        told_free(told);
        world_done(&w);
}

/* It may not ask us anything, and we may not answer. */
static void test_requests_of_a_modern_server(void)
{
        struct world w;
        struct told told;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", NULL);
        world_open(&w);
        world_begin(&w, &told, "s", "ask", "{\"method\":\"roots/list\"}", 700);
        world_until_log(&w, "skipped a request: a server of MCP 2026-07-28 may not send one");
        world_pass_ms(&w, 700);
        check_eq_int(told.outcome, HUB_TIMEOUT);
        world_done(&w);
}

int main(void)
{
        run(test_modern);
        run(test_legacy_is_not_slowed);
        run(test_era_is_remembered);
        run(test_wedged);
        run(test_taken);
        run(test_late);
        run(test_future);
        run(test_era_that_changed);
        run(test_subscription);
        run(test_what_ends);
        run(test_results_that_are_no_end);
        run(test_requests_of_a_modern_server);
        return 0;
}
