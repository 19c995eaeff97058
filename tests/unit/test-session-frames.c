/* Frames from a worker to its session: violations, calls, queries and output. */
#include "supervisor/session/sessions.h"

#include "supervisor/session/calls/calls.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/session.h"

#include "tests/unit/fake-client.h"

/* The frames that are not legal: each ends the session, with its reason. */
static void test_protocol(void)
{
        static const struct {
                uint8_t type;
                uint64_t id; /* added to the cell's number */
                const char *payload, *why;
        } cases[] = {
                {FRAME_RESULT, 1, "{\"status\":\"ok\"}", "RESULT for cell 3 while cell 2 runs"},
                {FRAME_RESULT, 0, "{\"status\":\"fine\"}", "unknown status"},
                {FRAME_RESULT, 0, "[", "RESULT: not JSON"},
                {FRAME_RESULT, 0, "{\"status\":\"ok\",\"value\":1}", "malformed value"},
                {FRAME_RESULT, 0, "{\"status\":\"error\",\"error\":{}}", "malformed error"},
                {FRAME_RESULT, 0, "{\"status\":\"exit\"}", "no exit_code"},
                {FRAME_CALL, 0, "{\"server\":\"s\"}", "CALL without server, tool or arguments"},
                {FRAME_QUERY, 0, "{\"what\":\"secrets\"}", "QUERY for something unknown"},
                {FRAME_QUERY, 0, "{\"what\":\"search\",\"q\":7}",
                 "QUERY for a search without words"},
                {FRAME_DISPLAY, 0, "{}", "DISPLAY without a MIME type"},
                {FRAME_DISPLAY, 1, "{}", "DISPLAY for cell 3, which has not begun"},
                {FRAME_DISPLAY, 0, "{\"mime\":\"Image/png\",\"data\":\"\"}", "without a MIME type"},
                {FRAME_DISPLAY, 0, "{\"mime\":\"image/png\"}", "needs one of text and data"},
                {FRAME_DISPLAY, 0, "{\"mime\":\"image/png\",\"data\":\"AAA\"}", "not base64"},
                {FRAME_DISPLAY, 0, "{\"mime\":\"image/png\",\"data\":\"A\\nA=\"}", "not base64"},
                {FRAME_RESULT, 0, "{\"status\":\"ok\",\"files\":{}}", "files that are no list"},
                {FRAME_RESULT, 0,
                 "{\"status\":\"ok\",\"files\":[{\"path\":\"../x\",\"mime\":\"text/plain\","
                 "\"size\":1}]}",
                 "a file with a malformed path"},
                {FRAME_RESULT, 0,
                 "{\"status\":\"ok\",\"files\":[{\"path\":\"x\",\"mime\":\"text\",\"size\":1}]}",
                 "a file with a malformed MIME type"},
                {FRAME_RESULT, 0,
                 "{\"status\":\"ok\",\"files\":[{\"path\":\"x\",\"mime\":\"text/"
                 "plain\",\"size\":-1}]"
                 "}",
                 "a file without a size"},
                {FRAME_DATA, 0, "{\"ok\":true}", "DATA for the request 2, which was not made"},
                {FRAME_EXEC, 0, "{}", "EXEC frame (0x01), which a worker may not send"},
        };
        struct fake f;
        struct end end;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                fake_open(&f);
                warm_up(&f);
                ask(&f, &end, "1");
                uint64_t cell = fake_take_exec(&f, NULL, 0);
                fake_send(&f, cases[i].type, cell + cases[i].id, cases[i].payload);
                check_eq_int(f.kills, 1);
                check_eq_int(end.count, 0);
                fake_end(&f, SIGKILL, 0);
                check_eq_int(end.status, CELL_KILLED);
                check_eq_int(end.state, CELL_STATE_LOST);
                check_has(end.why, "the code broke Cloister's channel: ");
                check_has(end.why, cases[i].why);
                fake_done(&f);
        }
}

/* A header that announces too much is refused before anything is allocated. */
static void test_protocol_length(void)
{
        static const unsigned char header[FRAME_HEADER_SIZE] = {0xff, 0xff, 0xff, 0x7f,
                                                                FRAME_RESULT};
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "1");
        fake_take_exec(&f, NULL, 0);
        fake_send_bytes(&f, header, sizeof(header));
        fake_spin(&f);
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.status, CELL_KILLED);
        fake_done(&f);
}

/* Between cells a result is a protocol violation and a call is background work. */
static void test_idle_frames(void)
{
        struct fake f;
        struct end end;
        char text[256];

        fake_open(&f);
        warm_up(&f);
        fake_send(&f, FRAME_CALL, 7, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        check_eq_int(fake_tools.n_calls, 1);
        fake_tools_answer("{\"content\":[]}");
        check_eq_int(fake_read(&f, text, sizeof(text)).id, 7);
        fake_send(&f, FRAME_RESULT, 1, "{\"status\":\"ok\"}");
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        ask(&f, &end, "1");
        fake_start(&f);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_has(end.before, "RESULT frame while the session is idle");
        fake_done(&f);
}

static void test_closed_channel(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "os.close(rpc)");
        fake_take_exec(&f, NULL, 0);
        close(f.rpc);
        f.rpc = -1;
        fake_until(&f, f.kills == 1);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.status, CELL_KILLED);
        check_eq_str(end.why, "the code closed Cloister's channel");
        fake_done(&f);
}

static void test_calls(void)
{
        struct fake f;
        struct end end;
        char text[512];

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "await t()");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_send(
                &f, FRAME_CALL, 1,
                "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{\"n\":12345678901234567890123}}");
        check_eq_str(fake_tools.calls->server, "s");
        check_eq_bytes(buffer_bytes(&fake_tools.calls->arguments),
                       fake_tools.calls->arguments.length, "{\"n\":12345678901234567890123}");
        fake_tools_answer("{\"content\":[],\"structuredContent\":{\"x\":1.10}}");
        struct frame_header header = fake_read(&f, text, sizeof(text));
        check_eq_str(frame_type_name(header.type), "RETURN");
        check_eq_int(header.id, 1);
        check_eq_str(
                text,
                "{\"ok\":true,\"result\":{\"content\":[],\"structuredContent\":{\"x\":1.10}}}");

        fake_send(&f, FRAME_CALL, 2, "{\"server\":\"s\",\"tool\":\"bad\",\"arguments\":{}}");
        fake_tools_answer("{\"content\":[],\"isError\":true}");
        fake_read(&f, NULL, 0);
        fake_send(&f, FRAME_CALL, 3, "{\"server\":\"s\",\"tool\":\"none\",\"arguments\":{}}");
        fake_tools_fail("ToolNotFound", "no such tool", 0, false);
        fake_read(&f, text, sizeof(text));
        check_eq_str(
                text,
                "{\"ok\":false,\"error\":{\"kind\":\"ToolNotFound\",\"message\":\"no such tool\"}}");
        fake_send(&f, FRAME_CALL, 4, "{\"server\":\"s\",\"tool\":\"rpc\",\"arguments\":{}}");
        fake_tools_fail("ToolProtocolError", "boom \"quoted\"", -32000, true);
        fake_read(&f, text, sizeof(text));
        check_eq_str(
                text,
                "{\"ok\":false,\"error\":{\"kind\":\"ToolProtocolError\",\"message\":\"boom \\\"quoted\\\"\",\"code\":-32000}}");
        fake_send(&f, FRAME_CALL, 5, "{\"server\":\"s\",\"tool\":\"slow\",\"arguments\":{}}");

        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.n_calls, 5);
        check_eq_int(end.calls_total, 4);
        check(end.calls[0].ok && end.calls[0].duration_us == 1500);
        check(end.calls[1].used && !end.calls[1].ok);
        check(!end.calls[2].used); /* never sent */
        check(end.calls[3].used && !end.calls[3].ok && !end.calls[3].pending);

        /* The sandbox ends, and the call that waits is dropped. */
        fake_end(&f, SIGKILL, 0);
        check_eq_int(fake_tools.dropped, 1);
        fake_done(&f);
}

static void test_call_numbers(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "1");
        fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_CALL, 1, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        fake_send(&f, FRAME_CALL, 1, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        check_has(end.why, "a second call with the number 1");
        fake_done(&f);
}

static void test_drop(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "1");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_CALL, 1, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        fake_send(&f, FRAME_DROP, 1, "{}");
        check_eq_int(fake_tools.dropped, 1);
        fake_send(&f, FRAME_DROP, 1, "{}"); /* crossed with an answer: not a violation */
        fake_send(&f, FRAME_QUERY, 2, "{\"what\":\"catalogue\",\"wait_ms\":100}");
        fake_send(&f, FRAME_DROP, 2, "{}");
        check_eq_int(fake_tools.waits_cancelled, 1);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.status, CELL_OK);
        check_eq_int(end.calls_total, 1);
        check(end.calls[0].used && !end.calls[0].ok && !end.calls[0].pending);
        check_eq_int(f.kills, 0);
        fake_done(&f);
}

/* The record of a cell has what a server was sent, whatever the worker claims. */
static void test_forged_calls(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "1");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_tools.keep = true;
        for (unsigned i = 1; i <= CELL_CALLS_KEPT; i++) {
                fake_send(&f, FRAME_CALL, i,
                          "{\"server\":\"bank\\n\",\"tool\":\"t\",\"arguments\":{}}");
                fake_send(&f, FRAME_DROP, i, "{}");
        }
        check_eq_int(fake_tools.dropped, CELL_CALLS_KEPT);
        fake_tools.keep = false;
        fake_send(&f, FRAME_CALL, 1000, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        fake_tools_answer("{\"content\":[]}");
        fake_tools.keep = true;
        fake_send(&f, FRAME_CALL, 1001, "{\"server\":\"x\",\"tool\":\"t\",\"arguments\":{}}");
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.calls_total, 1);
        unsigned used = 0;
        for (size_t i = 0; i < ARRAY_SIZE(end.calls); i++) {
                used += end.calls[i].used;
                check(!end.calls[i].used || strcmp(end.calls[i].server, "s") == 0);
        }
        check_eq_int(used, 1);
        fake_tools.keep = false;
        fake_done(&f);
}

/* Only large arguments are written by another thread and passed on by reference. */
static void test_large_arguments(void)
{
        enum { N = 1024 * 1024 };
        static char payload[N];
        struct fake f;

        fake_open(&f);
        warm_up(&f);
        memset(payload, 'x', N - 1);
        memcpy(payload, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{\"a\":\"", 43);
        memcpy(payload + N - 4, "\"}}", 3);
        fake_send(&f, FRAME_CALL, 1, payload);
        fake_until(&f, fake_tools.n_calls == 1);
        check(fake_tools.calls->by_reference);
        check_eq_int(fake_tools.calls->arguments.length, N - 1 - 37 - 1);
        fake_tools_answer("{\"content\":[]}");
        fake_send(&f, FRAME_CALL, 2, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        check(!fake_tools.calls->by_reference);
        fake_tools_answer("{\"content\":[]}");
        fake_done(&f);
}

static void test_refused_call(void)
{
        struct fake f;
        struct end end;
        char text[256];

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "1");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_tools.refuse = true;
        fake_send(&f, FRAME_CALL, 1, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        fake_read(&f, text, sizeof(text));
        check_has(text, "\"kind\":\"ToolError\",\"message\":\"the arguments are too large\"");
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.calls_total, 0);
        fake_done(&f);
}

static void test_search(void)
{
        static const char query[] =
                "{\"what\":\"search\",\"q\":\"mail\",\"limit\":3,\"wait_ms\":0}";
        struct fake f;
        struct end end;
        char text[256];

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "1");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_QUERY, 1, query);
        check_eq_str(fake_tools.query, "mail");
        check_eq_int(fake_tools.limit, 3);
        check(!fake_has_frame(&f));
        fake_tools_end_search("{\"tools\":[7]}");
        fake_read(&f, text, sizeof(text));
        check_eq_str(text, "{\"ok\":true,\"result\":{\"tools\":[7]}}");
        /* The search waits first for servers that start; a negative limit counts as 0. */
        fake_send(&f, FRAME_QUERY, 2,
                  "{\"what\":\"search\",\"q\":\"\",\"limit\":-3,\"wait_ms\":50}");
        check_eq_int(fake_tools.wait_ms, 50);
        check(!fake_tools.search);
        fake_tools.search_at_once = true;
        fake_tools_end_wait();
        check_eq_int(fake_tools.limit, 0);
        fake_read(&f, text, sizeof(text));
        check_eq_str(text, "{\"ok\":true,\"result\":{\"tools\":[]}}");
        fake_tools.search_at_once = false;
        /* No memory. */
        fake_tools.refuse = true;
        fake_send(&f, FRAME_QUERY, 3, query);
        fake_read(&f, text, sizeof(text));
        check_has(text, "the tools could not be searched");
        fake_tools.refuse = false;
        /* The limit of searches; a dropped one is cancelled, others when the session ends. */
        for (uint64_t i = 0; i < CALLS_SEARCHES_MAX; i++)
                fake_send(&f, FRAME_QUERY, 10 + i, query);
        check(!fake_has_frame(&f));
        fake_send(&f, FRAME_QUERY, 50, query);
        fake_read(&f, text, sizeof(text));
        check_has(text, "too many searches");
        fake_send(&f, FRAME_DROP, 10, "{}");
        check_eq_int(fake_tools.searches_cancelled, 1);
        fake_send(&f, FRAME_QUERY, 51, query);
        check(!fake_has_frame(&f));
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        fake_done(&f);
        check_eq_int(fake_tools.searches_cancelled, 1 + CALLS_SEARCHES_MAX);
}

/* What the sessions of one of several principals have together is bounded too. */
static void test_share_of_a_principal(void)
{
        static const char search[] =
                "{\"what\":\"search\",\"q\":\"mail\",\"limit\":3,\"wait_ms\":0}";
        static const char call[] = "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}";
        static const char *const names[] = {"alice:work", "work"};
        struct fake f;
        struct end end;
        char text[256];

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                bool is_refused = i == 0; /* the control: the only principal has the whole pool */
                fake_open(&f);
                ask_on(&f, &end, names[i], "1", 0, false);
                fake_spin(&f);
                fake_start(&f);
                fake_take_exec(&f, NULL, 0);
                struct session_principal *p = sessions_find(f.sessions, names[i])->principal;
                p->n_searches = 16;
                fake_send(&f, FRAME_QUERY, 1, search);
                check_eq_int(fake_has_frame(&f), is_refused);
                if (is_refused) {
                        fake_read(&f, text, sizeof(text));
                        check_has(text, "too many searches");
                }
                p->n_searches = !is_refused; /* the one that runs */
                p->all->call_bytes = 64 * 1024 * 1024 - 1024;
                fake_send(&f, FRAME_CALL, 2, call);
                check_eq_int(fake_has_frame(&f), is_refused);
                if (is_refused) {
                        fake_read(&f, text, sizeof(text));
                        check_has(text, "too many calls of tools are in progress");
                        p->all->call_bytes = 0;
                        fake_send(&f, FRAME_CALL, 3, call);
                        check(!fake_has_frame(&f));
                        check(p->call_bytes > 1024 && p->call_bytes < 2048);
                }
                fake_done(&f);
        }
}

static void test_query(void)
{
        struct fake f;
        struct end end;
        char text[256];

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "1");
        fake_take_exec(&f, NULL, 0);
        /* Nothing new and no wait: the answer only. */
        fake_send(&f, FRAME_QUERY, 1, "{\"what\":\"catalogue\",\"wait_ms\":0}");
        fake_read(&f, text, sizeof(text));
        check_eq_str(text, "{\"ok\":true,\"result\":{\"version\":1}}");
        /* The catalogue that arrived during the wait is sent before the answer. */
        fake_send(&f, FRAME_QUERY, 2, "{\"what\":\"catalogue\",\"wait_ms\":99999999}");
        check_eq_int(fake_tools.wait_ms, 10000);
        check(!fake_has_frame(&f));
        fake_tools_change("{\"servers\":[1]}");
        fake_tools_end_wait();
        struct frame_header header = fake_read(&f, text, sizeof(text));
        check_eq_str(frame_type_name(header.type), "CATALOG");
        check_eq_int(header.id, 2);
        fake_read(&f, text, sizeof(text));
        check_eq_str(text, "{\"ok\":true,\"result\":{\"version\":2}}");
        /* A change is sent to a running cell at once. */
        fake_tools_change("{\"servers\":[2]}");
        sessions_catalogue_changed(f.sessions);
        check_eq_int(fake_read(&f, text, sizeof(text)).id, 3);
        fake_done(&f);
}

/* 10,000 calls are in flight and the next is not taken; one answer lets it in. */
static void test_calls_bound(void)
{
        struct fake f;
        struct end end;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(16 * 1024 * 1024);
        static const char call[] = "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}";

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "gather");
        fake_take_exec(&f, NULL, 0);
        for (uint64_t i = 1; i <= CALLS_MAX + 1; i++)
                check_eq_int(frame_append(&b, FRAME_CALL, i, call, sizeof(call) - 1), 0);
        fake_send_bytes(&f, buffer_bytes(&b), b.length);
        fake_until(&f, fake_tools.n_calls == CALLS_MAX);
        fake_run_ms(&f, 1000);
        check_eq_int(fake_tools.n_calls, CALLS_MAX);
        fake_tools_answer("{\"content\":[]}");
        fake_until(&f, fake_tools.n_calls == CALLS_MAX && fake_tools.calls->next);
        check_eq_int(f.kills, 0);
        fake_done(&f);
}

/* All output in a pipe when the result arrives belongs to the cell, even if the code has enlarged
 * the pipe, and while the output is not read otherwise. */
static void test_output_of_enlarged_pipe(void)
{
        enum { BEFORE = 300 * 1024 };
        static char text[BEFORE];
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "print()");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        session_pause_output(fake_session(&f), true);
        check(fcntl(f.out, F_SETPIPE_SZ, 1024 * 1024) >= 1024 * 1024);
        memset(text, 'x', sizeof(text));
        check_eq_int(write(f.out, text, sizeof(text)), sizeof(text));
        check_eq_int(write(f.out, "\nthe end\n", 9), 9);
        check_eq_int(write(f.err, "warning\n", 8), 8);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.count, 1);
        check_has(end.out, "\nthe end\n");
        check_eq_str(end.err, "warning\n");
        session_pause_output(fake_session(&f), false);
        fake_done(&f);
}

/* Output between two cells belongs to the next cell, with a line that marks it. */
static void test_background_output(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        check_eq_int(write(f.out, "late", 4), 4);
        fake_spin(&f);
        ask(&f, &end, "print(1)");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        check_eq_int(write(f.out, "1\n", 2), 2);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_str(
                end.out,
                "[output of background work before this call]\nlate\n[output of this call]\n1\n");
        check_eq_str(end.err, "");
        fake_done(&f);
}

/* Output in the pipes at RESULT is the cell's, even if the loop has not read it yet. */
static void test_output_at_result(void)
{
        struct fake f;
        struct end end;
        char bytes[60000];
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024);

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "print(1)");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        memset(bytes, 'y', sizeof(bytes));
        check_eq_int(write(f.out, bytes, sizeof(bytes)), sizeof(bytes));
        frame_append(&b, FRAME_RESULT, cell, "{\"status\":\"ok\"}", 15);
        check_eq_int(write(f.rpc, buffer_bytes(&b), b.length), (ssize_t)b.length);
        fake_spin(&f);
        check_eq_int(end.count, 1);
        check_has(end.out, " of 60,000 characters cut here");
        fake_done(&f);
}

int main(void)
{
        run(test_protocol);
        run(test_protocol_length);
        run(test_idle_frames);
        run(test_closed_channel);
        run(test_calls);
        run(test_call_numbers);
        run(test_drop);
        run(test_forged_calls);
        run(test_large_arguments);
        run(test_refused_call);
        run(test_share_of_a_principal);
        run(test_query);
        run(test_search);
        run(test_calls_bound);
        run(test_output_of_enlarged_pipe);
        run(test_background_output);
        run(test_output_at_result);
        return 0;
}
