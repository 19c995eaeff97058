/* Checkpoints and undo(): which copies exist, which state is restored, and what is refused. */
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/machine/session-state.h"
#include "supervisor/session/sessions-owner.h"

#include <errno.h>
#include <unistd.h>

#include "tests/unit/fake-client.h"

#define OK "{\"status\":\"ok\"}"

static void open_with(struct fake *f, const char *text)
{
        const struct monitor_hello hello = fake_hello;
        struct config *config = fake_config(text);

        fake_open(f);
        sessions_reload(f->sessions, config, &hello);
        config_free(config);
        warm_up(f);
}

static struct cell *ask_for(struct fake *f, struct end *end, const char *restore,
                            const char *checkpoint)
{
        const struct cell_request request = {.code = "1",
                                             .code_length = 1,
                                             .restore = restore,
                                             .checkpoint = checkpoint,
                                             .done = fake_on_done,
                                             .data = end};
        struct error err = {};
        struct cell *cell = NULL;

        memset(end, 0, sizeof(*end));
        check_ok(sessions_run(f->sessions, "default", &request, &cell, &err));
        fake_spin(f);
        return cell;
}

static uint64_t take_keep(struct fake *f, char *text, size_t size)
{
        struct frame_header header = fake_read(f, text, size);
        uint64_t door = header.type == FRAME_WRITER ? header.id : 0;

        if (door)
                header = fake_read(f, text, size);
        check_eq_str(frame_type_name(header.type), "KEEP");
        check(!door || door == header.id);
        return header.id;
}

/* Answers the KEEP that has come, and takes the copy. */
static void keep(struct fake *f, uint32_t pid)
{
        char text[64];

        snprintf(text, sizeof(text), "{\"pid\":%u}", pid);
        fake_send(f, FRAME_KEPT, take_keep(f, NULL, 0), text);
        check_eq_int(f->copy, pid);
        sessions_kept(f->sessions, f->target, NULL);
        fake_spin(f);
}

static uint64_t run_cell(struct fake *f, const char *result)
{
        uint64_t cell = fake_take_exec(f, NULL, 0);

        fake_send(f, FRAME_RESULT, cell, result);
        return cell;
}

/* A cell that ends with this checkpoint, in a copy with this pid. */
static void make(struct fake *f, const char *name, uint32_t pid)
{
        struct end end;

        ask_for(f, &end, NULL, name);
        run_cell(f, OK);
        check_eq_int(end.count, 0);
        keep(f, pid);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_OK);
        check(end.is_checkpoint);
        check_eq_str(end.note, "");
}

/* init has killed the worker, and chosen this copy. */
static void clear(struct fake *f, uint32_t pid)
{
        const struct monitor_ended ended = {.wait_status = SIGKILL, .copy = pid};
        const int fds[SESSION_COUNTERS] = {dup(f->cpu), dup(f->memory), dup(f->memory)};

        sessions_cleared(f->sessions, f->target, &ended, fds);
        fake_spin(f);
}

/* The monitor and the copy with this pid and KEEP do what a restore needs; a copy of it is made. */
static void restore(struct fake *f, uint32_t pid, uint64_t id, uint32_t next_pid)
{
        check_eq_int(f->restored, pid);
        clear(f, pid);
        fake_send(f, FRAME_RESTORED, id, "{}");
        keep(f, next_pid);
}

static void test_made_restored_and_restored_again(void)
{
        struct fake f;
        struct end end;
        char text[64];

        open_with(&f, "{}");
        make(&f, "a", 41); /* cell 2, KEEP 1 */
        make(&f, "b", 42);
        check_eq_int(f.instead[0], 0);
        check_eq_int(f.instead[1], 0);
        for (uint32_t i = 0; i < 2; i++) {
                ask_for(&f, &end, "a", NULL);
                check_eq_int(f.restores, i + 1);
                check(!fake_has_frame(&f));
                check_eq_int(f.restored, 41 + 9 * i);
                clear(&f, f.restored);
                check_eq_int(f.wakes, i + 1);
                fake_send(&f, FRAME_RESTORED, 1 + 2 * i, "{}");
                /* Before the cell: a copy of the state takes the name. KEEP lists the copies. */
                check_eq_int(take_keep(&f, text, sizeof(text)), 3 + i);
                check_eq_str(text, "{\"copies\":[42]}");
                check(!fake_has_frame(&f));
                fake_send(&f, FRAME_KEPT, 3 + i, i == 0 ? "{\"pid\":50}" : "{\"pid\":51}");
                sessions_kept(f.sessions, f.target, NULL);
                run_cell(&f, OK);
                check_eq_int(end.count, 1);
                check_eq_int(end.status, CELL_OK);
                check_eq_int(end.state, CELL_STATE_RESTORED);
                check_eq_str(
                        end.restored,
                        "restored to checkpoint \"a\", the end of cell 2: its variables; files stay");
        }
        check_eq_int(f.kills, 0);
        fake_done(&f);
}

/* A copy without a name is replaced by each new one, and a checkpoint by another one of its name. */
static void test_what_a_copy_replaces(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        keep(&f, 40);
        make(&f, "a", 41);
        check_eq_int(f.instead[0], 40);
        check_eq_int(f.instead[1], 0);
        ask(&f, &end, "1");
        run_cell(&f, OK);
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        keep(&f, 42);
        check_eq_int(f.instead[0], 0);
        make(&f, "a", 43);
        check_eq_int(f.instead[0], 42);
        check_eq_int(f.instead[1], 41);
        fake_done(&f);
}

static void check_refused(const struct fake *f, const struct end *end, const char *why)
{
        check_eq_int(end->count, 1);
        check_eq_int(end->status, CELL_ERROR);
        check_eq_str(end->type, "CheckpointError");
        check_has(end->why, why);
        check_eq_int(f->restores, 0);
        check_eq_int(f->kills, 0);
}

static void test_refusals(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{\"state\": {\"checkpoints\": 2}}");
        ask_for(&f, &end, "a", NULL);
        check_refused(&f, &end, "no checkpoint is called \"a\": there is none; nothing was run");
        make(&f, "a", 41);
        make(&f, "b", 42);
        ask_for(&f, &end, "c", NULL);
        check_refused(&f, &end, "no checkpoint is called \"c\": there are a, b; nothing was run");
        ask_for(&f, &end, NULL, "c");
        check_refused(
                &f, &end,
                "a session has 2 checkpoints at most, and there are a, b: use the name of one of them");
        /* The number is checked before the session is restored. */
        ask_for(&f, &end, "a", "c");
        check_refused(&f, &end, "nothing was run");
        check(!fake_has_frame(&f));
        make(&f, "b", 43); /* the control */
        fake_end(&f, SIGKILL, 0);
        ask_for(&f, &end, "a", NULL);
        check_eq_int(end.count, 1);
        check_has(end.why, "there is none, since the state was lost");
        check_eq_int(f.creates, 1);
        fake_done(&f);

        static const char *const configs[] = {"{\"state\": {\"checkpoints\": 0}}",
                                              "{\"state\": {\"survives\": false}}"};
        for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
                open_with(&f, configs[i]);
                ask_for(&f, &end, NULL, "a");
                check_refused(&f, &end, i == 0 ? "state.checkpoints" : "state.survives");
                fake_done(&f);
        }
}

/* The code was run, and the result says why there is no checkpoint. */
static void test_not_made(void)
{
        static const struct {
                const char *result, *kept, *note;
                int code; /* of the monitor */
        } cases[] = {
                {"{\"status\":\"error\",\"error\":{\"type\":\"E\",\"message\":\"m\",\"traceback\":\"t\"}}",
                 NULL, "not made: the code did not end well", 0},
                {OK, "{\"why\":\"threads\"}", "while a library has threads of its own", 0},
                {OK, "{\"why\":\"threads\",\"thread\":\"\\\"rdk:main\\\" of librdkafka.so\"}",
                 "no copy of the state can be made: thread \"rdk:main\" of librdkafka.so cannot be held",
                 0},
                {OK, "{\"why\":\"threads\",\"thread\":\"a\\u001b\\n\"}", "thread a\\", 0},
                {OK, "{\"why\":\"processes\"}", "limits.pids allows no more processes", 0},
                {OK, "{\"pid\":50}", "larger than limits.memory", ENOMEM},
                {OK, "{\"pid\":50}", "no copy of the state could be made", ESRCH},
        };
        struct fake f;
        struct end end;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                open_with(&f, "{}");
                ask_for(&f, &end, NULL, "a");
                run_cell(&f, cases[i].result);
                if (cases[i].kept)
                        fake_send(&f, FRAME_KEPT, take_keep(&f, NULL, 0), cases[i].kept);
                const struct error error = {.code = cases[i].code, .text = "no"};
                if (error.code != 0)
                        sessions_kept(f.sessions, f.target, &error);
                check_eq_int(end.count, 1);
                check_has(end.note, "checkpoint \"a\" was not made: ");
                check_has(end.note, cases[i].note);
                check(!end.is_checkpoint);
                check_eq_int(end.state, CELL_STATE_KEPT);
                ask_for(&f, &end, "a", NULL);
                check_refused(&f, &end, "there is none");
                fake_done(&f);
        }
}

/* A worker that does not answer: the cell ends all the same, and a late copy gets no name. */
static void test_a_busy_worker(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        ask_for(&f, &end, NULL, "a");
        run_cell(&f, OK);
        uint64_t id = take_keep(&f, NULL, 0);
        fake_run_ms(&f, SESSION_CHECKPOINT_MS - 2);
        check_eq_int(end.count, 0);
        fake_run_ms(&f, 4);
        check_eq_int(end.count, 1);
        check_has(end.note, "a background task keeps the interpreter busy");
        fake_send(&f, FRAME_KEPT, id, "{\"pid\":41}");
        sessions_kept(f.sessions, f.target, NULL);
        ask_for(&f, &end, "a", NULL);
        check_refused(&f, &end, "there is none");
        fake_done(&f);
}

/* When the worker ends, the newest copy, which may have a name, is restored and kept. */
static void test_a_death_beside_checkpoints(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        make(&f, "a", 41);
        make(&f, "b", 42);
        ask(&f, &end, "die()");
        fake_take_exec(&f, NULL, 0);
        clear(&f, 42);
        fake_send(&f, FRAME_RESTORED, 2, "{}");
        check_eq_int(end.count, 1);
        check_has(end.restored, "restored to the end of cell 3: its variables");
        keep(&f, 43);
        ask_for(&f, &end, "b", NULL);
        restore(&f, 43, 3, 44);
        run_cell(&f, OK);
        check_eq_int(end.status, CELL_OK);
        fake_done(&f);
}

/* Code has killed the process of a checkpoint. */
/* The monitor's report of the end comes before the frame of a copy that is the worker already. */
static void test_a_death_as_soon_as_it_is_awake(void)
{
        _cleanup_buffer_ struct buffer restored = BUFFER_INIT(FRAME_PAYLOAD_MAX);
        struct fake f;
        struct end end;

        check_eq_int(frame_append(&restored, FRAME_RESTORED, 2, "{}", 2), 0);
        open_with(&f, "{}");
        make(&f, "a", 41);
        make(&f, "b", 42);
        ask(&f, &end, "1");
        fake_take_exec(&f, NULL, 0);
        clear(&f, 42);
        check_eq_int(write(f.rpc, buffer_bytes(&restored), restored.length), restored.length);
        clear(&f, 41);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_KILLED);
        check_has(end.restored, "restored to the end of cell 3");
        take_keep(&f, NULL, 0); /* of the copy that has ended */
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        keep(&f, 43);
        ask(&f, &end, "1");
        run_cell(&f, OK);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check_has(end.restored, "restored to the end of cell 2");
        fake_done(&f);
}

/* It ends before it is awake: another one takes the worker's place. */
static void test_a_death_before_it_is_awake(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        make(&f, "a", 41);
        make(&f, "b", 42);
        ask(&f, &end, "1");
        fake_take_exec(&f, NULL, 0);
        clear(&f, 42);
        clear(&f, 41);
        check_eq_int(end.count, 0);
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_KILLED);
        check_has(end.restored, "restored to the end of cell 2");
        keep(&f, 43);
        fake_done(&f);
}

static void test_gone(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        make(&f, "a", 41);
        make(&f, "b", 42);
        sessions_gone(f.sessions, f.target, 41);
        sessions_gone(f.sessions, f.target, 99);
        ask(&f, &end, "1");
        run_cell(&f, OK);
        check_eq_str(end.note, "checkpoint \"a\" is gone: its process has ended");
        ask_for(&f, &end, "a", NULL);
        check_refused(&f, &end, "there are b");
        /* The copy ends during its restore. */
        ask_for(&f, &end, "b", NULL);
        check_eq_int(f.restores, 1);
        sessions_gone(f.sessions, f.target, 42);
        fake_spin(&f);
        check_eq_int(end.count, 1);
        check_eq_str(end.type, "CheckpointError");
        ask(&f, &end, "1");
        run_cell(&f, OK); /* the worker lives on */
        check_eq_int(end.status, CELL_OK);
        fake_done(&f);
}

static void test_a_sandbox_that_ends_while_it_goes_back(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        make(&f, "a", 41);
        ask_for(&f, &end, "a", NULL);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.count, 1);
        check_eq_str(end.type, "CheckpointError");
        check_eq_int(f.creates, 1);
        fake_done(&f);
}

static void test_undo(void)
{
        struct fake f;
        struct end end;
        char text[256];

        open_with(&f, "{}");
        ask(&f, &end, "undo()"); /* too soon: there is no copy */
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_QUERY, 7, "{\"what\":\"undo\"}");
        check_eq_str(frame_type_name(fake_read(&f, text, sizeof(text)).type), "RETURN");
        check_has(text, "there is no copy of the state before this cell");
        fake_send(&f, FRAME_RESULT, cell, OK);
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        keep(&f, 41);
        fake_send(&f, FRAME_QUERY, 8, "{\"what\":\"undo\"}");
        check_eq_str(frame_type_name(fake_read(&f, text, sizeof(text)).type), "RETURN");
        check_has(text, "undo() works while a cell runs");
        ask(&f, &end, "undo()");
        fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_QUERY, 9, "{\"what\":\"undo\"}");
        check(!fake_has_frame(&f));
        restore(&f, 41, 1, 42);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_OK);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check_eq_str(end.why, "");
        check_eq_str(end.restored,
                     "undo(): restored to the end of cell 2: its variables; files stay");
        fake_done(&f);
}

/* Code has killed the copy: the cell continues with its remaining time, and gets an error. */
static void test_undo_without_its_copy(void)
{
        struct fake f;
        struct end end;
        struct error err = {};
        char text[256];

        for (int by_owner = 0; by_owner < 2; by_owner++) {
                open_with(&f, "{}");
                make(&f, "a", 41);
                ask_on(&f, &end, "default", "undo()", 1000, false);
                fake_spin(&f);
                uint64_t cell = fake_take_exec(&f, NULL, 0);
                fake_run_ms(&f, 600);
                if (by_owner)
                        check_ok(sessions_undo(f.sessions, "default", NULL, &err));
                else
                        fake_send(&f, FRAME_QUERY, 9, "{\"what\":\"undo\"}");
                check_eq_int(f.restores, 1);
                fake_run_ms(&f, 600);
                sessions_gone(f.sessions, f.target, 41);
                fake_spin(&f);
                if (!by_owner) {
                        check_eq_int(fake_read(&f, text, sizeof(text)).id, 9);
                        check_has(text, "could not be taken back");
                }
                check_eq_int(f.interrupts, 0);
                fake_run_ms(&f, 390);
                check_eq_int(f.interrupts, 0);
                fake_run_ms(&f, 20);
                check_eq_int(f.interrupts, 1);
                fake_send(&f, FRAME_RESULT, cell, OK);
                check_eq_int(end.status, CELL_TIMEOUT);
                check_eq_int(end.state, CELL_STATE_KEPT);
                fake_done(&f);
        }
}

/* A cell that was cancelled meanwhile is interrupted when it continues. */
static void test_cancelled_while_it_goes_back(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        make(&f, "a", 41);
        struct cell *cell = ask(&f, &end, "undo()");
        fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_QUERY, 9, "{\"what\":\"undo\"}");
        cell_cancel(cell);
        check_eq_int(f.interrupts, 0);
        sessions_gone(f.sessions, f.target, 41);
        check_eq_int(f.interrupts, 1);
        fake_done(&f);
}

static void test_undo_by_the_owner(void)
{
        struct fake f;
        struct end end;
        struct error err = {};

        open_with(&f, "{}");
        check_eq_int(sessions_undo(f.sessions, "x", NULL, &err), -ENOENT);
        check_eq_int(sessions_undo(f.sessions, "default", NULL, &err), -ENOENT);
        check_has(err.text, "no call runs, and the session has no checkpoint");
        make(&f, "a", 41);
        check_eq_int(sessions_undo(f.sessions, "default", "b", &err), -ENOENT);
        check_has(err.text, "no checkpoint is called \"b\": there are a");
        check_eq_int(f.restores, 0);

        ask(&f, &end, "hang()");
        fake_take_exec(&f, NULL, 0);
        check_ok(sessions_undo(f.sessions, "default", NULL, &err));
        check_eq_int(sessions_undo(f.sessions, "default", NULL, &err), -EBUSY);
        restore(&f, 41, 1, 42);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_CANCELLED);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check_has(end.why, "cloister sessions undo");

        check_ok(sessions_undo(f.sessions, "default", "a", &err));
        restore(&f, 42, 2, 43);
        ask(&f, &end, "1");
        run_cell(&f, OK);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check_has(
                end.restored,
                "its owner went back with 'cloister sessions undo'; restored to checkpoint \"a\", the end of cell 2");
        fake_done(&f);
}

/* Said with the next result: the one that asked for the restore. */
static void test_a_restore_that_cannot_be_copied(void)
{
        struct fake f;
        struct end end;

        open_with(&f, "{}");
        make(&f, "a", 41);
        ask_for(&f, &end, "a", NULL);
        clear(&f, 41);
        fake_send(&f, FRAME_RESTORED, 1, "{}");
        fake_send(&f, FRAME_KEPT, take_keep(&f, NULL, 0), "{\"why\":\"processes\"}");
        run_cell(&f, OK);
        check_eq_int(end.state, CELL_STATE_RESTORED);
        check_has(end.note, "checkpoint \"a\" cannot be restored again: ");
        fake_done(&f);
}

int main(void)
{
        run(test_made_restored_and_restored_again);
        run(test_what_a_copy_replaces);
        run(test_refusals);
        run(test_not_made);
        run(test_a_busy_worker);
        run(test_a_death_beside_checkpoints);
        run(test_a_death_as_soon_as_it_is_awake);
        run(test_a_death_before_it_is_awake);
        run(test_gone);
        run(test_a_sandbox_that_ends_while_it_goes_back);
        run(test_undo);
        run(test_undo_without_its_copy);
        run(test_cancelled_while_it_goes_back);
        run(test_undo_by_the_owner);
        run(test_a_restore_that_cannot_be_copied);
        return 0;
}
