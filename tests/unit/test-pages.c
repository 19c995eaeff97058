/* What a fork has written, fetched by the next one: as the kernel tells it. */
#include "sandbox-init/setup/pages.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGES = 64, MANY = 6 * 1024 };

static size_t page;
static char *private, *shared, *many, *reserve;

/* By the bit of /proc/self/pagemap that only a page of one process has. */
static bool is_own(const char *at)
{
        uint64_t entry = 0;
        _cleanup_close_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

        check(pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)at / page * 8)) == 8);
        return entry >> 56 & 1;
}

/* Looks at a fork after what `write_them` has done in it. */
static void see(void (*write_them)(void))
{
        int ends[2];
        char byte;

        check(pipe2(ends, O_CLOEXEC) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                write_them();
                check(write(ends[1], "x", 1) == 1);
                for (;;)
                        pause();
        }
        check(read(ends[0], &byte, 1) == 1);
        pages_see(pid);
        kill(pid, SIGKILL);
        check(waitpid(pid, NULL, 0) == pid);
        close(ends[0]);
        close(ends[1]);
}

static void in_fork(void (*look)(void))
{
        int status;

        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                look();
                _exit(0);
        }
        check(waitpid(pid, &status, 0) == pid && status == 0);
}

static void write_three(void)
{
        private[3 * page] = private[4 * page] = private[40 * page] = 1;
        shared[3 * page] = 1;
}

static void look_at_three(void)
{
        pages_fetch();
        for (size_t i = 0; i < PAGES; i++)
                check_eq_int(is_own(private + i * page), i == 3 || i == 4 || i == 40);
        check(private[3 * page] == 7);
}

static void look_at_none(void)
{
        for (size_t i = 0; i < PAGES; i++)
                check(!is_own(private + i * page));
}

static void test_written_pages_are_fetched(void)
{
        in_fork(look_at_none);
        see(write_three);
        in_fork(look_at_three);
}

static void write_one(void)
{
        private[20 * page] = 1;
}

static void look_at_one(void)
{
        pages_fetch();
        check(is_own(private + 20 * page));
        check(!is_own(private + 3 * page));
}

static void test_the_last_look_counts(void)
{
        see(write_three);
        see(write_one);
        in_fork(look_at_one);
}

static void write_all(void)
{
        memset(many, 1, MANY * page);
}

static void write_every_second(void)
{
        for (size_t i = 0; i < MANY; i += 2)
                many[i * page] = 1;
}

static void fetch_at_most(size_t most)
{
        size_t own = 0;

        pages_fetch();
        for (size_t i = 0; i < MANY; i++)
                own += is_own(many + i * page);
        check(own > 500);
        check(own <= most);
}

static void look_at_many(void)
{
        fetch_at_most(8 * 1024 * 1024 / page);
}

static void look_at_every_second(void)
{
        fetch_at_most(1024);
}

static void test_it_is_bounded(void)
{
        see(write_all);
        in_fork(look_at_many);
        see(write_every_second);
        in_fork(look_at_every_second);
}

static void write_reserve(void)
{
        private[3 * page] = reserve[3 * page] = 1;
}

static void look_at_reserve(void)
{
        pages_fetch();
        check(is_own(private + 3 * page));
        check(!is_own(reserve + 3 * page));
}

/* To look at each of its pages would take minutes. */
static void test_what_is_kept_in_reserve_is_passed_over(void)
{
        size_t size = (size_t)1 << 40;

        reserve = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        check(reserve != MAP_FAILED);
        reserve[3 * page] = 7;
        see(write_reserve);
        in_fork(look_at_reserve);
        munmap(reserve, size);
}

/* What is on the list may be gone. */
static void look_after_unmapping(void)
{
        check(munmap(private + 3 * page, page) == 0);
        pages_fetch();
        check(is_own(private + 40 * page));
}

static void test_a_page_that_is_gone_harms_nothing(void)
{
        see(write_three);
        in_fork(look_after_unmapping);
}

static char *map(size_t n, int flags)
{
        char *p = mmap(NULL, n * page, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

        check(p != MAP_FAILED);
        memset(p, 7, n * page);
        return p;
}

int main(void)
{
        page = (size_t)sysconf(_SC_PAGESIZE);
        private = map(PAGES, MAP_PRIVATE);
        shared = map(PAGES, MAP_SHARED);
        many = map(MANY, MAP_PRIVATE);
        if (madvise(private, page, MADV_POPULATE_WRITE) < 0) {
                printf("skipped: no MADV_POPULATE_WRITE here\n");
                return 77;
        }
        run(test_written_pages_are_fetched);
        run(test_the_last_look_counts);
        run(test_it_is_bounded);
        run(test_what_is_kept_in_reserve_is_passed_over);
        run(test_a_page_that_is_gone_harms_nothing);
        return 0;
}
