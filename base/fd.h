/* Descriptors: whole reads and writes, sealed memfds, messages that carry descriptors. All are
 * O_CLOEXEC. */
#pragma once

#include <dirent.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/error.h"

struct ucred;

enum { FD_MESSAGE_MAX = 24 }; /* maximum of descriptors in one message */

/* Writes all n bytes, restarting after signals. Returns 0 or negative errno (-EAGAIN included). */
int fd_write_all(int fd, const void *data, size_t n);
/* As fd_write_all(), to a stream socket: -EPIPE, and no SIGPIPE, if the peer has ended. */
int fd_send_all(int socket, const void *data, size_t n);

/* Reads until n bytes or the end. Returns the bytes read or negative errno. */
ssize_t fd_read_full(int fd, void *data, size_t n);

/* Reads a whole file or stream of at most `most` bytes. *ret is owned by the caller, NUL-terminated
 * beyond its length. -EFBIG: there is more. */
int fd_read_whole(int fd, size_t most, char **ret, size_t *ret_length, struct error *err);

/* A memfd with this content and all seals: it cannot be changed any more. Returns the descriptor. */
int fd_sealed(const char *name, const void *data, size_t n, struct error *err);

/* The same from a file, executable when asked for. */
int fd_sealed_copy(const char *name, int source, struct error *err);

/* The entries of a directory below `parent`, from the first; "." is the parent itself. A link is not
 * followed. The caller closes the stream. NULL: errno tells why. */
DIR *fd_open_directory(int parent, const char *path);

static inline void cleanup_closedir(DIR **stream)
{
        if (*stream)
                closedir(*stream);
}
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)

/* The next entry, without "." and ".."; NULL after the last. */
struct dirent *fd_next_entry(DIR *stream);

int fd_set_nonblocking(int fd, int on);
int fd_set_cloexec(int fd, int on);

/*
 * Sends one message with up to FD_MESSAGE_MAX descriptors (borrowed). Returns 0 or negative errno.
 * Receives one of exactly n bytes or less: returns its length, 0 at the end, negative errno.
 * Descriptors beyond *count, or in a message that was cut, are closed and give -EPROTO. An empty
 * message counts as the end, and its descriptors are closed. *count holds the room in, the number
 * received out. creds (may be NULL): the sender, as reported by the kernel if the socket has
 * SO_PASSCRED; else pid 0.
 */
int fd_send(int socket, const void *data, size_t n, const int *fds, size_t count, int flags);
ssize_t fd_receive(int socket, void *data, size_t n, int *fds, size_t *count, struct ucred *creds,
                   int flags);

/* Refuses descriptors on this socket: a peer that sends one gets EPERM. Does nothing before Linux 6.16:
 * there, the receiver must close them. */
void fd_refuse_rights(int socket);

void fd_close_many(int *fds, size_t count);

/* Calls a function for each descriptor of this process, which may close it. Negative errno without /proc. */
int fd_each(void (*visit)(int fd, const void *data), const void *data);

/* Closes all descriptors from first to last, with or without close_range(2), which some filters and
 * gVisor refuse. Async-signal-safe; no memory is allocated. Returns 0 or negative errno. */
int fd_close_range(unsigned int first, unsigned int last);

/* For a new process: duplicates of these descriptors get the numbers 0 to n - 1, and all others are closed. fds is
 * overwritten. Returns 0 or negative errno. */
int fd_arrange(int *fds, size_t n);

/* Opens /dev/null at each of 0, 1 and 2 that is closed, so that a descriptor opened later cannot take
 * its number. Returns 0, or negative errno and has written a line to standard error: a program calls it
 * first, before it has a log. */
int fd_open_standard_streams(void);
