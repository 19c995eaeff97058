/* How init sees which files have changed, on a directory of the host instead of /workspace. */
#include "sandbox-init/init/changes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "rpc/file-changes.h"
#include "rpc/sandbox-messages.h"
#include "tests/unit/test.h"

static char place[] = "/tmp/changes-of-files-XXXXXX";
static int broker; /* reads what init writes */

static void put(const char *path, const char *text)
{
        int fd = openat(INIT_WORKSPACE_FD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        check(fd >= 0);
        check_eq_int(fd_write_all(fd, text, strlen(text)), 0);
        close(fd);
}

/* "NUMBER of new, changed, deleted: +path ~path -path", or the limit. */
static const char *read_look(void)
{
        static char bytes[64 * 1024], text[2048];
        struct file_changes_reader reader;
        struct file_changes_entry entry;
        const char *path;
        char list[1024] = "";
        size_t used = 0;
        int r;

        ssize_t n = read(broker, bytes, sizeof(bytes));
        if (n < 0)
                return "nothing";
        file_changes_read(&reader, bytes, (size_t)n);
        while ((r = file_changes_next(&reader, &entry, &path)) > 0) {
                if (used < 200)
                        used += (size_t)snprintf(list + used, sizeof(list) - used, " %c%.*s",
                                                 "+~-"[entry.change], (int)entry.length, path);
        }
        check_eq_int(r, 0);
        const uint32_t *number = reader.sum.number;
        if (reader.sum.limit != FILE_CHANGES_WHOLE)
                snprintf(text, sizeof(text), "limit %u", reader.sum.limit);
        else
                snprintf(text, sizeof(text), "%u %u %u:%s", number[FILE_NEW], number[FILE_CHANGED],
                         number[FILE_DELETED], list);
        return text;
}

static const char *look(void)
{
        changes_report(true);
        return read_look();
}

static void test_changes(void)
{
        check_eq_str(look(), "0 0 0:");
        put("a", "1");
        check_eq_str(look(), "1 0 0: +a");
        check_eq_str(look(), "0 0 0:");
        put("a", "22");
        check_eq_str(look(), "0 1 0: ~a");
        check_eq_int(mkdirat(INIT_WORKSPACE_FD, "d", 0700), 0);
        put("d/b", "1");
        check_eq_str(look(), "2 0 0: +d +d/b");
        check_eq_int(unlinkat(INIT_WORKSPACE_FD, "d/b", 0), 0);
        check_eq_int(unlinkat(INIT_WORKSPACE_FD, "d", AT_REMOVEDIR), 0);
        check_eq_str(look(), "0 0 2: -d -d/b");
        /* A link is not followed, even if it replaces a directory. */
        check_eq_int(symlinkat("/proc/self", INIT_WORKSPACE_FD, "d"), 0);
        check_eq_str(look(), "1 0 0: +d");
        check_eq_int(unlinkat(INIT_WORKSPACE_FD, "d", 0), 0);
        check_eq_str(look(), "0 0 1: -d");
}

/* A pipe that is not read does not stop init, which reports later the changes that did not fit. */
static void test_a_full_pipe(void)
{
        char bytes[4096] = "";

        put("a", "333");
        while (write(INIT_CHANGES_FD, bytes, sizeof(bytes)) > 0)
                ;
        check_eq_int(errno, EAGAIN);
        changes_report(true);
        put("b", "1");
        changes_report(true);
        while (read(broker, bytes, sizeof(bytes)) > 0)
                ;
        check_eq_str(look(), "1 1 0: +b ~a");
        check_eq_int(unlinkat(INIT_WORKSPACE_FD, "b", 0), 0);
        check_eq_str(look(), "0 0 1: -b");
}

/* Two scans that were not read follow each other in the pipe. */
static void test_two_looks(void)
{
        put("c", "1");
        changes_report(true);
        put("c", "22");
        check_eq_str(look(), "1 1 0: +c ~c");
        check_eq_int(unlinkat(INIT_WORKSPACE_FD, "c", 0), 0);
        check_eq_str(look(), "0 0 1: -c");
}

static void fill(unsigned int n)
{
        char name[256];

        for (unsigned int i = 0; i < n; i++) {
                snprintf(name, sizeof(name), "%0250u", i);
                put(name, "");
        }
}

static void empty(unsigned int n)
{
        char name[256];

        for (unsigned int i = 0; i < n; i++) {
                snprintf(name, sizeof(name), "%0250u", i);
                check_eq_int(unlinkat(INIT_WORKSPACE_FD, name, 0), 0);
        }
}

/* The list is cut at the bound of a look, which leaves room in the pipe; the numbers are whole. */
static void test_a_long_list(void)
{
        char bytes[64 * 1024];

        fill(1000);
        changes_report(true);
        ssize_t n = read(broker, bytes, sizeof(bytes));
        check(n > 11 * 3700 && n <= FILE_CHANGES_MESSAGES_MAX * FILE_CHANGES_MESSAGE_MAX);
        empty(1000);
        check_eq_int(strncmp(look(), "0 0 1000: -", 11), 0);
}

/* Each path has the names of its directories. */
static void test_paths_have_a_bound(void)
{
        enum { LEVELS = 12, FILES = 400 };
        char path[LEVELS * 251 + 16] = "";
        size_t used = 0;

        for (size_t i = 0; i < LEVELS; i++) {
                used += (size_t)snprintf(path + used, sizeof(path) - used, "%0250d/", 0);
                check_eq_int(mkdirat(INIT_WORKSPACE_FD, path, 0700), 0);
        }
        for (unsigned int i = 0; i < FILES; i++) {
                snprintf(path + used, sizeof(path) - used, "%u", i);
                put(path, "");
        }
        check_eq_str(look(), "limit 2");
        for (unsigned int i = 0; i < FILES; i++) {
                snprintf(path + used, sizeof(path) - used, "%u", i);
                check_eq_int(unlinkat(INIT_WORKSPACE_FD, path, 0), 0);
        }
        for (size_t i = LEVELS; i > 0; i--) {
                path[i * 251 - 1] = '\0';
                check_eq_int(unlinkat(INIT_WORKSPACE_FD, path, AT_REMOVEDIR), 0);
        }
        check_eq_str(look(), "limit 5");
        check_eq_str(look(), "0 0 0:");
}

static void test_depth_has_a_bound(void)
{
        char path[256] = "";

        for (size_t i = 0; i < 66; i++) {
                snprintf(path + 2 * i, sizeof(path) - 2 * i, "%s", "x/");
                check_eq_int(mkdirat(INIT_WORKSPACE_FD, path, 0700), 0);
        }
        check_eq_str(look(), "limit 3");
        for (size_t i = 66; i > 0; i--) {
                path[2 * i - 1] = '\0';
                check_eq_int(unlinkat(INIT_WORKSPACE_FD, path, AT_REMOVEDIR), 0);
        }
        check_eq_str(look(), "limit 5");
        check_eq_str(look(), "0 0 0:");
}

/* A look that took long is not repeated unless it is wanted. */
static void test_a_long_look(void)
{
        fill(3000);
        check_eq_int(strncmp(look(), "3000 0 0: +", 11), 0);
        put("new", "");
        changes_report(false);
        check_eq_str(read_look(), "nothing");
        check_eq_str(look(), "1 0 0: +new");
        check_eq_int(unlinkat(INIT_WORKSPACE_FD, "new", 0), 0);
        empty(3000);
        look();
        put("new", "");
        changes_report(false);
        check_eq_str(read_look(), "1 0 0: +new");
        check_eq_int(unlinkat(INIT_WORKSPACE_FD, "new", 0), 0);
}

/* In a tmpfs that has only out/, as in a new session. Returns false if this user may not mount one. */
static bool enter_tmpfs(void)
{
        if ((geteuid() != 0 && unshare(CLONE_NEWUSER) < 0) || unshare(CLONE_NEWNS) < 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", place, "tmpfs", 0, "nr_inodes=1000") < 0)
                return false;
        int root = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
        check(root >= 0 && dup2(root, INIT_WORKSPACE_FD) >= 0);
        check_eq_int(mkdirat(INIT_WORKSPACE_FD, "out", 0755), 0);
        changes_open();
        return true;
}

static int temporary(void)
{
        return openat(INIT_WORKSPACE_FD, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static void look_at_tmpfs(int i)
{
        const int root = INIT_WORKSPACE_FD;

        check_eq_str(look(), "0 0 0:");
        check_eq_str(look(), "0 0 0:");
        if (i == 0) {
                put("a", "1");
                check_eq_str(look(), "1 0 0: +a");
                put("a", "2");
                check_eq_int(unlinkat(root, "a", 0), 0);
                check_eq_str(look(), "0 0 1: -a");
        } else if (i == 1) { /* the same number of files */
                check_eq_int(unlinkat(root, "out", AT_REMOVEDIR), 0);
                put("a", "1");
                check_eq_str(look(), "1 0 1: +a -out");
        } else if (i == 2) {
                check_eq_int(mkdirat(root, "other", 0755), 0);
                check_eq_int(unlinkat(root, "out", AT_REMOVEDIR), 0);
                check_eq_int(renameat(root, "other", root, "out"), 0);
                check_eq_str(look(), "0 1 0: ~out");
        } else if (i == 3) {
                check_eq_int(fchmodat(root, "out", 0700, 0), 0);
                check_eq_str(look(), "0 1 0: ~out");
        } else if (i == 4) {
                check_eq_int(symlinkat("/", root, "out/l"), 0);
                check_eq_str(look(), "1 0 0: +out/l");
        } else if (i == 5) { /* a file without a name counts, and gets one */
                int fd = temporary();
                check(fd >= 0);
                check_eq_str(look(), "0 0 0:");
                char path[64];
                snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
                check_eq_int(linkat(AT_FDCWD, path, root, "out/t", AT_SYMLINK_FOLLOW), 0);
                check_eq_str(look(), "1 0 0: +out/t");
        } else if (i == 6) { /* the first report is made late */
                put("out/x", "1");
                check_eq_int(unlinkat(root, "out/x", 0), 0);
                check_eq_str(look(), "0 0 0:");
                put("out/x", "1");
                check_eq_str(look(), "1 0 0: +out/x");
        }
}

static void test_a_session_that_has_written_nothing(void)
{
        for (int i = 0; i < 7; i++) {
                int status = 0;
                pid_t pid = fork();
                if (pid == 0 && !enter_tmpfs())
                        _exit(77);
                if (pid == 0) {
                        look_at_tmpfs(i);
                        _exit(0);
                }
                check_eq_int(waitpid(pid, &status, 0), pid);
                check(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
        }
}

int main(void)
{
        int ends[2];

        check(mkdtemp(place));
        check_eq_int(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
        broker = fcntl(ends[0], F_DUPFD_CLOEXEC, 64);
        int directory = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
        check(broker >= 0 && directory >= 0);
        check_eq_int(dup2(fcntl(ends[1], F_DUPFD_CLOEXEC, 64), INIT_CHANGES_FD), INIT_CHANGES_FD);
        check_eq_int(dup2(fcntl(directory, F_DUPFD_CLOEXEC, 64), INIT_WORKSPACE_FD),
                     INIT_WORKSPACE_FD);
        run(test_a_session_that_has_written_nothing);
        changes_open();
        run(test_changes);
        run(test_a_full_pipe);
        run(test_two_looks);
        run(test_a_long_list);
        run(test_paths_have_a_bound);
        run(test_depth_has_a_bound);
        run(test_a_long_look);
        check_eq_int(unlinkat(INIT_WORKSPACE_FD, "a", 0), 0);
        check_eq_int(rmdir(place), 0);
        return 0;
}
