#include "supervisor/monitor/monitor-link.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>

#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/process/child.h"

/* A protocol violation means that the broker is compromised: kill it, and so everything it has. */
void monitor_end_broker(struct monitor *m, const char *why)
{
        log_error("the broker %s; killing it", why);
        child_signal(m->broker, SIGKILL);
        /* The config is sent before requests are read. */
        if (m->request)
                event_del(m->request);
}

void monitor_send(struct monitor *m, const struct monitor_event *event, const int *fds, size_t n)
{
        assert(monitor_event_fds(event) == n);
        int r = fd_send(m->link, event, sizeof(*event), fds, n, 0);
        if (r < 0 && r != -EPIPE && r != -ECONNRESET)
                monitor_end_broker(m, "does not receive events");
}

void monitor_send_done(struct monitor *m, uint32_t serial)
{
        struct monitor_event event = {.kind = MONITOR_DONE, .serial = serial};

        monitor_send(m, &event, NULL, 0);
}

void monitor_send_failed(struct monitor *m, uint32_t serial, const struct error *error)
{
        struct monitor_event event = {.kind = MONITOR_FAILED, .serial = serial, .error = *error};

        monitor_send(m, &event, NULL, 0);
}

/* The event of its pidfd follows, unless it has only closed the link or sent an empty message. */
void monitor_end_link(struct monitor *m)
{
        struct timeval after = {.tv_sec = MONITOR_KILL_SECONDS};

        event_del(m->request);
        event_add(m->kill_timer, &after);
}
