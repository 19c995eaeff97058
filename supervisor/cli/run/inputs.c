/* Reads the files of `cloister run --in`. */
#include "supervisor/cli/run/inputs.h"

#include <dirent.h>
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
        while (n > 1 && given[n - 1] == '/')
                n--;
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

/* name: below /workspace; path: for messages. */
static int copy_file(struct inputs *in, int fd, const struct stat *st, const char *name,
                     const char *path, struct error *err)
{
        /* Before it is copied into memory. */
        if (S_ISREG(st->st_mode) && (uint64_t)st->st_size > FILE_STREAM_BYTES_MAX - in->bytes)
                return error_set(err, EFBIG, "--in %s: more than %llu GiB", path,
                                 FILE_STREAM_BYTES_MAX >> 30);
        int r = write_record(in->fd, FILE_STREAM_FILE, name, strlen(name));
        if (r < 0)
                return error_errno(err, -r, "--in %s", path);
        in->n++;
        return copy_content(fd, in->fd, &in->bytes, path, err);
}

static int copy_directory(struct inputs *in, int fd, const char *name, unsigned depth,
                          struct error *err);

/* name: of the entry, below /workspace. */
static int copy_entry(struct inputs *in, int folder, const char *entry, const char *name,
                      unsigned depth, struct error *err)
{
        struct stat st;

        if (!file_path_valid(name, strlen(name)))
                return error_set(
                        err, EINVAL,
                        "--in: %.200s cannot be a path in the sandbox: at most %d bytes of UTF-8 without control characters",
                        name, FILE_PATH_MAX);
        _cleanup_close_ int fd = openat(folder, entry,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 && (errno == ELOOP || errno == ENXIO)) {
                in->skipped++;
                return 0;
        }
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "--in: %s", name);
        if (S_ISDIR(st.st_mode))
                return copy_directory(in, fd, name, depth + 1, err);
        if (!S_ISREG(st.st_mode)) {
                in->skipped++;
                return 0;
        }
        if (in->n >= INPUTS_FILES_MAX)
                return error_set(err, E2BIG, "--in: more than %d files; pack them into one archive",
                                 INPUTS_FILES_MAX);
        return copy_file(in, fd, &st, name, name, err);
}

static int copy_directory(struct inputs *in, int fd, const char *name, unsigned depth,
                          struct error *err)
{
        char below[FILE_PATH_MAX + NAME_MAX + 2];
        const struct dirent *entry;
        int r = 0;

        if (depth == INPUTS_DEPTH_MAX)
                return error_set(err, ELOOP, "--in: %.200s: more than %d levels of directories",
                                 name, INPUTS_DEPTH_MAX);
        int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        DIR *folder = own < 0 ? NULL : fdopendir(own);
        if (!folder) {
                r = error_errno(err, errno, "--in: %s", name);
                if (own >= 0)
                        close(own);
                return r;
        }
        while (r >= 0 && (entry = readdir(folder))) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                snprintf(below, sizeof(below), "%s/%s", name, entry->d_name);
                r = copy_entry(in, fd, entry->d_name, below, depth, err);
        }
        closedir(folder);
        return r;
}

int inputs_begin(struct inputs *in, struct error *err)
{
        *in = (struct inputs){.fd = memfd_create("cloister-in", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
        return in->fd < 0 ? error_errno(err, errno, "files of the code") : 0;
}

void inputs_done(struct inputs *in)
{
        if (in->fd >= 0)
                close(in->fd);
        in->fd = -1;
}

int inputs_add_text(struct inputs *in, const char *name, const char *text, size_t n,
                    struct error *err)
{
        int r = write_record(in->fd, FILE_STREAM_FILE, name, strlen(name));

        for (size_t at = 0; at < n && r >= 0; at += FILE_STREAM_PIECE_MAX) {
                size_t piece = n - at < FILE_STREAM_PIECE_MAX ? n - at : FILE_STREAM_PIECE_MAX;
                r = write_record(in->fd, FILE_STREAM_DATA, text + at, piece);
        }
        if (r >= 0)
                r = write_record(in->fd, FILE_STREAM_CLOSE, NULL, 0);
        in->n++;
        in->bytes += n;
        return r < 0 ? error_errno(err, -r, "copy %s", name) : 0;
}

int inputs_add(struct inputs *in, const char *given, struct error *err)
{
        struct input input;
        struct stat st;

        int r = split(given, &input, err);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open(input.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "--in %s", input.path);
        return S_ISDIR(st.st_mode) ? copy_directory(in, fd, input.name, 0, err)
                                   : copy_file(in, fd, &st, input.name, input.path, err);
}

int inputs_end(struct inputs *in, struct error *err)
{
        if (in->n == 0)
                return -1;
        int r = write_record(in->fd, FILE_STREAM_END, NULL, 0);
        if (r < 0)
                return error_errno(err, -r, "files of the code");
        if (lseek(in->fd, 0, SEEK_SET) < 0 ||
            fcntl(in->fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) <
                    0)
                return error_errno(err, errno, "files of the code");
        return take_fd(in->fd);
}
