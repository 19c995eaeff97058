/* The listener of the filter, and the calls that wait. */
#include "sandbox-init/init/calls.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "sandbox-init/init/caller.h"
#include "sandbox-init/init/figures.h"
#include "sandbox-init/init/init-clock.h"
#include "sandbox-init/init/locks.h"
#include "sandbox-init/init/machine-files.h"
#include "sandbox-init/init/shares.h"
#include "sandbox-init/init/syncs.h"

static struct {
        int listener;
        struct seccomp_notif waiting[CALLS_WAITERS_MAX];
        size_t n_waiting;
        int64_t next_retry_ms;
} calls = {.listener = -1};

static bool is_lock(const struct seccomp_notif *request)
{
        return request->data.nr == SYS_flock || request->data.nr == SYS_fcntl;
}

static bool is_sync(const struct seccomp_notif *request)
{
        return !is_lock(request) && !figures_are_asked(request->data.nr) &&
               !machine_is_asked(request->data.nr) && request->data.nr != SYS_setsid;
}

static bool is_valid(uint64_t id)
{
        return ioctl(calls.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* Returns what the call returns, or CALL_…. */
static int make(const struct seccomp_notif *request)
{
        if (is_sync(request))
                return syncs_call();
        if (machine_is_asked(request->data.nr))
                return machine_call(calls.listener, request);
        struct caller c = caller_new(caller_process_of((pid_t)request->pid));
        int r = -ENOLCK;

        if (c.process != 0 && is_lock(request))
                r = locks_call(&c, &request->data, calls.n_waiting > 0);
        else if (c.process != 0 && request->data.nr == SYS_setsid)
                r = shares_call(c.process);
        else if (c.process != 0)
                /* The process may have ended before it was opened, and another one have its number. */
                r = is_valid(request->id) ? figures_call(&c, &request->data, request->id) : -EINTR;
        caller_done(&c);
        return r;
}

static void answer(uint64_t id, int r)
{
        if (r == CALL_BEGUN)
                return;
        struct seccomp_notif_resp response = {
                .id = id,
                .error = r == CALL_GOES_ON ? 0 : r,
                .flags = r == CALL_GOES_ON ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0,
        };

        /* Fails if a signal has interrupted the call, which is then made again. */
        ioctl(calls.listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

int calls_retry(void)
{
        /* A file that was closed is noticed by time only. */
        const int64_t began = calls.n_waiting > 0 ? init_clock_ms() : 0;
        const int locks_ms = locks_end_stale(), shares_ms = shares_tick();
        bool may_lock = locks_have_freed() || began >= calls.next_retry_ms;

        for (size_t i = 0; i < calls.n_waiting; i++) {
                const struct seccomp_notif *w = &calls.waiting[i];
                if (!may_lock && !is_sync(w))
                        continue;
                int r = is_valid(w->id) ? make(w) : -EINTR;
                if (r == CALL_WAITS)
                        continue;
                answer(w->id, r);
                /* In their order: a sync must not wait for those that came later. */
                memmove(&calls.waiting[i], &calls.waiting[i + 1],
                        (--calls.n_waiting - i) * sizeof(calls.waiting[0]));
                i--;
        }
        if (calls.n_waiting > 0 && may_lock)
                calls.next_retry_ms = init_clock_ms() + CALLS_RETRY_MS +
                                      4 * (init_clock_ms() - began);
        const int calls_ms = calls.n_waiting > 0 ? CALLS_RETRY_MS : locks_ms;
        return calls_ms == 0 || (shares_ms > 0 && shares_ms < calls_ms) ? shares_ms : calls_ms;
}

void calls_serve(void)
{
        struct seccomp_notif request = {};

        if (ioctl(calls.listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
                return;
        int r = is_sync(&request) && calls.n_waiting > 0 ? CALL_WAITS : make(&request);
        if (r == CALL_WAITS && calls.n_waiting == CALLS_WAITERS_MAX)
                r = is_lock(&request) ? -ENOLCK : -EIO;
        if (r == CALL_WAITS)
                calls.waiting[calls.n_waiting++] = request;
        else
                answer(request.id, r);
}

void calls_child_ended(pid_t pid, int status)
{
        uint64_t id;

        if (figures_find(pid, &id))
                answer(id, figures_end(pid, status, is_valid(id)));
}

int calls_fd(void)
{
        return calls.listener;
}

int calls_open(int listener, const struct init_hello *hello, bool (*is_copy)(pid_t pid))
{
        calls.listener = listener;
        /* The caller and init run in turn on one processor, which saves half of the time. Before Linux 6.6 the kernel refuses it. */
        if (listener >= 0)
                ioctl(listener, CALLS_IN_TURN, 1UL);
        locks_open(hello);
        figures_open(hello);
        machine_open(hello, is_copy);
        shares_open(hello);
        return syncs_open();
}
