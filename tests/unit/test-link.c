/* The link to the monitor: the messages that the broker accepts, and those that end the link. */
#include "supervisor/broker/link.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/config/config.h"
#include "tests/unit/test.h"

struct world {
        struct event_base *base;
        struct link *link;
        int monitor, broker; /* the two ends */
        int started, failed, ended, upstreams_started, upstreams_failed, upstreams_ended, closed,
                limits;
        uint32_t serial, target, index;
        int frozen, cleared, gone, kept, not_kept, counted, memories;
        int reloads, failed_with, networks;
        size_t n_files;
        uint32_t generation;
        bool broken; /* closed with an error */
        char text[256];
};

/* Stores the members of each message. Closes its descriptors. */
static void on_event(void *data, const struct monitor_message *message)
{
        const struct monitor_event *event = &message->event;
        const struct monitor_request *asked = &message->asked;
        bool has_failed = event->kind == MONITOR_FAILED;
        struct world *w = data;

        for (size_t i = 0; i < message->n_fds; i++)
                check_eq_int(close(message->fds[i]), 0);
        check(monitor_message_owner(message) != MONITOR_FOR_LINK);
        w->target = event->target;
        w->serial = event->serial;
        if (asked->verb) {
                check_eq_int(asked->serial, event->serial);
                w->index = asked->target;
        }
        if (has_failed) {
                w->failed_with = event->error.code;
                snprintf(w->text, sizeof(w->text), "%.200s", event->error.text);
        }
        switch (asked->verb) {
        case MONITOR_SESSION_CREATE:
                *(has_failed ? &w->failed : &w->started) += 1;
                return;
        case MONITOR_UPSTREAM_START:
                check_eq_int(monitor_message_owner(message), MONITOR_FOR_SERVERS);
                *(has_failed ? &w->upstreams_failed : &w->upstreams_started) += 1;
                return;
        case MONITOR_SESSION_FREEZE:
                check_eq_int(asked->target, 12);
                w->frozen += !has_failed;
                return;
        case MONITOR_SESSION_KEEP:
                check_eq_int(asked->target, 12);
                *(has_failed ? &w->not_kept : &w->kept) += 1;
                return;
        case MONITOR_VERB_NONE:
                break;
        default:
                return;
        }
        switch (event->kind) {
        case MONITOR_SESSION_ENDED:
                w->ended++;
                check_eq_int(event->ended.wait_status, 9);
                return;
        case MONITOR_SESSION_CLEARED:
                w->cleared++;
                check_eq_int(event->ended.wait_status, 11);
                check_eq_int(event->ended.copy, 41);
                check_eq_int(message->n_fds, SESSION_COUNTERS);
                return;
        case MONITOR_SESSION_GONE:
                w->gone++;
                check_eq_int(event->copy, 43);
                return;
        case MONITOR_SESSION_COUNTED:
                w->counted++;
                check_eq_int(event->counted.last_pid, 77);
                check_eq_int(event->counted.own, 2);
                return;
        case MONITOR_SESSION_MEMORY:
                w->memories++;
                check_eq_int(event->memory, 5 << 20);
                return;
        case MONITOR_UPSTREAM_ENDED:
                w->upstreams_ended++;
                check_eq_int(event->wait_status, 256);
                return;
        case MONITOR_LIMITS:
                w->limits++;
                check_eq_int(event->target, MONITOR_USAGE_CGROUP2);
                return;
        case MONITOR_SESSION_NETWORK:
                w->networks++;
                check_eq_int(message->n_fds, 1);
                return;
        default:
                check(false);
        }
}

static void on_reloaded(void *data, const struct monitor_hello *hello,
                        const struct link_config_file *files, size_t n)
{
        struct world *w = data;

        w->reloads++;
        w->n_files = n;
        w->generation = hello->generation;
        for (size_t i = 0; i < n; i++)
                check_eq_int(close(files[i].fd), 0);
}

static void on_closed(void *data, const struct error *error)
{
        struct world *w = data;

        w->closed++;
        w->broken = error_is_set(error);
        snprintf(w->text, sizeof(w->text), "%.200s", error->text);
}

static void open_world(struct world *w)
{
        const struct link_owner owner = {w, on_event, on_reloaded, on_closed};
        struct error err = {};
        int fds[2];

        *w = (struct world){.generation = 77};
        check_eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        w->monitor = fds[0];
        w->broker = fds[1];
        w->base = event_base_new();
        check_ok(link_new(&w->link, w->base, w->broker, 77, &owner, &err));
}

static void close_world(struct world *w)
{
        link_free(w->link);
        event_base_free(w->base);
        if (w->monitor >= 0)
                close(w->monitor);
        close(w->broker);
}

static void spin(struct world *w)
{
        for (int i = 0; i < 5; i++)
                event_base_loop(w->base, EVLOOP_NONBLOCK);
}

static void tell(struct world *w, struct monitor_event event, size_t n_fds)
{
        int fds[FD_MESSAGE_MAX];

        for (size_t i = 0; i < n_fds; i++)
                fds[i] = w->monitor;
        check_eq_int(fd_send(w->monitor, &event, sizeof(event), fds, n_fds, 0), 0);
        spin(w);
}

static int send_request(struct world *w, enum monitor_verb verb, uint32_t target, uint32_t *serial)
{
        return link_request(w->link, &(struct monitor_request){.verb = verb, .target = target},
                            serial);
}

static uint32_t ask(struct world *w, enum monitor_verb verb, uint32_t target)
{
        struct monitor_request request;
        uint32_t serial = 0;

        check_eq_int(send_request(w, verb, target, &serial), 0);
        check_eq_int(recv(w->monitor, &request, sizeof(request), MSG_DONTWAIT), sizeof(request));
        check_eq_int(request.verb, verb);
        check_eq_int(request.serial, serial);
        check_eq_int(request.target, target);
        check_eq_int(request.generation, w->generation);
        check(serial != 0);
        return serial;
}

static void test_answers(void)
{
        struct world w;

        open_world(&w);
        uint32_t first = ask(&w, MONITOR_SESSION_CREATE, 0),
                 second = ask(&w, MONITOR_SESSION_CREATE, 0);
        tell(&w, (struct monitor_event){MONITOR_SESSION_STARTED, second, 12}, SESSION_FDS);
        check_eq_int(w.started, 1);
        check_eq_int(w.serial, second);
        check_eq_int(w.target, 12);
        tell(&w, (struct monitor_event){MONITOR_FAILED, first, .error = {EPERM, "not here"}}, 0);
        check_eq_int(w.failed, 1);
        check_eq_int(w.serial, first);
        check_eq_str(w.text, "not here");

        tell(&w,
             (struct monitor_event){MONITOR_UPSTREAM_STARTED, ask(&w, MONITOR_UPSTREAM_START, 5),
                                    9},
             3);
        check_eq_int(w.upstreams_started, 1);
        check_eq_int(w.index, 5);
        check_eq_int(w.target, 9);
        tell(&w,
             (struct monitor_event){MONITOR_FAILED, ask(&w, MONITOR_UPSTREAM_START, 6),
                                    .error = {ENOENT, "npx"}},
             0);
        check_eq_int(w.upstreams_failed, 1);
        check_eq_int(w.index, 6);
        tell(&w, (struct monitor_event){MONITOR_DONE, ask(&w, MONITOR_SESSION_KILL, 12)}, 0);
        tell(&w,
             (struct monitor_event){MONITOR_FAILED, ask(&w, MONITOR_SESSION_INTERRUPT, 12),
                                    .error = {ESRCH, "gone"}},
             0);
        check_eq_int(w.frozen, 0);
        tell(&w, (struct monitor_event){MONITOR_DONE, ask(&w, MONITOR_SESSION_FREEZE, 12)}, 0);
        check_eq_int(w.frozen, 1);
        tell(&w, (struct monitor_event){MONITOR_DONE, ask(&w, MONITOR_SESSION_THAW, 12)}, 0);
        tell(&w,
             (struct monitor_event){MONITOR_FAILED, ask(&w, MONITOR_SESSION_FREEZE, 12),
                                    .error = {EOPNOTSUPP, "not here"}},
             0);
        check_eq_int(w.frozen, 1);
        tell(&w, (struct monitor_event){MONITOR_DONE, ask(&w, MONITOR_SESSION_KEEP, 12)}, 0);
        check_eq_int(w.kept, 1);
        tell(&w,
             (struct monitor_event){MONITOR_FAILED, ask(&w, MONITOR_SESSION_KEEP, 12),
                                    .error = {ENOMEM, "too large"}},
             0);
        check_eq_int(w.not_kept, 1);
        tell(&w, (struct monitor_event){MONITOR_DONE, ask(&w, MONITOR_SESSION_RESTORE, 12)}, 0);
        tell(&w,
             (struct monitor_event){MONITOR_SESSION_CLEARED, 0, 12,
                                    .ended = {.wait_status = 11, .copy = 41}},
             SESSION_COUNTERS);
        check_eq_int(w.cleared, 1);
        tell(&w, (struct monitor_event){MONITOR_DONE, ask(&w, MONITOR_SESSION_WAKE, 12)}, 0);
        tell(&w, (struct monitor_event){MONITOR_SESSION_GONE, 0, 12, .copy = 43}, 0);
        check_eq_int(w.gone, 1);
        tell(&w, (struct monitor_event){MONITOR_DONE, ask(&w, MONITOR_SESSION_COUNT, 12)}, 0);
        check_eq_int(w.counted, 0);
        tell(&w, (struct monitor_event){MONITOR_SESSION_COUNTED, 0, 12, .counted = {77, 2}}, 0);
        check_eq_int(w.counted, 1);
        tell(&w, (struct monitor_event){MONITOR_SESSION_MEMORY, 0, 12, .memory = 5 << 20}, 0);
        check_eq_int(w.memories, 1);
        tell(&w, (struct monitor_event){MONITOR_SESSION_ENDED, 0, 12, .ended.wait_status = 9}, 0);
        check_eq_int(w.ended, 1);
        tell(&w, (struct monitor_event){MONITOR_UPSTREAM_ENDED, 0, 9, 256}, 0);
        check_eq_int(w.upstreams_ended, 1);
        check_eq_int(w.closed, 0);
        close(w.monitor);
        w.monitor = -1;
        spin(&w);
        check_eq_int(w.closed, 1);
        check(!w.broken);
        check_eq_int(send_request(&w, MONITOR_SESSION_CREATE, 0, NULL), -EPIPE);
        close_world(&w);
}

static void test_limits(void)
{
        struct world w;

        open_world(&w);
        tell(&w, (struct monitor_event){MONITOR_LIMITS, 0, MONITOR_USAGE_CGROUP2}, 0);
        check_eq_int(w.limits, 1);
        check_eq_int(w.closed, 0);
        tell(&w, (struct monitor_event){MONITOR_LIMITS, 0, MONITOR_USAGE_MAX}, 0);
        check_eq_int(w.limits, 1);
        check(w.closed && w.broken);
        close_world(&w);
}

static void test_network(void)
{
        struct world w;

        open_world(&w);
        tell(&w, (struct monitor_event){MONITOR_SESSION_NETWORK, 0, 12}, 1);
        check_eq_int(w.networks, 1);
        check_eq_int(w.target, 12);
        check_eq_int(w.closed, 0);
        tell(&w, (struct monitor_event){MONITOR_SESSION_NETWORK, 0, 12}, 0);
        check_eq_int(w.networks, 1);
        check(w.closed && w.broken);
        close_world(&w);
}

/* Each of these ends the link, and leaks no descriptor. */
static void test_violations(void)
{
        static const struct {
                enum monitor_verb asked;
                uint32_t kind;
                bool own_serial; /* answers the request; else an unused serial */
                size_t n_fds;
        } cases[] = {
                {MONITOR_SESSION_CREATE, MONITOR_SESSION_STARTED, false, 5},
                {MONITOR_SESSION_CREATE, MONITOR_SESSION_STARTED, true, 4},
                {MONITOR_SESSION_CREATE, MONITOR_UPSTREAM_STARTED, true, 3},
                {MONITOR_SESSION_CREATE, MONITOR_DONE, true, 0},
                {MONITOR_SESSION_KILL, MONITOR_SESSION_STARTED, true, 5},
                {MONITOR_UPSTREAM_START, MONITOR_DONE, true, 0},
                {MONITOR_SESSION_KILL, MONITOR_DONE, true, 1},
                {MONITOR_SESSION_KILL, MONITOR_SESSION_ENDED, true, 0},
                {MONITOR_SESSION_KILL, MONITOR_HELLO, true, 0},
                {MONITOR_SESSION_KILL, 0, true, 0},
                {MONITOR_SESSION_KILL, 1000, true, 0},
                {MONITOR_SESSION_CREATE, MONITOR_SESSION_NETWORK, true, 1},
                {MONITOR_SESSION_CREATE, MONITOR_SESSION_NETWORK, true, 0},
        };
        int before = dup(0);

        close(before);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct world w;
                open_world(&w);
                uint32_t serial = ask(&w, cases[i].asked, 1);
                tell(&w, (struct monitor_event){cases[i].kind, cases[i].own_serial ? serial : 4711},
                     cases[i].n_fds);
                check_eq_int(w.closed, 1);
                check(w.broken);
                check_eq_int(w.started + w.upstreams_started, 0);
                close_world(&w);
        }
        int after = dup(0);
        close(after);
        check_eq_int(after, before);
}

/* Each pair of a request and an event: the event answers it only if its row names it. */
static void test_every_pair(void)
{
        static const struct {
                enum monitor_verb verb;
                enum monitor_event_kind answer;
        } requests[] = {
#define MONITOR_REQUEST(name, owner, target, number, instead, answer, text)                        \
        {MONITOR_##name, MONITOR_##answer},
#include "rpc/monitor-messages.def"
        };
        static const size_t n_fds[] = {
#define MONITOR_EVENT(name, legal, owner, target, fds, ...) [MONITOR_##name] = fds,
#include "rpc/monitor-messages.def"
        };

        for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
                for (uint32_t kind = 1; kind < MONITOR_EVENT_MAX; kind++) {
                        for (size_t more = 0; more < 2; more++) {
                                struct world w;
                                open_world(&w);
                                uint32_t serial = ask(&w, requests[i].verb, 12);
                                tell(&w, (struct monitor_event){kind, serial, 12},
                                     n_fds[kind] + more);
                                bool allowed = more == 0 && (kind == requests[i].answer ||
                                                             kind == MONITOR_FAILED);
                                check_eq_int(w.closed, !allowed);
                                check_eq_int(w.broken, !allowed);
                                close_world(&w);
                        }
                }
        }
}

/* The ranges of the members of requests. */
static void test_requests(void)
{
        static const struct {
                struct monitor_request request;
                int result;
        } cases[] = {
                {{.verb = MONITOR_VERB_NONE, .serial = 1}, -EPROTO},
                {{.verb = MONITOR_VERB_MAX, .serial = 1}, -EPROTO},
                {{.verb = MONITOR_SESSION_KILL}, -EPROTO},
                {{.verb = MONITOR_SESSION_KILL, .serial = 1}, 0},
                {{.verb = MONITOR_SESSION_KILL, .serial = 1, .number = 1}, -EINVAL},
                {{.verb = MONITOR_SESSION_KILL, .serial = 1, .instead = {2}}, -EINVAL},
                {{.verb = MONITOR_SESSION_KILL, .serial = 1, .principal = {1}}, -EINVAL},
                {{.verb = MONITOR_SESSION_CREATE, .serial = 1, .principal = {1, 2, 3, 4}}, 0},
                {{.verb = MONITOR_SESSION_CREATE, .serial = 1, .number = (1 << 30) - 1}, 0},
                {{.verb = MONITOR_SESSION_CREATE, .serial = 1, .number = 1 << 30}, -EINVAL},
                {{.verb = MONITOR_INSTALLER_START, .serial = 1, .number = 1}, -EINVAL},
                {{.verb = MONITOR_INSTALLER_START, .serial = 1, .principal = {1, 2, 3, 4}}, 0},
                {{.verb = MONITOR_UPSTREAM_START, .serial = 1, .principal = {1}}, -EINVAL},
                {{.verb = MONITOR_SESSION_WAKE, .serial = 1, .number = 1}, 0},
                {{.verb = MONITOR_SESSION_WAKE, .serial = 1, .number = 2}, -EINVAL},
                {{.verb = MONITOR_SESSION_DROP, .serial = 1, .number = 2}, 0},
                {{.verb = MONITOR_SESSION_DROP, .serial = 1, .number = 0}, -ESRCH},
                {{.verb = MONITOR_SESSION_DROP, .serial = 1, .number = 1}, -ESRCH},
                {{.verb = MONITOR_SESSION_DROP, .serial = 1, .number = 0x80000000}, -ESRCH},
                {{.verb = MONITOR_SESSION_RESTORE, .serial = 1, .number = 0}, 0},
                {{.verb = MONITOR_SESSION_RESTORE, .serial = 1, .number = 1}, -ESRCH},
                {{.verb = MONITOR_SESSION_KEEP, .serial = 1, .number = 2, .instead = {0, 3}}, 0},
                {{.verb = MONITOR_SESSION_KEEP, .serial = 1, .number = 2, .instead = {1, 3}},
                 -ESRCH},
                {{.verb = MONITOR_SESSION_KEEP_ASIDE, .serial = 1, .number = 2, .instead = {0, 3}},
                 -EINVAL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                check_eq_int(monitor_request_check(&cases[i].request), cases[i].result);
        check_eq_str(monitor_verb_name(MONITOR_SESSION_DROP), "SESSION_DROP");
        check_eq_str(monitor_event_name(MONITOR_EVENT_MAX), "?");
}

static struct monitor_event greeting(uint32_t generation, uint32_t files)
{
        return (struct monitor_event){.kind = MONITOR_HELLO,
                                      .hello = {.generation = generation, .config_files = files}};
}

static void test_reload(void)
{
        struct world w;

        open_world(&w);
        uint32_t upstream = ask(&w, MONITOR_UPSTREAM_START, 5),
                 late = ask(&w, MONITOR_UPSTREAM_START, 6),
                 session = ask(&w, MONITOR_SESSION_CREATE, 0);
        tell(&w, greeting(78, 2), 0);
        tell(&w, (struct monitor_event){MONITOR_CONFIG_FILE}, 1);
        tell(&w, (struct monitor_event){MONITOR_CONFIG_FILE}, 1);
        check_eq_int(w.reloads, 0);
        /* The old config is used until the new one is complete. */
        ask(&w, MONITOR_SESSION_KILL, 1);
        tell(&w, (struct monitor_event){MONITOR_READY}, 0);
        check_eq_int(w.reloads, 1);
        check_eq_int(w.n_files, 2);
        check_eq_int(w.generation, 78);
        uint32_t new = ask(&w, MONITOR_SESSION_CREATE, 0);

        /* A request of the old generation fails with ESTALE; a server was started again already. */
        tell(&w, (struct monitor_event){MONITOR_FAILED, session, .error = {ESTALE, "old"}}, 0);
        check_eq_int(w.failed_with, ESTALE);
        tell(&w, (struct monitor_event){MONITOR_FAILED, new, .error = {ESTALE, "a template"}}, 0);
        check_eq_int(w.failed_with, EIO);
        tell(&w, (struct monitor_event){MONITOR_FAILED, upstream, .error = {ESTALE, "old"}}, 0);
        check_eq_int(w.upstreams_failed, 0);
        struct monitor_request request;
        tell(&w, (struct monitor_event){MONITOR_UPSTREAM_STARTED, late, 31}, 3);
        check_eq_int(w.upstreams_started, 0);
        check_eq_int(recv(w.monitor, &request, sizeof(request), MSG_DONTWAIT), sizeof(request));
        check_eq_int(request.verb, MONITOR_UPSTREAM_STOP);
        check_eq_int(request.target, 31);
        tell(&w, greeting(80, 0), 0);
        tell(&w, (struct monitor_event){MONITOR_READY}, 0);
        check_eq_int(w.reloads, 2);
        check_eq_int(w.closed, 0);
        close_world(&w);
}

/* Each of these ends the link, and leaks no descriptor. */
static void test_reload_out_of_order(void)
{
        static const struct {
                uint32_t kind, generation, files;
        } cases[][3] = {
                {{MONITOR_READY}},
                {{MONITOR_CONFIG_FILE}},
                {{MONITOR_HELLO, 77, 0}},
                {{MONITOR_HELLO, 76, 0}},
                {{MONITOR_HELLO, 78, CONFIG_SNAPSHOT_MAX + 1}},
                {{MONITOR_HELLO, 78, 1}, {MONITOR_READY}},
                {{MONITOR_HELLO, 78, 1}, {MONITOR_HELLO, 79, 1}},
                {{MONITOR_HELLO, 78, 1}, {MONITOR_CONFIG_FILE}, {MONITOR_CONFIG_FILE}},
                {{MONITOR_HELLO, 78, 2}, {MONITOR_CONFIG_FILE}, {MONITOR_READY}},
        };
        int before = dup(0);

        close(before);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct world w;
                open_world(&w);
                for (size_t k = 0; k < 3 && cases[i][k].kind; k++) {
                        struct monitor_event event = {.kind = cases[i][k].kind};
                        check(!w.broken);
                        if (event.kind == MONITOR_HELLO)
                                event = greeting(cases[i][k].generation, cases[i][k].files);
                        tell(&w, event, event.kind == MONITOR_CONFIG_FILE);
                }
                check(w.closed == 1 && w.broken);
                check_eq_int(w.reloads, 0);
                close_world(&w);
        }
        int after = dup(0);
        close(after);
        check_eq_int(after, before);
}

static void test_short_message(void)
{
        struct world w;

        open_world(&w);
        check_eq_int(send(w.monitor, "x", 1, 0), 1);
        spin(&w);
        check(w.closed && w.broken);
        close_world(&w);
}

/* The monitor runs, but a request cannot be sent: its caller must not wait forever. */
static void test_cannot_send(void)
{
        struct world w;

        open_world(&w);
        /* The loop watches the connection, and what is sent goes to a socket without one. */
        int connected = dup(w.broker), unconnected = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        check(connected >= 0 && unconnected >= 0);
        check_eq_int(dup2(unconnected, w.broker), w.broker);
        check_eq_int(send_request(&w, MONITOR_SESSION_CREATE, 0, NULL), 0);
        check_eq_int(w.closed, 0); /* the caller is in the middle of something */
        spin(&w);
        check_eq_int(w.closed, 1);
        check_eq_str(w.text, "write to the monitor: Transport endpoint is not connected");
        check_eq_int(send_request(&w, MONITOR_SESSION_CREATE, 0, NULL), -EPIPE);
        close(connected);
        close(unconnected);
        close_world(&w);
}

static void greet(int fd, uint32_t files)
{
        struct monitor_event event = {
                .kind = MONITOR_HELLO,
                .hello = {.generation = 3, .config_files = files, .sessions_max = 16}};

        check_eq_int(fd_send(fd, &event, sizeof(event), NULL, 0, 0), 0);
}

static void send_file(int fd, const char *path, size_t n_fds)
{
        struct monitor_event event = {.kind = MONITOR_CONFIG_FILE};
        int memfd = memfd_create("config", MFD_CLOEXEC);

        snprintf(event.path, sizeof(event.path), "%s", path);
        check_eq_int(fd_send(fd, &event, sizeof(event), &memfd, n_fds, 0), 0);
        close(memfd);
}

static void send_ready(int fd)
{
        struct monitor_event event = {.kind = MONITOR_READY};

        check_eq_int(fd_send(fd, &event, sizeof(event), NULL, 0, 0), 0);
}

static void test_hello(void)
{
        static struct link_config_file files[CONFIG_SNAPSHOT_MAX];
        struct monitor_hello hello;
        struct error err = {};
        size_t n = 0;
        int fds[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        greet(fds[0], 2);
        send_file(fds[0], "/a.json", 1);
        send_file(fds[0], "/b.json", 1);
        send_ready(fds[0]);
        check_ok(link_hello(fds[1], &hello, files, &n, &err));
        check_eq_int(n, 2);
        check_eq_str(files[1].path, "/b.json");
        check_eq_int(hello.sessions_max, 16);
        close(files[0].fd);
        close(files[1].fd);

        greet(fds[0], 2); /* one too few */
        send_file(fds[0], "/a.json", 1);
        send_ready(fds[0]);
        check_eq_int(link_hello(fds[1], &hello, files, &n, &err), -EPROTO);
        close(files[0].fd);

        greet(fds[0], 1); /* without its descriptor */
        send_file(fds[0], "/a.json", 0);
        check_eq_int(link_hello(fds[1], &hello, files, &n, &err), -EPROTO);

        send_ready(fds[0]); /* without a HELLO */
        check_eq_int(link_hello(fds[1], &hello, files, &n, &err), -EPROTO);
        close(fds[0]);
        check_eq_int(link_hello(fds[1], &hello, files, &n, &err), -EPIPE);
        close(fds[1]);
}

int main(void)
{
        run(test_answers);
        run(test_limits);
        run(test_network);
        run(test_violations);
        run(test_every_pair);
        run(test_requests);
        run(test_reload);
        run(test_reload_out_of_order);
        run(test_short_message);
        run(test_cannot_send);
        run(test_hello);
        return 0;
}
