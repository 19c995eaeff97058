/*
 * The state of a process outside its memory, for its branch.
 *
 * The kernel has some addresses of the thread, which libc has registered: where it keeps its thread id, the list
 * of robust futexes, the area of rseq. Both processes are forks of one template by the same libc, so that
 * these addresses are the same. The bytes there are another matter:
 *
 *   - the thread id, which glibc and musl keep, is that of the fork that wrote the dump (copy.c);
 *   - the area of rseq has the number of a processor, which the kernel writes when it schedules the process
 *     after a sleep.
 */
#include "sandbox-init/worker/branch.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/channel.h"
#include "sandbox-init/worker/copy.h"
#include "sandbox-init/worker/memory/dump.h"
#include "sandbox-init/worker/memory/load.h"

enum {
        SIGNALS = 64,
        NAP_NS = 50000,
        ACTION_WORDS = 4, /* of the kernel's struct sigaction: handler, flags, restorer, mask */
};

static struct {
        uint8_t template_id[16];
        bool has_id;
        struct context context;
        struct dump_header header;
        int64_t number;
        uint64_t actions[SIGNALS + 1][ACTION_WORDS];
        stack_t stack;
} branch;

void branch_prepare(void)
{
        branch.has_id = raw_call(SYS_getrandom, raw_pointer(branch.template_id),
                                 sizeof(branch.template_id), 0, 0, 0,
                                 0) == sizeof(branch.template_id);
}

/* ---- signals ---- */

static void save_signals(void)
{
        for (long i = 1; i <= SIGNALS; i++)
                raw_call(SYS_rt_sigaction, i, 0, raw_pointer(branch.actions[i]),
                         sizeof(raw_signals), 0, 0);
        raw_call(SYS_sigaltstack, 0, raw_pointer(&branch.stack), 0, 0, 0, 0);
}

static void restore_signals(void)
{
        for (long i = 1; i <= SIGNALS; i++)
                raw_call(SYS_rt_sigaction, i, raw_pointer(branch.actions[i]), 0,
                         sizeof(raw_signals), 0, 0);
        raw_call(SYS_sigaltstack, raw_pointer(&branch.stack), 0, 0, 0, 0, 0);
}

/* ---- both ways ---- */

static void resume(void)
{
        load_done();
        thread_id_renew();
        restore_signals();
        raw_sleep(NAP_NS);
        channel_branch();
}

static void write_dump(void *data, struct copy_fork *made)
{
        const int fd = *(int *)data;
        if (cloister_context_save(&branch.context) != 0) {
                resume();
                return;
        }
        thread_id_confirm();
        save_signals();
        branch.header = (struct dump_header){
                .magic = DUMP_MAGIC,
                .thread_pointer = raw_thread_pointer(),
                .channel = (uint64_t)channel_number(),
                .context = (uintptr_t)&branch.context,
                .number = (uintptr_t)&branch.number,
        };
        __builtin_memcpy(branch.header.template_id, branch.template_id, sizeof(branch.template_id));
        long r = dump_write(fd, &branch.header);
        if (r < 0 && branch.header.n_mappings == 0)
                dump_refuse(fd, r);
        for (;;)
                raw_call(SYS_exit_group, r < 0 ? -r : 0, 0, 0, 0, 0, 0);
}

PyObject *branch_make(PyObject *has_threads, int fd, int *is_copy, int64_t *number)
{
        thread_id_find();
        PyObject *r = copy_make(has_threads, write_dump, &fd, is_copy);
        *number = branch.number;
        return r;
}

PyObject *branch_write(PyObject *self, PyObject *args)
{
        unsigned long long mask;
        int fd;
        if (!py.PyArg_ParseTuple(args, "iK", &fd, &mask))
                return NULL;
        write_dump(&fd, NULL);
        const raw_signals signals = mask;
        raw_signal_mask(SIG_SETMASK, &signals, NULL);
        return py.PyLong_FromLong((long)branch.number);
}

PyObject *branch_load(PyObject *self, PyObject *args)
{
        long long number;
        long r = -ESTALE;
        int fd;
        if (!py.PyArg_ParseTuple(args, "iL", &fd, &number))
                return NULL;
        if (branch.has_id)
                r = load_replace(fd, branch.template_id, (uint64_t)channel_number(), number);
        return py.PyLong_FromLong(-r);
}
