/* The requests that the broker may send: a table. */
#include "supervisor/monitor/monitor-requests.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/monitor-branches.h"
#include "supervisor/monitor/monitor-journal.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-pictures.h"
#include "supervisor/monitor/monitor-service.h"
#include "supervisor/monitor/monitor-sessions.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-sums.h"
#include "supervisor/monitor/monitor-upstreams.h"

/* NULL: monitor_session_request(). */
static void (*const handlers[MONITOR_VERB_MAX])(struct monitor *,
                                                const struct monitor_request *) = {
        [MONITOR_SESSION_CREATE] = monitor_session_create,
        [MONITOR_UPSTREAM_START] = monitor_upstream_start,
        [MONITOR_UPSTREAM_STOP] = monitor_upstream_stop,
        [MONITOR_INSTALLER_START] = monitor_installer_start,
        [MONITOR_PRINCIPAL_REST] = monitor_sums_rest,
        [MONITOR_BRANCH_START] = monitor_branch_start,
        [MONITOR_BRANCH_DROP] = monitor_branch_drop,
        [MONITOR_PICTURES_START] = monitor_pictures_start,
        [MONITOR_JOURNAL_START] = monitor_journal_start,
        [MONITOR_PING] = monitor_service_ping,
        [MONITOR_SERVICE_READY] = monitor_service_ready,
        [MONITOR_SERVICE_DRAINING] = monitor_service_draining,
        [MONITOR_SERVICE_RELOAD] = monitor_service_reload,
        [MONITOR_SERVICE_RELOADED] = monitor_service_reloaded,
};

static void refuse(struct monitor *m, const struct monitor_request *request, int code,
                   const char *why)
{
        struct error error = {};

        error_set(&error, code, "%s", why);
        monitor_send_failed(m, request->serial, &error);
}

static void handle(struct monitor *m, const struct monitor_request *request)
{
        enum monitor_target target = monitor_request_target(request);
        bool is_of_config = target == MONITOR_TARGET_PROFILE || target == MONITOR_TARGET_SERVER;

        log_debug("request %u: %s %u", request->serial, monitor_verb_name(request->verb),
                  request->target);
        if (is_of_config && request->generation != m->generation)
                refuse(m, request, ESTALE, "the config was reloaded");
        else if (handlers[request->verb])
                handlers[request->verb](m, request);
        else
                monitor_session_request(m, request);
}

void monitor_on_request(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;
        struct monitor_request request;

        ssize_t n = fd_receive(fd, &request, sizeof(request), NULL, NULL, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN)
                return;
        if (n == 0 || n == -ECONNRESET) {
                monitor_end_link(m);
                return;
        }
        int r = n == sizeof(request) ? monitor_request_check(&request) : -EPROTO;
        if (r == -EPROTO)
                monitor_end_broker(m, "sent an invalid request");
        else if (r < 0)
                refuse(m, &request, -r, "a number is out of range");
        else
                handle(m, &request);
}
