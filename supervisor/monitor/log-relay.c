/*
 * The broker's log.
 *
 * The pipe does not block the broker: lines that do not fit are lost. It is read once in RELAY_MS,
 * so that a flood neither occupies the loop nor writes more than 3 MiB a second.
 */
#include "supervisor/monitor/log-relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum {
        RELAY_MS = 20,
        RELAY_BYTES = 64 * 1024,
        RELAY_PIPE = 1024 * 1024, /* holds the lines of a busy moment; what the kernel allows */
        RELAY_READS_MAX = 32,     /* at the end */
};

struct log_relay {
        int fd;
        struct event *readable, *again;
        size_t n; /* bytes of a line that has begun */
        char bytes[RELAY_BYTES];
};

/* The broker's lines have no other control characters (base/printable.h). */
static void clean(char *bytes, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if ((unsigned char)bytes[i] < ' ' && bytes[i] != '\n')
                        bytes[i] = '?';
        }
}

/* Appends whole lines, or all if there is no line that is so long. Returns what read() did. */
static ssize_t relay_once(struct log_relay *relay)
{
        ssize_t n = read(relay->fd, relay->bytes + relay->n, sizeof(relay->bytes) - relay->n);

        if (n <= 0)
                return n;
        clean(relay->bytes + relay->n, (size_t)n);
        relay->n += (size_t)n;
        const char *last = memrchr(relay->bytes, '\n', relay->n);
        size_t whole = last                               ? (size_t)(last - relay->bytes) + 1
                       : relay->n == sizeof(relay->bytes) ? relay->n
                                                          : 0;
        log_file_append(relay->bytes, whole);
        relay->n -= whole;
        memmove(relay->bytes, relay->bytes + whole, relay->n);
        return n;
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct log_relay *relay = data;
        const struct timeval in = clock_timeval_ms(RELAY_MS);

        if (relay_once(relay) != 0) /* else it has ended */
                evtimer_add(relay->again, &in);
}

static void on_again(evutil_socket_t fd, short what, void *data)
{
        struct log_relay *relay = data;

        event_add(relay->readable, NULL);
}

int log_relay_new(struct log_relay **ret, struct event_base *base, int *theirs, struct error *err)
{
        int ends[2];

        *ret = NULL;
        *theirs = -1;
        if (!log_file_is_bounded())
                return 0;
        struct log_relay *relay = calloc(1, sizeof(*relay));
        if (!relay || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
                int code = relay ? errno : ENOMEM;
                free(relay);
                return error_errno(err, code, "pipe for the log");
        }
        (void)fcntl(ends[1], F_SETPIPE_SZ, RELAY_PIPE);
        relay->fd = ends[0];
        relay->readable = event_new(base, relay->fd, EV_READ, on_readable, relay);
        relay->again = evtimer_new(base, on_again, relay);
        if (!relay->readable || !relay->again || event_add(relay->readable, NULL) < 0) {
                close(ends[1]);
                log_relay_free(relay);
                return error_errno(err, ENOMEM, "read the broker's log");
        }
        *theirs = ends[1];
        *ret = relay;
        return 0;
}

struct log_relay *log_relay_free(struct log_relay *relay)
{
        if (!relay)
                return NULL;
        for (int i = 0; i < RELAY_READS_MAX && relay_once(relay) > 0; i++)
                ;
        log_file_append(relay->bytes, relay->n);
        if (relay->readable)
                event_free(relay->readable);
        if (relay->again)
                event_free(relay->again);
        close(relay->fd);
        free(relay);
        return NULL;
}
