/* Figures of the machine, as the session sees them. */
#include "sandbox-init/init/figures.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sandbox-init/init/init-clock.h"
#include "sandbox-init/lock-table.h"

enum { SHARED_DISK_GIB = 1024 /* the size of each file system of the host */ };

static struct {
        uint64_t devices[INIT_DEVICES], memory;
        int64_t opened_ms;
} figures;

void figures_open(const struct init_hello *hello)
{
        memcpy(figures.devices, hello->devices, sizeof(figures.devices));
        figures.memory = hello->memory;
        figures.opened_ms = init_clock_ms();
}

/* The rest of a path below the caller's own directory in /proc, or NULL: init would find its own there. */
static const char *path_in_own(const char *path)
{
        static const char *const names[] = {"/proc/self", "/proc/thread-self", "/dev/fd"};

        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
                size_t n = strlen(names[i]);
                if (strncmp(path, names[i], n) == 0 && (path[n] == '/' || path[n] == '\0'))
                        return path + (i < 2 ? n : strlen("/dev"));
        }
        return NULL;
}

/* Returns a descriptor of the file that a path of the caller names, which gives no access to it, or negative errno. */
static int open_path(const struct caller *c, uint64_t at)
{
        char path[PATH_MAX], base[32];
        const size_t page = (size_t)sysconf(_SC_PAGESIZE), first = page - at % page;
        struct iovec here = {path, sizeof(path)};
        /* The kernel copies whole parts; the page after the end of the path may not exist. */
        struct iovec there[] = {
                {(void *)at, first < sizeof(path) ? first : sizeof(path)},                // NOLINT
                {(void *)(at + first), first < sizeof(path) ? sizeof(path) - first : 0}}; // NOLINT

        ssize_t n = process_vm_readv(c->process, &here, 1, there, 2, 0);
        if (n <= 0)
                return -EFAULT;
        if (!memchr(path, '\0', (size_t)n))
                return n < PATH_MAX ? -EFAULT : -ENAMETOOLONG;
        const char *own = path_in_own(path), *relative = own ? own : path;
        snprintf(base, sizeof(base), "%d/%s", c->process,
                 own              ? ""
                 : path[0] == '/' ? "root"
                                  : "cwd");
        int dir = openat(INIT_PROC_FD, base, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return -errno;
        relative += strspn(relative, "/");
        int fd = openat(dir, *relative || path[0] != '/' ? relative : ".", O_PATH | O_CLOEXEC);
        int r = fd < 0 ? -errno : fd;
        close(dir);
        return r;
}

static int call_statfs(const struct caller *c, const struct seccomp_data *data)
{
        struct statfs s;
        struct stat st;
        int fd = data->nr == SYS_fstatfs ? caller_take_file(c, (int)data->args[0], &st)
                                         : open_path(c, data->args[0]);

        if (fd < 0)
                return fd == -ENOLCK ? -EACCES : fd;
        int r = fstatfs(fd, &s) < 0 || fstat(fd, &st) < 0 ? -errno : 0;
        close(fd);
        if (r < 0)
                return r;
        if (!lock_is_on(figures.devices, st.st_dev)) {
                if (s.f_blocks > 0 && s.f_bsize > 0)
                        s.f_blocks = ((uint64_t)SHARED_DISK_GIB << 30) / (uint64_t)s.f_bsize;
                s.f_bfree = s.f_bavail = s.f_flags & ST_RDONLY ? 0 : s.f_blocks;
                s.f_files = s.f_ffree = 0;
        }
        return caller_copy_memory(c, data->args[1], &s, sizeof(s), true);
}

/* The C library uses the answer without a look at the result of the call. */
static int call_sysinfo(const struct caller *c, const struct seccomp_data *data)
{
        const struct sysinfo neutral = {
                .uptime = (init_clock_ms() - figures.opened_ms) / 1000,
                .totalram = figures.memory,
                .freeram = figures.memory,
                .procs = 1,
                .mem_unit = 1,
        };

        return caller_copy_memory(c, data->args[0], (void *)&neutral, sizeof(neutral), true);
}

bool figures_are_asked(int call)
{
        return call == SYS_sysinfo || call == SYS_statfs || call == SYS_fstatfs;
}

int figures_call(const struct caller *c, const struct seccomp_data *data)
{
        int r = data->nr == SYS_sysinfo ? call_sysinfo(c, data) : call_statfs(c, data);

        return r == -ENOLCK ? -EFAULT : r;
}
