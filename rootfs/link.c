/* Chooses how an interpreter is brought into a sandbox. */
#include "rootfs/link.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/libraries.h"

enum { LIBC_MAX = 64 * 1024 * 1024 };

static bool same_loader(int fd)
{
        char ours[PATH_MAX], theirs[PATH_MAX];
        _cleanup_close_ int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

        return self >= 0 && libraries_read_loader(self, ours) >= 0 &&
               libraries_read_loader(fd, theirs) >= 0 && strcmp(ours, theirs) == 0;
}

bool link_loader_is_ours(const char *program)
{
        _cleanup_close_ int fd = open(program, O_RDONLY | O_CLOEXEC);

        return fd >= 0 && same_loader(fd);
}

static int open_inside(int root, const char *path)
{
        struct open_how how = {
                .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
        };
        int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

/* The newest "GLIBC_2.x" that a libc names: a version of symbols that it has. */
static int newest_minor(const char *data, size_t n)
{
        static const char prefix[] = "GLIBC_2.";
        const char *end = data + n;
        int newest = -1;

        while ((data = memmem(data, (size_t)(end - data), prefix, sizeof(prefix) - 1))) {
                int minor = 0;
                for (data += sizeof(prefix) - 1; data < end && *data >= '0' && *data <= '9'; data++)
                        if (minor < 1000)
                                minor = minor * 10 + *data - '0';
                if (minor > newest)
                        newest = minor;
        }
        return newest;
}

/* Returns its x of "2.x", -1 when there is no glibc. */
static int libc_minor(int root)
{
        static const char *const places[] = {
#if defined(__x86_64__)
                "/lib/x86_64-linux-gnu/libc.so.6",
#elif defined(__aarch64__)
                "/lib/aarch64-linux-gnu/libc.so.6",
#endif
                "/lib64/libc.so.6",
                "/usr/lib64/libc.so.6",
                "/lib/libc.so.6",
                "/usr/lib/libc.so.6",
        };

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                _cleanup_free_ char *data = NULL;
                size_t length = 0;
                _cleanup_close_ int fd = open_inside(root, places[i]);
                if (fd >= 0 && fd_read_whole(fd, LIBC_MAX, &data, &length, NULL) >= 0)
                        return newest_minor(data, length);
        }
        return -1;
}

static bool libc_is_new_enough(int root)
{
        int major = 0, minor = 0;

        return sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2 && major == 2 &&
               libc_minor(root) >= minor;
}

int link_of_root(int root, const char *python, const char *libpython, enum template_link *ret,
                 struct error *err)
{
        char loader[PATH_MAX];
        _cleanup_close_ int program = open_inside(root, python);

        if (program < 0)
                return error_errno(err, -program, "%s of the root file system", python);
        if (libraries_read_loader(program, loader) < 0)
                return error_set(
                        err, ENOEXEC,
                        "%s of the root file system is not a dynamically linked 64-bit program: an interpreter that can load modules is needed",
                        python);
        bool embed = libpython && *libpython && same_loader(program) && libc_is_new_enough(root);
        _cleanup_close_ int library = embed ? open_inside(root, libpython) : -1;
        *ret = library >= 0 ? TEMPLATE_LINK_EMBED : TEMPLATE_LINK_MODULE;
        return 0;
}
