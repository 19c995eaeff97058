/* Sessions in cloister-inject. */
#include "supervisor/inject/sessions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/share.h"
#include "supervisor/inject/connection.h"

void inject_session_close(struct inject_session *s)
{
        struct inject_session **at = &s->inject->sessions;

        while (*at && *at != s)
                at = &(*at)->next;
        if (*at) {
                *at = s->next;
                s->inject->n_sessions--;
        }
        inject_connections_end(s);
        for (size_t i = 0; i < INJECT_SECRETS_MAX; i++)
                placeholders_remove(&s->inject->placeholders, &s->items[i]);
        loop_event_free(&s->readable);
        close(s->socket);
        free(s);
}

static bool may_open(const struct inject_session *s)
{
        return s->n_connections < INJECT_CONNECTIONS_EACH &&
               share_allows(inject_use_of_principal(s).n_connections, s->inject->n_connections,
                            INJECT_CONNECTIONS_MAX, 1);
}

static void on_handed(evutil_socket_t fd, short what, void *data)
{
        struct inject_session *s = data;
        struct inject_handed handed;
        int fds[INJECT_HANDED_FDS];
        size_t count = INJECT_HANDED_FDS;

        ssize_t n = fd_receive(fd, &handed, sizeof(handed), fds, &count, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EINTR)
                return;
        if (n != sizeof(handed) || count != INJECT_HANDED_FDS) {
                if (n > 0)
                        fd_close_many(fds, count);
                inject_session_close(s);
                return;
        }
        handed.host[sizeof(handed.host) - 1] = '\0';
        int host = inject_settings_host(s->inject->settings, handed.host, handed.port);
        if (host >= 0 && may_open(s))
                inject_connection_open(s, (size_t)host, fds);
        else
                fd_close_many(fds, count);
}

static int take_placeholders(struct inject_session *s, const struct inject_request *request)
{
        const struct inject_settings *settings = s->inject->settings;

        for (size_t i = 0; i < settings->n_secrets; i++) {
                for (size_t k = 0; k < INJECT_SECRETS_MAX; k++)
                        if (strncmp(request->placeholders[k].name, settings->secrets[i].name,
                                    INJECT_NAME_SIZE) == 0)
                                snprintf(s->placeholders[i], sizeof(s->placeholders[i]), "%s",
                                         request->placeholders[k].text);
                int r = placeholders_add(&s->inject->placeholders, &s->items[i], s, i,
                                         s->placeholders[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

int inject_session_open(struct inject *inject, const struct inject_request *request, int socket,
                        struct error *err)
{
        struct inject_session *s = inject->n_sessions < INJECT_SESSIONS_MAX ? calloc(1, sizeof(*s))
                                                                            : NULL;

        if (!s) {
                close(socket);
                return error_set(err, EAGAIN, "no memory for a session, or there are %d",
                                 INJECT_SESSIONS_MAX);
        }
        *s = (struct inject_session){.inject = inject,
                                     .next = inject->sessions,
                                     .id = request->session,
                                     .principal = request->principal,
                                     .socket = socket};
        snprintf(s->profile, sizeof(s->profile), "%.*s", (int)sizeof(request->profile) - 1,
                 request->profile);
        inject->sessions = s;
        inject->n_sessions++;
        int r = take_placeholders(s, request);
        s->readable = event_new(inject->base, socket, EV_READ | EV_PERSIST, on_handed, s);
        if (r < 0 || !s->readable || event_add(s->readable, NULL) < 0) {
                inject_session_close(s);
                return error_errno(err, r < 0 ? -r : ENOMEM, "a session");
        }
        return 0;
}

void inject_answer(struct inject *inject, const struct inject_request *answer)
{
        char why[sizeof(answer->why)];

        snprintf(why, sizeof(why), "%.*s", (int)sizeof(answer->why) - 1, answer->why);
        for (struct inject_session *s = inject->sessions; s; s = s->next) {
                struct inject_connection *c = inject_connection_find(s, answer->serial);
                if (c) {
                        inject_connection_decided(c, answer->allowed == 1, answer->recorded == 1,
                                                  why);
                        return;
                }
        }
}
