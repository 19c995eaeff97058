/* Subordinate ids, and newuidmap. */
#include "supervisor/monitor/ids/newuidmap.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/process/child.h"

enum { OUTPUT_MAX = 256, HELPER_SECONDS = 5, HELPER_MS = HELPER_SECONDS * 1000 };

/* The directories that distributions use. Not PATH, because these programs are set-uid root. */
static int find_helper(const char *name, char *path, size_t size)
{
        static const char *const folders[] = {"/usr/bin", "/bin", "/usr/local/bin",
                                              "/run/wrappers/bin"};

        for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
                snprintf(path, size, "%s/%s", folders[i], name);
                if (access(path, X_OK) == 0)
                        return 0;
        }
        return -ENOENT;
}

static bool is_empty(const char *path)
{
        struct stat st;

        return stat(path, &st) < 0 || st.st_size == 0;
}

static int choose_from(const char *path, const char *name, uid_t uid, uint32_t needed,
                       uint32_t start, struct id_run *ret, struct error *why)
{
        struct id_runs runs = {0}, none = {0};

        int r = id_runs_add_sub_of(&runs, path, name, uid, why);
        if (r >= 0) {
                r = -ENOENT;
                for (size_t i = 0; i < runs.count && r < 0; i++)
                        r = id_runs_choose(runs.items[i], needed, start, &runs, &runs, &none, ret);
                if (r < 0)
                        error_set(why, ENOENT,
                                  runs.count == 0 ? "%s has no entry for %s"
                                                  : "%s gives %s too few ids",
                                  path, name);
        }
        id_runs_done(&runs);
        return r;
}

int newuidmap_choose(uid_t uid, uint32_t needed, struct id_run *uids, struct id_run *gids,
                     struct error *why)
{
        uint32_t start = 0;
        char name[64], path[64];

        if (find_helper("newuidmap", path, sizeof(path)) < 0 ||
            find_helper("newgidmap", path, sizeof(path)) < 0)
                return error_set(why, ENOENT, "newuidmap and newgidmap are not installed");
        if (is_empty("/etc/subuid"))
                return error_set(why, ENOENT, "/etc/subuid has no entries");
        /* getpwuid() may load libraries; an id without a name is written as a number. */
        const struct passwd *entry = getpwuid(uid);
        snprintf(name, sizeof(name), "%s", entry ? entry->pw_name : "");
        if (!entry)
                snprintf(name, sizeof(name), "%u", uid);
        /* No secret: after a collision two monitors share host ids. */
        if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
                start = (uint32_t)getpid();
        int r = choose_from("/etc/subuid", name, uid, needed, start, uids, why);
        return r < 0 ? r : choose_from("/etc/subgid", name, uid, needed, start, gids, why);
}

_Noreturn static void run_helper(char *const argv[], int output)
{
        char *const env[] = {(char[]){"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}, NULL};
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

        child_reset_signals();
        alarm(HELPER_SECONDS);
        if (child_place_fd(nothing, STDIN_FILENO) == 0 &&
            child_place_fd(output, STDERR_FILENO) == 0 &&
            child_place_fd(nothing, STDOUT_FILENO) == 0)
                execve(argv[0], argv, env);
        _exit(127);
}

/* Runs a helper and waits for it. */
static int call_helper(char *const argv[], struct error *err)
{
        char output[OUTPUT_MAX] = "";
        int ends[2], status = -1;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "%s", argv[0]);
        pid_t pid = fork();
        if (pid == 0)
                run_helper(argv, ends[1]);
        close(ends[1]);
        ssize_t n = pid < 0 ? -1
                            : child_read_in_time(ends[0], output, sizeof(output) - 1, HELPER_MS);
        close(ends[0]);
        int r = pid < 0 ? -ECHILD : child_wait_in_time(pid, n < 0 ? 0 : HELPER_MS, &status);
        if (r == 0 && status == 0)
                return 0;
        if (r == -ETIMEDOUT)
                return error_set(err, ETIMEDOUT, "%s did not end within %d s", argv[0],
                                 HELPER_SECONDS);
        output[n > 0 ? n : 0] = '\0';
        output[strcspn(output, "\n")] = '\0';
        return error_set(err, EPERM, "%s", *output ? output : argv[0]);
}

static int map_with(const char *helper, pid_t pid, uint32_t first, uint32_t count,
                    struct error *err)
{
        char path[64], pid_text[16], first_text[16], count_text[16];

        if (find_helper(helper, path, sizeof(path)) < 0)
                return error_set(err, ENOENT, "%s is not installed", helper);
        snprintf(pid_text, sizeof(pid_text), "%d", (int)pid);
        snprintf(first_text, sizeof(first_text), "%u", first);
        snprintf(count_text, sizeof(count_text), "%u", count);
        char *const argv[] = {path, pid_text, (char[]){"0"}, first_text, count_text, NULL};
        return call_helper(argv, err);
}

int newuidmap_map(pid_t pid, uid_t first_uid, gid_t first_gid, uint32_t count, struct error *err)
{
        int r = map_with("newuidmap", pid, first_uid, count, err);
        return r < 0 ? r : map_with("newgidmap", pid, first_gid, count, err);
}
