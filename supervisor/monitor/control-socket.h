/* The socket on which the broker listens for commands of `cloister sessions`
 * (policy/control-path.h). The monitor creates it, because the broker's filter denies that. */
#pragma once

#include "base/error.h"
#include "policy/control-path.h"

struct control_socket {
        int fd;                       /* listening, -1: none */
        char path[CONTROL_PATH_SIZE]; /* "": none */
};

/* Finds the first directory that only our user can access, and sets path. Call it before the
 * janitor starts, which removes the socket when the monitor was killed. */
int control_socket_choose(struct control_socket *socket, struct error *err);

/* Creates the socket there. Only the user that runs this process may connect. */
int control_socket_open(struct control_socket *socket, struct error *err);

/* Closes the socket and removes it, and its directory if that is empty then. */
void control_socket_close(struct control_socket *socket);
