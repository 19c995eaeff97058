/* The interpreter and the C library of a foreign root file system. Two bytes: the size of the
 * interpreter's file, then this file; the rest is the C library. Accepted when the interpreter can be
 * used. */
#include "rootfs/interpreter.h"

#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "tests/fuzz/fuzz.h"

static char folder[64];
static int root = -1;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
        return remove(path);
}

static void remove_all(void)
{
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_root(void)
{
        snprintf(folder, sizeof(folder), "/dev/shm/fuzz-elf-XXXXXX");
        assert(mkdtemp(folder));
        atexit(remove_all);
        root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert(root >= 0 && mkdirat(root, "lib64", 0755) == 0);
}

static void put(const char *name, const uint8_t *data, size_t n)
{
        _cleanup_close_ int fd = openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert(fd >= 0 && fd_write_all(fd, data, n) == 0);
}

static void check_loader(void)
{
        _cleanup_free_ char *loader = malloc(PATH_MAX);
        _cleanup_close_ int fd = openat(root, "python", O_RDONLY | O_CLOEXEC);

        assert(loader && fd >= 0);
        if (link_read_loader(fd, loader) == 0)
                assert(loader[0] == '/' && memchr(loader, '\0', PATH_MAX));
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        enum template_link link = TEMPLATE_LINK_MODULE;
        struct error err = {};

        if (n < 2)
                return false;
        if (root < 0)
                make_root();
        size_t size = (size_t)(data[0] | data[1] << 8);
        size = size < n - 2 ? size : n - 2;
        put("python", data + 2, size);
        put("lib64/libc.so.6", data + 2 + size, n - 2 - size);
        check_loader();
        int r = link_of_root(root, "/python", "/lib64/libc.so.6", &link, &err);
        assert(r >= 0 || error_is_set(&err));
        return r >= 0;
}

FUZZ_TARGET
