/* How the interpreter of a root file system is to be linked. */
#include "rootfs/interpreter.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "tests/unit/test.h"

#define PYTHON    "/usr/bin/python3"
#define LIBPYTHON "/usr/lib/libpython3.so"

static char place[] = "/tmp/cloister-test-link-XXXXXX";

static void put(int root, const char *path, const char *data, size_t n)
{
        _cleanup_close_ int fd = openat(root, path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

        check(fd >= 0);
        check_eq_int(fd_write_all(fd, data, n), 0);
}

/* A root whose interpreter is this program, and whose libc contains these versions. */
static int make_root(const char *libc)
{
        _cleanup_free_ char *program = NULL;
        size_t length = 0;
        struct error err = {};
        _cleanup_close_ int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        int root = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        check(root >= 0 && self >= 0);
        check_ok(fd_read_whole(self, 64UL << 20, &program, &length, &err));
        mkdirat(root, "usr", 0755);
        mkdirat(root, "usr/bin", 0755);
        mkdirat(root, "usr/lib", 0755);
        mkdirat(root, "lib64", 0755);
        put(root, "usr/bin/python3.11", program, length);
        (void)!symlinkat("/usr/bin/python3.11", root, "usr/bin/python3");
        put(root, "usr/lib/libpython3.so", "", 0);
        put(root, "lib64/libc.so.6", libc, strlen(libc));
        return root;
}

static enum template_link link_of(const char *libc, const char *libpython)
{
        enum template_link link = TEMPLATE_LINK_MAX;
        struct error err = {};
        _cleanup_close_ int root = make_root(libc);

        check_ok(link_of_root(root, PYTHON, libpython, &link, &err));
        return link;
}

static void test_libc_versions(void)
{
        char ours[64], older[64];
        int minor = atoi(strchr(gnu_get_libc_version(), '.') + 1);

        snprintf(ours, sizeof(ours), "ELF GLIBC_2.2.5 GLIBC_2.%d GLIBC_PRIVATE", minor);
        snprintf(older, sizeof(older), "ELF GLIBC_2.2.5 GLIBC_2.%d GLIBC_PRIVATE", minor - 1);
        check_eq_int(link_of(ours, LIBPYTHON), TEMPLATE_LINK_EMBED);
        check_eq_int(link_of("GLIBC_2.999", LIBPYTHON), TEMPLATE_LINK_EMBED);
        check_eq_int(link_of(older, LIBPYTHON), TEMPLATE_LINK_MODULE);
        check_eq_int(link_of("no versions", LIBPYTHON), TEMPLATE_LINK_MODULE);
        check_eq_int(link_of("GLIBC_2.", LIBPYTHON), TEMPLATE_LINK_MODULE);
        check_eq_int(link_of("", LIBPYTHON), TEMPLATE_LINK_MODULE);
}

static void test_libpython(void)
{
        check_eq_int(link_of("GLIBC_2.999", NULL), TEMPLATE_LINK_MODULE);
        check_eq_int(link_of("GLIBC_2.999", ""), TEMPLATE_LINK_MODULE);
        check_eq_int(link_of("GLIBC_2.999", "/usr/lib/not-there.so"), TEMPLATE_LINK_MODULE);
}

static void test_refused(void)
{
        enum template_link link = TEMPLATE_LINK_MAX;
        struct error err = {};
        _cleanup_close_ int root = make_root("GLIBC_2.999");

        check(link_of_root(root, "/usr/bin/none", LIBPYTHON, &link, &err) < 0);
        check_has(err.text, "/usr/bin/none of the root file system");
        check(link_of_root(root, "/lib64/libc.so.6", LIBPYTHON, &link, &err) < 0);
        check_has(err.text, "not a dynamically linked 64-bit program");
        check_eq_int(link, TEMPLATE_LINK_MAX);
        check(link_loader_is_ours("/proc/self/exe"));
        check(!link_loader_is_ours("/etc/passwd"));
}

int main(void)
{
        check(mkdtemp(place) != NULL);
        run(test_libc_versions);
        run(test_libpython);
        run(test_refused);
        char command[sizeof(place) + 8];
        snprintf(command, sizeof(command), "rm -r %s", place);
        return system(command) != 0;
}
