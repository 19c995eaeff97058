/* Messages to the service manager, and reloads on request. */
#include "supervisor/monitor/monitor-service.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "supervisor/monitor/monitor-config.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"

enum {
        PINGS = 4,           /* in the time of the watchdog */
        WATCHDOG_MIN_MS = 1, /* between two pings */
};

void monitor_service_init(struct monitor *m)
{
        notify_init(&m->service.notify);
}

static void ping(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;

        /* One that was not answered is not repeated: the watchdog decides. */
        if (m->service.is_pinged)
                return;
        m->service.is_pinged = true;
        monitor_send(m, &(struct monitor_event){.kind = MONITOR_SERVICE_PING}, NULL, 0);
}

int monitor_service_watch(struct monitor *m, struct error *err)
{
        uint64_t ms = m->service.notify.watchdog_us / 1000 / PINGS;
        const struct timeval every = clock_timeval_ms(ms > WATCHDOG_MIN_MS ? ms : WATCHDOG_MIN_MS);

        if (m->service.notify.watchdog_us == 0)
                return 0;
        m->service.ping = event_new(m->base, -1, EV_PERSIST, ping, m);
        return m->service.ping && event_add(m->service.ping, &every) == 0
                       ? 0
                       : error_errno(err, ENOMEM, "watchdog");
}

void monitor_service_done(struct monitor *m)
{
        loop_event_free(&m->service.ping);
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

void monitor_service_alive(struct monitor *m, const struct monitor_request *request)
{
        if (m->service.is_pinged)
                notify_send(&m->service.notify, "WATCHDOG=1");
        m->service.is_pinged = false;
        monitor_send_done(m, request->serial);
}

void monitor_service_reload(struct monitor *m, const struct monitor_request *request)
{
        struct error err = {};

        tell_reloading(m);
        if (log_file_reopen(&err) < 0)
                log_warning("%s; the log stays in the file that is open", err.text);
        err = (struct error){};
        if (monitor_reload_config(m, &err) < 0)
                monitor_send_failed(m, request->serial, &err);
        else
                monitor_send_done(m, request->serial);
}

void monitor_service_reloaded(struct monitor *m, const struct monitor_request *request)
{
        if (m->service.is_reloading)
                notify_send(&m->service.notify, "READY=1");
        m->service.is_reloading = false;
        monitor_send_done(m, request->serial);
}
