/*
 * The writer socket of a checkpoint: the broker requests on it that the sleeping process writes itself for a branch
 * (docs/branches.md). Only the broker has the other end. The session may run cells meanwhile.
 */
#pragma once

#include <stdbool.h>

struct writer_socket {
        int fd;      /* -1: there is none */
        int signals; /* a signalfd: signals from init */
        int writer;  /* a pidfd: a fork that writes; -1: none */
};

struct writer_socket_hooks {
        /* Takes `signal`, if it is pending. Returns true if init sent it. */
        bool (*is_over)(void);
        /* Forks a child of init. Returns its pid, a negative errno, 0 in the fork. */
        long (*make_writer)(void);
};

/*
 * Runs in the copy, until hooks->is_over(). Forks a writer for each request, one at a time. Returns -1 in the copy, when no writer
 * is left. Returns the descriptor to write to in each writer. The socket is closed in both.
 */
int writer_socket_wait(struct writer_socket *socket, int signal,
                       const struct writer_socket_hooks *hooks);
