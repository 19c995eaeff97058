/* The planned content of an image. */
#include "rootfs/plan.h"

#include <assert.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/printable.h"

enum {
        ENTRIES_MAX = 2 * 1000 * 1000,
        LINKS_MAX = 40, /* as the kernel follows */
        DEPTH_MAX = 64, /* directories below a tree's root */
        BLOCK = 4096,
};

/* Below these a sandbox has file systems of its own, which would hide what an image has there. */
static const char *const hidden[] = {"/tmp", "/workspace", "/dev", "/proc", "/sys"};

bool plan_leaves_out(const char *top)
{
        static const char *const names[] = {"proc",      "sys", "dev",        "tmp",
                                            "workspace", "run", "lost+found", "boot"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(top, names[i]) == 0)
                        return true;
        return false;
}

struct plan *plan_new(void)
{
        return calloc(1, sizeof(struct plan));
}

static void keep(void *node)
{
}

struct plan *plan_free(struct plan *plan)
{
        if (!plan)
                return NULL;
        tdestroy(plan->index, keep);
        for (size_t i = 0; i < plan->n; i++) {
                free(plan->entries[i].path);
                free(plan->entries[i].text);
        }
        free(plan->entries);
        free(plan);
        return NULL;
}

static int compare(const void *a, const void *b)
{
        return strcmp(a, b);
}

static bool known(const struct plan *plan, const char *path)
{
        return tfind(path, (void *const *)&plan->index, compare) != NULL;
}

/* Takes ownership of path and text, also on failure. */
static int add(struct plan *plan, struct plan_entry entry, struct error *err)
{
        _cleanup_free_ char *path = entry.path, *text = entry.text;

        if (!path)
                return error_errno(err, ENOMEM, "plan of the image");
        if (known(plan, path))
                return 0;
        if (plan->n == ENTRIES_MAX)
                return error_set(err, E2BIG, "more than %d files in an image", ENTRIES_MAX);
        if (plan->n == plan->allocated) {
                size_t room = plan->allocated ? plan->allocated * 2 : 1024;
                struct plan_entry *more = reallocarray(plan->entries, room, sizeof(*more));
                if (!more)
                        return error_errno(err, ENOMEM, "plan of the image");
                plan->entries = more;
                plan->allocated = room;
        }
        if (!tsearch(path, &plan->index, compare))
                return error_errno(err, ENOMEM, "plan of the image");
        plan->entries[plan->n++] = entry;
        plan->bytes += (entry.size + BLOCK - 1) / BLOCK * BLOCK;
        if (entry.kind != PLAN_DIRECTORY)
                plan->files++;
        take_ptr(path);
        take_ptr(text);
        return 0;
}

static int add_below(struct plan *plan, struct plan_entry entry, struct error *err)
{
        if (entry.path) {
                char parent[PATH_MAX];
                snprintf(parent, sizeof(parent), "%s", entry.path);
                *strrchr(parent, '/') = '\0';
                int r = plan_directory(plan, parent, err);
                if (r < 0) {
                        free(entry.path);
                        free(entry.text);
                        return r;
                }
        }
        return add(plan, entry, err);
}

int plan_directory(struct plan *plan, const char *path, struct error *err)
{
        if (strcmp(path, "/") == 0 || *path == '\0' || known(plan, path))
                return 0;
        return add_below(plan, (struct plan_entry){.kind = PLAN_DIRECTORY, .path = strdup(path)},
                         err);
}

int plan_link(struct plan *plan, const char *path, const char *target, struct error *err)
{
        return add_below(plan,
                         (struct plan_entry){
                                 .kind = PLAN_LINK, .path = strdup(path), .text = strdup(target)},
                         err);
}

int plan_text(struct plan *plan, const char *path, const char *text, bool executable,
              struct error *err)
{
        return add_below(plan,
                         (struct plan_entry){.kind = PLAN_TEXT,
                                             .path = strdup(path),
                                             .text = strdup(text),
                                             .executable = executable,
                                             .size = strlen(text)},
                         err);
}

static bool below(const char *path, const char *root)
{
        size_t n = strlen(root);
        return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0' || n == 1);
}

static int check_visible(const char *path, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
                if (below(path, hidden[i]))
                        return error_set(
                                err, EINVAL,
                                "%s: a sandbox has a %s of its own, which would hide it: move it elsewhere",
                                path, hidden[i]);
        return 0;
}

/* Both buffers have PATH_MAX bytes; the length was checked before. */
static void put(char *to, const char *from)
{
        memcpy(to, from, strlen(from) + 1);
}

bool private_files_has(const struct stat *st, mode_t readers)
{
        if (S_ISDIR(st->st_mode))
                readers |= readers >> 2;
        return (S_ISDIR(st->st_mode) || S_ISREG(st->st_mode)) && (~st->st_mode & readers);
}

void private_files_add(struct private_files *to, const char *path)
{
        if (to->n < PRIVATE_NAMED_MAX)
                printable_escape(to->named[to->n], PRIVATE_NAME_SIZE, path);
        to->n++;
}

/* Whether the readers cannot enter one of the directories that lead to a canonical path. */
static bool is_below_private(const char *path, mode_t readers)
{
        char parent[PATH_MAX];
        struct stat st;

        put(parent, path);
        for (char *slash; readers && (slash = strrchr(parent, '/')) && slash > parent;) {
                *slash = '\0';
                if (stat(parent, &st) < 0 || (~st.st_mode & (readers >> 2)))
                        return true;
        }
        return false;
}

/* Checks a path that is not in a tree whose top was checked. */
static int check_public(struct plan *plan, const char *path, const struct stat *st, bool required,
                        struct error *err)
{
        if (!private_files_has(st, plan->readers) && !is_below_private(path, plan->readers))
                return 0;
        if (required)
                return error_set(
                        err, EPERM,
                        "%s: other users of this machine may not read it, and could read it in an image: let them, or set CLOISTER_IMAGE_STORE to a directory that only you can enter",
                        path);
        private_files_add(&plan->private, path);
        return -ENOENT;
}

static int add_file(struct plan *plan, const char *path, const struct stat *st, unsigned flags,
                    struct error *err)
{
        struct plan_entry entry = {
                .kind = PLAN_FILE,
                .path = strdup(path),
                .size = (uint64_t)st->st_size,
                .executable = (st->st_mode & 0111) != 0,
                .required = flags & PLAN_REQUIRED,
                .linked = flags & PLAN_LINKED,
        };
        return add_below(plan, entry, err);
}

/* The state of a path walk: `done` is canonical, `rest` is still to be resolved. */
struct walk {
        char done[PATH_MAX];
        char rest[PATH_MAX];
        int links;
        struct stat st; /* of done */
};

/* Removes the next component from rest; false at its end. */
static bool walk_member(struct walk *w, char *ret)
{
        size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");

        if (n == 0)
                return false;
        memcpy(ret, w->rest + skip, n);
        ret[n] = '\0';
        memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
        return true;
}

static int walk_link(struct walk *w, struct plan *plan, const char *path, struct error *err)
{
        char target[PATH_MAX], rest[2 * PATH_MAX];
        ssize_t n = readlink(path, target, sizeof(target) - 1);

        if (n < 0)
                return -errno;
        target[n] = '\0';
        if (++w->links > LINKS_MAX)
                return -ELOOP;
        if (snprintf(rest, sizeof(rest), "%s/%s", target, w->rest) >= PATH_MAX)
                return -ENAMETOOLONG;
        put(w->rest, rest);
        if (target[0] == '/')
                w->done[0] = '\0';
        return plan ? plan_link(plan, path, target, err) : 0;
}

static int walk_step(struct walk *w, struct plan *plan, const char *member, struct error *err)
{
        char next[2 * PATH_MAX];

        if (strcmp(member, ".") == 0)
                return 0;
        if (strcmp(member, "..") == 0) {
                char *slash = strrchr(w->done, '/');
                if (slash)
                        *slash = '\0';
                return 0;
        }
        if (snprintf(next, sizeof(next), "%s/%s", w->done, member) >= PATH_MAX)
                return -ENAMETOOLONG;
        if (lstat(next, &w->st) < 0)
                return -errno;
        if (S_ISLNK(w->st.st_mode))
                return walk_link(w, plan, next, err);
        if (!S_ISDIR(w->st.st_mode) && w->rest[strspn(w->rest, "/")] != '\0')
                return -ENOTDIR;
        put(w->done, next);
        return 0;
}

/* Resolves path on the host; with a plan, the links on the way become entries.
 * A negative result other than from the plan leaves err unset. */
static int walk(struct walk *w, struct plan *plan, const char *path, struct error *err)
{
        char member[PATH_MAX];
        int r = 0;

        *w = (struct walk){};
        if (snprintf(w->rest, sizeof(w->rest), "%s", path) >= PATH_MAX)
                return -ENAMETOOLONG;
        while (r >= 0 && walk_member(w, member))
                r = walk_step(w, plan, member, err);
        if (r >= 0 && w->done[0] == '\0')
                put(w->done, "/");
        if (r >= 0 && lstat(w->done, &w->st) < 0)
                return -errno;
        return r;
}

int plan_path(struct plan *plan, const char *path, unsigned flags, char **canonical,
              struct error *err)
{
        struct walk w;

        /* First a dry run, so that a broken path does not add some of its links. */
        int r = walk(&w, NULL, path, err);
        if (r < 0 && !(flags & PLAN_REQUIRED) && r != -ENOMEM)
                return -ENOENT;
        if (r < 0)
                return error_errno(err, -r, "%s", path);
        r = check_visible(path, err);
        if (r >= 0)
                r = check_visible(w.done, err);
        if (r >= 0 &&
            (r = check_public(plan, w.done, &w.st, flags & PLAN_REQUIRED, err)) == -ENOENT)
                return r;
        if (r >= 0)
                r = walk(&w, plan, path, err);
        if (r < 0)
                return error_is_set(err) ? r : error_errno(err, -r, "%s", path);

        if (S_ISDIR(w.st.st_mode))
                r = plan_directory(plan, w.done, err);
        else if (S_ISREG(w.st.st_mode))
                r = add_file(plan, w.done, &w.st, flags, err);
        else
                return error_set(err, EINVAL, "%s: neither a file nor a directory", path);
        if (r >= 0 && canonical && !(*canonical = strdup(w.done)))
                return error_errno(err, ENOMEM, "%s", path);
        return r < 0 ? r : S_ISREG(w.st.st_mode);
}

struct tree {
        struct plan *plan;
        const struct plan_tree_rules *rules;
        char path[PATH_MAX]; /* of the current directory, canonical */
        size_t root_length;  /* of the tree's root */
        int depth;
};

static bool excluded(const struct tree *t, const char *path)
{
        const char *relative = path + t->root_length + 1;

        for (const char *const *w = t->rules->without; w && *w; w++)
                if (fnmatch(*w, relative, FNM_PATHNAME) == 0)
                        return true;
        return false;
}

static bool ends_with(const char *text, const char *end)
{
        size_t n = strlen(text), m = strlen(end);
        return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_library(const char *name)
{
        return ends_with(name, ".so") || strstr(name, ".so.");
}

/* Adds a link whose target the image contains or may contain. */
static int tree_link(struct tree *t, const char *path, struct error *err)
{
        struct walk w;
        bool inside = false;

        if (walk(&w, NULL, path, err) >= 0)
                for (const char *const *root = t->rules->roots; *root && !inside; root++)
                        inside = below(w.done, *root);
        /* A directory elsewhere is not part of this tree. */
        if (inside && S_ISDIR(w.st.st_mode) && strncmp(w.done, t->path, t->root_length) != 0)
                inside = false;
        if (!inside || !(S_ISREG(w.st.st_mode) || S_ISDIR(w.st.st_mode))) {
                t->plan->left_out++;
                return 0;
        }
        unsigned flags = is_library(strrchr(w.done, '/') + 1) ? PLAN_LINKED : 0;
        int r = plan_path(t->plan, path, flags, NULL, err);
        return r == -ENOENT ? 0 : r;
}

/* A .pyc starts with magic, flags, then the source's mtime and size, or (flags & 1) a hash of it.
 */
static bool compiled_is_valid(const char *path, uint32_t magic, const struct stat *source,
                              struct stat *ret)
{
        uint32_t head[4];
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        if (fd < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode) ||
            read(fd, head, sizeof(head)) != sizeof(head) || le32toh(head[0]) != magic)
                return false;
        if (le32toh(head[1]) & 1)
                return true;
        return le32toh(head[2]) == (uint32_t)source->st_mtime &&
               le32toh(head[3]) == (uint32_t)source->st_size;
}

static int tree_compiled(struct tree *t, const char *name, const struct stat *source,
                         struct error *err)
{
        char path[3 * PATH_MAX];
        struct stat st;

        if (!t->rules->cache_tag)
                return 0;
        int n = snprintf(path, sizeof(path), "%s/__pycache__/%.*s.%s.pyc", t->path,
                         (int)strlen(name) - 3, name, t->rules->cache_tag);
        if (n < PATH_MAX && compiled_is_valid(path, t->rules->magic, source, &st) &&
            !private_files_has(&st, t->plan->readers))
                return add_file(t->plan, path, &st, 0, err);
        t->plan->stale++;
        return 0;
}

static int tree_file(struct tree *t, const char *path, const char *name, const struct stat *st,
                     struct error *err)
{
        int r = add_file(t->plan, path, st, is_library(name) ? PLAN_LINKED : 0, err);
        if (r >= 0 && ends_with(name, ".py"))
                r = tree_compiled(t, name, st, err);
        return r;
}

static int tree_directory(struct tree *t, struct error *err);

static int tree_entry(struct tree *t, const struct dirent *d, struct error *err)
{
        char path[PATH_MAX + NAME_MAX + 2];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", t->path, d->d_name);
        if (strlen(path) >= PATH_MAX || excluded(t, path) || strcmp(d->d_name, "__pycache__") == 0)
                return 0;
        if (lstat(path, &st) < 0) {
                t->plan->left_out++;
                return 0;
        }
        if (S_ISLNK(st.st_mode))
                return tree_link(t, path, err);
        if (private_files_has(&st, t->plan->readers)) {
                private_files_add(&t->plan->private, path);
                return 0;
        }
        if (S_ISREG(st.st_mode))
                return tree_file(t, path, d->d_name, &st, err);
        if (!S_ISDIR(st.st_mode) || t->depth == DEPTH_MAX) {
                t->plan->left_out++;
                return 0;
        }
        size_t n = strlen(t->path);
        put(t->path, path);
        t->depth++;
        int r = tree_directory(t, err);
        t->depth--;
        t->path[n] = '\0';
        return r;
}

static int tree_directory(struct tree *t, struct error *err)
{
        _cleanup_closedir_ DIR *stream = opendir(t->path);
        int r = 0;

        if (!stream && t->depth == 0)
                return error_errno(err, errno, "%s", t->path);
        if (!stream) {
                t->plan->left_out++;
                return 0;
        }
        if (t->depth > 0)
                r = plan_directory(t->plan, t->path, err);
        for (struct dirent *d; r >= 0 && (d = fd_next_entry(stream));)
                r = tree_entry(t, d, err);
        return r;
}

int plan_tree(struct plan *plan, const char *path, const struct plan_tree_rules *rules,
              struct error *err)
{
        _cleanup_free_ char *root = NULL;
        struct tree t = {.plan = plan, .rules = rules};

        int r = plan_path(plan, path, PLAN_REQUIRED, &root, err);
        if (r != 0) /* a zip file, or an error */
                return r < 0 ? r : 0;
        assert(root);
        t.root_length = strlen(root);
        put(t.path, root);
        return tree_directory(&t, err);
}
