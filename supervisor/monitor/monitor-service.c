/* Messages to the service manager, and reloads on request. */
#include "supervisor/monitor/monitor-service.h"

#include <limits.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/monitor/monitor-config.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"

enum {
        WATCHDOGS_MAX = 16 /* messages in the time of the watchdog, however often the broker asks */
};

void monitor_service_init(struct monitor *m)
{
        notify_init(&m->service.notify);
}

int monitor_service_watchdog(const struct monitor *m)
{
        uint64_t us = m->service.notify.watchdog_us;

        return us == 0 ? -1 : us / 1000 < INT_MAX ? (int)(us / 1000) : INT_MAX;
}

void monitor_service_done(struct monitor *m)
{
        notify_done(&m->service.notify);
}

static void tell_reloading(struct monitor *m)
{
        if (!m->service.is_ready || m->service.is_reloading)
                return;
        m->service.is_reloading = true;
        notify_send(&m->service.notify, "RELOADING=1\nMONOTONIC_USEC=%llu",
                    (unsigned long long)clock_us());
}

void monitor_service_hangup(struct monitor *m)
{
        tell_reloading(m);
        monitor_send(m, &(struct monitor_event){.kind = MONITOR_SERVICE_HANGUP}, NULL, 0);
}

/* A number of seconds becomes a time in which systemd waits for the next message. */
void monitor_service_stopping(const struct monitor *m, uint64_t seconds)
{
        notify_send(&m->service.notify,
                    "STOPPING=1\nSTATUS=Stopping: calls that run are answered, for at most %llu s"
                    "\nEXTEND_TIMEOUT_USEC=%llu",
                    (unsigned long long)seconds, (unsigned long long)seconds * 1000000);
}

void monitor_service_ready(struct monitor *m, const struct monitor_request *request)
{
        m->service.is_ready = true;
        notify_send(&m->service.notify, "READY=1\nSTATUS=Serving");
        monitor_send_done(m, request->serial);
}

void monitor_service_draining(struct monitor *m, const struct monitor_request *request)
{
        if (request->number == 0)
                notify_send(&m->service.notify,
                            "STATUS=Draining: until the last session has ended");
        else
                notify_send(&m->service.notify,
                            "STATUS=Draining: until the last session has ended, for at most %u s",
                            request->number);
        monitor_send_done(m, request->serial);
}

void monitor_service_ping(struct monitor *m, const struct monitor_request *request)
{
        uint64_t now = clock_us(), us = m->service.notify.watchdog_us;

        if (us > 0 && now - m->service.watchdog_us >= us / WATCHDOGS_MAX) {
                notify_send(&m->service.notify, "WATCHDOG=1");
                m->service.watchdog_us = now;
        }
        monitor_send_done(m, request->serial);
}

void monitor_service_reload(struct monitor *m, const struct monitor_request *request)
{
        struct error err = {};

        tell_reloading(m);
        if (log_file_reopen(&err) < 0)
                log_warning("%s; the log stays in the file that is open", err.text);
        monitor_reload_config(m, request->serial);
}

void monitor_service_reloaded(struct monitor *m, const struct monitor_request *request)
{
        if (m->service.is_reloading)
                notify_send(&m->service.notify, "READY=1");
        m->service.is_reloading = false;
        monitor_send_done(m, request->serial);
}
