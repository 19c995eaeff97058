/* The requests of the broker. */
#include "supervisor/inject/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "supervisor/inject/sessions.h"

struct inject_server {
        struct inject inject;
        struct event *requests;
        struct inject_event ready;
};

static void on_request(evutil_socket_t fd, short what, void *data)
{
        struct inject_server *server = data;
        struct inject_request request;
        struct error err = {};
        int session = -1;
        size_t count = 1;

        ssize_t n = fd_receive(fd, &request, sizeof(request), &session, &count, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EINTR || n == -EPROTO)
                return;
        if (n <= 0) {
                event_base_loopbreak(server->inject.base);
                return;
        }
        bool is_open = n == sizeof(request) && request.verb == INJECT_OPEN && count == 1;
        if (is_open && inject_session_open(&server->inject, &request, session, &err) < 0)
                log_error("secrets of a session: %s", err.text);
        else if (!is_open && count == 1)
                close(session);
        else if (n == sizeof(request) && request.verb == INJECT_ANSWER)
                inject_answer(&server->inject, &request);
}

int inject_server_new(struct inject_server **ret, int broker,
                      const struct inject_settings *settings, int certificates, struct error *err)
{
        struct inject_server *s = calloc(1, sizeof(*s));

        if (!s)
                return error_errno(err, ENOMEM, "start");
        s->inject = (struct inject){.base = loop_new(),
                                    .broker = broker,
                                    .settings = settings,
                                    .placeholders.settings = settings};
        s->requests = s->inject.base ? event_new(s->inject.base, broker, EV_READ | EV_PERSIST,
                                                 on_request, s)
                                     : NULL;
        if (!s->requests || event_add(s->requests, NULL) < 0)
                return error_errno(err, ENOMEM, "start");
        int r = value_mask_new(&s->inject.mask, settings, err);
        if (r >= 0)
                r = authority_new(&s->inject.authority, settings, certificates, err);
        if (r < 0)
                return r;
        s->ready.kind = INJECT_READY;
        r = authority_print(s->inject.authority, s->ready.certificate,
                            sizeof(s->ready.certificate));
        *ret = s;
        return r < 0 ? error_errno(err, -r, "the certificate") : 0;
}

int inject_server_run(struct inject_server *s, struct error *err)
{
        int r = fd_send(s->inject.broker, &s->ready, sizeof(s->ready), NULL, 0, 0);

        if (r < 0)
                return error_errno(err, -r, "tell the broker");
        r = loop_run(s->inject.base);
        while (s->inject.sessions)
                inject_session_close(s->inject.sessions);
        return r < 0 ? error_errno(err, -r, "loop") : 0;
}
