/* Who may wait for code, and how much is kept of code for which no request waits. */
#include "supervisor/mcp/call/run.h"
#include "supervisor/mcp/state.h"
#include "tests/unit/fake-waits.h"

/* A session belongs to its principal. */
static void test_principals(void)
{
        static struct mcp_principal other = {.name = "other", .key = "other"};
        static const char *const lines[] = {
                CALL("7", "{\"session\":\"default\",\"wait\":1}"),
                CALL("7", "{\"session\":\"default\",\"interrupt\":true}"),
        };
        struct mcp_peer *stranger;
        struct error err = {};

        open_stopped();
        check_ok(mcp_peer_new(&stranger, server, &other, &sink, &err));
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":0}"), true);
        fake_run_ms(&f, 10);
        check_answer(1, "running", NULL);
        for (int kept = 0; kept < 2; kept++) {
                for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
                        mcp_peer_line(stranger, &sink, lines[i], strlen(lines[i]));
                        fake_run_ms(&f, 10);
                        yyjson_doc_free(take_answer(7, "error"));
                        check_eq_int(f.interrupts, 0);
                }
                if (!kept)
                        end(cell);
        }
        /* The stranger's code runs in another sandbox; its answer has no earlier result. */
        const char *line = CALL("8", "{\"code\":\"x\",\"interrupt\":true}");
        mcp_peer_line(stranger, &sink, line, strlen(line));
        fake_spin(&f);
        fake_start(&f);
        end(fake_take_exec(&f, NULL, 0));
        _cleanup_json_ yyjson_doc *doc = take_answer(8, "ok");
        check(!at(doc, "/result/structuredContent/earlier"));
        send_line(CALL("2", "{\"wait\":0}"));
        check_answer(2, "ok", NULL);
        mcp_peer_free(stranger);
        close_stopped();
        mcp_principal_done(&other);
}

/* Code that prints without end while no request waits: the kept output is bounded, and all answers
 * together contain a notice. */
static void test_endless(void)
{
        static char text[60000];

        memset(text, 'x', sizeof(text));
        for (size_t i = 99; i < sizeof(text); i += 100)
                text[i] = '\n';
        open_stopped();
        uint64_t cell = begin(CALL("1", "{\"code\":\"x\",\"wait\":0,\"max_output\":1000}"), true);
        fake_run_ms(&f, 10);
        check_answer(1, "running", NULL);
        for (int i = 0; i < 400; i++) {
                check_eq_int(write(f.out, text, sizeof(text)), sizeof(text));
                fake_spin(&f);
        }
        send_line(CALL("2", "{\"wait\":0,\"max_output\":2000000}"));
        fake_run_ms(&f, 10);
        check(sent.length < 400000); /* an answer before the end is small */
        _cleanup_json_ yyjson_doc *doc = take_answer(2, "running");
        check_has(text_at(doc, STDOUT), "of 24,000,000 characters cut here");
        check_has(text_at(doc, NOTICE), "stdout was cut; the result at the end names all of it");
        print("end\n");
        end(cell);
        send_line(CALL("3", "{}"));
        yyjson_doc_free(take_answer(3, "error")); /* code is required */
        send_line(CALL("4", "{\"wait\":0}"));
        _cleanup_json_ yyjson_doc *last = take_answer(4, "ok");
        check_eq_str(text_at(last, STDOUT), "end\n");
        check_has(text_at(last, "/result/structuredContent/truncated/resource"), "cells/1/stdout");
        close_stopped();
}

/* A client that starts as many as it can, and fetches none. */
static void test_many_kept(void)
{
        char line[200];

        open_stopped();
        for (int i = 0; i <= MCP_KEPT_MAX; i++) {
                snprintf(line, sizeof(line),
                         CALL("1", "{\"code\":\"x\",\"session\":\"s%d\",\"wait\":0}"), i);
                begin(line, true);
                fake_run_ms(&f, 2);
                check_answer(1, "running", NULL);
                fake_end(&f, 9, 0);
                check_eq_int(server->n_calls, 0); /* they take no place of a call */
        }
        check_eq_int(server->owner.n_kept, MCP_KEPT_MAX);
        check_nothing(CALL("2", "{\"session\":\"s0\"}"), 2);
        send_line(CALL("3", "{\"session\":\"s1\"}"));
        yyjson_doc_free(take_answer(3, "killed"));
        check_eq_int(server->owner.n_kept, MCP_KEPT_MAX - 1);
        fake_clock_advance_ms(3600 * 1000);
        fake_spin(&f);
        check_eq_int(server->owner.n_kept, 0);
        check_nothing(CALL("4", "{\"session\":\"s2\"}"), 4);
        close_stopped();
}

/* Results that no call fetches: of those beyond the room of a principal, what they are stays, and what was printed
 * goes, the oldest first. */
static void test_much_kept(void)
{
        static char text[65536];
        char line[200];

        memset(text, 'x', sizeof(text));
        open_stopped();
        for (int i = 0; i < 5; i++) {
                snprintf(line, sizeof(line),
                         CALL("1", "{\"code\":\"x\",\"session\":\"s%d\",\"wait\":1}"), i);
                begin(line, true);
                print("first\n");
                fake_run_ms(&f, 1010);
                check_answer(1, "running", "first\n");
                for (int k = 0; k < 300; k++) {
                        check_eq_int(write(f.out, text, sizeof(text)), sizeof(text));
                        event_base_loop(f.base, EVLOOP_NONBLOCK);
                }
                fake_end(&f, 9, 0);
        }
        send_line(CALL("2", "{\"session\":\"s0\"}"));
        _cleanup_json_ yyjson_doc *doc = take_answer(2, "killed");
        check(!at(doc, STDOUT) && !at(doc, "/result/structuredContent/truncated"));
        check_has(text_at(doc, NOTICE), "its output and value were dropped");
        send_line(CALL("3", "{\"session\":\"s4\"}"));
        _cleanup_json_ yyjson_doc *last = take_answer(3, "killed");
        check_has(text_at(last, STDOUT), "xxx");
        check(number_at(last, "/result/structuredContent/truncated/stdout_bytes") > 19000000);
        close_stopped();
}

int main(void)
{
        run(test_principals);
        run(test_endless);
        run(test_many_kept);
        run(test_much_kept);
        return 0;
}
