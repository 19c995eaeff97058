/* Requests to the monitor, and its events. */
#include "supervisor/broker/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/log.h"
#include "policy/config/config.h"

enum {
        HELLO_WAIT_MS = 60000,
        OUTSTANDING_MAX = 16384,
        EVENTS_AT_ONCE = 64,
};

struct outstanding {
        uint32_t serial, verb, target, generation;
};

/* A new config, until all of its files have arrived. */
struct reload {
        bool greeted;
        struct monitor_hello hello;
        struct link_config_file files[CONFIG_SNAPSHOT_MAX];
        size_t n;
};

struct link {
        struct event_base *base;
        int fd; /* borrowed */
        uint32_t generation, last_serial;
        struct link_events events;
        struct event *readable, *writable;
        struct outstanding *outstanding;
        size_t n_outstanding, allocated;
        struct buffer unsent; /* whole requests */
        int send_error;       /* negative errno: the link ends with the next turn of the loop */
        struct reload reload;
        bool closed;
};

struct received {
        struct monitor_event event;
        int fds[FD_MESSAGE_MAX];
        size_t n_fds;
};

/* Takes one event. Returns 1, 0 at the end, negative errno. */
static int receive(int fd, struct received *ret)
{
        *ret = (struct received){.n_fds = FD_MESSAGE_MAX};
        ssize_t n = fd_receive(fd, &ret->event, sizeof(ret->event), ret->fds, &ret->n_fds, NULL,
                               MSG_DONTWAIT);
        if (n <= 0)
                return (int)n;
        if (n != sizeof(ret->event) || ret->event.kind == 0 ||
            ret->event.kind >= MONITOR_EVENT_MAX) {
                fd_close_many(ret->fds, ret->n_fds);
                return -EPROTO;
        }
        if (ret->event.kind == MONITOR_FAILED)
                error_sanitize(&ret->event.error);
        return 1;
}

static int wait_for_event(int fd, struct received *ret, struct error *err)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int r;

        do
                r = poll(&p, 1, HELLO_WAIT_MS);
        while (r < 0 && errno == EINTR);
        if (r == 0)
                return error_set(err, ETIMEDOUT, "the monitor says nothing");
        r = r < 0 ? -errno : receive(fd, ret);
        if (r == 0)
                return error_set(err, EPIPE, "the monitor has ended");
        return r < 0 ? error_errno(err, -r, "read from the monitor") : 0;
}

static int take_config_file(struct received *received, struct link_config_file *files, size_t *n,
                            struct error *err)
{
        if (received->n_fds != 1 || *n == CONFIG_SNAPSHOT_MAX) {
                fd_close_many(received->fds, received->n_fds);
                return error_set(err, EPROTO, "a config file without a descriptor, or too many");
        }
        struct link_config_file *file = &files[(*n)++];
        file->fd = received->fds[0];
        file->code = received->event.target;
        memcpy(file->path, received->event.path, sizeof(file->path));
        file->path[sizeof(file->path) - 1] = '\0';
        return 0;
}

int link_hello(int fd, struct monitor_hello *ret, struct link_config_file *files, size_t *n_files,
               struct error *err)
{
        struct received received;
        bool greeted = false;

        *n_files = 0;
        for (;;) {
                int r = wait_for_event(fd, &received, err);
                if (r < 0)
                        return r;
                uint32_t kind = received.event.kind;
                if (kind == MONITOR_CONFIG_FILE && greeted) {
                        r = take_config_file(&received, files, n_files, err);
                        if (r < 0)
                                return r;
                        continue;
                }
                fd_close_many(received.fds, received.n_fds);
                if (kind == MONITOR_READY && greeted && *n_files == ret->config_files)
                        return 0;
                if (kind != MONITOR_HELLO || greeted)
                        return error_set(err, EPROTO, "the monitor's greeting is out of order");
                *ret = received.event.hello;
                greeted = true;
        }
}

static void end(struct link *link, const struct error *error)
{
        if (link->closed)
                return;
        link->closed = true;
        event_del(link->readable);
        event_del(link->writable);
        link->events.closed(link->events.data, error);
}

/* Whether an event of this kind may answer a request with this verb. */
static bool answers(uint32_t verb, uint32_t kind)
{
        if (kind == MONITOR_FAILED)
                return true;
        if (verb == MONITOR_SESSION_CREATE)
                return kind == MONITOR_SESSION_STARTED;
        if (verb == MONITOR_UPSTREAM_START || verb == MONITOR_INSTALLER_START)
                return kind == MONITOR_UPSTREAM_STARTED;
        return kind == MONITOR_DONE;
}

static bool take_outstanding(struct link *link, uint32_t serial, struct outstanding *ret)
{
        for (size_t i = 0; i < link->n_outstanding; i++) {
                if (link->outstanding[i].serial != serial)
                        continue;
                *ret = link->outstanding[i];
                link->outstanding[i] = link->outstanding[--link->n_outstanding];
                return true;
        }
        return false;
}

static size_t fds_of(uint32_t kind)
{
        return kind == MONITOR_SESSION_STARTED    ? SESSION_FDS
               : kind == MONITOR_SESSION_CLEARED  ? SESSION_COUNTERS
               : kind == MONITOR_UPSTREAM_STARTED ? 3
               : kind == MONITOR_CONFIG_FILE      ? 1
               : kind == MONITOR_SESSION_NETWORK  ? 1
                                                  : 0;
}

static bool is_keep(uint32_t verb)
{
        return verb == MONITOR_SESSION_KEEP || verb == MONITOR_SESSION_KEEP_ASIDE;
}

static void pass_failure(struct link *link, const struct outstanding *asked,
                         const struct error *error)
{
        const struct link_events *on = &link->events;

        if (asked->verb == MONITOR_SESSION_CREATE) {
                /* ESTALE: the request had an old generation. The caller repeats it. */
                struct error why = *error;
                if (asked->generation == link->generation && why.code == ESTALE)
                        why.code = EIO;
                on->session_failed(on->data, asked->serial, &why);
        } else if (asked->verb == MONITOR_UPSTREAM_START)
                on->upstream_failed(on->data, asked->target, error);
        else if (asked->verb == MONITOR_INSTALLER_START)
                on->installer_failed(on->data, asked->serial, error);
        else if (is_keep(asked->verb))
                on->session_kept(on->data, asked->target, error);
        else
                log_debug("the monitor: %s", error->text); /* the target has ended meanwhile */
}

/* The index means another server by now, and the hub has repeated its request. */
static void drop_upstream(struct link *link, struct received *received)
{
        fd_close_many(received->fds, received->n_fds);
        if (received->event.kind == MONITOR_UPSTREAM_STARTED)
                link_request(link, MONITOR_UPSTREAM_STOP, received->event.target, NULL);
}

/* Handles an answer. Takes ownership of the descriptors. */
static int pass_answer(struct link *link, struct received *received)
{
        const struct link_events *on = &link->events;
        const struct monitor_event *event = &received->event;
        struct outstanding asked;

        if (!take_outstanding(link, event->serial, &asked) || !answers(asked.verb, event->kind)) {
                fd_close_many(received->fds, received->n_fds);
                return -EPROTO;
        }
        if (asked.verb == MONITOR_UPSTREAM_START && asked.generation != link->generation)
                drop_upstream(link, received);
        else if (event->kind == MONITOR_FAILED)
                pass_failure(link, &asked, &event->error);
        else if (event->kind == MONITOR_SESSION_STARTED)
                on->session_started(on->data, asked.serial, event->target, received->fds);
        else if (asked.verb == MONITOR_INSTALLER_START)
                on->installer_started(on->data, asked.serial, event->target, received->fds);
        else if (event->kind == MONITOR_UPSTREAM_STARTED)
                on->upstream_started(on->data, asked.target, event->target, received->fds);
        else if (asked.verb == MONITOR_SESSION_FREEZE)
                on->session_frozen(on->data, asked.target);
        else if (is_keep(asked.verb))
                on->session_kept(on->data, asked.target, NULL);
        return 0;
}

static int begin_reload(struct link *link, const struct monitor_hello *hello)
{
        if (link->reload.greeted || hello->generation <= link->generation ||
            hello->config_files > CONFIG_SNAPSHOT_MAX)
                return -EPROTO;
        link->reload.greeted = true;
        link->reload.hello = *hello;
        return 0;
}

static int end_reload(struct link *link)
{
        struct reload *reload = &link->reload;
        size_t n = reload->n;

        if (!reload->greeted || n != reload->hello.config_files)
                return -EPROTO;
        reload->greeted = false;
        reload->n = 0;
        link->generation = reload->hello.generation;
        link->events.reloaded(link->events.data, &reload->hello, reload->files, n);
        return 0;
}

/* Handles a message of a reload. Takes ownership of the descriptor. */
static int pass_reload(struct link *link, struct received *received)
{
        struct reload *reload = &link->reload;

        if (received->event.kind == MONITOR_HELLO)
                return begin_reload(link, &received->event.hello);
        if (received->event.kind == MONITOR_READY)
                return end_reload(link);
        if (!reload->greeted || reload->n == reload->hello.config_files) {
                fd_close_many(received->fds, received->n_fds);
                return -EPROTO;
        }
        return take_config_file(received, reload->files, &reload->n, NULL);
}

/* Takes ownership of the descriptors. */
static int pass_notice(struct link *link, const struct received *received)
{
        const struct link_events *on = &link->events;
        const struct monitor_event *event = &received->event;

        if (event->kind == MONITOR_SESSION_CLEARED)
                on->session_cleared(on->data, event->target, &event->ended, received->fds);
        else if (event->kind == MONITOR_SESSION_NETWORK)
                on->session_network(on->data, event->target, received->fds[0]);
        else if (event->kind == MONITOR_SESSION_GONE)
                on->session_gone(on->data, event->target, event->copy);
        else if (event->kind == MONITOR_SESSION_COUNTED)
                on->session_counted(on->data, event->target, &event->counted);
        else if (event->kind == MONITOR_SESSION_MEMORY)
                on->session_memory(on->data, event->target, event->memory);
        else if (event->kind == MONITOR_SESSION_ENDED)
                on->session_ended(on->data, event->target, &event->ended);
        else if (event->kind == MONITOR_UPSTREAM_ENDED)
                on->upstream_ended(on->data, event->target, event->wait_status);
        else if (event->kind == MONITOR_LIMITS && event->target < MONITOR_USAGE_MAX)
                on->limits(on->data, event->target);
        else
                return -EPROTO;
        return 0;
}

static int pass(struct link *link, struct received *received)
{
        if (received->n_fds != fds_of(received->event.kind)) {
                fd_close_many(received->fds, received->n_fds);
                return -EPROTO;
        }
        if (received->event.serial != 0)
                return pass_answer(link, received);
        uint32_t kind = received->event.kind;
        if (kind == MONITOR_HELLO || kind == MONITOR_CONFIG_FILE || kind == MONITOR_READY)
                return pass_reload(link, received);
        return pass_notice(link, received);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct link *link = data;
        struct error err = {};
        struct received received;

        if (link->send_error < 0) {
                error_errno(&err, -link->send_error, "write to the monitor");
                end(link, &err);
                return;
        }
        for (int i = 0; i < EVENTS_AT_ONCE && !link->closed; i++) {
                int r = receive(link->fd, &received);
                if (r == -EAGAIN)
                        return;
                if (r == 0 || r == -ECONNRESET) {
                        end(link, &err);
                        return;
                }
                if (r > 0)
                        r = pass(link, &received);
                if (r < 0) {
                        error_set(&err, -r,
                                  "the monitor said what it may not (event %u, serial %u)",
                                  received.event.kind, received.event.serial);
                        end(link, &err);
                }
        }
}

/* Sends what is queued. Reading notices the end of the monitor. Callers are in the middle of
 * something, so that an error ends the link later. */
static void flush(struct link *link)
{
        while (link->send_error == 0 && link->unsent.length >= sizeof(struct monitor_request)) {
                int r = fd_send(link->fd, buffer_bytes(&link->unsent),
                                sizeof(struct monitor_request), NULL, 0, MSG_DONTWAIT);
                if (r == -EAGAIN) {
                        event_add(link->writable, NULL);
                        return;
                }
                if (r < 0 && r != -EPIPE && r != -ECONNRESET) {
                        link->send_error = r;
                        event_active(link->readable, EV_READ, 0);
                        return;
                }
                buffer_consume(&link->unsent, sizeof(struct monitor_request));
        }
}

static void on_writable(evutil_socket_t fd, short what, void *data)
{
        flush(data);
}

static int remember(struct link *link, const struct monitor_request *request)
{
        if (link->n_outstanding == OUTSTANDING_MAX)
                return -EBUSY;
        if (link->n_outstanding == link->allocated) {
                size_t more = link->allocated ? link->allocated * 2 : 64;
                struct outstanding *grown = reallocarray(link->outstanding, more,
                                                         sizeof(*link->outstanding));
                if (!grown)
                        return -ENOMEM;
                link->outstanding = grown;
                link->allocated = more;
        }
        link->outstanding[link->n_outstanding++] = (struct outstanding){
                request->serial, request->verb, request->target, request->generation};
        return 0;
}

int link_request(struct link *link, enum monitor_verb verb, uint32_t target, uint32_t *serial)
{
        return link_request_copy(link, verb, target, 0, NULL, serial);
}

int link_request_copy(struct link *link, enum monitor_verb verb, uint32_t target, uint32_t number,
                      const uint32_t instead[MONITOR_INSTEAD_MAX], uint32_t *serial)
{
        struct monitor_request request = {
                .verb = verb,
                .target = target,
                .generation = link->generation,
                .number = number,
        };

        if (link->closed)
                return -EPIPE;
        if (instead)
                memcpy(request.instead, instead, sizeof(request.instead));
        if (++link->last_serial == 0)
                ++link->last_serial;
        request.serial = link->last_serial;
        int r = remember(link, &request);
        if (r >= 0)
                r = buffer_append(&link->unsent, &request, sizeof(request));
        if (r < 0)
                return r;
        flush(link);
        if (serial)
                *serial = request.serial;
        return 0;
}

int link_new(struct link **ret, struct event_base *base, int fd, uint32_t generation,
             const struct link_events *events, struct error *err)
{
        struct link *link = calloc(1, sizeof(*link));

        if (!link)
                return error_errno(err, ENOMEM, "link to the monitor");
        *link = (struct link){
                .base = base,
                .fd = fd,
                .generation = generation,
                .events = *events,
                .unsent = BUFFER_INIT(OUTSTANDING_MAX * sizeof(struct monitor_request)),
        };
        link->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, link);
        link->writable = event_new(base, fd, EV_WRITE, on_writable, link);
        if (!link->readable || !link->writable || event_add(link->readable, NULL) < 0) {
                link_free(link);
                return error_errno(err, ENOMEM, "link to the monitor");
        }
        *ret = link;
        return 0;
}

struct link *link_free(struct link *link)
{
        if (!link)
                return NULL;
        if (link->readable)
                event_free(link->readable);
        if (link->writable)
                event_free(link->writable);
        for (size_t i = 0; i < link->reload.n; i++)
                close(link->reload.files[i].fd);
        buffer_done(&link->unsent);
        free(link->outstanding);
        free(link);
        return NULL;
}
