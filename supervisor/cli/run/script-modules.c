/* Finds the modules beside a script. */
#include "supervisor/cli/run/script-modules.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file-path.h"

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
        s->candidates = calloc(SCRIPT_MODULES_ENTRIES_MAX, sizeof(*s->candidates));
        for (size_t seen = 0; folder && s->candidates && seen < SCRIPT_MODULES_ENTRIES_MAX &&
                              (entry = readdir(folder));
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
        if (found->n == SCRIPT_MODULES_MAX)
                return -E2BIG;
        int r = fd_read_whole(fd, SCRIPT_MODULES_BYTES_MAX - found->bytes, &text, &n, NULL);
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

        DIR *folder = depth < SCRIPT_MODULES_DEPTH_MAX ? fd_open_directory(parent, name) : NULL;
        while (folder && r >= 0 && (entry = readdir(folder))) {
                if (++seen > SCRIPT_MODULES_ENTRIES_MAX)
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

int script_modules_find(const char *path, const char *text, size_t n, struct script_modules *ret)
{
        struct script_modules found = {};
        struct search s = {.found = &found};

        *ret = found;
        _cleanup_close_ int folder = open_script_folder(path);
        if (folder < 0)
                return 0;
        s.folder = folder;
        int r = list_candidates(&s);
        if (r >= 0)
                r = scan(&s, text, n);
        for (size_t i = 0; i < found.n && r >= 0; i++)
                r = scan(&s, found.items[i].text, found.items[i].n);
        free(s.candidates);
        if (r < 0)
                script_modules_done(&found);
        *ret = found;
        return r < 0 ? r : 0;
}

void script_modules_done(struct script_modules *modules)
{
        forget_from(modules, 0);
        free(modules->items);
        free(modules->left_out);
        *modules = (struct script_modules){};
}
