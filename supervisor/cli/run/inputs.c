/* Reads the files of `cloister run --in`. */
#include "supervisor/cli/run/inputs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file-path.h"
#include "rpc/file-stream.h"
#include "supervisor/cli/command/command.h"

/* ---- the modules beside a script ---- */

enum {
        MODULES_MAX = 2000,                   /* files */
        MODULES_BYTES_MAX = 16 * 1024 * 1024, /* of all of them */
        MODULES_ENTRIES_MAX = 100000,         /* of a folder that are looked at */
        MODULES_DEPTH_MAX = 16,
};

struct script_module {
        char *path; /* below the folder */
        char *text; /* of n bytes */
        size_t n;
};

struct script_modules {
        struct script_module *items; /* the script is not among them */
        size_t n;
        size_t bytes;
        char *left_out; /* a module or package that was too large, or NULL */
};

/* A name in the script's folder that could be imported. */
struct candidate {
        char name[NAME_MAX + 1]; /* without .py */
        bool is_package, is_taken;
};

struct search {
        int folder;
        struct candidate *candidates; /* sorted by name, a package before the module */
        size_t n_candidates;
        struct script_modules *found;
};

static bool is_letter(char c)
{
        return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The length of an identifier at the front; 0: there is none. */
static size_t identifier(const char *text, size_t n)
{
        size_t length = 0;

        while (length < n && is_letter(text[length]))
                length++;
        return length > 0 && isdigit((unsigned char)text[0]) ? 0 : length;
}

static bool is_python(const char *name, size_t *stem)
{
        size_t n = strlen(name);

        *stem = n > 3 ? n - 3 : 0;
        return n > 3 && strcmp(name + n - 3, ".py") == 0 && identifier(name, *stem) == *stem;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(((const struct candidate *)a)->name, ((const struct candidate *)b)->name);
}

/* The kind of an entry; links are of none. */
static mode_t kind_of(int folder, const struct dirent *entry)
{
        struct stat st;

        if (entry->d_type != DT_UNKNOWN)
                return DTTOIF(entry->d_type);
        return fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0
                                                                            : st.st_mode & S_IFMT;
}

static int list_candidates(struct search *s)
{
        const struct dirent *entry;
        size_t stem;

        DIR *folder = fd_open_directory(s->folder, ".");
        s->candidates = calloc(MODULES_ENTRIES_MAX, sizeof(*s->candidates));
        for (size_t seen = 0;
             folder && s->candidates && seen < MODULES_ENTRIES_MAX && (entry = readdir(folder));
             seen++) {
                mode_t kind = kind_of(s->folder, entry);
                size_t n = strlen(entry->d_name);
                bool is_package = kind == S_IFDIR && identifier(entry->d_name, n) == n;
                if (!is_package && (kind != S_IFREG || !is_python(entry->d_name, &stem)))
                        continue;
                struct candidate *c = &s->candidates[s->n_candidates++];
                snprintf(c->name, sizeof(c->name), "%.*s", (int)(is_package ? n : stem),
                         entry->d_name);
                c->is_package = is_package;
        }
        /* Those that were not looked at. */
        if (folder && s->candidates && readdir(folder))
                s->found->left_out = strdup("a part of the folder");
        if (folder)
                closedir(folder);
        if (s->n_candidates > 0)
                qsort(s->candidates, s->n_candidates, sizeof(*s->candidates), by_name);
        return s->candidates ? 0 : -ENOMEM;
}

/* Returns 1 if the file was added, 0 if it cannot be read, -E2BIG, -ENOMEM. */
static int add_file(struct search *s, int folder, const char *name, const char *path)
{
        struct script_modules *found = s->found;
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t n = 0;

        _cleanup_close_ int fd = openat(folder, name,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
            !file_path_valid(path, strlen(path)))
                return 0;
        if (found->n == MODULES_MAX)
                return -E2BIG;
        int r = fd_read_whole(fd, MODULES_BYTES_MAX - found->bytes, &text, &n, NULL);
        if (r < 0)
                return r == -EFBIG ? -E2BIG : r == -ENOMEM ? r : 0;
        struct script_module *grown = reallocarray(found->items, found->n + 1, sizeof(*grown));
        char *copy = grown ? strdup(path) : NULL;
        if (grown)
                found->items = grown;
        if (!copy)
                return -ENOMEM;
        found->items[found->n++] = (struct script_module){copy, take_ptr(text), n};
        found->bytes += n;
        return 1;
}

static int add_package(struct search *s, int parent, const char *name, const char *path,
                       unsigned depth)
{
        const struct dirent *entry;
        char below[FILE_PATH_MAX + 2];
        int r = 0;
        size_t seen = 0, stem;

        DIR *folder = depth < MODULES_DEPTH_MAX ? fd_open_directory(parent, name) : NULL;
        while (folder && r >= 0 && (entry = readdir(folder))) {
                if (++seen > MODULES_ENTRIES_MAX)
                        r = -E2BIG;
                mode_t kind = kind_of(dirfd(folder), entry);
                size_t n = strlen(entry->d_name);
                if (snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) > FILE_PATH_MAX)
                        continue;
                if (kind == S_IFREG && is_python(entry->d_name, &stem))
                        r = add_file(s, dirfd(folder), entry->d_name, below);
                else if (kind == S_IFDIR && identifier(entry->d_name, n) == n &&
                         strcmp(entry->d_name, "__pycache__") != 0)
                        r = add_package(s, dirfd(folder), entry->d_name, below, depth + 1);
        }
        if (folder)
                closedir(folder);
        return r < 0 ? r : 0;
}

static void forget_from(struct script_modules *found, size_t n)
{
        while (found->n > n) {
                found->n--;
                found->bytes -= found->items[found->n].n;
                free(found->items[found->n].path);
                free(found->items[found->n].text);
        }
}

static int take(struct search *s, struct candidate *c)
{
        char file[NAME_MAX + 4];
        size_t before = s->found->n;

        if (c->is_taken)
                return 0;
        c->is_taken = true;
        snprintf(file, sizeof(file), "%s.py", c->name);
        int r = c->is_package ? add_package(s, s->folder, c->name, c->name, 0)
                              : add_file(s, s->folder, file, file);
        if (r != -E2BIG)
                return r < 0 ? r : 0;
        forget_from(s->found, before);
        if (!s->found->left_out)
                s->found->left_out = strdup(c->is_package ? c->name : file);
        return 0;
}

/* Takes all candidates whose names are words of the text. */
static int scan(struct search *s, const char *text, size_t n)
{
        struct candidate key = {};
        int r = 0;

        for (size_t at = 0; at < n && r >= 0;) {
                size_t length = identifier(text + at, n - at);
                if (length == 0) {
                        /* A number, with the letters in it, or another character. */
                        do
                                at++;
                        while (at < n && is_letter(text[at - 1]) && is_letter(text[at]));
                        continue;
                }
                struct candidate *c = NULL;
                if (length <= NAME_MAX) {
                        snprintf(key.name, sizeof(key.name), "%.*s", (int)length, text + at);
                        c = bsearch(&key, s->candidates, s->n_candidates, sizeof(key), by_name);
                }
                while (c && c > s->candidates && by_name(c - 1, &key) == 0)
                        c--;
                for (; c && c < s->candidates + s->n_candidates && by_name(c, &key) == 0 && r >= 0;
                     c++)
                        r = take(s, c);
                at += length;
        }
        return r;
}

/* The folder of the file itself, if the path is a link: as Python has it in sys.path. */
static int open_script_folder(const char *path)
{
        _cleanup_free_ char *real = realpath(path, NULL);
        struct stat st;

        if (!real || stat(real, &st) < 0 || !S_ISREG(st.st_mode))
                return -ENOENT;
        char *slash = strrchr(real, '/');
        slash[slash == real] = '\0';
        int fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* Returns 0, or -ENOMEM. */
static int find_modules(const char *path, const char *text, size_t n, struct script_modules *found)
{
        struct search s = {.found = found};

        _cleanup_close_ int folder = open_script_folder(path);
        if (folder < 0)
                return 0;
        s.folder = folder;
        int r = list_candidates(&s);
        if (r >= 0)
                r = scan(&s, text, n);
        for (size_t i = 0; i < found->n && r >= 0; i++)
                r = scan(&s, found->items[i].text, found->items[i].n);
        free(s.candidates);
        return r < 0 ? r : 0;
}

/* The names may have been chosen by others. */
static void note_left_out(const char *module, const char *script)
{
        const char *slash = strrchr(script, '/');

        cli_fail_text(
                0,
                "%.100s beside %.100s is not given to the code: more than %d files or %d MiB; --in copies it",
                module, slash ? slash + 1 : script, MODULES_MAX, MODULES_BYTES_MAX >> 20);
}

enum { PATH_SIZE = 4096 };

/* ---- the stream ---- */

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

int inputs_add_modules(struct inputs *in, const char *path, const char *text, size_t n,
                       struct error *err)
{
        struct script_modules found = {};
        int r = find_modules(path, text, n, &found), count = (int)found.n;

        if (r < 0)
                error_errno(err, -r, "modules of %s", path);
        for (size_t i = 0; i < found.n && r >= 0; i++)
                r = inputs_add_text(in, found.items[i].path, found.items[i].text, found.items[i].n,
                                    err);
        if (r >= 0 && found.left_out)
                note_left_out(found.left_out, path);
        forget_from(&found, 0);
        free(found.items);
        free(found.left_out);
        return r < 0 ? r : count;
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
