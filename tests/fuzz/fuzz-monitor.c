/*
 * The requests of a hostile broker, and what happens beside them. The monitor's table of requests, its
 * sessions, servers and profiles are real; stand-ins replace sandboxes, templates, the image reader and
 * builder, the network check and the processes of servers. Each line is an event:
 *
 *     q VERB TARGET GENERATION    a request, with the next serial
 *     z TEXT                      a message as it is
 *     i  n  e                     an image is found, is missing, cannot be read
 *     b  B                        an image was built, or not
 *     m  M                        a template has made its first session in the queue, or not
 *     d  D                        a template ends with ESTALE for those that wait, with another error
 *     c  C                        a network check passes or finds something
 *     s                           the oldest session that has started ends
 *     x  X  u                     a server's exec succeeds or fails; the first server ends
 *     g                           the config is reloaded
 *     t MS                        time passes
 *
 * Accepted when the broker was not killed and no request has failed. No request is answered twice, all
 * but those for sessions and servers are answered at once, and there are never too many sessions.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "policy/config/add.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/monitor-requests.h"
#include "supervisor/monitor/monitor-sessions.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-sums.h"
#include "supervisor/monitor/monitor-upstreams.h"
#include "supervisor/monitor/process/child-task.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/events.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/monitor-standins.h"
#include "tests/unit/fake-clock.h"

enum { EVENTS_MAX = 200, LINE_SIZE = 4096 };

static const char config_text[] =
        "{\"mcpServers\": {\"good\": {\"command\": \"/bin/true\"}, \"off\": {\"command\": "
        "\"x\", \"disabled\": true}, \"again\": {\"command\": \"/bin/true\"}},"
        " \"profiles\": {\"other\": {\"image\": \"mine\"}, \"third\": {\"network\": \"loopback\"}}}";

static struct monitor m;
static struct options options;
static int peer; /* the broker's end */
static uint32_t serial;
static uint8_t answered[EVENTS_MAX + 1];
static bool is_session[EVENTS_MAX + 1];
static unsigned n_failed;

/* ---- the broker ---- */

static void read_events(void)
{
        struct monitor_event event;
        int fds[FD_MESSAGE_MAX];

        for (;;) {
                size_t n = FD_MESSAGE_MAX;
                if (fd_receive(peer, &event, sizeof(event), fds, &n, NULL, MSG_DONTWAIT) !=
                    sizeof(event))
                        return;
                fd_close_many(fds, n);
                assert(event.kind > 0 && event.kind < MONITOR_EVENT_MAX);
                assert(event.serial <= serial);
                n_failed += event.kind == MONITOR_FAILED;
                if (event.serial > 0)
                        assert(++answered[event.serial] == 1);
                if (event.kind == MONITOR_SESSION_STARTED)
                        assert(n == SESSION_FDS && event.serial > 0 && is_session[event.serial]);
        }
}

static bool is_served(void)
{
        return event_pending(m.request, EV_READ, NULL);
}

static void run_loop(void)
{
        for (int i = 0; i < 3; i++)
                event_base_loop(m.base, EVLOOP_NONBLOCK);
        read_events();
}

static void request(const char *rest)
{
        struct monitor_request r = {.serial = serial + 1, .generation = 1};

        if (!is_served())
                return;
        sscanf(rest, "%u %u %u %u", &r.verb, &r.target, &r.generation, &r.number);
        if (r.verb == MONITOR_SERVICE_RELOAD)
                return; /* it reads the config files of this machine */
        is_session[++serial] = r.verb == MONITOR_SESSION_CREATE;
        fd_send(peer, &r, sizeof(r), NULL, 0, MSG_DONTWAIT);
        run_loop();
        bool later = is_session[serial] || r.verb == MONITOR_UPSTREAM_START;
        assert(!is_served() || later || answered[serial] == 1);
}

/* ---- the monitor ---- */

static struct config *read_config(void)
{
        struct config *config = config_new();
        struct error err = {};

        assert(config && config_add(config, "file", config_text, strlen(config_text), &err) >= 0);
        assert(config_finish(config, &err) >= 0 && config->n_profiles == 3);
        return config;
}

static void reload(void)
{
        struct config *config = read_config();
        struct error err = {};

        /* Another limit: these profiles are made anew. */
        config->profiles[m.generation % 3].limits.pids += m.generation;
        assert(monitor_sessions_load(&m, config, &err) >= 0);
        config_free(m.config);
        m.config = config;
        m.generation++;
}

static void ignore(evutil_socket_t fd, short what, void *data)
{
}

static void set_up(void)
{
        struct error err = {};
        int pair[2];

        options_init(&options);
        options.mode = MODE_TOOLS;
        m = (struct monitor){.options = &options,
                             .broker = INT_MAX, /* no process has this pid */
                             .generation = 1,
                             .sessions_max = STANDIN_SESSIONS_MAX,
                             .ids = {.mode = SANDBOX_ROOTLESS, .count = 1}};
        m.base = event_base_new();
        m.cgroups = calloc(1, sizeof(*m.cgroups));
        assert(m.cgroups && children_new(&m.children, &err) == 0);
        assert(child_tasks_new(m.base, m.children, &m.tasks, &err) == 0);
        m.cgroups->mount = -1;
        m.config = read_config();
        assert(monitor_sums_set(&m, &err) == 0);
        assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        m.link = pair[0];
        peer = pair[1];
        m.request = event_new(m.base, m.link, EV_READ | EV_PERSIST, monitor_on_request, &m);
        m.kill_timer = evtimer_new(m.base, ignore, NULL);
        event_add(m.request, NULL);
        assert(monitor_sessions_init(&m, &err) == 0);
}

static void tear_down(void)
{
        monitor_upstreams_done(&m);
        standin_end_servers();
        for (size_t i = 0; i < MONITOR_UPSTREAMS_MAX; i++)
                fd_close_many(m.upstreams[i].fds, m.upstreams[i].upstream ? 3 : 0);
        monitor_sessions_done(&m);
        standin_check_none();
        m.tasks = child_tasks_free(m.tasks);
        event_free(m.request);
        event_free(m.kill_timer);
        close(m.link);
        close(peer);
        cgroups_free(m.cgroups);
        children_free(m.children);
        config_free(m.config);
        event_base_free(m.base);
}

static void handle(char what, const char *rest)
{
        unsigned ms = 0;

        switch (what) {
        case 'q':
                return request(rest);
        case 'z':
                if (is_served())
                        (void)!send(peer, rest, strlen(rest), MSG_DONTWAIT | MSG_NOSIGNAL);
                return;
        case 'i':
                return standin_end_read(0);
        case 'n':
                return standin_end_read(ENOENT);
        case 'e':
                return standin_end_read(EIO);
        case 'b':
                return standin_end_build(0);
        case 'B':
                return standin_end_build(EIO);
        case 'm':
                return standin_make(NULL);
        case 'M':
                return standin_make(&(struct error){.code = ENOMEM, .text = "made"});
        case 'd':
                return standin_end_template(ESTALE);
        case 'D':
                return standin_end_template(EIO);
        case 'c':
                return standin_end_check(0);
        case 'C':
                return standin_end_check(EISCONN);
        case 's':
                return standin_end_session();
        case 'x':
                return standin_signal_server(false, 0);
        case 'X':
                return standin_signal_server(false, ENOENT);
        case 'u':
                return standin_signal_server(true, 0);
        case 'g':
                return reload();
        case 't':
                if (sscanf(rest, "%u", &ms) == 1)
                        fake_clock_advance_ms(ms % 4000000);
                return;
        default:
                return;
        }
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static const struct fuzz_events events = {EVENTS_MAX, handle, run_loop};
        char line[LINE_SIZE];
        static int null = -1;

        if (null < 0) {
                null = open("/dev/null", O_WRONLY | O_CLOEXEC);
                fake_clock_stop(true);
        }
        log_to(null, LOG_FORMAT_TEXT);
        log_set_level(LOG_LEVEL_WARNING);
        serial = 0;
        n_failed = 0;
        memset(answered, 0, sizeof(answered));
        int before = count_descriptors();
        set_up();
        fuzz_each_event(&events, data, n, line, sizeof(line));
        bool good = is_served() && serial > 0 && n_failed == 0;
        tear_down();
        assert(count_descriptors() == before);
        return good;
}

FUZZ_TARGET
