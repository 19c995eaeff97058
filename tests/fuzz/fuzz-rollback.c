/*
 * Changes of /workspace by code: a tree is made, its snapshot is taken, the tree is changed and
 * rolled back. It must be as before. Each byte pair is an operation and its name; most fail.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "sandbox-init/worker/rollback/rollback.h"
#include "tests/fuzz/fuzz.h"

enum {
        OPERATIONS_MAX = 200,
        FDS_MAX = 8,
        LISTING_MAX = 64 * 1024 * 1024,
        DEEP = SNAPSHOT_DEPTH_MAX + 2,
        LONG_NAME = 255,
};

struct input {
        const uint8_t *at;
        size_t n;
};

struct world {
        int root;
        int fds[FDS_MAX];
        unsigned n_fds;
};

/* For operations that may fail because of existing files. */
static void may_fail(int r)
{
        (void)r;
}

static uint8_t take(struct input *in)
{
        if (in->n == 0)
                return 0;
        in->n--;
        return *in->at++;
}

/* ---- names ---- */

static const char *component(unsigned i)
{
        static char longest[LONG_NAME + 1];
        static const char *const names[] = {"a",         "b",        "c",     "d",
                                            "new\nline", "\xff\xfe", longest, "e"};

        memset(longest, 'n', LONG_NAME);
        return names[i % (sizeof(names) / sizeof(names[0]))];
}

/* One to three components; 0: the root itself. */
static const char *name(uint8_t byte, char text[1024])
{
        if (byte == 0)
                return ".";
        int n = snprintf(text, 1024, "%s", component(byte));
        if (byte & 0x40)
                n += snprintf(text + n, 1024 - (size_t)n, "/%s", component(byte >> 3));
        if (byte & 0x80)
                snprintf(text + n, 1024 - (size_t)n, "/%s", component(byte >> 2));
        return text;
}

/* A directory below the root, and a name in it. Links may lead to that directory, but not out of the root: this
 * process may be root's, and a link to /etc/passwd or .. is the host's. */
struct place {
        int dir; /* -1: there is none */
        char last[LONG_NAME + 1];
};

static void close_place(struct place *p)
{
        if (p->dir >= 0)
                close(p->dir);
}

static struct place find(const struct world *w, const char *path)
{
        struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
        const char *slash = strrchr(path, '/');
        char parent[1024];
        struct place p;

        snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1,
                 slash ? path : ".");
        snprintf(p.last, sizeof(p.last), "%s", slash ? slash + 1 : path);
        p.dir = (int)syscall(SYS_openat2, w->root, parent, &how, sizeof(how));
        return p;
}

static bool is_link(const struct place *p)
{
        struct stat st;

        return fstatat(p->dir, p->last, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISLNK(st.st_mode);
}

static const mode_t modes[] = {0644, 0, 0755, 0700, 0400, 0222, 01777, 04755};
static const char *const targets[] = {"a", "/nowhere/at/all", "d", ".", "./e", "b/c",
                                      "",  "nowhere"};

/* ---- operations ---- */

static void write_file(const struct place *p, uint8_t what)
{
        _cleanup_close_ int fd = openat(
                p->dir, p->last, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CREAT | O_CLOEXEC, 0644);
        char content[5000];

        memset(content, what, sizeof(content));
        if (fd >= 0)
                may_fail((int)pwrite(fd, content, what * 19U, what % 4 * 4096));
}

static void cut_file(const struct place *p, uint8_t what)
{
        static const off_t lengths[] = {0, 1, 4096, 5000, 1 << 20, (off_t)1 << 40};
        _cleanup_close_ int fd = openat(p->dir, p->last,
                                        O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd >= 0)
                may_fail(ftruncate(fd, lengths[what % 6]));
}

static void hold(struct world *w, const struct place *p)
{
        int fd = openat(p->dir, p->last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd >= 0 && w->n_fds < FDS_MAX)
                w->fds[w->n_fds++] = fd;
        else if (fd >= 0)
                close(fd);
}

static void go_deep(const struct world *w, uint8_t what)
{
        int at = dup(w->root), next;

        for (int i = 0; at >= 0 && i < DEEP - what % 4; i++) {
                may_fail(mkdirat(at, "x", 0755));
                next = openat(at, "x", O_PATH | O_DIRECTORY | O_CLOEXEC);
                close(at);
                at = next;
        }
        if (at >= 0)
                close(at);
}

static void enter(const struct place *p)
{
        _cleanup_close_ int fd = openat(p->dir, p->last,
                                        O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0)
                may_fail(fchdir(fd));
}

/* The operations that no tree needs more than one name for. */
static void change(struct world *w, unsigned operation, const struct place *p, uint8_t what)
{
        const struct timespec times[2] = {{what, what}, {what * 1000, what}};

        switch (operation) {
        case 0:
                write_file(p, what);
                break;
        case 1:
                may_fail(mkdirat(p->dir, p->last, 0755));
                break;
        case 2:
                may_fail(unlinkat(p->dir, p->last, 0));
                break;
        case 3:
                may_fail(unlinkat(p->dir, p->last, AT_REMOVEDIR));
                break;
        case 4: /* follows a link */
                if (!is_link(p))
                        may_fail(fchmodat(p->dir, p->last, modes[what % 8], 0));
                break;
        case 5:
                may_fail(utimensat(p->dir, p->last, times, AT_SYMLINK_NOFOLLOW));
                break;
        case 6:
                cut_file(p, what);
                break;
        case 7:
                may_fail(mkfifoat(p->dir, p->last, 0600));
                break;
        case 8:
                hold(w, p);
                break;
        default:
                enter(p);
        }
}

static void operate(struct world *w, struct input *in)
{
        enum { CHANGES = 10 };
        char text[1024];
        unsigned operation = take(in) % 16;
        _cleanup_(close_place) struct place p = find(w, name(take(in), text));
        uint8_t what = take(in);

        if (p.dir < 0)
                return;
        if (operation < CHANGES) {
                change(w, operation, &p, what);
        } else if (operation == CHANGES) {
                go_deep(w, what);
        } else if (operation == CHANGES + 1) {
                may_fail(symlinkat(targets[what % 8], p.dir, p.last));
        } else {
                _cleanup_(close_place) struct place to = find(w, name(what, text));
                if (operation == CHANGES + 2)
                        may_fail(linkat(p.dir, p.last, to.dir, to.last, 0));
                else
                        may_fail(renameat2(p.dir, p.last, to.dir, to.last,
                                           operation == CHANGES + 3 ? RENAME_EXCHANGE : 0));
        }
}

/* Until the byte that ends them. */
static void operate_all(struct world *w, struct input *in)
{
        for (int i = 0; i < OPERATIONS_MAX && in->n > 0; i++) {
                if (*in->at == 0xff) {
                        take(in);
                        return;
                }
                operate(w, in);
        }
}

/* ---- what is there ---- */

static void add(struct buffer *b, const void *bytes, size_t n)
{
        assert(buffer_append(b, bytes, n) == 0);
}

static void list_folder(int folder, struct buffer *b);

static void list_one(int folder, const char *path, struct buffer *b)
{
        char content[8192], line[400];
        struct stat st;

        if (fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return;
        int n = snprintf(line, sizeof(line), "%s %o %lld %ld %ld %ld\n", path, st.st_mode,
                         S_ISDIR(st.st_mode) ? 0 : (long long)st.st_size,
                         S_ISDIR(st.st_mode) ? 0 : (long)st.st_nlink, (long)st.st_mtim.tv_sec,
                         st.st_mtim.tv_nsec);
        add(b, line, (size_t)n);
        if (S_ISLNK(st.st_mode))
                add(b, content, (size_t)readlinkat(folder, path, content, sizeof(content)));
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                return;
        /* An ordinary user needs that to read it. */
        may_fail(fchmodat(folder, path, st.st_mode | 0700, 0));
        _cleanup_close_ int fd = openat(folder, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        assert(fd >= 0);
        if (S_ISDIR(st.st_mode))
                list_folder(fd, b);
        else
                add(b, content, (size_t)read(fd, content, sizeof(content)));
        may_fail(fchmodat(folder, path, st.st_mode & 07777, 0));
}

static int is_entry(const struct dirent *entry)
{
        return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static void list_folder(int folder, struct buffer *b)
{
        struct dirent **names;
        int n = scandirat(folder, ".", &names, is_entry, alphasort);

        assert(n >= 0);
        for (int i = 0; i < n; i++) {
                list_one(folder, names[i]->d_name, b);
                free(names[i]);
        }
        free(names);
        add(b, "up\n", 3);
}

static void empty_folder(int folder)
{
        struct dirent **names;
        int n = scandirat(folder, ".", &names, is_entry, NULL);

        for (int i = 0; i < n; i++) {
                const char *one = names[i]->d_name;
                struct stat st;
                if (fstatat(folder, one, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
                        may_fail(fchmodat(folder, one, 0700, 0));
                        int below = openat(folder, one,
                                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                        if (below >= 0)
                                empty_folder(below);
                        may_fail(unlinkat(folder, one, AT_REMOVEDIR));
                } else {
                        may_fail(unlinkat(folder, one, 0));
                }
                free(names[i]);
        }
        if (n >= 0)
                free(names);
        close(folder);
}

/* ---- the run ---- */

static bool run(struct world *w, struct input *in, const char *root)
{
        static struct rollback_report report;
        struct snapshot snapshot = {0};
        _cleanup_buffer_ struct buffer before = BUFFER_INIT(LISTING_MAX),
                                       after = BUFFER_INIT(LISTING_MAX);
        uint64_t bytes_max = (uint64_t)take(in) << 10;

        operate_all(w, in);
        list_one(AT_FDCWD, root, &before);
        int r = snapshot_take(&snapshot, root, bytes_max);
        assert(r == 0 || r == -E2BIG || r == -EFBIG || r == -ELOOP || r == -ETIMEDOUT ||
               r == -ENOMEM);
        list_one(AT_FDCWD, root, &after);
        assert(after.length == before.length &&
               memcmp(buffer_bytes(&after), buffer_bytes(&before), before.length) == 0);
        if (r < 0)
                return false;
        operate_all(w, in);
        rollback_run(&snapshot, &report);
        snapshot_free(&snapshot);
        assert(report.failed.total == 0);
        buffer_consume(&after, after.length);
        list_one(AT_FDCWD, root, &after);
        if (after.length != before.length ||
            memcmp(buffer_bytes(&after), buffer_bytes(&before), before.length) != 0) {
                fprintf(stderr, "before:\n%.*s\nafter:\n%.*s\n", (int)before.length,
                        buffer_bytes(&before), (int)after.length, buffer_bytes(&after));
                abort();
        }
        return true;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        char root[] = "/dev/shm/cloister-fuzz-XXXXXX";
        struct input in = {data, n};

        _cleanup_close_ int home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

        umask(022);
        if (home < 0 || !mkdtemp(root))
                abort();
        struct world w = {.root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        assert(w.root >= 0);
        bool accepted = run(&w, &in, root);
        for (unsigned i = 0; i < w.n_fds; i++)
                close(w.fds[i]);
        chmod(root, 0700);
        if (fchdir(home) < 0)
                abort();
        empty_folder(w.root);
        rmdir(root);
        return accepted;
}

FUZZ_TARGET
