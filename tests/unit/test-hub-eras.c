/* The hub with servers of both eras, and with those that are neither. */
#include <assert.h>
#include <signal.h>

#include "supervisor/hub/server/handshake.h"
#include "supervisor/hub/server/listing.h"
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
        struct reply *reply = world_call(w, server, "echo", "{\"n\":1}");

        check_eq_int(reply->outcome, HUB_OK);
        check_has(reply->result, "\"structuredContent\":{\"n\":1}");
        reply_free(reply);
        check(world_tools(w, server) > 15);
}

static void test_modern(void)
{
        struct world w;
        struct reply *reply;

        world_init(&w);
        world_add(&w, "m", "--era", "modern", "--instructions", "how", NULL);
        world_open(&w);
        wait_for_all(&w);
        check_eq_str(world_member(&w, "m", "state"), "ready");
        check_eq_str(world_member(&w, "m", "instructions"), "how");
        check_has_tools(&w, "m");
        /* Every request names the client and its protocol version. */
        reply = world_call(&w, "m", "metas", "{}");
        check_has(reply->result, "[\"tools/list\",{\"io.modelcontextprotocol/protocolVersion\":"
                                 "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{},"
                                 "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"cloister\"");
        check_has(reply->result, "[\"tools/call\",{\"io.modelcontextprotocol/protocolVersion\"");
        check(!strstr(reply->result, "subscriptions/listen"));
        reply_free(reply);
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

/* Servers that end on server/discover, do not answer it, or end on the request after it (as servers of
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

/* A server that answers nothing after server/discover works when it is started again. */
static void test_hangs_after_discover(void)
{
        struct world w;
        struct reply reply;

        world_init(&w);
        w.servers[world_add(&w, "s", "--era", "wedge", NULL)].start_timeout_ms = 4000;
        world_open(&w);
        world_begin(&w, &reply, "s", "echo", "{}", 0);
        world_pass_ms(&w, HANDSHAKE_PROBE_MS);
        world_pass_ms(&w, 4000 - HANDSHAKE_PROBE_MS - 1);
        check(!reply.done);
        world_pass_ms(&w, 1);
        check_eq_int(reply.outcome, HUB_UNAVAILABLE);
        check_has(reply.message, "did not answer initialize within 4 s");
        check_has_tools(&w, "s");
        check_eq_int(w.n_runs, 2);
        world_done(&w);
}

/* A server that treats server/discover as the initialization, and then refuses initialize. */
static void test_refuses_after_discover(void)
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

/* A modern server that starts slowly is sent server/discover and initialize. */
static void test_slow_modern(void)
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

static void test_unknown_version(void)
{
        struct world w;
        struct reply *reply;

        world_init(&w);
        world_add(&w, "s", "--era", "future", NULL);
        world_open(&w);
        reply = world_call(&w, "s", "echo", "{}");
        check_eq_int(reply->outcome, HUB_UNAVAILABLE);
        check_has(reply->message,
                  "speaks MCP 2031-01-01; Cloister speaks 2024-11-05 to 2025-11-25 and 2026-07-28");
        reply_free(reply);
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

static void check_change(struct world *w, const char *name, bool is_reported, const char *arguments)
{
        size_t n = world_tools(w, "s");

        reply_free(world_call(w, "s", "change", arguments));
        world_pass_ms(w, LISTING_AGAIN_MS);
        world_settle(w, "s");
        if (world_tools(w, "s") != n + is_reported)
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
        /* A notification of another subscription is ignored. */
        check_change(&w, "another's", false, "{\"name\":\"b\",\"times\":1,\"mine\":false}");
        world_done(&w);
}

/* The hub renews a subscription that has ended after a while, and a list whose ttlMs is over when a
 * tool is called. */
static void test_subscription_and_list_expire(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", "--listens", NULL);
        world_add(&w, "t", "--era", "modern", "--ttl", "0", NULL);
        world_open(&w);
        wait_for_all(&w);
        size_t n = world_tools(&w, "t");
        reply_free(world_call(&w, "t", "change", "{\"name\":\"a\",\"times\":0}"));
        reply_free(world_call(&w, "s", "unlisten", "{}"));
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
        struct reply *reply = world_call(w, "s", "raw", result);

        check_eq_int(reply->outcome, HUB_PROTOCOL);
        check(reply->sent);
        check_has(reply->message, part);
        reply_free(reply);
}

static void test_incomplete_results(void)
{
        struct world w;
        struct reply *reply;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", NULL);
        world_open(&w);
        check_refused(
                &w,
                "{\"result\":\"{\\\"resultType\\\":\\\"input_required\\\",\\\"inputRequests\\\":"
                "{\\\"k\\\":{\\\"method\\\":\\\"elicitation/create\\\"}},"
                "\\\"requestState\\\":\\\"x\\\"}\"}",
                "asks for something that is not valid: params must be an object");
        check_refused(&w,
                      "{\"result\":\"{\\\"resultType\\\":\\\"task\\\",\\\"taskId\\\":\\\"1\\\"}\"}",
                      "the task has no status");
        check_refused(&w, "{\"result\":\"{\\\"resultType\\\":\\\"guess\\\"}\"}",
                      "a result of type \"guess\"");
        reply = world_call(
                &w, "s", "raw",
                "{\"result\":\"{\\\"resultType\\\":\\\"complete\\\",\\\"content\\\":[]}\"}");
        check_eq_int(reply->outcome, HUB_OK);
        reply_free(reply);
        reply = world_call(&w, "s", "raw", "{\"result\":\"{\\\"content\\\":[]}\"}");
        check_eq_int(reply->outcome, HUB_OK);
        reply_free(reply);
        world_done(&w);
}

/* A modern server may not send requests, and they are not answered. */
static void test_requests_of_a_modern_server(void)
{
        struct world w;
        struct reply reply;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", NULL);
        world_open(&w);
        world_begin(&w, &reply, "s", "ask", "{\"method\":\"roots/list\"}", 700);
        world_until_log(&w, "skipped a request: a server of MCP 2026-07-28 may not send one");
        world_pass_ms(&w, 700);
        check_eq_int(reply.outcome, HUB_TIMEOUT);
        world_done(&w);
}

int main(void)
{
        run(test_modern);
        run(test_legacy_is_not_slowed);
        run(test_era_is_remembered);
        run(test_hangs_after_discover);
        run(test_refuses_after_discover);
        run(test_slow_modern);
        run(test_unknown_version);
        run(test_era_that_changed);
        run(test_subscription);
        run(test_subscription_and_list_expire);
        run(test_incomplete_results);
        run(test_requests_of_a_modern_server);
        return 0;
}
