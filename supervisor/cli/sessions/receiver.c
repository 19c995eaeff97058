/* Writes the files of `cloister run --out` for the broker. */
#include "supervisor/cli/sessions/receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file-path.h"
#include "base/host-file.h"
#include "base/landlock.h"
#include "supervisor/cli/command/process.h"

enum {
        SOCKET_FD = 3,
        DIRECTORY_FD,
        FDS,
        READ_AT_ONCE = 256 * 1024,
};

struct receiver {
        int directory;
        bool hidden; /* names with a leading dot are allowed */
        struct file_stream stream;
        struct buffer in;
        /* The file being written. */
        int parent, fd;
        char path[FILE_STREAM_TEXT_MAX]; /* for messages; may be cut */
        char name[256], temporary[64];
        uint32_t written;
};

static int open_below(int directory, const char *name, uint64_t flags, uint64_t mode)
{
        const struct open_how how = {
                .flags = flags | O_CLOEXEC | O_NOFOLLOW,
                .mode = mode,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };

        return (int)syscall(SYS_openat2, directory, name, &how, sizeof(how));
}

/* Opens the directory of the last component, and creates missing ones. */
static int open_parent(struct receiver *r, const char *path, struct error *err)
{
        char component[sizeof(r->name)];
        const char *slash;

        r->parent = fcntl(r->directory, F_DUPFD_CLOEXEC, 0);
        while (r->parent >= 0 && (slash = strchr(path, '/'))) {
                snprintf(component, sizeof(component), "%.*s", (int)(slash - path), path);
                if (mkdirat(r->parent, component, 0777) < 0 && errno != EEXIST)
                        return error_errno(err, errno, "%s", r->path);
                int below = open_below(r->parent, component, O_RDONLY | O_DIRECTORY, 0);
                if (below < 0)
                        return error_errno(err, errno, "%s", r->path);
                close(r->parent);
                r->parent = below;
                path = slash + 1;
        }
        snprintf(r->name, sizeof(r->name), "%s", path);
        return r->parent < 0 ? error_errno(err, errno, "%s", r->path) : 0;
}

static int begin_file(struct receiver *r, const struct file_record *record, struct error *err)
{
        char path[sizeof(r->name)];

        if (!r->hidden && file_path_hidden(record->payload, record->n))
                return error_set(err, EPERM, "%.*s: a name with a leading dot", (int)record->n,
                                 record->payload);
        snprintf(path, sizeof(path), "%.*s", (int)record->n, record->payload);
        snprintf(r->path, sizeof(r->path), "%.*s", (int)sizeof(r->path) - 1, path);
        int code = open_parent(r, path, err);
        if (code < 0)
                return code;
        snprintf(r->temporary, sizeof(r->temporary), ".cloister-%d-%u.part", getpid(), r->written);
        r->fd = host_file_open(HOST_FILE_RECEIVED, r->parent, r->temporary, err);
        return r->fd < 0 ? error_context(err, "%s", r->path) : 0;
}

static void leave_file(struct receiver *r, bool remove)
{
        if (remove && r->fd >= 0)
                unlinkat(r->parent, r->temporary, 0);
        if (r->fd >= 0)
                close(r->fd);
        if (r->parent >= 0)
                close(r->parent);
        r->fd = r->parent = -1;
}

static int end_file(struct receiver *r, struct error *err)
{
        if (renameat(r->parent, r->temporary, r->parent, r->name) < 0)
                return error_errno(err, errno, "%s", r->path);
        r->written++;
        leave_file(r, false);
        return 0;
}

static int take(struct receiver *r, const struct file_record *record, struct error *err)
{
        int code = 0;

        switch (record->type) {
        case FILE_STREAM_FILE:
                return begin_file(r, record, err);
        case FILE_STREAM_DATA:
                code = fd_write_all(r->fd, record->payload, record->n);
                return code < 0 ? error_errno(err, -code, "%s", r->path) : 0;
        case FILE_STREAM_CLOSE:
                return end_file(r, err);
        default:
                leave_file(r, true);
                return 0;
        }
}

/* Returns 0 at the end of the stream, -ECANCELED if the peer closed the socket early, negative
 * errno with an error otherwise. */
static int receive(struct receiver *r, int socket, struct error *err)
{
        struct file_record record;
        int code;

        while (!r->stream.ended) {
                code = file_stream_peek(&r->stream, &r->in, &record, err);
                if (code < 0)
                        return code;
                if (code > 0) {
                        code = take(r, &record, err);
                        if (code < 0)
                                return code;
                        buffer_consume(&r->in, FILE_STREAM_HEADER + record.n);
                        continue;
                }
                ssize_t n = buffer_read_fd(&r->in, socket, READ_AT_ONCE);
                if (n == 0 || (n < 0 && n != -EINTR && n != -EAGAIN))
                        return -ECANCELED;
        }
        return 0;
}

void receiver_serve(int socket, int directory, bool hidden)
{
        struct receiver r = {
                .directory = directory,
                .hidden = hidden,
                .in = BUFFER_INIT(FILE_STREAM_HEADER + FILE_STREAM_PIECE_MAX + READ_AT_ONCE),
                .parent = -1,
                .fd = -1,
        };
        struct file_stream_reply reply = {};
        struct error err = {};

        int code = receive(&r, socket, &err);
        leave_file(&r, true);
        buffer_done(&r.in);
        if (code == -ECANCELED)
                return;
        reply.files = r.written;
        if (code < 0) {
                reply.code = (uint32_t)err.code;
                snprintf(reply.text, sizeof(reply.text), "%.*s", FILE_STREAM_TEXT_MAX - 1,
                         err.text);
        }
        send(socket, &reply, sizeof(reply), MSG_NOSIGNAL);
}

struct start {
        int directory;
        bool hidden;
};

static _Noreturn void run(int socket, const void *data)
{
        const struct start *start = data;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int fds[FDS] = {null, null, null, socket, start->directory};
        char path[32];

        /* Root keeps CAP_DAC_OVERRIDE: it may write into the directories of others. */
        if (fd_arrange(fds, FDS) < 0 || setsid() < 0 ||
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            capabilities_keep(UINT64_C(1) << CAP_DAC_OVERRIDE) < 0)
                _exit(1);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", DIRECTORY_FD);
        const struct landlock_rule rule = {path,
                                           LANDLOCK_READ | LANDLOCK_CHANGE | LANDLOCK_TRUNCATE};
        landlock_confine(&rule, 1, false, NULL);
        receiver_serve(SOCKET_FD, DIRECTORY_FD, start->hidden);
        _exit(0);
}

static int open_directory(const char *directory, struct error *err)
{
        if (mkdir(directory, 0777) < 0 && errno != EEXIST)
                return error_errno(err, errno, "--out %s", directory);
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "--out %s", directory);
        if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
                close(fd);
                return error_errno(err, errno, "--out %s: write there", directory);
        }
        return fd;
}

int receiver_start(const char *directory, bool hidden, struct error *err)
{
        _cleanup_close_ int fd = open_directory(directory, err);

        if (fd < 0)
                return fd;
        return process_start_apart(run, &(struct start){fd, hidden}, "--out", err);
}

/* ---- the other end ---- */

int file_writer_open(struct file_writer *ret, const char *directory, bool hidden, struct error *err)
{
        int fd = receiver_start(directory, hidden, err);

        *ret = (struct file_writer){.fd = fd};
        return fd < 0 ? fd : 0;
}

int file_writer_put(struct file_writer *writer, enum file_stream_type type, const void *payload,
                    size_t n)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FILE_STREAM_HEADER + FILE_STREAM_PIECE_MAX);

        int r = file_stream_append(&b, type, payload, n);
        return r < 0 ? r : fd_send_all(writer->fd, buffer_bytes(&b), b.length);
}

int file_writer_piece(struct file_writer *writer, const void *bytes, size_t n)
{
        const char *at = bytes;
        int r = 0;

        while (n > 0 && r >= 0) {
                size_t piece = n < FILE_STREAM_PIECE_MAX ? n : FILE_STREAM_PIECE_MAX;
                r = file_writer_put(writer, FILE_STREAM_DATA, at, piece);
                at += piece;
                n -= piece;
        }
        return r;
}

int file_writer_close(struct file_writer *writer, bool complete, struct error *err)
{
        struct file_stream_reply reply = {};
        ssize_t n;

        if (writer->fd < 0)
                return 0;
        if (complete)
                file_writer_put(writer, FILE_STREAM_END, NULL, 0);
        else
                shutdown(writer->fd, SHUT_WR);
        do
                n = recv(writer->fd, &reply, sizeof(reply), MSG_WAITALL);
        while (n < 0 && errno == EINTR);
        close(writer->fd);
        writer->fd = -1;
        reply.text[sizeof(reply.text) - 1] = '\0';
        if (n == sizeof(reply) && reply.code)
                return error_set(err, (int)reply.code, "%s", reply.text);
        if (complete && n != sizeof(reply))
                return error_set(err, EIO, "the process that writes the files has ended");
        return 0;
}
