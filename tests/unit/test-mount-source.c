/* Which directories of the host may be mounted. */
#include "supervisor/monitor/template/mount-source.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

static char place[256];
static struct mount_guards guards;
static struct ids ids = {.mode = SANDBOX_ROOTLESS, .count = 1};
static struct error err;

static int open_source(const char *source, bool writable)
{
        struct config_mount mount = {
                .source = (char *)source, .target = (char *)"/data", .writable = writable};

        err = (struct error){};
        int fd = mount_source_open(&mount, &ids, &guards, &err);
        if (fd < 0)
                return fd;
        close(fd);
        return 0;
}

static const char *make(const char *name)
{
        static char path[512];

        snprintf(path, sizeof(path), "%s/%s", place, name);
        check(mkdir(path, 0755) == 0 || errno == EEXIST);
        return path;
}

static void test_plain(void)
{
        check_ok(open_source(make("plain"), false));
        check_ok(open_source(make("plain"), true));
        check_eq_int(open_source("/no/such/place", false), -ENOENT);
        check_has(err.text, "mount /no/such/place: open it: No such file");
        check_eq_int(open_source("/etc/passwd", false), -ENOTDIR);
}

static void test_home(void)
{
        make("plain");
        setenv("HOME", place, 1);
        check_ok(open_source("~/plain", false));
        unsetenv("HOME");
        check_eq_int(open_source("~/plain", false), -ENOENT);
}

static void test_kernel(void)
{
        static const char *const list[] = {"/",    "/proc", "/proc/self", "/proc/self/fd",
                                           "/sys", "/dev",  "/dev/pts",   "/dev/shm"};
        char link[512];

        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                if (access(list[i], F_OK) == 0)
                        check_eq_int(open_source(list[i], false), -EPERM);
        }
        snprintf(link, sizeof(link), "%s/link", place);
        unlink(link);
        check_eq_int(symlink("/proc/sys", link), 0);
        check_eq_int(open_source(link, false), -EPERM);
        /* No magic link: it would be another's view of the machine. */
        check(open_source("/proc/self/cwd", false) < 0);
        check(open_source("/proc/self/root", false) < 0);
}

static void test_ours(void)
{
        char inner[512], file[512], other[512];

        snprintf(inner, sizeof(inner), "%s", make("store"));
        snprintf(other, sizeof(other), "%s", make("other"));
        snprintf(file, sizeof(file), "%s/config.json", other);
        check_ok(mount_guards_add(&guards, inner, "the store", MOUNT_GUARD_DIRECTORY, &err));
        check_ok(mount_guards_add(&guards, file, "the config", MOUNT_GUARD_FILE, &err));

        check_eq_int(open_source(inner, false), -EPERM);
        check_has(err.text, "(the store), which no sandbox may access");
        check_eq_int(open_source(make("store/deep"), false), -EPERM);
        /* A parent directory may be mounted for reading, but not for writing. */
        check_ok(open_source(place, false));
        check_eq_int(open_source(place, true), -EPERM);
        check_has(err.text, "is below it and must not be writable");
        check_ok(open_source(other, false));
        check_eq_int(open_source(other, true), -EPERM);
        check_ok(open_source(make("beside"), true));
        guards.n = 0;
        check_ok(open_source(inner, true));
        /* A private path: no mount of it, in it or above it, in either mode. */
        check_ok(mount_guards_add(&guards, file, "the log", MOUNT_GUARD_PRIVATE, &err));
        check_eq_int(open_source(other, false), -EPERM);
        check_has(err.text, "(the log) is below it, which no sandbox may access");
        check_eq_int(open_source(place, false), -EPERM);
        check_eq_int(open_source(place, true), -EPERM);
        check_ok(open_source(make("beside"), true));
        guards.n = 0;
        check_ok(open_source(other, false));
}

static void test_ids(void)
{
        const char *path = make("plain");

        ids = (struct ids){.mode = SANDBOX_ROOT, .count = 16};
        check_ok(open_source(path, false));
        check_eq_int(open_source(path, true), -EPERM);
        check_has(err.text, "needs sandboxes with the id of the directory's owner");
        ids = (struct ids){.mode = SANDBOX_ROOTLESS, .count = 16};
        check_eq_int(open_source(path, true), -EPERM);
        ids = (struct ids){.mode = SANDBOX_ROOTLESS, .count = 1};
        check_ok(open_source(path, true));
}

int main(void)
{
        snprintf(place, sizeof(place), "/tmp/cloister-test-XXXXXX");
        check(mkdtemp(place));
        run(test_plain);
        run(test_home);
        run(test_kernel);
        run(test_ours);
        run(test_ids);
        char command[300];
        snprintf(command, sizeof(command), "rm -rf %s", place);
        check_eq_int(system(command), 0);
        return 0;
}
