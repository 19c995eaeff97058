/* The host ids of sandboxes, and the privilege that the monitor keeps. */
#include "supervisor/monitor/ids/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mount.h"
#include "supervisor/monitor/process/child.h"

/* ---- ranges of numeric ids ---- */

/* Enough for the passwd file of a large site; a longer file is an error. */
enum { FILE_MAX = 64 * 1024 * 1024, SLOT_MIN = 1024 };

int id_runs_add(struct id_runs *runs, uint32_t first, uint32_t count)
{
        if (count == 0)
                return 0;
        struct id_run *last = runs->count ? &runs->items[runs->count - 1] : NULL;
        /* Ids in passwd files mostly ascend: join adjacent ones. */
        if (last && (uint64_t)last->first + last->count == first &&
            (uint64_t)last->count + count <= UINT32_MAX) {
                last->count += count;
                return 0;
        }
        if (runs->count == runs->allocated) {
                size_t room = runs->allocated ? runs->allocated * 2 : 64;
                struct id_run *more = reallocarray(runs->items, room, sizeof(*more));
                if (!more)
                        return -ENOMEM;
                runs->items = more;
                runs->allocated = room;
        }
        runs->items[runs->count++] = (struct id_run){first, count};
        return 0;
}

void id_runs_done(struct id_runs *runs)
{
        free(runs->items);
        *runs = (struct id_runs){0};
}

typedef int line_parser(const char *line, struct id_run *ret);

static int parse_map(const char *line, struct id_run *ret)
{
        uint32_t outer;

        return sscanf(line, "%u %u %u", &ret->first, &outer, &ret->count) == 3 ? 0 : -EINVAL;
}

static int parse_sub(const char *line, struct id_run *ret)
{
        return sscanf(line, "%*[^:]:%u:%u", &ret->first, &ret->count) == 2 ? 0 : -EINVAL;
}

static int parse_name(const char *line, struct id_run *ret)
{
        const char *second = strchr(line, ':');
        const char *third = second ? strchr(second + 1, ':') : NULL;

        ret->count = 1;
        return third && sscanf(third, ":%u", &ret->first) == 1 ? 0 : -EINVAL;
}

static int add_lines(struct id_runs *runs, char *text, line_parser *parse, struct error *err)
{
        char *rest = text;
        const char *line;

        while ((line = strsep(&rest, "\n"))) {
                struct id_run run;
                /* Comments, NIS entries and malformed lines name no id. */
                if (parse(line, &run) == 0 && id_runs_add(runs, run.first, run.count) < 0)
                        return error_errno(err, ENOMEM, "ids");
        }
        return 0;
}

/* *ret: the text, owned by the caller; NULL when the file does not exist. */
static int read_lines(const char *path, char **ret, struct error *err)
{
        size_t length;

        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return 0;
        if (fd < 0)
                return error_errno(err, errno, "open %s", path);
        int r = fd_read_whole(fd, FILE_MAX, ret, &length, err);
        return r < 0 ? error_context(err, "%s", path) : 0;
}

int id_runs_add_file(struct id_runs *runs, const char *path, enum id_file kind, struct error *err)
{
        static line_parser *const parsers[] = {parse_map, parse_sub, parse_name};
        _cleanup_free_ char *text = NULL;

        int r = read_lines(path, &text, err);
        return r < 0 || !text ? r : add_lines(runs, text, parsers[kind], err);
}

static bool is_owned(const char *line, const char *name, uint32_t uid)
{
        size_t n = strcspn(line, ":");
        char number[16];

        snprintf(number, sizeof(number), "%u", uid);
        return (strlen(name) == n && strncmp(line, name, n) == 0) ||
               (strlen(number) == n && strncmp(line, number, n) == 0);
}

int id_runs_add_sub_of(struct id_runs *runs, const char *path, const char *name, uint32_t uid,
                       struct error *err)
{
        _cleanup_free_ char *text = NULL;

        int r = read_lines(path, &text, err);
        char *rest = text;
        for (const char *line; r >= 0 && (line = strsep(&rest, "\n"));) {
                struct id_run run;
                if (is_owned(line, name, uid) && parse_sub(line, &run) == 0)
                        r = id_runs_add(runs, run.first, run.count);
        }
        return r;
}

static uint64_t end_of(struct id_run run)
{
        return (uint64_t)run.first + run.count;
}

bool id_runs_cover(const struct id_runs *runs, struct id_run wanted)
{
        for (size_t i = 0; i < runs->count; i++) {
                if (runs->items[i].first <= wanted.first &&
                    end_of(wanted) <= end_of(runs->items[i]))
                        return true;
        }
        return false;
}

bool id_runs_overlap(const struct id_runs *runs, struct id_run wanted)
{
        for (size_t i = 0; i < runs->count; i++) {
                if (runs->items[i].first < end_of(wanted) && wanted.first < end_of(runs->items[i]))
                        return true;
        }
        return false;
}

/* A power of two, so that monitors with different numbers of sessions divide a range into the
 * same slots. */
static uint32_t slot_size(uint32_t needed)
{
        uint32_t size = SLOT_MIN;

        while (size < needed)
                size *= 2;
        return size;
}

int id_runs_choose(struct id_run range, uint32_t needed, uint32_t start,
                   const struct id_runs *uid_map, const struct id_runs *gid_map,
                   const struct id_runs *taken, struct id_run *ret)
{
        uint32_t size = slot_size(needed);
        uint32_t slots = range.count / size;

        if (needed == 0 || needed > range.count)
                return -ENOSPC;
        if (slots == 0)
                slots = 1;
        for (uint32_t i = 0; i < slots; i++) {
                uint32_t slot = (uint32_t)(((uint64_t)start + i) % slots);
                struct id_run run = {range.first + slot * size, needed};
                if (run.first != 0 && end_of(run) <= UINT32_MAX && id_runs_cover(uid_map, run) &&
                    id_runs_cover(gid_map, run) && !id_runs_overlap(taken, run)) {
                        *ret = run;
                        return 0;
                }
        }
        return -ENOSPC;
}

/* ---- children in new user namespaces ---- */

/* For a child that only has to run. */
enum { STEP_MS = 5000 };

pid_t userns_fork(unsigned long flags)
{
        int ends[2];
        char byte = 0;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        _cleanup_close_ int read_end = ends[0];
        _cleanup_close_ int write_end = ends[1];
        /* A system call, because fork() takes no flags. The monitor has one thread, so that
         * libc's state stays correct. */
        long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                if (prctl(PR_SET_DUMPABLE, 1) < 0 || write(write_end, &byte, 1) != 1)
                        _exit(1);
                return 0;
        }
        close(take_fd(write_end));
        if (child_read_in_time(read_end, &byte, 1, STEP_MS) == 1)
                return (pid_t)pid;
        /* It may wait for a byte that will not come. */
        child_kill((pid_t)pid);
        return -ECHILD;
}

static int write_proc(pid_t pid, const char *file, const char *text, struct error *err)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "open %s", path);
        int r = fd_write_all(fd, text, strlen(text));
        return r < 0 ? error_errno(err, -r, "write '%s' to %s", text, path) : 0;
}

static int write_maps(pid_t pid, bool deny_setgroups, const char *uids, const char *gids,
                      struct error *err)
{
        /* The file is missing in gVisor, which wants no such promise before it maps a group. */
        struct error why = {};
        int r = deny_setgroups ? write_proc(pid, "setgroups", "deny", &why) : 0;

        if (r < 0 && r != -ENOENT)
                return error_set(err, -r, "%s", why.text);
        r = write_proc(pid, "uid_map", uids, err);
        return r < 0 ? r : write_proc(pid, "gid_map", gids, err);
}

int userns_map(pid_t pid, uint32_t inside, uid_t outside_uid, gid_t outside_gid, uint32_t count,
               struct error *err)
{
        char uids[64], gids[64];

        snprintf(uids, sizeof(uids), "%u %u %u", inside, outside_uid, count);
        snprintf(gids, sizeof(gids), "%u %u %u", inside, outside_gid, count);
        return write_maps(pid, true, uids, gids, err);
}

int userns_keep_capabilities(void)
{
        static const int keep[] = {CAP_SYS_ADMIN, CAP_SETPCAP, CAP_SETUID, CAP_SETGID};
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct sets[2] = {};

        for (size_t i = 0; i < ARRAY_SIZE(keep); i++) {
                uint32_t bit = 1U << (keep[i] % 32);
                sets[keep[i] / 32].effective |= bit;
                sets[keep[i] / 32].permitted |= bit;
                sets[keep[i] / 32].inheritable |= bit;
        }
        if (syscall(SYS_capset, &header, sets) < 0)
                return -errno;
        for (size_t i = 0; i < ARRAY_SIZE(keep); i++) {
                if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, keep[i], 0, 0) < 0)
                        return -errno;
        }
        return 0;
}

/*
 * The subordinate ids of an ordinary user (subuid(5), subgid(5)) and the programs that write them
 * into an id map (newuidmap(1), newgidmap(1)).
 */
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

/*
 * Chooses a run of `needed` uids and one of gids that the files give to this user by name or by
 * uid. Each call takes a random slot, so that two monitors rarely share ids. -ENOENT and *why:
 * there are none, too few, or no such programs.
 */
static int newuidmap_choose(uid_t uid, uint32_t needed, struct id_run *uids, struct id_run *gids,
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

/* Runs the programs on a dumpable child of ours: they map 0..count-1 to first_uid… and
 * first_gid…. */
static int newuidmap_map(pid_t pid, uid_t first_uid, gid_t first_gid, uint32_t count,
                         struct error *err)
{
        int r = map_with("newuidmap", pid, first_uid, count, err);
        return r < 0 ? r : map_with("newgidmap", pid, first_gid, count, err);
}

/* include/linux/proc_ns.h: PROC_USER_INIT_INO, the inode of the initial user namespace. */
#define INITIAL_USER_NAMESPACE 0xEFFFFFFDU

const char *ids_mode_name(enum sandbox_mode mode)
{
        static const char *const names[] = {
                [SANDBOX_ROOTLESS] = "rootless",
                [SANDBOX_CAPABLE] = "capable",
                [SANDBOX_ROOT] = "root",
        };
        static_assert(ARRAY_SIZE(names) == SANDBOX_MODE_MAX, "a name for each mode");

        return (unsigned)mode < SANDBOX_MODE_MAX ? names[mode] : "unknown";
}

static bool has_capability(cap_value_t which)
{
        cap_flag_value_t value = CAP_CLEAR;
        cap_t now = cap_get_proc();

        if (!now)
                return false;
        cap_get_flag(now, which, CAP_EFFECTIVE, &value);
        cap_free(now);
        return value == CAP_SET;
}

static bool can_map_ids(void)
{
        return has_capability(CAP_SETUID) && has_capability(CAP_SETGID);
}

/* Our own map, each of its extents to itself: the kernel takes none that spans two. Ids that do not fit are not mapped. */
static int describe_same(const char *path, bool has_zero, char *text, size_t size,
                         struct error *err)
{
        _cleanup_free_ char *lines = NULL;
        const char *line;
        size_t used = 0;

        int r = read_lines(path, &lines, err);
        if (r < 0 || !lines)
                return r < 0 ? r : error_errno(err, ENOENT, "open %s", path);
        for (char *rest = lines; (line = strsep(&rest, "\n"));) {
                struct id_run run;
                if (parse_map(line, &run) < 0)
                        continue;
                if (run.first == 0 && !has_zero) {
                        run.first++;
                        run.count--;
                }
                int n = run.count == 0 ? 0
                                       : snprintf(text + used, size - used, "%u %u %u\n", run.first,
                                                  run.first, run.count);
                if (n < 0 || (size_t)n >= size - used)
                        break;
                used += (size_t)n;
        }
        text[used] = '\0';
        return 0;
}

int userns_map_same(pid_t pid, struct error *err)
{
        /* The kernel takes less than a page, in one write (user_namespaces(7)). */
        char uids[2048], gids[2048];

        if (!can_map_ids()) {
                snprintf(uids, sizeof(uids), "%u %u 1", geteuid(), geteuid());
                snprintf(gids, sizeof(gids), "%u %u 1", getegid(), getegid());
                return write_maps(pid, true, uids, gids, err);
        }
        int r = describe_same("/proc/self/uid_map", has_capability(CAP_SETFCAP), uids, sizeof(uids),
                              err);
        if (r >= 0)
                r = describe_same("/proc/self/gid_map", true, gids, sizeof(gids), err);
        return r < 0 ? r : write_maps(pid, false, uids, gids, err);
}

/* Whether our map has one id only. *outer is what it is in the user namespace above. */
static bool is_mapped_alone(uint32_t *outer)
{
        char text[128];
        uint32_t inner, count;
        int used = 0;

        _cleanup_close_ int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return false;
        text[n] = '\0';
        return sscanf(text, "%u %u %u %n", &inner, outer, &count, &used) == 3 && count == 1 &&
               used == n;
}

bool ids_root_is_ordinary(void)
{
        uint32_t outer;

        return geteuid() == 0 && is_mapped_alone(&outer) && outer != 0;
}

static bool is_initial_namespace(void)
{
        struct stat st;

        return stat("/proc/self/ns/user", &st) < 0 || st.st_ino == INITIAL_USER_NAMESPACE;
}

/* ---- the trial ---- */

/* In the child, after its ids are mapped: uses the namespace as a sandbox does. AppArmor's
 * restriction of unprivileged user namespaces allows creating one but forbids mounts in it.
 * Returns 0 or a positive errno value. */
static int use_namespace(void)
{
        if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 || unshare(CLONE_NEWNS) < 0 ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", "/", "tmpfs", MS_NOSUID | MS_NODEV, "size=4k") < 0)
                return errno;
        return 0;
}

enum { TRIAL_SECONDS = 5, TRIAL_MS = TRIAL_SECONDS * 1000 };

_Noreturn static void trial_child(int go)
{
        char byte;

        child_reset_signals();
        alarm(TRIAL_SECONDS);
        child_close_all_but(&go, 1);
        if (fd_read_full(go, &byte, 1) != 1)
                _exit(ECANCELED);
        _exit(use_namespace());
}

static int await_trial(pid_t pid)
{
        int status;
        int r = child_wait_in_time(pid, TRIAL_MS, &status);

        if (r < 0)
                return r;
        if (!WIFEXITED(status))
                return WTERMSIG(status) == SIGALRM ? -ETIMEDOUT : -EIO;
        return -WEXITSTATUS(status);
}

int ids_map(pid_t pid, const struct ids *ids, struct error *err)
{
        if (ids->by_helper)
                return newuidmap_map(pid, ids->first, ids->group, ids->count, err);
        return userns_map(pid, 0, ids->first, ids->group, ids->count, err);
}

struct ids ids_single(const struct ids *ids)
{
        struct ids single = *ids;

        if (ids->mode != SANDBOX_ROOTLESS)
                return single;
        single.first = geteuid();
        single.group = getegid();
        single.count = 1;
        single.by_helper = false;
        return single;
}

/* Makes a user namespace with these ids. Returns 0 or negative errno. */
static int try_ids(const struct ids *ids, struct error *err)
{
        _cleanup_close_ int read_end = -1, write_end = -1;
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        read_end = ends[0];
        write_end = ends[1];
        pid_t pid = userns_fork(CLONE_NEWUSER);
        if (pid < 0)
                return pid;
        if (pid == 0)
                trial_child(read_end);
        int r = ids_map(pid, ids, err);
        if (r >= 0)
                r = fd_write_all(write_end, "", 1);
        close(take_fd(write_end));
        int ended = await_trial(pid);
        return r < 0 ? r : ended;
}

static long read_number(const char *path, long otherwise)
{
        char text[32];
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof(text) - 1);

        if (n <= 0)
                return otherwise;
        text[n] = '\0';
        return strtol(text, NULL, 10);
}

const char *ids_namespace_hint(int code)
{
        if (code == EROFS)
                return "/proc is mounted read-only, and their ids are written there: mount -o remount,bind,rw /proc, or 'cloister doctor'";
        if (read_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
                return "sysctl kernel.unprivileged_userns_clone=1 allows them";
        if (code == ENOSPC || read_number("/proc/sys/user/max_user_namespaces", 1) == 0)
                return "raise sysctl user.max_user_namespaces and its like (user.max_*_namespaces)";
        if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) != 0)
                return "AppArmor restricts them: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that gives cloister-monitor `userns`";
        if (code == EUSERS)
                return "user namespaces are nested too deep here";
        return "a chroot, a seccomp filter or a security module around this process forbids it: 'cloister doctor' names it and the command that lifts it";
}

/* ---- the choice ---- */

struct id_tables {
        struct id_runs uid_map, gid_map, taken;
};

static void surroundings_done(struct id_tables *s)
{
        id_runs_done(&s->uid_map);
        id_runs_done(&s->gid_map);
        id_runs_done(&s->taken);
}

static int surroundings_read(struct id_tables *s, struct error *err)
{
        int r = id_runs_add_file(&s->uid_map, "/proc/self/uid_map", ID_MAP, err);
        if (r >= 0)
                r = id_runs_add_file(&s->gid_map, "/proc/self/gid_map", ID_MAP, err);
        if (r >= 0)
                r = id_runs_add_file(&s->taken, "/etc/passwd", ID_NAMES, err);
        if (r >= 0)
                r = id_runs_add_file(&s->taken, "/etc/group", ID_NAMES, err);
        if (r >= 0)
                r = id_runs_add_file(&s->taken, "/etc/subuid", ID_SUB, err);
        if (r >= 0)
                r = id_runs_add_file(&s->taken, "/etc/subgid", ID_SUB, err);
        return r;
}

/* The first free id of the range is the broker's in every monitor; the run is behind it. */
static int choose_in(const struct id_tables *s, struct id_run range, uint32_t needed,
                     struct id_run *ret, uid_t *broker)
{
        struct id_run first;
        uint32_t start = 0;

        if (id_runs_choose(range, 1, 0, &s->uid_map, &s->gid_map, &s->taken, &first) < 0)
                return -ENOSPC;
        struct id_run rest = {first.first + 1, range.count - (first.first + 1 - range.first)};
        /* No secret: after a collision two monitors share host ids. */
        if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
                start = (uint32_t)getpid();
        *broker = first.first;
        return id_runs_choose(rest, needed - 1, start, &s->uid_map, &s->gid_map, &s->taken, ret);
}

static int choose_default(const struct id_tables *s, uint32_t needed, struct id_run *ret,
                          uid_t *broker)
{
        struct id_run range = {IDS_DEFAULT_FIRST, IDS_DEFAULT_COUNT};
        int r = choose_in(s, range, needed, ret, broker);

        /* In a container: ids from its own map. */
        for (size_t i = s->uid_map.count; r < 0 && i > 0; i--)
                r = choose_in(s, s->uid_map.items[i - 1], needed, ret, broker);
        return r;
}

static int choose_range(uint32_t first, uint32_t count, uint32_t needed, struct id_run *ret,
                        uid_t *broker, struct error *err)
{
        _cleanup_(surroundings_done) struct id_tables s = {0};

        int r = surroundings_read(&s, err);
        if (r < 0)
                return error_context(err, "ids of sandboxes");
        if (count == 0 && choose_default(&s, needed, ret, broker) < 0)
                return error_set(
                        err, ENOSPC,
                        "no %u free ids for sandboxes in our uid_map; set id_range in the config, or give this container more ids",
                        needed);
        if (count != 0 && choose_in(&s, (struct id_run){first, count}, needed, ret, broker) < 0)
                return error_set(
                        err, ENOSPC,
                        "id_range %u+%u has no %u ids in a row that are inside our uid_map and free of passwd, group, subuid and subgid entries; choose another",
                        first, count, needed);
        return 0;
}

/* Chooses subordinate ids if there are enough of them and a trial works. */
static int choose_subordinate(uint32_t needed, struct ids *ret, struct error *why)
{
        struct id_run uids, gids;

        if (geteuid() == 0 || needed < 2)
                return error_set(why, ENOENT, "uid 0 has no subordinate ids");
        int r = newuidmap_choose(geteuid(), needed - 1, &uids, &gids, why);
        if (r < 0)
                return r;
        struct ids ids = {.mode = SANDBOX_ROOTLESS,
                          .first = uids.first,
                          .group = gids.first,
                          .count = needed - 1,
                          .by_helper = true,
                          .broker = geteuid()};
        r = try_ids(&ids, why);
        if (r >= 0)
                *ret = ids;
        else if (!error_is_set(why))
                error_errno(why, -r, "a namespace with subordinate ids");
        return r;
}

static int choose_rootless(uint32_t needed, struct ids *ret, struct error *err)
{
        struct ids ids = {.mode = SANDBOX_ROOTLESS,
                          .first = geteuid(),
                          .group = getegid(),
                          .count = 1,
                          .broker = geteuid()};
        struct error why = {};
        uint32_t outer;

        if (geteuid() == 0 && is_initial_namespace())
                return error_set(
                        err, EPERM,
                        "uid 0 without CAP_SETUID and CAP_SETGID: sandboxes never run as uid 0; grant both or start Cloister as another user");
        if (geteuid() == 0 && is_mapped_alone(&outer) && outer == 0)
                return error_set(
                        err, EPERM,
                        "the only id of this user namespace is uid 0 outside, too: sandboxes never run as uid 0; map ids to it (unshare --map-auto, newuidmap), or start Cloister as another user");
        if (choose_subordinate(needed, ret, &why) >= 0)
                return 0;
        int r = try_ids(&ids, NULL);
        if (r < 0)
                return error_set(err, -r, "no user namespace for sandboxes (%s): %s",
                                 strerrordesc_np(-r), ids_namespace_hint(-r));
        snprintf(ids.note, sizeof(ids.note), "%.*s", (int)sizeof(ids.note) - 1, why.text);
        *ret = ids;
        return 0;
}

int ids_choose(uint32_t range_first, uint32_t range_count, uint32_t needed, struct ids *ret,
               struct error *err)
{
        struct id_run run;
        uid_t broker;
        uint32_t outer;

        /* Maps are written below /proc/PID. */
        int r = mount_check_proc(err);
        if (r < 0)
                return r;
        /* A root whose map contains only itself (unshare -r) is an ordinary user outside. */
        if (!can_map_ids() || is_mapped_alone(&outer))
                return choose_rootless(needed, ret, err);
        r = choose_range(range_first, range_count, needed, &run, &broker, err);
        if (r < 0)
                return r;
        struct ids ids = {.mode = geteuid() == 0 ? SANDBOX_ROOT : SANDBOX_CAPABLE,
                          .first = run.first,
                          .group = run.first,
                          .count = run.count,
                          .broker = broker};
        r = try_ids(&ids, NULL);
        if (r < 0)
                return error_set(err, -r, "no user namespace for sandboxes with ids %u+%u (%s): %s",
                                 run.first, run.count, strerrordesc_np(-r), ids_namespace_hint(-r));
        *ret = ids;
        return 0;
}

/* ---- privilege ---- */

/* An exec by uid 0 gives no capabilities any more. Without CAP_SETPCAP this fails unless it is
 * set already. */
static void lock_root(void)
{
        int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);

        if (bits >= 0)
                prctl(PR_SET_SECUREBITS, bits | SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0);
}

int ids_drop_privilege(enum sandbox_mode mode, bool keep_chown, struct error *err)
{
        uint64_t keep = 0;

        if (mode != SANDBOX_ROOTLESS) {
                keep = UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID;
                /* Servers are in user namespaces that also have id 0 (userns_map_same()). */
                if (geteuid() == 0)
                        keep |= UINT64_C(1) << CAP_SETFCAP;
                if (keep_chown)
                        keep |= UINT64_C(1) << CAP_CHOWN;
                if (setgroups(0, NULL) < 0)
                        return error_errno(err, errno, "drop supplementary groups");
                capabilities_bound(keep);
                lock_root();
        } else if (geteuid() == 0) {
                /* Root that is mapped alone: the kernel asks for it where a new map has id 0 of this
                 * user namespace. */
                keep = UINT64_C(1) << CAP_SETFCAP;
        }
        int r = capabilities_keep(keep);
        if (r < 0)
                return error_errno(err, -r, "drop capabilities");
        return 0;
}

int ids_keep_capabilities(uint64_t keep, struct error *err)
{
        capabilities_bound(keep);
        lock_root();
        int r = capabilities_keep(keep);
        if (r < 0)
                return error_errno(err, -r, "drop capabilities");
        /* Without CAP_SETPCAP the two above had no effect, and an exec by uid 0 would regain
         * capabilities. */
        if (geteuid() == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_errno(err, errno, "no_new_privs");
        return 0;
}

int ids_drop_capabilities(struct error *err)
{
        return ids_keep_capabilities(0, err);
}
