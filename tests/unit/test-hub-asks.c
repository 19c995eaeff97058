/* Requests and notifications of servers to our client. */
#include <unistd.h>

#include "base/json-out.h"
#include "supervisor/hub/call/call.h"
#include "tests/unit/hub-world.h"
#include "tests/unit/test.h"

#define FORM                                                                                       \
        "{\"message\":\"who?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"name\":" \
        "{\"type\":\"string\",\"minLength\":2},\"age\":{\"type\":\"integer\",\"minimum\":1}},"     \
        "\"required\":[\"name\"]}}"
#define URL(url)                                                                                   \
        "{\"mode\":\"url\",\"message\":\"sign in\",\"elicitationId\":\"e\",\"url\":\"" url "\"}"
#define ASK(method, params) "{\"method\":\"" method "\",\"params\":" params "}"
#define ELICIT(params)      ASK("elicitation/create", params)

/* The client of all calls. */
static struct {
        unsigned can;
        bool is_absent, refuses, differs; /* each call has another client */
        const char *principal;            /* of the calls that are sent now */
        const char *log_level;
        struct client_ask *asks[64];
        int n, withdrawn;
        char progress[200], logged[400];
} client;

static bool describe(void *data, struct hub_client *ret)
{
        *ret = (struct hub_client){client.differs ? data : &client, client.can, client.log_level};
        return !client.is_absent;
}

static const char *name_principal(void *data, size_t *n)
{
        *n = strlen(client.principal);
        return client.principal;
}

static void withdraw(struct client_ask *ask)
{
        client.withdrawn++;
}

static int take_ask(void *data, struct client_ask *ask, struct error *err)
{
        if (client.refuses)
                return error_set(err, EBUSY, "the client is busy");
        check(client.n < (int)ARRAY_SIZE(client.asks));
        ask->withdraw = withdraw;
        client.asks[client.n++] = ask;
        return 0;
}

static void on_progress(void *data, const struct hub_progress *p)
{
        snprintf(client.progress, sizeof(client.progress), "%g of %g %.*s", p->value, p->total,
                 (int)p->length, p->message ? p->message : "");
}

static void on_log(void *data, yyjson_val *params)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024);

        check_eq_int(json_append(&b, params), 0);
        snprintf(client.logged, sizeof(client.logged), "%.*s", (int)b.length, buffer_bytes(&b));
}

static const struct hub_caller caller = {
        .done = world_on_result,
        .principal = name_principal,
        .client = describe,
        .ask = take_ask,
        .progress = on_progress,
        .log = on_log,
};

static void answer(int i, const char *json)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse(json, strlen(json), &doc, &err));
        client.asks[i]->answered(client.asks[i], yyjson_doc_get_root(doc), NULL);
}

static void open_world(struct world *w, unsigned can, const char *era)
{
        client.can = can;
        client.is_absent = client.refuses = client.differs = false;
        client.log_level = NULL;
        client.principal = "";
        client.n = client.withdrawn = 0;
        client.progress[0] = client.logged[0] = '\0';
        world_init(w);
        w->caller = &caller;
        world_add(w, "s", "--era", era, "--declares", "{\"tools\":{},\"logging\":{}}", NULL);
        world_open(w);
        hub_add_client(w->hub, can);
        reply_free(world_call(w, "s", "echo", "{}"));
}

static void until_asked(struct world *w, int n)
{
        while (client.n < n) {
                usleep(1000);
                world_turn(w);
        }
}

static void until_done(struct world *w, struct reply *reply)
{
        world_until(w, &reply->done);
}

static void done(struct reply *reply)
{
        free(reply->result);
        free(reply->rpc_data);
}

/* The server's answer to a call that asks for this, when the client answers so (NULL: it is not asked). */
static void check_ask(struct world *w, const char *arguments, const char *answered,
                      const char *expected)
{
        struct reply reply;
        int n = client.n;

        world_begin(w, &reply, "s", "ask", arguments, 0);
        if (answered) {
                until_asked(w, n + 1);
                answer(n, answered);
        }
        until_done(w, &reply);
        check_eq_int(client.n, n + (answered != NULL));
        check_eq_int(reply.outcome, HUB_OK);
        check_has(reply.result, expected);
        done(&reply);
}

static void test_form(void)
{
        struct world w;

        open_world(&w, CLIENT_CAN_FORM, "legacy");
        check_ask(
                &w, ELICIT(FORM),
                "{\"action\":\"accept\",\"content\":{\"name\":\"Ada\",\"age\":9},\"x\":1}",
                "\"id\":\"q\",\"result\":{\"action\":\"accept\",\"content\":{\"name\":\"Ada\",\"age\":9}}}");
        check_ask(&w, ELICIT(FORM), "{\"action\":\"decline\",\"content\":{\"name\":\"Ada\"}}",
                  "\"result\":{\"action\":\"decline\"}}");
        /* An answer that does not match the schema is not passed on. */
        check_ask(&w, ELICIT(FORM), "{\"action\":\"accept\",\"content\":{\"name\":\"A\"}}",
                  "the value of name does not fit");
        check_ask(&w, ELICIT(FORM),
                  "{\"action\":\"accept\",\"content\":{\"name\":\"Ada\",\"age\":0}}",
                  "the value of age does not fit");
        check_ask(&w, ELICIT(FORM), "{\"action\":\"accept\",\"content\":{\"age\":3}}",
                  "name is missing");
        check_ask(&w, ELICIT(FORM),
                  "{\"action\":\"accept\",\"content\":{\"name\":\"Ada\",\"pin\":\"1\"}}",
                  "has no field pin");
        check_ask(&w, ELICIT(FORM), "{\"action\":\"maybe\"}", "action must be");
        check_ask(&w, ELICIT(FORM), "[]", "not an object");
        world_done(&w);
}

static void test_question_names_its_server(void)
{
        struct reply reply;
        struct world w;

        open_world(&w, CLIENT_CAN_FORM, "legacy");
        world_begin(&w, &reply, "s", "ask", ELICIT(FORM), 0);
        until_asked(&w, 1);
        check_eq_str(client_request_message(&client.asks[0]->request), "s: who?");
        answer(0, "{\"action\":\"cancel\"}");
        until_done(&w, &reply);
        done(&reply);
        world_done(&w);
}

static void test_invalid_requests(void)
{
        static const char *const invalid[][2] = {
                {ELICIT(URL("javascript:alert(1)")), "https address"},
                {ELICIT(URL("http://example.com/")), "https address"},
                {ELICIT(URL("https://good@evil.example/")), "https address"},
                {ELICIT(URL("https://ex\\u00e4mple.com/")), "https address"},
                {ELICIT("{\"message\":\"m\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"a\":"
                        "{\"$ref\":\"https://example.com/\"}}}}"),
                 "is not a field of a form"},
                {ELICIT("{\"message\":\"m\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"a\":"
                        "{\"type\":\"object\",\"properties\":{}}}}}"),
                 "is not a field of a form"},
                {ELICIT("{\"requestedSchema\":{}}"), "message must be a string"},
                {ELICIT("{\"mode\":\"telepathy\",\"message\":\"m\"}"), "mode must be"},
                {ASK("sampling/createMessage", "{\"messages\":[],\"maxTokens\":1}"), "messages"},
                {ASK("roots/delete", "{}"), "Method not found"},
        };
        struct world w;

        open_world(&w, ~0U, "legacy");
        for (size_t i = 0; i < ARRAY_SIZE(invalid); i++)
                check_ask(&w, invalid[i][0], NULL, invalid[i][1]);
        check_ask(&w, ELICIT(URL("https://example.com/x?y=1")), "{\"action\":\"accept\"}",
                  "\"result\":{\"action\":\"accept\"}}");
        check_ask(&w, ELICIT(URL("http://127.0.0.1:8080/")), "{\"action\":\"accept\"}",
                  "\"result\":{\"action\":\"accept\"}}");
        world_done(&w);
}

static void test_roots_and_sampling(void)
{
        struct reply reply;
        struct world w;

        open_world(&w, CLIENT_CAN_ROOTS | CLIENT_CAN_SAMPLE, "legacy");
        check_ask(
                &w, ASK("roots/list", "{}"),
                "{\"roots\":[{\"uri\":\"file:///a\",\"name\":\"a\",\"secret\":1},{\"uri\":\"file:///b\"}]}",
                "\"result\":{\"roots\":[{\"uri\":\"file:///a\",\"name\":\"a\"},{\"uri\":\"file:///b\"}]}}");
        check_ask(&w, ASK("roots/list", "{}"), "{\"roots\":[{\"uri\":\"http://a/\"}]}",
                  "file:// uri");
        world_begin(
                &w, &reply, "s", "ask",
                "{\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"hi\"}}],\"maxTokens\":9,\"includeContext\":\"allServers\"}}",
                0);
        until_asked(&w, 3);
        check(!yyjson_obj_get(yyjson_doc_get_root(client.asks[2]->request.doc), "includeContext"));
        answer(2,
               "{\"role\":\"assistant\",\"content\":{\"type\":\"text\",\"text\":\"ho\"},\"model\":\"m\",\"_meta\":{}}");
        until_done(&w, &reply);
        check_has(
                reply.result,
                "\"result\":{\"role\":\"assistant\",\"content\":{\"type\":\"text\",\"text\":\"ho\"},\"model\":\"m\"}}");
        done(&reply);
        world_done(&w);

        /* Not declared: there is no such method. */
        open_world(&w, CLIENT_CAN_FORM, "legacy");
        check_ask(&w, ASK("roots/list", "{}"), NULL, "Method not found");
        check_ask(
                &w,
                ASK("sampling/createMessage",
                    "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"hi\"}}],\"maxTokens\":9}"),
                NULL, "Method not found");
        world_done(&w);
}

static void check_input(struct world *w, const char *tool, const char *arguments, const char *part,
                        const char *data)
{
        struct reply reply;

        world_begin(w, &reply, "s", tool, arguments, 0);
        until_done(w, &reply);
        check_eq_int(reply.outcome, HUB_INPUT);
        check_has(reply.message, part);
        check_has(reply.rpc_data, data);
        done(&reply);
}

/* The client does not support the request: the call ends, and its server gets an error. */
static void test_client_cannot(void)
{
        struct world w;

        open_world(&w, CLIENT_CAN_FORM, "legacy");
        check_input(&w, "ask", ELICIT(URL("https://example.com/x")),
                    "server \"s\" asks to open https://example.com/x before it continues",
                    "\"url\":\"https://example.com/x\"");
        client.can = CLIENT_CAN_URL;
        check_input(&w, "ask", ELICIT(FORM), "declares no elicitation); s: who?",
                    "requestedSchema");
        client.can = CLIENT_CAN_FORM;
        client.refuses = true;
        check_input(&w, "ask", ELICIT(FORM), "the client is busy", "requestedSchema");
        client.is_absent = true;
        check_input(&w, "ask", ELICIT(FORM), "there is no client that could be asked", "who?");
        check_eq_int(client.n, 0);
        client.is_absent = client.refuses = false;
        check_ask(&w, ELICIT(FORM), "{\"action\":\"cancel\"}", "{\"action\":\"cancel\"}");
        world_done(&w);
}

/* A request that names no call is passed on only if all calls are of one client. */
static void test_two_clients(void)
{
        struct reply hold, hold2;
        struct world w;

        open_world(&w, CLIENT_CAN_FORM, "legacy");
        client.differs = true;
        world_begin(&w, &hold, "s", "hold", "{}", 0);
        check_ask(&w, ELICIT(FORM), NULL, "calls of several clients");
        reply_free(
                world_call(&w, "s", "talk", "{\"messages\":[{\"level\":\"error\",\"data\":1}]}"));
        check_eq_str(client.logged, "");
        reply_free(world_call(&w, "s", "release", "{}"));
        done(&hold);
        client.differs = false;
        world_begin(&w, &hold2, "s", "hold", "{}", 0);
        check_ask(&w, ELICIT(FORM), "{\"action\":\"cancel\"}", "{\"action\":\"cancel\"}");
        reply_free(
                world_call(&w, "s", "talk", "{\"messages\":[{\"level\":\"error\",\"data\":1}]}"));
        check_eq_str(client.logged, "{\"level\":\"error\",\"data\":1}");
        reply_free(world_call(&w, "s", "release", "{}"));
        done(&hold2);
        world_done(&w);
}

static void check_log(struct world *w, const char *logged)
{
        client.logged[0] = '\0';
        reply_free(world_call(w, "s", "talk", "{\"messages\":[{\"level\":\"error\",\"data\":1}]}"));
        check_eq_str(client.logged, logged);
}

static const char not_answered[] = "a call of another client has not been answered";
#define CANCEL "{\"action\":\"cancel\"}"
#define LOGGED "{\"level\":\"error\",\"data\":1}"

/* A call that has timed out or was dropped stays on the books with its principal: until it is answered, no message that names
 * no call reaches another principal. */
static void test_late_question(void)
{
        struct reply late, dropped;
        struct world w;

        open_world(&w, CLIENT_CAN_FORM | CLIENT_CAN_ROOTS, "legacy");
        client.principal = "alice";
        world_begin(&w, &late, "s", "hold", "{}", 1000);
        world_begin(&w, &dropped, "s", "hold", "{}", 0);
        world_turn(&w);
        world_pass_ms(&w, 1000);
        until_done(&w, &late);
        check_eq_int(late.outcome, HUB_TIMEOUT);
        hub_call_drop(dropped.call);
        /* The control: the same principal. */
        check_ask(&w, ELICIT(FORM), CANCEL, CANCEL);
        check_log(&w, LOGGED);
        client.principal = "bob";
        check_ask(&w, ELICIT(FORM), NULL, not_answered);
        check_ask(&w, ASK("roots/list", "{}"), NULL, not_answered);
        check_log(&w, "");
        /* Progress names its call. */
        reply_free(world_call(&w, "s", "talk", "{\"progress\":[{\"progress\":1,\"total\":2}]}"));
        check_eq_str(client.progress, "1 of 2 ");
        reply_free(world_call(&w, "s", "release", "{}"));
        check_ask(&w, ELICIT(FORM), CANCEL, CANCEL);
        check_log(&w, LOGGED);
        check_eq_int(w.n_runs, 1);
        done(&late);
        world_done(&w);
}

static void owe(struct world *w, struct reply *reply)
{
        client.principal = "alice";
        world_begin(w, reply, "s", "hang", "{}", 1000);
        world_turn(w);
        world_pass_ms(w, 1000);
        until_done(w, reply);
        client.principal = "bob";
        done(reply);
}

/* The server is restarted when such a call is 60 s old and no call is open, and not again for ten minutes. */
static void test_restart(void)
{
        _cleanup_buffer_ struct buffer shown = BUFFER_INIT(4096);
        struct json_out out = {.to = &shown};
        struct reply late, hold;
        struct world w;

        open_world(&w, CLIENT_CAN_FORM, "legacy");
        owe(&w, &late);
        /* The control: nothing was refused. */
        world_pass_ms(&w, 300000);
        check_eq_int(w.n_stops, 0);
        check_ask(&w, ELICIT(FORM), NULL, not_answered);
        world_until_runs(&w, 2);
        check_ask(&w, ELICIT(FORM), CANCEL, CANCEL);
        world_until_log(&w, "kept its messages from other clients; it is started again");
        hub_put_servers(w.hub, &out);
        check_has((buffer_append(&shown, "", 1), buffer_bytes(&shown)),
                  "\"restarts\":1,\"restarted_ms\":0,\"reason\":\"a call that it had not");

        owe(&w, &late);
        check_ask(&w, ELICIT(FORM), NULL, not_answered);
        world_pass_ms(&w, 598000);
        check_eq_int(w.n_runs, 2);
        /* Nor while a call is open. */
        world_begin(&w, &hold, "s", "hold", "{}", 100000);
        world_turn(&w);
        world_pass_ms(&w, 2000);
        check_eq_int(w.n_runs, 2);
        reply_free(world_call(&w, "s", "release", "{}"));
        until_done(&w, &hold);
        world_until_runs(&w, 3);
        done(&hold);
        world_done(&w);
}

/* The last line of stderr may be about a principal: it is quoted to nobody else. */
static void test_stderr_of_a_principal(void)
{
        struct reply *reply;
        struct world w;

        open_world(&w, 0, "legacy");
        reply = world_call(&w, "s", "crash", "{}");
        check_has(reply->message, "crashed on purpose");
        reply_free(reply);
        client.principal = "alice";
        reply = world_call(&w, "s", "crash", "{}");
        check_has(reply->message, "ended with exit status 3");
        check(!strstr(reply->message, "crashed on purpose"));
        reply_free(reply);
        world_until_log(&w, "its stderr says: RuntimeError: crashed on purpose");
        world_done(&w);
}

/* A request of a call that has ended is not passed on; those of a call that sends them without end
 * are limited. */
static void test_late_and_often(void)
{
        struct reply *reply;
        struct world w;

        open_world(&w, CLIENT_CAN_FORM, "legacy");
        reply_free(world_call(&w, "s", "ask-late", ELICIT(FORM)));
        /* While nothing calls it. */
        for (int turn = 0; turn < 40; turn++) {
                usleep(5000);
                world_turn(&w);
        }
        reply = world_call(&w, "s", "late", "{}");
        check_has(reply->result, "no call of it is open");
        reply_free(reply);
        check_eq_int(client.n, 0);
        struct reply flood;
        world_begin(&w, &flood, "s", "ask-and-flood",
                    "{\"times\":5000,\"method\":\"elicitation/create\",\"params\":" FORM "}", 0);
        /* A server that floods is not read for a moment. */
        while (!flood.done) {
                usleep(2000);
                world_pass_ms(&w, 10);
        }
        check_eq_int(flood.outcome, HUB_OK);
        done(&flood);
        check_eq_int(client.n, CALL_ASKS_OPEN);
        check_eq_int(client.withdrawn, CALL_ASKS_OPEN);
        world_done(&w);
}

/* The time of the call stops while a person answers; the answer has a time limit too. */
static void test_time(void)
{
        struct reply reply, dropped;
        struct world w;

        open_world(&w, CLIENT_CAN_FORM, "legacy");
        world_begin(&w, &reply, "s", "ask", ELICIT(FORM), 1000);
        until_asked(&w, 1);
        world_pass_ms(&w, QUESTION_MS - 1);
        check(!reply.done && client.withdrawn == 0);
        world_pass_ms(&w, 1);
        check_eq_int(client.withdrawn, 1);
        until_done(&w, &reply);
        check_eq_int(reply.outcome, HUB_OK);
        check_has(reply.result, "no answer arrived in time");
        done(&reply);
        /* The time continues after the answer. */
        world_begin(&w, &reply, "s", "ask-often",
                    "{\"times\":1,\"method\":\"elicitation/create\",\"params\":" FORM "}", 1000);
        until_asked(&w, 2);
        world_pass_ms(&w, 999999 % QUESTION_MS);
        answer(1, "{\"action\":\"cancel\"}");
        until_done(&w, &reply);
        check_eq_int(reply.outcome, HUB_OK);
        done(&reply);
        /* A dropped call sends no request to the client. */
        world_begin(&w, &dropped, "s", "ask", ELICIT(FORM), 1000);
        until_asked(&w, 3);
        hub_call_drop(dropped.call);
        check_eq_int(client.withdrawn, 2);
        /* And what it asks later is not passed on. */
        world_begin(&w, &reply, "s", "ask-and-withdraw", ELICIT(FORM), 1000);
        until_done(&w, &reply);
        check_eq_int(client.withdrawn, 3);
        done(&reply);
        world_done(&w);
}

#define OFTEN(n, more)                                                                             \
        "{\"times\":" #n more ",\"method\":\"elicitation/create\",\"params\":" FORM "}"

static void test_limits(void)
{
        struct reply reply;
        struct world w;

        open_world(&w, CLIENT_CAN_FORM, "legacy");
        world_begin(&w, &reply, "s", "ask-often", OFTEN(20, ""), 0);
        for (int i = 0; i < CALL_ASKS_MAX; i++) {
                until_asked(&w, i + 1);
                answer(i, "{\"action\":\"decline\"}");
        }
        until_done(&w, &reply);
        check_eq_int(client.n, CALL_ASKS_MAX);
        check_has(reply.result, "{\"action\":\"decline\"},\"the call has sent too many requests\"");
        done(&reply);
        world_begin(&w, &reply, "s", "ask-often", OFTEN(6, ",\"at_once\":true"), 0);
        until_asked(&w, CALL_ASKS_MAX + CALL_ASKS_OPEN);
        world_settle(&w, "s");
        for (int i = 0; i < CALL_ASKS_OPEN; i++)
                answer(CALL_ASKS_MAX + i, "{\"action\":\"decline\"}");
        until_done(&w, &reply);
        check_eq_int(client.n, CALL_ASKS_MAX + CALL_ASKS_OPEN);
        check_has(reply.result, "\"the call has too many open requests\"");
        done(&reply);
        world_done(&w);
}

#define TWO                                                                                        \
        "{\"requests\":{\"a\":{\"method\":\"elicitation/create\",\"params\":" FORM                 \
        "},\"b \\u2028\":{\"method\":\"roots/list\"}}}"

static void test_modern(void)
{
        struct reply reply;
        struct world w;

        open_world(&w, CLIENT_CAN_FORM | CLIENT_CAN_ROOTS, "modern");
        world_begin(&w, &reply, "s", "input", TWO, 0);
        until_asked(&w, 2);
        answer(1, "{\"roots\":[]}");
        world_turn(&w);
        check(!reply.done);
        answer(0, "{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}");
        until_done(&w, &reply);
        check_eq_int(reply.outcome, HUB_OK);
        check_has(reply.result, "{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}");
        check_has(reply.result, "{\"roots\":[]}");
        check_has(reply.result, "\"state\":\"s\u2028\"");
        done(&reply);
        /* An answer that does not fit is as none. */
        world_begin(&w, &reply, "s", "input", TWO, 0);
        until_asked(&w, 4);
        answer(3, "{\"roots\":[]}");
        answer(2, "{\"action\":\"accept\",\"content\":{}}");
        until_done(&w, &reply);
        check_has(reply.result, "{\"action\":\"cancel\"}");
        done(&reply);
        client.can = CLIENT_CAN_FORM;
        check_input(
                &w, "input", TWO,
                "asks for the client's directories before it continues, and this client declares no roots",
                "roots/list");
        check_eq_int(client.withdrawn, 1);
        world_done(&w);
}

static void test_url_before_the_call(void)
{
        struct reply reply;
        struct world w;

        open_world(&w, CLIENT_CAN_URL, "legacy");
        world_begin(&w, &reply, "s", "need-url", "{\"url\":\"https://example.com/in\"}", 0);
        until_asked(&w, 1);
        answer(0, "{\"action\":\"accept\"}");
        until_done(&w, &reply);
        check_eq_int(reply.outcome, HUB_INPUT);
        check_has(reply.message, "call again when that is done");
        check_has(reply.message, "https://example.com/in");
        done(&reply);
        client.can = 0;
        check_input(&w, "need-url", "{\"url\":\"https://example.com/in\"}",
                    "asks to open https://example.com/in before it continues",
                    "https://example.com/in");
        reply = (struct reply){};
        world_begin(&w, &reply, "s", "need-url", "{\"url\":\"data:text/html,x\"}", 0);
        until_done(&w, &reply);
        check_eq_int(reply.outcome, HUB_PROTOCOL);
        check_has(reply.message, "cannot be shown");
        done(&reply);
        world_done(&w);
}

static void test_progress_and_log(void)
{
        struct reply *reply;
        struct world w;

        open_world(&w, 0, "legacy");
        reply = world_call(
                &w, "s", "talk",
                "{\"progress\":[{\"progress\":3,\"total\":10,\"message\":\"reading\"}]}");
        check_eq_str(client.progress, "3 of 10 reading");
        check_has(reply->result, "\"levels\":[]");
        reply_free(reply);
        client.log_level = "warning";
        reply = world_call(&w, "s", "talk", "{}");
        check_has(reply->result, "\"levels\":[\"warning\"]");
        reply_free(reply);
        client.log_level = "error"; /* it sends those already */
        reply_free(world_call(&w, "s", "talk", "{}"));
        client.log_level = "debug";
        reply = world_call(&w, "s", "talk", "{}");
        check_has(reply->result, "\"levels\":[\"warning\",\"debug\"]");
        reply_free(reply);
        world_done(&w);

        open_world(&w, CLIENT_CAN_FORM, "modern");
        client.log_level = "info";
        reply = world_call(&w, "s", "talk", "{}");
        check_has(reply->result, "\"io.modelcontextprotocol/logLevel\":\"info\"");
        check_has(
                reply->result,
                "{\"elicitation\":{\"form\":{}},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}");
        reply_free(reply);
        world_done(&w);
}

static void test_capabilities(void)
{
        struct reply *reply;
        struct world w;

        open_world(&w, CLIENT_CAN_FORM | CLIENT_CAN_URL | CLIENT_CAN_ROOTS | CLIENT_CAN_SAMPLE,
                   "legacy");
        reply = world_call(&w, "s", "capabilities", "{}");
        check_has(reply->result,
                  "{\"elicitation\":{\"form\":{},\"url\":{}},\"roots\":{},\"sampling\":{}}");
        reply_free(reply);
        world_done(&w);
        open_world(&w, 0, "legacy");
        reply = world_call(&w, "s", "capabilities", "{}");
        check_has(reply->result, "\"capabilities\":{}");
        reply_free(reply);
        world_done(&w);
}

int main(void)
{
        test_form();
        test_question_names_its_server();
        test_invalid_requests();
        test_roots_and_sampling();
        test_client_cannot();
        test_two_clients();
        test_late_question();
        test_restart();
        test_stderr_of_a_principal();
        test_late_and_often();
        test_time();
        test_limits();
        test_modern();
        test_url_before_the_call();
        test_progress_and_log();
        test_capabilities();
        return 0;
}
