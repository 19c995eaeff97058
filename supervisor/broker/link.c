/* Requests to the monitor, and its events. */
#include "supervisor/broker/link.h"

#include <assert.h>
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

/* A config, until all of its files have arrived. */
struct arriving {
        bool greeted;
        struct monitor_hello hello;
        struct link_config_file *files; /* CONFIG_SNAPSHOT_MAX places */
        size_t n;
};

struct link {
        struct event_base *base;
        int fd; /* borrowed */
        uint32_t generation, last_serial;
        struct link_owner owner;
        struct event *readable, *writable;
        struct monitor_request *outstanding; /* not answered yet */
        size_t n_outstanding, allocated;
        struct buffer unsent; /* whole requests */
        int send_error;       /* negative errno: the link ends with the next turn of the loop */
        struct link_config_file files[CONFIG_SNAPSHOT_MAX];
        struct arriving reload; /* its files are the member above */
        bool closed;
};

/* Takes one event. Returns 1, 0 at the end, negative errno. */
static int receive(int fd, struct monitor_message *ret)
{
        *ret = (struct monitor_message){.n_fds = FD_MESSAGE_MAX};
        ssize_t n = fd_receive(fd, &ret->event, sizeof(ret->event), ret->fds, &ret->n_fds, NULL,
                               MSG_DONTWAIT);
        if (n <= 0)
                return (int)n;
        if (n != sizeof(ret->event)) {
                fd_close_many(ret->fds, ret->n_fds);
                return -EPROTO;
        }
        return 1;
}

static int refuse(struct monitor_message *message)
{
        fd_close_many(message->fds, message->n_fds);
        return -EPROTO;
}

/* ---- the config ---- */

static int take_hello(struct arriving *config, uint32_t generation,
                      const struct monitor_hello *hello)
{
        if (config->greeted || hello->generation <= generation ||
            hello->config_files > CONFIG_SNAPSHOT_MAX)
                return -EPROTO;
        config->greeted = true;
        config->hello = *hello;
        config->n = 0;
        return 0;
}

static void take_file(struct arriving *config, const struct monitor_message *message)
{
        struct link_config_file *file = &config->files[config->n++];

        file->fd = message->fds[0];
        file->code = message->event.target;
        memcpy(file->path, message->event.path, sizeof(file->path));
        file->path[sizeof(file->path) - 1] = '\0';
}

/* Takes a checked message of the config. Returns 1 after the last one, 0, or -EPROTO if it is out of
 * order. generation: of the config before. */
static int take_config(struct arriving *config, uint32_t generation,
                       struct monitor_message *message)
{
        if (message->event.kind == MONITOR_HELLO)
                return take_hello(config, generation, &message->event.hello);
        bool is_complete = config->n == config->hello.config_files;
        if (!config->greeted || is_complete != (message->event.kind == MONITOR_READY))
                return refuse(message);
        if (is_complete)
                config->greeted = false;
        else
                take_file(config, message);
        return is_complete;
}

static int wait_for_event(int fd, struct monitor_message *ret, struct error *err)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int r;

        do
                r = poll(&p, 1, HELLO_WAIT_MS);
        while (r < 0 && errno == EINTR);
        if (r == 0)
                return error_set(err, ETIMEDOUT, "the monitor sent no message for %d s",
                                 HELLO_WAIT_MS / 1000);
        r = r < 0 ? -errno : receive(fd, ret);
        if (r == 0)
                return error_set(err, EPIPE, "the monitor has ended");
        return r < 0 ? error_errno(err, -r, "read from the monitor") : 0;
}

int link_hello(int fd, struct monitor_hello *ret, struct link_config_file *files, size_t *n_files,
               struct error *err)
{
        struct arriving config = {.files = files};
        struct monitor_message message;

        for (int r = 0; r == 0;) {
                r = wait_for_event(fd, &message, err);
                if (r < 0)
                        return r;
                r = monitor_event_check(&message.event, message.n_fds, &message.asked) &&
                                    monitor_event_is_config(&message.event)
                            ? take_config(&config, 0, &message)
                            : refuse(&message);
                if (r < 0)
                        return error_set(err, EPROTO,
                                         "protocol violation by the monitor: %s is out of order",
                                         monitor_event_name(message.event.kind));
        }
        *ret = config.hello;
        *n_files = config.n;
        return 0;
}

/* ---- events ---- */

static void end(struct link *link, const struct error *error)
{
        if (link->closed)
                return;
        link->closed = true;
        event_del(link->readable);
        event_del(link->writable);
        link->owner.closed(link->owner.data, error);
}

static bool take_outstanding(struct link *link, uint32_t serial, struct monitor_request *ret)
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

/* The index of the request is that of another server now, and the hub has repeated its request. */
static void drop_upstream(struct link *link, struct monitor_message *message)
{
        fd_close_many(message->fds, message->n_fds);
        if (message->event.kind == MONITOR_UPSTREAM_STARTED)
                link_request(link,
                             &(struct monitor_request){.verb = MONITOR_UPSTREAM_STOP,
                                                       .target = message->event.target},
                             NULL);
}

static void take_failure(struct link *link, struct monitor_message *message)
{
        const struct monitor_request *asked = &message->asked;
        struct error *error = &message->event.error;

        error_sanitize(error);
        /* ESTALE means that the request had an old generation; the owner repeats it then. */
        if (asked->verb == MONITOR_SESSION_CREATE && asked->generation == link->generation &&
            error->code == ESTALE)
                error->code = EIO;
        log_debug("request %u failed: %s", asked->serial, error->text);
}

static void pass(struct link *link, struct monitor_message *message)
{
        const struct monitor_request *asked = &message->asked;

        if (message->event.kind == MONITOR_FAILED)
                take_failure(link, message);
        if (asked->verb == MONITOR_UPSTREAM_START && asked->generation != link->generation)
                drop_upstream(link, message);
        else
                link->owner.received(link->owner.data, message);
}

static int pass_config(struct link *link, struct monitor_message *message)
{
        struct arriving *reload = &link->reload;
        int r = take_config(reload, link->generation, message);

        if (r <= 0)
                return r;
        size_t n = reload->n;
        reload->n = 0;
        link->generation = reload->hello.generation;
        link->owner.reloaded(link->owner.data, &reload->hello, reload->files, n);
        return 0;
}

/* Checks an event against the table and the request that it answers. */
static int handle(struct link *link, struct monitor_message *message)
{
        uint32_t serial = message->event.serial;

        if ((serial != 0 && !take_outstanding(link, serial, &message->asked)) ||
            !monitor_event_check(&message->event, message->n_fds, &message->asked))
                return refuse(message);
        if (monitor_event_is_config(&message->event))
                return pass_config(link, message);
        pass(link, message);
        return 0;
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct link *link = data;
        struct error err = {};
        struct monitor_message message;

        if (link->send_error < 0) {
                error_errno(&err, -link->send_error, "write to the monitor");
                end(link, &err);
                return;
        }
        for (int i = 0; i < EVENTS_AT_ONCE && !link->closed; i++) {
                int r = receive(link->fd, &message);
                if (r == -EAGAIN)
                        return;
                if (r == 0 || r == -ECONNRESET) {
                        end(link, &err);
                        return;
                }
                if (r > 0)
                        r = handle(link, &message);
                if (r < 0) {
                        error_set(&err, -r, "protocol violation by the monitor: %s, serial %u",
                                  monitor_event_name(message.event.kind), message.event.serial);
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
                struct monitor_request *grown = reallocarray(link->outstanding, more,
                                                             sizeof(*link->outstanding));
                if (!grown)
                        return -ENOMEM;
                link->outstanding = grown;
                link->allocated = more;
        }
        link->outstanding[link->n_outstanding++] = *request;
        return 0;
}

int link_request(struct link *link, const struct monitor_request *request, uint32_t *serial)
{
        struct monitor_request sent = *request;

        if (link->closed)
                return -EPIPE;
        if (++link->last_serial == 0)
                ++link->last_serial;
        sent.serial = link->last_serial;
        sent.generation = link->generation;
        /* Pids come from workers: the monitor refuses those that are out of range. */
        assert(monitor_request_check(&sent) != -EPROTO);
        int r = remember(link, &sent);
        if (r >= 0)
                r = buffer_append(&link->unsent, &sent, sizeof(sent));
        if (r < 0)
                return r;
        flush(link);
        if (serial)
                *serial = sent.serial;
        return 0;
}

int link_new(struct link **ret, struct event_base *base, int fd, uint32_t generation,
             const struct link_owner *owner, struct error *err)
{
        struct link *link = calloc(1, sizeof(*link));

        if (!link)
                return error_errno(err, ENOMEM, "link to the monitor");
        *link = (struct link){
                .base = base,
                .fd = fd,
                .generation = generation,
                .owner = *owner,
                .unsent = BUFFER_INIT(OUTSTANDING_MAX * sizeof(struct monitor_request)),
        };
        link->reload.files = link->files;
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
