/* File locks: which file, whose, and whether another process has one. */
#include "sandbox-init/init/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-init/lock-table.h"

enum {
        CLEAN_AFTER_CALLS = 1024, /* stale locks are looked for after this number of calls, */
        CLEAN_AFTER_MS = 200,     /* or after this time */
        COUNT_PART = 10,          /* the time between two counts, as a multiple of what one takes */
        LOCK_LINE_MIN = 40,       /* bytes: "1: FLOCK  ADVISORY  READ 1 00:01:1 0 EOF" */
        LOCAL_TRIES_MAX = 100,    /* of LOCKS_RETRY_MS */
        WAITS = 1,                /* result of a call: not answered yet */
        GOES_ON,                  /* the caller itself makes the call */
};

struct caller {
        pid_t process; /* 0: none */
        int pidfd;
};

static struct {
        int listener;
        struct init_hello hello;
        struct file_lock locks[LOCKS_MAX];
        size_t n;       /* POSIX locks */
        size_t n_flock; /* open files that may have a lock of flock() */
        size_t calls;   /* since the last clean() */
        int64_t cleaned_ms, next_count_ms, opened_ms;
        struct caller local; /* the process that has its locks in its own table */
        uint64_t local_at;
        int local_tries; /* while it changes them */
        int64_t next_sync_us;
        _Atomic int64_t *next_of_all_us; /* shared with the other sessions of the template */
        struct seccomp_notif waiting[LOCKS_WAITERS_MAX];
        size_t n_waiting;
        bool has_freed; /* since they were last tried */
        int64_t next_retry_ms;
} all = {.listener = -1};

/* ---- the caller and its file ---- */

/* The name of a process, which code chooses, is in the first line of its status with its line ends escaped. */
static pid_t process_of(pid_t thread)
{
        char path[32] = "", text[512];

        snprintf(path, sizeof(path), "%d/status", thread);
        int fd = openat(INIT_PROC_FD, path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        if (fd >= 0)
                close(fd);
        text[n > 0 ? n : 0] = '\0';
        const char *at = strstr(text, "\nTgid:");
        return at ? (pid_t)strtol(at + 6, NULL, 10) : 0;
}

static struct caller caller_new(pid_t process)
{
        int pidfd = process > 0 ? (int)syscall(SYS_pidfd_open, process, 0) : -1;

        return (struct caller){pidfd < 0 ? 0 : process, pidfd};
}

static void caller_done(struct caller *c)
{
        if (c->process != 0)
                close(c->pidfd);
        c->process = 0;
}

static bool is_current(const struct caller *c)
{
        return c->process != 0 && syscall(SYS_pidfd_send_signal, c->pidfd, 0, NULL, 0) == 0;
}

/* Returns a descriptor of the caller's open file, or negative errno. */
static int take_file(const struct caller *c, int fd, struct stat *st)
{
        int own = (int)syscall(SYS_pidfd_getfd, c->pidfd, fd, 0);

        if (own < 0)
                return errno == EBADF || errno == ESRCH ? -EBADF : -ENOLCK;
        if (fstat(own, st) == 0)
                return own;
        close(own);
        return -ENOLCK;
}

static bool is_own(const struct stat *st)
{
        return lock_is_on(all.hello.devices, st->st_dev);
}

/* ---- the table ---- */

static void drop(size_t i)
{
        all.locks[i] = all.locks[--all.n];
}

/* Whether the process has ended, or has closed the file: the kernel reports neither. */
static bool is_stale(const struct file_lock *l)
{
        struct caller c = caller_new(l->process);
        struct stat st;

        if (c.process == 0)
                return true;
        int fd = take_file(&c, l->fd, &st);
        caller_done(&c);
        if (fd < 0)
                return fd == -EBADF;
        close(fd);
        return st.st_dev != l->device || st.st_ino != l->inode;
}

/* Returns a lock of another process that excludes this one; NULL: none. */
static const struct file_lock *find_conflict(const struct file_lock *wanted)
{
        for (size_t i = 0; i < all.n; i++) {
                const struct file_lock *l = &all.locks[i];
                if (!lock_is_of(l, wanted) || l->process == wanted->process ||
                    l->start > wanted->end || l->end < wanted->start ||
                    (l->type == F_RDLCK && wanted->type == F_RDLCK))
                        continue;
                if (!is_stale(l))
                        return l;
                drop(i--);
        }
        return NULL;
}

/* ---- the bound ---- */

static int64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* The kernel lists each lock of flock() with the process that took it, which is init, wherever the open file is. The list changes
 * between two blocks that are read, but it stands still for one seek: if nothing is at an offset, no more locks exist than
 * have their lines before it. */
static bool ends_before(off_t offset)
{
        char byte;

        /* From the beginning, and twice: at the end of a line, the rest may be missing. */
        for (off_t at = offset; at <= offset + 1; at++)
                if (lseek(INIT_LOCKS_FD, 0, SEEK_SET) != 0 ||
                    lseek(INIT_LOCKS_FD, at, SEEK_SET) != at || read(INIT_LOCKS_FD, &byte, 1) != 0)
                        return false;
        return true;
}

/* A lock that another session takes before the read moves an entry to where it begins: that is not the end. */
static bool is_end(off_t offset, int tries)
{
        while (tries-- > 0)
                if (ends_before(offset))
                        return true;
        return false;
}

/* Returns a number that is not too low. All locks of the machine wait during a long seek, so that the next one is not made at once. */
static size_t count_flocks(void)
{
        static const off_t few = 4096, many = 64 * 1024;
        int64_t began = now_ms();

        if (began < all.next_count_ms)
                return all.n_flock;
        if (is_end(few, 30))
                return few / LOCK_LINE_MIN;
        began = now_ms();
        bool ends = is_end(many, 5);
        all.next_count_ms = now_ms() + COUNT_PART * (now_ms() - began);
        return ends ? (size_t)many / LOCK_LINE_MIN : all.n_flock;
}

static void clean(void)
{
        for (size_t i = all.n; i-- > 0;)
                if (is_stale(&all.locks[i]))
                        drop(i);
}

/* Whether two more locks fit. Looks for those that have ended unseen, but not at each call of a session that has many. */
static bool has_room(void)
{
        all.calls++;
        if (all.n + all.n_flock + 2 <= LOCKS_MAX)
                return true;
        if (all.calls < CLEAN_AFTER_CALLS && now_ms() - all.cleaned_ms < CLEAN_AFTER_MS)
                return false;
        clean();
        if (all.n + all.n_flock + 2 > LOCKS_MAX)
                all.n_flock = count_flocks();
        all.calls = 0;
        all.cleaned_ms = now_ms();
        return all.n + all.n_flock + 2 <= LOCKS_MAX;
}

/* ---- the calls ---- */

/* As flock(2). A file that others use too gets no lock: a shared one would exclude no process of the session, because no process
 * of it gets an exclusive one. */
static int call_flock(int fd, const struct stat *st, int operation)
{
        int what = operation & ~LOCK_NB;

        if (what != LOCK_SH && what != LOCK_EX && what != LOCK_UN)
                return -EINVAL;
        if (!is_own(st))
                return what == LOCK_EX ? -ENOLCK : 0;
        if (what != LOCK_UN && !has_room())
                return -ENOLCK;
        if (flock(fd, operation | LOCK_NB) < 0)
                return errno == EWOULDBLOCK && !(operation & LOCK_NB) ? WAITS : -errno;
        all.n_flock += what != LOCK_UN;
        all.has_freed |= what != LOCK_EX;
        return 0;
}

/* The range in bytes of the file: 0, or negative errno. */
static int set_range(struct file_lock *l, const struct flock *k, int fd, const struct stat *st)
{
        int64_t from = 0;

        if (k->l_whence == SEEK_CUR)
                from = lseek(fd, 0, SEEK_CUR);
        else if (k->l_whence == SEEK_END)
                from = st->st_size;
        else if (k->l_whence != SEEK_SET)
                return -EINVAL;
        if (from < 0)
                from = 0;
        if (__builtin_add_overflow(from, k->l_start, &l->start))
                return -EOVERFLOW;
        if (l->start < 0)
                return -EINVAL;
        l->end = INT64_MAX;
        if (k->l_len > 0 && __builtin_add_overflow(l->start, k->l_len - 1, &l->end))
                return -EOVERFLOW;
        if (k->l_len < 0) {
                l->end = l->start - 1;
                l->start += k->l_len;
        }
        return l->start < 0 ? -EINVAL : 0;
}

static int copy_memory(const struct caller *c, uint64_t at, void *data, size_t n, bool writes)
{
        struct iovec here = {data, n}, there = {(void *)at, n}; // NOLINT
        ssize_t r = writes ? process_vm_writev(c->process, &here, 1, &there, 1, 0)
                           : process_vm_readv(c->process, &here, 1, &there, 1, 0);

        return r == (ssize_t)n ? 0 : r < 0 && errno == EPERM ? -ENOLCK : -EFAULT;
}

/* ---- a process that has its locks in its own table (sandbox-init/lock-table.h) ---- */

static bool read_local(struct local_locks *ret)
{
        return copy_memory(&all.local, all.local_at, ret, sizeof(*ret), false) == 0 &&
               ret->magic == LOCAL_LOCKS_MAGIC && ret->process == all.local.process;
}

/* Takes its locks over. The code may have written any bytes there. Returns false while it changes them: the call waits. */
static bool recall(void)
{
        const uint64_t revoked_at = all.local_at + offsetof(struct local_locks, is_revoked);
        struct local_locks before = {}, now = {};
        uint32_t yes = 1;

        if (is_current(&all.local) && read_local(&before)) {
                copy_memory(&all.local, revoked_at, &yes, sizeof(yes), true);
                bool is_whole = read_local(&now) && read_local(&before) && now.changes % 2 == 0 &&
                                now.changes == before.changes;
                if (!is_whole && all.local_tries++ < LOCAL_TRIES_MAX)
                        return false;
                if (is_whole)
                        lock_table_take(all.locks, &all.n, LOCKS_MAX, &now, all.local.process);
        }
        caller_done(&all.local);
        return true;
}

/* Gives it the table, and its locks, while no other process has or waits for a lock. */
static int give_table(const struct caller *c, uint64_t at)
{
        struct local_locks table;

        if (all.n_waiting > 0 || all.n > 4UL * LOCAL_LOCKS_MAX) /* clean() takes too long */
                return -EBADF;
        clean();
        for (size_t i = 0; i < all.n; i++)
                if (all.locks[i].process != c->process || i > LOCAL_LOCKS_MAX / 2)
                        return -EBADF;
        all.local = caller_new(c->process);
        all.local_at = at;
        all.local_tries = 0;
        if (all.local.process != 0 && read_local(&table)) {
                memcpy(table.devices, all.hello.devices, sizeof(table.devices));
                table.n = (uint32_t)all.n;
                memcpy(table.locks, all.locks, all.n * sizeof(all.locks[0]));
                if (copy_memory(&all.local, at, &table, sizeof(table), true) == 0) {
                        all.n = 0;
                        return 0;
                }
        }
        caller_done(&all.local);
        return -EBADF;
}

static int get_lock(const struct file_lock *wanted, const struct caller *c, uint64_t at,
                    struct flock *k)
{
        const struct file_lock *l = find_conflict(wanted);

        k->l_type = F_UNLCK;
        if (l)
                *k = (struct flock){
                        .l_type = (short)l->type,
                        .l_whence = SEEK_SET,
                        .l_start = l->start,
                        .l_len = l->end == INT64_MAX ? 0 : l->end - l->start + 1,
                        .l_pid = l->process,
                };
        return copy_memory(c, at, k, sizeof(*k), true);
}

static int call_fcntl(const struct caller *c, int fd, const struct stat *st,
                      const struct seccomp_data *call)
{
        int command = (int)call->args[1], mode = fcntl(fd, F_GETFL);
        struct file_lock wanted = {.device = st->st_dev,
                                   .inode = st->st_ino,
                                   .process = c->process,
                                   .fd = (int)call->args[0]};
        struct flock k;

        int r = copy_memory(c, call->args[2], &k, sizeof(k), false);
        if (r >= 0)
                r = set_range(&wanted, &k, fd, st);
        if (r < 0)
                return r;
        wanted.type = k.l_type;
        if (k.l_type != F_RDLCK && k.l_type != F_WRLCK &&
            (k.l_type != F_UNLCK || command == F_GETLK))
                return -EINVAL;
        if (command == F_GETLK)
                return get_lock(&wanted, c, call->args[2], &k);
        if ((k.l_type == F_RDLCK && (mode & O_ACCMODE) == O_WRONLY) ||
            (k.l_type == F_WRLCK && (mode & O_ACCMODE) == O_RDONLY))
                return -EBADF;
        if (k.l_type != F_UNLCK && !is_own(st) && (mode & O_ACCMODE) != O_RDONLY)
                return -ENOLCK;
        if (k.l_type != F_UNLCK && find_conflict(&wanted))
                return command == F_SETLKW ? WAITS : -EAGAIN;
        if (k.l_type != F_UNLCK && !has_room())
                return -ENOLCK;
        all.has_freed |= k.l_type != F_WRLCK;
        return lock_table_set(all.locks, &all.n, LOCKS_MAX, wanted);
}

static int call_by(const struct caller *c, const struct seccomp_data *data)
{
        struct stat st;
        int r;

        if (data->nr == SYS_fcntl && !recall())
                return WAITS;
        if (data->nr == SYS_fcntl && (int)data->args[0] == -1)
                return give_table(c, data->args[2]);
        int fd = take_file(c, (int)data->args[0], &st);
        if (fd < 0)
                return fd;
        if (fcntl(fd, F_GETFL) & O_PATH)
                r = -EBADF;
        else if (data->nr == SYS_flock)
                r = call_flock(fd, &st, (int)data->args[1]);
        else
                r = call_fcntl(c, fd, &st, data);
        close(fd);
        return r;
}

/* ---- figures of the machine ---- */

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
        snprintf(base, sizeof(base), "%d/%s", c->process, path[0] == '/' ? "root" : "cwd");
        int dir = openat(INIT_PROC_FD, base, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return -errno;
        const char *relative = path + strspn(path, "/");
        int fd = openat(dir, *relative || path[0] != '/' ? relative : ".", O_PATH | O_CLOEXEC);
        int r = fd < 0 ? -errno : fd;
        close(dir);
        return r;
}

static int call_statfs(const struct caller *c, const struct seccomp_data *data)
{
        struct statfs s;
        struct stat st;
        int fd = data->nr == SYS_fstatfs ? take_file(c, (int)data->args[0], &st)
                                         : open_path(c, data->args[0]);

        if (fd < 0)
                return fd == -ENOLCK ? -EACCES : fd;
        int r = fstatfs(fd, &s) < 0 || fstat(fd, &st) < 0 ? -errno : 0;
        close(fd);
        if (r < 0)
                return r;
        if (!is_own(&st)) {
                if (s.f_blocks > 0 && s.f_bsize > 0)
                        s.f_blocks = ((uint64_t)SHARED_DISK_GIB << 30) / (uint64_t)s.f_bsize;
                s.f_bfree = s.f_bavail = s.f_flags & ST_RDONLY ? 0 : s.f_blocks;
                s.f_files = s.f_ffree = 0;
        }
        return copy_memory(c, data->args[1], &s, sizeof(s), true);
}

/* The C library uses the answer without a look at the result of the call. */
static int call_sysinfo(const struct caller *c, const struct seccomp_data *data)
{
        const struct sysinfo neutral = {
                .uptime = (now_ms() - all.opened_ms) / 1000,
                .totalram = all.hello.memory,
                .freeram = all.hello.memory,
                .procs = 1,
                .mem_unit = 1,
        };

        return copy_memory(c, data->args[0], (void *)&neutral, sizeof(neutral), true);
}

static int call_figures(const struct caller *c, const struct seccomp_notif *request)
{
        /* The process may have ended before it was opened, and another one have its number. */
        if (ioctl(all.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &request->id) < 0)
                return -EINTR;
        int r = request->data.nr == SYS_sysinfo ? call_sysinfo(c, &request->data)
                                                : call_statfs(c, &request->data);
        return r == -ENOLCK ? -EFAULT : r;
}

static bool is_figure(const struct seccomp_notif *request)
{
        const int nr = request->data.nr;

        return nr == SYS_sysinfo || nr == SYS_statfs || nr == SYS_fstatfs;
}

static bool is_sync(const struct seccomp_notif *request)
{
        return request->data.nr != SYS_flock && request->data.nr != SYS_fcntl &&
               !is_figure(request);
}

/* When the next call after one at this time may continue, or 0: this one may not yet. */
static int64_t next_sync(int64_t next, int64_t now, int64_t each)
{
        if (next < now - each * SYNCS_AT_ONCE)
                next = now - each * SYNCS_AT_ONCE;
        return next > now - each ? 0 : next + each;
}

/* Which file it is about does not matter: another thread may exchange the descriptor, but each call counts. */
static int call_sync(void)
{
        int64_t now = now_ms() * 1000, of_all = *all.next_of_all_us,
                own = next_sync(all.next_sync_us, now, 1000000 / SYNCS_PER_S), next;

        do {
                next = next_sync(of_all, now, 1000000 / SYNCS_OF_ALL_PER_S);
                if (own == 0 || next == 0)
                        return WAITS;
        } while (!atomic_compare_exchange_weak(all.next_of_all_us, &of_all, next));
        all.next_sync_us = own;
        return GOES_ON;
}

/* Returns what the call returns, or WAITS or GOES_ON. */
static int call(const struct seccomp_notif *request)
{
        if (is_sync(request))
                return call_sync();
        struct caller c = caller_new(process_of((pid_t)request->pid));

        int r = c.process == 0       ? -ENOLCK
                : is_figure(request) ? call_figures(&c, request)
                                     : call_by(&c, &request->data);
        caller_done(&c);
        return r;
}

static void answer(uint64_t id, int r)
{
        struct seccomp_notif_resp response = {
                .id = id,
                .error = r == GOES_ON ? 0 : r,
                .flags = r == GOES_ON ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0,
        };

        /* Fails if a signal has interrupted the call, which is then made again. */
        ioctl(all.listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

bool locks_retry(void)
{
        /* A file that was closed is noticed by time only. */
        const int64_t began = all.n_waiting > 0 ? now_ms() : 0;
        bool may_lock = all.has_freed || began >= all.next_retry_ms;

        all.has_freed = false;
        for (size_t i = 0; i < all.n_waiting; i++) {
                const struct seccomp_notif *w = &all.waiting[i];
                if (!may_lock && !is_sync(w))
                        continue;
                int r = ioctl(all.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &w->id) < 0 ? -EINTR
                                                                                      : call(w);
                if (r == WAITS)
                        continue;
                answer(w->id, r);
                /* In their order: a sync must not wait for those that came later. */
                memmove(&all.waiting[i], &all.waiting[i + 1],
                        (--all.n_waiting - i) * sizeof(all.waiting[0]));
                i--;
        }
        if (all.n_waiting > 0 && may_lock)
                all.next_retry_ms = now_ms() + LOCKS_RETRY_MS + 4 * (now_ms() - began);
        return all.n_waiting > 0;
}

void locks_serve(void)
{
        struct seccomp_notif request = {};

        if (ioctl(all.listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
                return;
        int r = is_sync(&request) && all.n_waiting > 0 ? WAITS : call(&request);
        if (r == WAITS && all.n_waiting == LOCKS_WAITERS_MAX)
                r = is_sync(&request) ? -EIO : -ENOLCK;
        if (r == WAITS)
                all.waiting[all.n_waiting++] = request;
        else
                answer(request.id, r);
}

int locks_fd(void)
{
        return all.listener;
}

int locks_open(int listener, const struct init_hello *hello)
{
        void *shared = mmap(NULL, SYNCS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, INIT_SYNCS_FD, 0);

        if (shared == MAP_FAILED)
                return -errno;
        close(INIT_SYNCS_FD);
        all.listener = listener;
        all.opened_ms = now_ms();
        all.hello = *hello;
        all.next_of_all_us = shared;
        return 0;
}
