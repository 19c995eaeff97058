/* The files in which the state of a session reaches its branches. */
#include "supervisor/monitor/monitor-branches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-sums.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

enum {
        WRITE_MS = 35000, /* more than the broker gives a branch */
        AT_ONCE = 1 << 20,
        CHILD_MEMORY = 16 << 20, /* of the child itself, at most */
        ROOM = 256 << 20,        /* for /workspace and tables, beside memory */
        BESIDE_MAX = 8, /* files, beside one for each session: of branches that are being made */
};

enum { END_FILE, END_WRITER, END_OVER, ENDS }; /* as BRANCH_STARTED has them */

/* ---- in the child ---- */

struct copying {
        int from, to, over;
        uint64_t most;
};

/* A file that is too large is not sealed. */
static size_t copy(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        const struct copying *c = argument;
        uint64_t left = c->most;
        ssize_t n;

        do {
                n = splice(c->from, NULL, c->to, NULL, left < AT_ONCE ? left : AT_ONCE, 0);
                left -= n > 0 ? (uint64_t)n : 0;
        } while ((n > 0 && left > 0) || (n < 0 && errno == EINTR));
        if (n == 0)
                fcntl(c->to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
        /* Before the pipe is closed: its writer reports that too. */
        close(c->over);
        return 0;
}

/* ---- in the monitor ---- */

static void on_done(void *data, const struct error *error, void *reply, int *fds, size_t n)
{
        struct monitor_branch *file = data;

        file->task = NULL;
        monitor_sums_changed(file->monitor);
}

static void file_free(struct monitor_branch *file)
{
        child_task_cancel(file->task);
        cgroup_free(file->cgroup);
        fd_close_many(&file->fd, 1);
        free(file);
}

/* Its mode denies to open it by another process's /proc/PID/fd. */
static int make_memfd(int *reader, struct error *err)
{
        char path[64];

        _cleanup_close_ int fd = memfd_create("branch",
                                              MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
        /* Kernels before 6.3 do not know MFD_NOEXEC_SEAL. */
        if (fd < 0 && errno == EINVAL)
                fd = memfd_create("branch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return error_errno(err, errno, "memfd_create");
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        *reader = open(path, O_RDONLY | O_CLOEXEC);
        if (*reader < 0 || fchmod(fd, 0) < 0)
                return error_errno(err, errno, "memfd of a branch");
        return take_fd(fd);
}

/* Adds the child to its own group below that of its principal. */
static int start_child(struct monitor_branch *file, struct copying *c, struct error *err)
{
        struct monitor *m = file->monitor;
        const struct limits limits = {.memory = c->most + CHILD_MEMORY, .pids = 4};
        const struct child_task_spec spec = {.name = "cloister-branch",
                                             .keep = {c->from, c->to, c->over},
                                             .n_keep = 3,
                                             .reply_size = 1,
                                             .timeout_ms = WRITE_MS,
                                             .run = copy,
                                             .argument = c};

        int r = child_task_start(m->tasks, &spec, on_done, file, &file->task, err);
        if (r < 0 || cgroups_version(m->cgroups) == CGROUP_NONE)
                return r;
        r = cgroup_new_of(m->cgroups, file->principal, 0, &limits, &file->cgroup, err);
        return r < 0 ? r : cgroup_add(file->cgroup, child_task_pid(file->task), err);
}

/* Twice the memory of a session: what it has of its template is written too. */
static uint64_t most_of(struct monitor *m, const struct monitor_request *request)
{
        uint64_t most = 2 * m->config->profiles[request->target].limits.memory + ROOM,
                 left = monitor_sums_left(m, &request->principal);

        return most < left ? most : left;
}

static int start(struct monitor_branch *file, const struct monitor_request *request, int ends[ENDS],
                 struct error *err)
{
        int pipe[2], over[2];

        _cleanup_close_ int to = make_memfd(&file->fd, err);
        if (to < 0)
                return to;
        if (pipe2(pipe, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        _cleanup_close_ int from = pipe[0];
        ends[END_WRITER] = pipe[1];
        fcntl(from, F_SETPIPE_SZ, AT_ONCE); /* a larger one is faster; the machine may allow less */
        if (pipe2(over, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        _cleanup_close_ int child = over[1];
        ends[END_OVER] = over[0];
        struct copying copying = {from, to, child, most_of(file->monitor, request)};
        return start_child(file, &copying, err);
}

static int check(struct monitor *m, const struct monitor_request *request, struct error *err)
{
        uint32_t n = 0, first;

        for (const struct monitor_branch *file = m->branches; file; file = file->next)
                n++;
        if (n >= m->sessions_max + BESIDE_MAX)
                return error_set(err, EAGAIN, "%u states of sessions are kept for branches", n);
        if (request->target >= m->config->n_profiles)
                return error_set(err, EINVAL, "there is no profile %u", request->target);
        return monitor_sums_admit(m, &request->principal, &first, err);
}

void monitor_branch_start(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};
        int ends[ENDS] = {-1, -1, -1};
        struct monitor_branch *file = NULL;

        int r = check(m, request, &error);
        if (r >= 0) {
                file = calloc(1, sizeof(*file));
                r = file ? 0 : error_errno(&error, ENOMEM, "branch");
        }
        if (r >= 0) {
                *file = (struct monitor_branch){.monitor = m,
                                                .handle = ++m->last_branch,
                                                .principal = request->principal.id,
                                                .fd = -1};
                r = start(file, request, ends, &error);
        }
        if (r >= 0) {
                struct monitor_event event = {.kind = MONITOR_BRANCH_STARTED,
                                              .serial = request->serial,
                                              .target = file->handle};
                ends[END_FILE] = file->fd;
                file->next = m->branches;
                m->branches = file;
                monitor_send(m, &event, ends, ENDS);
                /* Where the kernel counts the pages, the last branch frees them, and not the monitor. */
                if (file->cgroup)
                        close(take_fd(file->fd));
        } else {
                if (file)
                        file_free(file);
                monitor_send_failed(m, request->serial, &error);
        }
        fd_close_many(&ends[END_WRITER], ENDS - END_WRITER);
}

void monitor_branch_drop(struct monitor *m, const struct monitor_request *request)
{
        for (struct monitor_branch **at = &m->branches; *at; at = &(*at)->next) {
                struct monitor_branch *file = *at;
                if (file->handle != request->target)
                        continue;
                *at = file->next;
                file_free(file);
                break;
        }
        monitor_send_done(m, request->serial);
}

void monitor_branches_done(struct monitor *m)
{
        while (m->branches) {
                struct monitor_branch *file = m->branches;
                m->branches = file->next;
                file_free(file);
        }
}
