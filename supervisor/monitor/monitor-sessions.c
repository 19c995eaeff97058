/*
 * The monitor's sessions.
 *
 * Theory of operation. A request waits in line until there is a template; a template needs an
 * image. Both are made when the first request comes, or a little after the start when nobody asks:
 * the client's handshake goes first. What fails is told to everybody in line, and the next request
 * tries again. A template that has died is made anew for whom it had not begun with.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/filter.h"
#include "supervisor/monitor/monitor-private.h"
#include "supervisor/monitor/network-check.h"

/* A template that dies so often without a session in between is not made again for the same
 * requests. */
enum { TEMPLATE_DEATHS_MAX = 3 };

static void make_waiting(struct monitor *m);

/* Told to whom it concerns; to the log when that is nobody yet. */
static void fail_waiting(struct monitor *m, const struct error *error)
{
        size_t n = m->n_waiting;

        if (n == 0)
                log_error("%s", error->text);
        m->n_waiting = 0;
        for (size_t i = 0; i < n; i++)
                monitor_send_failed(m, m->waiting[i], error);
}

static struct sandbox **slot_of(struct monitor *m, uint32_t handle)
{
        for (uint32_t i = 0; i < m->sessions_max; i++) {
                if (m->sandboxes[i] && sandbox_handle(m->sandboxes[i]) == handle)
                        return &m->sandboxes[i];
        }
        return NULL;
}

static void release(struct monitor *m, struct sandbox *sandbox)
{
        struct sandbox **slot = slot_of(m, sandbox_handle(sandbox));

        if (m->template)
                template_forget(m->template, sandbox);
        *slot = NULL;
        sandbox_free(sandbox);
}

static void on_sandbox_ended(void *data, struct sandbox *sandbox, const struct monitor_ended *how)
{
        struct monitor *m = data;
        struct monitor_event event = {
                .kind = MONITOR_SESSION_ENDED, .target = sandbox_handle(sandbox), .ended = *how};

        release(m, sandbox);
        monitor_send(m, &event, NULL, 0);
}

static int open_made(struct monitor *m, struct sandbox *sandbox, int fds[SESSION_FDS],
                     struct error *err)
{
        if (!m->network_checked) {
                int r = network_check(sandbox_pid(sandbox), err);
                if (r < 0)
                        return error_context(err, "the sandbox's network");
                m->network_checked = true;
        }
        return sandbox_open_outer(sandbox, fds, err);
}

static void on_made(void *data, struct sandbox *sandbox, const struct error *error)
{
        struct monitor *m = data;
        struct error failed = {};
        int fds[SESSION_FDS];

        if (error && error->code == ESTALE && m->template_deaths < TEMPLATE_DEATHS_MAX) {
                m->waiting[m->n_waiting++] = sandbox_serial(sandbox);
                release(m, sandbox);
                return;
        }
        if (error)
                failed = *error;
        else if (open_made(m, sandbox, fds, &failed) >= 0)
                failed.code = 0;
        if (error_is_set(&failed)) {
                uint32_t serial = sandbox_serial(sandbox);
                error_context(&failed, "start a sandbox");
                release(m, sandbox);
                monitor_send_failed(m, serial, &failed);
                return;
        }
        struct monitor_event event = {.kind = MONITOR_SESSION_STARTED,
                                      .serial = sandbox_serial(sandbox),
                                      .target = sandbox_handle(sandbox)};
        m->template_deaths = 0;
        monitor_send(m, &event, fds, SESSION_FDS);
        fd_close_many(fds, SESSION_FDS);
}

/* Its sessions go on; who waits for one gets another template. */
static void on_template_ended(void *data, const struct error *error)
{
        struct monitor *m = data;
        struct error why = *error; /* the template's own, which goes with it */

        m->template = template_free(m->template);
        /* A session that it was just making has no name yet. */
        children_sweep(m->children);
        if (m->n_waiting == 0 || ++m->template_deaths > TEMPLATE_DEATHS_MAX) {
                fail_waiting(m, &why);
                return;
        }
        monitor_sessions_prepare(m);
        make_waiting(m);
}

static int compile_filters(struct template_parts *parts, struct error *err)
{
        struct {
                enum filter_kind kind;
                int *fd;
        } list[] = {
                {FILTER_TEMPLATE, &parts->template_filter_fd},
                {FILTER_WORKER, &parts->worker_filter_fd},
                {FILTER_INIT, &parts->init_filter_fd},
                {FILTER_STUB, &parts->stub_filter_fd},
        };

        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                *list[i].fd = filter_compile(list[i].kind, err);
                if (*list[i].fd < 0)
                        return *list[i].fd;
        }
        return 0;
}

/* What enters a sandbox is a sealed copy, never reachable as a file. */
static int seal_program(const char *name, int file, struct error *err)
{
        if (lseek(file, 0, SEEK_SET) < 0)
                return error_errno(err, errno, "%s", name);
        return fd_sealed_copy(name, file, err);
}

static int gather_parts(const struct monitor *m, struct template_parts *parts, struct error *err)
{
        if (parts->image->link == TEMPLATE_LINK_MODULE)
                parts->worker_fd = seal_program("cloister-module.so", m->module_file, err);
        else
                parts->worker_fd = seal_program("cloister-worker", m->worker_file, err);
        if (parts->worker_fd < 0)
                return parts->worker_fd;
        parts->init_fd = seal_program("cloister-init", m->init_file, err);
        return parts->init_fd < 0 ? parts->init_fd : compile_filters(parts, err);
}

static int start_template(struct monitor *m, const struct image_info *info, int image_fd,
                          struct error *err)
{
        struct template_parts parts = {.image = info,
                                       .image_fd = image_fd,
                                       .worker_fd = -1,
                                       .init_fd = -1,
                                       .template_filter_fd = -1,
                                       .worker_filter_fd = -1,
                                       .init_filter_fd = -1,
                                       .stub_filter_fd = -1};

        int r = gather_parts(m, &parts, err);
        if (r >= 0)
                r = template_start(&m->template_host, &parts, &m->template, err);
        int fds[] = {parts.worker_fd,        parts.init_fd,        parts.template_filter_fd,
                     parts.worker_filter_fd, parts.init_filter_fd, parts.stub_filter_fd};
        fd_close_many(fds, ARRAY_SIZE(fds));
        m->network_checked = false;
        return r;
}

static void on_image_built(void *data, const struct error *error)
{
        struct monitor *m = data;

        m->image_job = image_job_free(m->image_job);
        if (error) {
                fail_waiting(m, error);
                return;
        }
        monitor_sessions_prepare(m);
        make_waiting(m);
}

static int prepare(struct monitor *m, struct error *err)
{
        struct image_info info;
        _cleanup_close_ int image_fd = -1;

        int r = image_open(&m->image, &info, &image_fd, err);
        if (r >= 0)
                return start_template(m, &info, image_fd, err);
        if (r != -ENOENT || !m->image.is_default)
                return r;
        *err = (struct error){};
        log_info("building the image %s from %s, once", m->image.name, m->image.python);
        return image_job_start(m->base, m->children, m->program, &m->image, &m->user,
                               m->options->quiet, on_image_built, m, &m->image_job, err);
}

void monitor_sessions_prepare(struct monitor *m)
{
        struct error error = {};

        event_del(m->early);
        m->prepare_later = m->scope_pid > 0;
        if (m->prepare_later || m->template || m->image_job)
                return;
        if (prepare(m, &error) < 0) {
                fail_waiting(m, &error);
        }
}

static int make_one(struct monitor *m, uint32_t serial, struct error *err)
{
        uint32_t i = 0;

        while (i < m->sessions_max && m->sandboxes[i])
                i++;
        if (i == m->sessions_max)
                return error_set(err, EAGAIN, "%u sessions live already", m->sessions_max);
        uint32_t id = m->ids.count == 1 ? 0 : i + 1;
        int r = sandbox_new(&m->sandbox_host, ++m->last_handle, id, serial, &m->limits,
                            &m->sandboxes[i], err);
        if (r < 0)
                return r;
        r = template_make(m->template, m->sandboxes[i], &m->limits,
                          cgroups_version(m->cgroups) == CGROUP_NONE, err);
        if (r < 0)
                m->sandboxes[i] = sandbox_free(m->sandboxes[i]);
        return r;
}

static void make_waiting(struct monitor *m)
{
        while (m->template && m->n_waiting > 0) {
                struct error error = {};
                uint32_t serial = m->waiting[0];

                memmove(m->waiting, m->waiting + 1, --m->n_waiting * sizeof(m->waiting[0]));
                if (make_one(m, serial, &error) < 0)
                        monitor_send_failed(m, serial, &error);
        }
}

void monitor_sessions_go_on(struct monitor *m)
{
        monitor_sessions_prepare(m);
        make_waiting(m);
}

void monitor_session_create(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};

        if (monitor_refuse_stale(m, request))
                return;
        if (m->n_waiting == m->sessions_max) {
                error_set(&error, EAGAIN, "%u sessions are waiting already", m->sessions_max);
                monitor_send_failed(m, request->serial, &error);
                return;
        }
        m->waiting[m->n_waiting++] = request->serial;
        monitor_sessions_prepare(m);
        make_waiting(m);
}

void monitor_session_interrupt(struct monitor *m, const struct monitor_request *request)
{
        struct sandbox **slot = slot_of(m, request->target);
        struct error error = {};

        int r = slot ? sandbox_interrupt(*slot) : -ESRCH;
        if (r >= 0) {
                monitor_send_done(m, request->serial);
                return;
        }
        error_errno(&error, -r, "interrupt session %u", request->target);
        monitor_send_failed(m, request->serial, &error);
}

void monitor_session_kill(struct monitor *m, const struct monitor_request *request)
{
        struct sandbox **slot = slot_of(m, request->target);

        /* One that has just ended by itself is told of by its own event. */
        if (slot)
                sandbox_kill(*slot);
        monitor_send_done(m, request->serial);
}

static void on_early(evutil_socket_t fd, short what, void *data)
{
        (void)fd;
        (void)what;
        monitor_sessions_prepare(data);
}

int monitor_sessions_init(struct monitor *m, struct error *err)
{
        m->template_host = (struct template_host){.base = m->base,
                                                  .children = m->children,
                                                  .ids = &m->ids,
                                                  .data = m,
                                                  .made = on_made,
                                                  .ended = on_template_ended};
        m->sandbox_host = (struct sandbox_host){.base = m->base,
                                                .children = m->children,
                                                .cgroups = m->cgroups,
                                                .ended = on_sandbox_ended,
                                                .data = m};
        m->waiting = calloc(m->sessions_max, sizeof(m->waiting[0]));
        m->sandboxes = calloc(m->sessions_max, sizeof(struct sandbox *));
        m->early = evtimer_new(m->base, on_early, m);
        if (!m->waiting || !m->sandboxes || !m->early)
                return error_errno(err, ENOMEM, "sessions");
        return 0;
}

/* Together: each waits for the kernel to take it apart, and all do that at the same time. */
static void kill_all(struct monitor *m)
{
        for (uint32_t i = 0; i < m->sessions_max; i++) {
                if (m->sandboxes[i])
                        sandbox_kill(m->sandboxes[i]);
        }
}

void monitor_sessions_done(struct monitor *m)
{
        image_job_free(m->image_job);
        if (m->early)
                event_free(m->early);
        if (m->sandboxes)
                kill_all(m);
        m->template = template_free(m->template);
        for (uint32_t i = 0; m->sandboxes && i < m->sessions_max; i++)
                sandbox_free(m->sandboxes[i]);
        free(m->sandboxes);
        free(m->waiting);
}
