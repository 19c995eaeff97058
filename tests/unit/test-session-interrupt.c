/* Cells that are interrupted, at their timeout or because they are cancelled. */
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/session-state.h"
#include "tests/unit/fake-client.h"

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

/* A result crosses with the interrupt: the next cell waits until the signal was handled. */
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

/* The worker is reminded until its cell ends, and the reminder must not hit the next cell. */
static void test_reminded(void)
{
        struct fake f;
        struct end end, next;

        fake_open(&f);
        warm_up(&f);
        struct cell *cell = ask(&f, &end, "time.sleep(60)");
        uint64_t number = fake_take_exec(&f, NULL, 0);
        ask(&f, &next, "2");
        cell_cancel(cell);
        fake_run_ms(&f, SESSION_REMIND_MS - 10);
        check_eq_int(f.interrupts, 1);
        check_eq_int(f.reminders, 0);
        fake_run_ms(&f, 20);
        check_eq_int(f.reminders, 1);
        fake_run_ms(&f, 2 * SESSION_REMIND_MS);
        check_eq_int(f.interrupts, 1);
        check_eq_int(f.reminders, 3);
        fake_send(&f, FRAME_RESULT, number, "{\"status\":\"interrupted\"}");
        check_eq_int(end.status, CELL_CANCELLED);
        check_eq_int(end.state, CELL_STATE_KEPT);
        check(!fake_has_frame(&f));
        fake_run_ms(&f, SESSION_SETTLE_MS);
        number = fake_take_exec(&f, NULL, 0);
        fake_run_ms(&f, 5 * SESSION_REMIND_MS); /* no reminder for the previous cell */
        check_eq_int(f.reminders, 3);
        fake_send(&f, FRAME_RESULT, number, "{\"status\":\"ok\"}");
        check_eq_int(next.status, CELL_OK);

        fake_done(&f);
}

/* The processes of an interrupted cell are killed. Those of the next one must not be among them: it begins later. */
static void test_swept(void)
{
        struct fake f;
        struct end end, next;

        fake_open(&f);
        warm_up(&f);
        f.leaves_sweeps = true;
        struct cell *cell = ask(&f, &end, "1");
        ask(&f, &next, "2");
        uint64_t number = fake_take_exec(&f, NULL, 0);
        cell_cancel(cell);
        fake_send(&f, FRAME_RESULT, number, "{\"status\":\"interrupted\"}");
        check_eq_int(end.status, CELL_CANCELLED);
        check_eq_int(f.sweeps, 1);
        fake_run_ms(&f, SESSION_SWEEP_MS - 1);
        check(!fake_has_frame(&f));
        f.leaves_sweeps = false;
        fake_spin(&f);
        check(!fake_has_frame(&f));
        fake_run_ms(&f, SESSION_SETTLE_MS);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(next.status, CELL_OK);

        /* Without an answer it begins after a while. A cell that was interrupted makes no checkpoint, however it ended. */
        f.leaves_sweeps = true;
        cell = ask(&f, &end, "1");
        ask(&f, &next, "2");
        snprintf(cell->checkpoint, sizeof(cell->checkpoint), "name");
        number = fake_take_exec(&f, NULL, 0);
        cell_cancel(cell);
        fake_send(&f, FRAME_RESULT, number, "{\"status\":\"ok\"}");
        check_eq_int(end.count, 1);
        fake_run_ms(&f, SESSION_SWEEP_MS + SESSION_SETTLE_MS + 1);
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(next.status, CELL_OK);

        /* The control: a cell that was not interrupted does not delay the next. */
        ask(&f, &end, "3");
        ask(&f, &next, "4");
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check(fake_has_frame(&f));
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(f.sweeps, 2);
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
        check(f.reminders >= SESSION_GRACE_MS / SESSION_REMIND_MS - 1);
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

int main(void)
{
        run(test_timeout_kept);
        run(test_interrupt_crosses);
        run(test_reminded);
        run(test_swept);
        run(test_timeout_lost);
        return 0;
}
