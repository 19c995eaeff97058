#include "tests/unit/init-world.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sandbox-init/init/init.h"
#include "tests/unit/filter-program.h"

enum { PATIENCE_MS = 30000, SKIP = 77, NOTHING = -1 };

struct message {
        int order, answer;
};

/* ---- inside: the worker and its copies ---- */

static volatile int sigints, reminders;

static void on_signal(int number)
{
        *(number == SIGINT ? &sigints : &reminders) += 1;
}

static void wait_for_ever(void)
{
        for (;;)
                pause();
}

/* As sandbox-init/worker/copy.c. */
static int wait_for_init(int number, int other)
{
        sigset_t set;
        siginfo_t info;

        sigemptyset(&set);
        sigaddset(&set, number);
        sigaddset(&set, other);
        while (sigwaitinfo(&set, &info) < 0 || info.si_code != SI_USER || info.si_pid != 1)
                ;
        return info.si_signo;
}

static void answer(int orders, int value)
{
        const struct message message = {.answer = value};

        if (send(orders, &message, sizeof(message), MSG_NOSIGNAL) < 0)
                _exit(1);
}

static void drop_signals(void)
{
        const struct timespec now = {};
        sigset_t all;

        sigfillset(&all);
        while (sigtimedwait(&all, NULL, &now) > 0)
                ;
}

static void sleep_as_copy(int orders, bool is_mute)
{
        sigset_t all;
        int signal;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        kill(getpid(), SIGSTOP);
        if (is_mute)
                wait_for_ever();
        wait_for_init(COPY_CLEAR, COPY_CLEAR);
        drop_signals();
        setpgid(0, 0);
        signal = wait_for_init(COPY_WAKE, COPY_ROLL_BACK);
        kill(-1, SIGCONT);
        drop_signals();
        sigints = reminders = 0;
        sigemptyset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        answer(orders, signal == COPY_WAKE ? getpid() : -getpid());
}

/* A child of init: the parent of the caller. */
static pid_t fork_beside(void)
{
        return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
}

static bool has_stopped(pid_t pid)
{
        char path[64], text[256];

        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        close(fd);
        text[n < 0 ? 0 : n] = '\0';
        const char *end = strrchr(text, ')');
        return end && end[1] == ' ' && end[2] == 'T';
}

static pid_t once_stopped(pid_t pid)
{
        for (int i = 0; i < PATIENCE_MS && !has_stopped(pid); i++)
                usleep(1000);
        return pid;
}

/* As code in a sandbox can: the kernel sends the signal for it. SIGSTOP disarms a timer whose signal is pending, so there is one
 * for each time. */
static void continue_itself(long from_ms, long to_ms)
{
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};

        for (long ms = from_ms; ms <= to_ms; ms++) {
                const struct itimerspec at = {
                        .it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}};
                timer_t timer;

                if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
                    timer_settime(timer, 0, &at, NULL) < 0)
                        _exit(1);
        }
}

/* Returns in a copy that has taken the worker's place too. */
static void obey(int orders, enum order order)
{
        pid_t pid;

        if (order == COPY || order == MUTE_COPY) {
                pid = fork_beside();
                if (pid == 0)
                        sleep_as_copy(orders, order == MUTE_COPY);
                else
                        answer(orders, once_stopped(pid));
        } else if (order == CHILD || order == STOPPED_CHILD || order == ORPHAN ||
                   order == SPINNER || order == CONTINUER || order == CONTINUERS) {
                pid = order == ORPHAN ? fork_beside() : fork();
                if (pid == 0 && order == CONTINUER)
                        continue_itself(300, 300);
                if (pid == 0 && order == CONTINUERS)
                        continue_itself(100, 3000);
                if (pid == 0 && order == STOPPED_CHILD)
                        kill(getpid(), SIGSTOP);
                for (volatile bool spins = pid == 0 && order == SPINNER; spins;)
                        getppid();
                if (pid == 0)
                        wait_for_ever();
                answer(orders, order == STOPPED_CHILD ? once_stopped(pid) : pid);
        } else if (order == SIGINTS || order == REMINDERS) {
                answer(orders, order == SIGINTS ? sigints : reminders);
        } else if (order == WHO) {
                answer(orders, getpid());
        } else if (order == EXIT) {
                _exit(7);
        } else if (order == HANG) {
                if (vfork() == 0)
                        wait_for_ever();
        }
}

static _Noreturn void be_worker(int orders)
{
        const struct sigaction action = {.sa_handler = on_signal};
        struct message message;
        sigset_t none;

        sigaction(SIGINT, &action, NULL);
        sigaction(WORKER_REMIND, &action, NULL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (;;) {
                ssize_t n = recv(orders, &message, sizeof(message), 0);
                if (n == 0 || (n < 0 && errno != EINTR))
                        _exit(0);
                if (n > 0)
                        obey(orders, (enum order)message.order);
        }
}

/* ---- inside: PID 1 ---- */

static void place(int from, int to)
{
        if (dup2(from, to) != to)
                _exit(3);
}

/* In a namespace of another user the kernel has no file for the newest pid that may be read, as in some kernels. */
static _Noreturn void be_init(const int *ends, int filter)
{
        int moved[10], changes[2];
        sigset_t all;

        setpgid(0, 0);    /* as session.c: no signal to a group leaves the sandbox */
        sigfillset(&all); /* until the worker has its handlers */
        sigprocmask(SIG_SETMASK, &all, NULL);
        if (mount("proc", "/proc", "proc", 0, NULL) < 0 ||
            mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL) < 0)
                _exit(SKIP);
        if (fork() == 0) {
                fcntl(ends[3], F_SETFD, 0);
                be_worker(ends[3]);
        }
        if (pipe2(changes, O_CLOEXEC | O_NONBLOCK) < 0)
                _exit(3);
        int syncs = memfd_create("syncs", MFD_CLOEXEC);
        if (ftruncate(syncs, SYNCS_SIZE) < 0)
                _exit(3);
        const int from[10] = {ends[0],
                              ends[1],
                              ends[2],
                              filter,
                              changes[1],
                              open("/dev/shm", O_PATH | O_CLOEXEC),
                              open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                              open("/proc/locks", O_RDONLY | O_CLOEXEC),
                              syncs,
                              open("/proc/sys/kernel/ns_last_pid", O_RDONLY | O_CLOEXEC)};
        const int to[10] = {INIT_REPORT_FD,  INIT_RELEASE_FD,   INIT_CONTROL_FD, INIT_FILTER_FD,
                            INIT_CHANGES_FD, INIT_WORKSPACE_FD, INIT_PROC_FD,    INIT_LOCKS_FD,
                            INIT_SYNCS_FD,   INIT_LAST_PID_FD};
        for (int i = 0; i < 10; i++)
                moved[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 64);
        for (int i = 0; i < 10; i++) {
                if (moved[i] >= 0)
                        place(moved[i], to[i]);
        }
        fd_close_range(0, 1); /* a sanitizer may have something to say */
        fd_close_range(moved[9] >= 0 ? INIT_LAST_PID_FD + 1 : INIT_LAST_PID_FD, ~0U);
        int status = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? 3 : init_main();
        for (;;) /* before _exit(), the sanitizer makes calls that the filter denies */
                syscall(SYS_exit_group, status);
}

/* ---- outside ---- */

static int write_text(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

        close(fd);
        return n < 0 ? -1 : 0;
}

static int enter_namespaces(void)
{
        char map[64];
        unsigned uid = getuid();

        if (uid == 0)
                return unshare(CLONE_NEWPID | CLONE_NEWNS) < 0
                               ? -1
                               : mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        snprintf(map, sizeof(map), "0 %u 1", uid);
        return unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) < 0 ||
                               write_text("/proc/self/uid_map", map) < 0
                       ? -1
                       : mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static _Noreturn void be_outer(const int *ends, int filter)
{
        int status;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (enter_namespaces() < 0)
                _exit(SKIP);
        pid_t pid = fork();
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                be_init(ends, filter);
        }
        /* Only init has these. */
        for (int i = 0; i < 4; i++)
                close(ends[i]);
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                _exit(3);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
}

static int filter_fd(void)
{
        struct error err = {};
        int fd = filter_compile(FILTER_INIT, &err);

        check_ok(fd);
        return fd;
}

void init_world_open(struct init_world *w)
{
        int report[2], release[2], control[2], orders[2], status;
        char byte = 0;

        *w = (struct init_world){};
        int filter = filter_fd();
        check_eq_int(pipe2(report, O_CLOEXEC), 0);
        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, release), 0);
        check_eq_int(pipe2(control, O_CLOEXEC), 0);
        check_eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, orders), 0);
        const int inner[4] = {report[1], release[1], control[0], orders[1]};
        const int own[4] = {report[0], release[0], control[1], orders[0]};
        w->outer = fork();
        if (w->outer == 0) {
                for (int i = 0; i < 4; i++)
                        close(own[i]);
                be_outer(inner, filter);
        }
        check(w->outer > 0);
        for (int i = 0; i < 4; i++)
                close(inner[i]);
        close(filter);
        w->report = report[0];
        w->release = release[0];
        w->control = control[1];
        w->orders = orders[0];
        const struct init_hello hello = {};
        check_eq_int(write(w->release, &hello, sizeof(hello)), sizeof(hello));
        if (read(w->release, &byte, 1) == 1) {
                check_eq_int(byte, 'r');
                return;
        }
        check_eq_int(waitpid(w->outer, &status, 0), w->outer);
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP) {
                printf("skipped: this process may make no pid namespace with a /proc\n");
                exit(SKIP);
        }
        test_fail_("init has not begun: status %#x", status);
}

void init_world_close(struct init_world *w)
{
        int status, fds[] = {w->control, w->report, w->release, w->orders};

        close(w->control);
        w->control = -1;
        if (w->outer > 0) {
                check_eq_int(waitpid(w->outer, &status, 0), w->outer);
                check_eq_int(status, 0);
        }
        fd_close_many(fds + 1, 3);
}

void request_keep(struct init_world *w, enum init_verb verb, int32_t pid, int32_t instead,
                  int32_t instead_too)
{
        const struct init_request request = {
                .verb = verb, .pid = pid, .instead = {instead, instead_too}};

        check_eq_int(write(w->control, &request, sizeof(request)), sizeof(request));
}

void request(struct init_world *w, enum init_verb verb, int32_t pid)
{
        request_keep(w, verb, pid, 0, 0);
}

static struct init_report next(struct init_world *w)
{
        struct init_report report;
        struct pollfd p = {.fd = w->report, .events = POLLIN};

        check_eq_int(poll(&p, 1, PATIENCE_MS), 1);
        check_eq_int(read(w->report, &report, sizeof(report)), sizeof(report));
        return report;
}

void expect_perhaps_after(struct init_world *w, enum init_report_kind first,
                          enum init_report_kind kind)
{
        struct init_report report = next(w);

        if (report.kind == first)
                report = next(w);
        check_eq_int(report.kind, kind);
}

int32_t expect(struct init_world *w, enum init_report_kind kind, int32_t pid)
{
        const struct init_report report = next(w);

        check_eq_int(report.kind, kind);
        check_eq_int(report.pid, pid);
        check(report.last >= 0);
        return report.value;
}

void expect_none(struct init_world *w)
{
        request(w, INIT_COUNT, 0);
        expect(w, INIT_COUNTED, 0);
}

void expect_end(struct init_world *w)
{
        char byte;
        int status;

        check_eq_int(read(w->report, &byte, 1), 0);
        check_eq_int(waitpid(w->outer, &status, 0), w->outer);
        check_eq_int(status, 0);
        w->outer = 0;
}

int awaken(struct init_world *w)
{
        struct message message;
        struct pollfd p = {.fd = w->orders, .events = POLLIN};

        check_eq_int(poll(&p, 1, PATIENCE_MS), 1);
        check_eq_int(recv(w->orders, &message, sizeof(message), 0), sizeof(message));
        return message.answer;
}

int order(struct init_world *w, enum order order)
{
        const struct message message = {.order = order};

        check_eq_int(send(w->orders, &message, sizeof(message), 0), sizeof(message));
        return order == EXIT || order == HANG ? 0 : awaken(w);
}

/* ---- processes of the namespace, by the /proc of the host ---- */

/* The last number of the line "NSpid:", if that has one more than ours: its pid inside. */
static bool is_inside(const struct init_world *w, const char *name, pid_t pid)
{
        char path[300], wanted[64], have[64], text[4096];

        snprintf(path, sizeof(path), "/proc/%s/status", name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        close(fd);
        text[n < 0 ? 0 : n] = '\0';
        const char *line = strstr(text, "\nNSpid:");
        if (!line || strstr(text, "\nState:\tZ"))
                return false;
        const char *last = line + strcspn(line + 1, "\n");
        while (last > line && *last != '\t')
                last--;
        if (atoi(last + 1) != pid)
                return false;
        snprintf(path, sizeof(path), "/proc/%s/ns/pid", name);
        ssize_t h = readlink(path, have, sizeof(have) - 1);
        snprintf(path, sizeof(path), "/proc/%d/ns/pid_for_children", w->outer);
        ssize_t v = readlink(path, wanted, sizeof(wanted) - 1);
        return h > 0 && h == v && memcmp(have, wanted, (size_t)h) == 0;
}

pid_t outside(const struct init_world *w, pid_t pid)
{
        pid_t found = NOTHING;
        DIR *proc = opendir("/proc");
        struct dirent *entry;

        check(proc);
        while (found == NOTHING && (entry = readdir(proc))) {
                if (atoi(entry->d_name) > 0 && is_inside(w, entry->d_name, pid))
                        found = atoi(entry->d_name);
        }
        closedir(proc);
        return found;
}

bool lives(struct init_world *w, pid_t pid)
{
        return outside(w, pid) != NOTHING;
}

bool ends(struct init_world *w, pid_t pid)
{
        for (int i = 0; i < PATIENCE_MS / 10; i++) {
                if (!lives(w, pid))
                        return true;
                usleep(10000);
        }
        return false;
}

bool is_stopped(struct init_world *w, pid_t pid)
{
        return has_stopped(outside(w, pid));
}
