/*
 * Helper programs of a build (the host's interpreter, its dynamic loader, ldconfig): started with
 * /dev/null or a given descriptor as input; output and time are bounded; they are killed when the
 * builder ends.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"

struct process {
        pid_t pid;  /* 0: none */
        int output; /* read ends, non-blocking */
        int errors;
};

/* argv[0] is a path or found in PATH. If it cannot be executed, the child exits with 127 and writes
 * the reason to its errors. */
int process_start(const char *const argv[], struct process *ret, struct error *err);

/*
 * Reads both streams until they end and reaps. Text that does not fit into errors is dropped (errors may
 * be NULL); output beyond its buffer's limit gives -EMSGSIZE, the deadline -ETIMEDOUT; the process
 * is killed then. Returns 0 with the wait status in *status.
 */
int process_finish(struct process *process, int timeout_ms, struct buffer *output,
                   struct buffer *errors, int *status, struct error *err);

/* Like process_finish(), and passes on each line of its errors as it arrives (cut at 200 bytes). */
int process_follow(struct process *process, int timeout_ms, struct buffer *output,
                   void (*line)(void *data, const char *line), void *data, int *status,
                   struct error *err);

/* The last line of an output that is not empty, because sitecustomize may print before a script. NULL without
 * memory. */
char *process_last_line(struct buffer *output);

/* Opens a path below an untrusted root, in which links are followed. Returns a descriptor or negative errno. */
int process_open_inside(int root, const char *path, uint64_t flags);

/*
 * As process_start(), with the directory root as "/", read-only (pivot_root: nothing else is
 * there), in user, pid, network, ipc and mount namespaces of its own, as an ordinary uid without
 * capabilities, with no_new_privs and bounds on memory, time, files and processes, and an
 * environment of PATH alone. If it cannot be confined, it exits with 126 and a line in its errors.
 */
int process_start_confined(const char *root, const char *const argv[], struct process *ret,
                           struct error *err);
