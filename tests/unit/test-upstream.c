/* Stdio servers: environment and descriptors, starts that fail, and that no process remains. */
#include "supervisor/monitor/upstream/upstream.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/monitor/upstream/upstream-exec.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

static char marker[32]; /* a number of seconds that only our sleeping processes have */
static char directory[64];

static bool is_apart;    /* the servers that start now */
static bool skips_grace; /* of the reapers of servers that start now */

struct run {
        struct upstream *upstream;
        int fds[3];
};

static struct upstream_user self_user(void)
{
        return (struct upstream_user){.uid = geteuid(), .gid = getegid()};
}

static int try_start(struct run *r, char **argv, char **env, char *cwd,
                     const struct upstream_user *user, struct error *err)
{
        struct upstream_user self = self_user();
        struct config_server server = {
                .name = (char[]){"test"}, .command = argv[0], .cwd = cwd, .apart = is_apart};

        server.args = argv + 1;
        while (server.args[server.n_args])
                server.n_args++;
        server.env = env;
        while (env && env[server.n_env])
                server.n_env++;
        *r = (struct run){.fds = {-1, -1, -1}};
        fake_clock_skip_idle(skips_grace);
        int result = upstream_start(&server, user ? user : &self, -1, &r->upstream, r->fds, err);
        fake_clock_skip_idle(false);
        if (result < 0)
                return result;
        upstream_release(r->upstream);
        struct pollfd polled = {.fd = upstream_exec_fd(r->upstream), .events = POLLIN};
        check_eq_int(poll(&polled, 1, 5000), 1);
        result = upstream_exec_result(r->upstream, err);
        check_eq_int(upstream_exec_fd(r->upstream), -1);
        check_eq_int(upstream_exec_result(r->upstream, NULL), result);
        return result;
}

/* A shell script; SLEEP in it is a process that would run for a long time. */
static struct run start_as(const char *script, char **env, const struct upstream_user *user)
{
        char text[2048];
        char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, text, NULL};
        struct error err = {0};
        struct run r;

        snprintf(text, sizeof(text), "SLEEP='sleep %s'; %s", marker, script);
        check_ok(try_start(&r, argv, env, NULL, user, &err));
        return r;
}

static struct run start(const char *script)
{
        return start_as(script, NULL, NULL);
}

/* A server whose reaper does not wait between SIGTERM and SIGKILL: the reaper is forked from this process
 * and has its clock. test_sigterm_ignored() measures the wait. */
static struct run start_without_grace(const char *script)
{
        skips_grace =
                !is_apart; /* the monitor waits for the start of new namespaces by this clock */
        struct run r = start(script);
        skips_grace = false;
        return r;
}

static int finish(struct run *r)
{
        int status = upstream_reap(r->upstream);

        r->upstream = upstream_free(r->upstream);
        fd_close_many(r->fds, 3);
        return status;
}

static bool ended_within(const struct run *r, int ms)
{
        struct pollfd polled = {.fd = upstream_pidfd(r->upstream), .events = POLLIN};

        return poll(&polled, 1, ms) == 1;
}

static int count_marked(void)
{
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        int count = 0;

        check(proc);
        while ((entry = readdir(proc))) {
                char path[300], line[256];
                snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
                _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? 0 : fd_read_full(fd, line, sizeof(line) - 1);
                if (n <= 6)
                        continue;
                line[n] = '\0';
                count += strcmp(line, "sleep") == 0 && strcmp(line + 6, marker) == 0;
        }
        closedir(proc);
        return count;
}

static void await_marked(int count)
{
        for (int i = 0; i < 500 && count_marked() != count; i++)
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        check_eq_int(count_marked(), count);
}

static char *output_of(struct run *r)
{
        char *text;
        size_t length;
        struct error err = {0};

        check_ok(fd_read_whole(r->fds[1], 1 << 20, &text, &length, &err));
        return text;
}

static int64_t now_ms(void)
{
        return (int64_t)clock_ms();
}

/* ---- what a server gets ---- */

static void test_pipes_and_end(void)
{
        struct run r = start("cat; echo bye >&2; exit 3");
        char line[16];

        check_eq_int(fd_write_all(r.fds[0], "hello", 5), 0);
        close(take_fd(r.fds[0]));
        check_eq_int(fd_read_full(r.fds[1], line, 16), 5);
        check_eq_bytes(line, 5, "hello");
        check_eq_int(fd_read_full(r.fds[2], line, 16), 4);
        check(ended_within(&r, 5000));
        int status = finish(&r);
        check(WIFEXITED(status));
        check_eq_int(WEXITSTATUS(status), 3);
}

static void test_environment(void)
{
        char *env[] = {(char[]){"OWN=a b"}, (char[]){"LANG=xx"}, NULL};

        setenv("SECRET_OF_OURS", "1", 1);
        setenv("UV_PUBLISH_TOKEN", "1", 1);
        setenv("UV_CACHE_DIR", "/uv", 1);
        setenv("http_proxy", "http://localhost:1", 1);
        setenv("LANG", "C.UTF-8", 1);
        setenv("TERM", "() { :; }", 1);
        struct run r = start_as("exec env", env, NULL);
        _cleanup_free_ char *text = output_of(&r);
        check_eq_int(finish(&r), 0);
        check_has(text, "OWN=a b\n");
        check_has(text, "LANG=xx\n");
        check_has(text, "PATH=");
        check_has(text, "UV_CACHE_DIR=/uv\n");
        check_has(text, "http_proxy=");
        check(!strstr(text, "LANG=C.UTF-8"));
        check(!strstr(text, "SECRET_OF_OURS"));
        check(!strstr(text, "UV_PUBLISH_TOKEN"));
        check(!strstr(text, "TERM="));
}

static void test_environment_of_another_user(void)
{
        char *parent[] = {(char[]){"HOME=/root"}, (char[]){"XDG_RUNTIME_DIR=/run/user/0"},
                          (char[]){"USER=root"}, (char[]){"LC_ALL=C"}, NULL};
        struct upstream_user user = {.home = (char[]){"/home/t"}, .name = (char[]){"t"}};
        char **env = upstream_env_new(parent, &user, NULL, 0);
        const char *expected[] = {"HOME=/home/t", "USER=t", "LC_ALL=C", "LOGNAME=t"};

        check(env);
        check_has(env[0], "PATH=/");
        for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
                check_eq_str(env[i + 1], expected[i]);
        check(!env[ARRAY_SIZE(expected) + 1]);
        upstream_env_free(env);
}

static void test_nothing_inherited(void)
{
        int leaked = open("/dev/null", O_RDONLY); /* not O_CLOEXEC, as a careless library has it */
        check(leaked >= 3);
        signal(SIGPIPE, SIG_IGN);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);

        /* Read by the shell itself: while it starts a program, dash blocks all signals for a
         * moment. */
        struct run r = start(
                "while read -r line; do case $line in SigBlk*|SigIgn*) echo \"$line\";; esac; done < /proc/$$/status; cut -d' ' -f5-6 /proc/$$/stat; echo pid $$; ls /proc/$$/fd");
        _cleanup_free_ char *text = output_of(&r);
        check_eq_int(finish(&r), 0);
        check_has(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
        check_has(text, "\n0\n1\n2\n");
        check_eq_str(strstr(text, "\n0\n1\n2\n"), "\n0\n1\n2\n"); /* and no more */
        int group, session, pid;
        check_eq_int(sscanf(strstr(text, "SigIgn") + 24, "%d %d pid %d", &group, &session, &pid),
                     3);
        check_eq_int(group, pid);
        check_eq_int(session, pid);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        close(leaked);
}

static void test_limits_restored(void)
{
        struct run r;
        mode_t before = umask(027);

        upstream_remember();
        umask(077);
        r = start("umask");
        _cleanup_free_ char *text = output_of(&r);
        check_eq_int(finish(&r), 0);
        check_eq_str(text, "0027\n");
        umask(before);
        upstream_remember();
}

/* ---- starts that fail ---- */

static void write_file(const char *name, const char *text, mode_t mode)
{
        char path[128];

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        check(fd >= 0);
        check_eq_int(fd_write_all(fd, text, strlen(text)), 0);
        check_eq_int(fchmod(fd, mode), 0);
        close(fd);
}

static void check_refused(char *command, char *cwd, const char *why)
{
        char *argv[] = {command, NULL};
        char path[128];
        snprintf(path, sizeof(path), "PATH=/nowhere:%s:/usr/bin:/bin", directory);
        char *env[] = {path, NULL};
        struct error err = {0};
        struct run r;

        check(try_start(&r, argv, env, cwd, NULL, &err) < 0);
        check_has(err.text, why);
        r.upstream = upstream_free(r.upstream);
        fd_close_many(r.fds, 3);
}

static void test_refusals(void)
{
        char script[128];

        write_file("no-interpreter", "#!/no/such/program\n", 0755);
        write_file("no-shebang", "echo plain\n", 0755);
        write_file("not-executable", "#!/bin/sh\n", 0644);
        check_refused((char[]){"npx-absent"}, NULL,
                      "npx-absent: not found in PATH; install it or give its full path");
        check_refused((char[]){"/no/such/server"}, NULL, "/no/such/server: No such file");
        check_refused((char[]){"true"}, (char[]){"/no/such/dir"}, "cwd /no/such/dir: No such file");
        check_refused((char[]){"no-interpreter"}, NULL, "its interpreter");
        check_refused((char[]){"not-executable"}, NULL, "Permission denied");
        check_refused((char[]){""}, NULL, "command is empty");

        struct error err = {0};
        struct run r;
        snprintf(script, sizeof(script), "%s/no-shebang", directory);
        char *argv[] = {script, NULL};
        check_ok(try_start(&r, argv, NULL, NULL, NULL, &err));
        _cleanup_free_ char *text = output_of(&r);
        check_eq_str(text, "plain\n");
        check_eq_int(finish(&r), 0);
}

/* A write lease on the program makes execve() wait until the lease is given up. */
static void test_hanging_exec(void)
{
        char program[128];
        struct error err = {0};
        struct upstream_user self = self_user();
        struct config_server server = {.name = (char[]){"test"}, .command = program};
        struct run r = {.fds = {-1, -1, -1}};

        write_file("leased", "#!/bin/sh\n", 0755);
        snprintf(program, sizeof(program), "%s/leased", directory);
        signal(SIGIO, SIG_IGN); /* the kernel asks for the lease with it */
        _cleanup_close_ int lease = open(program, O_RDONLY | O_CLOEXEC);
        check_eq_int(fcntl(lease, F_SETLEASE, F_WRLCK), 0);
        int64_t before = now_ms();
        check_ok(upstream_start(&server, &self, -1, &r.upstream, r.fds, &err));
        upstream_release(r.upstream);
        struct pollfd polled = {.fd = upstream_exec_fd(r.upstream), .events = POLLIN};
        check_eq_int(poll(&polled, 1, 300), 0);
        check_eq_int(upstream_exec_result(r.upstream, &err), -ETIMEDOUT);
        check_has(err.text, "exec took more than");
        upstream_kill(r.upstream);
        check(ended_within(&r, 2000));
        check(now_ms() - before < 3000);
        check_eq_int(upstream_exec_result(r.upstream, &err), -ETIMEDOUT);
        finish(&r);
}

static void test_cwd(void)
{
        char *argv[] = {(char[]){"pwd"}, NULL};
        struct error err = {0};
        struct run r;

        check_ok(try_start(&r, argv, NULL, directory, NULL, &err));
        _cleanup_free_ char *text = output_of(&r);
        check_has(text, directory);
        check_eq_int(finish(&r), 0);
}

/* ---- nothing stays ---- */

static void test_stop_ends_the_tree(void)
{
        /* As npx does it: a shell below a shell; a background process; one that left the session.
         */
        struct run r = start(
                "sh -c \"$SLEEP & $SLEEP; :\" & setsid $SLEEP & (setsid sh -c \"$SLEEP & exit\"); wait");

        await_marked(4);
        int64_t before = now_ms();
        upstream_stop(r.upstream);
        check(ended_within(&r, 1500));
        check(now_ms() - before < 1500);
        check_eq_int(count_marked(), 0);
        int status = finish(&r);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void test_sigterm_ignored(void)
{
        struct run r = start("trap '' TERM; $SLEEP & $SLEEP; while :; do sleep 0.1; done");

        await_marked(2);
        int64_t before = now_ms();
        upstream_stop(r.upstream);
        check(ended_within(&r, 6000));
        check(now_ms() - before >= 1900);
        check_eq_int(count_marked(), 0);
        int status = finish(&r);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void test_stopped_process(void)
{
        struct run r = start("$SLEEP & sleep 0.05; kill -STOP $!; echo stopped; $SLEEP");
        char line[16];

        check_eq_int(read(r.fds[1], line, sizeof(line)), 8);
        await_marked(2);
        upstream_stop(r.upstream);
        check(ended_within(&r, 1500));
        check_eq_int(count_marked(), 0);
        finish(&r);
}

static void test_main_ends_by_itself(void)
{
        struct run r = start("trap '' HUP; (setsid sh -c \"$SLEEP & $SLEEP & exit\"); exit 7");

        check(ended_within(&r, 6000));
        check_eq_int(count_marked(), 0);
        int status = finish(&r);
        check(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void test_forks_away(void)
{
        struct run r = start_without_grace("trap '' TERM; while :; do ($SLEEP & sleep 0.01); done");

        for (int i = 0; i < 300 && count_marked() < 5; i++)
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        check(count_marked() >= 5);
        upstream_stop(r.upstream);
        check(ended_within(&r, 8000));
        check_eq_int(count_marked(), 0);
        finish(&r);
}

static void test_free_kills_at_once(void)
{
        struct run r = start("trap '' TERM; $SLEEP & $SLEEP");

        await_marked(2);
        int64_t before = now_ms();
        r.upstream = upstream_free(r.upstream);
        check(now_ms() - before < 1000);
        check_eq_int(count_marked(), 0);
        fd_close_many(r.fds, 3);

        /* Also one that got SIGTERM before. */
        r = start("trap '' TERM; $SLEEP & $SLEEP");
        await_marked(2);
        upstream_stop(r.upstream);
        before = now_ms();
        r.upstream = upstream_free(r.upstream);
        check(now_ms() - before < 1000);
        check_eq_int(count_marked(), 0);
        fd_close_many(r.fds, 3);
}

static void test_monitor_killed(void)
{
        pid_t pid = fork();

        if (pid == 0) {
                /* Two: the second reaper must not hold the first one's socket. */
                (void)start_without_grace(
                        "trap '' TERM; $SLEEP & (setsid sh -c \"$SLEEP & exit\"); $SLEEP");
                (void)start_without_grace("$SLEEP & $SLEEP");
                await_marked(5);
                raise(SIGKILL);
        }
        int status;
        check_eq_int(waitpid(pid, &status, 0), pid);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        await_marked(0);
}

static void test_reaper_killed(void)
{
        struct run r = start("exec $SLEEP");

        await_marked(1);
        kill(upstream_pid(r.upstream), SIGKILL);
        check(ended_within(&r, 2000));
        await_marked(0);
        check(WIFSIGNALED(finish(&r)));
}

/* ---- as root ---- */

static const char report_script[] =
        "id -u; id -G; grep -E '^Cap(Prm|Eff|Amb)' /proc/$$/status; echo x > /dev/stderr; exec $SLEEP";

static void test_other_user(void)
{
        char uid[32], line[128];
        struct upstream_user user = {0};
        struct error err = {0};

        check_eq_int(upstream_user_choose(SANDBOX_ROOT, "nobody", NULL, &user, &err), 0);
        check(user.uid != 0);
        check_eq_int(setgroups(2, (gid_t[]){0, 4}), 0);
        struct run r = start_as(report_script, NULL, &user);
        await_marked(1);
        ssize_t n = read(r.fds[1], line, sizeof(line) - 1);
        check(n > 0);
        line[n] = '\0';
        snprintf(uid, sizeof(uid), "%u\n%u\n", user.uid, user.gid); /* and no group of ours */
        check(strncmp(line, uid, strlen(uid)) == 0);
        check_eq_int(read(r.fds[2], line, 2), 2);
        upstream_stop(r.upstream);
        check(ended_within(&r, 1500));
        check_eq_int(count_marked(), 0);
        finish(&r);
        upstream_user_done(&user);
}

static void test_root_without_capabilities(void)
{
        struct upstream_user user = {0};
        struct error err = {0};

        check_eq_int(upstream_user_choose(SANDBOX_ROOT, NULL, NULL, &user, &err), 1);
        check_eq_int(user.uid, 0);
        struct run r = start_as("sh -c 'grep -E ^Cap /proc/self/status'", NULL, &user);
        _cleanup_free_ char *text = output_of(&r);
        check_eq_int(finish(&r), 0);
        check_has(text, "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
                        "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n");
        /* The control: the same without the rule. */
        r = start("sh -c 'grep -E ^CapEff /proc/self/status'");
        _cleanup_free_ char *control = output_of(&r);
        check_eq_int(finish(&r), 0);
        check(!strstr(control, "0000000000000000"));
}

static void test_user_choice(void)
{
        struct upstream_user user = {0};
        struct error err = {0};

        check_eq_int(upstream_user_choose(SANDBOX_ROOTLESS, NULL, "1", &user, &err), 0);
        check_eq_int(user.uid, geteuid());
        check_eq_int(user.drop_capabilities, 0);
        check(upstream_user_choose(SANDBOX_ROOTLESS, "daemon", NULL, &user, &err) < 0);
        check_has(err.text, "only root");
        check(upstream_user_choose(SANDBOX_ROOT, "no-such-user-here", NULL, &user, &err) < 0);
        check_has(err.text, "there is no such user");
        check(upstream_user_choose(SANDBOX_ROOT, NULL, "12x", &user, &err) < 0);
        check_eq_int(upstream_user_choose(SANDBOX_ROOT, NULL, "1", &user, &err), 0);
        check_eq_int(user.uid, 1);
        check_eq_str(user.name, "daemon");
        upstream_user_done(&user);
        check_eq_int(upstream_user_choose(SANDBOX_ROOT, "1", "2", &user, &err), 0);
        check_eq_int(user.uid, 1);
        upstream_user_done(&user);
}

static void remove_directory(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -r %s", directory);
        check_eq_int(system(command), 0);
}

/* What holds apart and otherwise. */
static void test_processes(void)
{
        test_pipes_and_end();
        test_nothing_inherited();
        test_cwd();
        test_stop_ends_the_tree();
        test_sigterm_ignored();
        test_stopped_process();
        test_main_ends_by_itself();
        test_forks_away();
        test_free_kills_at_once();
        test_monitor_killed();
        test_reaper_killed();
        if (geteuid() == 0) {
                test_other_user();
                test_root_without_capabilities();
        }
        struct run r = start("echo $$; exec sleep 0");
        _cleanup_free_ char *text = output_of(&r);
        finish(&r);
        check(is_apart == (strcmp(text, "2\n") == 0));
}

/* One line says how to start it all the same. */
static void test_no_namespaces(void)
{
        char *argv[] = {(char[]){"true"}, NULL};
        struct error err = {0};
        struct run r;

        int status;
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0) {
                FILE *f = unshare(CLONE_NEWUSER) < 0
                                  ? NULL
                                  : fopen("/proc/sys/user/max_user_namespaces", "w");
                if (!f || fputs("0", f) < 0 || fclose(f) != 0)
                        _exit(2);
                if (try_start(&r, argv, NULL, NULL, NULL, &err) >= 0)
                        _exit(3);
                _exit(strstr(err.text, "set \"apart\": false for this server") &&
                                      strstr(err.text, "user.max_user_namespaces")
                              ? 0
                              : 4);
        }
        check_eq_int(waitpid(pid, &status, 0), pid);
        check_eq_int(status, 0);
}

int main(void)
{
        snprintf(marker, sizeof(marker), "8%d", getpid());
        snprintf(directory, sizeof(directory), "/tmp/test-upstream-XXXXXX");
        check(mkdtemp(directory));
        run(test_pipes_and_end);
        run(test_environment);
        run(test_environment_of_another_user);
        run(test_nothing_inherited);
        run(test_limits_restored);
        run(test_refusals);
        run(test_hanging_exec);
        run(test_user_choice);
        run(test_processes);
        is_apart = true;
        run(test_processes);
        run(test_no_namespaces);
        remove_directory();
        return 0;
}
