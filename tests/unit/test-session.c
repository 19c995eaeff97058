/* Sessions against a monitor and a worker played by hand. */
#include "supervisor/session/sessions.h"

#include "tests/unit/fake-monitor.h"

/* What the end of a cell was; text is copied since the cell goes. */
struct end {
        int count;
        enum cell_status status;
        enum cell_state state;
        char why[CELL_WHY_MAX], before[CELL_WHY_MAX], out[512], err[512], repr[64], type[64];
        int exit_code, signal;
        bool has_exit_code;
        uint64_t calls_total, cpu_us, memory_peak;
        size_t n_calls;
        struct cell_call calls[4];
};

static void on_done(void *data, struct cell *cell)
{
        struct end *end = data;
        const struct cell_outcome *o = &cell->outcome;
        bool cut;

        end->count++;
        end->status = o->status;
        end->state = o->state;
        snprintf(end->why, sizeof(end->why), "%s", o->why);
        snprintf(end->before, sizeof(end->before), "%s", o->before);
        for (int i = 0; i < CELL_STREAMS; i++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024 * 1024);
                check_eq_int(capture_render(&o->streams[i], 400, &b, &cut), 0);
                snprintf(i == CELL_STDOUT ? end->out : end->err, sizeof(end->out), "%.*s",
                         (int)b.length, b.length ? buffer_bytes(&b) : "");
        }
        const char *repr = json_string(o->value, "repr", NULL),
                   *type = json_string(o->error, "type", NULL);
        snprintf(end->repr, sizeof(end->repr), "%s", repr ? repr : "");
        snprintf(end->type, sizeof(end->type), "%s",
                 o->error_type ? o->error_type : (type ? type : ""));
        end->exit_code = o->exit_code;
        end->has_exit_code = o->has_exit_code;
        end->signal = o->signal;
        end->calls_total = o->calls_total;
        end->cpu_us = o->cpu_us;
        end->memory_peak = o->memory_peak;
        end->n_calls = o->n_calls;
        for (size_t i = 0; i < o->n_calls && i < ARRAY_SIZE(end->calls); i++)
                end->calls[i] = o->calls[i];
}

static struct cell *ask_on(struct fake *f, struct end *end, const char *name, const char *code,
                           uint32_t timeout_ms, bool reset)
{
        const struct cell_request request = {.code = code,
                                             .code_length = strlen(code),
                                             .timeout_ms = timeout_ms,
                                             .reset = reset,
                                             .done = on_done,
                                             .data = end};
        struct error err = {};
        struct cell *cell = NULL;

        memset(end, 0, sizeof(*end));
        check_ok(sessions_run(f->sessions, name, &request, &cell, &err));
        return cell;
}

static struct cell *ask(struct fake *f, struct end *end, const char *code)
{
        struct cell *cell = ask_on(f, end, "default", code, 0, false);

        fake_spin(f);
        return cell;
}

/* A first cell that ran well, so that there is state to lose. */
static void warm_up(struct fake *f)
{
        struct end end;

        ask(f, &end, "x = 1");
        fake_start(f);
        uint64_t cell = fake_take_exec(f, NULL, 0);
        fake_send(f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.count, 1);
        check_eq_int(end.state, CELL_STATE_NEW);
}

static void test_ok(void)
{
        struct fake f;
        struct end end;
        char text[512];

        fake_open(&f);
        ask(&f, &end, "print('h\xc3\xa9');\n1+1");
        check_eq_int(f.creates, 1);
        check_eq_int(end.count, 0);
        fake_start(&f);

        struct frame_header header = fake_read(&f, text, sizeof(text));
        check_eq_str(frame_type_name(header.type), "CATALOG");
        check_eq_int(header.id, 1);
        check_eq_str(text, "{\"servers\":[]}");
        uint64_t cell = fake_take_exec(&f, text, sizeof(text));
        check_eq_str(text, "{\"code\":\"print('h\xc3\xa9');\\n1+1\",\"filename\":\"<cell 1>\"}");
        check_eq_int(fake_hub.started_all, 1);

        check_eq_int(write(f.out, "h\xc3\xa9\n", 4), 4);
        check_eq_int(write(f.err, "warning\n", 8), 8);
        fake_set_fact(f.cpu, "4000000\n");
        fake_send(&f, FRAME_RESULT, cell,
                  "{\"status\":\"ok\",\"value\":{\"repr\":\"2\",\"json\":2}}");
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_OK);
        check_eq_int(end.state, CELL_STATE_NEW);
        check_eq_str(end.out, "h\xc3\xa9\n");
        check_eq_str(end.err, "warning\n");
        check_eq_str(end.repr, "2");
        check_eq_str(end.why, "");
        check_eq_int(end.cpu_us, 3000);
        check_eq_int(end.memory_peak, 1048576);

        /* The second call finds the state, and no second catalogue. */
        ask(&f, &end, "2");
        header = fake_read(&f, text, sizeof(text));
        check_eq_str(frame_type_name(header.type), "EXEC");
        fake_send(&f, FRAME_RESULT, header.id,
                  "{\"status\":\"error\",\"error\":{\"type\":\"ValueError\","
                  "\"message\":\"m\",\"traceback\":\"t\",\"line\":1}}");
        check_eq_int(end.status, CELL_ERROR);
        check_eq_int(end.state, CELL_STATE_KEPT);
        check_eq_str(end.type, "ValueError");
        check_eq_int(f.creates, 1);
        fake_done(&f);
}

static void test_exit(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        ask(&f, &end, "sys.exit(3)");
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0),
                  "{\"status\":\"exit\",\"exit_code\":3}");
        check_eq_int(end.status, CELL_EXIT);
        check_eq_int(end.exit_code, 3);
        check_eq_int(end.state, CELL_STATE_KEPT);

        ask(&f, &end, "os._exit(4)");
        fake_take_exec(&f, NULL, 0);
        check_eq_int(write(f.out, "partial", 7), 7);
        fake_end(&f, 4 << 8, 0);
        check_eq_int(end.status, CELL_EXIT);
        check_eq_int(end.exit_code, 4);
        check_eq_int(end.state, CELL_STATE_LOST);
        check_eq_str(end.out, "partial");
        check_eq_int(end.memory_peak, 4096);
        check_has(end.why, "exit code 4");

        /* The next call makes a new one and tells why. */
        ask(&f, &end, "1");
        check_eq_int(f.creates, 2);
        fake_start(&f);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(end.state, CELL_STATE_NEW);
        check_has(end.before, "exit code 4");
        fake_done(&f);
}

static void test_deaths(void)
{
        static const struct {
                int status;
                uint32_t oom;
                enum cell_status expected;
                int signal;
                const char *why;
        } cases[] = {
                {SIGSEGV, 0, CELL_KILLED, SIGSEGV, "killed by SIGSEGV"},
                {SIGKILL, 0, CELL_KILLED, SIGKILL, "killed by SIGKILL"},
                {SIGKILL, 1, CELL_OOM, 0, "out of memory (limit 512 MiB)"},
                {SIGSEGV, 1, CELL_KILLED, SIGSEGV,
                 "killed by SIGSEGV"}, /* a child was oom-killed before */
                {-1, 1, CELL_OOM, 0, "out of memory"},
                {-1, 0, CELL_KILLED, 0, "the sandbox was killed"},
                {0, 0, CELL_EXIT, 0, "exit code 0"},
                {FRAME_EXIT_LOST << 8, 0, CELL_KILLED, 0, "the code closed Cloister's channel"},
        };
        struct fake f;
        struct end end;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                fake_open(&f);
                warm_up(&f);
                ask(&f, &end, "die()");
                fake_take_exec(&f, NULL, 0);
                /* The worker's end of the channel goes first, as in life. */
                close(f.rpc);
                f.rpc = -1;
                fake_spin(&f);
                check_eq_int(end.count, 0);
                fake_end(&f, cases[i].status, cases[i].oom);
                check_eq_int(end.count, 1);
                check_eq_int(end.status, cases[i].expected);
                check_eq_int(end.signal, cases[i].signal);
                check_eq_int(end.state, CELL_STATE_LOST);
                check_has(end.why, cases[i].why);
                check_eq_int(f.kills, 0);
                fake_done(&f);
        }
}

static void test_timeout_kept(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        ask_on(&f, &end, "default", "while True: pass", 50, false);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_until(&f, f.interrupts == 1);
        check_eq_int(end.count, 0);
        fake_send(&f, FRAME_RESULT, cell,
                  "{\"status\":\"interrupted\",\"error\":{\"type\":\"KeyboardInterrupt\","
                  "\"message\":\"\","
                  "\"traceback\":\"t\"}}");
        check_eq_int(end.status, CELL_TIMEOUT);
        check_eq_int(end.state, CELL_STATE_KEPT);
        check_eq_str(end.why, "the call reached its timeout of 0.05 s");
        check_eq_int(f.kills, 0);
        fake_done(&f);
}

/* A result that crosses with the interrupt: the next cell waits until the signal has found nobody.
 */
static void test_interrupt_crosses(void)
{
        struct fake f;
        struct end end, next;

        fake_open(&f);
        warm_up(&f);
        ask_on(&f, &end, "default", "nearly done", 30, false);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        ask(&f, &next, "2");
        fake_until(&f, f.interrupts == 1);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.status, CELL_TIMEOUT);
        check_eq_int(end.state, CELL_STATE_KEPT);
        check(!fake_has_frame(&f));
        fake_until(&f, fake_has_frame(&f));
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(next.status, CELL_OK);
        fake_done(&f);
}

static void test_timeout_lost(void)
{
        struct fake f;
        struct end end, next;

        fake_open(&f);
        warm_up(&f);
        ask_on(&f, &end, "default", "sum(itertools.repeat(1))", 30, false);
        fake_take_exec(&f, NULL, 0);
        fake_until(&f, f.interrupts == 1);
        fake_until(&f, f.kills == 1); /* after the grace */
        check_eq_int(end.count, 0);
        ask(&f, &next, "waits");
        fake_end(&f, SIGKILL, 1);
        check_eq_int(end.status, CELL_TIMEOUT);
        check_eq_int(end.state, CELL_STATE_LOST);
        check_eq_int(end.signal, 0);
        fake_spin(&f);
        check_eq_int(f.creates, 2);
        fake_start(&f);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(next.state, CELL_STATE_NEW);
        check_has(next.before, "timeout");
        fake_done(&f);
}

static void test_cancel(void)
{
        struct fake f;
        struct end first, second;

        fake_open(&f);
        warm_up(&f);
        struct cell *running = ask(&f, &first, "while True: pass");
        struct cell *waiting = ask(&f, &second, "2");
        uint64_t cell = fake_take_exec(&f, NULL, 0);

        cell_cancel(waiting);
        check_eq_int(second.count, 0); /* never from inside the call */
        fake_spin(&f);
        check_eq_int(second.count, 1);
        check_eq_int(second.status, CELL_CANCELLED);
        check_eq_int(second.state, CELL_STATE_KEPT);

        cell_cancel(running);
        check_eq_int(f.interrupts, 1);
        cell_cancel(running);
        check_eq_int(f.interrupts, 1);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"interrupted\"}");
        check_eq_int(first.status, CELL_CANCELLED);
        check_eq_int(first.state, CELL_STATE_KEPT);
        fake_done(&f);
}

static void test_kill(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        struct cell *cell = ask(&f, &end, "while True: pass");
        fake_start(&f);
        fake_take_exec(&f, NULL, 0);
        cell_kill(cell);
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.status, CELL_CANCELLED);
        check_eq_int(end.state, CELL_STATE_LOST);
        fake_done(&f);
}

static void test_order(void)
{
        struct fake f;
        struct end ends[3];
        char text[256];

        fake_open(&f);
        for (int i = 0; i < 3; i++) {
                char code[16];
                snprintf(code, sizeof(code), "%d", i);
                ask(&f, &ends[i], code);
        }
        check_eq_int(f.creates, 1);
        fake_start(&f);
        for (int i = 0; i < 3; i++) {
                uint64_t cell = fake_take_exec(&f, text, sizeof(text));
                check_eq_int(text[9], '0' + i);
                check(!fake_has_frame(&f)); /* one at a time */
                fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
                check_eq_int(ends[i].count, 1);
                check_eq_int(ends[i].state, i == 0 ? CELL_STATE_NEW : CELL_STATE_KEPT);
        }
        fake_done(&f);
}

static void test_queue_bound(void)
{
        struct fake f;
        struct end end;
        struct error err = {};
        struct cell *cell;
        const struct cell_request request = {
                .code = "1", .code_length = 1, .done = on_done, .data = &end};

        fake_open(&f);
        for (int i = 0; i < SESSION_CELLS_MAX; i++)
                ask_on(&f, &end, "default", "1", 0, false);
        check_eq_int(sessions_run(f.sessions, "default", &request, &cell, &err), -EBUSY);
        check_has(err.text, "64 calls wait");
        /* Another session is not concerned. */
        ask_on(&f, &end, "other", "1", 0, false);
        fake_done(&f);
}

static void test_reset(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        warm_up(&f);
        ask_on(&f, &end, "default", "1", 0, true);
        fake_spin(&f);
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        fake_spin(&f);
        check_eq_int(f.creates, 2);
        fake_start(&f);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(end.status, CELL_OK);
        check_eq_int(end.state, CELL_STATE_NEW);
        check_eq_str(end.before, ""); /* asked for */
        check_eq_int(f.kills, 1);
        fake_done(&f);
}

static void test_create_fails(void)
{
        struct fake f;
        struct end end, second;
        const struct error error = {.code = EPERM,
                                    .text = "start a sandbox: no user namespaces here"};

        fake_open(&f);
        ask(&f, &end, "1");
        ask(&f, &second, "2");
        check_eq_int(sessions_failed(f.sessions, f.serial, &error), 0);
        fake_spin(&f);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_ERROR);
        check_eq_int(end.state, CELL_STATE_NONE);
        check_eq_str(end.type, "SandboxError");
        check_eq_str(end.why, error.text);
        /* The next one tries again. */
        check_eq_int(f.creates, 2);
        fake_start(&f);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(second.status, CELL_OK);
        check_eq_str(second.before, "");
        fake_done(&f);
}

static void test_sessions_max(void)
{
        struct fake f;
        struct end ends[5];
        static const char *const names[] = {"a", "b", "c", "d", "e"};

        fake_open(&f);
        for (int i = 0; i < 5; i++)
                ask_on(&f, &ends[i], names[i], "1", 0, false);
        fake_spin(&f);
        check_eq_int(f.creates, 4);
        check_eq_int(ends[4].count, 1);
        check_eq_str(ends[4].type, "SandboxError");
        check_has(ends[4].why, "4 sessions are live");
        check_eq_int(ends[3].count, 0);
        fake_done(&f);
}

static void test_idle(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        f.config->session_idle_ms = 50;
        warm_up(&f);
        fake_until(&f, f.kills == 1);
        fake_end(&f, SIGKILL, 0);
        ask(&f, &end, "1");
        check_eq_int(f.creates, 2);
        fake_start(&f);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_has(end.before, "idle for 0.05 s");
        fake_done(&f);
}

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
                {FRAME_DISPLAY, 0, "{}", "DISPLAY frame (0x43), which a worker may not send"},
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

/* Between cells a result is a crime and a call is background work. */
static void test_idle_frames(void)
{
        struct fake f;
        struct end end;
        char text[256];

        fake_open(&f);
        warm_up(&f);
        fake_send(&f, FRAME_CALL, 7, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        check_eq_int(fake_hub.n_calls, 1);
        fake_hub_answer("{\"content\":[]}");
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
        check_eq_str(fake_hub.calls->server, "s");
        check_eq_bytes(buffer_bytes(&fake_hub.calls->arguments), fake_hub.calls->arguments.length,
                       "{\"n\":12345678901234567890123}");
        fake_hub_answer("{\"content\":[],\"structuredContent\":{\"x\":1.10}}");
        struct frame_header header = fake_read(&f, text, sizeof(text));
        check_eq_str(frame_type_name(header.type), "RETURN");
        check_eq_int(header.id, 1);
        check_eq_str(
                text,
                "{\"ok\":true,\"result\":{\"content\":[],\"structuredContent\":{\"x\":1.10}}}");

        fake_send(&f, FRAME_CALL, 2, "{\"server\":\"s\",\"tool\":\"bad\",\"arguments\":{}}");
        fake_hub_answer("{\"content\":[],\"isError\":true}");
        fake_read(&f, NULL, 0);
        fake_send(&f, FRAME_CALL, 3, "{\"server\":\"s\",\"tool\":\"none\",\"arguments\":{}}");
        fake_hub_fail(HUB_NOT_FOUND, "no such tool", 0, false);
        fake_read(&f, text, sizeof(text));
        check_eq_str(text, "{\"ok\":false,\"error\":{\"kind\":\"ToolNotFound\",\"message\":\"no "
                           "such tool\"}}");
        fake_send(&f, FRAME_CALL, 4, "{\"server\":\"s\",\"tool\":\"rpc\",\"arguments\":{}}");
        fake_hub_fail(HUB_PROTOCOL, "boom \"quoted\"", -32000, true);
        fake_read(&f, text, sizeof(text));
        check_eq_str(text,
                     "{\"ok\":false,\"error\":{\"kind\":\"ToolProtocolError\",\"message\":\"boom "
                     "\\\"quoted\\\"\",\"code\":-32000}}");
        fake_send(&f, FRAME_CALL, 5, "{\"server\":\"s\",\"tool\":\"slow\",\"arguments\":{}}");

        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.n_calls, 5);
        check_eq_int(end.calls_total, 4);
        check(end.calls[0].ok && end.calls[0].duration_us == 1500);
        check(end.calls[1].used && !end.calls[1].ok);
        check(!end.calls[2].used); /* never sent */
        check(end.calls[3].used && !end.calls[3].ok && !end.calls[3].pending);

        /* The sandbox goes, and with it whoever waited for the last one. */
        fake_end(&f, SIGKILL, 0);
        check_eq_int(fake_hub.dropped, 1);
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
        check_eq_int(fake_hub.dropped, 1);
        fake_send(&f, FRAME_DROP, 1, "{}"); /* crossed with an answer: no crime */
        fake_send(&f, FRAME_QUERY, 2, "{\"what\":\"catalogue\",\"wait_ms\":100}");
        fake_send(&f, FRAME_DROP, 2, "{}");
        check_eq_int(fake_hub.waits_cancelled, 1);
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.status, CELL_OK);
        check_eq_int(end.calls_total, 1);
        check(end.calls[0].used && !end.calls[0].ok && !end.calls[0].pending);
        check_eq_int(f.kills, 0);
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
        fake_hub.refuse = true;
        fake_send(&f, FRAME_CALL, 1, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        fake_read(&f, text, sizeof(text));
        check_has(text, "\"kind\":\"ToolError\",\"message\":\"the arguments are too large\"");
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.calls_total, 0);
        fake_done(&f);
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
        /* Nothing new, no waiting: the answer alone. */
        fake_send(&f, FRAME_QUERY, 1, "{\"what\":\"catalogue\",\"wait_ms\":0}");
        fake_read(&f, text, sizeof(text));
        check_eq_str(text, "{\"ok\":true,\"result\":{\"version\":1}}");
        /* The catalogue that came while it waited goes before the answer. */
        fake_send(&f, FRAME_QUERY, 2, "{\"what\":\"catalogue\",\"wait_ms\":99999999}");
        check_eq_int(fake_hub.wait_ms, 10000);
        check(!fake_has_frame(&f));
        fake_hub_change("{\"servers\":[1]}");
        fake_hub_waited();
        struct frame_header header = fake_read(&f, text, sizeof(text));
        check_eq_str(frame_type_name(header.type), "CATALOG");
        check_eq_int(header.id, 2);
        fake_read(&f, text, sizeof(text));
        check_eq_str(text, "{\"ok\":true,\"result\":{\"version\":2}}");
        /* A change is sent to a running cell at once. */
        fake_hub_change("{\"servers\":[2]}");
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
        fake_until(&f, fake_hub.n_calls == CALLS_MAX);
        usleep(50000);
        fake_spin(&f);
        check_eq_int(fake_hub.n_calls, CALLS_MAX);
        fake_hub_answer("{\"content\":[]}");
        fake_until(&f, fake_hub.n_calls == CALLS_MAX && fake_hub.calls->next);
        check_eq_int(f.kills, 0);
        fake_done(&f);
}

/* Output between the cells belongs to the next one, and says so. */
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
        check_eq_str(end.out, "[output of background work before this call]\nlate\n[output of this "
                              "call]\n1\n");
        check_eq_str(end.err, "");
        fake_done(&f);
}

/* What is in the pipes at RESULT is the cell's, even what the loop has not read yet. */
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

static void test_names(void)
{
        char longest[66];

        memset(longest, 'a', sizeof(longest));
        check(session_name_valid("default", 7));
        check(session_name_valid("A.b_c-9", 7));
        check(session_name_valid(longest, 64));
        check(!session_name_valid(longest, 65));
        check(!session_name_valid("", 0));
        check(!session_name_valid("a/b", 3));
        check(!session_name_valid("a\0b", 3));
        check(!session_name_valid("\xc3\xa9", 2));
}

int main(void)
{
        run(test_ok);
        run(test_exit);
        run(test_deaths);
        run(test_timeout_kept);
        run(test_interrupt_crosses);
        run(test_timeout_lost);
        run(test_cancel);
        run(test_kill);
        run(test_order);
        run(test_queue_bound);
        run(test_reset);
        run(test_create_fails);
        run(test_sessions_max);
        run(test_idle);
        run(test_protocol);
        run(test_protocol_length);
        run(test_idle_frames);
        run(test_closed_channel);
        run(test_calls);
        run(test_call_numbers);
        run(test_drop);
        run(test_refused_call);
        run(test_query);
        run(test_calls_bound);
        run(test_background_output);
        run(test_output_at_result);
        run(test_names);
        return 0;
}
