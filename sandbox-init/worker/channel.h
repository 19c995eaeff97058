/*
 * The worker's end of the frame channel (rpc/frame.h): a stream socket to the broker.
 *
 * Reading never blocks and is for one thread at a time (the interpreter's lock is held); sending
 * blocks until the frame has left and is for any thread. While a sender waits, the channel is read
 * on its behalf, so that two peers who both send first don't wait for each other. Only the process
 * that opened the channel may use it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/frame.h"
#include "sandbox-init/raw.h"

/* Takes the descriptors. Nothing is read before a byte has come from `release`, which init writes
 * when it is non-dumpable and filtered; -1: there is nothing to wait for. Then `listener` is closed, which init has. */
void channel_open(int fd, int release, int listener);
void channel_forget(void); /* in a child: closes the channel, if it is open */
int channel_number(void);  /* of the descriptor, in a child too */
/* In a branch, whose memory is that of another worker: the channel under the same number is its own. */
void channel_branch(void);
/* The descriptor that came with the frame at the front; negative errno: it was lost. */
int channel_take_fd(void);
int channel_fd(void); /* -1 when there is none, or in a child */
/* Whether this process opened the channel, and is not a child of that one; also true in a child that shares the memory
 * (vfork), until it execs. */
bool channel_is_ours(void);
/* In a fork of the worker that is the worker now: takes the channel over, and drops what has arrived. */
void channel_adopt(void);

/* For a warm-up: reads and sends go to this descriptor, which stays the caller's, until
 * channel_restore(), which also drops bytes that were not consumed. Returns 0, or -EBUSY when the
 * session's channel was read already or is diverted. */
int channel_divert(int fd);
void channel_restore(void);

/* Receives the bytes that have arrived, as recvmsg() does. *ret: the descriptor that came with it, -1, or -EMFILE: if the descriptor table is full
 * or the limit is reached, the kernel drops it and sets MSG_CTRUNC. It returns those of one message at a time.
 * With room for SCM_CREDENTIALS, because code may set SO_PASSCRED on the socket. */
long channel_receive(int socket, void *data, size_t n, int *ret);

/* Reads what has arrived. Returns 0, -EPIPE when the other end or the descriptor was closed, -ENOMEM.
 */
int channel_pull(void);
bool channel_full(void); /* enough is read for now */

/* The first whole frame read: 1 with a view of it, valid until channel_pull() or channel_next(); 0:
 * no whole frame has arrived; negative errno when the peer breaks the protocol. channel_next() drops it. */
int channel_peek(struct frame_header *ret, const char **payload, struct error *err);
void channel_next(const struct frame_header *header);

/* The payload of a frame with FRAME_IN_MEMFD, once for each, in their order. Returns 0, -EMFILE
 * when no descriptor was free as it came, -EBADF when it is not what was sent. channel_unmap()
 * gives the memory back to the broker. */
struct channel_view {
        const char *bytes; /* NULL: no room to map it */
        size_t length;
        int fd;
};
int channel_map(const struct frame_header *header, struct channel_view *ret);
void channel_unmap(const struct channel_view *view);

/* Whether the socket has something to read (also: its end) within timeout_ms, -1: no bound; it
 * waits with the signal mask `mask`. Returns 1, 0, or -EINTR. For any thread. */
int channel_wait(int timeout_ms, const raw_signals *mask);

/* The same beside another descriptor, for what is there first, a signal too. Returns which of them
 * has something to read; 0: neither, or a signal came. */
enum { CHANNEL_READY = 1, CHANNEL_OTHER_READY = 2 };
int channel_wait_beside(int other, int timeout_ms);

/* Sends a whole frame; for any thread. pull is called when there is something to read in the
 * meantime, and returns whether to call it again. Returns 0, -EMSGSIZE, -EPIPE. */
int channel_send(uint8_t type, uint64_t id, const void *payload, size_t n, bool (*pull)(void *data),
                 void *data);

/* Keeps a whole frame for the next channel_send() or channel_flush(), as calls that are gathered go in one system call. Returns 0,
 * or negative errno: it has to be sent. */
int channel_queue(uint8_t type, uint64_t id, const void *payload, size_t n);
bool channel_has_queued(void);
/* Sends what is queued, as channel_send(). */
int channel_flush(bool (*pull)(void *data), void *data);
