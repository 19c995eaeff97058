/* Memory of large results: sealed, and freed even if another process still holds the memfd. */
#include "supervisor/session/channel/channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

static int make(const char *a, const char *b)
{
        const struct iovec parts[] = {
                {.iov_base = (void *)a, .iov_len = strlen(a)},
                {.iov_base = (void *)b, .iov_len = strlen(b)},
        };
        int fd = memfd_frame_make(parts, ARRAY_SIZE(parts));

        check(fd >= 0);
        return fd;
}

static off_t size_of(int fd)
{
        struct stat st;

        check_eq_int(fstat(fd, &st), 0);
        return st.st_size;
}

/* The control: a memfd without seals takes all of it. */
static void test_content_is_sealed(void)
{
        int fds[] = {memfd_create("open", MFD_CLOEXEC), make("one ", "two")};
        char text[16] = "";

        check_eq_int(write(fds[0], "one two", 7), 7);
        for (int i = 0; i < 2; i++) {
                check_eq_int(pread(fds[i], text, sizeof(text), 0), 7);
                check_eq_bytes(text, 7, "one two");
                check_eq_int(pwrite(fds[i], "x", 1, 0), i == 0 ? 1 : -1);
                check_eq_int(ftruncate(fds[i], 8), i == 0 ? 0 : -1);
                void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
                check_eq_int(map != MAP_FAILED, i == 0);
                if (map != MAP_FAILED)
                        munmap(map, 4096);
                check_eq_int(ftruncate(fds[i], 0), 0);
                check_eq_int(ftruncate(fds[i], 8), i == 0 ? 0 : -1);
                close(fds[i]);
        }
}

static void test_read_ones_are_forgotten(void)
{
        struct memfd_queue p;

        memfd_queue_init(&p);
        int theirs[2];
        for (int i = 0; i < 2; i++) {
                int fd = make("12", "345");
                theirs[i] = dup(fd);
                check_eq_int(memfd_queue_add(&p, fd, 5, (uint64_t)i, (uint64_t)i * 16), 0);
        }
        check_eq_int(p.bytes, 10);
        check_eq_int(memfd_queue_unsent(&p)->id, 0);
        memfd_queue_unsent(&p)->sent = true;
        check_eq_int(memfd_queue_unsent(&p)->id, 1);
        memfd_queue_unsent(&p)->sent = true;
        check(!memfd_queue_unsent(&p));

        memfd_queue_reap(&p);
        check_eq_int(p.n, 2);
        check_eq_int(ftruncate(theirs[1], 1), 0);
        memfd_queue_reap(&p);
        check_eq_int(p.n, 2);
        check_eq_int(ftruncate(theirs[1], 0), 0);
        memfd_queue_reap(&p);
        check_eq_int(p.n, 1);
        check_eq_int(p.bytes, 5);
        check_eq_int(TAILQ_FIRST(&p.list)->id, 0);
        memfd_queue_done(&p);
        close(theirs[0]);
        close(theirs[1]);
}

/* Memory that another process holds and has mapped is freed as well. */
static void test_memory_is_freed(void)
{
        struct memfd_queue p;
        struct stat st;

        memfd_queue_init(&p);
        int fd = make("12", "345"), theirs = dup(fd);
        check(mmap(NULL, 4096, PROT_READ, MAP_SHARED, theirs, 0) != MAP_FAILED);
        check_eq_int(memfd_queue_add(&p, fd, 5, 7, 0), 0);
        memfd_queue_take_back(&p, 7);
        check_eq_int(p.n, 1); /* it has not left yet */
        memfd_queue_unsent(&p)->sent = true;
        memfd_queue_take_back(&p, 8);
        check_eq_int(p.n, 1);
        memfd_queue_take_back(&p, 7);
        check_eq_int(p.n, 0);
        check_eq_int(p.bytes, 0);
        check_eq_int(fstat(theirs, &st), 0);
        check_eq_int(st.st_blocks, 0);
        close(theirs);

        fd = make("12", "345");
        theirs = dup(fd);
        check_eq_int(memfd_queue_add(&p, fd, 5, 9, 0), 0);
        memfd_queue_done(&p);
        check_eq_int(size_of(theirs), 0);
        close(theirs);
}

static void test_shift(void)
{
        struct memfd_queue p;

        memfd_queue_init(&p);
        check_eq_int(memfd_queue_add(&p, make("a", ""), 1, 1, 10), 0);
        check_eq_int(memfd_queue_add(&p, make("b", ""), 1, 2, 20), 0);
        TAILQ_FIRST(&p.list)->sent = true;
        memfd_queue_shift(&p, 100);
        check_eq_int(TAILQ_FIRST(&p.list)->at, 10);
        check_eq_int(memfd_queue_unsent(&p)->at, 120);
        memfd_queue_done(&p);
        check_eq_int(p.n, 0);
}

int main(void)
{
        run(test_content_is_sealed);
        run(test_read_ones_are_forgotten);
        run(test_memory_is_freed);
        run(test_shift);
        return 0;
}
