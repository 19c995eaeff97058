/* The requests that the broker may send: a table. */
#include "supervisor/monitor/monitor-requests.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/monitor-installers.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-sessions.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-upstreams.h"
#include "supervisor/monitor/process/child.h"

static const struct {
        const char *name;
        void (*handle)(struct monitor *m, const struct monitor_request *request);
} verbs[] = {
        [MONITOR_SESSION_CREATE] = {"SESSION_CREATE", monitor_session_create},
        [MONITOR_SESSION_INTERRUPT] = {"SESSION_INTERRUPT", monitor_session_interrupt},
        [MONITOR_SESSION_KILL] = {"SESSION_KILL", monitor_session_kill},
        [MONITOR_UPSTREAM_START] = {"UPSTREAM_START", monitor_upstream_start},
        [MONITOR_UPSTREAM_STOP] = {"UPSTREAM_STOP", monitor_upstream_stop},
        [MONITOR_SESSION_FREEZE] = {"SESSION_FREEZE", monitor_session_freeze},
        [MONITOR_SESSION_THAW] = {"SESSION_THAW", monitor_session_thaw},
        [MONITOR_SESSION_KEEP] = {"SESSION_KEEP", monitor_session_keep},
        [MONITOR_SESSION_RESTORE] = {"SESSION_RESTORE", monitor_session_restore},
        [MONITOR_SESSION_WAKE] = {"SESSION_WAKE", monitor_session_wake},
        [MONITOR_INSTALLER_START] = {"INSTALLER_START", monitor_installer_start},
        [MONITOR_SESSION_COUNT] = {"SESSION_COUNT", monitor_session_count},
        [MONITOR_SESSION_KEEP_ASIDE] = {"SESSION_KEEP_ASIDE", monitor_session_keep},
        [MONITOR_SESSION_DROP] = {"SESSION_DROP", monitor_session_drop},
};
static_assert(ARRAY_SIZE(verbs) == MONITOR_VERB_MAX, "one handler per verb");

void monitor_on_request(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;
        struct monitor_request request;

        (void)what;
        ssize_t n = fd_receive(fd, &request, sizeof(request), NULL, NULL, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN)
                return;
        if (n == 0 || n == -ECONNRESET) {
                monitor_end_link(m);
                return;
        }
        if (n != sizeof(request) || request.verb == 0 || request.verb >= MONITOR_VERB_MAX ||
            request.serial == 0) {
                monitor_end_broker(m, "sent an invalid request");
                return;
        }
        log_debug("request %u: %s %u", request.serial, verbs[request.verb].name, request.target);
        verbs[request.verb].handle(m, &request);
}
