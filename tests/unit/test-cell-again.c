/* A cell that no worker has read is given to another sandbox. One that may have been read is not. */
#include <signal.h>

#include "supervisor/session/session.h"
#include "tests/unit/fake-client.h"

enum { HEADER = FRAME_HEADER_SIZE };

static void begin(struct fake *f, struct end *end, const char *code)
{
        *end = (struct end){};
        fake_open(f);
        ask_on(f, end, "default", code, 0, false);
        fake_spin(f);
        check_eq_int(f->creates, 1);
        fake_start(f);
}

/* Closes the worker's end; the monitor reports that the worker was killed. */
static void kill_worker(struct fake *f)
{
        fake_close_worker(f);
        fake_spin(f);
        fake_end(f, -1, 0);
}

static void finish(struct fake *f, const struct end *end)
{
        char text[256];

        uint64_t id = fake_take_exec(f, text, sizeof(text));
        check_eq_int(id, 1);
        check_eq_str(text, "1 + 1");
        check_eq_str(text + strlen(text) + 1, "<cell 1>");
        fake_send(f, FRAME_RESULT, id, "{\"status\":\"ok\"}");
        check_eq_int(end->count, 1);
        check_eq_int(end->status, CELL_OK);
        check_eq_int(end->state, CELL_STATE_NEW);
        fake_done(f);
}

static void test_unread_is_given_to_the_next(void)
{
        struct fake f;
        struct end end;

        begin(&f, &end, "1 + 1");
        kill_worker(&f);
        check_eq_int(end.count, 0);
        check_eq_int(f.creates, 2);
        fake_start(&f);
        finish(&f, &end);
}

/* The monitor's report comes before the end of the channel. */
static void test_reported_first(void)
{
        struct fake f;
        struct end end;

        begin(&f, &end, "1 + 1");
        close(f.rpc);
        f.rpc = -1;
        fake_end(&f, -1, 0);
        check_eq_int(f.creates, 2);
        fake_start(&f);
        finish(&f, &end);
}

/* The worker had ended before anything was sent. */
static void test_unsent_is_given_to_the_next(void)
{
        struct fake f;
        struct end end = {};
        int pair[2];

        fake_open(&f);
        ask_on(&f, &end, "default", "1 + 1", 0, false);
        fake_spin(&f);
        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        close(pair[1]);
        f.target = f.serial + 100;
        const int fds[SESSION_FDS] = {pair[0],      dup(pair[0]), dup(pair[0]), -1,
                                      dup(pair[0]), dup(pair[0]), dup(pair[0])};
        check_eq_int(sessions_started(f.sessions, f.serial, f.target, fds), 0);
        fake_spin(&f);
        fake_end(&f, -1, 0);
        check_eq_int(end.count, 0);
        check_eq_int(f.creates, 2);
        fake_start(&f);
        finish(&f, &end);
}

/* All but the last byte: without it no worker can run the code. */
static void test_partly_read_is_given_to_the_next(void)
{
        char bytes[512];
        struct fake f;
        struct end end;

        begin(&f, &end, "1 + 1");
        ssize_t n = recv(f.rpc, bytes, sizeof(bytes), MSG_PEEK);
        check(n > HEADER && (size_t)n < sizeof(bytes));
        check_eq_int(read(f.rpc, bytes, (size_t)n - 1), n - 1);
        kill_worker(&f);
        check_eq_int(end.count, 0);
        fake_start(&f);
        finish(&f, &end);
}

static void check_killed(struct fake *f, const struct end *end)
{
        check_eq_int(end->count, 1);
        check_eq_int(end->status, CELL_KILLED);
        check_eq_int(f->creates, 1);
        fake_done(f);
}

static void test_read_is_not(void)
{
        struct fake f;
        struct end end;

        begin(&f, &end, "1 + 1");
        fake_take_exec(&f, NULL, 0);
        kill_worker(&f);
        check_killed(&f, &end);
}

/* The worker has not read a later frame, but it has read the cell's. */
static void test_read_but_not_what_came_after_it_is_not(void)
{
        struct fake f;
        struct end end;

        begin(&f, &end, "1 + 1");
        fake_take_exec(&f, NULL, 0);
        fake_tools_reset("{\"servers\":[],\"more\":1}");
        fake_tools.version = 9;
        sessions_catalogue_changed(f.sessions);
        check(fake_has_frame(&f));
        kill_worker(&f);
        check_killed(&f, &end);
}

/* A worker that has sent something may have done more. */
static void test_one_that_sent_a_frame_is_not(void)
{
        struct fake f;
        struct end end;

        begin(&f, &end, "1 + 1");
        fake_send(&f, FRAME_LOG, 0, "here");
        kill_worker(&f);
        check_killed(&f, &end);
}

static void test_one_that_wrote_output_is_not(void)
{
        struct fake f;
        struct end end;

        begin(&f, &end, "1 + 1");
        check_eq_int(write(f.err, "no", 2), 2);
        kill_worker(&f);
        check_eq_str(end.err, "no");
        check_killed(&f, &end);
}

/* The second cell of a session has variables that another sandbox lacks. */
static void test_a_later_cell_is_not(void)
{
        struct fake f;
        struct end end, second = {};

        begin(&f, &end, "1 + 1");
        uint64_t id = fake_take_exec(&f, NULL, 0);
        fake_send(&f, FRAME_RESULT, id, "{\"status\":\"ok\"}");
        ask_on(&f, &second, "default", "2", 0, false);
        fake_spin(&f);
        kill_worker(&f);
        check_killed(&f, &second);
}

static void test_a_few_times_only(void)
{
        struct fake f;
        struct end end;

        begin(&f, &end, "1 + 1");
        for (int i = 1; i < CELL_ATTEMPTS_MAX; i++) {
                kill_worker(&f);
                check_eq_int(end.count, 0);
                check_eq_int(f.creates, i + 1);
                fake_start(&f);
        }
        kill_worker(&f);
        check_eq_int(end.count, 1);
        check_eq_int(end.status, CELL_KILLED);
        check_eq_int(f.creates, CELL_ATTEMPTS_MAX);
        fake_done(&f);
}

/* Its owner, or a deadline, ended it. */
static void test_one_that_was_stopped_is_not(void)
{
        struct fake f;
        struct end end;

        begin(&f, &end, "1 + 1");
        session_end_by_owner(fake_session(&f), false, "the test");
        kill_worker(&f);
        check_killed(&f, &end);
}

int main(void)
{
        run(test_unread_is_given_to_the_next);
        run(test_reported_first);
        run(test_unsent_is_given_to_the_next);
        run(test_partly_read_is_given_to_the_next);
        run(test_read_is_not);
        run(test_read_but_not_what_came_after_it_is_not);
        run(test_one_that_sent_a_frame_is_not);
        run(test_one_that_wrote_output_is_not);
        run(test_a_later_cell_is_not);
        run(test_a_few_times_only);
        run(test_one_that_was_stopped_is_not);
        return 0;
}
