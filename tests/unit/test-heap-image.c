/* The heap of a process as a sealed file (sandbox-init/worker/memory/image.h). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-init/worker/memory/image.h"
#include "sandbox-init/worker/memory/mappings.h"
#include "tests/unit/test.h"

#define MIB (1024L * 1024)

enum { WINDOW = 65536 /* of any kernel, a multiple of the parts */ };

static struct mapping list[MAPPINGS_MAX];
static long n_list;

static const struct mapping *find(const void *at)
{
        for (long i = 0; i < n_list; i++) {
                if (list[i].start <= (uintptr_t)at && (uintptr_t)at < list[i].end)
                        return &list[i];
        }
        return NULL;
}

static bool is_of_file(const void *at)
{
        const struct mapping *m = find(at);

        return m && m->inode != 0 && mapping_starts_with(m, "/memfd:heap");
}

static char *map_filled(char byte)
{
        char *at = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        check(at != MAP_FAILED);
        memset(at, byte, 2 * MIB); /* the rest is never used */
        return at;
}

static int count_descriptors(void)
{
        int n = 0;

        for (int fd = 0; fd < 256; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

static long begin(const struct image_range *ranges)
{
        int draft = memfd_create("cloister-draft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        int file = memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        check(draft >= 0 && file >= 0);
        return image_begin(draft, file, ranges, 1);
}

/* Each case runs in its own process, because the heap is that of the whole process. */
static void in_child(void (*act)(void))
{
        pid_t child = fork();
        int status = -1;

        if (child == 0) {
                act();
                _exit(0);
        }
        check_eq_int(waitpid(child, &status, 0), child);
        check_eq_int(status, 0);
}

static void make(const char *range, volatile char *read_at, volatile char *written_at)
{
        const struct image_range ranges[] = {{(uintptr_t)range, (uintptr_t)range + 4 * MIB}};

        check_eq_int((int)begin(ranges), 0);
        (void)*read_at;
        *written_at = 'w';
        check_eq_int((int)image_end(), 0);
        n_list = mappings_read(list, 0);
}

static void divide(void)
{
        char *heap = sbrk(4 * MIB), *range = map_filled('r'), *other = map_filled('o');
        int descriptors = count_descriptors();

        memset(heap, 'h', 4 * MIB);
        make(range, heap + 2 * MIB, range + MIB);
        check_eq_int(count_descriptors(), descriptors);
        /* Memory that was used is anonymous, and so is memory outside of the ranges. */
        check(is_of_file(heap + MIB) && is_of_file(heap + 3 * MIB) && !is_of_file(heap + 2 * MIB));
        check(is_of_file(range + MIB / 2) && !is_of_file(range + MIB) &&
              !is_of_file(range + 3 * MIB));
        check(!is_of_file(other) && !is_of_file(other + MIB));
        for (long i = 0; i < 4 * MIB; i++) {
                check(heap[i] == 'h');
                check(range[i] == (i == MIB ? 'w' : i < 2 * MIB ? 'r' : 0));
                check(other[i] == (i < 2 * MIB ? 'o' : 0));
        }
        memset(heap, 'x', 4 * MIB);
        memset(range, 'y', 4 * MIB);
        check(heap[MIB] == 'x' && range[MIB / 2] == 'y');
        /* No process can change the file. */
        check(madvise(heap + MIB / WINDOW * WINDOW, WINDOW, MADV_REMOVE) < 0);
}

/* A file that others can change, or that has bytes already, is not used. */
static void refuse(void)
{
        char *range = map_filled('r');
        const struct image_range ranges[] = {{(uintptr_t)range, (uintptr_t)range + 4 * MIB}};
        int file = memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        int full = memfd_create("full", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        check_eq_int((int)write(full, "x", 1), 1);
        check_eq_int((int)image_begin(0, file, ranges, 1), -EBADF);
        check_eq_int((int)image_begin(file, full, ranges, 1), -EBADF);
        check_eq_int((int)image_end(), 0);
        n_list = mappings_read(list, 0);
        check(find(range)->inode == 0 && range[MIB] == 'r');
}

static void keep_special(void)
{
        char *range = map_filled('r');

        check_eq_int(madvise(range + MIB, 4 * WINDOW, MADV_WIPEONFORK), 0);
        check_eq_int(madvise(range + MIB / 2, 2 * WINDOW, MADV_DONTFORK), 0);
        make(range, range, range);
        check(is_of_file(range + MIB / 4) && is_of_file(range + 2 * MIB - WINDOW));
        check(!is_of_file(range + MIB) && !is_of_file(range + MIB / 2));
        pid_t child = fork();
        if (child == 0)
                _exit(range[MIB] == 0 && range[MIB + 4 * WINDOW - 1] == 0 && range[MIB - 1] == 'r'
                              ? 0
                              : 1);
        int status = -1;
        check_eq_int(waitpid(child, &status, 0), child);
        check_eq_int(status, 0);
        check(range[MIB] == 'r' && range[MIB / 2] == 'r');
}

/* Where the file cannot be written, memory is as before. */
static void fail(void)
{
        char *range = map_filled('r');
        const struct image_range ranges[] = {{(uintptr_t)range, (uintptr_t)range + 4 * MIB}};
        const struct rlimit none = {0, RLIM_INFINITY};
        int descriptors = count_descriptors();

        signal(SIGXFSZ, SIG_IGN);
        check_eq_int(setrlimit(RLIMIT_FSIZE, &none), 0);
        check(begin(ranges) < 0);
        range[7] = 'w';
        check_eq_int((int)image_end(), 0);
        check_eq_int(count_descriptors(), descriptors);
        n_list = mappings_read(list, 0);
        for (long i = 0; i < 2 * MIB; i++)
                check(range[i] == (i == 7 ? 'w' : 'r') && (i % WINDOW || !is_of_file(range + i)));
}

static void test_divides(void)
{
        in_child(divide);
}

static void test_keeps_special_memory(void)
{
        in_child(keep_special);
}

static void test_refuses_other_files(void)
{
        in_child(refuse);
}

static void test_fails(void)
{
        in_child(fail);
}

int main(void)
{
        run(test_divides);
        run(test_keeps_special_memory);
        run(test_refuses_other_files);
        run(test_fails);
        return 0;
}
