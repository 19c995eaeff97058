/* The time of a cell whose blocks are taken back. */
#include "supervisor/session/machine/session-state.h"
#include "tests/unit/block-rig.h"

/* The cell's time stands still while a block is rolled back. */
static void test_the_time_of_the_cell(void)
{
        struct fake f;
        struct end end;

        open_running(&f, &end, 1000);
        begin_block(&f);
        fake_run_ms(&f, 600);
        query(&f, STEP("fail"));
        fake_run_ms(&f, 600);
        clear(&f, 51);
        fake_run_ms(&f, 600);
        fake_send(&f, FRAME_RESTORED, keep, DONE);
        fake_run_ms(&f, 390);
        check_eq_int(f.interrupts, 0);
        fake_run_ms(&f, 20);
        check_eq_int(f.interrupts, 1);
        end_cell(&f, &end, CELL_TIMEOUT);
        fake_done(&f);
}

/* Of a cell whose blocks always fail, each of which runs for a moment and takes a second to be rolled back. */
static int failures_until_timeout(uint32_t timeout_ms)
{
        struct fake f;
        struct end end;
        int n = 0;

        open_running(&f, &end, timeout_ms);
        for (; f.interrupts == 0 && n < 1000; n++) {
                begin_block(&f);
                query(&f, STEP("fail"));
                fake_run_ms(&f, 1000);
                clear(&f, 51);
                fake_send(&f, FRAME_RESTORED, keep, DONE);
                fake_run_ms(&f, 2);
        }
        check_eq_int(end.count, 0);
        end_cell(&f, &end, CELL_TIMEOUT);
        fake_done(&f);
        return n;
}

/* The time stops for as long as the timeout, 5 s at least, and continues then. */
static void test_the_time_of_all_rollbacks(void)
{
        int n = failures_until_timeout(2000);
        check(n >= 6 && n <= 8);
        n = failures_until_timeout(20000);
        check(n >= 38 && n <= 42);
}

/* A long rollback beyond that, of which only the end counts. */
static void test_the_last_rollback(void)
{
        struct fake f;
        struct end end;

        open_running(&f, &end, 1000);
        begin_block(&f);
        query(&f, STEP("fail"));
        clear(&f, 51);
        fake_run_ms(&f, SESSION_STOPPED_MS + 500);
        fake_send(&f, FRAME_RESTORED, keep, DONE);
        fake_run_ms(&f, 450);
        check_eq_int(f.interrupts, 0);
        fake_run_ms(&f, 100);
        check_eq_int(f.interrupts, 1);
        end_cell(&f, &end, CELL_TIMEOUT);
        fake_done(&f);
}

int main(void)
{
        run(test_the_time_of_the_cell);
        run(test_the_time_of_all_rollbacks);
        run(test_the_last_rollback);
        return 0;
}
