/*
 * The first half of a template.
 *
 * Theory of operation. The monitor has cloned this process into the template's user and pid
 * namespaces, as uid 0 there with every capability of that user namespace and none outside, and has
 * exec'd it from a sealed memfd, so that it shares no memory with the monitor. Steps, in order:
 *
 *   1. Receives the plan and its descriptors over the control socket.
 *   2. Enters the image as its working directory, which MUST come before it unshares the mount
 *      namespace: a descriptor of another mount namespace cannot be cloned, but the working directory
 *      is carried along. The host directories of the profile are copied in the same way, each in a
 *      child process.
 *   3. Unshares mount, ipc, net and uts namespaces, and turns propagation off before it mounts
 *      anything.
 *   4. Makes detached mounts: image, device nodes, proc. proc MUST be made while the host's whole
 *      /proc is visible: the kernel refuses a new proc if all visible ones are masked.
 *   5. Attaches the tree and makes it the root. The old root is detached BEFORE a byte of the image runs.
 *   6. Sets no_new_privs, loads the template's filter, and execs cloister-worker, whose loader and
 *      libc are the image's; for JavaScript itself, so that no byte of the image runs in the template.
 *
 * Sessions copy what is mounted here: a read-only image, /dev, and a whole /proc, which each session
 * needs to forbid nested namespaces before it covers /proc with its own.
 */
#include "sandbox-init/setup/template-root.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/mount.h"
#include "rpc/sandbox-messages.h"
#include "sandbox-init/setup/layout.h"

/* ---- the host directories of a profile ---- */

/*
 * If the image has the target directory, the source is mounted on it. Otherwise the directories of
 * the target are made on a small read-only tmpfs, into which the other entries of the image are
 * bound. Targets below /workspace and /tmp are mounted on such a tmpfs too: each session copies them
 * from there to its own /workspace and /tmp (layout_is_late()).
 *
 * Only a process that has a mount in its own mount namespace can copy it, and
 * only the working directory is carried along into a new mount namespace. So a child process copies
 * each source: it enters the source and unshares its mount namespace. The copy is detached, belongs
 * to no namespace, and is passed on in the descriptor table, which the child shares. It includes the
 * mounts below the source, all with the same flags, so that what they cover stays hidden.
 *
 * Symbolic links in the image or in a source are never followed on the way to a target.
 */
struct template_mounts {
        int trees[TEMPLATE_MOUNTS_MAX];    /* detached, in the order of the plan */
        int made[TEMPLATE_MOUNTS_MAX + 1]; /* tmpfs for targets, to become read-only */
        uint32_t n_made;
        int image; /* directory, when the root is a tmpfs of ours and still empty; otherwise -1 */
};

enum {
        STACK_SIZE = 64 * 1024,
        ROOM_SIZE = 256 * 1024,
        LATE_SIZE = 16 * 1024 * 1024,
        LATE_INODES = 4096,
        MODULES_SIZE = 4 * 1024 * 1024,
        MODULES_INODES = 64,
        ENTRIES_MAX = 512, /* of a directory that gets another one beside what it has */
};

static const uint64_t image_attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

struct copying {
        int source;
        uint64_t attributes;
        int tree;
        struct error error;
};

static int copy_tree(void *data)
{
        struct copying *c = data;

        if (fchdir(c->source) < 0) {
                int code = errno;
                error_errno(&c->error, code, "enter the directory as the uid of sandboxes");
                c->error.code = code == EACCES ? MOUNT_CODE_TREE : code;
        } else if (unshare(CLONE_NEWNS) < 0) {
                error_errno(&c->error, errno, "unshare the mount namespace");
        } else {
                c->tree = mount_clone_tree(AT_FDCWD, "", c->attributes, &c->error);
        }
        _exit(0);
}

static int clone_one(const struct template_mount *mount, int source, int *ret, struct error *err)
{
        static char stack[STACK_SIZE] __attribute__((aligned(16)));
        struct copying c = {.source = source,
                            .attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          (mount->writable ? 0 : MOUNT_ATTR_RDONLY),
                            .tree = -1};

        pid_t pid = clone(copy_tree, stack + sizeof(stack),
                          CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &c);
        if (pid < 0)
                return error_errno(err, errno, "clone");
        waitpid(pid, NULL, 0);
        if (c.tree < 0) {
                if (!error_is_set(&c.error))
                        error_set(&c.error, EIO, "the copy was not made");
                error_context(&c.error, "mount for %s", mount->target);
                *err = c.error;
                return -c.error.code;
        }
        *ret = c.tree;
        return 0;
}

/* Before the mount namespace is ours: copies the trees behind the O_PATH descriptors. */
static int mounts_clone(const struct template_plan *plan, const int *sources,
                        struct template_mounts *ret, struct error *err)
{
        int r = 0;

        ret->image = -1;
        for (uint32_t i = 0; i < plan->n_mounts && r >= 0; i++)
                r = clone_one(&plan->mounts[i], sources[i], &ret->trees[i], err);
        return r;
}

/* A new tmpfs, writable until all directories are made. */
static int new_room(struct template_mounts *m, struct error *err)
{
        if (m->n_made == ARRAY_SIZE(m->made))
                return error_set(err, E2BIG, "too many directories to make for mounts");
        int fd = mount_tmpfs_new(ROOM_SIZE, 2 * ENTRIES_MAX, 0755,
                                 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
        if (fd >= 0)
                m->made[m->n_made++] = fd;
        return fd;
}

static int show_link(int from, const char *name, int to, struct error *err)
{
        char target[4096];
        ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

        if (n < 0)
                return error_errno(err, errno, "read the link %s", name);
        target[n] = '\0';
        if (symlinkat(target, to, name) < 0)
                return error_errno(err, errno, "link %s", name);
        return 0;
}

/* Binds one entry of `from` into the attached tmpfs `to`. */
static int show_entry(int from, const char *name, int to, struct error *err)
{
        struct stat st;
        int r = 0;

        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return error_errno(err, errno, "%s", name);
        if (S_ISLNK(st.st_mode))
                return show_link(from, name, to, err);
        if (S_ISDIR(st.st_mode))
                r = mkdirat(to, name, 0755);
        else if (S_ISREG(st.st_mode))
                r = mknodat(to, name, S_IFREG | 0444, 0);
        else
                return 0;
        if (r < 0)
                return error_errno(err, errno, "make %s", name);
        _cleanup_close_ int copy = mount_clone(from, name, image_attributes, err);
        return copy < 0 ? copy : mount_attach(copy, to, name, err);
}

static int show_entries(int from, int to, struct error *err)
{
        size_t count = 0;
        int r = 0;

        DIR *dir = fdopendir(from);
        if (!dir) {
                close(from);
                return error_errno(err, errno, "list a directory of the image");
        }
        for (struct dirent *entry; r >= 0 && (entry = readdir(dir));) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (++count > ENTRIES_MAX)
                        r = error_set(err, E2BIG, "more than %d entries", ENTRIES_MAX);
                else
                        r = show_entry(dirfd(dir), entry->d_name, to, err);
        }
        closedir(dir);
        return r;
}

/* Mounts a tmpfs with the same entries over a directory, so that another entry can be made. */
static int make_room(struct template_mounts *m, int root, const char *path, struct error *err)
{
        _cleanup_close_ int point = mount_point_open(root, path, err);
        if (point < 0)
                return point;
        int from = openat(point, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (from < 0)
                return error_errno(err, errno, "open /%s of the image", path);
        int room = new_room(m, err);
        int r = room < 0 ? room : mount_attach(room, root, path, err);
        if (r < 0) {
                close(from);
                return r;
        }
        r = show_entries(from, room, err);
        return r < 0 ? error_context(err, "a directory in the image's /%s", path) : 0;
}

static bool first_is_missing(const char *target)
{
        char name[sizeof(((struct template_mount *)0)->target)];
        struct stat st;

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(target + 1, "/"), target + 1);
        return fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

/* The image is the working directory, in our own mount namespace: returns the detached root. */
static int mounts_make_root(const struct template_plan *plan, struct template_mounts *mounts,
                            struct error *err)
{
        bool missing = false;

        for (uint32_t i = 0; i < plan->n_mounts; i++)
                missing = missing || first_is_missing(plan->mounts[i].target);
        if (!missing)
                return mount_clone(AT_FDCWD, "", image_attributes, err);
        mounts->image = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (mounts->image < 0)
                return error_errno(err, errno, "open the root");
        return new_room(mounts, err);
}

/* Once that is attached over /. */
static int mounts_fill_root(struct template_mounts *mounts, int root, struct error *err)
{
        if (mounts->image < 0)
                return 0;
        int r = show_entries(take_fd(mounts->image), root, err);
        return r < 0 ? error_context(err, "the image's root") : 0;
}

/* The longest existing part of the target's path; "." is the root. */
static void deepest_there(int root, const char *target, char *ret, size_t size)
{
        snprintf(ret, size, "%s", target);
        for (char *slash; *ret;) {
                struct error ignored = {};
                _cleanup_close_ int fd = mount_point_open(root, ret, &ignored);
                if (fd >= 0)
                        return;
                slash = strrchr(ret, '/');
                *(slash ? slash : ret) = '\0';
        }
        snprintf(ret, size, ".");
}

static int make_target(const char *target, struct template_mounts *m, int root, struct error *err)
{
        char there[sizeof(((struct template_mount *)0)->target)];
        struct error why = {};

        _cleanup_close_ int point = mount_point_open(root, target, &why);
        if (point >= 0)
                return 0;
        if (point != -ENOENT) {
                *err = why;
                return point;
        }
        if (mount_point_make(root, target, &why) >= 0)
                return 0;
        deepest_there(root, target, there, sizeof(there));
        int r = make_room(m, root, there, err);
        return r < 0 ? r : mount_point_make(root, target, err);
}

/* Where the late ones wait, and where modules that are preloaded may write: a tmpfs over the
 * image's directory, which every session covers with its own. */
static int make_late_room(const struct template_plan *plan, int root, const char *path,
                          struct error *err)
{
        bool wanted = plan->preload[0] != '\0';
        size_t n = strlen(path);

        for (uint32_t i = 0; i < plan->n_mounts; i++)
                wanted = wanted || (strncmp(plan->mounts[i].target + 1, path, n) == 0 &&
                                    plan->mounts[i].target[n + 1] == '/');
        return wanted ? mount_tmpfs_at(root, path, LATE_SIZE, LATE_INODES, 01777, err) : 0;
}

static int attach_one(const struct template_plan *plan, struct template_mounts *m, int root,
                      uint32_t i, struct error *err)
{
        int r = make_target(plan->mounts[i].target + 1, m, root, err);

        if (r >= 0)
                r = mount_attach(m->trees[i], root, plan->mounts[i].target + 1, err);
        return r < 0 ? error_context(err, "mount on %s", plan->mounts[i].target) : 0;
}

static int mounts_attach(const struct template_plan *plan, struct template_mounts *mounts, int root,
                         struct error *err)
{
        struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};

        int r = make_late_room(plan, root, "workspace", err);
        if (r >= 0)
                r = make_late_room(plan, root, "tmp", err);
        for (uint32_t i = 0; i < plan->n_mounts && r >= 0; i++)
                r = attach_one(plan, mounts, root, i, err);
        for (uint32_t i = 0; i < mounts->n_made && r >= 0; i++) {
                if (mount_setattr(mounts->made[i], "", AT_EMPTY_PATH, &read_only,
                                  sizeof(read_only)) < 0)
                        r = error_errno(err, errno, "make the mount read-only");
        }
        return r;
}

/* ---- the root ---- */

static const char *const devices[] = {"null", "zero", "full", "random", "urandom"};

static const struct {
        const char *name, *target;
} dev_links[] = {
        {"fd", "/proc/self/fd"},
        {"stdin", "/proc/self/fd/0"},
        {"stdout", "/proc/self/fd/1"},
        {"stderr", "/proc/self/fd/2"},
};

struct template_root {
        struct template_plan plan;
        int fds[TEMPLATE_FD_COUNT + TEMPLATE_MOUNTS_MAX];
        struct template_mounts mounts;
        int devices[ARRAY_SIZE(devices)]; /* detached mounts */
        int image;                        /* a mount: detached, then the root */
        int (*write_modules)(int directory, struct error *err);
        int proc; /* detached mount */
};

static int receive_plan(struct template_root *t, struct error *err)
{
        struct template_message message;
        size_t count = TEMPLATE_FD_COUNT + TEMPLATE_MOUNTS_MAX;

        ssize_t n = fd_receive(TEMPLATE_CONTROL_FD, &message, sizeof(message), t->fds, &count, NULL,
                               0);
        if (n < 0)
                return error_errno(err, (int)-n, "receive the plan");
        if (n != sizeof(message) || message.kind != TEMPLATE_PLAN ||
            message.plan.n_mounts > TEMPLATE_MOUNTS_MAX ||
            count != TEMPLATE_FD_COUNT + message.plan.n_mounts)
                return error_set(err, EPROTO, "the plan has a wrong size or kind");
        t->plan = message.plan;
        return 0;
}

static int own_namespaces(const struct template_root *t, struct error *err)
{
        if (fchdir(t->fds[TEMPLATE_FD_IMAGE]) < 0)
                return error_errno(err, errno, "enter the image");
        if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS) < 0)
                return error_errno(err, errno, "unshare mount, ipc, net and uts namespaces");
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return error_errno(err, errno, "make mounts private");
        /* Without it sessions see the host's name. The monitor logs what a template writes to
         * standard error. */
        if (sethostname(LAYOUT_HOSTNAME, strlen(LAYOUT_HOSTNAME)) < 0)
                dprintf(STDERR_FILENO, "sandboxes keep this machine's host name: sethostname: %s\n",
                        strerror(errno));
        return 0;
}

/* A shared mapping of /dev/zero is memory of no process, which nothing counts without a control group.
 * /dev/full reads as zeros too and cannot be mapped. */
static const char *host_device(const struct template_root *t, const char *name)
{
        return t->plan.rlimits && strcmp(name, "zero") == 0 ? "full" : name;
}

/* The kernel counts a user's inotify objects in each user namespace above, too. Where all sessions have
 * one host id, these limits are those of all together, and half of the usual limit of a user. They are
 * written to the new proc, because some containers have a read-only /proc/sys. */
static int limit_user(int proc, struct error *err)
{
        static const struct {
                const char *path, *most;
        } limits[] = {
                {"sys/user/max_inotify_instances", "64"},
                {"sys/user/max_inotify_watches", "65536"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
                _cleanup_close_ int fd = openat(proc, limits[i].path, O_WRONLY | O_CLOEXEC);
                if (fd < 0 && errno == ENOENT)
                        continue;
                if (fd < 0 || fd_write_all(fd, limits[i].most, strlen(limits[i].most)) < 0)
                        return error_errno(err, errno, "limit /proc/%s", limits[i].path);
        }
        return 0;
}

static int make_detached(struct template_root *t, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
                char path[32];
                snprintf(path, sizeof(path), "/dev/%s", host_device(t, devices[i]));
                /* Read-only keeps the times of the host's node as they are; what is written goes to the
                 * driver all the same. */
                t->devices[i] = mount_clone(
                        AT_FDCWD, path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
                        err);
                if (t->devices[i] < 0)
                        return t->devices[i];
        }
        t->image = mounts_make_root(&t->plan, &t->mounts, err);
        if (t->image < 0)
                return error_context(err, "image");
        t->proc = mount_proc_new(MOUNT_PROC_WHOLE, err);
        if (t->proc < 0)
                return error_context(err, "mount /proc in a user namespace");
        return 0;
}

static int make_read_only(int mount, const char *what, struct error *err)
{
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

        if (mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
                return error_errno(err, errno, "%s read-only", what);
        return 0;
}

/* The modules of the JavaScript worker. Its code has the rights of their owner where a template and its sessions have one
 * id, so that only the mount protects them. */
static int add_modules(struct template_root *t, int dev, struct error *err)
{
        if (t->plan.language != LANGUAGE_JAVASCRIPT)
                return 0;
        if (mkdirat(dev, LAYOUT_MODULES, 0755) < 0)
                return error_errno(err, errno, "/dev/" LAYOUT_MODULES);
        _cleanup_close_ int modules = mount_tmpfs_new(
                MODULES_SIZE, MODULES_INODES, 0755,
                MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
        int r = modules < 0 ? modules : t->write_modules(modules, err);
        if (r >= 0)
                r = mount_attach(modules, dev, LAYOUT_MODULES, err);
        return r < 0 ? r : make_read_only(modules, "/dev/" LAYOUT_MODULES, err);
}

/* /dev: a tmpfs with the host's device nodes bound over files, then made read-only. The nodes' own mounts
 * allow devices; a node that was made in the tmpfs itself would not work. */
static int fill_dev(struct template_root *t, struct error *err)
{
        const uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

        _cleanup_close_ int dev = mount_tmpfs_new(64 * 1024, 32, 0755, attributes, err);
        if (dev < 0)
                return dev;
        if (mkdirat(dev, "shm", 01777) < 0)
                return error_errno(err, errno, "/dev/shm");
        for (size_t i = 0; i < ARRAY_SIZE(dev_links); i++) {
                if (symlinkat(dev_links[i].target, dev, dev_links[i].name) < 0)
                        return error_errno(err, errno, "/dev/%s", dev_links[i].name);
        }
        for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
                int fd = openat(dev, devices[i], O_CREAT | O_EXCL | O_CLOEXEC | O_RDONLY, 0444);
                if (fd < 0)
                        return error_errno(err, errno, "/dev/%s", devices[i]);
                close(fd);
        }

        int r = mount_attach(dev, t->image, "dev", err);
        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(devices); i++)
                r = mount_attach(t->devices[i], dev, devices[i], err);
        if (r >= 0)
                r = add_modules(t, dev, err);
        return r < 0 ? r : make_read_only(dev, "/dev", err);
}

static int become_root(struct template_root *t, struct error *err)
{
        int r = mount_over_root(t->image, err);
        if (r >= 0)
                r = mounts_fill_root(&t->mounts, t->image, err);
        if (r >= 0)
                r = fill_dev(t, err);
        if (r >= 0)
                r = mount_attach(t->proc, t->image, "proc", err);
        if (r >= 0)
                r = mounts_attach(&t->plan, &t->mounts, t->image, err);
        return r < 0 ? r : mount_become_root(t->image, err);
}

static int place(int fd, int at)
{
        return dup2(fd, at) < 0 ? -errno : 0;
}

/* Without an import statement: bootstrap.py decides what is imported first. */
#define CREATE_MODULE                                                                              \
        "__import__('_imp').create_dynamic(__import__('_frozen_importlib').ModuleSpec("            \
        "'_cloister', None, origin='/proc/self/fd/11')).boot()"
static_assert(LAYOUT_MODULE_FD == 11, "CREATE_MODULE names it");

/* Code of the image may write it: each template has its own, and sessions of other templates do not use it. */
static int share_syncs(struct error *err)
{
        const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
        _cleanup_close_ int fd = memfd_create("syncs", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0 || ftruncate(fd, SYNCS_SIZE) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
                return error_errno(err, errno, "memfd syncs");
        int moved = fcntl(fd, F_DUPFD_CLOEXEC, 64);
        return moved < 0 ? error_errno(err, errno, "memfd syncs") : moved;
}

/* Moves the worker's descriptors to their numbers and marks all others close-on-exec. */
static int place_descriptors(struct template_root *t, int *worker, struct error *err)
{
        int moved[TEMPLATE_FD_COUNT];
        int r = 0;

        _cleanup_close_ int plan = fd_sealed("plan", &t->plan, sizeof(t->plan), err);
        if (plan < 0)
                return plan;
        int kept = fcntl(plan, F_DUPFD_CLOEXEC, 64), syncs = share_syncs(err);
        if (syncs < 0)
                return syncs;
        if (kept < 0)
                return error_errno(err, errno, "move descriptors");
        for (size_t i = 0; i < TEMPLATE_FD_COUNT; i++) {
                moved[i] = fcntl(t->fds[i], F_DUPFD_CLOEXEC, 64);
                if (moved[i] < 0)
                        return error_errno(err, errno, "move descriptors");
        }
        r = fd_close_range(LAYOUT_INIT_FD, 63);
        if (r < 0)
                return error_errno(err, -r, "close descriptors");
        take_fd(plan); /* closed with the others */
        r = place(moved[TEMPLATE_FD_INIT], LAYOUT_INIT_FD);
        if (r >= 0)
                r = place(kept, LAYOUT_PLAN_FD);
        if (r >= 0)
                r = place(syncs, LAYOUT_SYNCS_FD);
        if (r >= 0)
                r = place(moved[TEMPLATE_FD_WORKER_FILTER], LAYOUT_WORKER_FILTER_FD);
        if (r >= 0)
                r = place(moved[TEMPLATE_FD_INIT_FILTER], LAYOUT_INIT_FILTER_FD);
        if (r >= 0)
                r = place(moved[TEMPLATE_FD_DRAFT], LAYOUT_DRAFT_FD);
        if (r >= 0)
                r = place(moved[TEMPLATE_FD_HEAP], LAYOUT_HEAP_FD);
        if (r < 0)
                return error_errno(err, -r, "place descriptors");
        *worker = moved[TEMPLATE_FD_WORKER];
        t->fds[TEMPLATE_FD_TEMPLATE_FILTER] = moved[TEMPLATE_FD_TEMPLATE_FILTER];
        return 0;
}

static char *const *environment_of(const struct template_root *t)
{
        static const char *const usual[] = {LAYOUT_VARIABLES, NULL};
        static const char *const with_proxy[] = {LAYOUT_VARIABLES, LAYOUT_PROXY_VARIABLES, NULL};
        static const char *const with_certificates[] = {LAYOUT_VARIABLES, LAYOUT_PROXY_VARIABLES,
                                                        LAYOUT_CERTIFICATES_VARIABLE, NULL};

        if (!t->plan.proxy)
                return (char *const *)usual;
        /* OpenSSL uses no other file if this one is named, so that it must be there. */
        bool has_certificates = access(LAYOUT_CERTIFICATES, R_OK) == 0;
        return (char *const *)(has_certificates ? with_certificates : with_proxy);
}

/* Execs cloister-worker, which opens the image's libpython. */
static int exec_worker(const struct template_root *t, int worker, struct error *err)
{
        const char *const arguments[] = {t->plan.python, t->plan.libpython, NULL};

        execveat(worker, "", (char *const *)arguments, environment_of(t), AT_EMPTY_PATH);
        if (errno == ENOENT)
                return error_set(
                        err, ENOENT,
                        "the image has no loader for this machine's programs (its libc differs)");
        return error_errno(err, errno, "exec cloister-worker");
}

/* The image's own interpreter, with what makes it load the worker: the same options as in
 * worker.c. */
static int exec_interpreter(const struct template_root *t, int module, struct error *err)
{
        static const char create_module[] = CREATE_MODULE;
        const char *const arguments[] = {t->plan.python, "-I", "-S", "-c", create_module, NULL};

        int r = place(module, LAYOUT_MODULE_FD);
        if (r < 0)
                return error_errno(err, -r, "place cloister-module");
        execve(t->plan.python, (char *const *)arguments, environment_of(t));
        return error_errno(err, errno, "exec the image's %s", t->plan.python);
}

/* cloister-init once more (sandbox-init/javascript/node-template.h). */
static int exec_javascript(const struct template_root *t, struct error *err)
{
        const char *const arguments[] = {LAYOUT_JAVASCRIPT_TEMPLATE, NULL};

        execveat(LAYOUT_INIT_FD, "", (char *const *)arguments, environment_of(t), AT_EMPTY_PATH);
        return error_errno(err, errno, "exec cloister-init");
}

/* Of this process and of all that it forks, also across exec. Fails where the processor or the kernel has no such setting,
 * which `cloister doctor --attack` shows. */
static void disable_speculation(void)
{
        prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_FORCE_DISABLE, 0, 0);
        prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, PR_SPEC_FORCE_DISABLE, 0, 0);
}

static int become_worker(struct template_root *t, struct error *err)
{
        int worker = -1;

        int r = place_descriptors(t, &worker, err);
        if (r < 0)
                return r;
        /* 1, not 0: only that keeps core_pattern's pipe handlers from running too (core(5)). The
         * filter turns every later write of it into nothing. */
        if (setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1}) < 0)
                return error_errno(err, errno, "limit core dumps");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_errno(err, errno, "no_new_privs");
        if (t->plan.no_speculation)
                disable_speculation();
        r = filter_load(t->fds[TEMPLATE_FD_TEMPLATE_FILTER], err);
        if (r < 0)
                return r;
        if (t->plan.language == LANGUAGE_JAVASCRIPT)
                return exec_javascript(t, err);
        return t->plan.link == TEMPLATE_LINK_MODULE ? exec_interpreter(t, worker, err)
                                                    : exec_worker(t, worker, err);
}

/* init takes the listener from the worker (Yama) and gives code descriptors (Linux 5.14). */
static bool can_ask(int proc)
{
        struct utsname kernel;
        char scope = '0';
        int major = 0, minor = 0;

        _cleanup_close_ int fd = openat(proc, "sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
        return (fd < 0 || (read(fd, &scope, 1) == 1 && scope <= '1')) && uname(&kernel) == 0 &&
               sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
               (major > 5 || (major == 5 && minor >= 14));
}

int template_root_main(int (*write_modules)(int directory, struct error *err))
{
        static struct template_root t;
        struct template_message failed = {.kind = TEMPLATE_FAILED};

        /* Not in the monitor's process group, which a terminal or a caller may signal as a whole.
         */
        setsid();
        /* Nor with the user's session keyring in possession; a kernel without keys has nothing to
         * leave. */
        syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        t.write_modules = write_modules;
        int r = receive_plan(&t, &failed.error);
        if (r >= 0)
                r = mounts_clone(&t.plan, t.fds + TEMPLATE_FD_COUNT, &t.mounts, &failed.error);
        if (r >= 0)
                r = own_namespaces(&t, &failed.error);
        if (r >= 0)
                r = make_detached(&t, &failed.error);
        if (r >= 0)
                r = limit_user(t.proc, &failed.error);
        t.plan.asks = r >= 0 && can_ask(t.proc);
        if (r >= 0)
                r = become_root(&t, &failed.error);
        if (r >= 0)
                become_worker(&t, &failed.error);
        error_context(&failed.error, "template");
        fd_send(TEMPLATE_CONTROL_FD, &failed, sizeof(failed), NULL, 0, 0);
        return 1;
}
