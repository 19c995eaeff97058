/* Memory of frozen sandboxes: given back by a few children at a time. FIFOs stand in for the files
 * of the control groups: full ones, on which a child stays for as long as we like. */
#include "supervisor/monitor/cgroup/reclaim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/cgroup/cgroup-internal.h"
#include "tests/unit/test.h"

enum { N = RECLAIM_MOST + 3 };

static const char bytes[] = "4242424242";

static struct world {
        char dir[64];
        struct event_base *base;
        struct children *children;
        struct cgroups cgroups;
        struct cgroup groups[N];
        struct reclaimer *reclaimer;
        struct reclaim *reclaims[N];
        int fifos[N];
} w;

static void fill(int fd)
{
        static const char nothing[4096];

        check(fcntl(fd, F_SETPIPE_SZ, 4096) >= 0);
        while (write(fd, nothing, sizeof(nothing)) > 0)
                continue;
}

static void make_group(size_t i)
{
        struct cgroup *group = &w.groups[i];
        char path[96];

        snprintf(path, sizeof(path), "%s/%zu", w.dir, i);
        check_eq_int(mkdir(path, 0700), 0);
        *group = (struct cgroup){.owner = &w.cgroups};
        group->fds[0] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int now = openat(group->fds[0], "memory.current",
                                         O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        check_eq_int(fd_write_all(now, bytes, strlen(bytes)), 0);
        check_eq_int(mkfifoat(group->fds[0], "memory.reclaim", 0600), 0);
        w.fifos[i] = openat(group->fds[0], "memory.reclaim", O_RDWR | O_NONBLOCK | O_CLOEXEC);
        fill(w.fifos[i]);
        w.reclaims[i] = reclaim_new(w.reclaimer, group);
        check(w.reclaims[i]);
}

static void set_up(void)
{
        struct error err = {};

        snprintf(w.dir, sizeof(w.dir), "/tmp/cloister-test-XXXXXX");
        check(mkdtemp(w.dir));
        w.base = event_base_new();
        check_ok(children_new(&w.children, &err));
        w.cgroups.count = 1;
        w.cgroups.items[0].controllers = CGROUP_UNIFIED;
        w.reclaimer = reclaimer_new(w.base, w.children);
        for (size_t i = 0; i < N; i++)
                make_group(i);
}

static void tear_down(void)
{
        for (size_t i = 0; i < N; i++) {
                reclaim_free(w.reclaims[i]);
                check_eq_int(unlinkat(w.groups[i].fds[0], "memory.reclaim", 0), 0);
                check_eq_int(unlinkat(w.groups[i].fds[0], "memory.current", 0), 0);
                close(w.groups[i].fds[0]);
                close(w.fifos[i]);
                char path[96];
                snprintf(path, sizeof(path), "%s/%zu", w.dir, i);
                check_eq_int(rmdir(path), 0);
        }
        check_eq_int(rmdir(w.dir), 0);
        reclaimer_free(w.reclaimer);
        children_free(w.children);
        event_base_free(w.base);
}

static void run_for(int ms)
{
        event_base_loopexit(w.base, &(struct timeval){.tv_usec = ms * 1000});
        /* The deadline of the loop counts as an event of it. */
        check_eq_int(event_base_dispatch(w.base), 0);
}

static unsigned int count_children(void)
{
        char path[64], text[512] = "";
        unsigned int n = 0;

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        check(fd >= 0 && fd_read_full(fd, text, sizeof(text) - 1) >= 0);
        for (const char *p = text; (p = strchr(p, ' ')); p++)
                n++;
        return n;
}

/* Makes room, so that the child can write; whether one has, and what was to be had. */
static bool drain(size_t i)
{
        char text[8192];
        bool told = false;

        for (int tries = 0; tries < 20 && !told; tries++) {
                ssize_t n = read(w.fifos[i], text, sizeof(text));
                told = n > 0 && n < 4096 && memcmp(text, bytes, (size_t)n) == 0 &&
                       (size_t)n == strlen(bytes);
                run_for(10);
        }
        return told;
}

/* One after the other, as timers see it. */
static void begin_all(void)
{
        for (size_t i = 0; i < N; i++) {
                reclaim_begin(w.reclaims[i]);
                run_for(10);
        }
        run_for(RECLAIM_AFTER_MS + 100);
}

static void test_few_at_a_time(void)
{
        set_up();
        begin_all();
        check_eq_int(count_children(), RECLAIM_MOST);
        /* In the order in which they came, each as another ends. */
        for (size_t i = 0; i < N; i++) {
                size_t left = N - i - 1;
                check(drain(i));
                check_eq_int(count_children(), left < RECLAIM_MOST ? left : RECLAIM_MOST);
        }
        tear_down();
}

static void test_what_ends_makes_room(void)
{
        set_up();
        begin_all();
        /* One that waits is stopped: its turn never comes. Then one that runs; then one is freed.
         */
        reclaim_stop(w.reclaims[RECLAIM_MOST]);
        reclaim_stop(w.reclaims[0]);
        run_for(50);
        check_eq_int(count_children(), RECLAIM_MOST);
        w.reclaims[1] = reclaim_free(w.reclaims[1]);
        check_eq_int(count_children(), RECLAIM_MOST);
        check(!drain(RECLAIM_MOST));
        check(drain(RECLAIM_MOST + 1) && drain(RECLAIM_MOST + 2));
        check_eq_int(count_children(), 0);
        /* One that was stopped may begin again. */
        reclaim_begin(w.reclaims[RECLAIM_MOST]);
        run_for(RECLAIM_AFTER_MS + 100);
        check(drain(RECLAIM_MOST));
        tear_down();
}

static void test_none_outlives_its_owner(void)
{
        set_up();
        begin_all();
        tear_down();
        check_eq_int(count_children(), 0);
}

int main(void)
{
        run(test_few_at_a_time);
        run(test_what_ends_makes_room);
        run(test_none_outlives_its_owner);
        return 0;
}
