/* The states of sessions, with a fake monitor and a fake worker. */
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/session-state.h"
#include "supervisor/session/session.h"
#include "supervisor/session/sessions-owner.h"
#include "supervisor/session/sessions.h"

#include <errno.h>

#include "rpc/sandbox-messages.h"
#include "tests/unit/fake-client.h"

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
        check_eq_str(text, "print('h\xc3\xa9');\n1+1");
        check_eq_str(text + strlen(text) + 1, "<cell 1>");
        check_eq_int(fake_tools.started_all, 1);

        check_eq_int(write(f.out, "h\xc3\xa9\n", 4), 4);
        check_eq_int(write(f.err, "warning\n", 8), 8);
        fake_set_counter(f.cpu, "4000000\n");
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

        /* The next call creates a new sandbox and reports the reason. */
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
                {SANDBOX_EXIT_SETUP << 8, 0, CELL_KILLED, 0, "could not be set up"},
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
                check_eq_int(text[0], '0' + i);
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
                .code = "1", .code_length = 1, .done = fake_on_done, .data = &end};

        fake_open(&f);
        for (int i = 0; i < SESSION_CELLS_MAX; i++)
                ask_on(&f, &end, "default", "1", 0, false);
        check_eq_int(sessions_run(f.sessions, "default", &request, &cell, &err), -EBUSY);
        check_has(err.text, "64 calls wait");
        /* Another session is not affected. */
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

static void test_create_under_an_old_config_is_asked_again(void)
{
        struct fake f;
        struct end end;
        const struct error stale = {.code = ESTALE, .text = "the config was read again"};

        fake_open(&f);
        ask(&f, &end, "1");
        uint32_t first = f.serial;
        check_eq_int(sessions_failed(f.sessions, first, &stale), 0);
        fake_spin(&f);
        check_eq_int(end.count, 0);
        check_eq_int(f.creates, 2);
        check(f.serial != first);
        fake_start(&f);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(end.status, CELL_OK);
        check_eq_str(end.before, "");
        fake_done(&f);
}

/* The owner resets a session whose sandbox does not exist yet: it is replaced. */
static void test_reset_while_being_made(void)
{
        struct fake f;
        struct end end;
        struct error err = {};

        fake_open(&f);
        cell_cancel(ask(&f, &end, "1"));
        check_ok(sessions_end(f.sessions, "default", true, &err));
        fake_spin(&f);
        check_eq_int(end.status, CELL_CANCELLED);
        fake_start(&f);
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(f.creates, 2);
        fake_start(&f);
        check_eq_int(f.kills, 1);

        /* Control: one that is only ended is not replaced. */
        check_ok(sessions_end(f.sessions, "default", false, &err));
        check_eq_int(f.kills, 2);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(f.creates, 2);
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

static void test_freeze(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        f.config->top.freeze_ms = 30;
        warm_up(&f);
        check_eq_int(f.freezes, 0);
        for (int i = 1; i <= 2; i++) {
                fake_until(&f, f.freezes == i);
                check_eq_int(f.thaws, i - 1);
                sessions_frozen(f.sessions, f.target);
                check_eq_int(session_state(fake_session(&f)), SESSION_FROZEN);
                ask(&f, &end, "x");
                check_eq_int(f.thaws, i);
                check(session_state(fake_session(&f)) != SESSION_FROZEN);
                uint64_t cell = fake_take_exec(&f, NULL, 0);
                fake_run_ms(&f, 10 * 30);
                check_eq_int(f.freezes, i);
                fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
                check_eq_int(end.state, CELL_STATE_KEPT);
                /* A late FROZEN event refers to the time before. */
                sessions_frozen(f.sessions, f.target);
                check(session_state(fake_session(&f)) != SESSION_FROZEN);
        }
        /* A reset needs no thaw: what is frozen can be killed. */
        fake_until(&f, f.freezes == 3);
        ask_on(&f, &end, "default", "1", 0, true);
        fake_until(&f, f.kills == 1);
        check_eq_int(f.thaws, 2);
        fake_end(&f, SIGKILL, 0);
        fake_until(&f, f.creates == 2);
        fake_start(&f);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(f.thaws, 2);
        fake_done(&f);
}

/* The session uses no processor time after a call: nothing is sent. Its processes compute: sent once, and by the call after it. */
static void test_rest(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        f.config->top.background_ms = 2000;
        warm_up(&f);
        ask(&f, &end, "1");
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        fake_run_ms(&f, 400);
        check_eq_int(f.rests, 0);
        ask(&f, &end, "1");
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(f.rests + f.rest_ends, 0);
        fake_run_ms(&f, 100);
        fake_set_counter(f.cpu, "1000000000\n"); /* ns: a second more */
        fake_until(&f, f.rests == 1);
        fake_run_ms(&f, 400);
        check_eq_int(f.rests, 1);
        check_eq_int(f.rest_ends, 0);
        ask(&f, &end, "2");
        check_eq_int(f.rest_ends, 1);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_str(end.note, "");
        /* Processes were stopped: the next result says it, and that after it does not. */
        fake_run_ms(&f, 100);
        fake_set_counter(f.cpu, "2000000000\n");
        fake_until(&f, f.rests == 2);
        fake_stopped(&f, 3);
        check_eq_int(session_state(fake_session(&f)), SESSION_FROZEN);
        ask(&f, &end, "3");
        check_eq_int(f.rest_ends, 2);
        fake_stopped(&f, 3); /* late */
        check_eq_int(session_state(fake_session(&f)), SESSION_RUNNING);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_str(end.note, "3 processes were stopped after 2 s of CPU time");
        ask(&f, &end, "4");
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_str(end.note, "");
        check_eq_int(f.sweeps, 0);
        fake_done(&f);
}

static void test_frozen_and_dropped(void)
{
        struct fake f;

        fake_open(&f);
        f.config->top.freeze_ms = 30;
        f.config->session_idle_ms = 120;
        warm_up(&f);
        fake_until(&f, f.freezes == 1);
        check_eq_int(f.kills, 0);
        fake_until(&f, f.kills == 1);
        check_eq_int(f.freezes, 1);
        check_eq_int(f.thaws, 0);
        fake_end(&f, SIGKILL, 0);
        fake_done(&f);
}

static void test_not_frozen_unless_asked_for(void)
{
        struct fake f;

        fake_open(&f);
        f.config->session_idle_ms = 120;
        warm_up(&f);
        fake_until(&f, f.kills == 1);
        check_eq_int(f.freezes, 0);
        fake_done(&f);
}

static void test_names(void)
{
        char longest[66];

        memset(longest, 'a', sizeof(longest));
        check(session_name_valid("default", 7));
        check(session_name_valid("A.b_c-9", 7));
        check(session_name_valid("_", 1));
        check(session_name_valid(longest, 64));
        check(!session_name_valid(longest, 65));
        check(!session_name_valid("", 0));
        check(!session_name_valid("a/b", 3));
        check(!session_name_valid(".", 1));
        check(!session_name_valid("..", 2));
        check(!session_name_valid("-", 1));
        check(!session_name_valid("--help", 6));
        check(!session_name_valid("a\0b", 3));
        check(!session_name_valid("\xc3\xa9", 2));
}

static size_t n_names(const struct fake *f)
{
        struct sessions_count count;

        sessions_count(f->sessions, &count);
        return count.names;
}

/* Names are found again, however many there are, and the oldest without a sandbox are forgotten. */
static void test_many_names(void)
{
        enum { MANY = 1500, REMEMBERED = 1024 };
        char name[16];
        struct fake f;
        struct end end;

        fake_open(&f);
        f.refuse_create = true;
        for (int i = 0; i < 2 * MANY; i++) {
                snprintf(name, sizeof(name), "s%d", i % MANY);
                ask_on(&f, &end, name, "1", 0, false);
                fake_spin(&f);
                check_eq_int(end.count, 1);
                check(n_names(&f) <= REMEMBERED + 2);
        }
        size_t before = n_names(&f);
        ask_on(&f, &end, "s1499", "1", 0, false);
        fake_spin(&f);
        check(n_names(&f) <= before);
        check(sessions_find(f.sessions, "s1499"));
        check(!sessions_find(f.sessions, "s0"));
        fake_done(&f);
}

int main(void)
{
        run(test_ok);
        run(test_exit);
        run(test_deaths);
        run(test_cancel);
        run(test_kill);
        run(test_order);
        run(test_queue_bound);
        run(test_reset);
        run(test_create_fails);
        run(test_create_under_an_old_config_is_asked_again);
        run(test_reset_while_being_made);
        run(test_sessions_max);
        run(test_idle);
        run(test_freeze);
        run(test_rest);
        run(test_frozen_and_dropped);
        run(test_not_frozen_unless_asked_for);
        run(test_names);
        run(test_many_names);
        return 0;
}
