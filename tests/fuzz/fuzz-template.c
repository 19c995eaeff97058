/*
 * A template that is hostile from its first byte, as the monitor sees it. Its end of the control socket,
 * its standard error and the processes that announce themselves are the input's; stand-ins replace
 * the namespaces and /proc (stub.h, template-launch.h). Each line is an event:
 *
 *     r                a session is requested
 *     m KIND CODE TEXT a message; the numbers are decimal
 *     b N TEXT         the first N bytes of a message
 *     d KIND           a message with a descriptor
 *     h                SESSION_HERE by a new child of the monitor
 *     H                SESSION_HERE by the monitor itself
 *     p TEXT           the report of init
 *     o                the sandbox's PID 1 ends
 *     w TEXT           standard error
 *     f  e             processes are left beside the template, or its /proc does not exist
 *     u  U             too much memory, too many processes
 *     x                the template closes its socket
 *     t MS             time passes
 *
 * A first line k: its process is found to be killed. Accepted when a session was made and the template
 * lives. Each requested session is answered once; nothing is left behind.
 */
#include "supervisor/monitor/template/template.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/template/stub.h"
#include "supervisor/monitor/template/template-launch.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/events.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/fake-clock.h"

enum { SESSIONS = 4, EVENTS_MAX = 60, LINE_SIZE = 4096, NO_PID = INT_MAX };

static struct {
        struct event_base *base;
        struct children *children;
        struct cgroups cgroups;
        struct cgroups *cgroups_pointer;
        struct ids ids;
        struct limits limits;
        struct template_host host;
        struct sandbox_host sandbox_host;
        struct template *template;
        struct sandbox *sandboxes[SESSIONS]; /* asked for; NULL once freed */
        int told[SESSIONS];
        int n_asked, n_made, n_ends, n_forks;
        int control, messages, report; /* the template's */
        bool is_killed;                /* its process */
        int left;                      /* what family_check() returns */
        struct family_usage usage;
        pid_t here; /* the last process that announced itself */
} f;

/* ---- stand-ins ---- */

struct stub {
        int holders;
};

int stub_start(const struct ids *ids, int filter_fd, struct children *children, struct stub **ret,
               struct error *err)
{
        *ret = calloc(1, sizeof(struct stub));
        assert(*ret);
        (*ret)->holders = 1;
        return 0;
}

struct stub *stub_ref(struct stub *stub)
{
        stub->holders++;
        return stub;
}

struct stub *stub_unref(struct stub *stub)
{
        if (stub && --stub->holders == 0)
                free(stub);
        return NULL;
}

void stub_kill(const struct stub *stub)
{
        assert(stub->holders > 0);
}

pid_t stub_pid(const struct stub *stub)
{
        return NO_PID;
}

bool stub_has(const struct stub *stub, pid_t pid)
{
        return pid == f.here;
}

int stub_user_namespace(const struct stub *stub)
{
        return -1;
}

int stub_pid_namespace(const struct stub *stub)
{
        return -1;
}

pid_t template_launch(const struct stub *stub, struct children *children,
                      const struct template_launch *how, struct error *err)
{
        pid_t pid = f.is_killed ? fork() : NO_PID;

        if (pid == 0) {
                raise(SIGKILL);
                _exit(1);
        }
        f.control = fcntl(how->control, F_DUPFD_CLOEXEC, 0);
        f.messages = fcntl(how->messages, F_DUPFD_CLOEXEC, 0);
        assert(pid > 0 && f.control >= 0 && f.messages >= 0);
        fd_set_nonblocking(f.control, 1);
        fd_set_nonblocking(f.messages, 1);
        assert(children_add(children, pid) == 0);
        return pid;
}

int family_open(pid_t stub, pid_t template, struct family *ret, struct error *err)
{
        *ret = FAMILY_INIT;
        return 0;
}

void family_close(struct family *family)
{
}

int family_check(const struct family *family, struct error *err)
{
        return f.left == 0 ? 0 : error_set(err, f.left, "left");
}

void family_measure(pid_t stub, pid_t template, uint32_t most, struct family_usage *ret)
{
        *ret = f.usage;
}

/* ---- the monitor ---- */

static void end_sandbox(int i)
{
        f.sandboxes[i] = sandbox_free(f.sandboxes[i]);
}

static int index_of(const struct sandbox *sandbox)
{
        for (int i = 0; i < f.n_asked; i++)
                if (f.sandboxes[i] == sandbox)
                        return i;
        abort();
}

static void on_made(void *data, struct sandbox *sandbox, const struct error *error)
{
        int i = index_of(sandbox), fds[SESSION_FDS];
        struct error err = {};

        f.told[i]++;
        if (error) {
                assert(error_is_set(error) && memchr(error->text, '\0', sizeof(error->text)));
                end_sandbox(i);
                return;
        }
        f.n_made++;
        if (sandbox_open_outer(sandbox, fds, &err) < 0)
                end_sandbox(i);
        else
                fd_close_many(fds, SESSION_FDS);
}

static void on_ended(void *data, const struct error *error)
{
        f.n_ends++;
        assert(error_is_set(error));
        f.template = template_free(f.template);
}

static void on_sandbox_ended(void *data, struct sandbox *sandbox, const struct monitor_ended *how)
{
        end_sandbox(index_of(sandbox));
}

static void ask(void)
{
        struct error err = {};
        int i = f.n_asked;

        if (!f.template || i == SESSIONS)
                return;
        assert(sandbox_new(&f.sandbox_host, (uint32_t)i + 1, 0, (uint32_t)i + 1, 0, &f.limits,
                           &f.sandboxes[i], &err) == 0);
        f.n_asked++;
        assert(template_make(f.template, f.sandboxes[i], &f.limits, true, &err) == 0);
}

/* ---- the template ---- */

/* The worker's descriptors: only init's report is kept. */
static void read_requests(void)
{
        struct template_message message;
        int fds[FD_MESSAGE_MAX];

        for (;;) {
                size_t n = FD_MESSAGE_MAX;
                ssize_t got = fd_receive(f.control, &message, sizeof(message), fds, &n, NULL,
                                         MSG_DONTWAIT);
                if (got <= 0)
                        return;
                if (message.kind == SESSION_CREATE && n == SESSION_FD_COUNT) {
                        cleanup_close(&f.report);
                        f.report = take_fd(fds[SESSION_FD_REPORT]);
                }
                fd_close_many(fds, n);
        }
}

static void send_message(uint32_t kind, int code, const char *text, size_t n, bool with_fd)
{
        struct template_message message = {.kind = kind};
        int fd = STDIN_FILENO;

        message.error.code = code;
        memcpy(message.error.text, text, strnlen(text, sizeof(message.error.text)));
        if (f.control >= 0)
                fd_send(f.control, &message, n, &fd, with_fd, MSG_DONTWAIT);
}

static void send_parsed(const char *rest)
{
        unsigned kind = 0;
        int code = 0, used = 0;

        sscanf(rest, "%u %d %n", &kind, &code, &used);
        send_message(kind, code, rest + used, sizeof(struct template_message), false);
}

static void send_part(const char *rest)
{
        size_t n = strtoul(rest, NULL, 10) % sizeof(struct template_message);

        send_message(TEMPLATE_READY, 0, rest, n, false);
}

/* A new process and its child, as init and worker. */
_Noreturn static void be_init(int said)
{
        pid_t self = getpid();

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != self)
                        _exit(0); /* its parent was killed before it asked for the signal */
                for (;;)
                        pause();
        }
        send_message(SESSION_HERE, 0, "", sizeof(struct template_message), false);
        (void)!write(said, "", 1);
        for (;;)
                pause();
}

static void announce_child(void)
{
        int ends[2];
        char byte;

        if (f.control < 0 || f.n_forks++ == SESSIONS)
                return;
        assert(pipe2(ends, O_CLOEXEC) == 0);
        f.here = fork();
        assert(f.here >= 0);
        if (f.here == 0)
                be_init(ends[1]);
        assert(fd_read_full(ends[0], &byte, 1) == 1);
        fd_close_many(ends, 2);
}

static void close_control(void)
{
        cleanup_close(&f.control);
        f.control = -1;
}

/* ---- events ---- */

static void run_loop(void)
{
        for (int i = 0; i < 4; i++)
                event_base_loop(f.base, EVLOOP_NONBLOCK);
        if (f.control >= 0)
                read_requests();
}

/* The first that runs. */
static void end_process(void)
{
        for (int i = 0; i < f.n_asked; i++) {
                pid_t pid = f.sandboxes[i] ? sandbox_pid(f.sandboxes[i]) : 0;
                siginfo_t how;
                if (pid <= 0)
                        continue;
                kill(pid, SIGKILL);
                waitid(P_PID, (id_t)pid, &how, WEXITED | WNOWAIT);
                return;
        }
}

static void handle(char what, const char *rest)
{
        unsigned ms = 0;

        if (what == 'r')
                ask();
        else if (what == 'm')
                send_parsed(rest);
        else if (what == 'b')
                send_part(rest);
        else if (what == 'd')
                send_message((uint32_t)strtoul(rest, NULL, 10), 0, "",
                             sizeof(struct template_message), true);
        else if (what == 'h')
                announce_child();
        else if (what == 'H')
                send_message(SESSION_HERE, 0, "", sizeof(struct template_message), false);
        else if (what == 'p' && f.report >= 0)
                (void)!write(f.report, rest, strlen(rest));
        else if (what == 'o')
                end_process();
        else if (what == 'w' && f.messages >= 0)
                (void)!write(f.messages, rest, strlen(rest));
        else if (what == 'f')
                f.left = EPERM;
        else if (what == 'e')
                f.left = ESRCH;
        else if (what == 'u')
                f.usage.memory = UINT64_MAX;
        else if (what == 'U')
                f.usage.processes = UINT32_MAX;
        else if (what == 'x')
                close_control();
        else if (what == 't' && sscanf(rest, "%u", &ms) == 1)
                fake_clock_advance_ms(ms % 100000);
}

static void set_up(void)
{
        static const struct image_info image = {.python = "/usr/bin/python3"};
        const struct template_parts parts = {.image = &image, .rlimits = true};
        struct error err = {};

        f.cgroups = (struct cgroups){.mount = -1};
        f.cgroups_pointer = &f.cgroups;
        f.control = f.messages = f.report = -1;
        f.ids = (struct ids){.mode = SANDBOX_ROOTLESS, .count = 1};
        f.base = event_base_new();
        limits_default(&f.limits);
        limits_fit(&f.limits);
        assert(children_new(&f.children, &err) == 0);
        f.host = (struct template_host){f.base, f.children, &f.ids,  &f.cgroups_pointer,
                                        NULL,   on_made,    on_ended};
        f.sandbox_host = (struct sandbox_host){f.base, f.children, &f.cgroups, on_sandbox_ended,
                                               NULL};
        assert(template_start(&f.host, &parts, &f.template, &err) == 0);
        run_loop();
}

/* Without the template, its sessions that were made live on. */
static void tear_down(void)
{
        bool is_there = f.template != NULL;

        template_free(f.template);
        for (int i = 0; i < f.n_asked; i++) {
                assert(f.told[i] <= 1 && (f.told[i] == 1 || is_there));
                end_sandbox(i);
        }
        assert(f.n_ends == !is_there);
        children_kill_unknown(f.children);
        children_free(f.children);
        int fds[] = {f.control, f.messages, f.report};
        fd_close_many(fds, ARRAY_SIZE(fds));
        event_base_free(f.base);
        assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static const struct fuzz_events events = {EVENTS_MAX, handle, run_loop};
        char line[LINE_SIZE];
        static int null = -1;

        if (null < 0) {
                null = open("/dev/null", O_WRONLY | O_CLOEXEC);
                log_to(null, LOG_FORMAT_TEXT);
                log_set_level(LOG_LEVEL_INFO);
                signal(SIGPIPE, SIG_IGN);
                fake_clock_stop(true);
        }
        memset(&f, 0, sizeof(f));
        int before = count_descriptors();
        f.is_killed = n > 0 && data[0] == 'k';
        set_up();
        fuzz_each_event(&events, data, n, line, sizeof(line));
        bool good = f.template && f.n_made > 0;
        tear_down();
        assert(count_descriptors() == before);
        return good;
}

FUZZ_TARGET
