/* Sessions that stand still while a person decides, as the broker sees them. */
#include "supervisor/session/hold.h"

#include "supervisor/session/calls/files.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/queue.h"
#include "tests/unit/fake-client.h"

#define OK   "{\"status\":\"ok\"}"
#define CALL "{\"server\":\"s\",\"tool\":\"t\",\"arguments\":{}}"

/* A holder, and what it was told. */
struct holder {
        struct hold_request request;
        int held, released, gone, calls_when_held;
        char why[64];
};

static void on_held(void *data)
{
        struct holder *h = data;

        h->held++;
        h->calls_when_held = (int)fake_tools.n_calls;
}

static void on_released(void *data)
{
        struct holder *h = data;

        h->released++;
}

static void on_gone(void *data, const char *why)
{
        struct holder *h = data;

        h->gone++;
        snprintf(h->why, sizeof(h->why), "%s", why);
}

static uint64_t cell; /* number of the one that runs */

static struct cell *open_running(struct fake *f, struct end *end, uint32_t timeout_ms)
{
        fake_open(f);
        warm_up(f);
        struct cell *running = ask_on(f, end, "default", "1", timeout_ms, false);
        fake_spin(f);
        cell = fake_take_exec(f, NULL, 0);
        return running;
}

static void hold(struct fake *f, struct holder *h)
{
        struct error err = {};

        *h = (struct holder){
                .request = {.held = on_held, .released = on_released, .gone = on_gone}};
        h->request.data = h;
        check_ok(session_hold(fake_session(f), &h->request, &err));
}

static uint64_t take(struct fake *f, uint8_t type, char *text, size_t size)
{
        struct frame_header header = fake_read(f, text, size);

        check_eq_str(frame_type_name(header.type), frame_type_name(type));
        return header.id;
}

static void notice(struct fake *f, enum monitor_event_kind kind, uint32_t number)
{
        fake_notice(f->sessions, (struct monitor_event){kind, 0, f->target, .held = number});
        fake_spin(f);
}

static void stop(struct fake *f)
{
        uint64_t id = take(f, FRAME_HOLD, NULL, 0);

        fake_send(f, FRAME_SETTLED, id, "{}");
        check_eq_int(f->holds, 1);
        notice(f, MONITOR_SESSION_HELD, f->hold_number);
}

/* ---- tests ---- */

static void test_a_decision(void)
{
        struct fake f;
        struct end end;
        struct holder h;
        char text[64];

        open_running(&f, &end, 1000);
        fake_run_ms(&f, 400);
        hold(&f, &h);
        uint64_t id = take(&f, FRAME_HOLD, NULL, 0);
        check(session_is_held(fake_session(&f)));
        check_eq_int(f.holds, 0);
        fake_send(&f, FRAME_SETTLED, id, "{}");
        check_eq_int(f.holds, 1);
        check_eq_int(h.held, 0);

        /* A call that the worker has sent before it was stopped is handled before the holder is told. */
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_PAYLOAD_MAX);
        check_eq_int(frame_append(&b, FRAME_CALL, 7, CALL, strlen(CALL)), 0);
        check_eq_int(write(f.rpc, buffer_bytes(&b), b.length), b.length);
        notice(&f, MONITOR_SESSION_HELD, f.hold_number);
        check_eq_int(h.held, 1);
        check_eq_int(h.calls_when_held, 1);

        /* No time counts, and nothing is sent. */
        fake_run_ms(&f, 5000);
        check_eq_int(f.interrupts, 0);
        check(!fake_has_frame(&f));
        session_release(&h.request);
        fake_spin(&f);
        check_eq_int(h.released, 0);
        check_eq_int(f.holds, 2);
        notice(&f, MONITOR_SESSION_HELD, f.hold_number);
        check_eq_int(h.released, 1);
        check_eq_int(f.hold_ends, 1);
        take(&f, FRAME_HELD, text, sizeof(text));
        check_has(text, "{\"us\":50");
        fake_run_ms(&f, 590);
        check_eq_int(f.interrupts, 0);
        fake_run_ms(&f, 20);
        check_eq_int(f.interrupts, 1);
        check_eq_int(h.gone, 0);
        fake_done(&f);
}

/* A worker that does not settle is stopped all the same. */
static void test_no_answer(void)
{
        struct fake f;
        struct end end;
        struct holder h;

        open_running(&f, &end, 0);
        hold(&f, &h);
        take(&f, FRAME_HOLD, NULL, 0);
        fake_run_ms(&f, HOLD_SETTLE_MS - 5);
        check_eq_int(f.holds, 0);
        fake_run_ms(&f, 10);
        check_eq_int(f.holds, 1);
        /* The monitor's answer to an earlier request does not count. */
        notice(&f, MONITOR_SESSION_HELD, f.hold_number - 1);
        check_eq_int(h.held, 0);
        fake_done(&f);
        check_eq_int(h.gone, 1);
}

static void test_two_holders(void)
{
        struct fake f;
        struct end end;
        struct holder a, b, late;

        open_running(&f, &end, 0);
        hold(&f, &a);
        hold(&f, &b);
        stop(&f);
        check_eq_int(a.held, 1);
        check_eq_int(b.held, 1);
        session_release(&a.request);
        /* One that comes meanwhile does not stand for the confirmation. */
        hold(&f, &late);
        fake_spin(&f);
        check_eq_int(late.held, 1);
        check_eq_int(a.released, 0);
        notice(&f, MONITOR_SESSION_HELD, f.hold_number);
        check_eq_int(a.released, 1);
        check_eq_int(f.hold_ends, 0);
        session_hold_drop(&late.request);
        session_hold_drop(&b.request);
        fake_spin(&f);
        check_eq_int(f.hold_ends, 1);
        check_eq_int(b.released + b.gone, 0);
        take(&f, FRAME_HELD, NULL, 0);

        /* Again. */
        hold(&f, &a);
        take(&f, FRAME_HOLD, NULL, 0);
        session_hold_drop(&a.request);
        fake_spin(&f);
        check_eq_int(f.hold_ends, 1); /* nothing was stopped */
        take(&f, FRAME_HELD, NULL, 0);
        fake_done(&f);
}

/* The session continues before it is interrupted. */
static void test_interrupt(void)
{
        struct fake f;
        struct end end;
        struct holder h;

        struct cell *running = open_running(&f, &end, 0);
        hold(&f, &h);
        stop(&f);
        cell_cancel(running);
        check_eq_int(f.hold_ends, 1);
        check_eq_int(f.interrupts, 1);
        check(!session_is_held(fake_session(&f)));
        check_eq_int(h.gone, 0);
        fake_spin(&f);
        check_eq_int(h.gone, 1);
        check_eq_str(h.why, "the code was interrupted");
        take(&f, FRAME_HELD, NULL, 0);
        session_release(&h.request); /* too late: nothing happens */
        fake_send(&f, FRAME_RESULT, cell, OK);
        check_eq_int(end.status, CELL_CANCELLED);
        fake_done(&f);
}

/* A stopped sandbox is killed as it is. */
static void test_the_end(void)
{
        struct fake f;
        struct end end;
        struct holder h;

        struct cell *running = open_running(&f, &end, 0);
        hold(&f, &h);
        stop(&f);
        cell_kill(running);
        check_eq_int(f.kills, 1);
        fake_spin(&f);
        check_eq_int(f.hold_ends, 0);
        check_eq_int(h.gone, 1);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.status, CELL_CANCELLED);
        fake_done(&f);
}

/* Code that continues itself ends its session; nothing is released. */
static void test_code_that_ran(void)
{
        struct fake f;
        struct end end;
        struct holder h;

        open_running(&f, &end, 0);
        hold(&f, &h);
        stop(&f);
        session_release(&h.request);
        notice(&f, MONITOR_SESSION_RAN, 0);
        check_eq_int(h.released, 0);
        check_eq_int(h.gone, 1);
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(end.status, CELL_KILLED);
        check_has(end.why, "its code continued its own processes");
        fake_done(&f);
}

static void test_a_monitor_that_cannot(void)
{
        const struct error error = {.code = EAGAIN};
        struct fake f;
        struct end end;
        struct holder h;

        open_running(&f, &end, 0);
        hold(&f, &h);
        take(&f, FRAME_HOLD, NULL, 0);
        fake_run_ms(&f, HOLD_SETTLE_MS + 5);
        fake_answer(f.sessions, MONITOR_SESSION_HOLD, 1, f.target, &error);
        fake_spin(&f);
        check_eq_int(h.gone, 1);
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        check_has(end.why, "could not be stopped");
        fake_done(&f);
}

/* The result may be on its way as the session is to be held. */
static void test_a_cell_that_ends(void)
{
        struct fake f;
        struct end end;
        struct holder h;
        struct error err = {};

        open_running(&f, &end, 0);
        hold(&f, &h);
        stop(&f);
        fake_send(&f, FRAME_RESULT, cell, OK);
        check_eq_int(end.count, 1);
        check_eq_int(h.gone, 1);
        check_eq_int(f.hold_ends, 1);
        take(&f, FRAME_HELD, NULL, 0);
        check_eq_int(session_hold(fake_session(&f), &h.request, &err), -ENOTCONN);
        fake_done(&f);
}

static void on_list(void *data, const struct file_answer *answer, const struct error *error)
{
}

static void test_files(void)
{
        struct fake f;
        struct end end;
        struct holder h;
        struct error err = {};

        open_running(&f, &end, 0);
        hold(&f, &h);
        stop(&f);
        check_eq_int(files_list(fake_session(&f), NULL, on_list, NULL, &err), -EBUSY);
        check_has(err.text, "stands still while a person decides");
        session_hold_drop(&h.request);
        fake_spin(&f);
        check_ok(files_list(fake_session(&f), NULL, on_list, NULL, &err));
        fake_done(&f);
}

/* A frame that the worker had begun as it was stopped may take as long as it stands still. */
static void test_half_a_frame(void)
{
        struct fake f;
        struct end end;
        struct holder h;

        open_running(&f, &end, 0);
        hold(&f, &h);
        stop(&f);
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_PAYLOAD_MAX);
        check_eq_int(frame_append(&b, FRAME_CALL, 7, CALL, strlen(CALL)), 0);
        check_eq_int(write(f.rpc, buffer_bytes(&b), 20), 20);
        fake_run_ms(&f, 3 * CHANNEL_FRAME_MS);
        check_eq_int(f.kills, 0);
        session_hold_drop(&h.request);
        fake_spin(&f);
        fake_run_ms(&f, CHANNEL_FRAME_MS - 100);
        check_eq_int(f.kills, 0);
        fake_run_ms(&f, 200);
        check_eq_int(f.kills, 1);
        fake_done(&f);
}

/* SETTLED that no HOLD was sent for. */
static void test_a_forged_answer(void)
{
        struct fake f;
        struct end end;

        open_running(&f, &end, 0);
        fake_send(&f, FRAME_SETTLED, 1, "{}");
        check_eq_int(f.kills, 1);
        fake_done(&f);
}

int main(void)
{
        run(test_a_decision);
        run(test_no_answer);
        run(test_two_holders);
        run(test_interrupt);
        run(test_the_end);
        run(test_code_that_ran);
        run(test_a_monitor_that_cannot);
        run(test_a_cell_that_ends);
        run(test_files);
        run(test_half_a_frame);
        run(test_a_forged_answer);
        return 0;
}
