/* Reads the files of `cloister run --in`. */
#include "supervisor/cli/inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file-path.h"
#include "rpc/file-stream.h"

enum { PATH_SIZE = 4096 };

struct input {
        char path[PATH_SIZE];
        const char *name; /* points into path or into the argument */
};

/* FILE=NAME, unless a file of that whole name exists. */
static int split(const char *given, struct input *input, struct error *err)
{
        const char *equals = strrchr(given, '=');
        bool whole = !equals || access(given, F_OK) == 0;
        size_t n = whole ? strlen(given) : (size_t)(equals - given);

        if (n >= sizeof(input->path))
                return error_errno(err, ENAMETOOLONG, "--in");
        snprintf(input->path, sizeof(input->path), "%.*s", (int)n, given);
        const char *slash = strrchr(input->path, '/');
        input->name = !whole ? equals + 1 : (slash ? slash + 1 : input->path);
        if (!file_path_valid(input->name, strlen(input->name)))
                return error_set(
                        err, EINVAL,
                        "--in %.200s: \"%.100s\" cannot be a name below /workspace; FILE=NAME gives another",
                        given, input->name);
        return 0;
}

static int write_record(int to, enum file_stream_type type, const void *payload, size_t n)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FILE_STREAM_HEADER + FILE_STREAM_PIECE_MAX);

        int r = file_stream_append(&b, type, payload, n);
        return r < 0 ? r : fd_write_all(to, buffer_bytes(&b), b.length);
}

static int copy_content(int from, int to, uint64_t *total, const char *path, struct error *err)
{
        _cleanup_free_ char *piece = malloc(FILE_STREAM_PIECE_MAX);
        ssize_t n;
        int r = 0;

        if (!piece)
                return error_errno(err, ENOMEM, "--in %s", path);
        while (r >= 0 && (n = fd_read_full(from, piece, FILE_STREAM_PIECE_MAX)) > 0) {
                *total += (uint64_t)n;
                if (*total > FILE_STREAM_BYTES_MAX)
                        return error_set(err, EFBIG, "--in: more than %llu GiB",
                                         FILE_STREAM_BYTES_MAX >> 30);
                r = write_record(to, FILE_STREAM_DATA, piece, (size_t)n);
        }
        if (r >= 0)
                r = n < 0 ? (int)n : write_record(to, FILE_STREAM_CLOSE, NULL, 0);
        return r < 0 ? error_errno(err, -r, "--in %s", path) : 0;
}

static int copy_file(const struct input *input, int to, uint64_t *total, struct error *err)
{
        struct stat st;

        _cleanup_close_ int fd = open(input->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "--in %s", input->path);
        if (S_ISDIR(st.st_mode))
                return error_set(err, EISDIR, "--in %s: is a directory; name its files",
                                 input->path);
        /* Before it is copied into memory. */
        if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > FILE_STREAM_BYTES_MAX - *total)
                return error_set(err, EFBIG, "--in %s: more than %llu GiB", input->path,
                                 FILE_STREAM_BYTES_MAX >> 30);
        int r = write_record(to, FILE_STREAM_FILE, input->name, strlen(input->name));
        if (r < 0)
                return error_errno(err, -r, "--in %s", input->path);
        return copy_content(fd, to, total, input->path, err);
}

static int copy_all(const char *const *given, size_t n, int to, struct error *err)
{
        struct input input;
        uint64_t total = 0;

        for (size_t i = 0; i < n; i++) {
                int r = split(given[i], &input, err);
                if (r >= 0)
                        r = copy_file(&input, to, &total, err);
                if (r < 0)
                        return r;
        }
        int r = write_record(to, FILE_STREAM_END, NULL, 0);
        return r < 0 ? error_errno(err, -r, "--in") : 0;
}

int inputs_collect(const char *const *given, size_t n, struct error *err)
{
        _cleanup_close_ int fd = memfd_create("cloister-in", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return error_errno(err, errno, "--in");
        int r = copy_all(given, n, fd, err);
        if (r < 0)
                return r;
        if (lseek(fd, 0, SEEK_SET) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                return error_errno(err, errno, "--in");
        return take_fd(fd);
}
