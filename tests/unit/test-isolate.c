/*
 * What the broker can do before and after it isolates itself, in a process with its own namespaces:
 * each refusal has its control.
 */
#include "supervisor/broker/isolate.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/seccomp/filter.h"
#include "tests/unit/test.h"

static char state[] = "/tmp/cloister-isolate-XXXXXX";

static void write_file(const char *path, const char *text)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        check(fd >= 0);
        check_eq_int(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Our own id in a new user namespace, with all capabilities there; pid 1 of a new pid namespace is
 * our child. */
static bool enter_namespaces(void)
{
        char map[64];
        uid_t uid = getuid();
        gid_t gid = getgid();

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC) < 0)
                return false;
        write_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof(map), "%u %u 1", uid, uid);
        write_file("/proc/self/uid_map", map);
        snprintf(map, sizeof(map), "%u %u 1", gid, gid);
        write_file("/proc/self/gid_map", map);
        return true;
}

static bool can_make_unix_socket(void)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        return fd >= 0;
}

static bool can_exec(void)
{
        pid_t pid = fork();

        if (pid < 0)
                return false;
        if (pid == 0) {
                execl("/bin/true", "true", NULL);
                _exit(1);
        }
        int status = 1;
        waitpid(pid, &status, 0);
        return status == 0;
}

static bool can_write(const char *path)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        return fd >= 0;
}

static bool is_open(int fd)
{
        return fcntl(fd, F_GETFD) >= 0;
}

/* Names in the root. */
static void list_root(char *to, size_t size)
{
        DIR *dir = opendir("/");
        const struct dirent *entry;

        to[0] = '\0';
        check(dir);
        while ((entry = readdir(dir))) {
                if (entry->d_name[0] != '.')
                        snprintf(to + strlen(to), size - strlen(to), "%s ", entry->d_name);
        }
        closedir(dir);
}

static void check_before(void)
{
        check(can_make_unix_socket());
        check(can_exec());
        check(can_write("/tmp/cloister-isolate-control"));
        check_eq_int(unlink("/tmp/cloister-isolate-control"), 0);
        check(access("/proc/self", F_OK) == 0);
}

static void check_after(int state_dir, int kept, int closed)
{
        char names[256], text[64];
        struct stat st;

        list_root(names, sizeof(names));
        check_has(names, "etc ");
        check_has(names, "state ");
        check(!strstr(names, "proc") && !strstr(names, "home") && !strstr(names, "tmp"));
        check(access("/etc/passwd", R_OK) == 0);
        check(!can_write("/etc/cloister-isolate"));
        check(!can_write("/cloister-isolate"));
        check(can_write("/state/file"));
        check_eq_int(fstatat(state_dir, "file", &st, 0), 0);
        check_eq_int(unlinkat(state_dir, "file", 0), 0);

        check(!can_make_unix_socket());
        check_eq_int(errno, EPERM);
        check(!can_exec());
        check_eq_int(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
        check_eq_int(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
        check_eq_int(setuid(12345), -1);
        check(is_open(kept));
        check(!is_open(closed));
        check(getcwd(text, sizeof(text)));
        check_eq_str(text, "/");
}

static int isolated(int filter)
{
        int closed = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
            kept = fcntl(closed, F_DUPFD_CLOEXEC, 40);
        const struct isolation how = {
                .filter_fd = filter,
                .state_path = state,
                .has_uid = true,
                .uid = getuid(),
                .keep = {kept, -1, -1, -1},
        };
        struct error err = {};
        int state_dir = -1;

        check_before();
        check_ok(broker_isolate(&how, &state_dir, &err));
        check_after(state_dir, kept, closed);
        return 0;
}

/* In a child, because isolation cannot be undone. */
static void test_isolation(void)
{
        struct error err = {};
        int status = -1;

        check(mkdtemp(state));
        int filter = filter_compile(FILTER_BROKER, &err);
        check_ok(filter);
        pid_t pid = fork();
        if (pid == 0) {
                if (!enter_namespaces())
                        _exit(TEST_SKIP);
                pid_t first = fork();
                if (first == 0)
                        _exit(isolated(filter));
                int inner = -1;
                waitpid(first, &inner, 0);
                _exit(WIFEXITED(inner) ? WEXITSTATUS(inner) : 1);
        }
        check_eq_int(waitpid(pid, &status, 0), pid);
        rmdir(state);
        close(filter);
        if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP) {
                puts("no user namespaces here");
                exit(TEST_SKIP);
        }
        check_eq_int(status, 0);
}

int main(void)
{
        run(test_isolation);
        return 0;
}
