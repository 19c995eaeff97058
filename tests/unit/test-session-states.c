/* Every event in every state of a session: the state that follows, by table. */
#include "supervisor/session/actions.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "supervisor/session/machine/queue.h"
#include "supervisor/session/session.h"
#include "supervisor/session/state/copies.h"
#include "tests/unit/fake-tools.h"

enum { TARGET = 7, COPY_PID = 41, SERIAL = 3 };

struct world {
        struct session_context context;
        struct session *session;
        int offer; /* what get_sandbox() returns */
        struct session_principals principals;
        struct session_principal principal;
        int rpc, out, error; /* the worker's ends */
        int done, kills, freezes, thaws, keeps, restores, wakes;
        enum session_state told; /* by state_changed() */
};

static int on_request(void *data, const struct monitor_request *request, uint32_t *serial)
{
        struct world *w = data;

        check_eq_int(request->target, TARGET);
        w->kills += request->verb == MONITOR_SESSION_KILL;
        w->freezes += request->verb == MONITOR_SESSION_FREEZE;
        w->thaws += request->verb == MONITOR_SESSION_THAW;
        w->restores += request->verb == MONITOR_SESSION_RESTORE;
        w->wakes += request->verb == MONITOR_SESSION_WAKE;
        if (request->verb == MONITOR_SESSION_KEEP) {
                check_eq_int(request->number, 77);
                w->keeps++;
        }
        return request->verb == MONITOR_SESSION_COUNT ? -EOPNOTSUPP : 0;
}

static int get_sandbox(void *data, const struct session *session, size_t profile,
                       struct sandbox_offered *ret, struct error *err)
{
        struct world *w = data;

        ret->serial = SERIAL;
        return w->offer;
}

static void state_changed(void *data, struct session *session, enum session_state before)
{
        struct world *w = data;

        check_eq_int(before, w->told);
        w->told = session_state(session);
}

static bool give_back(void *data, const struct session *session, uint32_t target,
                      const int fds[SESSION_FDS])
{
        return false;
}

static void spin(struct world *w)
{
        for (int i = 0; i < 3; i++)
                event_base_loop(w->context.base, EVLOOP_NONBLOCK);
}

static void on_done(void *data, struct cell *cell)
{
        struct world *w = data;

        w->done++;
}

static struct cell *push_cell(struct world *w)
{
        const struct cell_request request = {
                .code = "1", .code_length = 1, .done = on_done, .data = w};
        struct error err = {};
        struct cell *cell;

        check_ok(cell_new(&cell, &request, &err));
        session_push(w->session, cell);
        return cell;
}

static void start_sandbox(struct world *w)
{
        int pair[2], out[2], error[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        check_eq_int(pipe2(out, O_CLOEXEC), 0);
        check_eq_int(pipe2(error, O_CLOEXEC), 0);
        const int fds[SESSION_FDS] = {pair[0],      out[0],       error[0],    -1,
                                      dup(pair[0]), dup(pair[0]), dup(pair[0])};
        if (w->rpc >= 0) { /* an event that is ignored */
                close(pair[1]);
                close(out[1]);
                close(error[1]);
        } else {
                w->rpc = pair[1];
                w->out = out[1];
                w->error = error[1];
        }
        session_dispatch_fds(w->session, EVENT_STARTED,
                             &(struct session_details){.target = TARGET, .fds = fds}, SESSION_FDS);
}

static void open_world(struct world *w)
{
        struct error err = {};

        *w = (struct world){.rpc = -1, .out = -1, .error = -1};
        fake_tools_reset("{\"servers\":[]}");
        w->context = (struct session_context){
                .base = event_base_new(),
                .config = config_new(),
                .hello = {.usage = MONITOR_USAGE_CGROUP1, .memory_max = 512 << 20},
                .requests = {w, on_request, NULL},
                .tools = fake_tool_provider,
                .owner = {w, get_sandbox, state_changed, .give_back = give_back},
        };
        w->context.config->top.freeze_ms = 1000;
        w->principal.all = &w->principals;
        check_ok(session_new(&w->session, &w->context, "s", &w->principal, &err));
}

static void close_world(struct world *w)
{
        session_free(w->session);
        check_eq_int(w->told, SESSION_NONE);
        int fds[] = {w->rpc, w->out, w->error};
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                if (fds[i] >= 0)
                        close(fds[i]);
        config_free(w->context.config);
        event_base_free(w->context.base);
        buffer_done(&fake_tools.catalogue);
}

static void clear(struct world *w)
{
        const struct monitor_ended ended = {.wait_status = SIGKILL, .copy = COPY_PID};
        const int fds[SESSION_COUNTERS] = {dup(w->rpc), dup(w->rpc), dup(w->rpc)};

        session_dispatch_fds(w->session, EVENT_CLEARED,
                             &(struct session_details){.ended = &ended, .fds = fds},
                             SESSION_COUNTERS);
}

static void add_copy(struct session *s)
{
        s->copies->list[0] = (struct copy){.pid = COPY_PID, .id = 1, .of = 1};
        s->copies->n = s->copies->wanted = 1;
}

/* Brings a new session into this state, the way it gets there in life. */
static void reach(struct world *w, enum session_state state)
{
        struct session *s = w->session;

        w->offer = state == SESSION_QUEUED ? SANDBOX_NONE : SANDBOX_COMING;
        if (state == SESSION_NONE)
                return;
        session_end_by_owner(s, true, "the test"); /* a sandbox without a cell */
        session_dispatch(s, EVENT_WAKE, NULL);
        if (state == SESSION_QUEUED || state == SESSION_CREATING)
                return;
        if (state == SESSION_DISCARDING) {
                session_end_by_owner(s, false, "the test");
                return;
        }
        start_sandbox(w);
        spin(w);
        if (state == SESSION_IDLE)
                return;
        if (state == SESSION_FREEZING || state == SESSION_FROZEN) {
                session_dispatch(s, EVENT_TIMER, NULL);
                if (state == SESSION_FROZEN)
                        session_dispatch(s, EVENT_FROZEN, NULL);
                return;
        }
        static const struct config_profile profile = {.survives = true};
        if (state == SESSION_KEEPING || state == SESSION_RESTORING || state == SESSION_WAKING)
                s->profile = &profile;
        struct cell *cell = push_cell(w);
        spin(w);
        if (state == SESSION_KEEPING) {
                session_dispatch(s, EVENT_RESULT, NULL);
                session_dispatch(s, EVENT_TIMER, NULL);
                return;
        }
        if (state == SESSION_RESTORING || state == SESSION_WAKING)
                add_copy(s);
        if (state == SESSION_WAKING)
                clear(w);
        if (state == SESSION_RESTORING) {
                cell_cancel(cell);
                session_dispatch(s, EVENT_TIMER, NULL);
        }
        if (state == SESSION_SWEEPING || state == SESSION_SETTLING || state == SESSION_INTERRUPTING)
                cell_cancel(cell);
        if (state == SESSION_SWEEPING || state == SESSION_SETTLING)
                session_dispatch(s, EVENT_RESULT, NULL);
        if (state == SESSION_SETTLING)
                session_dispatch(s, EVENT_SWEPT, NULL);
        if (state == SESSION_CLOSED)
                session_dispatch(s, EVENT_CLOSED,
                                 &(struct session_details){.error = &(struct error){}});
        if (state == SESSION_KILLING)
                cell_kill(cell);
        if (state == SESSION_DRAINING) /* it is left within one call */
                s->state = w->told = SESSION_DRAINING;
}

enum column {
        WAKE,
        CELL, /* a wake with a cell in the queue */
        PLACE,
        STARTED,
        FAILED,
        ENDED,
        FROZEN,
        TIMER,
        RESULT,
        CLOSED,
        BROKEN, /* closed, with an error */
        CANCEL,
        KILL,
        OWNER_END,
        NEEDED,
        COPY,
        CLEARED,
        RESTORED,
        BACK,
        GONE,
        STOPPED,
        SWEPT,
        COLUMNS
};

static void post(struct world *w, enum column column)
{
        static const enum session_event events[COLUMNS] = {
                [WAKE] = EVENT_WAKE,           [CELL] = EVENT_WAKE,         [PLACE] = EVENT_PLACE,
                [FAILED] = EVENT_FAILED,       [ENDED] = EVENT_ENDED,       [FROZEN] = EVENT_FROZEN,
                [TIMER] = EVENT_TIMER,         [RESULT] = EVENT_RESULT,     [CLOSED] = EVENT_CLOSED,
                [BROKEN] = EVENT_CLOSED,       [CANCEL] = EVENT_CANCEL,     [KILL] = EVENT_KILL,
                [OWNER_END] = EVENT_OWNER_END, [NEEDED] = EVENT_NEEDED,     [COPY] = EVENT_COPY,
                [CLEARED] = EVENT_CLEARED,     [RESTORED] = EVENT_RESTORED, [BACK] = EVENT_BACK,
                [GONE] = EVENT_GONE,           [STOPPED] = EVENT_STOPPED,   [SWEPT] = EVENT_SWEPT,
        };
        const struct monitor_ended ended = {.wait_status = SIGKILL};
        const struct error none = {}, error = {.code = EPROTO, .text = "no frame"};
        const struct session_details details = {
                .ended = &ended,
                .error = column == BROKEN || column == FAILED ? &error : &none,
        };

        if (column == STARTED) {
                start_sandbox(w);
                return;
        }
        if (column == CLEARED) {
                clear(w);
                return;
        }
        if (column == CELL)
                push_cell(w);
        if (column == BACK)
                add_copy(w->session);
        session_dispatch(w->session, events[column], &details);
}

/* One letter for each state, in their order. */
static const char letters[] = "NQCDIkzZWSRXrwLKG";
static_assert(sizeof(letters) - 1 == SESSION_STATE_MAX, "a letter for each state");

/* A CLEARED where no copy is known ends the sandbox. */
static const char *const expected[SESSION_STATE_MAX] = {
        /* WAKE CELL PLACE STARTED FAILED ENDED FROZEN TIMER RESULT CLOSED BROKEN CANCEL KILL
         * OWNER_END NEEDED COPY CLEARED RESTORED BACK GONE STOPPED SWEPT */
        [SESSION_NONE] = /*         */ "NCNNNNNNNNNNNNNNNNNNNN",
        [SESSION_QUEUED] = /*       */ "QQNQQQQQQQQQQQQQQQQQQQ",
        [SESSION_CREATING] = /*     */ "CCCINCCCCCCCCDCCCCCCCC",
        [SESSION_DISCARDING] = /*   */ "DDDKNDDDDDDDDDDDDDDDDD",
        [SESSION_IDLE] = /*         */ "IRIIINIzILKIIKIIKIrIZI",
        [SESSION_KEEPING] = /*      */ "kkkkkNkIkLKkkKkIKkkkkk",
        [SESSION_FREEZING] = /*     */ "zRzzzNZKzLKzzKIzKzrzZz",
        [SESSION_FROZEN] = /*       */ "ZRZZZNZKZLKZZKIZKZrZZZ",
        [SESSION_SWEEPING] = /*     */ "WWWWWNWSWLKWWKWWKWWWWS",
        [SESSION_SETTLING] = /*     */ "SSSSSNSISLKSSKSSKSSSSS",
        [SESSION_RUNNING] = /*      */ "RRRRRNRXILKXKKRRKRrRRR",
        [SESSION_INTERRUPTING] = /* */ "XXXXXNXKWLKXKKXXKXrXXX",
        [SESSION_RESTORING] = /*    */ "rrrrrNrKrLKrKKrrwrrrrr",
        [SESSION_WAKING] = /*       */ "wwwwwNwKwKKwKKwwKkwwww",
        [SESSION_CLOSED] = /*       */ "LLLLLNLKLLLLLKLLLLLLLL",
        [SESSION_KILLING] = /*      */ "KKKKKNKKKKKKKKKKKKKKKK",
        [SESSION_DRAINING] = /*     */ "GGGGGGGGGGGGGGGGGGGGGG",
};

static void test_every_event_in_every_state(void)
{
        for (enum session_state state = 0; state < SESSION_STATE_MAX; state++) {
                check_eq_int(strlen(expected[state]), COLUMNS);
                for (enum column column = 0; column < COLUMNS; column++) {
                        struct world w;

                        open_world(&w);
                        reach(&w, state);
                        check_eq_int(session_state(w.session), state);
                        post(&w, column);
                        char letter = letters[session_state(w.session)];
                        if (letter != expected[state][column])
                                test_fail_("state %d, event %d: %c instead of %c", state, column,
                                           letter, expected[state][column]);
                        check_eq_int(w.told, session_state(w.session));
                        spin(&w);
                        check(session_state(w.session) < SESSION_STATE_MAX);
                        check(session_state_name(session_state(w.session)));
                        close_world(&w);
                }
        }
}

/* Requests to the monitor between the states. */
static void test_requests(void)
{
        struct world w;

        open_world(&w);
        reach(&w, SESSION_FROZEN);
        check_eq_int(w.freezes, 1);
        post(&w, NEEDED);
        check_eq_int(w.thaws, 1);
        post(&w, NEEDED); /* thawed once */
        check_eq_int(w.thaws, 1);
        post(&w, OWNER_END);
        post(&w, OWNER_END);
        check_eq_int(w.kills, 1); /* killed once */
        close_world(&w);
}

/* The processor time of a rest is used up while a copy is made. Control: the news of a rest that a call has ended. */
static void test_stopped_while_it_is_copied(void)
{
        for (int rests = 0; rests < 2; rests++) {
                const struct session_details stopped = {.stopped = 3};
                struct world w;

                open_world(&w);
                reach(&w, SESSION_KEEPING);
                w.session->rest.is_on = rests;
                session_dispatch(w.session, EVENT_STOPPED, &stopped);
                check_eq_int(session_state(w.session), rests ? SESSION_FROZEN : SESSION_KEEPING);
                check_eq_int(w.session->rest.stopped, rests ? 3 : 0);
                w.session->rest.is_on = false;
                push_cell(&w);
                spin(&w);
                check_eq_int(session_state(w.session), rests ? SESSION_RUNNING : SESSION_KEEPING);
                close_world(&w);
        }
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        run(test_every_event_in_every_state);
        run(test_requests);
        run(test_stopped_while_it_is_copied);
        return 0;
}
