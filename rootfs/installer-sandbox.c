/*
 * The sandbox of the program that installs packages.
 *
 * Theory of operation. pip and uv parse what an index sends, on the host's network. The process that the
 * monitor started takes new namespaces and forks. The parent is the guard: it stays outside, and adds up the
 * memory of all processes of the new pid namespace. The child, PID 1 of it, does the following in this order:
 *
 *  1. root          the host's libraries, certificates and interpreters at their own paths, read-only, and the one
 *                   directory that it may change; needs the capabilities of the namespace
 *  2. capabilities  none is left; no_new_privs, which the next steps require
 *  3. Landlock      best effort, like everywhere: the mounts hold without it
 *  4. limits        of each process; the guard has the one of all
 *  5. descriptors   only the standard streams and the filter stay open
 *  6. filter        last, because it denies most of the steps above
 */
#include "rootfs/installer-sandbox.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "base/mount.h"
#include "base/path.h"
#include "policy/package-set.h"

enum {
        TASKS_MAX = 64,      /* processes and threads */
        FILES_MAX = 128,     /* descriptors of a process: each socket has buffers of the kernel */
        MEMORY_MIB = 960,    /* of all processes */
        DATA_MIB = 768,      /* private memory of one, which the kernel bounds at once */
        CODE_MIB = 640,      /* of npm's Node besides: address space for code that V8 reserves */
        FILE_MIN = 64 << 20, /* bytes that one file may have in any case */
        MEASURE_MS = 50,
        NICE = 5, /* as workers */
        TMPFS_BYTES = 1 << 20,
        TMPFS_INODES = 4096,
};

/* ---- the root ---- */

struct tree {
        int root;
        const char *home;
};

/* Files that all users of a machine may read: libraries with the packages of distributions, certificates, and the
 * files that libc reads to find a host's address. */
static const char shown[] =
        "/usr/lib /usr/lib64 /usr/local/lib /lib /lib64 /nix/store /usr/share/python-wheels "
        "/usr/share/ca-certificates /usr/local/share/ca-certificates /usr/share/pki /usr/share/zoneinfo "
        "/var/lib/ca-certificates /etc/ssl/certs /etc/ssl/cert.pem /etc/ssl/ca-bundle.pem "
        "/etc/ssl/openssl.cnf /etc/pki/ca-trust /etc/pki/tls/certs /etc/pki/tls/cert.pem "
        "/etc/pki/tls/openssl.cnf /etc/crypto-policies /etc/ca-certificates /etc/resolv.conf /etc/hosts "
        "/etc/host.conf /etc/nsswitch.conf /etc/gai.conf /etc/services /etc/passwd /etc/group "
        "/etc/localtime /etc/os-release /etc/ld.so.cache";

static const char devices[] = "/dev/null /dev/zero /dev/random /dev/urandom";

/* Variables with paths of files that the installer reads, or lists of them. */
static const char path_variables[] =
        "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE PIP_CERT "
        "PIP_CLIENT_CERT NODE_EXTRA_CA_CERTS LD_LIBRARY_PATH";

/* The others that it gets. */
static const char variables[] =
        "PATH HOME LANG LC_ALL LC_CTYPE TZ http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY "
        "ALL_PROXY NO_PROXY PIP_INDEX_URL UV_INDEX_URL UV_DEFAULT_INDEX PIP_PROXY PIP_TIMEOUT "
        "PIP_DEFAULT_TIMEOUT PIP_TRUSTED_HOST UV_NATIVE_TLS UV_SYSTEM_CERTS UV_HTTP_TIMEOUT "
        "UV_INSECURE_HOST NPM_CONFIG_REGISTRY npm_config_registry " PACKAGES_VARIABLE
        " " PACKAGES_INDEX_VARIABLE " " PACKAGES_NPM_VARIABLE;

/* And for an image, which is built with the user's own settings of indexes. */
static const char image_variables[] =
        "XDG_CONFIG_HOME XDG_CONFIG_DIRS PIP_CONFIG_FILE PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_CONSTRAINT "
        "PIP_PRE PIP_NO_INDEX PIP_RETRIES UV_INDEX UV_EXTRA_INDEX_URL UV_FIND_LINKS UV_CONSTRAINT "
        "UV_PRERELEASE UV_INDEX_STRATEGY UV_EXCLUDE_NEWER UV_NO_INDEX UV_RESOLUTION UV_OFFLINE "
        "UV_CONCURRENT_DOWNLOADS";

/* Copies the next member of a list, and returns false at its end (NULL is an empty one). */
static bool next_of(const char **list, const char *separator, char ret[PATH_MAX])
{
        if (!*list || !**list)
                return false;
        size_t n = strcspn(*list, separator);
        snprintf(ret, PATH_MAX, "%.*s", (int)n, *list);
        *list += n + ((*list)[n] != '\0');
        return true;
}

/* Cuts the last n components off. */
static void cut(char *path, int n)
{
        for (char *slash; n > 0 && (slash = strrchr(path, '/')); n--)
                *slash = '\0';
}

static int attach(const struct tree *t, int mount, const char *path, bool is_directory,
                  struct error *err)
{
        char directory[PATH_MAX];

        snprintf(directory, sizeof(directory), "%s", path + 1);
        if (!is_directory) {
                char *slash = strrchr(directory, '/');
                *(slash ? slash : directory) = '\0';
        }
        int r = mount_point_make(t->root, directory, err);
        if (r >= 0 && !is_directory && mknodat(t->root, path + 1, 0644, 0) < 0)
                return error_errno(err, errno, "make %s", path);
        return r < 0 ? r : mount_attach(mount, t->root, path + 1, err);
}

/* Shows a file or directory of the host at its own path. Leaves out what is missing or shown already, and each
 * path that contains the user's home. */
static int show(const struct tree *t, const char *path, uint64_t attributes, struct error *err)
{
        size_t n = strlen(path);
        struct stat st;

        if (!path_is_clean(path) || n < 2 ||
            (strncmp(t->home, path, n) == 0 && strchr("/", t->home[n])) ||
            faccessat(t->root, path + 1, F_OK, 0) == 0 || stat(path, &st) < 0)
                return 0;
        _cleanup_close_ int mount = mount_clone_tree(AT_FDCWD, path, attributes | MOUNT_ATTR_NOSUID,
                                                     err);
        return mount < 0 ? mount : attach(t, mount, path, S_ISDIR(st.st_mode), err);
}

static int show_plain(const struct tree *t, const char *path, struct error *err)
{
        return show(t, path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, err);
}

static int show_list(const struct tree *t, const char *list, const char *separator,
                     struct error *err)
{
        char path[PATH_MAX];
        int r = 0;

        while (r >= 0 && next_of(&list, separator, path))
                /* A device can be written to, but its owner, who may be root, cannot change its mode. */
                r = strncmp(path, "/dev/", 5) == 0
                            ? show(t, path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, err)
                            : show_plain(t, path, err);
        return r;
}

static int show_matches(const struct tree *t, const char *directory, const char *pattern,
                        struct error *err)
{
        char whole[PATH_MAX];
        glob_t found;
        int r = 0;

        snprintf(whole, sizeof(whole), "%s/%s", directory, pattern);
        if (glob(whole, GLOB_NOSORT, NULL, &found) != 0)
                return 0;
        for (size_t i = 0; i < found.gl_pathc && r >= 0; i++)
                r = show_plain(t, found.gl_pathv[i], err);
        globfree(&found);
        return r;
}

/* The libraries and packages of the interpreter in PREFIX/bin. The user's home and ~/.local hold other things
 * too: of them, only those of Python. */
static int show_library(const struct tree *t, const char *prefix, struct error *err)
{
        size_t n = strlen(t->home);
        bool shared = strncmp(prefix, t->home, n) == 0 &&
                      (prefix[n] == '\0' || strcmp(prefix + n, "/.local") == 0);
        int r = show_matches(t, prefix, shared ? "lib/python3*" : "lib", err);

        return r < 0 ? r : show_matches(t, prefix, shared ? "lib/libpython*" : "lib64", err);
}

/* An interpreter, its libraries, and if it is of a virtual environment those of the one that that was made from. */
static int show_python(const struct tree *t, const char *program, struct error *err)
{
        char path[PATH_MAX], real[PATH_MAX], line[PATH_MAX];

        snprintf(path, sizeof(path), "%s", program);
        if (!realpath(program, real))
                return 0;
        int r = show_plain(t, path, err);
        if (r >= 0)
                r = show_plain(t, real, err);
        cut(path, 2);
        cut(real, 2);
        if (r >= 0)
                r = show_library(t, path, err);
        if (r >= 0)
                r = show_library(t, real, err);
        strncat(path, "/pyvenv.cfg", sizeof(path) - strlen(path) - 1);
        if (r >= 0)
                r = show_plain(t, path, err);
        FILE *f = fopen(path, "re");
        while (f && r >= 0 && fgets(line, sizeof(line), f)) {
                if (sscanf(line, "home = %4000[^\n]", real) == 1) {
                        cut(real, 1);
                        r = show_library(t, real, err);
                }
        }
        if (f)
                fclose(f);
        return r;
}

static bool find_program(const char *name, char ret[PATH_MAX])
{
        const char *list = getenv("PATH");
        char directory[PATH_MAX];

        while (next_of(&list, ":", directory))
                if (snprintf(ret, PATH_MAX, "%s/%s", directory, name) < PATH_MAX &&
                    access(ret, X_OK) == 0)
                        return true;
        return false;
}

/* A program and what it is a link to. */
static int show_linked(const struct tree *t, const char *path, struct error *err)
{
        char real[PATH_MAX];
        int r = show_plain(t, path, err);

        return r < 0 || !realpath(path, real) ? r : show_plain(t, real, err);
}

/* npm is the script NPM/bin/npm-cli.js: its directory NPM, that of Debian's modules of Node, and the programs that
 * rootfs/npm.py looks for. */
static int show_npm(const struct tree *t, struct error *err)
{
        char npm[PATH_MAX], path[PATH_MAX + 8];

        if (!find_program("npm", npm))
                return 0;
        int r = show_plain(t, npm, err);
        int folder = (int)(strrchr(npm, '/') - npm);
        snprintf(path, sizeof(path), "%.*s/node", folder, npm);
        if (r >= 0)
                r = show_linked(t, path, err);
        if (r >= 0 && find_program("node", path))
                r = show_linked(t, path, err);
        if (r >= 0 && realpath(npm, path)) {
                /* The link is a file there. */
                setenv(PACKAGES_NPM_VARIABLE, path, 1);
                cut(path, 2);
                r = show_plain(t, path, err);
        }
        return r < 0 ? r : show_plain(t, "/usr/share/nodejs", err);
}

/* The first program of this name in PATH. */
static int show_program(const struct tree *t, const char *name, struct error *err)
{
        char path[PATH_MAX];

        if (!find_program(name, path))
                return 0;
        return strcmp(name, "uv") == 0 ? show_plain(t, path, err) : show_python(t, path, err);
}

/* Who could write to one of these directories could put code into every session. */
static int show_packages(const struct tree *t, const struct installer_sandbox *how,
                         char top[PATH_MAX], struct error *err)
{
        _cleanup_close_ int dir = -1;
        struct stat st;
        size_t n = 0;

        for (const char *const *step = how->top; *step; step++) {
                n += (size_t)snprintf(top + n, PATH_MAX - n, "%s%s", n ? "/" : "", *step);
                if (n >= PATH_MAX)
                        return error_errno(err, ENAMETOOLONG, "%s", *how->top);
                int next = openat(dir < 0 ? AT_FDCWD : dir, *step,
                                  O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0 && errno != ENOTDIR)
                        return error_errno(err, errno, "%s", top);
                cleanup_close(&dir);
                dir = next;
                if (dir < 0 || fstat(dir, &st) < 0 || st.st_uid != geteuid() || st.st_mode & 0022)
                        return error_set(
                                err, EPERM,
                                "%s must be a directory of the user that images belong to, to which no other user can write",
                                top);
        }
        _cleanup_close_ int mount = mount_clone_tree(
                dir, "", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
        return mount < 0 ? mount : attach(t, mount, top, true, err);
}

/* The programs are those that rootfs/packages.py looks for. */
static int fill(const struct tree *t, const struct installer_sandbox *how, char top[PATH_MAX],
                struct error *err)
{
        const char *names = path_variables;
        char name[PATH_MAX];

        int r = show_list(t, shown, " ", err);
        for (size_t i = 0; r >= 0 && how->shown && how->shown[i]; i++)
                r = show_plain(t, how->shown[i], err);
        if (r >= 0)
                r = show_list(t, devices, " ", err);
        if (r >= 0)
                r = show_python(t, how->python, err);
        if (r >= 0)
                r = show_python(t, "/usr/bin/python3", err);
        if (r >= 0)
                r = show_program(t, "python3", err);
        if (r >= 0)
                r = show_program(t, "uv", err);
        if (r >= 0 && how->npm)
                r = show_npm(t, err);
        if (r >= 0)
                r = show_matches(t, t->home, ".local/lib/python3*/site-packages/pip", err);
        /* Last: a certificate in a package must not stand for the whole library of an interpreter. */
        while (r >= 0 && next_of(&names, " ", name))
                r = show_list(t, getenv(name), ":", err);
        /* A directory that is shown may contain it. */
        if (r >= 0)
                r = show_packages(t, how, top, err);
        _cleanup_close_ int proc = r < 0 ? r : mount_proc_new(MOUNT_PROC_PIDS, err);
        return proc < 0 ? proc : attach(t, proc, "/proc", true, err);
}

static int take_root(const struct installer_sandbox *how, char top[PATH_MAX], struct error *err)
{
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
        const char *home = path_home();

        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return error_errno(err, errno, "make mounts private");
        uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
        _cleanup_close_ int root = how->root ? mount_clone(AT_FDCWD, how->root, attributes, err)
                                             : mount_tmpfs_new(TMPFS_BYTES, TMPFS_INODES, 0755,
                                                               attributes, err);
        const struct tree t = {.root = root, .home = home ? home : "/"};
        int r = root < 0 ? root : mount_over_root(root, err);
        if (r >= 0)
                r = fill(&t, how, top, err);
        if (r >= 0)
                r = mount_become_root(root, err);
        if (r >= 0 && mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
                return error_errno(err, errno, "make the root read-only");
        return r;
}

/* ---- the other steps ---- */

static bool is_kept(const char *variable, bool for_image)
{
        const char *lists[] = {path_variables, variables, image_variables};
        char name[PATH_MAX];

        for (size_t i = 0; i < ARRAY_SIZE(lists) - !for_image; i++)
                while (next_of(&lists[i], " ", name))
                        if (strncmp(variable, name, strlen(name)) == 0 &&
                            variable[strlen(name)] == '=')
                                return true;
        return false;
}

static void clean_environment(bool for_image)
{
        char **to = environ;

        for (char **from = environ; *from; from++)
                if (is_kept(*from, for_image))
                        *to++ = *from;
        *to = NULL;
}

/* Since 5.14 RLIMIT_NPROC counts the processes of a user namespace, before that those of the user. */
static bool has_own_count(void)
{
        struct utsname name = {};
        unsigned major = 0, minor = 0;

        return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
               (major > 5 || (major == 5 && minor >= 14));
}

static int set_limits(const struct installer_sandbox *how, struct error *err)
{
        const struct {
                __rlimit_resource_t resource;
                rlim_t most;
        } limits[] = {
                {RLIMIT_DATA, (rlim_t)(DATA_MIB + (how->npm ? CODE_MIB : 0)) << 20},
                {RLIMIT_NOFILE, FILES_MAX},
                {RLIMIT_FSIZE, MAX(how->size_max, FILE_MIN)},
                {RLIMIT_CORE, 1},
                {RLIMIT_MEMLOCK, 0},
                {RLIMIT_NPROC, TASKS_MAX},
        };

        for (size_t i = 0; i < ARRAY_SIZE(limits) - !has_own_count(); i++) {
                struct rlimit now, next = {limits[i].most, limits[i].most};
                if (getrlimit(limits[i].resource, &now) == 0 && now.rlim_max < next.rlim_max)
                        next = (struct rlimit){now.rlim_max, now.rlim_max};
                if (setrlimit(limits[i].resource, &next) < 0)
                        return error_errno(err, errno, "limit %zu", i);
        }
        return 0;
}

static int confine(const struct installer_sandbox *how, const char *top, struct error *err)
{
        const struct landlock_rule rules[] = {
                {"/", LANDLOCK_READ | LANDLOCK_EXECUTE},
                {"/dev", LANDLOCK_READ | LANDLOCK_WRITE_FILE},
                {top, LANDLOCK_READ | LANDLOCK_CHANGE | LANDLOCK_TRUNCATE},
        };
        enum { FILTER_AT = 3 };
        struct error hint = {};

        clean_environment(how->shown != NULL);
        int r = capabilities_drop(err);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_errno(err, errno, "no_new_privs");
        /* An error means that the kernel has no Landlock, or another version of it. */
        (void)landlock_confine(rules, ARRAY_SIZE(rules), true, &hint);
        setpriority(PRIO_PROCESS, 0, NICE);
        r = set_limits(how, err);
        if (r < 0)
                return r;
        if (how->filter_fd != FILTER_AT && dup2(how->filter_fd, FILTER_AT) < 0)
                return error_errno(err, errno, "the filter");
        r = fd_close_range(FILTER_AT + 1, ~0U);
        if (r < 0)
                return error_errno(err, -r, "close descriptors");
        r = filter_load(FILTER_AT, err);
        close(FILTER_AT);
        return r;
}

/* ---- the guard ---- */

/* Returns why the installer must end, or NULL. */
static const char *excess(DIR *proc)
{
        uint64_t pages = 0;
        unsigned n = 0;

        if (!proc)
                return "its processes cannot be measured";
        rewinddir(proc);
        for (struct dirent *d; (d = readdir(proc));) {
                char path[32], text[64] = "";
                uint64_t resident = 0;
                struct stat tasks;
                if (!isdigit((unsigned char)d->d_name[0]))
                        continue;
                snprintf(path, sizeof(path), "%.16s/statm", d->d_name);
                _cleanup_close_ int fd = openat(dirfd(proc), path, O_RDONLY | O_CLOEXEC);
                if (fd >= 0 && fd_read_full(fd, text, sizeof(text) - 1) > 0 &&
                    sscanf(text, "%*u %" SCNu64, &resident) == 1)
                        pages += resident;
                /* Two links and one of each thread: RLIMIT_NPROC does not bound those of uid 0. */
                snprintf(path, sizeof(path), "%.16s/task", d->d_name);
                if (fstatat(dirfd(proc), path, &tasks, 0) == 0)
                        n += (unsigned)tasks.st_nlink - 2;
        }
        if (n > TASKS_MAX)
                return "it started too many processes";
        return pages > ((uint64_t)MEMORY_MIB << 20) / (uint64_t)sysconf(_SC_PAGESIZE)
                       ? "it needed more than 960 MiB of memory"
                       : NULL;
}

/* ready: at its end the child has changed the root, which is that of both: /proc is the child's then. Or it has ended. */
static _Noreturn void guard(pid_t pid, int ready)
{
        int status = 0;
        char byte;

        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        close(STDIN_FILENO);
        (void)!read(ready, &byte, 1);
        DIR *proc = opendir("/proc");
        struct pollfd child = {.fd = pidfd_open(pid, 0), .events = POLLIN};
        capabilities_keep(0);
        while (child.fd >= 0 && poll(&child, 1, MEASURE_MS) == 0) {
                const char *why = excess(proc);
                if (why) {
                        dprintf(STDOUT_FILENO,
                                "{\"error\":\"packages: the installer was ended: %s\"}\n", why);
                        break;
                }
        }
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int write_file(const char *path, const char *text, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
        int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));

        return r < 0 ? error_errno(err, -r, "%s", path) : 0;
}

/* The ids stay what they are. Uid 0 cannot be mapped without capabilities: it appears as the overflow uid inside. */
static int take_namespaces(struct error *err)
{
        char uids[48], gids[48];
        bool is_root = geteuid() == 0;

        snprintf(uids, sizeof(uids), "%u %u 1", geteuid(), geteuid());
        snprintf(gids, sizeof(gids), "%u %u 1", getegid(), getegid());
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                    CLONE_NEWCGROUP) < 0)
                return error_errno(err, errno, "namespaces (see 'cloister doctor')");
        if (is_root)
                return 0;
        int r = write_file("/proc/self/setgroups", "deny", err);
        if (r >= 0)
                r = write_file("/proc/self/uid_map", uids, err);
        return r < 0 ? r : write_file("/proc/self/gid_map", gids, err);
}

int installer_sandbox_enter(const struct installer_sandbox *how, struct error *err)
{
        char top[PATH_MAX] = "";
        int ends[2];

        int r = take_namespaces(err);
        if (r < 0)
                return r;
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        pid_t pid = fork();
        if (pid < 0)
                return error_errno(err, errno, "fork");
        close(ends[pid > 0]);
        if (pid > 0)
                guard(pid, ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        /* Before a session of its principal, which cannot be repeated. */
        (void)write_file("/proc/self/oom_score_adj", "1000", &(struct error){});
        r = take_root(how, top, err);
        return r < 0 ? r : confine(how, top, err);
}
