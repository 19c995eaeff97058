/*
 * The door of a checkpoint: a socket on which the broker asks its sleeping process to write itself for a branch
 * (docs/branches.md). Nobody else has the other end, and the session need not rest meanwhile.
 */
#pragma once

#include <stdbool.h>

struct door {
        int fd;      /* -1: there is none */
        int signals; /* a signalfd: init has something to say */
        int writer;  /* a pidfd: a fork that writes; -1: none */
};

struct door_hooks {
        bool (*is_over)(
                void); /* takes `signal`, if that is pending, and says whether it was the one */
        /* Forks a child of init. Returns its pid, a negative errno, 0 in the fork. */
        long (*make_writer)(void);
};

/*
 * In the copy. Waits until it is over, and makes a writer for each request, one at a time. Returns -1 then: no writer
 * is left. Returns in each writer too: the descriptor that it is to write to. The door is closed in both.
 */
int door_wait(struct door *door, int signal, const struct door_hooks *hooks);
