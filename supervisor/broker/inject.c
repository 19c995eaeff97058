/* The processes that have secrets, in the broker. */
#include "supervisor/broker/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "policy/config/secret-keys.h"
#include "policy/image.h"

struct inject_seat {
        struct inject_seat *next;
        struct inject_process *process;
        struct inject_user user;
        uint64_t id;
};

struct inject_process {
        struct inject_process *next;
        struct injects *all;
        char profile[IMAGE_NAME_SIZE];
        bool is_current; /* new sessions of the profile get it */
        int socket;      /* -1: it has ended */
        struct event *readable;
        struct inject_seat *seats;
        char certificate[INJECT_CERTIFICATE_SIZE];
};

struct injects {
        struct event_base *base;
        struct inject_process *processes;
        uint64_t last_id;
        void (*lost)(void *data, const char *profile);
        void *data;
};

static void hang_up(struct inject_process *p)
{
        loop_event_free(&p->readable);
        fd_close_many(&p->socket, 1);
}

static void process_free(struct inject_process *p)
{
        struct inject_process **at = &p->all->processes;

        while (*at && *at != p)
                at = &(*at)->next;
        if (*at)
                *at = p->next;
        hang_up(p);
        while (p->seats) {
                struct inject_seat *seat = p->seats;
                p->seats = seat->next;
                free(seat);
        }
        free(p);
}

/* Without it, the process ends. */
static void drop_unused(struct inject_process *p)
{
        if (!p->is_current && !p->seats)
                process_free(p);
}

static void on_end(struct inject_process *p, const char *why)
{
        log_error("the process that reads requests of profile \"%s\" %s", p->profile, why);
        hang_up(p);
        if (p->is_current)
                p->all->lost(p->all->data, p->profile);
        p->is_current = false;
        for (const struct inject_seat *seat = p->seats; seat; seat = seat->next)
                seat->user.lost(seat->user.data);
        drop_unused(p);
}

static struct inject_seat *find_seat(struct inject_process *p, uint64_t id)
{
        struct inject_seat *seat = p->seats;

        while (seat && seat->id != id)
                seat = seat->next;
        return seat;
}

static bool is_text(const char *text, size_t size)
{
        return memchr(text, '\0', size) != NULL;
}

static void send_answer(const struct inject_process *p, const struct injected_answer *given)
{
        struct inject_request answer = {.verb = INJECT_ANSWER,
                                        .serial = given->serial,
                                        .allowed = given->is_allowed,
                                        .recorded = given->is_recorded};

        snprintf(answer.why, sizeof(answer.why), "%s", given->why ? given->why : "");
        /* Without room the request is refused after its time. */
        if (p->socket >= 0)
                (void)fd_send(p->socket, &answer, sizeof(answer), NULL, 0, MSG_DONTWAIT);
}

void inject_seat_answer(const struct inject_seat *seat, const struct injected_answer *answer)
{
        send_answer(seat->process, answer);
}

static void decide(struct inject_process *p, const struct inject_event *event)
{
        const struct inject_seat *seat = find_seat(p, event->session);
        const struct injected_request request = {.serial = event->serial,
                                                 .method = event->method,
                                                 .host = event->host,
                                                 .path = event->path,
                                                 .port = event->port};

        if (seat)
                seat->user.decide(seat->user.data, &request);
        else
                send_answer(p, &(struct injected_answer){.serial = event->serial,
                                                         .why = "belongs to no session"});
}

static void take_end(struct inject_process *p, const struct inject_event *event)
{
        const struct inject_seat *seat = find_seat(p, event->session);

        if (seat)
                seat->user.ended(seat->user.data, event->serial, event->status, event->bytes);
}

static void on_event(evutil_socket_t fd, short what, void *data)
{
        struct inject_process *p = data;
        _cleanup_free_ struct inject_event *event = calloc(1, sizeof(*event));

        if (!event)
                return;
        ssize_t n = fd_receive(fd, event, sizeof(*event), NULL, NULL, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EINTR)
                return;
        bool is_valid = n == offsetof(struct inject_event, certificate) &&
                        is_text(event->method, sizeof(event->method)) &&
                        is_text(event->host, sizeof(event->host)) &&
                        is_text(event->path, sizeof(event->path));
        if (is_valid && event->kind == INJECT_ASK)
                decide(p, event);
        else if (is_valid && event->kind == INJECT_ENDED)
                take_end(p, event);
        else
                on_end(p, n <= 0 ? "has ended" : "sent an invalid message, and is ended");
}

static struct inject_process *find(struct injects *injects, const char *profile)
{
        for (struct inject_process *p = injects->processes; p; p = p->next)
                if (p->is_current && strcmp(p->profile, profile) == 0)
                        return p;
        return NULL;
}

/* The message is in the socket: the monitor has waited for it. */
static int take_ready(struct inject_process *p)
{
        _cleanup_free_ struct inject_event *event = calloc(1, sizeof(*event));

        if (!event)
                return -ENOMEM;
        ssize_t n = fd_receive(p->socket, event, sizeof(*event), NULL, NULL, NULL, MSG_DONTWAIT);
        if (n != sizeof(*event) || event->kind != INJECT_READY ||
            !is_text(event->certificate, sizeof(event->certificate)))
                return -EPROTO;
        memcpy(p->certificate, event->certificate, sizeof(p->certificate));
        return 0;
}

void injects_take(struct injects *injects, const char *profile, int socket)
{
        struct inject_process *old = find(injects, profile);
        struct inject_process *p = calloc(1, sizeof(*p));

        if (!p) {
                close(socket);
                return;
        }
        *p = (struct inject_process){
                .next = injects->processes, .all = injects, .is_current = true, .socket = socket};
        snprintf(p->profile, sizeof(p->profile), "%s", profile);
        injects->processes = p;
        p->readable = event_new(injects->base, socket, EV_READ | EV_PERSIST, on_event, p);
        int r = p->readable && event_add(p->readable, NULL) == 0 ? take_ready(p) : -ENOMEM;
        if (r < 0) {
                log_error("the process that reads requests of profile \"%s\": %s", profile,
                          strerror(-r));
                process_free(p);
                return;
        }
        if (old) {
                old->is_current = false;
                drop_unused(old);
        }
}

void injects_reload(struct injects *injects, const struct config *config)
{
        for (struct inject_process *p = injects->processes, *next; p; p = next) {
                next = p->next;
                size_t i = config_profile_index(config, p->profile);
                if (i < config->n_profiles && config_has_injected(&config->profiles[i]))
                        continue;
                p->is_current = false;
                drop_unused(p);
        }
}

/* ---- seats ---- */

int injects_seat(struct injects *injects, const char *profile, const struct inject_user *user,
                 struct inject_seat **ret, struct error *err)
{
        struct inject_process *p = find(injects, profile);
        struct inject_seat *seat = p ? calloc(1, sizeof(*seat)) : NULL;

        if (!p)
                return error_set(err, ENOENT, "no process reads requests of profile \"%s\"",
                                 profile);
        if (!seat)
                return error_errno(err, ENOMEM, "secrets");
        *seat = (struct inject_seat){
                .next = p->seats, .process = p, .user = *user, .id = ++injects->last_id};
        p->seats = seat;
        *ret = seat;
        return 0;
}

int inject_seat_open(const struct inject_seat *seat, const struct inject_request *placeholders,
                     struct error *err)
{
        enum { OURS, ITS };
        struct inject_request request = *placeholders;
        int pair[2];

        if (seat->process->socket < 0)
                return error_set(err, EPIPE, "the process that reads requests has ended");
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "socketpair");
        request.verb = INJECT_OPEN;
        request.session = seat->id;
        int r = fd_send(seat->process->socket, &request, sizeof(request), &pair[ITS], 1,
                        MSG_DONTWAIT);
        close(pair[ITS]);
        if (r >= 0)
                return pair[OURS];
        close(pair[OURS]);
        return error_errno(err, -r, "send to the process that reads requests");
}

const char *inject_seat_certificate(const struct inject_seat *seat)
{
        return seat->process->certificate;
}

void inject_seat_leave(struct inject_seat *seat)
{
        struct inject_process *p = seat->process;
        struct inject_seat **at = &p->seats;

        while (*at && *at != seat)
                at = &(*at)->next;
        if (*at)
                *at = seat->next;
        free(seat);
        drop_unused(p);
}

int injects_new(struct injects **ret, struct event_base *base,
                void (*lost)(void *data, const char *profile), void *data, struct error *err)
{
        struct injects *injects = calloc(1, sizeof(*injects));

        if (!injects)
                return error_errno(err, ENOMEM, "secrets");
        *injects = (struct injects){.base = base, .lost = lost, .data = data};
        *ret = injects;
        return 0;
}

struct injects *injects_free(struct injects *injects)
{
        while (injects && injects->processes)
                process_free(injects->processes);
        free(injects);
        return NULL;
}
