/* Gives an imported tree the Python of another image. */
#include "rootfs/borrowed-python.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "base/program.h"
#include "policy/image.h"
#include "policy/launcher.h"
#include "rootfs/interpreter.h"
#include "rootfs/process.h"
#include "rootfs/store.h"

enum { PROGRAM_MAX = 8 * 1024 * 1024, DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static const char launcher[] = "/cloister-python3";

/* The image that lends it. */
struct lender {
        const char *name;
        struct image_info info;
        int root;
        char path[PATH_MAX]; /* of the root, without links */
};

/* The path without links of a file or directory of the image, below BORROWED_PLACE. -ENOENT: it is missing. */
static int find_inside(const struct lender *l, const char *path, char *ret, size_t size)
{
        char link[64], real[PATH_MAX];
        size_t n = strlen(l->path);
        _cleanup_close_ int fd = process_open_inside(l->root, path, O_PATH);

        if (fd < 0)
                return fd;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, real, sizeof(real) - 1);
        if (length < 0)
                return -errno;
        real[length] = '\0';
        if (strncmp(real, l->path, n) != 0 || real[n] != '/')
                return -EXDEV;
        return snprintf(ret, size, BORROWED_PLACE "%s", real + n) >= (int)size ? -ENAMETOOLONG : 0;
}

static int open_lender(int store, const char *name, struct lender *l, struct error *err)
{
        char path[IMAGE_NAME_SIZE + 8], link[64];

        l->name = name;
        int r = image_name_valid(name) ? store_find(store, name, &l->info, err) : 0;
        if (r == 0)
                return error_set(
                        err, ENOENT,
                        "--python-from: there is no image '%s' (see 'cloister image list')", name);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "%s/root", name);
        l->root = openat(store, path, DIRECTORY);
        if (l->root < 0)
                return error_errno(err, errno, "image %s", name);
        snprintf(link, sizeof(link), "/proc/self/fd/%d", l->root);
        ssize_t n = readlink(link, l->path, sizeof(l->path) - 1);
        if (n < 0)
                return error_errno(err, errno, "image %s", name);
        l->path[n] = '\0';
        return 0;
}

/* A path beside its interpreter: the directory of that ("/usr/bin"), and `rest`. Returns the length. */
static int beside(const char *python, const char *rest, char *ret, size_t size)
{
        const char *slash = strrchr(python, '/');

        return snprintf(ret, size, "%.*s%s", slash ? (int)(slash - python) : 0, python, rest);
}

static int check_kind(const struct lender *l, struct error *err)
{
        char path[PATH_MAX];

        beside(l->info.python, "/../pyvenv.cfg", path, sizeof(path));
        _cleanup_close_ int settings = process_open_inside(l->root, path, O_PATH);
        _cleanup_close_ int borrowed = process_open_inside(l->root, BORROWED_PLACE, O_PATH);
        if (settings < 0 && borrowed < 0)
                return 0;
        return error_set(
                err, ENOTSUP,
                "--python-from: the Python of %s is that of %s: name an image that was made from an ordinary interpreter, as 'cloister image build' makes",
                l->name, borrowed >= 0 ? "another image" : "a virtual environment");
}

/* Where the loader of its interpreter searches. */
static int find_libraries(const struct lender *l, char *ret, size_t size)
{
        char own[PATH_MAX];
        const char *const places[] = {
#if defined(__x86_64__)
                "/lib/x86_64-linux-gnu",
                "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
                "/lib/aarch64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu",
#endif
                "/lib64",
                "/usr/lib64",
                "/usr/local/lib",
                "/lib",
                "/usr/lib",
                own
        };
        char path[PATH_MAX];
        size_t n = 0;

        beside(l->info.python, "/../lib", own, sizeof(own));
        *ret = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                if (find_inside(l, places[i], path, sizeof(path)) < 0)
                        continue;
                n += (size_t)snprintf(ret + n, size - n, "%s%s", n > 0 ? ":" : "", path);
                if (n >= size)
                        return -ENAMETOOLONG;
        }
        return 0;
}

static int fill_slots(const struct lender *l, struct launcher_slots *slots, struct error *err)
{
        char loader[PATH_MAX];
        _cleanup_close_ int program = process_open_inside(l->root, l->info.python,
                                                          O_RDONLY | O_NONBLOCK);

        if (program < 0)
                return error_errno(err, -program, "%s of image %s", l->info.python, l->name);
        int r = link_read_loader(program, loader);
        if (r >= 0)
                r = find_inside(l, loader, slots->loader, sizeof(slots->loader));
        if (r >= 0)
                r = find_inside(l, l->info.python, slots->program, sizeof(slots->program));
        if (r >= 0)
                r = find_libraries(l, slots->libraries, sizeof(slots->libraries));
        if (r >= 0 && beside(slots->program, launcher, slots->self, sizeof(slots->self)) >=
                              (int)sizeof(slots->self))
                r = -ENAMETOOLONG;
        return r < 0 ? error_errno(err, -r, "%s of image %s", l->info.python, l->name) : 0;
}

/* ---- the tree ---- */

/* Makes the directories of BORROWED_PLACE. A link of the tree is not followed. */
static int make_place(int root, struct error *err)
{
        static const char *const names[] = {"opt", "cloister", "python"};
        _cleanup_close_ int at = -1;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                int above = at < 0 ? root : at;
                int made = mkdirat(above, names[i], 0755);
                if (made < 0 && (errno != EEXIST || i > 0))
                        return error_errno(err, errno, "make " BORROWED_PLACE);
                int next = openat(above, names[i], DIRECTORY);
                if (next < 0)
                        return error_errno(err, errno, "make " BORROWED_PLACE);
                cleanup_close(&at);
                at = next;
        }
        return take_fd(at);
}

static int write_launcher(int place, const struct launcher_slots *slots, struct error *err)
{
        _cleanup_free_ char *data = NULL;
        size_t n = 0;

        _cleanup_close_ int program = program_open("cloister-launcher", err);
        int r = program < 0 ? program : fd_read_whole(program, PROGRAM_MAX, &data, &n, err);
        if (r < 0)
                return r;
        char *found = memmem(data, n, LAUNCHER_MARK, sizeof(LAUNCHER_MARK));
        if (!found || (size_t)(data + n - found) < sizeof(*slots))
                return error_set(err, EBADMSG,
                                 "cloister-launcher is not the program of this build");
        memcpy(found, slots, sizeof(*slots));
        _cleanup_close_ int fd = host_file_open(HOST_FILE_IMAGE_PROGRAM, place,
                                                slots->self + sizeof(BORROWED_PLACE), NULL);
        r = fd < 0 ? fd : fd_write_all(fd, data, n);
        return r == -ENOSPC || r == -EDQUOT ? r
               : r < 0                      ? error_errno(err, -r, "write %s", slots->self)
                                            : 0;
}

/* python3 and python in PATH, unless the tree has programs of these names. */
static void add_names(int root, const char *program)
{
        static const char *const folders[] = {"/usr/local/bin", "/usr/bin", "/bin"};
        static const char *const names[] = {"python3", "python"};

        for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
                _cleanup_close_ int folder = process_open_inside(root, folders[i],
                                                                 O_PATH | O_DIRECTORY);
                if (folder < 0)
                        continue;
                for (size_t k = 0; k < ARRAY_SIZE(names); k++)
                        (void)!symlinkat(program, folder, names[k]);
                return;
        }
}

static int add_of(const struct lender *l, int root, char python[PATH_MAX],
                  struct progress *progress, struct tree_totals *totals, struct error *err)
{
        struct launcher_slots slots = {.mark = LAUNCHER_MARK};
        struct tree_totals copied = {};

        int r = check_kind(l, err);
        if (r >= 0)
                r = fill_slots(l, &slots, err);
        _cleanup_close_ int place = r < 0 ? r : make_place(root, err);
        if (place < 0)
                return place;
        progress_stage(progress, "copying the Python of %s", l->name);
        r = tree_copy(l->path, place, true, progress, &copied, err);
        if (r >= 0)
                r = write_launcher(place, &slots, err);
        if (r < 0)
                return r;
        add_names(root, slots.self);
        snprintf(python, PATH_MAX, "%s", slots.self);
        totals->bytes += copied.bytes;
        totals->files += copied.files;
        return 0;
}

int borrowed_python_add(int store, const char *name, int root, char python[PATH_MAX],
                        struct progress *progress, struct tree_totals *totals, struct error *err)
{
        struct lender l = {.root = -1};

        int r = open_lender(store, name, &l, err);
        if (r >= 0)
                r = add_of(&l, root, python, progress, totals, err);
        if (l.root >= 0)
                close(l.root);
        return r;
}
