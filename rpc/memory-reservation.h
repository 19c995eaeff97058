/*
 * The memory of the broker for documents of peers while they arrive.
 *
 * A document that is larger than RESERVATION_MIN is received only after its reader has reserved memory for it. Until then
 * the reader does not read, and the peer blocks. Each kind of peer has its own pool, so that sessions never wait for
 * servers, nor servers for sessions. Parsing needs more memory, once, because one document is parsed at a time
 * (rpc/background.h).
 *
 * No peer holds a pool for long while others wait: a document that is not complete a short time after its reservation
 * was granted is revoked, which ends the frame or the line. The smallest and the oldest of the waiting ones take turns; one
 * that was revoked before comes after all others.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
        RESERVATION_MIN = 128 * 1024, /* a longer frame or line is received and parsed by itself */

        RESERVATION_PARTS_MAX = 16 * 1024 * 1024,
        RESERVATION_FRAMES_MAX = 36 * 1024 * 1024,
        RESERVATION_LINES_MAX = 128 * 1024 * 1024,

        RESERVATION_PARTS_MS = 250, /* from the grant, when others wait */
        RESERVATION_FRAMES_MS = 500,
        RESERVATION_LINES_MS = 1000,
};

enum memory_reservation_pool {
        RESERVATION_PARTS,  /* what has arrived of a session's frame up to RESERVATION_MIN */
        RESERVATION_FRAMES, /* a longer frame of a session */
        RESERVATION_LINES,  /* a line above RESERVATION_MIN of a server */
        RESERVATION_POOLS,
};

struct memory_reservation_owner {
        struct event_base *base;
        void (*granted)(
                void *data); /* from memory_reservation_drop() of another, or from the event loop */
        void (*revoked)(void *data); /* the reservation is dropped already */
        void *data;
};

/* All zero before the first use. Only memory-reservation.c writes the members. */
struct memory_reservation {
        TAILQ_ENTRY(memory_reservation) link; /* among those that wait, or that are granted */
        enum memory_reservation_pool pool;
        size_t bytes;   /* 0: none */
        uint64_t since; /* it was granted */
        bool waits, is_complete, was_revoked;
        struct memory_reservation_owner owner;
};

/* Returns whether the bytes may be used now; otherwise granted() follows. bytes: at most the pool's. The
 * reservation must be empty. */
bool memory_reservation_ask(struct memory_reservation *reservation,
                            enum memory_reservation_pool pool, size_t bytes,
                            const struct memory_reservation_owner *owner);
/* The document has arrived: the reservation is not revoked any more. Nothing happens if there is none. */
void memory_reservation_complete(struct memory_reservation *reservation);
/* Gives the bytes back, or stops waiting. Nothing happens if there is no reservation. */
void memory_reservation_drop(struct memory_reservation *reservation);

static inline bool memory_reservation_is_granted(const struct memory_reservation *reservation)
{
        return reservation->bytes > 0 && !reservation->waits;
}
