/* How many processes and threads a session's cells make, and what they have in use without a control group. */
#include "base/json.h"
#include "supervisor/session/machine/session-state.h"
#include "supervisor/session/session.h"
#include "tests/unit/fake-client.h"

#define OK "{\"status\":\"ok\"}"

static void count(struct fake *f, uint32_t last, uint32_t own)
{
        sessions_counted(f->sessions, f->target, &(struct monitor_counted){last, own, 0});
        fake_spin(f);
}

static void run_cell(struct fake *f, struct end *end, int ms)
{
        ask(f, end, "1");
        uint64_t cell = fake_take_exec(f, NULL, 0);
        fake_run_ms(f, ms);
        fake_send(f, FRAME_RESULT, cell, OK);
        check_eq_int(end->count, 1);
}

/* Of the receipt of a cell; -1: it has no such member. */
static int64_t member(struct fake *f, uint64_t cell, const char *key)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(1 << 20);
        yyjson_doc *doc = NULL;
        int64_t n = -1;

        check_eq_int(session_append_receipt(fake_session(f), cell, &text), 0);
        check_eq_int(json_parse(buffer_bytes(&text), text.length, &doc, NULL), 0);
        json_int64(yyjson_obj_get(yyjson_doc_get_root(doc), key), &n);
        yyjson_doc_free(doc);
        return n;
}

static void open_with(struct fake *f, const char *text, enum monitor_usage usage)
{
        struct monitor_hello hello = fake_hello;
        struct config *config = fake_config(text);

        hello.usage = usage;
        fake_open(f);
        sessions_reload(f->sessions, config, &hello);
        config_free(config);
        sessions_set_usage(f->sessions, usage);
}

#define NO_COPIES "{\"state\": {\"survives\": false}}"

static void test_a_long_cell_is_counted(void)
{
        struct fake f;
        struct end end;

        open_with(&f, NO_COPIES, MONITOR_USAGE_CGROUP1);
        warm_up(&f);
        check_eq_int(f.counts, 1);
        count(&f, 2, 0);
        check_eq_int(member(&f, 1, "tasks_made"), 0);
        run_cell(&f, &end, 5);
        check_eq_int(f.counts, 2);
        check_eq_int(member(&f, 2, "tasks_made"), -1);
        count(&f, 9, 0);
        check_eq_int(member(&f, 2, "tasks_made"), 7);
        check_eq_int(member(&f, 1, "tasks_made"), 0);
        /* Unknown here. */
        run_cell(&f, &end, 5);
        count(&f, 0, 0);
        check_eq_int(member(&f, 3, "tasks_made"), 0);
        fake_done(&f);
}

static void test_short_cells_are_counted_together(void)
{
        struct fake f;
        struct end end;

        open_with(&f, NO_COPIES, MONITOR_USAGE_CGROUP1);
        warm_up(&f);
        count(&f, 4, 0);
        for (int i = 0; i < 5; i++)
                run_cell(&f, &end, 0);
        check_eq_int(f.counts, 1);
        run_cell(&f, &end, 3);
        check_eq_int(f.counts, 2);
        /* The next cell begins before the answer, and ends before it: it has no part of it. */
        run_cell(&f, &end, 5);
        check_eq_int(f.counts, 2);
        count(&f, 12, 0);
        check_eq_int(member(&f, 1, "tasks_made"), 2);
        for (uint64_t cell = 2; cell <= 7; cell++) {
                check_eq_int(member(&f, cell, "tasks_made"), 8);
                check_eq_int(member(&f, cell, "tasks_from_cell"), cell == 2 ? -1 : 2);
        }
        check_eq_int(member(&f, 8, "tasks_made"), -1);
        fake_done(&f);
}

/* The copy of the end of a cell does not count as a task of the code. */
static void test_copies_do_not_count(void)
{
        struct fake f;

        open_with(&f, "{}", MONITOR_USAGE_CGROUP1);
        warm_up(&f);
        count(&f, 5, 0);
        check_eq_int(member(&f, 1, "tasks_made"), 3);
        count(&f, 7, 2);
        struct end end;
        run_cell(&f, &end, 5);
        count(&f, 8, 0);
        check_eq_int(member(&f, 2, "tasks_made"), 1);
        /* Not more than the numbers that there were. */
        count(&f, 9, 2);
        run_cell(&f, &end, 5);
        count(&f, 9, 0);
        check_eq_int(member(&f, 3, "tasks_made"), 0);
        fake_done(&f);
}

/* The number is read while a copy is made: it may or may not have the copy in it. */
static void test_a_copy_is_being_made(void)
{
        struct fake f;

        open_with(&f, "{}", MONITOR_USAGE_CGROUP1);
        warm_up(&f);
        fake_run_ms(&f, SESSION_QUIET_MS + 2);
        struct frame_header keep = fake_read(&f, NULL, 0);
        check_eq_str(frame_type_name(keep.type), "KEEP");
        count(&f, 7, 0);
        check_eq_int(member(&f, 1, "tasks_made"), -1);
        fake_send(&f, FRAME_KEPT, keep.id, "{\"pid\":6,\"threads\":0,\"processes\":0}");
        count(&f, 7, 0);
        check_eq_int(member(&f, 1, "tasks_made"), -1);
        count(&f, 7, 2);
        sessions_kept(f.sessions, f.target, NULL);
        check_eq_int(member(&f, 1, "tasks_made"), 3);
        fake_done(&f);
}

static void test_numbers_begin_again(void)
{
        struct fake f;
        struct end end;

        open_with(&f, NO_COPIES, MONITOR_USAGE_CGROUP1);
        warm_up(&f);
        count(&f, 32000, 0);
        run_cell(&f, &end, 5);
        count(&f, 310, 0);
        check_eq_int(member(&f, 2, "tasks_made"), 10);
        run_cell(&f, &end, 5);
        count(&f, 311, 0);
        check_eq_int(member(&f, 3, "tasks_made"), 1);
        run_cell(&f, &end, 5);
        count(&f, 5, 0);
        check_eq_int(member(&f, 4, "tasks_made"), 0);
        fake_done(&f);
}

static void test_the_last_cell(void)
{
        const struct monitor_ended ended = {.wait_status = 9, .memory_peak = 4096, .last_pid = 30};
        struct fake f;
        struct end end;

        open_with(&f, NO_COPIES, MONITOR_USAGE_CGROUP1);
        warm_up(&f);
        count(&f, 10, 0);
        ask(&f, &end, "die");
        fake_take_exec(&f, NULL, 0);
        check_eq_int(sessions_ended(f.sessions, f.target, &ended), 0);
        fake_spin(&f);
        check_eq_int(end.count, 1);
        check_eq_int(member(&f, 2, "tasks_made"), 20);
        fake_done(&f);
}

static void test_sampled_memory(void)
{
        struct fake f;
        struct end end;

        open_with(&f, NO_COPIES, MONITOR_USAGE_PROC);
        warm_up(&f);
        check_eq_int(member(&f, 1, "peak_memory_bytes"), 0);
        sessions_memory(f.sessions, f.target, 20 << 20);
        run_cell(&f, &end, 5);
        check_eq_int(end.memory_peak, 20 << 20);
        ask(&f, &end, "2");
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        sessions_memory(f.sessions, f.target, 90 << 20);
        sessions_memory(f.sessions, f.target, 30 << 20);
        fake_send(&f, FRAME_RESULT, cell, OK);
        check_eq_int(end.memory_peak, 90 << 20);
        run_cell(&f, &end, 5);
        check_eq_int(end.memory_peak, 30 << 20);
        fake_done(&f);
}

/* The interpreter's own peak is known exactly: in the cell in which it grows, and until the next look. */
static void test_the_interpreter_grows_between_two_looks(void)
{
        struct fake f;
        struct end end;

        open_with(&f, NO_COPIES, MONITOR_USAGE_PROC);
        warm_up(&f);
        sessions_memory(f.sessions, f.target, 20 << 20);
        fake_set_counter(f.memory, "VmHWM:\t  51200 kB\n");
        run_cell(&f, &end, 5);
        check_eq_int(end.memory_peak, 50 << 20);
        run_cell(&f, &end, 5);
        check_eq_int(end.memory_peak, 50 << 20);
        fake_run_ms(&f, 300);
        run_cell(&f, &end, 5);
        check_eq_int(end.memory_peak, 20 << 20);
        fake_done(&f);
}

/* Without a group, a session rests if its code may have left processes: also where init's answer is missing. */
static void test_rests_without_an_answer(void)
{
        static const struct {
                bool is_answered;
                uint32_t last;
                int rests;
        } cases[] = {{true, 2, 0}, {true, 3, 1}, {true, 0, 1}, {false, 0, 1}};
        struct fake f;
        struct end end;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                open_with(&f, NO_COPIES, MONITOR_USAGE_PROC);
                warm_up(&f);
                count(&f, 2, 0);
                fake_run_ms(&f, SESSION_QUIET_MS + 1000);
                check_eq_int(f.rests, 0);
                run_cell(&f, &end, 10);
                if (cases[i].is_answered)
                        count(&f, cases[i].last, 0);
                fake_run_ms(&f, SESSION_QUIET_MS + 3000);
                check_eq_int(f.rests, cases[i].rests);
                fake_done(&f);
        }
}

int main(void)
{
        run(test_a_long_cell_is_counted);
        run(test_short_cells_are_counted_together);
        run(test_copies_do_not_count);
        run(test_a_copy_is_being_made);
        run(test_numbers_begin_again);
        run(test_the_last_cell);
        run(test_sampled_memory);
        run(test_the_interpreter_grows_between_two_looks);
        run(test_rests_without_an_answer);
        return 0;
}
