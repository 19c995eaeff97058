/* Calls of the copy in which a plan is made, and of the session in which it is followed. */
#include "supervisor/trust/plans/plan.h"

#include "supervisor/session/machine/machine.h"
#include "supervisor/session/session.h"
#include "tests/unit/fake-client.h"

#define OK                    "{\"status\":\"ok\"}"
#define CALL(tool, arguments) "{\"server\":\"s\",\"tool\":\"" tool "\",\"arguments\":" arguments "}"

static void open_with(struct fake *f, const char *text)
{
        struct config *config = fake_config(text);

        fake_open(f);
        sessions_reload(f->sessions, config, &fake_hello);
        config_free(config);
}

#define RULES                                                                                      \
        "{\"mcpServers\":{\"s\":{\"command\":\"/bin/true\"}},"                                     \
        "\"rules\":[{\"deny\":\"s.never\"},{\"ask\":\"s.send\",\"planned\":{}},{\"allow\":\"s.list\",\"plan\":\"run\"}]}"

/* Starts a cell that fills the plan, or follows it. plan: NULL: it has none. Returns its number. */
static uint64_t start(struct fake *f, struct end *end, struct plan *plan, bool is_planning)
{
        const struct cell_request request = {.code = "1",
                                             .code_length = 1,
                                             .done = fake_on_done,
                                             .data = end,
                                             .plan = plan,
                                             .is_planning = is_planning,
                                             .is_single = is_planning};
        struct error err = {};
        struct cell *cell;

        *end = (struct end){};
        check_ok(sessions_run(f->sessions, "default", &request, &cell, &err));
        fake_spin(f);
        fake_start(f);
        return fake_take_exec(f, NULL, 0);
}

/* The answer to a CALL. */
static void check_answer(struct fake *f, uint64_t id, const char *part)
{
        char text[1024];
        struct frame_header header = fake_read(f, text, sizeof(text));

        check_eq_str(frame_type_name(header.type), "RETURN");
        check_eq_int(header.id, id);
        if (!strstr(text, part))
                check_eq_str(text, part);
}

static void append(struct buffer *to, uint8_t type, uint64_t id, const char *payload)
{
        check_eq_int(frame_append(to, type, id, payload, strlen(payload)), 0);
}

static void test_the_copy_sends_only_reads(void)
{
        struct plan *plan = plan_new();
        struct fake f;
        struct end end;

        open_with(&f, RULES);
        uint64_t cell = start(&f, &end, plan, true);
        fake_send(&f, FRAME_CALL, 1, CALL("send", "{\"to\":\"a\"}"));
        check_answer(&f, 1, "{\"ok\":true,");
        check_eq_int(plan_at(plan, 0)->unsure, 0);
        fake_send(&f, FRAME_CALL, 2,
                  "{\"unsure\":7,\"server\":\"s\",\"tool\":\"note\",\"arguments\":{}}");
        check_answer(&f, 2, "{\"ok\":false,\"blank\":{");
        check_eq_int(plan_at(plan, 1)->unsure, 7);
        fake_send(&f, FRAME_CALL, 3, CALL("never", "{}"));
        check_answer(&f, 3, "ToolDenied");
        check_eq_int(fake_tools.n_calls, 0);
        fake_send(&f, FRAME_CALL, 4, CALL("list", "{}"));
        check_eq_int(fake_tools.n_calls, 1);
        fake_tools_answer("{\"content\":[]}");
        check_answer(&f, 4, "{\"ok\":true,\"result\":{\"content\":[]}}");
        check_eq_int(plan_count(plan), 3);
        check_eq_str(plan_at(plan, 2)->result, "{\"content\":[]}");
        fake_send(&f, FRAME_RESULT, cell, OK);
        check_eq_int(end.count, 1);
        fake_done(&f);
        plan_free(plan);
}

/* A worker that sends a call right behind the result of its cell. */
static void call_after_the_result(bool is_planning, int expected)
{
        _cleanup_buffer_ struct buffer frames = BUFFER_INIT(4096);
        struct plan *plan = is_planning ? plan_new() : NULL;
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        uint64_t cell = start(&f, &end, plan, is_planning);
        append(&frames, FRAME_RESULT, cell, OK);
        append(&frames, FRAME_CALL, 1, CALL("note", "{}"));
        fake_send_bytes(&f, buffer_bytes(&frames), frames.length);
        fake_spin(&f);
        check_eq_int(end.count, 1);
        check_eq_int(fake_tools.n_calls, expected);
        fake_done(&f);
        plan_free(plan);
}

static void test_calls_after_the_code_of_the_copy_are_denied(void)
{
        call_after_the_result(true, 0);
        call_after_the_result(false, 1);
}

/* The session stands still: a person must answer. */
static void check_asks(struct fake *f)
{
        struct frame_header header = fake_read(f, NULL, 0);

        check_eq_str(frame_type_name(header.type), "HOLD");
}

static int64_t count_others(const struct plan *plan)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(4096);
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t n = -1;

        check_eq_int(plan_put(plan, false, &text), 0);
        check_eq_int(json_parse(buffer_bytes(&text), text.length, &doc, NULL), 0);
        json_int64(yyjson_obj_get(yyjson_doc_get_root(doc), "other"), &n);
        return n;
}

static void follow(const char *listed, const char *call, bool is_sent)
{
        struct plan *plan = plan_new();
        struct plan_call row = {.kind = PLAN_SENDS,
                                .server = "s",
                                .tool = "note",
                                .json = "{}",
                                .n = 2,
                                .rule = "",
                                .why = ""};
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};
        struct fake f;
        struct end end;
        size_t added;

        open_with(&f, RULES);
        /* The digest of no rule and no definition is that of a call in a copy. */
        struct plan *copied = plan_new();
        start(&f, &end, copied, true);
        fake_send(&f, FRAME_CALL, 1, CALL("note", "{}"));
        row.definition = plan_at(copied, 0)->definition;
        fake_done(&f);
        plan_free(copied);

        check_eq_int(json_parse(listed, strlen(listed), &doc, NULL), 0);
        row.arguments = yyjson_doc_get_root(doc);
        row.json = listed;
        row.n = strlen(listed);
        check_eq_int(plan_add(plan, &row, &added, &err), 0);
        open_with(&f, RULES);
        start(&f, &end, plan, false);
        fake_send(&f, FRAME_CALL, 1, call);
        check_eq_int(fake_tools.n_calls, is_sent);
        check_eq_int(count_others(plan), is_sent ? 0 : 1);
        if (!is_sent)
                check_asks(&f);
        /* Other rules while the question waits. */
        if (!is_sent) {
                struct config *config = fake_config(RULES);
                sessions_reload(f.sessions, config, &fake_hello);
                config_free(config);
                fake_spin(&f);
                check_eq_int(fake_tools.n_calls, 0);
        }
        fake_done(&f);
        plan_free(plan);
}

/* Also those that the rules allow; a read is sent. */
static void test_calls_that_the_plan_lacks_ask(void)
{
        follow("{}", CALL("note", "{}"), true);
        follow("{}", CALL("note", "{\"x\":1}"), false);
        follow("{}", CALL("send", "{}"), false);
        follow("{}", CALL("list", "{}"), true);
}

int main(void)
{
        run(test_the_copy_sends_only_reads);
        run(test_calls_after_the_code_of_the_copy_are_denied);
        run(test_calls_that_the_plan_lacks_ask);
        return 0;
}
