/* Files as records. */
#include "supervisor/cli/sessions/file-writer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "rpc/file-stream.h"
#include "supervisor/cli/sessions/receiver.h"

int file_writer_open(struct file_writer *ret, const char *directory, bool hidden, struct error *err)
{
        int fd = receiver_start(directory, hidden, err);

        *ret = (struct file_writer){.fd = fd};
        return fd < 0 ? fd : 0;
}

static int send_all(int fd, const char *bytes, size_t n)
{
        while (n > 0) {
                ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
                if (sent < 0 && errno == EINTR)
                        continue;
                if (sent < 0)
                        return -errno;
                bytes += sent;
                n -= (size_t)sent;
        }
        return 0;
}

static int record(struct file_writer *writer, enum file_stream_type type, const void *payload,
                  size_t n)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FILE_STREAM_HEADER + FILE_STREAM_PIECE_MAX);

        int r = file_stream_append(&b, type, payload, n);
        return r < 0 ? r : send_all(writer->fd, buffer_bytes(&b), b.length);
}

int file_writer_begin(struct file_writer *writer, const char *path)
{
        return record(writer, FILE_STREAM_FILE, path, strlen(path));
}

int file_writer_piece(struct file_writer *writer, const void *bytes, size_t n)
{
        const char *at = bytes;
        int r = 0;

        while (n > 0 && r >= 0) {
                size_t piece = n < FILE_STREAM_PIECE_MAX ? n : FILE_STREAM_PIECE_MAX;
                r = record(writer, FILE_STREAM_DATA, at, piece);
                at += piece;
                n -= piece;
        }
        return r;
}

int file_writer_end(struct file_writer *writer)
{
        return record(writer, FILE_STREAM_CLOSE, NULL, 0);
}

int file_writer_abort(struct file_writer *writer)
{
        return record(writer, FILE_STREAM_ABORT, NULL, 0);
}

int file_writer_close(struct file_writer *writer, bool complete, uint32_t *files, struct error *err)
{
        struct file_stream_reply reply = {};
        ssize_t n;

        if (writer->fd < 0)
                return 0;
        if (complete)
                record(writer, FILE_STREAM_END, NULL, 0);
        else
                shutdown(writer->fd, SHUT_WR);
        do
                n = recv(writer->fd, &reply, sizeof(reply), MSG_WAITALL);
        while (n < 0 && errno == EINTR);
        close(writer->fd);
        writer->fd = -1;
        reply.text[sizeof(reply.text) - 1] = '\0';
        if (files)
                *files = reply.files;
        if (n == sizeof(reply) && reply.code)
                return error_set(err, (int)reply.code, "%s", reply.text);
        if (complete && n != sizeof(reply))
                return error_set(err, EIO, "the process that writes the files has ended");
        return 0;
}
