/* The files of a transaction. */
#include "sandbox-init/worker/transaction.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/setup/layout.h"
#include "sandbox-init/worker/rollback/rollback.h"

enum { WAIT_S = SNAPSHOT_TIME_MS / 1000 + 1 };

/* Of the copy. */
static struct snapshot snapshot;
static struct rollback_report report;
static bool has_rolled_back;

long transaction_begin(struct transaction *t, int64_t bytes_max)
{
        *t = (struct transaction){.bytes_max = bytes_max, .pipe = {-1, -1}};
        return bytes_max < 0 ? 0 : raw_call(SYS_pipe2, raw_pointer(t->pipe), O_CLOEXEC, 0, 0, 0, 0);
}

void transaction_take(const struct transaction *t)
{
        if (t->bytes_max < 0)
                return;
        raw_call(SYS_close, t->pipe[0], 0, 0, 0, 0, 0);
        int32_t r = snapshot_take(&snapshot, LAYOUT_WORKSPACE, (uint64_t)t->bytes_max);
        raw_call(SYS_write, t->pipe[1], raw_pointer(&r), sizeof(r), 0, 0, 0);
        raw_call(SYS_close, t->pipe[1], 0, 0, 0, 0, 0);
        if (r < 0)
                raw_call(SYS_exit_group, 0, 0, 0, 0, 0, 0);
}

static long read_result(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        struct {
                int64_t seconds, nanoseconds;
        } left = {.seconds = WAIT_S};
        int32_t said = -ENOMEM;
        long n;

        /* The kernel writes into `left` how much of it is left. */
        while ((n = raw_call(SYS_ppoll, raw_pointer(&p), 1, raw_pointer(&left), 0, 0, 0)) == -EINTR)
                ;
        if (n <= 0)
                return n < 0 ? n : -ETIMEDOUT;
        n = raw_call(SYS_read, fd, raw_pointer(&said), sizeof(said), 0, 0, 0);
        return n < 0 ? n : said; /* it has ended without a word: most likely the OOM killer */
}

long transaction_await(const struct transaction *t, long pid)
{
        if (t->bytes_max < 0)
                return pid;
        raw_call(SYS_close, t->pipe[1], 0, 0, 0, 0, 0);
        if (pid > 0) {
                long r = read_result(t->pipe[0]);
                if (r < 0) {
                        raw_call(SYS_kill, pid, SIGKILL, 0, 0, 0, 0);
                        pid = r;
                }
        }
        raw_call(SYS_close, t->pipe[0], 0, 0, 0, 0, 0);
        return pid;
}

void transaction_roll_back(const struct transaction *t)
{
        if (t->bytes_max < 0)
                return;
        rollback_run(&snapshot, &report);
        has_rolled_back = true;
}

void transaction_end(void)
{
        snapshot_free(&snapshot);
}

static PyObject *list_of(const struct rollback_names *names)
{
        PyObject *list = py.Py_BuildValue("[]");

        for (uint32_t i = 0; list && i < names->n; i++) {
                const char *name = names->names[i];
                PyObject *bytes = py.PyBytes_FromStringAndSize(name, (Py_ssize_t)strlen(name));
                int r = bytes ? py.PyList_Append(list, bytes) : -1;
                py.Py_DecRef(bytes);
                if (r < 0) {
                        py.Py_DecRef(list);
                        return NULL;
                }
        }
        return list;
}

PyObject *transaction_report(PyObject *self, PyObject *args)
{
        if (!has_rolled_back)
                return py.Py_BuildValue("");
        has_rolled_back = false;
        return py.Py_BuildValue("(IIIINN)", report.changed, report.returned, report.removed,
                                report.failed.total, list_of(&report.named),
                                list_of(&report.failed));
}
