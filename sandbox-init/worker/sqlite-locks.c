/* SQLite's fcntl() in the worker. */
#include "sandbox-init/worker/sqlite-locks.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-init/lock-table.h"
#include "sandbox-init/raw.h"

/* A libc may have them in another library, which the interpreter has loaded. */
#pragma weak dlopen
#pragma weak dlsym

enum { ASK_AFTER = 16 }; /* calls until the next request for the table */

/* The beginning of struct sqlite3_vfs (sqlite.org/c3ref/vfs.html). */
struct vfs {
        int version, file_size, path_max;
        void *next;
        const char *name;
        void *data, *methods[13];
        int (*set_call)(struct vfs *vfs, const char *name, void (*call)(void));
        void (*(*get_call)(struct vfs *vfs, const char *name))(void);
};

static struct {
        struct local_locks locks;
        uint32_t is_taken, calls;
        int (*fcntl)(int fd, int command, ...);
        int *(*errno_location)(void); /* of SQLite's libc */
} table;

static bool is_own_file(int fd, struct file_lock *ret)
{
        struct stat st;

        if (raw_call(SYS_fstat, fd, raw_pointer(&st), 0, 0, 0, 0) < 0)
                return false;
        ret->device = st.st_dev;
        ret->inode = st.st_ino;
        return lock_is_on(table.locks.devices, st.st_dev);
}

/* A call that the kernel makes itself is never interrupted, but one to init is, by a signal that has a handler. */
static raw_signals set_blocked(raw_signals signals)
{
        raw_signals before = 0;

        raw_signal_mask(SIG_SETMASK, &signals, &before);
        return before;
}

/* init takes a call with this descriptor, which no file has, for a request to use the table; NULL: for none. Any call makes it take
 * the locks over before that. */
static long ask_init(const struct local_locks *l)
{
        const raw_signals blocked = set_blocked(UINT64_MAX);
        long r = raw_call(SYS_fcntl, -1, F_SETLK, raw_pointer(l), 0, 0, 0);

        set_blocked(blocked);
        return r;
}

static bool has_table(pid_t self, int type)
{
        struct local_locks *l = &table.locks;

        if (l->process == self && !__atomic_load_n(&l->is_revoked, __ATOMIC_SEQ_CST))
                return true;
        if (type != F_RDLCK || table.calls++ % ASK_AFTER != 0)
                return false;
        /* Another thread's locks may be here still, while its own call waits until init takes them over. */
        if (l->process == self && ask_init(NULL) != -EBADF)
                return false;
        *l = (struct local_locks){.magic = LOCAL_LOCKS_MAGIC, .process = self};
        if (ask_init(l) == 0)
                return true;
        l->process = 0;
        return false;
}

static bool change(struct file_lock wanted)
{
        struct local_locks *l = &table.locks;
        size_t n = l->n;

        if (n + 2 > LOCAL_LOCKS_MAX) /* init takes this call, and the locks */
                return false;
        __atomic_store_n(&l->changes, l->changes + 1, __ATOMIC_SEQ_CST);
        lock_table_set(l->locks, &n, LOCAL_LOCKS_MAX, wanted);
        l->n = (uint32_t)n;
        __atomic_store_n(&l->changes, l->changes + 1, __ATOMIC_SEQ_CST);
        return true;
}

/* Returns whether it is done. If init has revoked the table meanwhile, it may have read it before or after the change: the call
 * is made again, to init. */
static bool set_here(int fd, int command, struct flock *k)
{
        struct file_lock wanted = {.process = (pid_t)raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0),
                                   .start = k->l_start,
                                   .end = INT64_MAX,
                                   .fd = fd,
                                   .type = k->l_type};
        bool done = false;

        if (k->l_whence != SEEK_SET || k->l_start < 0 || k->l_len < 0 ||
            (k->l_len > 0 && __builtin_add_overflow(wanted.start, k->l_len - 1, &wanted.end)))
                return false;
        /* A child may have been forked while another thread had it. */
        while (__atomic_exchange_n(&table.is_taken, 1, __ATOMIC_ACQUIRE)) {
                if (table.locks.process != wanted.process)
                        return false;
                raw_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
        }
        if (has_table(wanted.process, k->l_type) && is_own_file(fd, &wanted))
                done = command == F_GETLK || change(wanted);
        done = done && !__atomic_load_n(&table.locks.is_revoked, __ATOMIC_SEQ_CST);
        __atomic_store_n(&table.is_taken, 0, __ATOMIC_RELEASE);
        if (done && command == F_GETLK)
                k->l_type = F_UNLCK;
        return done;
}

static int sqlite_fcntl(int fd, int command, void *argument)
{
        const bool waits = command != F_SETLK && command != F_GETLK;
        int r;

        if (!waits && set_here(fd, command, argument))
                return 0;
        r = table.fcntl(fd, command, argument);
        /* SQLite takes that for an error of the disk. */
        if (r < 0 && !waits && table.errno_location && *table.errno_location() == EINTR) {
                const raw_signals blocked = set_blocked(UINT64_MAX);
                r = table.fcntl(fd, command, argument);
                set_blocked(blocked);
        }
        return r;
}

void sqlite_locks_forget(void)
{
        table.locks.process = 0;
        table.is_taken = 0;
}

PyObject *sqlite_locks_hook(PyObject *self, PyObject *path)
{
        void (*own)(void) = (void (*)(void))sqlite_fcntl;
        char *name = NULL;

        PyObject *bytes = py.PyUnicode_AsUTF8String(path);
        if (!bytes || py.PyBytes_AsStringAndSize(bytes, &name, NULL) < 0)
                return NULL;
        void *library = dlopen && dlsym ? dlopen(name, RTLD_NOW | RTLD_NOLOAD) : NULL;
        py.Py_DecRef(bytes);
        struct vfs *(*find)(const char *) = NULL;
        if (library)
                *(void **)&find = dlsym(library, "sqlite3_vfs_find");
        if (library)
                *(void **)&table.errno_location = dlsym(library, "__errno_location");
        struct vfs *vfs = find ? find("unix") : NULL;
        if (vfs && vfs->version >= 3 && vfs->get_call(vfs, "fcntl") != own) {
                table.fcntl = (int (*)(int, int, ...))vfs->get_call(vfs, "fcntl");
                if (table.fcntl)
                        vfs->set_call(vfs, "fcntl", own);
        }
        return py.Py_BuildValue("");
}
