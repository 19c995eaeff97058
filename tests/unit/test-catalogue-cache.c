/* The cache of tools: a full one makes room when it is opened; what was sent to its process is written before the end. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/hub/cache/cache.h"
#include "tests/unit/test.h"

static char state[] = "/tmp/cloister-test-cache-XXXXXX";

static void make_file(int dir, unsigned key, int days_old)
{
        const struct timespec times[] = {{.tv_sec = time(NULL) - days_old * 24L * 3600 - 60},
                                         {.tv_sec = time(NULL) - days_old * 24L * 3600 - 60}};
        char name[32];

        snprintf(name, sizeof(name), "%016x.json", key);
        int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        check(fd >= 0 && futimens(fd, times) == 0);
        close(fd);
}

static unsigned count(int dir)
{
        unsigned n = 0;
        DIR *listing = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

        check(listing != NULL);
        for (struct dirent *e; (e = readdir(listing));)
                n += e->d_name[0] != '.';
        closedir(listing);
        return n;
}

static void empty(int dir)
{
        char name[32];

        for (unsigned key = 0; key < 2 * HUB_CACHE_FILES_MAX; key++) {
                snprintf(name, sizeof(name), "%016x.json", key);
                unlinkat(dir, name, 0);
        }
}

/* Opens a cache of n files of which `recent` are of today and the others of a week ago. */
static unsigned left_of(int at, unsigned n, unsigned recent)
{
        int dir = hub_cache_open(at);

        check(dir >= 0);
        for (unsigned key = 0; key < n; key++)
                make_file(dir, key, key < recent ? 0 : 7);
        close(dir);
        dir = hub_cache_open(at);
        check(dir >= 0);
        unsigned left = count(dir);
        check(hub_cache_store(dir, UINT64_MAX, "x", 1) == 0);
        unlinkat(dir, "ffffffffffffffff.json", 0);
        empty(dir);
        close(dir);
        return left;
}

/* A process that starts late, and is killed at the end, as that of a broker is. */
static bool is_written(int dir, bool finishes)
{
        int pair[2];

        check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                close(pair[0]);
                usleep(200000);
                cache_writer_serve(pair[1], dir);
                _exit(0);
        }
        close(pair[1]);
        hub_cache_use_writer(pair[0]);
        check_eq_int(cache_request_store(pair[0], 7, "x", 1), 0);
        if (finishes)
                hub_cache_finish();
        kill(pid, SIGKILL);
        check(waitpid(pid, NULL, 0) == pid);
        hub_cache_use_writer(-1);
        close(pair[0]);
        return unlinkat(dir, "0000000000000007.json", 0) == 0;
}

int main(void)
{
        check(mkdtemp(state) != NULL);
        int at = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(at >= 0);

        check_eq_int(left_of(at, HUB_CACHE_FILES_MAX - 1, 100), HUB_CACHE_FILES_MAX - 1);
        check_eq_int(left_of(at, HUB_CACHE_FILES_MAX, 100), 100);
        check_eq_int(left_of(at, HUB_CACHE_FILES_MAX + 1, 100), 100);
        check_eq_int(left_of(at, HUB_CACHE_FILES_MAX, HUB_CACHE_FILES_MAX), 0);

        int dir = hub_cache_open(at);
        check(is_written(dir, true) && !is_written(dir, false));
        close(dir);
        hub_cache_finish(); /* without a process it does nothing */

        check(unlinkat(at, "catalogue", AT_REMOVEDIR) == 0 && rmdir(state) == 0);
        return 0;
}
