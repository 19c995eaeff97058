/*
 * Rights of the broker before and after it isolates itself, in a process with its own namespaces:
 * each refusal has its control.
 */
#include "supervisor/broker/isolate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
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
#include "supervisor/hub/cache/cache.h"
#include "tests/unit/test.h"

enum { ROOM_BYTES = 1024 * 1024, ROOM_FILES = 10 };

static const char state_template[] = "/tmp/cloister-test-isolate-XXXXXX";
static char state[sizeof(state_template)];

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

static bool can_make_internet_socket(void)
{
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

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
        check(can_write("/tmp/cloister-test-isolate-control"));
        check_eq_int(unlink("/tmp/cloister-test-isolate-control"), 0);
        check(access("/proc/self", F_OK) == 0);
}

/* Sends a file to the process that writes the cache. */
static void send_file(int cache, uint64_t key, size_t n)
{
        _cleanup_free_ char *content = calloc(1, n);

        check(content);
        while (cache_request_store(cache, key, content, n) == -EAGAIN)
                usleep(1000);
}

static bool waited_for(int state_dir, const char *name)
{
        struct stat st;

        for (int i = 0; i < 5000; i++) {
                if (fstatat(state_dir, name, &st, 0) == 0)
                        return true;
                usleep(1000);
        }
        return false;
}

static bool has_size(int state_dir, const char *name, off_t size)
{
        struct stat st;

        return fstatat(state_dir, name, &st, 0) == 0 && st.st_size == size;
}

/* The cache of a broker that has nearly filled it: sparse files. */
static void fill_cache(void)
{
        char path[128];

        snprintf(path, sizeof(path), "%s/catalogue", state);
        check_eq_int(mkdir(path, 0700), 0);
        for (int i = 0; i < HUB_CACHE_FILES_MAX - ROOM_FILES; i++) {
                snprintf(path, sizeof(path), "%s/catalogue/ff%014x.json", state, i);
                _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
                check(fd >= 0);
                if (i == 0)
                        check_eq_int(ftruncate(fd, HUB_CACHE_BYTES_MAX - ROOM_BYTES), 0);
        }
}

static void measure(int state_dir, size_t *files, uint64_t *bytes)
{
        DIR *dir = fdopendir(openat(state_dir, "catalogue", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        struct stat st;

        *files = *bytes = 0;
        check(dir);
        for (const struct dirent *entry; (entry = readdir(dir));) {
                if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode)) {
                        *bytes += (uint64_t)st.st_size;
                        (*files)++;
                }
        }
        closedir(dir);
}

/* A broken broker fills no disk: it cannot write there, and what writes for it has limits. */
static void check_cache(int state_dir, int cache)
{
        size_t files;
        uint64_t bytes;

        check(!can_write("/state/file") && errno == EROFS);
        check(!can_write("/state/catalogue/file"));
        send_file(cache, 1, 10);
        check(waited_for(state_dir, "catalogue/0000000000000001.json"));
        /* Each is one too many: of bytes in a file, of bytes, of files. */
        send_file(cache, 2, HUB_CACHE_FILE_MAX + 1);
        send_file(cache, 3, ROOM_BYTES + 1);
        send_file(cache, 4, ROOM_BYTES / 2);
        for (uint64_t key = 5; key < 20; key++)
                send_file(cache, key, 1);
        send_file(cache, 1, 20);
        check(waited_for(state_dir, "catalogue/0000000000000004.json"));
        for (int i = 0; i < 5000 && !has_size(state_dir, "catalogue/0000000000000001.json", 20);
             i++)
                usleep(1000);
        measure(state_dir, &files, &bytes);
        check_eq_int(files, HUB_CACHE_FILES_MAX);
        check(bytes > HUB_CACHE_BYTES_MAX - ROOM_BYTES && bytes <= HUB_CACHE_BYTES_MAX);
        check(faccessat(state_dir, "catalogue/0000000000000003.json", F_OK, 0) < 0);
        check(faccessat(state_dir, "catalogue/0000000000000002.json", F_OK, 0) < 0);
}

static void check_after(bool has_http, int state_dir, int kept, int closed)
{
        char names[256], text[64];
        struct stat st;

        list_root(names, sizeof(names));
        /* Names of hosts and certificates are for servers that are reached by HTTP. */
        check_eq_int(strstr(names, "etc ") != NULL, has_http);
        check_has(names, "state ");
        check(!strstr(names, "proc") && !strstr(names, "home") && !strstr(names, "tmp"));
        check_eq_int(access("/etc/passwd", R_OK) == 0, has_http);
        check(!can_write("/etc/cloister-isolate"));
        check_eq_int(can_make_internet_socket(), has_http);
        check(!can_write("/cloister-isolate"));
        check_eq_int(fstatat(state_dir, ".", &st, 0), 0);

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

static int isolated(int filter, bool has_http)
{
        int closed = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
            kept = fcntl(closed, F_DUPFD_CLOEXEC, 40);
        const struct isolation how = {
                .filter_fd = filter,
                .state_path = state,
                .has_uid = true,
                .uid = getuid(),
                .has_http = has_http,
                .keep = {kept, -1, -1, -1},
        };
        struct error err = {};
        int state_dir = -1, cache = -1;

        check_before();
        check_ok(broker_isolate(&how, &state_dir, &cache, &err));
        check_after(has_http, state_dir, kept, closed);
        check(cache >= 0);
        check_cache(state_dir, cache);
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        return remove(path);
}

/* In a child, because isolation cannot be undone. */
static void isolate(enum filter_kind kind)
{
        struct error err = {};
        int status = -1;

        snprintf(state, sizeof(state), "%s", state_template);
        check(mkdtemp(state));
        fill_cache();
        int filter = filter_compile(kind, &err);
        check_ok(filter);
        pid_t pid = fork();
        if (pid == 0) {
                if (!enter_namespaces())
                        _exit(TEST_SKIP);
                pid_t first = fork();
                if (first == 0)
                        _exit(isolated(filter, kind == FILTER_BROKER_HTTP));
                int inner = -1;
                waitpid(first, &inner, 0);
                _exit(WIFEXITED(inner) ? WEXITSTATUS(inner) : 1);
        }
        check_eq_int(waitpid(pid, &status, 0), pid);
        nftw(state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        close(filter);
        if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP) {
                puts("no user namespaces here");
                exit(TEST_SKIP);
        }
        check_eq_int(status, 0);
}

static void test_isolation(void)
{
        isolate(FILTER_BROKER);
}

static void test_isolation_with_http(void)
{
        isolate(FILTER_BROKER_HTTP);
}

int main(void)
{
        run(test_isolation_with_http);
        run(test_isolation);
        return 0;
}
