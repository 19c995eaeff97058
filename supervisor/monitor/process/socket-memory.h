/* The memory of a network namespace's sockets, as the kernel tells by sock_diag(7). */
#pragma once

#include <stdint.h>

/* Of one. The filter lets no code set another size. */
enum {
        SOCKET_MEMORY_MOST = 384 * 1024, /* TCP, both buffers full (sandbox-init/setup/session.c) */
        SOCKET_MEMORY_UNLISTED = 208 *
                                 1024, /* net.core.wmem_default; more than TCP's receive buffer */
};

/*
 * For a child: joins the network namespace of a process, of which there is a pidfd, and adds up the buffers of its sockets:
 * TCP, UDP and UNIX. `used`: the number of sockets that it has. One that is not listed may have been closed while its bytes
 * are on their way, and counts as SOCKET_MEMORY_UNLISTED; where the kernel lists none, each as SOCKET_MEMORY_MOST.
 */
uint64_t socket_memory(int pidfd, uint64_t used);
