/* File locks: which file, whose, and whether another process has one. */
#include "sandbox-init/init/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-init/init/host-locks.h"
#include "sandbox-init/init/init-clock.h"
#include "sandbox-init/lock-table.h"

enum {
        CLEAN_AFTER_CALLS = 1024, /* stale locks are looked for after this number of calls, */
        CLEAN_AFTER_MS = 200,     /* or after this time */
        COUNT_STEP_MS = 20,       /* what one step of a count takes, */
        COUNT_PART = 2,           /* the time between two, as a multiple of that, */
        COUNT_TIMES = 4,          /* and how often it reads a list that changes */
        READING_MS_MAX = 1000,    /* a count whose last step is older begins again */
        LOCK_LINE_MIN = 40,       /* bytes: "1: FLOCK  ADVISORY  READ 1 00:01:1 0 EOF" */
        LOCAL_TRIES_MAX = 100,    /* of CALLS_RETRY_MS */
        HOST_STALE_MS = 100,      /* until programs of the host get what a process has left */
};

/* The kernel's list of locks is being read. */
struct reading {
        uint64_t sum, last_sum; /* of all bytes, this time and the last time */
        size_t n, most;         /* locks of flock() */
        size_t matched;         /* characters of the word that is looked for */
        int times;
        int64_t read_ms;
};

static struct {
        uint64_t devices[INIT_DEVICES]; /* of the session's own file systems */
        struct file_lock locks[LOCKS_MAX];
        size_t n;       /* POSIX locks */
        size_t n_flock; /* open files that may have a lock of flock() */
        size_t calls;   /* that had room, since the last clean() */
        int64_t cleaned_ms, next_count_ms;
        struct reading reading;
        struct caller local; /* the process that has its locks in its own table */
        uint64_t local_at;
        int local_tries; /* while it changes them */
        bool has_freed;  /* since locks_have_freed() */
        bool has_host;   /* files of the host are open for their locks */
        int64_t next_stale_ms;
} all;

static bool is_own(const struct stat *st)
{
        return lock_is_on(all.devices, st->st_dev);
}

/* ---- the table ---- */

static void drop(size_t i)
{
        const struct file_lock l = all.locks[i];

        all.locks[i] = all.locks[--all.n];
        if (l.is_real)
                host_locks_release(&l, all.locks, all.n);
}

/* Whether the process has ended, or has closed the file: the kernel reports neither. */
static bool is_stale(const struct file_lock *l)
{
        struct caller c = caller_new(l->process);
        struct stat st;

        if (c.process == 0)
                return true;
        int fd = caller_take_file(&c, l->fd, &st);
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

/* Reads on, in blocks that are each of one moment, and counts the lines of flock(). Returns whether the list was read to its end. */
static bool read_list(struct reading *r, int64_t until_ms)
{
        static const char word[] = ": FLOCK";
        char block[4096];
        ssize_t n;

        do {
                n = read(INIT_LOCKS_FD, block, sizeof(block));
                r->n += n < 0 ? LOCKS_MAX : 0;
                for (ssize_t i = 0; i < n; i++) {
                        r->sum = 31 * r->sum + (unsigned char)block[i];
                        r->matched = block[i] == word[r->matched] ? r->matched + 1
                                                                  : block[i] == ':';
                        r->n += word[r->matched] == '\0';
                        if (word[r->matched] == '\0')
                                r->matched = 0;
                }
        } while (n > 0 && init_clock_ms() < until_ms);
        return n <= 0;
}

/* Sets n_flock to a number that is not too low. Returns false if it must be called again: it reads for a short time, as all locks of the
 * machine wait for each block. The list also has the locks of all open files of the machine (OFDLCK), which are passed over. Each line
 * begins with its place among all locks of the machine, so that a list which reads twice the same has not changed. Of
 * one that changes always, the highest number counts. */
static bool count_flocks(void)
{
        static const off_t few = 4096, many = 64 * 1024;
        struct reading *r = &all.reading;
        const int64_t began = init_clock_ms();
        size_t counted = few / LOCK_LINE_MIN;

        if (began > r->read_ms + READING_MS_MAX)
                *r = (struct reading){};
        if (r->times == 0 && !is_end(few, 5)) {
                lseek(INIT_LOCKS_FD, 0, SEEK_SET);
                r->times = 1;
        }
        if (r->times > 0) {
                bool agrees = false, ends = false;
                while (!ends && read_list(r, began + COUNT_STEP_MS)) {
                        agrees = r->n >= all.n_flock || (r->times > 1 && r->sum == r->last_sum);
                        ends = agrees || r->times == COUNT_TIMES;
                        if (r->n > r->most)
                                r->most = r->n;
                        counted = agrees ? r->n : r->most;
                        *r = (struct reading){
                                .last_sum = r->sum, .most = r->most, .times = r->times + 1};
                        lseek(INIT_LOCKS_FD, 0, SEEK_SET);
                }
                r->read_ms = init_clock_ms();
                all.next_count_ms = r->read_ms + COUNT_PART * (r->read_ms - began);
                if (!ends)
                        return false;
                if (!agrees && is_end(many, 5))
                        counted = many / LOCK_LINE_MIN;
        }
        if (counted < all.n_flock)
                all.n_flock = counted;
        *r = (struct reading){};
        return true;
}

static void clean(bool only_real)
{
        for (size_t i = all.n; i-- > 0;)
                if ((all.locks[i].is_real || !only_real) && is_stale(&all.locks[i]))
                        drop(i);
        all.has_host = host_locks_keep(all.locks, all.n);
}

int locks_end_stale(void)
{
        const int64_t now = all.has_host ? init_clock_ms() : 0;

        if (all.has_host && now >= all.next_stale_ms) {
                clean(true);
                all.next_stale_ms = init_clock_ms() + HOST_STALE_MS + 20 * (init_clock_ms() - now);
        }
        return all.has_host ? HOST_STALE_MS : 0;
}

/* Returns 0 if two more locks fit, -ENOLCK, or CALL_WAITS while they are counted. Looks for those that have ended unseen, but not at
 * each call of a session that has many. */
static int make_room(void)
{
        if (all.n + all.n_flock + 2 <= LOCKS_MAX) {
                all.calls++;
                return 0;
        }
        if (all.calls < CLEAN_AFTER_CALLS && init_clock_ms() - all.cleaned_ms < CLEAN_AFTER_MS)
                return -ENOLCK;
        if (init_clock_ms() < all.next_count_ms)
                return CALL_WAITS;
        if (all.reading.times == 0)
                clean(false);
        if (all.n + all.n_flock + 2 > LOCKS_MAX && all.n_flock > 0 && !count_flocks())
                return CALL_WAITS;
        all.calls = 0;
        all.cleaned_ms = init_clock_ms();
        return all.n + all.n_flock + 2 <= LOCKS_MAX ? 0 : -ENOLCK;
}

/* ---- the calls ---- */

/* As flock(2). A file that others use too gets no lock: a shared one would exclude no process of the session, because no process
 * of it gets an exclusive one. */
static int call_flock(int fd, const struct stat *st, int operation)
{
        int what = operation & ~LOCK_NB;

        if (what != LOCK_SH && what != LOCK_EX && what != LOCK_UN)
                return -EINVAL;
        if (!is_own(st) && !host_locks_allow(fd, st))
                return what == LOCK_EX ? -ENOLCK : 0;
        int r = what == LOCK_UN ? 0 : make_room();
        if (r != 0)
                return r;
        if (flock(fd, operation | LOCK_NB) < 0)
                return errno == EWOULDBLOCK && !(operation & LOCK_NB) ? CALL_WAITS : -errno;
        all.has_freed |= what != LOCK_EX;
        if (what != LOCK_UN) {
                all.n_flock++;
                all.reading = (struct reading){};
        }
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

/* ---- a process that has its locks in its own table (sandbox-init/lock-table.h) ---- */

static bool read_local(struct local_locks *ret)
{
        return caller_copy_memory(&all.local, all.local_at, ret, sizeof(*ret), false) == 0 &&
               ret->magic == LOCAL_LOCKS_MAGIC && ret->process == all.local.process;
}

/* Takes its locks over. The code may have written any bytes there. Returns false while it changes them: the call waits. */
static bool recall(void)
{
        const uint64_t revoked_at = all.local_at + offsetof(struct local_locks, is_revoked);
        struct local_locks before = {}, now = {};
        uint32_t yes = 1;

        if (caller_is_current(&all.local) && read_local(&before)) {
                caller_copy_memory(&all.local, revoked_at, &yes, sizeof(yes), true);
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
static int give_table(const struct caller *c, uint64_t at, bool others_wait)
{
        struct local_locks table;

        if (others_wait || all.n > 4UL * LOCAL_LOCKS_MAX) /* clean() takes too long */
                return -EBADF;
        clean(false);
        for (size_t i = 0; i < all.n; i++)
                if (all.locks[i].process != c->process || all.locks[i].is_real ||
                    i > LOCAL_LOCKS_MAX / 2)
                        return -EBADF;
        all.local = caller_new(c->process);
        all.local_at = at;
        all.local_tries = 0;
        if (all.local.process != 0 && read_local(&table)) {
                memcpy(table.devices, all.devices, sizeof(table.devices));
                table.n = (uint32_t)all.n;
                memcpy(table.locks, all.locks, all.n * sizeof(all.locks[0]));
                if (caller_copy_memory(&all.local, at, &table, sizeof(table), true) == 0) {
                        all.n = 0;
                        return 0;
                }
        }
        caller_done(&all.local);
        return -EBADF;
}

static int get_lock(const struct file_lock *wanted, const struct caller *c, int fd, uint64_t at,
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
        else if (wanted->is_real)
                host_locks_get(fd, wanted, k);
        return caller_copy_memory(c, at, k, sizeof(*k), true);
}

/* As F_SETLK, of a lock that no other process of the session excludes. */
static int set_lock(const struct file_lock *wanted, int fd)
{
        const bool frees = wanted->type == F_UNLCK;
        int r = frees ? 0 : make_room();

        if (r == 0 && wanted->is_real && !frees) {
                all.has_host = true;
                r = host_locks_take(fd, wanted, all.locks, all.n);
                if (r == -ENOLCK) {
                        clean(true);
                        r = host_locks_take(fd, wanted, all.locks, all.n);
                }
        }
        if (r != 0)
                return r;
        all.has_freed |= wanted->type != F_WRLCK;
        /* Releasing the middle of one makes two of it, which count if the kernel has them. */
        bool may_grow = !wanted->is_real || !frees || host_locks_have_room(all.locks, all.n);
        r = lock_table_set(all.locks, &all.n, may_grow ? LOCKS_MAX : all.n, *wanted);
        if (wanted->is_real && (r < 0 || frees))
                host_locks_release(wanted, all.locks, all.n);
        return r;
}

static int call_fcntl(const struct caller *c, int fd, const struct stat *st,
                      const struct seccomp_data *call)
{
        int command = (int)call->args[1], mode = fcntl(fd, F_GETFL);
        struct file_lock wanted = {.device = st->st_dev,
                                   .inode = st->st_ino,
                                   .process = c->process,
                                   .fd = (int)call->args[0],
                                   .is_real = !is_own(st) && host_locks_allow(fd, st)};
        struct flock k;

        int r = caller_copy_memory(c, call->args[2], &k, sizeof(k), false);
        if (r >= 0)
                r = set_range(&wanted, &k, fd, st);
        if (r < 0)
                return r;
        wanted.type = k.l_type;
        if (k.l_type != F_RDLCK && k.l_type != F_WRLCK &&
            (k.l_type != F_UNLCK || command == F_GETLK))
                return -EINVAL;
        if (command == F_GETLK)
                return get_lock(&wanted, c, fd, call->args[2], &k);
        if ((k.l_type == F_RDLCK && (mode & O_ACCMODE) == O_WRONLY) ||
            (k.l_type == F_WRLCK && (mode & O_ACCMODE) == O_RDONLY))
                return -EBADF;
        if (k.l_type != F_UNLCK && !is_own(st) && !wanted.is_real && (mode & O_ACCMODE) != O_RDONLY)
                return -ENOLCK;
        r = k.l_type != F_UNLCK && find_conflict(&wanted) ? -EAGAIN : set_lock(&wanted, fd);
        return r == -EAGAIN && command == F_SETLKW ? CALL_WAITS : r;
}

int locks_call(const struct caller *c, const struct seccomp_data *data, bool others_wait)
{
        struct stat st;
        int r;

        if (data->nr == SYS_fcntl && !recall())
                return CALL_WAITS;
        if (data->nr == SYS_fcntl && (int)data->args[0] == -1)
                return give_table(c, data->args[2], others_wait);
        int fd = caller_take_file(c, (int)data->args[0], &st);
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

bool locks_have_freed(void)
{
        bool has = all.has_freed;

        all.has_freed = false;
        return has;
}

void locks_open(const struct init_hello *hello)
{
        memcpy(all.devices, hello->devices, sizeof(all.devices));
        host_locks_open(hello);
}
