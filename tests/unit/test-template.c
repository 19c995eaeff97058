/* A real template, its sessions and how they end: namespaces, filters, ids, with a stand-in for the
 * interpreter. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/seccomp/filter.h"
#include "supervisor/monitor/template/template.h"
#include "tests/unit/test.h"

static struct fixture {
        struct event_base *base;
        struct children *children;
        struct cgroups *cgroups;
        struct ids ids;
        struct limits limits;
        struct template_host host;
        struct sandbox_host sandbox_host;
        struct template *template;
        char image[64];

        char order; /* the command for the worker */
        int fds[SESSION_FDS];
        char output[32768];
        struct monitor_ended how;
        struct error failed;
        int told; /* the result that on_made() got */
        bool ended;
        uint32_t handle;
} f;

enum { ALL_PIDS = 4 * 1024 * 1024 }; /* PID_MAX_LIMIT (proc(5)) */

static void on_ended(void *data, struct sandbox *sandbox, const struct monitor_ended *how)
{
        f.how = *how;
        f.ended = true;
        sandbox_free(sandbox);
        event_base_loopbreak(f.base);
}

static void on_made(void *data, struct sandbox *sandbox, const struct error *error)
{
        struct error err = {};

        f.told = error ? error->code : 0;
        if (error) {
                f.failed = *error;
                sandbox_free(sandbox);
                event_base_loopbreak(f.base);
                return;
        }
        check_ok(sandbox_open_outer(sandbox, f.fds, &err));
        if (f.order == 'K' || f.order == 'H')
                sandbox_kill(sandbox);
        else
                check(write(f.fds[0], &f.order, 1) == 1);
}

static void on_template_ended(void *data, const struct error *error)
{
        f.failed = *error;
        f.template = template_free(f.template);
        event_base_loopbreak(f.base);
}

static int build_file(const char *name)
{
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", getenv("CLOISTER_BUILD"), name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        check(fd >= 0);
        return fd;
}

static int sealed(const char *name)
{
        struct error err = {};
        _cleanup_close_ int fd = build_file(name);
        int memfd = fd_sealed_copy(name, fd, &err);

        check(memfd >= 0);
        return memfd;
}

/* The stand-in is started under this name, and acts as it says. */
static const char *python = "/usr/bin/python3";

static void start_template(const char *worker)
{
        struct error err = {};
        struct image_info info = {.libpython = "/usr/lib/libpython3.so"};

        snprintf(info.python, sizeof(info.python), "%s", python);
        struct template_parts parts = {
                .image = &info,
                .image_fd = open(f.image, O_PATH | O_DIRECTORY | O_CLOEXEC),
                .worker_fd = sealed(worker),
                .init_fd = sealed("cloister-init"),
                .template_filter_fd = filter_compile(FILTER_TEMPLATE, &err),
                .worker_filter_fd = filter_compile(FILTER_WORKER, &err),
                .init_filter_fd = filter_compile(FILTER_INIT, &err),
                .stub_filter_fd = filter_compile(FILTER_STUB, &err),
                .packages_fd = -1,
        };

        check_ok(template_start(&f.host, &parts, &f.template, &err));
        int fds[] = {parts.image_fd,           parts.worker_fd,        parts.init_fd,
                     parts.template_filter_fd, parts.worker_filter_fd, parts.init_filter_fd,
                     parts.stub_filter_fd};
        fd_close_many(fds, ARRAY_SIZE(fds));
}

static void read_output(void)
{
        ssize_t n = fd_read_full(f.fds[1], f.output, sizeof(f.output) - 1);
        check(n >= 0);
        f.output[n] = '\0';
        fd_close_many(f.fds, ARRAY_SIZE(f.fds));
}

static int held = -1; /* a copy of init's report, as a hostile template can keep one */

static void run_session(char order)
{
        struct error err = {};
        struct sandbox *sandbox;
        uint32_t id = f.ids.count == 1 ? 0 : 1;

        f.order = order;
        f.failed = (struct error){};
        memset(f.fds, -1, sizeof(f.fds));
        f.handle++;
        check_ok(
                sandbox_new(&f.sandbox_host, f.handle, id, f.handle, 0, &f.limits, &sandbox, &err));
        if (order == 'H')
                check((held = dup(sandbox_inner_fds(sandbox)[SESSION_FD_REPORT])) >= 0);
        check_ok(template_make(f.template, sandbox, &f.limits,
                               cgroups_version(f.cgroups) == CGROUP_NONE, &err));
        event_base_dispatch(f.base);
        if (!error_is_set(&f.failed))
                read_output();
}

static void test_posture(void)
{
        run_session('s');
        check_eq_int(f.failed.code, 0);
        check(WIFEXITED(f.how.wait_status) && WEXITSTATUS(f.how.wait_status) == 0);
        check_has(f.output, "pid 2 ppid 1 uid 1000 gid 1000");
        check_has(
                f.output,
                "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
                "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:"
                "\t2");
        check_has(f.output, "hidepid=ptraceable,subset=pid");
        check_has(f.output, " / ro,nosuid,nodev");
        check_has(f.output, "Max core file size        1                    1");
        check_has(f.output, "\n1000\n"); /* oom_score_adj */
        check_has(f.output, "/proc/1/environ: ");
        check_has(f.output, "/proc/sys/user/max_user_namespaces: No such file");
        check_has(f.output, "stdout opens: 1");
        check_has(f.output, "workspace writes: 1");
        check_has(f.output, "image writes: 0");
        check_has(f.output, "template has null: 1");
}

static void test_ends(void)
{
        run_session('x');
        check(WIFEXITED(f.how.wait_status) && WEXITSTATUS(f.how.wait_status) == 7);
        run_session('k');
        check(WIFSIGNALED(f.how.wait_status) && WTERMSIG(f.how.wait_status) == SIGSEGV);
        run_session('K');
        check_eq_int(f.how.wait_status, -1);
}

/* Bytes that a control group allows in addition to it, at most. */
enum { RESERVE = 8 << 20 };

static void test_memory_is_bounded(void)
{
        run_session('m');
        if (cgroups_version(f.cgroups) == CGROUP_NONE) {
                check(WIFEXITED(f.how.wait_status) && WEXITSTATUS(f.how.wait_status) == 8);
                return;
        }
        check(WIFSIGNALED(f.how.wait_status) && WTERMSIG(f.how.wait_status) == SIGKILL);
        check(f.how.oom_kills > 0);
        check(f.how.memory_peak > f.limits.memory / 2 &&
              f.how.memory_peak <= f.limits.memory + RESERVE);
}

/* The monitor does not wait for a report while another process could still write it. */
static void test_a_held_report_is_not_waited_for(void)
{
        alarm(20);
        run_session('H');
        alarm(0);
        check(held >= 0);
        close(held);
        check_eq_int(f.how.wait_status, -1);
}

/* After a session is created, children that belong to no request are killed. */
static void test_unknown_children_are_killed(void)
{
        pid_t unasked = fork();
        if (unasked == 0) {
                pause();
                _exit(0);
        }
        check(children_is_new(f.children, unasked));
        check_eq_int(children_kill_unknown(f.children), 1);
        check(kill(unasked, 0) < 0 && errno == ESRCH);
}

/* The child with another name than ours: the other children are copies of us, as the stub is. */
static pid_t template_pid(void)
{
        char path[64], children[256] = "", own[32] = "", name[32];
        pid_t found = 0;

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
        _cleanup_close_ int list = open(path, O_RDONLY | O_CLOEXEC);
        check(list >= 0 && fd_read_full(list, children, sizeof(children) - 1) > 0);
        _cleanup_close_ int comm = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
        check(fd_read_full(comm, own, sizeof(own) - 1) > 0);
        for (char *at = children, *end; strtol(at, &end, 10) > 0; at = end) {
                pid_t pid = (pid_t)strtol(at, NULL, 10);
                snprintf(path, sizeof(path), "/proc/%d/comm", pid);
                memset(name, 0, sizeof(name));
                _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                check(fd >= 0 && fd_read_full(fd, name, sizeof(name) - 1) > 0);
                if (strcmp(name, own) != 0)
                        found = pid;
        }
        check(found > 0);
        return found;
}

enum moment { AT_START, BEFORE_THE_REQUEST, ASKED, MAKING, MOMENTS };

/* A template that is killed at any time leaves the session to another template. */
static void test_killed_template(void)
{
        for (enum moment m = AT_START; m < MOMENTS; m++) {
                struct error err = {};
                struct sandbox *sandbox;

                f.template = template_free(f.template);
                start_template("tests/unit/standin-worker");
                if (m != AT_START)
                        run_session('x');
                pid_t pid = template_pid();
                memset(f.fds, -1, sizeof(f.fds));
                f.told = -1;
                f.ended = false;
                f.handle++;
                check_ok(sandbox_new(&f.sandbox_host, f.handle, f.ids.count == 1 ? 0 : 1, f.handle,
                                     0, &f.limits, &sandbox, &err));
                if (m == BEFORE_THE_REQUEST)
                        check(kill(pid, SIGKILL) == 0 && usleep(20000) == 0);
                else if (m == ASKED)
                        check_eq_int(kill(pid, SIGSTOP), 0);
                check_ok(template_make(f.template, sandbox, &f.limits,
                                       cgroups_version(f.cgroups) == CGROUP_NONE, &err));
                while (m == MAKING && sandbox_pid(sandbox) == 0)
                        event_base_loop(f.base, EVLOOP_ONCE);
                if (m != BEFORE_THE_REQUEST)
                        check_eq_int(kill(pid, SIGKILL), 0);
                while (f.template)
                        event_base_loop(f.base, EVLOOP_ONCE);
                /* While a session is made, the template may have reported it before the signal came. */
                if (m != MAKING || f.told != 0)
                        check_eq_int(f.told, ESTALE);
                while (f.told == 0 && !f.ended)
                        event_base_loop(f.base, EVLOOP_ONCE);
                children_kill_unknown(f.children);
        }
}

/* A process that announces itself but is not the requested child gets no SESSION_GO: it never execs
 * the program that would release its worker. */
static void test_unknown_process_gets_no_go(void)
{
        struct children *all = NULL;
        struct error err = {};

        f.template = template_free(f.template);
        start_template("tests/unit/standin-worker");
        check_ok(children_new(&all, &err));
        for (pid_t pid = 1; pid < ALL_PIDS; pid++)
                check_ok(children_add(all, pid));
        f.sandbox_host.children = all;
        run_session('s');
        f.sandbox_host.children = f.children;
        children_free(all);
        check_has(f.failed.text, "is not the requested one");
        check_eq_int(f.fds[0], -1);
        check(!f.template);

        start_template("tests/unit/standin-worker");
        run_session('s');
        check_eq_int(f.failed.code, 0);
}

/* The request is answered when the deadline has passed, nothing is left, and the next start works. */
static void test_template_that_is_never_ready(void)
{
        f.template = template_free(f.template);
        f.host.start_seconds = 1;
        python = "/silent";
        start_template("tests/unit/standin-worker");
        run_session('s');
        check_eq_int(f.told, ETIMEDOUT);
        check_has(f.failed.text, "did not answer in time while starting");
        check(f.template == NULL);
        check(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
        f.host.start_seconds = 0;
        python = "/usr/bin/python3";
        start_template("tests/unit/standin-worker");
        run_session('s');
        check_eq_int(f.failed.code, 0);
}

static void test_template_that_fails_says_why(void)
{
        f.template = template_free(f.template);
        start_template("cloister-init"); /* as a worker it ends at once */
        run_session('s');
        check_has(f.failed.text, "the template ended");
        check(f.told != 0 && f.told != ESTALE);
        check(f.template == NULL);
}

static void make_image(void)
{
        static const char *const names[] = {"dev", "proc", "tmp", "workspace"};

        strcpy(f.image, "/tmp/cloister-test-image-XXXXXX");
        check(mkdtemp(f.image) && chmod(f.image, 0755) == 0);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                char path[128];
                snprintf(path, sizeof(path), "%s/%s", f.image, names[i]);
                check(mkdir(path, 0755) == 0);
        }
}

static void remove_image(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf '%s'", f.image);
        check(system(command) == 0);
}

int main(void)
{
        struct error err = {}, why = {};

        prctl(PR_SET_DUMPABLE, 0); /* as the monitor is */
        int client[2];             /* what a template must not get */
        check(pipe(client) == 0 && dup2(client[0], 0) == 0);
        f.base = event_base_new();
        check_ok(children_new(&f.children, &err));
        check_ok(ids_choose(0, 0, 8, &f.ids, &err));
        check_ok(cgroups_open(false, &f.cgroups, &why, &err));
        limits_default(&f.limits);
        f.limits.memory = 64UL * 1024 * 1024;
        limits_fit(&f.limits);
        f.host = (struct template_host){f.base,  f.children,        &f.ids, &f.cgroups, NULL,
                                        on_made, on_template_ended, 0};
        f.sandbox_host = (struct sandbox_host){f.base, f.children, f.cgroups, on_ended, NULL};
        make_image();
        start_template("tests/unit/standin-worker");

        run(test_posture);
        run(test_ends);
        run(test_a_held_report_is_not_waited_for);
        run(test_memory_is_bounded);
        run(test_unknown_children_are_killed);
        run(test_killed_template);
        run(test_unknown_process_gets_no_go);
        run(test_template_that_is_never_ready);
        run(test_template_that_fails_says_why);

        template_free(f.template);
        children_free(f.children);
        cgroups_free(f.cgroups);
        event_base_free(f.base);
        remove_image();
        return 0;
}
