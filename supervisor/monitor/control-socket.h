/* The socket on which the broker listens for the owner's commands (policy/control-path.h). Made by
 * the monitor: the broker may make none. */
#pragma once

#include "base/error.h"
#include "policy/control-path.h"

struct control_socket {
        int fd;                       /* listening, -1: none */
        char path[CONTROL_PATH_SIZE]; /* "": none */
};

/* Finds the first directory that is ours alone and sets path, so that the janitor knows it before
 * there is anything to remove. */
int control_socket_choose(struct control_socket *socket, struct error *err);

/* Makes it there. Only this process's owner may connect. */
int control_socket_open(struct control_socket *socket, struct error *err);

/* Closes it and removes its name, and the directory when it was the last one in it. */
void control_socket_close(struct control_socket *socket);
