/* A log file: its bound, and what is not renamed. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

static char folder[] = "/tmp/cloister-test-log-XXXXXX";
static char lines[1024 * 1024];

static const char *in_folder(const char *name)
{
        static char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        return path;
}

static long long size_of(const char *name)
{
        struct stat st;

        return stat(in_folder(name), &st) < 0 ? -errno : st.st_size;
}

static void write_mib(int n)
{
        for (int i = 0; i < n; i++)
                log_file_append(lines, sizeof(lines));
}

/* The first lines fill a file; the second file holds the last lines. */
static void test_bound(void)
{
        write_mib(100);
        check(size_of("log") <= LOG_FILE_MAX);
        check_eq_int(size_of("log.1"), LOG_FILE_MAX);
        check_eq_int(size_of("log") + size_of("log.1"), 20 * (int)sizeof(lines));
        write_mib(12);
        /* Lines of this process count too. */
        log_error("one more");
        check(size_of("log") < 1000);
        check_eq_int(size_of("log.1"), LOG_FILE_MAX);
}

/* The owner, or logrotate, has renamed it: a new one is made. */
static void test_renamed(void)
{
        char from[PATH_MAX];

        snprintf(from, sizeof(from), "%s", in_folder("log"));
        check_eq_int(rename(from, in_folder("moved")), 0);
        write_mib(20);
        check(size_of("moved") >= LOG_FILE_MAX);
        check(size_of("log") > 0 && size_of("log") <= LOG_FILE_MAX);
}

/* Another server with the same log has renamed it. */
static void test_shared(void)
{
        pid_t pid = fork();

        check(pid >= 0);
        if (pid == 0) {
                struct error err = {};
                log_file_open(in_folder("log"), LOG_FORMAT_TEXT, &err);
                write_mib(20);
                _exit(0);
        }
        check_eq_int(waitpid(pid, NULL, 0), pid);
        long long before = size_of("log");
        check(before <= 8 * 1024 * 1024);
        write_mib(1);
        check_eq_int(size_of("log"), before + 1024 * 1024);
}

/* A child that inherited the log does not rename it. */
static void test_child(void)
{
        unlink(in_folder("log.1"));
        pid_t pid = fork();

        check(pid >= 0);
        if (pid == 0) {
                write_mib(20);
                _exit(0);
        }
        check_eq_int(waitpid(pid, NULL, 0), pid);
        check_eq_int(size_of("log.1"), -ENOENT);
}

static void refuse(const char *name, const char *why)
{
        struct error err = {};

        check(log_file_open(in_folder(name), LOG_FORMAT_TEXT, &err) < 0);
        check_has(err.text, why);
        check(!log_file_is_bounded());
}

static unsigned mode_of(const char *name)
{
        struct stat st = {};

        check_eq_int(stat(in_folder(name), &st), 0);
        return st.st_mode & 0777;
}

/* Nothing is written behind a link, and a FIFO is not waited for. */
static void test_refused(void)
{
        struct error err = {};
        char target[PATH_MAX];

        snprintf(target, sizeof(target), "%s", in_folder("target"));
        close(open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        check_eq_int(symlink(target, in_folder("link")), 0);
        refuse("link", "it is a link; name the file itself");
        check_eq_int(symlink("nowhere", in_folder("dangling")), 0);
        refuse("dangling", "it is a link");
        check_eq_int(size_of("nowhere"), -ENOENT);
        check_eq_int(mkfifo(in_folder("fifo"), 0600), 0);
        refuse("fifo", "it is not a regular file");
        int reader = open(in_folder("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        refuse("fifo", "it is not a regular file");
        close(reader);
        check_eq_int(link(target, in_folder("second")), 0);
        refuse("second", "the file has other names");
        refuse("no/such", "No such file");
        refuse(".", "Is a directory");
        if (geteuid() == 0) {
                check_eq_int(unlink(in_folder("second")), 0);
                check_eq_int(chown(target, 65534, 65534), 0);
                refuse("target", "it belongs to another user");
                check_eq_int(chown(target, 0, 0), 0);
        }
        check_eq_int(unlink(in_folder("second")) == 0 || errno == ENOENT, 1);
        check_eq_int(size_of("target"), 0);
        check_ok(log_file_open(in_folder("target"), LOG_FORMAT_TEXT, &err));
        check(log_file_is_bounded());
        check_ok(log_file_open(NULL, LOG_FORMAT_TEXT, &err));
        check(!log_file_is_bounded());
}

/* Only the owner reads the log, also in a file that existed. */
static void test_mode(void)
{
        struct error err = {};

        close(open(in_folder("old"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        check_eq_int(chmod(in_folder("old"), 0666), 0);
        check_ok(log_file_open(in_folder("old"), LOG_FORMAT_TEXT, &err));
        check_eq_int(mode_of("old"), 0600);
        write_mib(20);
        check_eq_int(mode_of("old"), 0600);
        check_eq_int(mode_of("old.1"), 0600);
        check_ok(log_file_open(NULL, LOG_FORMAT_TEXT, &err));
}

int main(void)
{
        struct error err = {};

        memset(lines, 'x', sizeof(lines));
        for (size_t i = 99; i < sizeof(lines); i += 100)
                lines[i] = '\n';
        check(mkdtemp(folder));
        check_ok(log_file_open(in_folder("log"), LOG_FORMAT_TEXT, &err));
        run(test_bound);
        run(test_renamed);
        run(test_shared);
        run(test_child);
        run(test_refused);
        run(test_mode);
        static const char *const names[] = {"log",  "moved", "link",  "dangling", "target",
                                            "fifo", "old",   "old.1", ""};
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                check_eq_int(remove(in_folder(names[i])), 0);
        return 0;
}
