/* From the fork of a server's process to its exec. Runs in the child: no locks, no logging. */
#include "supervisor/monitor/upstream/upstream-exec.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/upstream/apart.h"

static int take_entry(const struct passwd *entry, struct upstream_user *ret, struct error *err)
{
        struct upstream_user user = {
                .uid = entry->pw_uid,
                .gid = entry->pw_gid,
                .home = strdup(entry->pw_dir),
                .name = strdup(entry->pw_name),
        };

        if (!user.home || !user.name) {
                upstream_user_done(&user);
                return error_errno(err, ENOMEM, "user");
        }
        *ret = user;
        return 0;
}

static int parse_uid(const char *text, uid_t *ret)
{
        char *end;

        errno = 0;
        unsigned long value = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || errno || value >= UINT32_MAX)
                return -EINVAL;
        *ret = (uid_t)value;
        return 0;
}

static int by_name(const char *name, struct upstream_user *ret, struct error *err)
{
        uid_t uid;
        const struct passwd *entry = getpwnam(name);

        if (!entry && parse_uid(name, &uid) == 0)
                entry = getpwuid(uid);
        if (!entry)
                return error_set(
                        err, ENOENT,
                        "config user \"%s\": there is no such user; create it (useradd --system) or name another",
                        name);
        return take_entry(entry, ret, err);
}

static int by_sudo_uid(const char *text, struct upstream_user *ret, struct error *err)
{
        uid_t uid;

        if (parse_uid(text, &uid) < 0)
                return error_set(err, EINVAL, "SUDO_UID is \"%s\", not a user id", text);
        const struct passwd *entry = getpwuid(uid);
        if (!entry)
                return error_set(
                        err, ENOENT,
                        "SUDO_UID is %u, which has no passwd entry; set `user` in the config", uid);
        return take_entry(entry, ret, err);
}

static int as_ourselves(struct upstream_user *ret)
{
        *ret = (struct upstream_user){.uid = geteuid(), .gid = getegid(), .drop_capabilities = 1};
        return ret->uid == 0;
}

int upstream_user_choose(enum sandbox_mode mode, const char *configured, const char *sudo_uid,
                         struct upstream_user *ret, struct error *err)
{
        struct upstream_user user = {0};
        int r = 0;

        if (mode == SANDBOX_ROOTLESS) {
                r = configured ? by_name(configured, &user, err) : 0;
                uid_t asked = user.uid;
                upstream_user_done(&user);
                if (r < 0)
                        return r;
                if (configured && asked != geteuid())
                        return error_set(
                                err, EPERM,
                                "config user \"%s\": only root can run servers as another user; remove it or start Cloister as root",
                                configured);
                *ret = (struct upstream_user){.uid = geteuid(), .gid = getegid()};
                return 0;
        }
        if (configured)
                r = by_name(configured, &user, err);
        else if (sudo_uid && mode == SANDBOX_ROOT)
                r = by_sudo_uid(sudo_uid, &user, err);
        else
                return as_ourselves(ret);
        if (r < 0)
                return r;
        if (user.uid == geteuid()) {
                /* `user: root`, or sudo from a root shell: allowed, but without capabilities. */
                upstream_user_done(&user);
                return as_ourselves(ret);
        }
        *ret = user;
        return 0;
}

void upstream_user_done(struct upstream_user *user)
{
        free(user->home);
        free(user->name);
        user->home = user->name = NULL;
}

/* The values that the monitor started with. */
static struct {
        bool known;
        mode_t mask;
        rlim_t files, core;
        char oom_score[16];
} remembered;

static const char oom_score_path[] = "/proc/self/oom_score_adj";

void upstream_remember(void)
{
        struct rlimit files = {0}, core = {0};

        remembered.mask = umask(022);
        umask(remembered.mask);
        getrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_CORE, &core);
        remembered.files = files.rlim_cur;
        remembered.core = core.rlim_cur;
        _cleanup_close_ int fd = open(oom_score_path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && fd_read_full(fd, remembered.oom_score, sizeof(remembered.oom_score) - 1) < 0)
                remembered.oom_score[0] = '\0';
        remembered.known = true;
}

static void restore_limit(int resource, rlim_t soft)
{
        struct rlimit now;

        if (getrlimit(resource, &now) < 0)
                return;
        now.rlim_cur = soft < now.rlim_max ? soft : now.rlim_max;
        setrlimit(resource, &now);
}

/* Failures are ignored: the server then runs with the monitor's values. */
static void restore(void)
{
        if (!remembered.known)
                return;
        umask(remembered.mask);
        restore_limit(RLIMIT_NOFILE, remembered.files);
        restore_limit(RLIMIT_CORE, remembered.core);
        _cleanup_close_ int fd = open(oom_score_path, O_WRONLY | O_CLOEXEC);
        if (fd >= 0)
                (void)fd_write_all(fd, remembered.oom_score, strlen(remembered.oom_score));
}

int upstream_become(const struct upstream_user *user, struct error *err)
{
        bool other = user->uid != geteuid() || user->gid != getegid();

        if (other) {
                int r = user->name ? initgroups(user->name, user->gid) : setgroups(0, NULL);
                if (r < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
                    setresuid(user->uid, user->uid, user->uid) < 0)
                        return error_errno(err, errno, "become user %u", user->uid);
        }
        return other || user->drop_capabilities ? ids_drop_capabilities(err) : 0;
}

static const char *search_path(char *const *env)
{
        for (; *env; env++) {
                if (strncmp(*env, "PATH=", 5) == 0)
                        return *env + 5;
        }
        return "";
}

/* execve() refuses a script without a #! line; shells and execvp() run it with /bin/sh. */
static void exec_script(const char *path, char *const *argv, char *const *env)
{
        size_t n = 0;

        while (argv[n])
                n++;
        char **with_shell = calloc(n + 2, sizeof(char *));
        if (!with_shell)
                return;
        with_shell[0] = (char *)(uintptr_t) "/bin/sh";
        with_shell[1] = (char *)(uintptr_t)path;
        for (size_t i = 1; i < n; i++)
                with_shell[i + 1] = argv[i];
        execve(with_shell[0], with_shell, env);
        free(with_shell);
}

/* Returns a positive errno value. */
static int exec_one(const char *path, const struct upstream_launch *launch)
{
        if (launch->apart && apart_check_program(path, NULL) < 0)
                return EPERM;
        execve(path, launch->argv, launch->env);
        if (errno == ENOEXEC)
                exec_script(path, launch->argv, launch->env);
        return errno;
}

static int exec_failed(const char *path, int code, struct error *err)
{
        if (code == ENOENT && access(path, F_OK) == 0)
                return error_set(err, code,
                                 "%s: its interpreter (the first line, #!…) or loader is missing",
                                 path);
        if (code == EPERM && apart_check_program(path, err) < 0)
                return -code;
        return error_errno(err, code, "%s", path);
}

/* Errors after which the search in PATH continues: the file is not in this directory, or not
 * accessible. */
static bool is_absent(int code)
{
        return code == ENOENT || code == ENOTDIR || code == EACCES || code == ENAMETOOLONG ||
               code == ELOOP || code == ENODEV || code == ETIMEDOUT || code == ESTALE;
}

static int exec_in_path(const struct upstream_launch *launch, struct error *err)
{
        const char *name = launch->argv[0];
        char path[PATH_MAX], found[PATH_MAX] = "";
        int found_code = 0;

        for (const char *dir = search_path(launch->env); *dir;) {
                size_t n = strcspn(dir, ":");
                /* An empty entry is the current directory (POSIX, 8.3). */
                int used = snprintf(path, sizeof(path), "%.*s/%s", n ? (int)n : 1, n ? dir : ".",
                                    name);
                dir += n + (dir[n] == ':');
                if (used < 0 || (size_t)used >= sizeof(path))
                        continue;
                int code = exec_one(path, launch);
                if (!is_absent(code))
                        return exec_failed(path, code, err);
                struct stat st;
                if (found[0] || stat(path, &st) < 0 || S_ISDIR(st.st_mode))
                        continue;
                memcpy(found, path, (size_t)used + 1);
                found_code = code;
        }
        if (found[0])
                return exec_failed(found, found_code, err);
        return error_set(err, ENOENT, "%s: not found in PATH; install it or give its full path",
                         name);
}

int upstream_exec(const struct upstream_launch *launch, struct error *err)
{
        const char *name = launch->argv[0];

        restore();
        if (launch->cwd && chdir(launch->cwd) < 0)
                return error_errno(err, errno, "cwd %s", launch->cwd);
        if (!*name)
                return error_set(err, ENOENT, "command is empty");
        if (strchr(name, '/'))
                return exec_failed(name, exec_one(name, launch), err);
        return exec_in_path(launch, err);
}
