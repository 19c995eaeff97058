/* Cells that are taken back if they fail: what the broker asks the worker and the monitor, and when. */
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/session-state.h"

#include <errno.h>
#include <signal.h>

#include "tests/unit/fake-client.h"

#define OK "{\"status\":\"ok\"}"
#define FAILED                                                                                     \
        "{\"status\":\"error\",\"error\":{\"type\":\"E\",\"message\":\"m\",\"traceback\":\"t\"}}"
#define KEPT "{\"pid\":41,\"threads\":0,\"processes\":0}"
#define DONE                                                                                       \
        "{\"rolled_back\":{\"changed\":1,\"returned\":0,\"removed\":2,\"files\":[\"a\",\"b\"],"    \
        "\"failed\":0},\"elsewhere\":1}"

static struct cell *begin(struct fake *f, struct end *end)
{
        const struct cell_request request = {.code = "1",
                                             .code_length = 1,
                                             .rolls_back = true,
                                             .done = fake_on_done,
                                             .data = end};
        struct error err = {};
        struct cell *cell = NULL;

        memset(end, 0, sizeof(*end));
        check_ok(sessions_run(f->sessions, "default", &request, &cell, &err));
        fake_spin(f);
        return cell;
}

static void open_with(struct fake *f, const char *text)
{
        const struct monitor_hello hello = fake_hello;
        struct config *config = fake_config(text);

        fake_open(f);
        sessions_reload(f->sessions, config, &hello);
        config_free(config);
        warm_up(f);
}

static uint64_t keep; /* the id of the last one */

/* The KEEP of a transaction, which names a number of bytes. */
static uint64_t take_keep(struct fake *f)
{
        char payload[100];
        struct frame_header header = fake_read(f, payload, sizeof(payload));

        check_eq_str(frame_type_name(header.type), "KEEP");
        check_has(payload, ",\"files\":");
        check(!fake_has_frame(f));
        return keep = header.id;
}

/* Returns the cell's number. */
static uint64_t start(struct fake *f, struct end *end)
{
        begin(f, end);
        uint64_t id = take_keep(f);
        fake_send(f, FRAME_KEPT, id, KEPT);
        check(!fake_has_frame(f));
        sessions_kept(f->sessions, f->target, NULL);
        return fake_take_exec(f, NULL, 0);
}

static void clear(struct fake *f, int wait_status)
{
        const struct monitor_ended ended = {
                .wait_status = wait_status, .cpu_usec = 9000, .copy = f->copy};
        const int fds[SESSION_COUNTERS] = {dup(f->cpu), dup(f->memory), dup(f->memory)};

        sessions_cleared(f->sessions, f->target, &ended, fds);
        fake_spin(f);
}

/* Sends a frame that the broker has not read when the monitor's next event comes. */
static void put(struct fake *f, uint8_t type, uint64_t id, const char *payload)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_PAYLOAD_MAX);

        check_eq_int(frame_append(&b, type, id, payload, strlen(payload)), 0);
        check_eq_int(write(f->rpc, buffer_bytes(&b), b.length), b.length);
}

static void test_a_failure(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        uint64_t cell = start(&f, &end);
        fake_send(&f, FRAME_RESULT, cell, FAILED);
        check_eq_int(f.restores, 1);
        check_eq_int(f.restored, f.copy);
        check_eq_int(end.count, 0);
        clear(&f, SIGKILL);
        check_eq_int(f.rollbacks, 1);
        fake_send(&f, FRAME_RESTORED, keep, DONE);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_ERROR);
        check_eq_int(end.state, CELL_STATE_ROLLED_BACK);
        check_eq_str(end.type, "E");
        check_eq_str(
                end.restored,
                "rolled back: variables and /workspace are as before the call (1 changed, 2 new: a, b and 1 more); files in /tmp and /dev/shm stay changed");
        fake_done(&f);
}

static void test_a_success(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        for (int i = 0; i < 2; i++) {
                uint64_t cell = start(&f, &end);
                fake_send(&f, FRAME_RESULT, cell, OK);
                check_eq_int(end.count, 1);
                check_eq_int(end.state, CELL_STATE_KEPT);
        }
        check_eq_int(f.restores, 0);
        /* When the worker ends later, the state before that cell is restored, but no file. */
        clear(&f, SIGSEGV);
        check_eq_int(f.wakes, 1);
        check_eq_int(f.rollbacks, 0);
        fake_done(&f);
}

/* The copy of the cell's end is requested as after any other cell. */
static void test_the_next_copy(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        uint64_t cell = start(&f, &end);
        fake_send(&f, FRAME_RESULT, cell, OK);
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        struct frame_header header = fake_read(&f, NULL, 0);
        check_eq_str(frame_type_name(header.type), "KEEP");
        check_eq_int(header.id, keep + 1);
        fake_done(&f);
}

static void test_a_death(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        start(&f, &end);
        clear(&f, SIGSEGV);
        check_eq_int(f.rollbacks, 1);
        fake_send(&f, FRAME_RESTORED, keep, DONE);
        check_eq_int(end.status, CELL_KILLED);
        check_eq_int(end.state, CELL_STATE_ROLLED_BACK);
        check_has(end.why, "SIGSEGV");
        fake_done(&f);
}

/* Its result was ok and was sent, but not read: its changes stay. */
static void test_a_death_after_success(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        uint64_t cell = start(&f, &end);
        put(&f, FRAME_RESULT, cell, OK);
        clear(&f, SIGSEGV);
        check_eq_int(f.rollbacks, 0);
        fake_send(&f, FRAME_RESTORED, keep, "{}");
        check_eq_int(end.status, CELL_OK);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        fake_done(&f);
}

static void test_a_timeout(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        begin(&f, &end)->request.timeout_ms = 100;
        fake_send(&f, FRAME_KEPT, take_keep(&f), KEPT);
        sessions_kept(f.sessions, f.target, NULL);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_until(&f, f.interrupts == 1);
        fake_send(&f, FRAME_RESULT, cell, FAILED);
        check_eq_int(f.restores, 1);
        clear(&f, SIGKILL);
        fake_send(&f, FRAME_RESTORED, keep, DONE);
        check_eq_int(end.status, CELL_TIMEOUT);
        check_eq_int(end.state, CELL_STATE_ROLLED_BACK);
        fake_done(&f);
}

static void test_refusals(void)
{
        static const struct {
                const char *payload, *why;
        } cases[] = {
                {"{\"why\":\"names\"}", "more than 20,000 files"},
                {"{\"why\":\"bytes\"}", "larger than what a copy of them may take"},
                {"{\"why\":\"depth\"}", "nested more than 64 deep"},
                {"{\"why\":\"time\"}", "took too long"},
                {"{\"why\":\"memory\"}", "no memory"},
                {"{\"why\":\"threads\"}", "threads of its own"},
                {"{\"why\":\"something\"}", "no copy of the state could be made"},
                {KEPT, "larger than limits.memory"},
        };
        const struct error too_large = {.code = ENOMEM, .text = "x"};
        struct fake f;
        struct end end;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                open_with(&f, "{}");
                begin(&f, &end);
                fake_send(&f, FRAME_KEPT, take_keep(&f), cases[i].payload);
                if (end.count == 0)
                        sessions_kept(f.sessions, f.target, &too_large);
                fake_spin(&f);
                check_eq_int(end.count, 1);
                check_eq_int(end.status, CELL_ERROR);
                check_eq_int(end.state, CELL_STATE_KEPT);
                check_eq_str(end.type, "TransactionError");
                check_has(end.why, cases[i].why);
                check(!fake_has_frame(&f));
                /* Others run, and need no note. */
                ask(&f, &end, "1");
                fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
                check_eq_int(end.state, CELL_STATE_KEPT);
                check_eq_str(end.note, "");
                fake_done(&f);
        }
}

static void test_a_profile_without_copies(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{\"state\": {\"survives\": false}}");
        begin(&f, &end);
        check_eq_str(end.type, "TransactionError");
        check_has(end.why, "state.survives");
        check(!fake_has_frame(&f));
        fake_done(&f);
}

/* The copy that comes late is that of an idle session. */
static void test_a_worker_that_does_not_answer(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        begin(&f, &end);
        uint64_t id = take_keep(&f);
        fake_run_ms(&f, SESSION_SNAPSHOT_MS - 10);
        check_eq_int(end.count, 0);
        fake_run_ms(&f, 20);
        check_has(end.why, "busy with a background task");
        begin(&f, &end);
        check_has(end.why, "busy with a background task");
        fake_send(&f, FRAME_KEPT, id, KEPT);
        sessions_kept(f.sessions, f.target, NULL);
        start(&f, &end);
        fake_done(&f);
}

static void test_a_cell_that_is_cancelled_before(void)
{
        struct fake f;
        struct end end, next;

        open_with(&f, "{}");
        struct cell *cell = begin(&f, &end);
        uint64_t id = take_keep(&f);
        cell_cancel(cell);
        fake_spin(&f);
        check_eq_int(end.status, CELL_CANCELLED);
        fake_send(&f, FRAME_KEPT, id, KEPT);
        sessions_kept(f.sessions, f.target, NULL);
        /* Another one without a transaction: it fails, and nothing is taken back. */
        ask(&f, &next, "1");
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), FAILED);
        check_eq_int(next.state, CELL_STATE_KEPT);
        check_eq_int(f.restores, 0);
        fake_done(&f);
}

/* A call without an answer counts as pending, and is not answered any more. */
static void test_calls(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        uint64_t cell = start(&f, &end);
        fake_send(&f, FRAME_CALL, 5, "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}");
        check_eq_int(fake_tools.n_calls, 1);
        fake_send(&f, FRAME_RESULT, cell, FAILED);
        check_eq_int(fake_tools.dropped, 1);
        clear(&f, SIGKILL);
        check(!fake_has_frame(&f));
        fake_send(&f, FRAME_RESTORED, keep, DONE);
        check_eq_int(end.n_calls, 1);
        check(end.calls[0].pending);
        check_eq_int(end.calls_total, 1);
        check_has(end.restored, "tool calls that were sent stay: see sent");
        fake_done(&f);
}

/* Code has ended the copy, before the cell ends or as it does: nothing is rolled back, and nothing is
 * killed. After the request to wake it, the state is lost. The cell's own error stays. */
static void test_no_copy_is_left(void)
{
        struct fake f;
        struct end end;

        for (int i = 0; i < 2; i++) {
                open_with(&f, "{}");
                uint64_t cell = start(&f, &end);
                if (i == 0)
                        sessions_gone(f.sessions, f.target, f.copy);
                fake_send(&f, FRAME_RESULT, cell, FAILED);
                check_eq_int(f.restores, i);
                if (i == 1)
                        sessions_gone(f.sessions, f.target, f.copy);
                fake_spin(&f);
                check_eq_int(end.count, 1);
                check_eq_int(end.status, CELL_ERROR);
                check_eq_int(end.state, CELL_STATE_KEPT);
                check_eq_str(end.type, "E");
                check_has(end.note, "nothing was rolled back");
                ask(&f, &end, "1");
                fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), OK);
                check_eq_int(end.state, CELL_STATE_KEPT);
                fake_done(&f);
        }
        open_with(&f, "{}");
        fake_send(&f, FRAME_RESULT, start(&f, &end), FAILED);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_ERROR);
        check_eq_int(end.state, CELL_STATE_LOST);
        check_has(end.why, "nothing was rolled back");
        fake_done(&f);
}

/* undo() in such a cell takes files back too. */
static void test_undo(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        start(&f, &end);
        fake_send(&f, FRAME_QUERY, 5, "{\"what\":\"undo\"}");
        check_eq_int(f.restored, f.copy);
        clear(&f, SIGKILL);
        check_eq_int(f.rollbacks, 1);
        fake_send(&f, FRAME_RESTORED, keep, DONE);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_OK);
        check_eq_int(end.state, CELL_STATE_ROLLED_BACK);
        check_has(end.restored, "rolled back: variables and /workspace are as before the call (");
        fake_done(&f);
}

/* Another copy than that of the transaction is woken: no file is rolled back. */
static void test_another_copy(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        start(&f, &end);
        f.copy++;
        clear(&f, SIGSEGV);
        check_eq_int(f.rollbacks, 0);
        fake_done(&f);
}

static void test_what_the_worker_may_not(void)
{
        struct fake f;
        struct end end;

        /* A second result, while the first one is rolled back. */
        open_with(&f, "{}");
        uint64_t cell = start(&f, &end);
        fake_send(&f, FRAME_RESULT, cell, FAILED);
        put(&f, FRAME_RESULT, cell, OK);
        clear(&f, SIGKILL);
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_ERROR);
        fake_done(&f);
}

/* Numbers and names are the worker's. */
static void test_what_a_rollback_says(void)
{
        static const struct {
                const char *payload, *text;
        } cases[] = {
                {"{\"rolled_back\":{}}", "as before the call"},
                {"{}", "as before the call; but not all files"},
                {"{\"rolled_back\":{\"changed\":-1,\"returned\":\"x\",\"removed\":1e30}}",
                 "as before the call"},
                {"{\"rolled_back\":{\"returned\":3}}", "(3 deleted or renamed: 3)"},
                {"{\"rolled_back\":{\"failed\":2,\"failed_files\":[\"s\"]},\"threads\":1}",
                 "but not all files: s and 1 more; 1 thread is gone"},
                {"{\"rolled_back\":{\"changed\":1,\"files\":[\"a\\nb\"]}}", "(1 changed: 1)"},
        };
        struct fake f;
        struct end end;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                open_with(&f, "{}");
                start(&f, &end);
                clear(&f, SIGSEGV);
                fake_send(&f, FRAME_RESTORED, keep, cases[i].payload);
                check_eq_int(end.count, 1);
                check_has(end.restored, cases[i].text);
                fake_done(&f);
        }
}

int main(void)
{
        run(test_a_failure);
        run(test_a_success);
        run(test_the_next_copy);
        run(test_a_death);
        run(test_a_death_after_success);
        run(test_a_timeout);
        run(test_refusals);
        run(test_a_profile_without_copies);
        run(test_a_worker_that_does_not_answer);
        run(test_a_cell_that_is_cancelled_before);
        run(test_calls);
        run(test_no_copy_is_left);
        run(test_another_copy);
        run(test_undo);
        run(test_what_the_worker_may_not);
        run(test_what_a_rollback_says);
        return 0;
}
