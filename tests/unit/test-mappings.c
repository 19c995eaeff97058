/* The mappings of a process, and whole reads and writes (sandbox-init/worker/memory/mappings.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/memory/mappings.h"
#include "tests/unit/test.h"

/* ASan has its own memory where the scratch memory is to be. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define HAS_SHADOW 1
#else
#define HAS_SHADOW 0
#endif

#define PAGE mapping_page_size()

enum { SIZE = MAPPINGS_MAX * sizeof(struct mapping) };

static struct mapping *list;
static long n_list;

static void read_list(void)
{
        n_list = mappings_read(list, SIZE);
        check(n_list > 0);
}

/* The one that has this address. */
static const struct mapping *find(const void *at)
{
        for (long i = 0; i < n_list; i++) {
                if (list[i].start <= (uintptr_t)at && (uintptr_t)at < list[i].end)
                        return &list[i];
        }
        return NULL;
}

static void *map(size_t pages, int prot, int flags, int fd, off_t offset)
{
        void *at = mmap(NULL, pages * PAGE, prot, flags, fd, offset);

        check(at != MAP_FAILED);
        return at;
}

static int open_file(const char *name)
{
        char path[64] = "/tmp/cloister-test-";
        strcat(path, name);
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        check(fd >= 0);
        check_eq_int(unlink(path), 0);
        check_eq_int(ftruncate(fd, 4 * PAGE), 0);
        return fd;
}

static void test_kinds(void)
{
        int fd = open_file("mappings");
        char *anonymous = map(3, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *hidden = map(1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *private = map(2, PROT_READ, MAP_PRIVATE, fd, PAGE);
        char *shared = map(1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        char *memory = map(1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        read_list();
        check_eq_int(find(anonymous)->kind, MAPPING_ANONYMOUS);
        check_eq_int(find(anonymous)->prot, PROT_READ | PROT_WRITE);
        check(find(anonymous + 2 * PAGE) == find(anonymous));
        check(!find(anonymous)->is_shared && find(anonymous)->inode == 0);
        check_eq_int(find(hidden)->prot, PROT_NONE);
        const struct mapping *m = find(private);
        check_eq_int(m->kind, MAPPING_FILE);
        check(m->start == (uintptr_t) private && m->end - m->start == 2 * PAGE);
        check(m->offset == PAGE && m->inode != 0 && !m->is_shared);
        check(mapping_starts_with(m, "/tmp/cloister-test-map"));
        check(mapping_ends_with(m, " (deleted)"));
        check(!mapping_starts_with(m, "/tmp/cloister-test-mapper"));
        check(!mapping_ends_with(m,
                                 "/tmp/cloister-test-mappings (deleted) and much more than that"));
        check(find(shared)->is_shared && find(shared)->inode == m->inode);
        check_eq_int(find(memory)->kind, MAPPING_FILE);
        check(find(memory)->is_shared);
        check_eq_int(find(__builtin_frame_address(0))->kind, MAPPING_STACK);
        check(!mapping_equals(find(shared), m) && mapping_equals(m, m));
        close(fd);
}

static void test_order_and_equality(void)
{
        struct mapping *before = malloc(SIZE);
        check(before != NULL);
        memset(before, 0, SIZE);
        read_list();
        long n = n_list;
        memcpy(before, list, SIZE);
        read_list();
        check_eq_int(n_list, n);
        for (long i = 0; i < n; i++) {
                check(list[i].start < list[i].end);
                check(i == 0 || list[i - 1].end <= list[i].start);
                check(mapping_equals(&list[i], &before[i]));
        }
        struct mapping other = before[0];
        other.prot ^= PROT_WRITE;
        check(!mapping_equals(&before[0], &other));
        other = before[0];
        other.offset += PAGE;
        check(!mapping_equals(&before[0], &other));
        free(before);
}

/* A path of more than fits is cut, and said to be. */
static void test_a_long_path(void)
{
        char name[200];
        memset(name, 'n', sizeof(name));
        name[sizeof(name) - 1] = '\0';
        char *folder = strdup("/tmp/cloister-test-XXXXXX");
        check(mkdtemp(folder) != NULL);
        check_eq_int(chdir(folder), 0);
        int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        check(fd >= 0);
        check_eq_int(ftruncate(fd, PAGE), 0);
        char *at = map(1, PROT_READ, MAP_PRIVATE, fd, 0);
        read_list();
        check(find(at)->is_cut);
        check_eq_int((int)strlen(find(at)->path), MAPPING_PATH_MAX);
        check_eq_int(unlink(name), 0);
        check_eq_int(chdir("/"), 0);
        check_eq_int(rmdir(folder), 0);
        free(folder);
        close(fd);
}

static void test_page_size(void)
{
        check_eq_int((long)mapping_page_size(), sysconf(_SC_PAGESIZE));
}

/* Properties that a private mapping of a file would not have. */
static void test_special(void)
{
        char *at = map(7, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        check_eq_int(madvise(at + PAGE, PAGE, MADV_WIPEONFORK), 0);
        check_eq_int(madvise(at + 3L * PAGE, PAGE, MADV_DONTFORK), 0);
        check_eq_int(syscall(SYS_mlock, at + 5L * PAGE, PAGE), 0); /* sanitizers replace mlock() */
        n_list = mappings_read_flags(list, SIZE);
        for (int i = 0; i < 7; i++) {
                const struct mapping *m = find(at + (long)i * PAGE);
                check(m && m->is_special == i % 2);
        }
        long n = n_list;
        read_list();
        check_eq_int(n_list, n);
        check(!find(at + PAGE)->is_special);
        munmap(at, 7L * PAGE);
}

/* The scratch memory is in no list, whatever its size. */
static void test_scratch(void)
{
        read_list();
        long n = n_list;
        long r = scratch_map(5 * PAGE);
        if (HAS_SHADOW) {
                check_eq_int((int)r, -EEXIST);
                return;
        }
        check_eq_int((int)r, 0);
        check_eq_int((int)scratch_map(PAGE), -EEXIST);
        n_list = mappings_read(list, 5 * PAGE);
        check_eq_int(n_list, n);
        check(!find((void *)(uintptr_t)SCRATCH_START));
        scratch_unmap(5 * PAGE);
}

/* In a child: as many mappings as the kernel allows are more than fit. */
static void test_too_many(void)
{
        pid_t child = fork();

        if (child == 0) {
                char *at = map(3 * MAPPINGS_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                for (int i = 0; i < MAPPINGS_MAX; i++) {
                        if (mprotect(at + 2L * i * PAGE, PAGE, PROT_NONE) < 0)
                                _exit(2);
                }
                _exit(mappings_read(list, SIZE) == -E2BIG ? 0 : 1);
        }
        int status;
        check_eq_int(waitpid(child, &status, 0), child);
        check_eq_int(status, 0);
}

static void test_whole_writes(void)
{
        static char sent[300000], got[300000];
        int ends[2];
        for (size_t i = 0; i < sizeof(sent); i++)
                sent[i] = (char)(i * 7);
        check_eq_int(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
                close(ends[0]);
                _exit(whole_write(ends[1], sent, sizeof(sent)) == 0 ? 0 : 1);
        }
        close(ends[1]);
        int file = memfd_create("whole", MFD_CLOEXEC);
        while (splice(ends[0], NULL, file, NULL, sizeof(sent), 0) > 0)
                ;
        check(pread(file, got, sizeof(got), 0) == (ssize_t)sizeof(got));
        check(memcmp(sent, got, sizeof(sent)) == 0);
        close(file);
        check_eq_int((int)whole_write(-1, got, 1), -EBADF);
        close(ends[0]);
        int status;
        check_eq_int(waitpid(child, &status, 0), child);
        check_eq_int(status, 0);
}

int main(void)
{
        list = malloc(SIZE);
        check(list != NULL);
        run(test_page_size);
        run(test_kinds);
        run(test_order_and_equality);
        run(test_a_long_path);
        run(test_special);
        run(test_scratch);
        run(test_too_many);
        run(test_whole_writes);
        free(list);
        return 0;
}
