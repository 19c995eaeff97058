/* Blocks of a cell that are taken back if they fail: what the broker asks the worker and the monitor, and when. */
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/session-state.h"
#include "tests/unit/block-rig.h"

/* The same cell continues in the copy, and can have other blocks. */
static void test_a_failure(void)
{
        struct fake f;
        struct end end;

        open_running(&f, &end, 0);
        for (int i = 1; i <= 3; i++) {
                begin_block(&f);
                fail_block(&f);
                check_eq_int(end.count, 0);
                check(!fake_has_frame(&f));
                check_eq_int(f.restores, i);
        }
        check_eq_int(f.drops, 0);
        end_cell(&f, &end, CELL_OK);
        check_eq_int(end.n_blocks, 3);
        check_eq_str(
                end.block,
                "3 blocks were taken back; the last one: rolled back: variables and /workspace are as before the block (1 changed, 2 new: a, b and 1 more)");
        /* When the worker ends, the end of a cell is restored. */
        ask(&f, &end, "die()");
        fake_take_exec(&f, NULL, 0);
        clear(&f, 41);
        check_eq_int(f.rollbacks, 3);
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        check_has(end.restored, "restored to the end of cell 1");
        check_eq_int(end.n_blocks, 0);
        fake_done(&f);
}

static void test_a_success(void)
{
        struct fake f;
        struct end end;

        open_running(&f, &end, 0);
        for (int i = 1; i <= 3; i++) {
                begin_block(&f);
                query(&f, STEP("end"));
                check(!fake_has_frame(&f));
                check_eq_int(f.drops, i);
                check_eq_int(f.dropped, 51);
        }
        end_cell(&f, &end, CELL_OK);
        check_eq_int(end.n_blocks, 0);
        check_eq_int(f.restores, 0);
        fake_done(&f);
}

/* The worker ends in a block: the cell ends, and the copy of the block cannot be restored. */
static void test_a_death(void)
{
        struct fake f;
        struct end end;

        open_running(&f, &end, 0);
        begin_block(&f);
        clear(&f, 41);
        check_eq_int(f.wakes, 1);
        check_eq_int(f.rollbacks, 0);
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_KILLED);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check_eq_int(fake_session(&f)->copies->n, 0);
        fake_done(&f);

        /* Also as it is to be rolled back. */
        open_running(&f, &end, 0);
        begin_block(&f);
        query(&f, STEP("fail"));
        clear(&f, 41);
        check_eq_int(f.rollbacks, 0);
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        check_eq_int(end.state, CELL_STATE_RESTORED);
        fake_done(&f);
}

/* At a timeout the newest copy of a cell's end is requested. If only a block has a copy, the
 * sandbox ends. */
static void test_a_timeout_that_is_not_heard(void)
{
        struct fake f;
        struct end end;

        open_running(&f, &end, 100);
        begin_block(&f);
        fake_run_ms(&f, 100 + SESSION_GRACE_MS + 10);
        check_eq_int(f.restores, 1);
        check_eq_int(f.restored, 0);
        fake_done(&f);

        open_with(&f, "{}");
        ask_on(&f, &end, "default", "1", 10, false);
        fake_spin(&f);
        fake_take_exec(&f, NULL, 0);
        begin_block(&f);
        fake_run_ms(&f, 10 + SESSION_GRACE_MS + 10);
        check_eq_int(f.restores, 0);
        check_eq_int(f.kills, 1);
        fake_done(&f);
}

/* An interrupt that the worker got, and did not pass on, is sent to the copy too. */
static void test_interrupts(void)
{
        struct fake f;
        struct end end;

        for (int passed = 0; passed < 2; passed++) {
                open_running(&f, &end, 100);
                begin_block(&f);
                fake_run_ms(&f, 110);
                check_eq_int(f.interrupts, 1);
                query(&f,
                      passed ? "{\"what\":\"transaction\",\"step\":\"fail\",\"interrupted\":true}"
                             : STEP("fail"));
                clear(&f, 51);
                fake_send(&f, FRAME_RESTORED, keep, DONE);
                check_eq_int(f.interrupts, passed ? 1 : 2);
                /* And it may begin no other block. */
                query(&f, STEP("begin"));
                take_answer(&f, "not being stopped");
                end_cell(&f, &end, CELL_TIMEOUT);
                fake_done(&f);
        }
        /* Cancelled while it is rolled back. */
        open_running(&f, &end, 0);
        begin_block(&f);
        query(&f, STEP("fail"));
        clear(&f, 51);
        cell_cancel(fake_session(&f)->queue.first);
        check_eq_int(f.interrupts, 0);
        fake_send(&f, FRAME_RESTORED, keep, DONE);
        check_eq_int(f.interrupts, 1);
        end_cell(&f, &end, CELL_CANCELLED);
        fake_done(&f);
}

static void test_refusals(void)
{
        static const struct {
                const char *payload, *why;
        } cases[] = {
                {"{\"why\":\"names\"}", "more than 20,000 files"},
                {"{\"why\":\"threads\"}", "threads of its own"},
                {"{\"why\":\"late\"}", "no copy of the state could be made"},
                {KEPT, "larger than limits.memory"},
        };
        const struct error too_large = {.code = ENOMEM, .text = "x"};
        struct fake f;
        struct end end;

        open_running(&f, &end, 0);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                ask_block(&f);
                fake_send(&f, FRAME_KEPT, keep, cases[i].payload);
                sessions_kept(f.sessions, f.target, &too_large);
                query(&f, STEP("await"));
                take_answer(&f, cases[i].why);
        }
        check_eq_int(f.asides, 1);
        /* The answer comes after the question. */
        ask_block(&f);
        fake_send(&f, FRAME_KEPT, keep, KEPT);
        query(&f, STEP("await"));
        sessions_kept(f.sessions, f.target, &too_large);
        take_answer(&f, "larger than limits.memory");
        begin_block(&f);
        query(&f, STEP("begin"));
        take_answer(&f, "not nested");
        query(&f, STEP("end"));
        for (int i = 0; i < 2; i++) {
                query(&f, i ? STEP("fail") : STEP("await"));
                take_answer(&f, "no block has begun");
        }
        query(&f, STEP("end"));
        check_eq_int(f.drops, 1);
        end_cell(&f, &end, CELL_OK);
        check_eq_str(end.note, "");
        query(&f, STEP("begin"));
        take_answer(&f, "only while a call runs");
        query(&f, STEP("fail"));
        take_answer(&f, "no block has begun");
        fake_done(&f);

        open_with(&f, "{\"state\": {\"survives\": false}}");
        ask(&f, &end, "1");
        cell = fake_take_exec(&f, NULL, 0);
        query(&f, STEP("begin"));
        take_answer(&f, "state.survives");
        fake_done(&f);
}

/* Code has ended the copy before or while the block fails: the cell continues in the worker. */
static void test_no_copy_is_left(void)
{
        struct fake f;
        struct end end;

        for (int late = 0; late < 2; late++) {
                open_running(&f, &end, 0);
                begin_block(&f);
                if (!late)
                        sessions_gone(f.sessions, f.target, 51);
                query(&f, STEP("fail"));
                check_eq_int(f.restores, late);
                if (late)
                        sessions_gone(f.sessions, f.target, 51);
                take_answer(&f, "could not be taken back");
                begin_block(&f);
                fail_block(&f);
                end_cell(&f, &end, CELL_OK);
                check_eq_int(end.n_blocks, 1);
                fake_done(&f);
        }
}

/* A block that the worker leaves before it is open, or at the end of its cell, leaves no copy. */
static void test_blocks_that_are_left(void)
{
        struct fake f;
        struct end end;

        open_running(&f, &end, 0);
        begin_block(&f);
        end_cell(&f, &end, CELL_OK);
        check_eq_int(f.drops, 1);
        fake_done(&f);

        for (int ends = 0; ends < 2; ends++) {
                open_running(&f, &end, 0);
                ask_block(&f);
                fake_send(&f, FRAME_KEPT, keep, KEPT);
                if (ends)
                        end_cell(&f, &end, CELL_OK);
                else
                        query(&f, STEP("end"));
                sessions_kept(f.sessions, f.target, NULL);
                check_eq_int(f.drops, 1);
                check_eq_int(fake_session(&f)->copies->n, 1);
                fake_done(&f);
        }
        /* KEPT comes after the end: init takes the copy, which can be dropped then. */
        open_running(&f, &end, 0);
        ask_block(&f);
        query(&f, STEP("end"));
        query(&f, STEP("begin"));
        take_answer(&f, "an earlier copy is still being made");
        fake_send(&f, FRAME_KEPT, keep, KEPT);
        check_eq_int(f.asides, 1);
        sessions_kept(f.sessions, f.target, NULL);
        check_eq_int(f.drops, 1);
        begin_block(&f);
        end_cell(&f, &end, CELL_OK);
        /* Or in the next cell, to which it does not belong. */
        ask(&f, &end, "1");
        cell = fake_take_exec(&f, NULL, 0);
        ask_block(&f);
        end_cell(&f, &end, CELL_OK);
        ask(&f, &end, "1");
        cell = fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_KEPT, keep, KEPT);
        query(&f, STEP("await"));
        take_answer(&f, "no block has begun");
        check_eq_int(f.asides, 3);
        sessions_kept(f.sessions, f.target, NULL);
        check_eq_int(f.drops, 3);
        end_cell(&f, &end, CELL_OK);
        fake_done(&f);
}

/* A block begins when the monitor has answered about the copy of one that was left, but not if it was left too. */
static void test_after_one_that_was_left(void)
{
        const struct error gone = {.code = ESRCH};
        struct fake f;
        struct end end;

        for (int i = 0; i < 4; i++) {
                bool is_refused = i & 1, is_left_too = i & 2;

                open_running(&f, &end, 0);
                ask_block(&f);
                query(&f, STEP("end"));
                fake_send(&f, FRAME_KEPT, keep, KEPT);
                query(&f, STEP("begin"));
                check(!fake_has_frame(&f));
                if (is_left_too) {
                        query(&f, STEP("begin"));
                        take_answer(&f, "not nested");
                        query(&f, STEP("end"));
                }
                sessions_kept(f.sessions, f.target, is_refused ? &gone : NULL);
                check_eq_int(f.drops, !is_refused);
                if (!is_left_too) {
                        check_eq_str(frame_type_name(fake_read(&f, NULL, 0).type), "KEEP");
                        take_answer(&f, "");
                }
                check(!fake_has_frame(&f));
                end_cell(&f, &end, CELL_OK);
                fake_done(&f);
        }
}

/* The monitor still has the copy of the last cell to answer for. */
static void test_beside_an_earlier_copy(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        fake_send(&f, FRAME_KEPT, fake_read(&f, NULL, 0).id,
                  "{\"pid\":41,\"threads\":0,\"processes\":0}");
        ask(&f, &end, "1");
        fake_run_ms(&f, SESSION_KEEP_MS + 2);
        cell = fake_take_exec(&f, NULL, 0);
        query(&f, STEP("begin"));
        check(!fake_has_frame(&f));
        sessions_kept(f.sessions, f.target, NULL);
        check_eq_str(frame_type_name(fake_read(&f, NULL, 0).type), "KEEP");
        take_answer(&f, "");
        fake_done(&f);
}

/* Calls of the block are reported; a call without an answer is in doubt, and gets no answer. */
static void test_calls(void)
{
        static const char call[] = "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}";
        struct fake f;
        struct end end;
        char text[100];

        open_running(&f, &end, 0);
        fake_send(&f, FRAME_CALL, 1000, call);
        fake_tools_answer("{\"content\":[]}");
        fake_read(&f, text, sizeof(text));
        fake_run_ms(&f, 10);
        begin_block(&f);
        fake_run_ms(&f, 10);
        fake_send(&f, FRAME_CALL, 1001, call);
        query(&f, STEP("fail"));
        clear(&f, 51);
        check_eq_int(fake_tools.dropped, 1);
        fake_send(&f, FRAME_RESTORED, keep, DONE);
        check(!fake_has_frame(&f));
        end_cell(&f, &end, CELL_OK);
        check_eq_int(end.calls_total, 2);
        check(!end.calls[0].in_block && end.calls[0].ok);
        check(end.calls[1].in_block && end.calls[1].pending);
        check_has(end.block, "tool calls that were sent stay: see sent");
        fake_done(&f);
}

static void test_what_the_worker_may_not(void)
{
        struct fake f;
        struct end end;

        /* KEPT that no KEEP asked for; twice; RESTORED of a block; a step that there is not. */
        for (int i = 0; i < 5; i++) {
                open_running(&f, &end, 0);
                if (i > 0 && i < 4)
                        begin_block(&f);
                if (i == 0)
                        fake_send(&f, FRAME_KEPT, 2, KEPT);
                else if (i == 1)
                        fake_send(&f, FRAME_KEPT, keep, KEPT);
                else if (i == 2)
                        fake_send(&f, FRAME_RESTORED, keep, DONE);
                else
                        query(&f, i == 3 ? "{\"what\":\"transaction\"}" : STEP("else"));
                check_eq_int(f.kills, 1);
                fake_end(&f, SIGKILL, 0);
                check_eq_int(end.count, 1);
                check_eq_int(end.status, CELL_KILLED);
                fake_done(&f);
        }
        /* A result after the block has failed. */
        open_running(&f, &end, 0);
        begin_block(&f);
        query(&f, STEP("fail"));
        put(&f, FRAME_RESULT, cell, OK);
        clear(&f, 51);
        check_eq_int(f.kills, 1);
        check_eq_int(f.wakes, 0);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.status, CELL_KILLED);
        fake_done(&f);
        /* RESTORED of another KEEP, or another frame first. */
        for (int i = 0; i < 2; i++) {
                open_running(&f, &end, 0);
                begin_block(&f);
                query(&f, STEP("fail"));
                clear(&f, 51);
                if (i == 0)
                        fake_send(&f, FRAME_RESTORED, keep - 1, DONE);
                else
                        fake_send(&f, FRAME_RESULT, cell, OK);
                check_eq_int(f.kills, 1);
                fake_end(&f, SIGKILL, 0);
                check_eq_int(end.count, 1);
                check_eq_int(end.status, CELL_KILLED);
                check_eq_int(end.state, CELL_STATE_LOST);
                fake_done(&f);
        }
}

/* The copy does not wake, or the owner ends the session meanwhile. */
static void test_restores_that_fail(void)
{
        struct fake f;
        struct end end;

        for (int i = 0; i < 3; i++) {
                open_running(&f, &end, 0);
                begin_block(&f);
                query(&f, STEP("fail"));
                if (i > 0)
                        clear(&f, 51);
                if (i < 2)
                        fake_run_ms(&f, (i ? SESSION_ROLLBACK_MS : SESSION_RESTORE_MS) + 10);
                else
                        cell_kill(fake_session(&f)->queue.first);
                check_eq_int(f.kills, 1);
                fake_end(&f, SIGKILL, 0);
                check_eq_int(end.count, 1);
                check_eq_int(end.status, CELL_KILLED);
                check_eq_int(end.state, CELL_STATE_LOST);
                fake_done(&f);
        }
}

int main(void)
{
        run(test_a_failure);
        run(test_a_success);
        run(test_a_death);
        run(test_a_timeout_that_is_not_heard);
        run(test_interrupts);
        run(test_refusals);
        run(test_no_copy_is_left);
        run(test_blocks_that_are_left);
        run(test_after_one_that_was_left);
        run(test_beside_an_earlier_copy);
        run(test_calls);
        run(test_what_the_worker_may_not);
        run(test_restores_that_fail);
        return 0;
}
