/* The memory of processes in a directory that stands in for procfs. */
#include "supervisor/monitor/process/process-memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "tests/unit/test.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static void put(int dir, const char *name, const char *text)
{
        _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        check(fd >= 0);
        check_eq_int(fd_write_all(fd, text, strlen(text)), 0);
}

enum { N = 8, NOBODY = -1, INIT = -2 };

/* Directories "1" to "8". procfs lists parents first, nearly always: here, order[0] is listed first. */
struct proc {
        char path[64];
        int fd, order[N];
};

static void put_process(const struct proc *p, int i, int parent, char state, unsigned int mib)
{
        char name[16], text[128];

        snprintf(name, sizeof(name), "%d", p->order[i]);
        _cleanup_close_ int dir = openat(p->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        put(dir, "statm", "100 50 10 1 0 50 0\n");
        put(dir, "status", "Name:\tx\nVmPTE:\t       0 kB\nVmSwap:\t       0 kB\n");
        snprintf(text, sizeof(text), "%d (x) %c %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 1\n",
                 p->order[i], state, parent >= 0 ? p->order[parent] : parent == INIT);
        put(dir, "stat", text);
        snprintf(text, sizeof(text), "1-2 ---p 0 00:00 0 [rollup]\nPss: %u kB\n", mib * KIB);
        put(dir, "smaps_rollup", text);
}

static void proc_init(struct proc *p)
{
        int n = 0;

        snprintf(p->path, sizeof(p->path), "/tmp/cloister-test-XXXXXX");
        check(mkdtemp(p->path) != NULL);
        p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(p->fd >= 0);
        for (int i = 1; i <= N; i++) {
                char name[16];
                snprintf(name, sizeof(name), "%d", i);
                check_eq_int(mkdirat(p->fd, name, 0700), 0);
        }
        DIR *dir = opendir(p->path);
        for (const struct dirent *e; n < N && (e = readdir(dir));)
                if (e->d_name[0] != '.')
                        p->order[n++] = atoi(e->d_name);
        closedir(dir);
        check_eq_int(n, N);
}

static struct process_memory measure(const struct proc *p, uint64_t most)
{
        check(lseek(p->fd, 0, SEEK_SET) == 0);
        return process_memory_exact(p->fd, most);
}

static void proc_done(struct proc *p)
{
        static const char *const files[] = {"statm", "status", "stat", "smaps_rollup", ""};
        char path[64];

        for (int pid = 1; pid <= N; pid++)
                for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
                        snprintf(path, sizeof(path), "%d/%s", pid, files[i]);
                        unlinkat(p->fd, path, *files[i] ? 0 : AT_REMOVEDIR);
                }
        close(p->fd);
        check_eq_int(rmdir(p->path), 0);
}

/* A parent that sleeps where signals do not wake it, and its child of the same size. */
static void test_vfork_is_counted_once(void)
{
        struct proc p = {};

        proc_init(&p);
        put_process(&p, 0, -1, 'D', 100);
        put_process(&p, 1, 0, 'R', 100);
        struct process_memory found = measure(&p, 128 * MIB);
        check_eq_int(found.bytes, 100 * MIB);
        check_eq_int(found.least, 100 * MIB);
        proc_done(&p);
}

/* A worker and the helper that forks its copy: both are children of init. The copy has its half of the pages. */
static void test_the_helper_of_a_copy_is_counted_once(void)
{
        struct proc p = {};

        proc_init(&p);
        put_process(&p, 0, INIT, 'D', 100);
        put_process(&p, 1, INIT, 'R', 100);
        check_eq_int(measure(&p, 128 * MIB).bytes, 100 * MIB);
        check_eq_int(measure(&p, 128 * MIB).least, 100 * MIB);
        /* Before the worker sleeps: the caller looks again. */
        put_process(&p, 0, INIT, 'R', 100);
        check_eq_int(measure(&p, 128 * MIB).least, 100 * MIB);
        /* One for each that sleeps, of the same size, and of init only. */
        put_process(&p, 0, INIT, 'D', 100);
        put_process(&p, 2, INIT, 'R', 100);
        check_eq_int(measure(&p, 512 * MIB).bytes, 200 * MIB);
        put_process(&p, 1, INIT, 'R', 50);
        put_process(&p, 2, INIT, 'R', 50);
        check_eq_int(measure(&p, 512 * MIB).bytes, 200 * MIB);
        put_process(&p, 0, NOBODY, 'D', 100);
        put_process(&p, 1, NOBODY, 'R', 100);
        check_eq_int(measure(&p, 512 * MIB).bytes, 250 * MIB);
        proc_done(&p);
}

/* A vfork just before the parent sleeps, and while its threads run: the caller measures again. */
static void test_what_may_be_one_is_not_certain(void)
{
        struct proc p = {};

        proc_init(&p);
        put_process(&p, 0, -1, 'R', 100);
        put_process(&p, 1, 0, 'R', 100);
        put_process(&p, 2, 0, 'R', 120);
        struct process_memory found = measure(&p, 128 * MIB);
        check_eq_int(found.bytes, 320 * MIB);
        check_eq_int(found.least, 100 * MIB);
        /* It has two threads. */
        put_process(&p, 3, 0, 'R', 90);
        check_eq_int(measure(&p, 512 * MIB).least, 190 * MIB);
        proc_done(&p);
}

/* Processes of other sizes than their parent: once they are too much, the rest is not read. */
static void test_many_processes_are_certain(void)
{
        struct proc p = {};

        proc_init(&p);
        put_process(&p, 0, -1, 'R', 2);
        for (int i = 1; i < N; i++)
                put_process(&p, i, 0, 'R', 50);
        struct process_memory found = measure(&p, 128 * MIB);
        check_eq_int(found.least, 152 * MIB);
        check_eq_int(found.bytes, 152 * MIB);
        check_eq_int(measure(&p, 1024 * MIB).least, 352 * MIB);
        proc_done(&p);
}

/* Page tables are certain without the exact figure; resident pages, which may be shared, are not. */
static void test_page_tables_are_certain(void)
{
        struct proc p = {};

        proc_init(&p);
        put_process(&p, 0, -1, 'R', 100);
        put_process(&p, 1, 0, 'R', 100);
        check_eq_int(process_memory_bound(p.fd, NULL).least, 0);
        check(process_memory_bound(p.fd, NULL).bytes > 0);
        char name[16];
        snprintf(name, sizeof(name), "%d", p.order[1]);
        _cleanup_close_ int dir = openat(p.fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        put(dir, "statm", "1000000 50 10 1 0 50 0\n");
        put(dir, "status", "Name:\tx\nVmPTE:\t  204800 kB\nVmSwap:\t       0 kB\n");
        check_eq_int(process_memory_bound(p.fd, NULL).least, 200 * MIB);
        check(process_memory_bound(p.fd, NULL).bytes > 200 * MIB);
        proc_done(&p);
}

/* After vfork() two processes have the same page tables, after fork() the same swapped pages. */
static void test_what_two_may_share_is_not_certain(void)
{
        struct proc p = {};
        char name[16];

        proc_init(&p);
        for (int i = 0; i < 2; i++) {
                put_process(&p, i, i - 1, 'R', 0);
                snprintf(name, sizeof(name), "%d", p.order[i]);
                _cleanup_close_ int dir = openat(p.fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
                put(dir, "statm", "1000000 50 10 1 0 50 0\n");
                put(dir, "status", "Name:\tx\nVmPTE:\t  71680 kB\nVmSwap:\t  102400 kB\n");
                put(dir, "smaps_rollup",
                    "x\nRss: 0 kB\nPss:  0 kB\nSwap: 102400 kB\nSwapPss:  51200 kB\n");
        }
        check_eq_int(process_memory_bound(p.fd, NULL).least, 70 * MIB);
        check(process_memory_bound(p.fd, NULL).bytes >= 340 * MIB);
        check_eq_int(measure(&p, 1024 * MIB).bytes, 240 * MIB);
        struct process_memory found = measure(&p, 128 * MIB);
        check_eq_int(found.bytes, 140 * MIB);
        check_eq_int(found.least, 70 * MIB);
        proc_done(&p);
}

/* Writes statm of a process with this private memory, and 4 MiB of files. */
static void put_private(const struct proc *p, int i, unsigned int mib)
{
        uint64_t pages = MIB / (uint64_t)sysconf(_SC_PAGESIZE);
        char path[32], text[64];

        snprintf(path, sizeof(path), "%d/statm", p->order[i]);
        snprintf(text, sizeof(text), "%llu %llu %llu 1 0 1 0\n", 600ull * pages,
                 (mib + 4ull) * pages, 4ull * pages);
        put(p->fd, path, text);
}

/* In whole MiB: some of each process is left out. */
static unsigned int look(const struct proc *p, struct process_growth *growth)
{
        check(lseek(p->fd, 0, SEEK_SET) == 0);
        check(process_memory_bound(p->fd, growth).bytes > 0);
        return (unsigned int)((growth->bytes + MIB - 1) / MIB);
}

static void remove_process(const struct proc *p, int i)
{
        static const char *const files[] = {"statm", "status", "stat", "smaps_rollup"};
        char path[32];

        for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
                snprintf(path, sizeof(path), "%d/%s", p->order[i], files[k]);
                check_eq_int(unlinkat(p->fd, path, 0), 0);
        }
}

/* Counts the growth of processes since the first scan, not the memory that they inherited. */
static void test_growth_is_certain(void)
{
        struct process_growth growth = {};
        struct proc p = {};

        proc_init(&p);
        put_process(&p, 0, -1, 'R', 0);
        put_private(&p, 0, 100);
        check_eq_int(look(&p, &growth), 0);
        /* The control: without looks before, all of it may be shared. */
        for (int i = 1; i < N; i++) {
                put_process(&p, i, 0, 'S', 0);
                put_private(&p, i, 100);
        }
        check_eq_int(look(&p, &growth), 0);
        for (int i = 1; i < N; i++)
                put_private(&p, i, 110);
        check_eq_int(look(&p, &growth), (N - 1) * 10 - 1);
        check_eq_int(look(&p, &growth), (N - 1) * 10 - 1);
        remove_process(&p, 3);
        check_eq_int(look(&p, &growth), (N - 2) * 10 - 1);
        put_process(&p, 3, 0, 'S', 0);
        put_private(&p, 3, 130);
        check_eq_int(look(&p, &growth), (N - 2) * 10 - 1);
        /* Memory that was freed in between was others' too. */
        put_private(&p, 3, 30);
        check_eq_int(look(&p, &growth), (N - 2) * 10 - 1);
        put_private(&p, 3, 130);
        check_eq_int(look(&p, &growth), (N - 2) * 10 + 100 - 1);
        proc_done(&p);
}

/* A big process grows while it starts a program: its child has the same memory. */
static void test_growth_of_vfork_is_counted_once(void)
{
        struct process_growth growth = {};
        struct proc p = {};

        proc_init(&p);
        put_process(&p, 0, -1, 'S', 0);
        put_process(&p, 1, 0, 'D', 0);
        put_process(&p, 2, 1, 'R', 0);
        for (int round = 0; round < 2; round++) {
                for (int i = 0; i < 3; i++)
                        put_private(&p, i, i == 0 ? 10 : 50 + 40 * (unsigned int)round);
                look(&p, &growth);
        }
        check_eq_int((growth.bytes + MIB - 1) / MIB, 80);
        check_eq_int((process_memory_grown(p.fd, &growth) + MIB - 1) / MIB, 40);
        /* The control: a child that is far from its parent has memory of its own. */
        put_private(&p, 2, 300);
        look(&p, &growth);
        check_eq_int((process_memory_grown(p.fd, &growth) + MIB - 1) / MIB, 290);
        proc_done(&p);
}

/* More than are looked at: nothing is known of them, then all anew. */
static void test_growth_of_too_many(void)
{
        struct process_growth growth = {};
        struct proc p = {};
        char name[16];

        proc_init(&p);
        put_process(&p, 0, -1, 'S', 0);
        put_private(&p, 0, 10);
        look(&p, &growth);
        put_private(&p, 0, 60);
        check_eq_int(look(&p, &growth), 50);
        for (int i = 0; i < PROCESS_GROWTH_MAX; i++) {
                snprintf(name, sizeof(name), "%d", 100 + i);
                check_eq_int(mkdirat(p.fd, name, 0700), 0);
        }
        check(lseek(p.fd, 0, SEEK_SET) == 0);
        check(process_memory_bound(p.fd, &growth).bytes == UINT64_MAX);
        check_eq_int(growth.n, 0);
        check_eq_int(growth.bytes, 0);
        for (int i = 0; i < PROCESS_GROWTH_MAX; i++) {
                snprintf(name, sizeof(name), "%d", 100 + i);
                check_eq_int(unlinkat(p.fd, name, AT_REMOVEDIR), 0);
        }
        check_eq_int(look(&p, &growth), 0);
        put_private(&p, 0, 90);
        check_eq_int(look(&p, &growth), 30);
        proc_done(&p);
}

/* Of a page that n processes share, each has 1/n in Pss. */
static void put_parts(const struct proc *p, int i, unsigned int own, unsigned int parts,
                      unsigned int swapped)
{
        char name[16], text[160];

        put_process(p, i, -1, 'S', 0);
        snprintf(name, sizeof(name), "%d", p->order[i]);
        _cleanup_close_ int dir = openat(p->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        snprintf(text, sizeof(text),
                 "1-2 ---p 0 00:00 0 [rollup]\nPss: %u kB\nPrivate_Clean: %u kB\n"
                 "Private_Dirty: %u kB\nSwapPss: %u kB\n",
                 (own + parts) * KIB, own * KIB / 4, own * KIB - own * KIB / 4, swapped * KIB);
        put(dir, "smaps_rollup", text);
}

static bool is_one_of(const void *data, long pid)
{
        const int *pids = data;

        return pid == pids[0] || pid == pids[1];
}

static uint64_t held_by(const struct proc *p, const int pids[2])
{
        check(lseek(p->fd, 0, SEEK_SET) == 0);
        return process_memory_held(p->fd, is_one_of, pids);
}

static void test_what_others_have_alone_is_not_held(void)
{
        struct proc p = {};

        proc_init(&p);
        /* Three processes share 90 MiB; the third one does not count. */
        put_parts(&p, 0, 20, 30, 0);
        put_parts(&p, 1, 10, 30, 5);
        put_parts(&p, 2, 200, 30, 0);
        const int pids[] = {p.order[0], p.order[1]};
        check_eq_int(held_by(&p, pids), (20 + 10 + 90 + 5) * MIB);
        /* Whose the swapped pages of others are is not known. */
        put_parts(&p, 2, 200, 30, 7);
        check_eq_int(held_by(&p, pids), (20 + 10 + 90 + 5 + 7) * MIB);
        proc_done(&p);
}

static void test_what_cannot_be_read_is_not_little(void)
{
        struct proc p = {};
        char path[64];

        proc_init(&p);
        put_parts(&p, 0, 20, 0, 0);
        put_parts(&p, 1, 10, 0, 0);
        const int pids[] = {p.order[0], p.order[1]}, none[] = {100, 101};
        check_eq_int(held_by(&p, pids), 30 * MIB);
        check(held_by(&p, none) == UINT64_MAX);
        check(process_memory_held(-1, is_one_of, pids) == UINT64_MAX);
        snprintf(path, sizeof(path), "%d/smaps_rollup", p.order[1]);
        check_eq_int(unlinkat(p.fd, path, 0), 0);
        check(held_by(&p, pids) == UINT64_MAX);
        /* It has ended. */
        snprintf(path, sizeof(path), "%d/statm", p.order[1]);
        check_eq_int(unlinkat(p.fd, path, 0), 0);
        check_eq_int(held_by(&p, pids), 20 * MIB);
        proc_done(&p);
}

int main(void)
{
        run(test_what_others_have_alone_is_not_held);
        run(test_what_cannot_be_read_is_not_little);
        run(test_growth_is_certain);
        run(test_growth_of_vfork_is_counted_once);
        run(test_growth_of_too_many);
        run(test_the_helper_of_a_copy_is_counted_once);
        run(test_vfork_is_counted_once);
        run(test_what_may_be_one_is_not_certain);
        run(test_many_processes_are_certain);
        run(test_page_tables_are_certain);
        run(test_what_two_may_share_is_not_certain);
        return 0;
}
