/* The hub: calls and their failures. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "supervisor/hub/server/connection.h"
#include "supervisor/hub/server/server.h"
#include "tests/unit/hub-world.h"
#include "tests/unit/test.h"

static void open_one(struct world *w)
{
        world_init(w);
        world_add(w, "s", NULL);
        world_open(w);
}

/* Calls and checks the outcome; the message has the part. */
static void check_call(struct world *w, const char *server, const char *tool, const char *arguments,
                       enum hub_outcome outcome, const char *part)
{
        struct reply *reply = world_call(w, server, tool, arguments);

        if (reply->outcome != outcome || !strstr(reply->message, part))
                test_fail_("%s %s: %s \"%s\", not %s \"%s\"", tool, arguments,
                           hub_outcome_kind(reply->outcome), reply->message,
                           hub_outcome_kind(outcome), part);
        reply_free(reply);
}

static void check_works(struct world *w, const char *server)
{
        struct reply *reply = world_call(w, server, "echo",
                                         "{\"a\":[1.50,-0,12345678901234567890123]}");

        check_eq_str(reply->message, "");
        check_eq_int(reply->outcome, HUB_OK);
        check(reply->sent);
        reply_free(reply);
}

static void test_call_starts_the_server(void)
{
        struct world w;
        struct reply *reply;

        open_one(&w);
        reply = world_call(&w, "s", "echo", "{\"text\":\"a\\nb \\u20ac \\\"\"}");
        check_eq_int(reply->outcome, HUB_OK);
        check_eq_str(reply->result, "{\"content\":[{\"type\":\"text\",\"text\":\"echo\"}],"
                                    "\"structuredContent\":{\"text\":\"a\\nb € \\\"\"}}");
        reply_free(reply);
        check_eq_int(w.n_runs, 1);
        check_works(&w, "s");
        reply = world_call(&w, "s", "error", "{}");
        check_eq_int(reply->outcome, HUB_OK);
        check_has(reply->result, "\"isError\":true");
        reply_free(reply);
        check_eq_int(w.n_runs, 1);
        world_done(&w);
}

/* Numbers are passed on as they are written, byte for byte. */
static void test_fidelity(void)
{
        struct world w;
        struct reply *reply;

        open_one(&w);
        reply = world_call(&w, "s", "raw",
                           "{\"result\":\"{\\\"content\\\":[],\\\"structuredContent\\\":"
                           "{\\\"n\\\":[1.50,1E400,-0.0,123456789012345678901234567890]}}\"}");
        check_eq_int(reply->outcome, HUB_OK);
        check_eq_str(reply->result, "{\"content\":[],\"structuredContent\":"
                                    "{\"n\":[1.50,1E400,-0.0,123456789012345678901234567890]}}");
        reply_free(reply);
        world_done(&w);
}

static void test_not_found(void)
{
        struct world w;
        struct reply *reply;
        struct error err = {};
        struct hub_call *call = NULL;
        _cleanup_json_ yyjson_doc *doc = NULL;

        open_one(&w);
        w.servers[world_add(&w, "off", NULL)].disabled = true;
        world_shut(&w);
        world_open(&w);
        check_call(&w, "nobody", "echo", "{}", HUB_NOT_FOUND, "there is no server \"nobody\"");
        check_call(&w, "off", "echo", "{}", HUB_UNAVAILABLE, "disabled in the config");
        check_eq_int(w.n_runs, 0);
        reply = world_call(&w, "s", "nothing", "{}");
        check_eq_int(reply->outcome, HUB_NOT_FOUND);
        check_eq_str(reply->message, "server \"s\" has no tool \"nothing\"");
        check(!reply->sent);
        reply_free(reply);
        reply = world_call(&w, "s", "lists", "{}");
        check_has(reply->result, "\"calls\":1");
        reply_free(reply);
        check_eq_int(json_parse("[1]", 3, &doc, &err), 0);
        const struct hub_request request = {
                .server = "s", .tool = "echo", .arguments = yyjson_doc_get_root(doc)};
        check_eq_int(hub_call(w.hub, &request, &call, &err), -EINVAL);
        world_done(&w);
}

static void test_thousand_at_once(void)
{
        static struct reply reply[1000];
        struct world w;

        open_one(&w);
        check_works(&w, "s");
        for (int i = 0; i < 1000; i++)
                world_begin(&w, &reply[i], "s", "echo", "{\"n\":1}", 0);
        for (int i = 0; i < 1000; i++)
                world_until(&w, &reply[i].done);
        for (int i = 0; i < 1000; i++) {
                check_eq_int(reply[i].outcome, HUB_OK);
                free(reply[i].result);
        }
        world_done(&w);
}

/* A slow call delays neither another call of the same server nor one of another server. */
static void test_calls_are_concurrent(void)
{
        struct world w;
        struct reply slow;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_add(&w, "mute", "--never", NULL);
        world_open(&w);
        hub_start(w.hub, NULL, HUB_ALL);
        world_begin(&w, &slow, "s", "hold", "{}", 0);
        check_works(&w, "s");
        check(!slow.done);
        reply_free(world_call(&w, "s", "release", "{}"));
        world_until(&w, &slow.done);
        check_eq_int(slow.outcome, HUB_OK);
        free(slow.result);
        world_done(&w);
}

static void test_protocol_errors(void)
{
        static const struct {
                const char *tool, *arguments, *part;
        } cases[] = {
                {"raw", "{\"result\":\"7\"}", "the result is not an object"},
                {"raw", "{\"result\":\"null\"}", "the result is not an object"},
                {"raw", "{\"result\":\"{\\\"content\\\":{}}\"}", "the content is not an array"},
                {"raw", "{\"result\":\"{\\\"content\\\":[7]}\"}",
                 "a block of the content has no type"},
                {"raw", "{\"result\":\"{\\\"content\\\":[],\\\"isError\\\":1}\"}",
                 "isError is not"},
                {"line", "{\"line\":\"{\\\"id\\\":ID,\\\"result\\\":{}}\"}", "jsonrpc is not"},
                {"line", "{\"line\":\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":ID}\"}",
                 "neither a method"},
        };
        struct world w;
        struct reply *reply;

        open_one(&w);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                check_call(&w, "s", cases[i].tool, cases[i].arguments, HUB_PROTOCOL, cases[i].part);
        /* Python's texts for infinity and for half a surrogate pair are not JSON: the call fails
         * at once. */
        check_call(&w, "s", "echo", "{\"n\":1e400}", HUB_PROTOCOL, "not JSON at byte");
        check_call(&w, "s", "raw", "{\"result\":\"{\\\"a\\\":\\\"\\\\ud800\\\"}\"}", HUB_PROTOCOL,
                   "not JSON at byte");
        reply = world_call(
                &w, "s", "line",
                "{\"line\":\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":ID,\\\"error\\\":"
                "{\\\"code\\\":-32602,\\\"message\\\":\\\"no\\\",\\\"data\\\":[1.50]}}\"}");
        check_eq_int(reply->outcome, HUB_PROTOCOL);
        check_eq_int(reply->rpc_code, -32602);
        check_eq_str(reply->message, "no");
        check_eq_str(reply->rpc_data, "[1.50]");
        reply_free(reply);
        check_works(&w, "s");
        check_eq_int(w.n_runs, 1);
        world_done(&w);
}

static void test_odd_answers(void)
{
        struct world w;
        struct reply *reply;

        open_one(&w);
        reply = world_call(&w, "s", "wrong-id", "{}");
        check_has(reply->result, "right");
        reply_free(reply);
        check_has(world_log(&w), "answer to a request that was not sent");
        reply = world_call(&w, "s", "duplicate", "{}");
        check_has(reply->result, "duplicate");
        reply_free(reply);
        reply = world_call(&w, "s", "batch", "{}");
        check_has(reply->result, "in a batch");
        reply_free(reply);
        world_done(&w);
}

/* 2,000 unexpected lines are read in a tenth of a second, and other servers are not slower. */
static void test_flood_is_held_back(void)
{
        struct reply flood;
        struct world w;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_add(&w, "good", NULL);
        world_open(&w);
        check_works(&w, "s");
        world_begin(&w, &flood, "s", "flood", "{\"n\":30000}", 600000);
        /* Without any time, it does not get through. */
        for (int i = 0; i < 500; i++)
                check_works(&w, "good");
        check(!flood.done);
        /* The round trip gives the server the real time that it needs to write. */
        while (!flood.done) {
                check_works(&w, "good");
                world_pass_ms(&w, CONNECTION_PAUSE_MS);
        }
        check_has(flood.result, "flooded");
        free(flood.result);
        check_works(&w, "s");
        world_done(&w);
}

static void test_requests_of_the_server(void)
{
        struct world w;
        struct reply *reply;

        open_one(&w);
        reply = world_call(&w, "s", "ask", "{\"method\":\"ping\"}");
        check_has(reply->result,
                  "\"structuredContent\":{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{}}");
        reply_free(reply);
        reply = world_call(&w, "s", "ask", "{\"method\":\"roots/list\"}");
        check_has(reply->result, "\"code\":-32601");
        reply_free(reply);
        world_done(&w);
}

static void test_crash_and_restart(void)
{
        struct world w;
        struct reply other, *reply;

        open_one(&w);
        check_works(&w, "s");
        world_begin(&w, &other, "s", "hang", "{}", 0);
        reply = world_call(&w, "s", "crash", "{}");
        check_eq_int(reply->outcome, HUB_UNAVAILABLE);
        check_eq_str(
                reply->message,
                "server \"s\" ended with exit status 3 during the call; its stderr says: RuntimeError: crashed on purpose");
        check(reply->sent);
        reply_free(reply);
        world_until(&w, &other.done);
        check_eq_int(other.outcome, HUB_UNAVAILABLE);
        check_eq_str(world_member(&w, "s", "state"), "cached");
        /* The next call starts the server again; earlier requests are not repeated. */
        check_works(&w, "s");
        check_eq_int(w.n_runs, 2);
        reply = world_call(&w, "s", "lists", "{}");
        check_has(reply->result, "\"calls\":2");
        reply_free(reply);
        check_call(&w, "s", "kill", "{}", HUB_UNAVAILABLE, "was killed by SIGKILL during the call");
        reply = world_call(&w, "s", "answer-and-exit", "{}");
        check_has(reply->result, "last words");
        reply_free(reply);
        world_until_state(&w, "s", "cached");
        check_works(&w, "s");
        check_eq_int(w.n_runs, 4);
        world_done(&w);
}

static void test_closed_pipes(void)
{
        struct reply reply;
        struct world w;

        open_one(&w);
        world_begin(&w, &reply, "s", "close", "{\"fd\":1}", 0);
        world_until_state(&w, "s", "ready");
        world_until_state(&w, "s", "cached");
        world_pass_ms(&w, SERVER_END_MS - 1);
        check(!reply.done);
        world_pass_ms(&w, 1);
        check_eq_int(reply.outcome, HUB_UNAVAILABLE);
        check_has(reply.message, "closed its output during the call");
        check_eq_int(w.n_stops, 1);
        check_works(&w, "s");
        world_done(&w);
}

static void test_crash_loop(void)
{
        struct world w;
        struct reply *reply;

        world_init(&w);
        world_add(&w, "s", "--die", "1", NULL);
        world_add(&w, "t", "--die-after-list", "0", NULL);
        world_open(&w);
        for (int i = 0; i < 3; i++)
                check_call(&w, "s", "echo", "{}", HUB_UNAVAILABLE,
                           "exit status 1 while it was starting");
        check_eq_int(w.n_runs, 3);
        /* From now on a call fails at once, without a process, until the delay is over. */
        reply = world_call(&w, "s", "echo", "{}");
        check_eq_int(reply->outcome, HUB_UNAVAILABLE);
        check_has(reply->message, "its stderr says: Error: faulty on purpose");
        check_has(reply->message, "(tried 3 times, again in 1 s)");
        check(reply->duration_us == 0 && !reply->sent);
        reply_free(reply);
        check_eq_int(w.n_runs, 3);
        world_pass_ms(&w, 1000);
        check_call(&w, "s", "echo", "{}", HUB_UNAVAILABLE, "exit status 1");
        check_eq_int(w.n_runs, 4);
        /* One that ends right after its list is not started without end for the same call. */
        check_call(&w, "t", "echo", "{}", HUB_UNAVAILABLE, "ended with exit status 0");
        check(w.n_runs <= 6);
        world_done(&w);
}

/* A server whose exit is reported before its last output is read is not started again and again for a
 * call that waits for it. */
static void test_end_before_its_output_is_read(void)
{
        static const char answers[] =
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"?\"}}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"protocolVersion\":\"2025-11-25\"}}\n"
                "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"tools\":[{\"name\":\"echo\"}]}}\n";
        int ends[3][2], fds[3];
        struct reply reply;
        struct world w;

        open_one(&w);
        w.is_silent = true;
        world_begin(&w, &reply, "s", "echo", "{}", 0);
        check_eq_int(w.n_runs, 1);
        for (int i = 0; i < 3; i++) {
                check_eq_int(pipe2(ends[i], O_CLOEXEC), 0);
                fds[i] = ends[i][i == 0];
        }
        check_eq_int(write(ends[1][1], answers, strlen(answers)), (ssize_t)strlen(answers));
        close(ends[1][1]);
        close(ends[2][1]);
        hub_upstream_started(w.hub, 0, 1, fds);
        hub_upstream_ended(w.hub, 1, 0);
        world_until(&w, &reply.done);
        check_eq_int(reply.outcome, HUB_UNAVAILABLE);
        check_has(reply.message, "ended with exit status 0 while it was starting");
        check_eq_int(w.n_runs, 1);
        close(ends[0][0]);
        world_done(&w);
}

/* Of a call that is sent, and of one whose server is starting. */
static void test_a_time_that_stands_still(void)
{
        struct reply sent, starts;
        struct world w;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_add(&w, "mute", "--never", NULL);
        world_open(&w);
        check_works(&w, "s");
        world_begin(&w, &sent, "s", "hang", "{}", 200);
        world_begin(&w, &starts, "mute", "echo", "{}", 300);
        world_pass_ms(&w, 150);
        for (int i = 0; i < 2; i++) {
                hub_call_stand_still(sent.call, true);
                hub_call_stand_still(starts.call, true);
        }
        world_pass_ms(&w, 1000);
        hub_call_stand_still(sent.call, false);
        hub_call_stand_still(starts.call, false);
        world_pass_ms(&w, 1000);
        check(!sent.done && !starts.done);
        hub_call_stand_still(sent.call, false);
        hub_call_stand_still(starts.call, false);
        world_pass_ms(&w, 49);
        check(!sent.done);
        world_pass_ms(&w, 1);
        check_eq_int(sent.outcome, HUB_TIMEOUT);
        world_pass_ms(&w, 99);
        check(!starts.done);
        world_pass_ms(&w, 1);
        check_eq_int(starts.outcome, HUB_TIMEOUT);
        world_done(&w);
}

static void test_timeouts(void)
{
        struct world w;
        struct reply reply, *asked;

        world_init(&w);
        w.servers[world_add(&w, "s", NULL)].timeout_ms = 200;
        world_add(&w, "mute", "--never", NULL);
        world_open(&w);
        check_works(&w, "s");
        world_begin(&w, &reply, "s", "hang", "{}", 0);
        world_pass_ms(&w, 199);
        check(!reply.done);
        world_pass_ms(&w, 1);
        check_eq_int(reply.outcome, HUB_TIMEOUT);
        check_eq_str(reply.message, "server \"s\" did not answer within 0.2 s");
        world_begin(&w, &reply, "s", "hold", "{}", 100);
        world_pass_ms(&w, 100);
        check_eq_int(reply.outcome, HUB_TIMEOUT);
        check_eq_int(reply.duration_us, 100000);
        /* The late answer is ignored; the server got a notification. */
        reply_free(world_call(&w, "s", "release", "{}"));
        check_works(&w, "s");
        asked = world_call(&w, "s", "lists", "{}");
        check_has(asked->result, "\"cancelled\":[5,6]");
        reply_free(asked);
        world_begin(&w, &reply, "mute", "echo", "{}", 100);
        world_pass_ms(&w, 100);
        check_eq_int(reply.outcome, HUB_TIMEOUT);
        check_eq_str(reply.message, "server \"mute\" did not start within 0.1 s");
        check(!reply.sent);
        world_done(&w);
}

static void test_drop(void)
{
        struct world w;
        struct reply waiting, sent, finished, *asked;

        open_one(&w);
        world_begin(&w, &waiting, "s", "echo", "{}", 0);
        hub_call_drop(waiting.call);
        check_works(&w, "s");
        world_begin(&w, &sent, "s", "hang", "{}", 0);
        world_turn(&w);
        hub_call_drop(sent.call);
        world_begin(&w, &finished, "nobody", "hang", "{}", 0);
        hub_call_drop(finished.call);
        asked = world_call(&w, "s", "lists", "{}");
        check_has(asked->result, "\"cancelled\":[5],\"calls\":3");
        reply_free(asked);
        check(!waiting.done && !sent.done && !finished.done);
        world_done(&w);
}

static void free_hub(void *data, const struct hub_result *result)
{
        struct world *w = data;

        check_eq_int(result->outcome, HUB_NOT_FOUND);
        w->hub = hub_free(w->hub);
}

static void test_callbacks_may_free_the_hub(void)
{
        static const struct hub_caller caller = {.done = free_hub};
        struct hub_call *call = NULL;
        struct error err = {};
        struct world w;
        const struct hub_request request = {
                .server = "x", .tool = "y", .caller = &caller, .data = &w};

        open_one(&w);
        hub_start(w.hub, NULL, HUB_ALL);
        world_turn(&w);
        check_ok(hub_call(w.hub, &request, &call, &err));
        check_ok(hub_call(w.hub, &request, &call, &err));
        while (w.hub)
                event_base_loop(w.base, EVLOOP_ONCE);
        event_del(&w.child);
        world_done(&w);
}

/* 16 MiB in both directions, without a delay: the clock stands still. */
static void test_big_values(void)
{
        enum { SIZE = 16 * 1024 * 1024 };
        char *arguments = malloc(SIZE + 32);
        struct world w;
        struct reply *reply;

        check(arguments);
        open_one(&w);
        strcpy(arguments, "{\"text\":\"");
        memset(arguments + 9, 'x', SIZE);
        strcpy(arguments + 9 + SIZE, "\"}");
        reply = world_call(&w, "s", "count", arguments);
        check_has(reply->result, "\"16777216\"");
        reply_free(reply);
        reply = world_call(&w, "s", "big", "{\"mib\":16}");
        check_eq_int(reply->outcome, HUB_OK);
        check_eq_int(strlen(reply->result),
                     SIZE + strlen("{\"content\":[{\"type\":\"text\",\"text\":\"\"}]}"));
        reply_free(reply);
        check_call(&w, "s", "big", "{\"mib\":65}", HUB_PROTOCOL, "larger than 64 MiB");
        /* Skipped bytes count as a flood. */
        world_pass_ms(&w, CONNECTION_PAUSE_MS);
        check_works(&w, "s");
        free(arguments);
        world_done(&w);
}

/* A server that does not read: its queue is bounded, and other servers are not slower. */
static void test_server_that_does_not_read(void)
{
        enum { SIZE = 16 * 1024 * 1024, CALLS = 6 };
        char *arguments = malloc(SIZE + 32);
        struct reply reply[CALLS], first;
        struct world w;
        int refused = 0;

        check(arguments);
        world_init(&w);
        world_add(&w, "s", NULL);
        world_add(&w, "good", NULL);
        world_open(&w);
        strcpy(arguments, "{\"text\":\"");
        memset(arguments + 9, 'x', SIZE);
        strcpy(arguments + 9 + SIZE, "\"}");
        world_begin(&w, &first, "s", "stop-reading", "{\"seconds\":60}", 0);
        world_until(&w, &first.done);
        free(first.result);
        for (int i = 0; i < CALLS; i++)
                world_begin(&w, &reply[i], "s", "count", arguments, 0);
        world_turn(&w);
        for (int i = 0; i < CALLS; i++) {
                if (!reply[i].done)
                        continue;
                refused++;
                check_eq_int(reply[i].outcome, HUB_UNAVAILABLE);
                check_has(reply[i].message, "does not read its input");
        }
        check(refused >= 2 && refused < CALLS);
        check_works(&w, "good");
        free(arguments);
        world_done(&w);
}

int main(void)
{
        run(test_call_starts_the_server);
        run(test_fidelity);
        run(test_not_found);
        run(test_thousand_at_once);
        run(test_calls_are_concurrent);
        run(test_protocol_errors);
        run(test_odd_answers);
        run(test_flood_is_held_back);
        run(test_requests_of_the_server);
        run(test_crash_and_restart);
        run(test_closed_pipes);
        run(test_crash_loop);
        run(test_end_before_its_output_is_read);
        run(test_timeouts);
        run(test_a_time_that_stands_still);
        run(test_drop);
        run(test_callbacks_may_free_the_hub);
        run(test_big_values);
        run(test_server_that_does_not_read);
        return 0;
}
