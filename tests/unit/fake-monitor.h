/*
 * A monitor and a worker for tests of sessions: the test plays both. Everything runs in the test's own
 * process, so the clock is stopped (fake-clock.h) and moves only in fake_run_ms() and fake_until().
 */
#pragma once

#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "policy/config/add.h"
#include "rpc/frame.h"
#include "supervisor/session/sessions.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-tools.h"

/* A valid config. */
static inline struct config *fake_config(const char *text)
{
        struct config *config = config_new();
        struct error err = {};

        check(config);
        check_ok(config_add(config, "test.json", text, strlen(text), &err));
        check_ok(config_finish(config, &err));
        return config;
}

struct fake {
        struct event_base *base;
        struct config *config;
        struct sessions *sessions;
        int creates, interrupts, reminders, kills, freezes, thaws, rests, rest_ends, sweeps, keeps,
                restores, wakes, rollbacks;
        int swept;          /* of these, those that were answered */
        bool leaves_sweeps; /* unanswered */
        int holds, hold_ends;
        uint32_t hold_number; /* of the newest SESSION_HOLD */
        int asides, drops;
        uint32_t aside, dropped;            /* pids of the newest ones */
        uint32_t copy;                      /* pid of the newest keep */
        uint32_t instead[INIT_INSTEAD_MAX]; /* of it */
        uint32_t restored;                  /* pid of the newest restore */
        int counts;                         /* requests for the number of processes */
        int looks;                          /* of these, those that want files in any case */
        bool refuse_create;
        uint32_t profile;        /* of the newest request */
        uint32_t serial, target; /* newest */
        int rpc, out, err;       /* the worker's ends, of the newest sandbox */
        int cpu, memory;
        int changes;      /* init's end */
        struct buffer in; /* frames that the worker got */
};

/* Counts a request, which must be as its row in rpc/monitor-messages.def says. */
static inline int fake_request(void *data, const struct monitor_request *request, uint32_t *serial)
{
        struct fake *f = data;
        struct monitor_request sent = *request;
        bool flag = request->number == 1;

        sent.serial = 1;
        check_eq_int(monitor_request_check(&sent), 0);
        if (request->verb != MONITOR_SESSION_CREATE)
                check_eq_int(request->target, f->target);
        switch (request->verb) {
        case MONITOR_SESSION_CREATE:
                if (f->refuse_create)
                        return -EPIPE;
                f->creates++;
                f->profile = request->target;
                *serial = ++f->serial;
                return 0;
        case MONITOR_SESSION_INTERRUPT:
                *(flag ? &f->reminders : &f->interrupts) += 1;
                return 0;
        case MONITOR_SESSION_KILL:
                f->kills++;
                return 0;
        case MONITOR_SESSION_FREEZE:
                f->freezes++;
                return 0;
        case MONITOR_SESSION_THAW:
                f->thaws++;
                return 0;
        case MONITOR_SESSION_HOLD:
                f->holds += request->number > 0;
                f->hold_ends += request->number == 0;
                f->hold_number = request->number;
                return 0;
        case MONITOR_SESSION_REST:
                f->rests += request->number > 0;
                f->rest_ends += request->number == 0;
                return 0;
        case MONITOR_SESSION_SWEEP:
                f->sweeps++;
                return 0;
        case MONITOR_SESSION_KEEP:
                f->copy = request->number;
                memcpy(f->instead, request->instead, sizeof(f->instead));
                f->keeps++;
                return 0;
        case MONITOR_SESSION_KEEP_ASIDE:
                f->aside = request->number;
                f->asides++;
                return 0;
        case MONITOR_SESSION_DROP:
                f->dropped = request->number;
                f->drops++;
                return 0;
        case MONITOR_SESSION_RESTORE:
                f->restored = request->number;
                f->restores++;
                return 0;
        case MONITOR_SESSION_WAKE:
                f->wakes++;
                f->rollbacks += flag;
                return 0;
        case MONITOR_SESSION_COUNT:
                f->counts++;
                f->looks += flag;
                return 0;
        default:
                return -EOPNOTSUPP;
        }
}

/* An event of the monitor, as the link would pass it on: it must be as its row says. asked: the verb that it
 * answers; 0: none. */
static inline int fake_event(struct sessions *sessions, enum monitor_verb asked, uint32_t serial,
                             const struct monitor_event *event, const int *fds, size_t n_fds)
{
        struct monitor_message message = {
                .asked = {.verb = asked, .serial = serial, .target = event->target},
                .event = *event,
                .n_fds = n_fds};

        for (size_t i = 0; i < n_fds; i++)
                message.fds[i] = fds[i];
        check(monitor_event_check(&message.event, n_fds, &message.asked));
        check_eq_int(monitor_message_owner(&message), MONITOR_FOR_SESSIONS);
        return sessions_event(sessions, &message);
}

static inline int fake_answer(struct sessions *sessions, enum monitor_verb asked, uint32_t serial,
                              uint32_t target, const struct error *error)
{
        struct monitor_event event = {.kind = error ? MONITOR_FAILED : MONITOR_DONE,
                                      .target = target};

        if (error)
                event.error = *error;
        return fake_event(sessions, asked, serial, &event, NULL, 0);
}

static inline int fake_notice(struct sessions *sessions, const struct monitor_event event)
{
        return fake_event(sessions, MONITOR_VERB_NONE, 0, &event, NULL, 0);
}

static inline int sessions_started(struct sessions *sessions, uint32_t serial, uint32_t target,
                                   const int fds[SESSION_FDS])
{
        const struct monitor_event event = {.kind = MONITOR_SESSION_STARTED, .target = target};

        return fake_event(sessions, MONITOR_SESSION_CREATE, serial, &event, fds, SESSION_FDS);
}

static inline int sessions_failed(struct sessions *sessions, uint32_t serial,
                                  const struct error *error)
{
        return fake_answer(sessions, MONITOR_SESSION_CREATE, serial, 0, error);
}

static inline int sessions_kept(struct sessions *sessions, uint32_t target,
                                const struct error *error)
{
        return fake_answer(sessions, MONITOR_SESSION_KEEP, 1, target, error);
}

static inline int sessions_frozen(struct sessions *sessions, uint32_t target)
{
        return fake_answer(sessions, MONITOR_SESSION_FREEZE, 1, target, NULL);
}

static inline int fake_stopped(struct fake *f, uint32_t n)
{
        return fake_notice(f->sessions, (struct monitor_event){MONITOR_SESSION_STOPPED, 0,
                                                               f->target, .stopped = n});
}

static inline int sessions_ended(struct sessions *sessions, uint32_t target,
                                 const struct monitor_ended *ended)
{
        return fake_notice(sessions, (struct monitor_event){MONITOR_SESSION_ENDED, 0, target,
                                                            .ended = *ended});
}

static inline int sessions_cleared(struct sessions *sessions, uint32_t target,
                                   const struct monitor_ended *ended,
                                   const int fds[SESSION_COUNTERS])
{
        const struct monitor_event event = {
                .kind = MONITOR_SESSION_CLEARED, .target = target, .ended = *ended};

        return fake_event(sessions, MONITOR_VERB_NONE, 0, &event, fds, SESSION_COUNTERS);
}

static inline int sessions_gone(struct sessions *sessions, uint32_t target, uint32_t pid)
{
        return fake_notice(sessions,
                           (struct monitor_event){MONITOR_SESSION_GONE, 0, target, .copy = pid});
}

static inline int sessions_counted(struct sessions *sessions, uint32_t target,
                                   const struct monitor_counted *counted)
{
        return fake_notice(sessions, (struct monitor_event){MONITOR_SESSION_COUNTED, 0, target,
                                                            .counted = *counted});
}

static inline int sessions_memory(struct sessions *sessions, uint32_t target, uint64_t bytes)
{
        return fake_notice(sessions, (struct monitor_event){MONITOR_SESSION_MEMORY, 0, target,
                                                            .memory = bytes});
}

static const struct monitor_hello fake_hello = {
        .usage = MONITOR_USAGE_CGROUP1, .sessions_max = 4, .memory_max = 512 << 20};

static inline void fake_open(struct fake *f)
{
        const struct sandbox_requests requests = {f, fake_request, NULL};
        struct error err = {};

        fake_clock_skip_idle(true);
        *f = (struct fake){.rpc = -1, .out = -1, .err = -1, .cpu = -1, .memory = -1, .changes = -1};
        signal(SIGPIPE, SIG_IGN);
        buffer_init(&f->in, 256 * 1024 * 1024);
        f->base = event_base_new();
        f->config = config_new();
        check(f->base && f->config);
        fake_tools_reset("{\"servers\":[]}");
        check_ok(sessions_new(&f->sessions, f->base, f->config, &fake_hello, &fake_tool_provider,
                              &requests, &err));
}

static inline void fake_close_worker(struct fake *f)
{
        int *fds[] = {&f->rpc, &f->out, &f->err, &f->cpu, &f->memory, &f->changes};

        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                if (*fds[i] >= 0)
                        close(*fds[i]);
                *fds[i] = -1;
        }
        buffer_consume(&f->in, f->in.length);
}

static inline void fake_done(struct fake *f)
{
        f->sessions = sessions_free(f->sessions);
        fake_close_worker(f);
        event_base_free(f->base);
        config_free(f->config);
        buffer_done(&f->in);
        check_eq_int(fake_tools.n_calls, 0);
        buffer_done(&fake_tools.catalogue);
}

/* The session of most tests. */
static inline struct session *fake_session(struct fake *f)
{
        struct session *session = sessions_find(f->sessions, "default");

        check(session);
        return session;
}

static inline void fake_spin(struct fake *f)
{
        for (int i = 0; i < 20; i++)
                event_base_loop(f->base, EVLOOP_NONBLOCK);
        if (f->leaves_sweeps || f->swept == f->sweeps)
                return;
        f->swept = f->sweeps;
        fake_notice(f->sessions, (struct monitor_event){MONITOR_SESSION_SWEPT, 0, f->target});
}

/* Runs the loop for this time of the fake clock, one millisecond per turn. */
static inline void fake_run_ms(struct fake *f, int ms)
{
        for (int i = 0; i < ms; i++) {
                fake_clock_advance_ms(1);
                event_base_loop(f->base, EVLOOP_NONBLOCK);
        }
        fake_spin(f);
}

/* Runs the loop until the expression holds, for at most 20 s of the fake clock. */
#define fake_until(f, expr)                                                                        \
        do {                                                                                       \
                fake_spin(f);                                                                      \
                for (int i_ = 0; i_ < 20000 && !(expr); i_++)                                      \
                        fake_run_ms(f, 1);                                                         \
                check(expr);                                                                       \
        } while (0)

static inline void fake_set_counter(int fd, const char *text)
{
        check_eq_int(ftruncate(fd, 0), 0);
        check_eq_int(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

/* The monitor's answer to the newest request: a sandbox whose inner ends are in f. */
/* A peak that cannot be reset, as in version 2 before Linux 6.12. */
static inline int fake_peak(const struct fake *f)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/fd/%d", f->memory);
        return open(path, O_RDONLY | O_CLOEXEC);
}

static inline void fake_start(struct fake *f)
{
        int pair[2], out[2], err_pipe[2], changes[2];

        fake_close_worker(f);
        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        check_eq_int(pipe2(out, O_CLOEXEC), 0);
        check_eq_int(pipe2(err_pipe, O_CLOEXEC), 0);
        check_eq_int(pipe2(changes, O_CLOEXEC | O_NONBLOCK), 0);
        f->rpc = pair[1];
        f->out = out[1];
        f->err = err_pipe[1];
        f->changes = changes[1];
        f->cpu = memfd_create("cpu", MFD_CLOEXEC);
        f->memory = memfd_create("memory", MFD_CLOEXEC);
        fake_set_counter(f->cpu, "1000000\n");
        fake_set_counter(f->memory, "1048576\n");
        f->target = f->serial + 100;
        const int fds[SESSION_FDS] = {pair[0],     out[0],       err_pipe[0],   changes[0],
                                      dup(f->cpu), fake_peak(f), dup(f->memory)};
        check_eq_int(sessions_started(f->sessions, f->serial, f->target, fds), 0);
        fake_spin(f);
}

static inline void fake_end(struct fake *f, int wait_status, uint32_t oom_kills)
{
        const struct monitor_ended ended = {.wait_status = wait_status,
                                            .oom_kills = oom_kills,
                                            .cpu_usec = 9000,
                                            .memory_peak = 4096};

        check_eq_int(sessions_ended(f->sessions, f->target, &ended), 0);
        fake_spin(f);
}

/* The next frame that the worker gets; the payload is copied, NUL-terminated, into text (size
 * bytes). */
static inline struct frame_header fake_read(struct fake *f, char *text, size_t size)
{
        struct frame_header header;
        const char *payload;
        struct error err = {};
        int r = 0;

        for (int i = 0; i < 10000; i++) {
                r = frame_peek(&f->in, FRAME_PAYLOAD_MAX, &header, &payload, &err);
                if (r != 0)
                        break;
                struct pollfd p = {f->rpc, POLLIN, 0};
                if (poll(&p, 1, 1) == 1)
                        check(buffer_read_fd(&f->in, f->rpc, 1024 * 1024) > 0);
                event_base_loop(f->base, EVLOOP_NONBLOCK);
        }
        check_eq_int(r, 1);
        if (text) { /* an EXEC contains a zero byte */
                size_t n = header.length < size ? header.length : size - 1;
                memcpy(text, payload, n);
                text[n] = '\0';
        }
        buffer_consume(&f->in, frame_size(&header));
        return header;
}

static inline bool fake_has_frame(struct fake *f)
{
        struct pollfd p = {f->rpc, POLLIN, 0};

        fake_spin(f);
        return f->in.length > 0 || poll(&p, 1, 0) == 1;
}

static inline void fake_send_bytes(struct fake *f, const void *bytes, size_t n)
{
        const char *at = bytes;

        fd_set_nonblocking(f->rpc, 1);
        for (int i = 0; n > 0 && i < 100000; i++) {
                ssize_t sent = write(f->rpc, at, n);
                if (sent > 0) {
                        at += sent;
                        n -= (size_t)sent;
                }
                event_base_loop(f->base, EVLOOP_NONBLOCK);
        }
        check_eq_int(n, 0);
}

static inline void fake_send(struct fake *f, uint8_t type, uint64_t id, const char *payload)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_PAYLOAD_MAX + 100);

        check_eq_int(frame_append(&b, type, id, payload, strlen(payload)), 0);
        fake_send_bytes(f, buffer_bytes(&b), b.length);
        fake_spin(f);
}

/* Takes CATALOG, if one comes, and EXEC. Returns the cell's number. */
static inline uint64_t fake_take_exec(struct fake *f, char *text, size_t size)
{
        struct frame_header header = fake_read(f, text, size);

        if (header.type == FRAME_CATALOG)
                header = fake_read(f, text, size);
        check_eq_str(frame_type_name(header.type), "EXEC");
        return header.id;
}
