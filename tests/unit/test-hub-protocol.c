/* Messages that the hub must and must not send, by the server's capabilities and answers. */
#include <unistd.h>

#include "tests/unit/hub-world.h"
#include "tests/unit/test.h"

static void check_ready(struct world *w, const char *server)
{
        struct reply *reply = world_call(w, server, "echo", "{\"n\":1}");

        check_eq_int(reply->outcome, HUB_OK);
        reply_free(reply);
}

/* The call's result, in which each of the parts must be, ended by NULL; or its message. */
static void check_call(struct world *w, const char *tool, const char *arguments,
                       enum hub_outcome outcome, const char *const *parts)
{
        struct reply *reply = world_call(w, "s", tool, arguments);

        check_eq_int(reply->outcome, outcome);
        for (; *parts; parts++)
                check_has(outcome == HUB_OK ? reply->result : reply->message, *parts);
        reply_free(reply);
}
#define CHECK_CALL(w, tool, arguments, outcome, ...)                                               \
        check_call(w, tool, arguments, outcome, (const char *const[]){__VA_ARGS__, NULL})

/* A server that declares no tools would end if it got a request for a list. */
static void test_no_tools_capability(void)
{
        static const char *const eras[] = {"legacy", "modern"};

        for (size_t i = 0; i < ARRAY_SIZE(eras); i++) {
                struct world w;

                world_init(&w);
                world_add(&w, "s", "--era", eras[i], "--declares", "{\"prompts\":{}}", NULL);
                world_open(&w);
                hub_start(w.hub, NULL, HUB_ALL);
                world_until_state(&w, "s", "ready");
                check_eq_int(world_tools(&w, "s"), 0);
                CHECK_CALL(&w, "echo", "{}", HUB_NOT_FOUND, "has no tool \"echo\"");
                check_eq_int(w.n_runs, 1);
                world_done(&w);
        }
}

/* -32022 tells that the server is modern: it is not sent initialize. */
static void test_unsupported_without_data(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--era", "bare", NULL);
        world_open(&w);
        CHECK_CALL(&w, "echo", "{}", HUB_UNAVAILABLE,
                   "refuses MCP 2026-07-28 and does not name a version that it speaks");
        world_done(&w);
}

static void test_another_revision(void)
{
        static const char *const known[] = {"2025-06-18", "2024-11-05"};
        struct world w;

        world_init(&w);
        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                world_add(&w, known[i], "--only", known[i], NULL);
        world_add(&w, "s", "--only", "2031-01-01", NULL);
        world_open(&w);
        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                check_ready(&w, known[i]);
        check_eq_int(w.n_runs, 2);
        CHECK_CALL(&w, "echo", "{}", HUB_UNAVAILABLE,
                   "refused initialize: Unsupported protocol version");
        world_done(&w);
}

static void test_progress_token(void)
{
        static const char *const eras[] = {"legacy", "modern"};

        for (size_t i = 0; i < ARRAY_SIZE(eras); i++) {
                struct world w;

                world_init(&w);
                world_add(&w, "s", "--era", eras[i], NULL);
                world_open(&w);
                check_ready(&w, "s");
                /* server/discover and initialize (if legacy), tools/list, echo, meta */
                if (i == 0)
                        CHECK_CALL(&w, "meta", "{}", HUB_OK,
                                   "{\"id\":5,\"meta\":{\"progressToken\":5}}");
                else
                        CHECK_CALL(&w, "meta", "{}", HUB_OK, "{\"id\":4,", "\"progressToken\":4}",
                                   "/protocolVersion\":\"2026-07-28\"");
                world_done(&w);
        }
}

/* Arguments that are not copied (rpc/memory-account.h), with these members and a long text. */
static const char *make_large(const char *members)
{
        static char text[300 * 1024];

        memset(text, 'x', sizeof(text));
        memcpy(text, "{\"pad\":\"", 8);
        int n = snprintf(text + 200 * 1024, 1024, "\",%s}", members);
        text[200 * 1024 + n] = '\0';
        return text;
}

/* Large arguments are in the queue of the pipe by reference, beside that of the call. */
static void test_large_arguments(void)
{
        struct world w;
        struct reply reply;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", NULL);
        world_open(&w);
        CHECK_CALL(&w, "echo", "{}", HUB_OK, "{}");
        world_begin(&w, &reply, "s", "echo", make_large("\"last\":1"), 0);
        check_eq_int(reply.text_refs, 3);
        world_until(&w, &reply.done);
        check_eq_int(reply.outcome, HUB_OK);
        check_has(reply.result, "xxx\",\"last\":1}");
        free(reply.result);
        world_done(&w);
}

/* input_required with requestState only: the same call again, with another id and the exact state. */
static void test_call_again(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", NULL);
        world_open(&w);
        CHECK_CALL(
                &w, "state", "{\"times\":2}", HUB_OK,
                "[[3,null,{\"times\":2},false],[4,\"1 \\\"\u00e9\\\\u2028\\\\/\",{\"times\":2},false],[5,"
                "\"2 \\\"\u00e9\\\\u2028\\\\/\",{\"times\":2},false]]");
        CHECK_CALL(&w, "state", "{\"times\":999}", HUB_PROTOCOL, "again more than 16 times");
        /* No request in inputRequests is the same as none; one that is there cannot be met. */
        CHECK_CALL(&w, "state", "{\"times\":21,\"more\":{\"inputRequests\":{}}}", HUB_OK, "[23,");
        CHECK_CALL(
                &w, "state",
                "{\"times\":99,\"more\":{\"inputRequests\":{\"k\":{\"method\":\"roots/list\"}}}}",
                HUB_INPUT,
                "asks for the client's directories before it continues, and there is no client");
        CHECK_CALL(&w, "state", make_large("\"times\":25"), HUB_OK,
                   "xxx\",\"times\":25},false],[27,");
        world_done(&w);
}

#define TASKS "{\"tools\":{},\"tasks\":{\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}}"

/* A call that needs time: of a task, between two looks at it. */
static void check_job(struct world *w, const char *tool, const char *arguments,
                      enum hub_outcome outcome, const char *part)
{
        struct reply reply;

        world_begin(w, &reply, "s", tool, arguments, 0);
        while (!reply.done) {
                usleep(2000);
                world_pass_ms(w, 10);
        }
        check_eq_int(reply.outcome, outcome);
        check_has(reply.outcome == HUB_OK ? reply.result : reply.message, part);
        free(reply.result);
        free(reply.rpc_data);
}

static void test_task(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--declares", TASKS, NULL);
        world_open(&w);
        check_ready(&w, "s");
        check_job(
                &w, "job", "{\"polls\":2}", HUB_OK,
                "{\"job\":{\"polls\":2},\"tasks\":[[\"tasks/get\",\"task \\\"7\\\"\"],[\"tasks/get\","
                "\"task \\\"7\\\"\"],[\"tasks/get\",\"task \\\"7\\\"\"],[\"tasks/result\",\"task "
                "\\\"7\\\"\"]]}");
        check_job(&w, "job", "{\"fails\":true}", HUB_PROTOCOL, "the task has failed");
        check_job(&w, "job", "{\"status\":\"cancelled\"}", HUB_PROTOCOL,
                  "server \"s\" cancelled the task: poll 1");
        check_job(&w, "job", "{\"status\":\"odd\"}", HUB_PROTOCOL, "unknown status");
        check_job(&w, "job", "{\"with\":{\"taskId\":7}}", HUB_PROTOCOL, "no usable id");
        CHECK_CALL(&w, "job", "{\"plain\":true}", HUB_OK, "not a task");
        world_shut(&w);
        /* The cache knows which tools are tasks. */
        world_open(&w);
        check_ready(&w, "s");
        check_job(&w, "job", "{\"n\":6}", HUB_OK, "{\"n\":6}");
        check_job(&w, "job", make_large("\"n\":7"), HUB_OK, "xxx\",\"n\":7}");
        world_done(&w);
}

/* The extension of MCP 2026-07-28: the server decides, and the task has its outcome. */
static void test_modern_task(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", "--era", "modern", NULL);
        world_open(&w);
        check_ready(&w, "s");
        check_job(&w, "modern-job", "{\"polls\":1}", HUB_OK,
                  "\"tasks\":[[\"tasks/get\",\"m\"],[\"tasks/get\",\"m\"]]");
        check_job(&w, "modern-job", "{\"status\":\"failed\"}", HUB_PROTOCOL,
                  "the modern task has failed");
        check_job(&w, "modern-job", "{\"status\":\"cancelled\"}", HUB_PROTOCOL,
                  "cancelled the task");
        /* Its request cannot be answered: the task is cancelled. */
        check_job(&w, "modern-job", "{\"ask\":{\"k\":{\"method\":\"roots/list\"}}}", HUB_INPUT,
                  "there is no client");
        CHECK_CALL(&w, "jobs", "{}", HUB_OK, "[\"tasks/cancel\",\"m\"]");
        world_done(&w);
}

/* Whether the server was sent such a request about its task. */
static bool has_asked(struct world *w, const char *method)
{
        struct reply *reply = world_call(w, "s", "jobs", "{}");
        bool has = strstr(reply->result, method);

        reply_free(reply);
        return has;
}

static void test_task_is_cancelled(void)
{
        struct world w;
        struct reply reply;

        world_init(&w);
        world_add(&w, "s", "--declares", TASKS, NULL);
        world_open(&w);
        check_ready(&w, "s");
        world_begin(&w, &reply, "s", "job", "{\"hangs\":true}", 500);
        while (!has_asked(&w, "tasks/get"))
                world_pass_ms(&w, 10);
        world_pass_ms(&w, 500);
        check_eq_int(reply.outcome, HUB_TIMEOUT);
        CHECK_CALL(&w, "jobs", "{}", HUB_OK, "[\"tasks/cancel\",\"task \\\"7\\\"\"]",
                   "\"cancelled\":[]");
        /* The task is made after the call was given up. */
        world_begin(&w, &reply, "s", "job", "{\"late\":0.2}", 500);
        world_settle(&w, "s");
        world_pass_ms(&w, 500);
        check_eq_int(reply.outcome, HUB_TIMEOUT);
        check(has_asked(&w, "\"cancelled\":[") &&
              !has_asked(&w, "cancel\",\"task \\\"7\\\"\"],[\"tasks/cancel"));
        while (!has_asked(
                &w, "[\"tasks/cancel\",\"task \\\"7\\\"\"],[\"tasks/cancel\",\"task \\\"7\\\"\"]"))
                ;
        world_done(&w);
}

/* A server that does not declare tasks is not told to make one, whatever its tools say. */
static void test_no_tasks_capability(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_open(&w);
        CHECK_CALL(&w, "job", "{}", HUB_PROTOCOL, "must run as a task");
        world_done(&w);
}

int main(void)
{
        run(test_no_tools_capability);
        run(test_unsupported_without_data);
        run(test_another_revision);
        run(test_progress_token);
        run(test_large_arguments);
        run(test_call_again);
        run(test_task);
        run(test_modern_task);
        run(test_task_is_cancelled);
        run(test_no_tasks_capability);
        return 0;
}
