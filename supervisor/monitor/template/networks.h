/*
 * The network namespaces of a template's sessions: those that living sessions have, and some of ended sessions, one of which a
 * later session of the same principal gets. Making one and destroying it costs the kernel about a millisecond of processor
 * time and 205 KiB.
 *
 * Only for profiles without a network: code there can create sockets of AF_UNIX only. One is given to a session only if all of
 * this holds; otherwise it is dropped, and the session gets a new one:
 *   - The session before was ended by the monitor, and its PID 1 was reaped. The kernel ends a PID 1 after all other processes
 *     of its pid namespace were reaped.
 *   - The namespace has no socket. The kernel counts each socket from its creation until its memory is freed ("sockets: used" of
 *     /proc/PID/net/sockstat): of all families, without a name, closed with bytes on their way, and in flight in a message of
 *     a socket of any namespace.
 *   - Both sessions are of the same template, and so of one profile and config, and of the same principal.
 * No two living sessions have the same one, whatever the template does: the monitor reads its number before the session can be used.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum {
        NETWORKS_PRINCIPAL_MAX = 4, /* of ended sessions of a principal */
        NETWORKS_MAX = 16,          /* of all */
};

struct networks;

/* A namespace of a session that is being ended, with the file that counts its sockets; -1: none. */
struct network_left {
        int namespace, sockets;
};
#define NETWORK_LEFT_NONE ((struct network_left){-1, -1})

/* The template and each of its sessions have a reference. networks_unref() returns NULL; NULL is allowed. */
int networks_new(struct networks **ret, struct error *err);
struct networks *networks_ref(struct networks *n);
struct networks *networks_unref(struct networks *n);

/* The template has ended: drops all, and keeps none from now on. NULL is allowed. */
void networks_close(struct networks *n);

/* For a new session of this principal: a descriptor, owned by the caller; -1: make a new one. */
int networks_take(struct networks *n, uint32_t principal);

/* pid: PID 1 of a new session, before that can be used. Sets *ret to the number of its namespace; after an error to 0.
 * -EPERM if a living session, or one that ended, has the same. -ENOENT, -EACCES: the process has ended, or hides it. */
int networks_enter(struct networks *n, pid_t pid, uint64_t *ret, struct error *err);

/* Call before PID 1 is killed. Nothing is open after a failure. */
struct network_left networks_open(pid_t pid);

/* PID 1 was reaped. Takes the descriptors of *left, if it has any. number: as from networks_enter(). */
void networks_leave(struct networks *n, uint64_t number, uint32_t principal,
                    struct network_left *left);
