/* Figures of the machine, as the session sees them. */
#include "sandbox-init/init/figures.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-init/init/init-clock.h"
#include "sandbox-init/lock-table.h"
#include "sandbox-init/raw.h"

enum {
        SHARED_DISK_GIB = 1024, /* the size of each file system of the host */
        QUESTIONS_MAX = 4,      /* at a time */
};

/* A call that a child of init makes. */
struct question {
        pid_t child; /* 0: a free place */
        pid_t caller;
        uint64_t id, at; /* of the notification; of the caller's buffer */
        int file, result;
        struct statfs fs;
        struct stat st;
        char base[32];       /* a directory in /proc */
        char path[PATH_MAX]; /* from there; "": `file` itself */
        char stack[8192] __attribute__((aligned(16)));
};

static struct {
        uint64_t devices[INIT_DEVICES], memory;
        int64_t opened_ms;
        struct question questions[QUESTIONS_MAX];
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

/* Reads a path of the caller, and sets where it begins. */
static int read_path(const struct caller *c, uint64_t at, struct question *q)
{
        char *const ret = q->path;
        const size_t page = (size_t)sysconf(_SC_PAGESIZE), first = page - at % page;
        struct iovec here = {ret, PATH_MAX};
        /* The kernel copies whole parts; the page after the end of the path may not exist. */
        struct iovec there[] = {{(void *)at, first < PATH_MAX ? first : PATH_MAX}, // NOLINT
                                {(void *)(at + first),                             // NOLINT
                                 first < PATH_MAX ? PATH_MAX - first : 0}};

        ssize_t n = process_vm_readv(c->process, &here, 1, there, 2, 0);
        if (n <= 0)
                return -EFAULT;
        if (!memchr(ret, '\0', (size_t)n))
                return n < PATH_MAX ? -EFAULT : -ENAMETOOLONG;
        if (!*ret)
                return -ENOENT;
        const char *own = path_in_own(ret), *relative = own ? own : ret;
        const char *base = own ? "" : *ret == '/' ? "root" : "cwd";
        snprintf(q->base, sizeof(q->base), "%d/%s", c->process, base);
        relative += strspn(relative, "/");
        if (!*relative)
                relative = ".";
        memmove(ret, relative, strlen(relative) + 1);
        return 0;
}

static int answer_statfs(const struct caller *c, uint64_t at, struct statfs *s, dev_t device)
{
        if (!lock_is_on(figures.devices, device)) {
                if (s->f_blocks > 0 && s->f_bsize > 0)
                        s->f_blocks = ((uint64_t)SHARED_DISK_GIB << 30) / (uint64_t)s->f_bsize;
                s->f_bfree = s->f_bavail = s->f_flags & ST_RDONLY ? 0 : s->f_blocks;
                s->f_files = s->f_ffree = 0;
        }
        return caller_copy_memory(c, at, s, sizeof(*s), true);
}

/* In a child of init, which has its memory, but descriptors of its own: no libc, whose errno would be init's. */
static void ask(void *data)
{
        struct question *q = data;
        long fd = q->file;

        if (*q->path)
                fd = raw_call(SYS_openat, INIT_PROC_FD, raw_pointer(q->base),
                              O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
        if (*q->path && fd >= 0)
                fd = raw_call(SYS_openat, fd, raw_pointer(q->path), O_PATH | O_CLOEXEC, 0, 0, 0);
        long r = fd < 0 ? fd : raw_call(SYS_fstatfs, fd, raw_pointer(&q->fs), 0, 0, 0, 0);
        if (r >= 0)
                r = raw_call(SYS_newfstatat, fd, raw_pointer(""), raw_pointer(&q->st),
                             AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, 0);
        q->result = (int)r;
        raw_call(SYS_exit_group, 0, 0, 0, 0, 0, 0);
}

static struct question *find(pid_t pid)
{
        for (size_t i = 0; i < QUESTIONS_MAX; i++) {
                if (figures.questions[i].child == pid)
                        return &figures.questions[i];
        }
        return NULL;
}

static int begin(const struct caller *c, const struct seccomp_data *data, uint64_t id,
                 struct question *q)
{
        q->caller = c->process;
        q->id = id;
        q->at = data->args[1];
        q->result = -EIO;
        long pid = raw_clone_call(SYS_clone, CLONE_VM | SIGCHLD,
                                  raw_pointer(q->stack + sizeof(q->stack)), ask, q);
        if (pid > 0)
                q->child = (pid_t)pid;
        return pid > 0 ? CALL_BEGUN : (int)pid;
}

static int call_statfs(const struct caller *c, const struct seccomp_data *data, uint64_t id)
{
        struct question *q = find(0);

        if (!q)
                return CALL_WAITS;
        int r = read_path(c, data->args[0], q);
        return r < 0 ? r : begin(c, data, id, q);
}

static int call_fstatfs(const struct caller *c, const struct seccomp_data *data, uint64_t id)
{
        struct question *q = find(0);
        struct statfs fs;
        struct stat st;
        int r = CALL_WAITS;

        int fd = caller_take_file(c, (int)data->args[0], &st);
        if (fd < 0)
                return fd == -ENOLCK ? -EACCES : fd;
        if (lock_is_on(figures.devices, st.st_dev)) {
                /* The session's own always answers. */
                r = fstatfs(fd, &fs) < 0 ? -errno : answer_statfs(c, data->args[1], &fs, st.st_dev);
        } else if (q) {
                *q->path = '\0';
                q->file = fd;
                r = begin(c, data, id, q);
        }
        close(fd);
        return r;
}

bool figures_find(pid_t pid, uint64_t *id)
{
        const struct question *q = find(pid);

        if (q)
                *id = q->id;
        return q;
}

int figures_end(pid_t pid, int status, bool is_valid)
{
        struct question *q = find(pid);
        struct caller c = caller_new(is_valid ? q->caller : 0);
        int r = !WIFEXITED(status) ? -EIO : q->result;

        q->child = 0;
        if (r >= 0)
                r = answer_statfs(&c, q->at, &q->fs, q->st.st_dev);
        caller_done(&c);
        return r == -ENOLCK ? -EFAULT : r;
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

int figures_call(const struct caller *c, const struct seccomp_data *data, uint64_t id)
{
        int r = data->nr == SYS_sysinfo  ? call_sysinfo(c, data)
                : data->nr == SYS_statfs ? call_statfs(c, data, id)
                                         : call_fstatfs(c, data, id);

        return r == -ENOLCK ? -EFAULT : r;
}
