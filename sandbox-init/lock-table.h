/*
 * POSIX locks of files as a table: that of init, of all processes (sandbox-init/init/locks.h), and that of the worker, of its own SQLite
 * (sandbox-init/worker/sqlite-locks.h), which init reads.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "rpc/sandbox-messages.h"

struct file_lock {
        uint64_t device, inode;
        int64_t start, end; /* inclusive */
        pid_t process;
        int fd;      /* of the process, by which it took the lock */
        int type;    /* F_RDLCK, F_WRLCK */
        int is_real; /* 1: programs of the host meet it, too (sandbox-init/init/host-locks.h) */
};

enum { LOCAL_LOCKS_MAX = 64 };

#define LOCAL_LOCKS_MAGIC UINT64_C(0x736b636f6c6c716d)

/* While one process alone uses locks, it has them here, and init has this table's address. */
struct local_locks {
        uint64_t magic;
        uint64_t devices
                [INIT_DEVICES]; /* struct init_hello; init writes them, from then on the table counts */
        pid_t process;
        uint32_t
                is_revoked; /* init writes 1, and then reads the locks: another process asks for one */
        uint32_t changes; /* odd while the locks are being changed */
        uint32_t n;
        struct file_lock locks[LOCAL_LOCKS_MAX];
};

static inline bool lock_is_of(const struct file_lock *l, const struct file_lock *file)
{
        return l->inode == file->inode && l->device == file->device && l->is_real == file->is_real;
}

static inline bool lock_is_on(const uint64_t devices[INIT_DEVICES], uint64_t device)
{
        for (size_t i = 0; i < INIT_DEVICES; i++)
                if (device == devices[i])
                        return true;
        return false;
}

/* Takes the range, 0 <= start <= end, from the locks of this process on this file, and joins those of the same type that
 * touch it. Locks of one process on one file never overlap, so that one of them at most becomes two. Returns -ENOLCK without a change
 * if there may be no room: an unlock needs one place, a lock two. */
static inline int lock_table_set(struct file_lock *locks, size_t *n, size_t max,
                                 struct file_lock wanted)
{
        if (wanted.type != F_UNLCK && *n + 2 > max)
                return -ENOLCK;
        for (size_t i = 0; i < *n; i++) {
                struct file_lock *l = &locks[i], after = *l;
                bool joins = l->type == wanted.type;
                if (!lock_is_of(l, &wanted) || l->process != wanted.process ||
                    l->start - joins > wanted.end || l->end < wanted.start - joins)
                        continue;
                if (joins) {
                        wanted.start = l->start < wanted.start ? l->start : wanted.start;
                        wanted.end = l->end > wanted.end ? l->end : wanted.end;
                }
                bool has_before = l->start < wanted.start, has_after = wanted.end < l->end;
                if (has_after)
                        after.start = wanted.end + 1;
                if (has_before && has_after && *n == max)
                        return -ENOLCK;
                if (has_before && has_after)
                        locks[(*n)++] = after;
                if (has_before)
                        l->end = wanted.start - 1;
                else if (has_after)
                        *l = after;
                else
                        locks[i--] = locks[--*n];
        }
        if (wanted.type == F_UNLCK)
                return 0;
        if (*n == max)
                return -ENOLCK;
        locks[(*n)++] = wanted;
        return 0;
}

/* Adds the locks of this process from a table that may hold any bytes: entries that are not locks, or have no room, are left out. */
static inline void lock_table_take(struct file_lock *locks, size_t *n, size_t max,
                                   const struct local_locks *from, pid_t process)
{
        for (size_t i = 0; i < from->n && i < LOCAL_LOCKS_MAX; i++) {
                struct file_lock l = from->locks[i];

                l.process = process;
                l.is_real = 0;
                if ((l.type == F_RDLCK || l.type == F_WRLCK) && l.start >= 0 && l.start <= l.end)
                        lock_table_set(locks, n, max, l);
        }
}
