/* Relays bytes. */
#include "supervisor/egress/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "supervisor/egress/tally.h"

enum { TURNS = 16 }; /* reads and writes until others are served */

int flow_open(struct flow *f, struct event_base *base, event_callback_fn callback, void *data)
{
        if (!f->data)
                f->data = malloc(FLOW_SIZE);
        f->readable = event_new(base, f->from, EV_READ, callback, data);
        f->writable = event_new(base, f->to, EV_WRITE, callback, data);
        return f->data && f->readable && f->writable ? 0 : -ENOMEM;
}

void flow_close(struct flow *f)
{
        if (f->readable)
                event_free(f->readable);
        if (f->writable)
                event_free(f->writable);
        free(f->data);
        f->readable = f->writable = NULL;
        f->data = NULL;
}

/* Cuts what was read behind the body. */
static int take_body(struct flow *f, size_t *n)
{
        if (!f->body)
                return 0;
        ssize_t used = http_reader_feed(f->body, (char *)f->data + f->at + f->n, *n,
                                        &(struct error){});
        if (used < 0)
                return -EINVAL;
        *n = (size_t)used;
        f->has_ended = f->body->state == HTTP_READER_DONE;
        return 0;
}

/* Returns 1: bytes came, or the end; 0: not now. */
static int fill(struct flow *f)
{
        size_t end = f->at + f->n;

        if (end == FLOW_SIZE)
                return 0;
        ssize_t most = egress_session_allow(f->session, FLOW_SIZE - end);
        f->waits = most == 0;
        if (most <= 0)
                return (int)most;
        ssize_t n = recv(f->from, f->data + end, (size_t)most, MSG_DONTWAIT);
        if (n == 0) {
                f->has_ended = true;
                return f->body ? -EPIPE : 1; /* a body that ends too soon */
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                event_add(f->readable, NULL);
                return 0;
        }
        if (n < 0)
                return -errno;
        size_t length = (size_t)n;
        egress_session_used(f->session, length);
        int r = take_body(f, &length);
        if (r < 0)
                return r;
        if (f->is_in)
                tally_bytes(f->session, f->slot, true, length);
        f->n += length;
        return 1;
}

/* Returns 1: bytes went; 0: not now. */
static int drain(struct flow *f)
{
        ssize_t n = send(f->to, f->data + f->at, f->n, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                event_add(f->writable, NULL);
                return 0;
        }
        if (n < 0)
                return -errno;
        if (!f->is_in)
                tally_bytes(f->session, f->slot, false, (size_t)n);
        f->at += (size_t)n;
        f->n -= (size_t)n;
        if (f->n == 0)
                f->at = 0;
        return 1;
}

int flow_pump(struct flow *f, bool *moved)
{
        int r = 1;

        for (int i = 0; i < TURNS && r > 0; i++) {
                if (f->n > 0 && !f->is_held)
                        r = drain(f);
                else if (!f->has_ended)
                        r = fill(f);
                else
                        break;
                *moved |= r > 0;
        }
        if (r > 0 && !f->has_ended)
                event_active(f->readable, EV_READ, 0);
        else if (r > 0 && f->n > 0 && !f->is_held)
                event_active(f->writable, EV_WRITE, 0);
        if (r >= 0 && f->has_ended && f->n == 0 && !f->is_shut) {
                f->is_shut = true;
                if (!f->stays_open)
                        shutdown(f->to, SHUT_WR);
        }
        return r < 0 ? r : 0;
}
