/* The monitor's sessions: what lives, and what the broker may do with it. profile.c makes them. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/monitor-internal.h"
#include "supervisor/monitor/profile-template.h"

static struct sandbox **slot_of(struct monitor *m, uint32_t handle)
{
        for (uint32_t i = 0; i < m->sessions_max; i++) {
                if (m->sandboxes[i] && sandbox_handle(m->sandboxes[i]) == handle)
                        return &m->sandboxes[i];
        }
        return NULL;
}

void monitor_release(struct monitor *m, struct sandbox *sandbox)
{
        *slot_of(m, sandbox_handle(sandbox)) = NULL;
        sandbox_free(sandbox);
}

static void on_sandbox_ended(void *data, struct sandbox *sandbox, const struct monitor_ended *how)
{
        struct monitor *m = data;
        struct monitor_event event = {
                .kind = MONITOR_SESSION_ENDED, .target = sandbox_handle(sandbox), .ended = *how};

        monitor_release(m, sandbox);
        monitor_send(m, &event, NULL, 0);
}

int monitor_make(struct profile *p, uint32_t serial, struct error *err)
{
        struct monitor *m = p->monitor;
        uint32_t i = 0;

        while (i < m->sessions_max && m->sandboxes[i])
                i++;
        if (i == m->sessions_max)
                return error_set(err, EAGAIN, "%u sessions live already", m->sessions_max);
        uint32_t id = p->ids.count == 1 ? 0 : i + 1;
        int r = sandbox_new(&m->sandbox_host, ++m->last_handle, id, serial, &p->limits,
                            &m->sandboxes[i], err);
        if (r < 0)
                return r;
        r = template_make(p->template, m->sandboxes[i], &p->limits,
                          cgroups_version(m->cgroups) == CGROUP_NONE, err);
        if (r < 0)
                m->sandboxes[i] = sandbox_free(m->sandboxes[i]);
        return r;
}

void monitor_session_create(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};

        if (monitor_refuse_stale(m, request))
                return;
        event_del(m->early);
        if (request->target >= m->n_profiles)
                error_set(&error, ENOENT, "there is no profile %u", request->target);
        if (error_is_set(&error))
                monitor_send_failed(m, request->serial, &error);
        else
                profile_request(m->profiles[request->target], request->serial);
}

static void answer(struct monitor *m, const struct monitor_request *request, int r,
                   const char *what)
{
        struct error error = {};

        if (r >= 0) {
                monitor_send_done(m, request->serial);
                return;
        }
        error_errno(&error, -r, "%s session %u", what, request->target);
        monitor_send_failed(m, request->serial, &error);
}

void monitor_session_interrupt(struct monitor *m, const struct monitor_request *request)
{
        struct sandbox **slot = slot_of(m, request->target);

        answer(m, request, slot ? sandbox_interrupt(*slot) : -ESRCH, "interrupt");
}

void monitor_session_freeze(struct monitor *m, const struct monitor_request *request)
{
        struct sandbox **slot = slot_of(m, request->target);

        answer(m, request, slot ? sandbox_freeze(*slot) : -ESRCH, "freeze");
}

void monitor_session_thaw(struct monitor *m, const struct monitor_request *request)
{
        struct sandbox **slot = slot_of(m, request->target);

        answer(m, request, slot ? sandbox_thaw(*slot) : -ESRCH, "thaw");
}

void monitor_session_kill(struct monitor *m, const struct monitor_request *request)
{
        struct sandbox **slot = slot_of(m, request->target);

        /* One that has just ended by itself is told of by its own event. */
        if (slot)
                sandbox_kill(*slot);
        monitor_send_done(m, request->serial);
}

void monitor_sessions_prepare(struct monitor *m)
{
        profile_prepare(m->early_profile);
}

void monitor_sessions_go_on(struct monitor *m)
{
        m->prepare_later = false;
        for (size_t i = 0; i < m->n_profiles; i++) {
                if (m->profiles[i]->n_waiting > 0 || m->profiles[i]->is_early)
                        profile_go_on(m->profiles[i]);
        }
        for (struct profile *p = m->retired; p; p = p->next)
                profile_go_on(p);
}

static void on_early(evutil_socket_t fd, short what, void *data)
{
        (void)fd;
        (void)what;
        monitor_sessions_prepare(data);
}

int monitor_sessions_init(struct monitor *m, struct error *err)
{
        m->sandbox_host = (struct sandbox_host){.base = m->base,
                                                .children = m->children,
                                                .cgroups = m->cgroups,
                                                .ended = on_sandbox_ended,
                                                .data = m};
        m->sandboxes = calloc(m->sessions_max, sizeof(struct sandbox *));
        m->early = evtimer_new(m->base, on_early, m);
        if (!m->sandboxes || !m->early)
                return error_errno(err, ENOMEM, "sessions");
        return profiles_load(m, m->config, err);
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
        if (m->early)
                event_free(m->early);
        if (m->sandboxes)
                kill_all(m);
        profiles_done(m);
        profile_shared_done(m);
        for (uint32_t i = 0; m->sandboxes && i < m->sessions_max; i++)
                sandbox_free(m->sandboxes[i]);
        free(m->sandboxes);
}
