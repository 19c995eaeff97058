/* The sleeping copy of a worker: when it is requested, and how a session continues from it. */
#include "supervisor/session/machine/session-state.h"

#include <errno.h>

#include "rpc/sandbox-messages.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/state/restore.h"
#include "tests/unit/fake-client.h"

#define OK "{\"status\":\"ok\"}"

static void open_cold(struct fake *f, const char *text)
{
        const struct monitor_hello hello = fake_hello;
        struct config *config = fake_config(text);

        fake_open(f);
        sessions_reload(f->sessions, config, &hello);
        config_free(config);
}

static void open_with(struct fake *f, const char *text)
{
        open_cold(f, text);
        warm_up(f);
}

/* Takes the KEEP that comes after a pause. */
static uint64_t take_keep(struct fake *f)
{
        fake_run_ms(f, SESSION_QUIET_MS + 2);
        struct frame_header header = fake_read(f, NULL, 0);

        check_eq_str(frame_type_name(header.type), "KEEP");
        return header.id;
}

static void answer_keep(struct fake *f, uint64_t id, uint32_t pid)
{
        char text[64];

        snprintf(text, sizeof(text), "{\"pid\":%u,\"threads\":2,\"processes\":1}", pid);
        fake_send(f, FRAME_KEPT, id, text);
        check_eq_int(f->copy, pid);
        sessions_kept(f->sessions, f->target, NULL);
        fake_spin(f);
}

/* A session with a copy of the end of cell 1. */
static void open_kept(struct fake *f)
{
        open_with(f, "{}");
        answer_keep(f, take_keep(f), 41);
}

/* Runs a cell, and ends it with this result. */
static void run_cell(struct fake *f, const char *code, const char *result)
{
        struct end end;

        ask(f, &end, code);
        fake_send(f, FRAME_RESULT, fake_take_exec(f, NULL, 0), result);
        check_eq_int(end.count, 1);
}

/* The worker has ended with this wait status. */
static void clear(struct fake *f, int wait_status, uint32_t oom_kills)
{
        const struct monitor_ended ended = {.wait_status = wait_status,
                                            .oom_kills = oom_kills,
                                            .cpu_usec = 9000,
                                            .copy = f->copy};
        const int fds[SESSION_COUNTERS] = {dup(f->cpu), fake_peak(f), dup(f->memory)};

        sessions_cleared(f->sessions, f->target, &ended, fds);
        fake_spin(f);
}

static void test_it_is_asked_for_once_after_a_pause(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        fake_run_ms(&f, SESSION_QUIET_MS - 2);
        check(!fake_has_frame(&f));
        uint64_t id = take_keep(&f);
        check_eq_int(id, 1);
        /* A cell waits for the worker's answer, and for the monitor's. */
        ask(&f, &end, "2");
        check(!fake_has_frame(&f));
        fake_send(&f, FRAME_KEPT, id, "{\"pid\":41,\"threads\":0,\"processes\":0}");
        check_eq_int(f.keeps, 1);
        check(!fake_has_frame(&f));
        sessions_kept(f.sessions, f.target, NULL);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_RESULT, cell, OK);
        check_eq_int(end.count, 1);
        check_eq_int(end.state, CELL_STATE_KEPT);
        check_eq_str(end.note, "");
        check_eq_int(take_keep(&f), 2);
        fake_run_ms(&f, 2 * SESSION_KEEP_MS);
        check(!fake_has_frame(&f));
        fake_done(&f);
}

/* A call of the same principal waits, then one of another principal. */
static void test_it_waits_for_calls_but_not_long(void)
{
        static const struct {
                const char *name;
                int ms;
        } list[] = {{"other", 2000}, {"bob:other", 250}};
        struct fake f;
        struct end end, other;

        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                open_with(&f, "{}");
                uint32_t target = f.target;
                int rpc = f.rpc;
                struct cell *cell = ask_on(&f, &other, list[i].name, "2", 0, false);
                fake_spin(&f);
                fake_run_ms(&f, list[i].ms - 55);
                check(!fake_has_frame(&f));
                fake_run_ms(&f, 60);
                struct frame_header header = fake_read(&f, NULL, 0);
                check_eq_str(frame_type_name(header.type), "KEEP");
                check(target == f.target && rpc == f.rpc);
                answer_keep(&f, header.id, 41);

                /* The call ends: the next copy is made at the next look. */
                ask(&f, &end, "3");
                fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
                fake_run_ms(&f, 100);
                check(!fake_has_frame(&f));
                cell_cancel(cell);
                fake_spin(&f);
                check_eq_int(other.count, 1);
                take_keep(&f);
                fake_done(&f);
        }
}

#define TWO "{\"status\":\"ok\",\"value\":{\"repr\":\"2\",\"json\":2}}"

/* The copy stays, and is that of the end of the last cell; only the value of "_" is sent to it. */
static void test_cells_that_change_nothing(void)
{
        struct fake f;
        struct end end;
        char keep[256];

        open_kept(&f);
        run_cell(&f, "1 + 1", TWO);
        run_cell(&f, "(4 - 2)", TWO);
        fake_run_ms(&f, 3000);
        check(!fake_has_frame(&f));
        ask(&f, &end, "f()");
        fake_take_exec(&f, NULL, 0);
        clear(&f, 9, 0);
        fake_send(&f, FRAME_RESTORED, 1, "{\"threads\":0,\"processes\":0}");
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check(strstr(end.restored, "restored to the end of cell 3"));
        struct frame_header header = fake_read(&f, keep, sizeof(keep));
        check_eq_str(frame_type_name(header.type), "KEEP");
        check_eq_str(keep, "{\"copies\":[],\"value\":2}");
        answer_keep(&f, header.id, 42);
        run_cell(&f, "f()", OK);
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        fake_read(&f, keep, sizeof(keep));
        check_eq_str(keep, "{\"copies\":[42]}");
        fake_done(&f);
}

/* No copy of a new interpreter is made, until a cell comes that may end it. */
static void test_a_session_in_which_nothing_was_changed(void)
{
        struct fake f;
        struct end end;

        for (int pause = 0; pause < 2; pause++) {
                open_cold(&f, "{}");
                ask(&f, &end, "1 + 1");
                fake_start(&f);
                fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), TWO);
                fake_run_ms(&f, pause ? 3000 : SESSION_QUIET_MS - 2);
                check(!fake_has_frame(&f));
                run_cell(&f, "2", TWO);
                ask(&f, &end, "f()");
                if (pause) {
                        struct frame_header header = fake_read(&f, NULL, 0);
                        check_eq_str(frame_type_name(header.type), "KEEP");
                        answer_keep(&f, header.id, 41);
                }
                fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
                check_eq_int(end.count, 1);
                take_keep(&f);
                fake_done(&f);
        }
}

/* The controls of the two above: in doubt a copy is made. */
static void test_cells_that_may_change_something(void)
{
        static const struct {
                const char *code, *result;
        } list[] = {
                {"x", TWO},
                {"f()", TWO},
                {"x = 2", TWO},
                {"1 + 1", OK},
                {"1 / 2", "{\"status\":\"ok\",\"value\":{\"repr\":\"0.5\",\"json\":0.5}}"},
                {"1 / 1", "{\"status\":\"ok\",\"value\":{\"repr\":\"1.0\",\"json\":1.0}}"},
                {"()", "{\"status\":\"ok\",\"value\":{\"repr\":\"()\",\"json\":[]}}"},
                {"1 / 0",
                 "{\"status\":\"error\",\"error\":{\"type\":\"E\",\"message\":\"\",\"traceback\":\"\"}}"},
        };
        struct fake f;

        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                open_kept(&f);
                run_cell(&f, list[i].code, list[i].result);
                take_keep(&f);
                fake_done(&f);
        }
        /* After code that may have started something, every cell may. */
        open_kept(&f);
        run_cell(&f, "f()", OK);
        answer_keep(&f, take_keep(&f), 42);
        run_cell(&f, "1 + 1", TWO);
        take_keep(&f);
        fake_done(&f);
        /* The copy before was not made yet. */
        open_kept(&f);
        run_cell(&f, "x = 2", OK);
        run_cell(&f, "1 + 1", TWO);
        take_keep(&f);
        fake_done(&f);
}

static void test_not_where_the_profile_says_so(void)
{
        struct fake f;

        open_with(&f, "{\"state\": {\"survives\": false}}");
        fake_run_ms(&f, 10 * SESSION_QUIET_MS);
        check(!fake_has_frame(&f));
        fake_done(&f);
}

/* The worker is busy with a background task: the cell goes first, and a late answer counts. */
static void test_a_cell_waits_for_it_but_not_long(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        uint64_t id = take_keep(&f);
        ask(&f, &end, "2");
        fake_run_ms(&f, SESSION_KEEP_MS - 10);
        check(!fake_has_frame(&f));
        fake_run_ms(&f, 12);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        answer_keep(&f, id, 41);
        clear(&f, SIGSEGV, 0);
        check_eq_int(f.wakes, 1);
        fake_send(&f, FRAME_RESTORED, id, "{}");
        check_eq_int(end.count, 1);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check_eq_int(cell, 2);
        fake_done(&f);
}

/* The late answer comes when the next cell has ended: that cell gets its copy all the same. */
static void test_an_answer_after_the_next_cell(void)
{
        struct fake f;
        struct end end;

        for (int by_monitor = 0; by_monitor <= 1; by_monitor++) {
                open_with(&f, "{}");
                uint64_t id = take_keep(&f);
                ask(&f, &end, "2");
                fake_run_ms(&f, SESSION_KEEP_MS + 2);
                uint64_t cell = fake_take_exec(&f, NULL, 0);
                if (by_monitor)
                        fake_send(&f, FRAME_KEPT, id, "{\"pid\":41}");
                fake_send(&f, FRAME_RESULT, cell, OK);
                check_eq_int(end.count, 1);
                fake_run_ms(&f, SESSION_QUIET_MS + 2);
                check(!fake_has_frame(&f));
                if (!by_monitor)
                        fake_send(&f, FRAME_KEPT, id, "{\"pid\":41}");
                sessions_kept(f.sessions, f.target, NULL);
                check_eq_int(take_keep(&f), id + 1);
                fake_done(&f);
        }
}

static void test_deaths(void)
{
        static const struct {
                int status;
                uint32_t oom;
                enum cell_status expected;
                const char *why;
        } cases[] = {
                {SIGSEGV, 0, CELL_KILLED, "killed by SIGSEGV"},
                {SIGKILL, 1, CELL_OOM, "out of memory"},
                {3 << 8, 0, CELL_EXIT, "exit code 3"},
                {FRAME_EXIT_LOST << 8, 0, CELL_KILLED, "the code closed Cloister's channel"},
        };
        struct fake f;
        struct end end;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                open_kept(&f);
                ask(&f, &end, "die()");
                fake_take_exec(&f, NULL, 0);
                clear(&f, cases[i].status, cases[i].oom);
                check_eq_int(f.wakes, 1);
                check_eq_int(end.count, 0);
                fake_send(
                        &f, FRAME_RESTORED, 1,
                        "{\"threads\":2,\"processes\":1,\"files\":[\"a.csv\"],\"files_total\":1}");
                check_eq_int(end.count, 1);
                check_eq_int(end.status, cases[i].expected);
                check_eq_int(end.state, CELL_STATE_RESTORED);
                check_has(end.why, cases[i].why);
                check_eq_str(
                        end.restored,
                        "restored to the end of cell 1: its variables; 2 threads and 1 process are gone; files stay: a.csv changed");
                check_eq_int(f.kills, 0);
                /* The next copy is requested before the next cell is sent. */
                ask(&f, &end, "1");
                struct frame_header header = fake_read(&f, NULL, 0);
                check_eq_str(frame_type_name(header.type), "KEEP");
                check_eq_int(header.id, 2);
                check(!fake_has_frame(&f));
                answer_keep(&f, 2, 42);
                fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
                check_eq_int(end.state, CELL_STATE_KEPT);
                fake_done(&f);
        }
}

static void test_what_a_restore_says(void)
{
        static const struct {
                const char *payload, *text;
        } cases[] = {
                {"{}", "its variables; files stay"},
                {"{\"threads\":1}", "its variables; 1 thread is gone; files stay"},
                {"{\"processes\":3}", "its variables; 3 processes are gone; files stay"},
                {"{\"threads\":-1,\"processes\":1e9,\"files_total\":-2}",
                 "its variables; files stay"},
                {"{\"files\":[\"a\",\"b\"],\"files_total\":2}", "files stay: a, b changed"},
                {"{\"files\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\"],\"files_total\":8}",
                 "files stay: a, b, c, d, e and 3 more changed"},
                {"{\"files\":[\"a\\n\",7,\"\"],\"files_total\":4}", "files stay: 4 changed"},
                {"{\"files\":\"a\",\"files_total\":1}", "files stay: 1 changed"},
        };
        struct fake f;
        struct end end;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                open_kept(&f);
                ask(&f, &end, "die()");
                fake_take_exec(&f, NULL, 0);
                clear(&f, SIGSEGV, 0);
                fake_send(&f, FRAME_RESTORED, 1, cases[i].payload);
                check_eq_int(end.count, 1);
                check_has(end.restored, cases[i].text);
                fake_done(&f);
        }
}

/* Each copy ends soon after it was woken, without a call. */
static void test_again_and_again(void)
{
        struct fake f;
        struct end end;

        open_kept(&f);
        for (unsigned i = 0; i < 2 * RESTORE_IDLE_MAX; i++) {
                if (i == RESTORE_IDLE_MAX) { /* the control: a call in between */
                        ask(&f, &end, "1");
                        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
                        check_eq_int(end.state, CELL_STATE_RESTORED);
                        answer_keep(&f, take_keep(&f), 60);
                }
                clear(&f, SIGKILL, 0);
                check_eq_int(f.wakes, i + 1);
                fake_send(&f, FRAME_RESTORED, 1 + i + (i >= RESTORE_IDLE_MAX), "{}");
                answer_keep(&f, take_keep(&f), 42 + i);
        }
        check_eq_int(f.kills, 0);
        clear(&f, SIGKILL, 0);
        check_eq_int(f.wakes, 2 * RESTORE_IDLE_MAX);
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        ask(&f, &end, "2");
        fake_start(&f);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
        check_eq_int(end.state, CELL_STATE_NEW);
        check_has(end.before, "SIGKILL, again and again since the last call");
        fake_done(&f);
}

static void test_a_timeout_kills_the_worker_only(void)
{
        struct fake f;
        struct end end;

        open_kept(&f);
        ask_on(&f, &end, "default", "sum(repeat(1))", 100, false);
        fake_spin(&f);
        fake_take_exec(&f, NULL, 0);
        fake_until(&f, f.restores == 1);
        check_eq_int(f.kills, 0);
        clear(&f, SIGKILL, 0);
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        check_eq_int(end.status, CELL_TIMEOUT);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check_eq_str(end.why, "the call reached its timeout of 0.1 s");
        fake_done(&f);
}

/* A worker or a copy that does not do what it must. */
static void test_restores_that_fail(void)
{
        struct fake f;
        struct end end;

        open_kept(&f);
        ask_on(&f, &end, "default", "1", 100, false);
        fake_spin(&f);
        fake_take_exec(&f, NULL, 0);
        fake_until(&f, f.kills == 1); /* no CLEARED */
        check_eq_int(f.restores, 1);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.status, CELL_TIMEOUT);
        check_eq_int(end.state, CELL_STATE_LOST);
        fake_done(&f);

        open_kept(&f);
        ask(&f, &end, "1");
        fake_take_exec(&f, NULL, 0);
        clear(&f, SIGSEGV, 0);
        fake_until(&f, f.kills == 1); /* no RESTORED */
        fake_end(&f, -1, 0);
        check_eq_int(end.status, CELL_KILLED);
        check_eq_int(end.state, CELL_STATE_LOST);
        check_has(end.why, "killed by SIGSEGV");
        fake_done(&f);
}

/* Frames that the dead worker has sent, and answers that it has not read, are dropped. */
static void test_nothing_of_the_dead_worker_goes_on(void)
{
        static const uint8_t half[] = {200, 0, 0, 0, FRAME_CALL, 0, 0, 0, 9};
        struct fake f;
        struct end end;

        open_kept(&f);
        ask(&f, &end, "1");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_CALL, 5, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        check_eq_int(fake_tools.n_calls, 1);
        fake_send_bytes(&f, half, sizeof(half));
        clear(&f, SIGSEGV, 0);
        check_eq_int(fake_tools.dropped, 1);
        check(!fake_has_frame(&f));
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        check_eq_int(end.count, 1);
        check_eq_int(end.n_calls, 1);
        check(end.calls[0].pending);
        check_eq_int(end.calls_total, 1);
        answer_keep(&f, fake_read(&f, NULL, 0).id, 42);

        /* The same number again: the answer belongs to the new worker's call. */
        ask(&f, &end, "2");
        check_eq_int(fake_take_exec(&f, NULL, 0), cell + 1);
        fake_send(&f, FRAME_CALL, 5, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        check_eq_int(fake_tools.n_calls, 1);
        fake_send(&f, FRAME_DROP, 5, "{}");
        fake_send(&f, FRAME_RESULT, cell + 1, OK);
        check_eq_int(end.count, 1);
        fake_done(&f);
}

/* The cell had ended, and its result was sent but not read, when the worker ended. */
static void test_a_result_before_the_death(void)
{
        struct fake f;
        struct end end;

        open_kept(&f);
        ask_on(&f, &end, "default", "1", 100, false);
        fake_spin(&f);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_until(&f, f.restores == 1);
        fake_send(&f, FRAME_RESULT, cell, OK);
        check_eq_int(end.count, 0);
        clear(&f, SIGKILL, 0);
        check_eq_int(end.count, 0);
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_TIMEOUT);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        fake_done(&f);
}

static void test_a_death_between_cells(void)
{
        struct fake f;
        struct end end;

        open_kept(&f);
        clear(&f, 1 << 8, 0);
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        answer_keep(&f, fake_read(&f, NULL, 0).id, 42);
        ask(&f, &end, "1");
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
        check_eq_int(end.status, CELL_OK);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check_eq_str(
                end.restored,
                "the code ended the interpreter with exit code 1; restored to the end of cell 1: its variables; files stay");
        ask(&f, &end, "1");
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
        check_eq_int(end.state, CELL_STATE_KEPT);
        check_eq_str(end.restored, "");
        fake_done(&f);
}

/* The note appears once, with the cell whose end would be restored. */
static void test_refusals(void)
{
        struct fake f;
        struct end end;

        open_kept(&f);
        for (int i = 0; i < 3; i++) {
                ask(&f, &end, "1");
                fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
                if (i == 1)
                        check_eq_str(
                                end.note,
                                "no copy of the state can be made while a library has threads of its own: if the interpreter ends, the session returns to the end of cell 1");
                else
                        check_eq_str(end.note, "");
                fake_send(&f, FRAME_KEPT, take_keep(&f), "{\"why\":\"threads\"}");
        }
        ask(&f, &end, "die()");
        fake_take_exec(&f, NULL, 0);
        clear(&f, SIGSEGV, 0);
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        check_has(end.restored, "restored to the end of cell 1:");
        fake_done(&f);

        open_with(&f, "{}");
        fake_send(&f, FRAME_KEPT, take_keep(&f), "{\"pid\":41}");
        struct error large = {.code = ENOMEM, .text = "too large"};
        sessions_kept(f.sessions, f.target, &large);
        ask(&f, &end, "1");
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
        check_has(
                end.note,
                "larger than limits.memory: if the interpreter ends, the session's state is lost");
        fake_done(&f);
}

static void test_violations(void)
{
        static const struct {
                uint8_t type;
                uint64_t id;
                const char *payload, *why;
        } cases[] = {
                {FRAME_KEPT, 1, "{\"pid\":41}", "KEPT 1, which no KEEP asked for"},
                {FRAME_RESTORED, 1, "{}", "RESTORED frame while the session is idle"},
        };
        static const char *const payloads[] = {"{}",
                                               "{\"pid\":1}",
                                               "{\"pid\":-5}",
                                               "{\"pid\":\"41\"}",
                                               "{\"pid\":1e9}",
                                               "{\"pid\":41.5}"};
        struct fake f;
        struct end end;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                open_kept(&f);
                fake_send(&f, cases[i].type, cases[i].id, cases[i].payload);
                check_eq_int(f.kills, 1);
                fake_end(&f, SIGKILL, 0);
                ask(&f, &end, "1");
                fake_start(&f);
                fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
                check_has(end.before, cases[i].why);
                fake_done(&f);
        }
        for (size_t i = 0; i < ARRAY_SIZE(payloads); i++) {
                open_with(&f, "{}");
                fake_send(&f, FRAME_KEPT, take_keep(&f), payloads[i]);
                check_eq_int(f.kills, 1);
                check_eq_int(f.keeps, 0);
                fake_done(&f);
        }
        /* While the copy wakes, it sends RESTORED and nothing else. */
        for (int i = 0; i < 3; i++) {
                open_kept(&f);
                ask(&f, &end, "1");
                uint64_t cell = fake_take_exec(&f, NULL, 0);
                clear(&f, SIGSEGV, 0);
                if (i == 0)
                        fake_send(&f, FRAME_RESULT, cell, OK);
                else
                        fake_send(&f, i == 1 ? FRAME_LOG : FRAME_RESTORED, i == 1 ? 0 : 2, "{}");
                check_eq_int(f.kills, 1);
                fake_end(&f, -1, 0);
                check_eq_int(end.state, CELL_STATE_LOST);
                check_has(end.why, "SIGSEGV");
                fake_done(&f);
        }
}

int main(void)
{
        run(test_it_is_asked_for_once_after_a_pause);
        run(test_it_waits_for_calls_but_not_long);
        run(test_cells_that_change_nothing);
        run(test_a_session_in_which_nothing_was_changed);
        run(test_cells_that_may_change_something);
        run(test_again_and_again);
        run(test_not_where_the_profile_says_so);
        run(test_a_cell_waits_for_it_but_not_long);
        run(test_an_answer_after_the_next_cell);
        run(test_deaths);
        run(test_what_a_restore_says);
        run(test_a_timeout_kills_the_worker_only);
        run(test_restores_that_fail);
        run(test_nothing_of_the_dead_worker_goes_on);
        run(test_a_result_before_the_death);
        run(test_a_death_between_cells);
        run(test_refusals);
        run(test_violations);
        return 0;
}
