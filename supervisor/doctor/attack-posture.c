/*
 * The host's view of a sandbox: what the kernel says about each of its processes.
 *
 * All processes below `cloister run` are found by their parents. The sandbox's own are those two pid
 * namespaces deeper than this process: PID 1 (init) and the worker. The others are the monitor,
 * which is not confined, the broker, the proxy of profiles with a network, the stub and the template; these have
 * a pid namespace of their own too.
 */
#include "supervisor/doctor/attack-posture.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/program.h"
#include "rpc/egress-messages.h"
#include "supervisor/doctor/attack-rows.h"
#include "supervisor/monitor/ids/ids.h"

enum { FILE_MAX = 1024 * 1024, TASKS_MAX = 64, PIDS_MAX = 4 * 1024 * 1024 };

struct task {
        pid_t pid;
        const char *role; /* the group of its rows; NULL: not confined */
        char *status, *limits, *mounts;
        bool has_proxy;
};

static char *read_file(const char *path)
{
        char *text = NULL;
        size_t n;

        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fd_read_whole(fd, FILE_MAX, &text, &n, NULL) < 0)
                return NULL;
        return text;
}

static char *read_of(pid_t pid, const char *name)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
        return read_file(path);
}

static void link_of(pid_t pid, const char *name, char ret[256])
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
        ssize_t n = readlink(path, ret, 255);
        ret[n > 0 ? n : 0] = '\0';
}

/* The value of a line "Name:\tvalue", cut to size; "" if there is none. */
static void value_of(const char *text, const char *name, char *ret, size_t size)
{
        char mark[64];

        *ret = '\0';
        snprintf(mark, sizeof(mark), "\n%s:\t", name);
        const char *at = text ? strstr(text, mark) : NULL;
        if (at) {
                at += strlen(mark);
                snprintf(ret, size, "%.*s", (int)strcspn(at, "\n"), at);
        }
}

static int depth(const char *status)
{
        char pids[256];
        int n = 0;

        value_of(status, "NSpid", pids, sizeof(pids));
        for (const char *p = pids; *p; n++)
                p += strcspn(p, "\t") + (p[strcspn(p, "\t")] == '\t');
        return n;
}

static bool is_first(const char *status)
{
        char pids[256];

        value_of(status, "NSpid", pids, sizeof(pids));
        const char *last = strrchr(pids, '\t');
        return strcmp(last ? last + 1 : pids, "1") == 0;
}

/* ---- the rows of one process ---- */

static void add(struct attack_rows *rows, const struct task *t, int number, const char *item,
                const char *expected, const char *found, bool held)
{
        enum attack_verdict verdict = !*found ? ATTACK_UNTRIED : held ? ATTACK_HELD : ATTACK_OPEN;

        attack_add(rows, number, t->role, item, expected, *found ? found : "cannot be read",
                   verdict);
}

static void check_privileges(struct attack_rows *rows, const struct task *t)
{
        static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
        char found[256];

        for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
                value_of(t->status, sets[i], found, sizeof(found));
                add(rows, t, 20, sets[i], "0", found, strspn(found, "0") == strlen(found));
        }
        value_of(t->status, "Uid", found, sizeof(found));
        unsigned a = 0, b = 0, c = 0, d = 0;
        bool ids = sscanf(found, "%u %u %u %u", &a, &b, &c, &d) == 4 &&
                   (a || ids_root_is_ordinary()) && a == b && b == c && c == d;
        add(rows, t, 73, "user ids of the host", "one, not 0", found, ids);
        attack_add_speculation(rows, t->role, t->status);
}

static void check_filter(struct attack_rows *rows, const struct task *t, int filters)
{
        char found[64], expected[32];

        value_of(t->status, "NoNewPrivs", found, sizeof(found));
        add(rows, t, 20, "no_new_privs", "1", found, strcmp(found, "1") == 0);
        value_of(t->status, "Seccomp", found, sizeof(found));
        add(rows, t, 67, "seccomp mode", "2 (filter)", found, strcmp(found, "2") == 0);
        value_of(t->status, "Seccomp_filters", found, sizeof(found));
        snprintf(expected, sizeof(expected), "%d or more", filters);
        /* The line exists since Linux 5.9. */
        if (*found)
                add(rows, t, 67, "seccomp filters", expected, found, atoi(found) >= filters);
}

/* The links of a process that is not dumpable cannot be read by its own user. That two user namespaces
 * differ follows from different maps, and a deeper pid namespace is another one. */
static bool is_other_namespace(const struct task *t, const char *kind)
{
        pid_t own = getpid();

        if (strcmp(kind, "pid") == 0) {
                _cleanup_free_ char *status = read_of(own, "status");
                return status && t->status && depth(t->status) > depth(status);
        }
        _cleanup_free_ char *map = read_of(own, "uid_map");
        _cleanup_free_ char *other = read_of(t->pid, "uid_map");
        return strcmp(kind, "user") == 0 && map && other && *other && strcmp(map, other) != 0;
}

static void check_namespaces(struct attack_rows *rows, const struct task *t,
                             const char *const *kinds)
{
        char name[32], own[256], found[256];

        for (; *kinds; kinds++) {
                snprintf(name, sizeof(name), "ns/%s", *kinds);
                link_of(getpid(), name, own);
                if (!*own)
                        continue; /* not in this kernel */
                link_of(t->pid, name, found);
                const char *text = !*found ? (is_other_namespace(t, *kinds) ? "own" : "")
                                   : strcmp(found, own) == 0 ? "the caller's"
                                                             : "own";
                add(rows, t, 19, name, "not the caller's", text, strcmp(text, "own") == 0);
        }
}

/* The hard limit in a line of /proc/PID/limits; "" if there is none. */
static void hard_limit(const struct task *t, const char *name, char ret[32])
{
        const char *line = t->limits ? strstr(t->limits, name) : NULL;

        *ret = '\0';
        if (line)
                sscanf(line + strlen(name), "%*s %31s", ret);
}

static void check_limits(struct attack_rows *rows, const struct task *t)
{
        static const struct {
                int number;
                const char *name;
                unsigned long most;
        } table[] = {{17, "Max core file size", 1},
                     {78, "Max open files", 65536},
                     {83, "Max locked memory", 8 << 20}};
        char found[32], expected[64], processes[32], data[32];

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                hard_limit(t, table[i].name, found);
                snprintf(expected, sizeof(expected), "at most %lu", table[i].most);
                add(rows, t, table[i].number, table[i].name, expected, found,
                    strcmp(found, "unlimited") != 0 && strtoul(found, NULL, 10) <= table[i].most);
        }
        _cleanup_free_ char *own = read_of(getpid(), "cgroup"), *group = read_of(t->pid, "cgroup");
        hard_limit(t, "Max processes", processes);
        hard_limit(t, "Max data size", data);
        bool grouped = own && group && strcmp(own, group) != 0;
        bool each = *processes && strcmp(processes, "unlimited") != 0 &&
                    strcmp(data, "unlimited") != 0;
        add(rows, t, 68, "memory and processes", "a group, or limits of each",
            grouped ? "a control group"
            : each  ? "limits of each process"
                    : "no limit",
            grouped || each);
}

/* Whether a file is one of our executables, as the host starts them. */
static bool is_ours(const struct stat *st)
{
        static const char *const names[] = {"cloister",        "cloister-init",
                                            "cloister-worker", "cloister-monitor",
                                            "cloister-broker", "cloister-doctor"};
        char path[4096];
        struct stat ours;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (program_path(names[i], path, sizeof(path), NULL) >= 0 &&
                    stat(path, &ours) == 0 && ours.st_dev == st->st_dev &&
                    ours.st_ino == st->st_ino)
                        return true;
        }
        return false;
}

static void check_program(struct attack_rows *rows, const struct task *t)
{
        char path[64], link[256];
        struct stat st;

        snprintf(path, sizeof(path), "/proc/%d/exe", t->pid);
        link_of(t->pid, "exe", link);
        bool host = *link && stat(path, &st) == 0 && is_ours(&st);
        add(rows, t, 1, "program", "no file of Cloister's", link, !host);
}

static bool belongs_inside(const struct stat *st, const char *link)
{
        if (S_ISDIR(st->st_mode) || S_ISBLK(st->st_mode))
                return false;
        if (S_ISCHR(st->st_mode))
                return strcmp(link, "/dev/null") == 0;
        return !S_ISREG(st->st_mode) || strncmp(link, "/memfd:", 7) == 0;
}

/* init lists the processes of its namespace there, in a proc that the guest cannot reach: process 1 of it is init. */
static bool is_own_proc(const struct task *t, const char *name)
{
        char listed[320], own[64];
        struct stat there, here;
        struct statfs fs;

        snprintf(listed, sizeof(listed), "/proc/%d/%s", t->pid, name);
        if (strcmp(t->role, "init") != 0 || statfs(listed, &fs) < 0 ||
            fs.f_type != PROC_SUPER_MAGIC)
                return false;
        snprintf(listed, sizeof(listed), "/proc/%d/%s/1/ns/pid", t->pid, name);
        snprintf(own, sizeof(own), "/proc/%d/ns/pid", t->pid);
        return stat(listed, &there) == 0 && stat(own, &here) == 0 && there.st_ino == here.st_ino &&
               there.st_dev == here.st_dev;
}

/* init looks there which files have changed. The guest sees the same directory. */
static bool is_own_workspace(const struct task *t, const struct stat *st)
{
        char path[64];
        struct stat own;

        snprintf(path, sizeof(path), "/proc/%d/root/workspace", t->pid);
        return strcmp(t->role, "init") == 0 && stat(path, &own) == 0 && own.st_dev == st->st_dev &&
               own.st_ino == st->st_ino;
}

/* init counts the pids that were handed out by it: for reading, and of a /proc that the guest cannot reach. */
static bool is_pid_counter(const struct task *t, const char *name, const char *link)
{
        char path[320];
        struct statfs fs;

        snprintf(path, sizeof(path), "/proc/%d/%s", t->pid, name);
        return strcmp(t->role, "init") == 0 && strcmp(link, "/proc/sys/kernel/ns_last_pid") == 0 &&
               statfs(path, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static void check_descriptors(struct attack_rows *rows, const struct task *t)
{
        const char *expected = strcmp(t->role, "init") == 0 ? "a proc, pids, /workspace" : "none";
        char path[64], name[300], link[256], found[256] = "none";
        bool held = true;
        struct stat st;

        snprintf(path, sizeof(path), "/proc/%d/fd", t->pid);
        DIR *dir = opendir(path);
        if (!dir) {
                add(rows, t, 2, "files and folders held", expected, "", false);
                return;
        }
        for (struct dirent *e; (e = readdir(dir));) {
                if (!isdigit((unsigned char)e->d_name[0]))
                        continue;
                snprintf(name, sizeof(name), "fd/%.200s", e->d_name);
                link_of(t->pid, name, link);
                if (fstatat(dirfd(dir), e->d_name, &st, 0) < 0 || belongs_inside(&st, link))
                        continue;
                if (held)
                        snprintf(found, sizeof(found), "%.20s=%.200s", e->d_name, link);
                held = held && (is_own_proc(t, name) || is_own_workspace(t, &st) ||
                                is_pid_counter(t, name, link));
        }
        closedir(dir);
        add(rows, t, 2, "files and folders held", expected, found, held);
}

/* Counts listening sockets in a file like /proc/PID/net/tcp, in the process's network namespace; *proxy: the number of the
 * proxy's. */
static size_t count_listeners(const char *text, unsigned long *proxy)
{
        enum { LISTEN = 10 };
        char own[32], local[64];
        unsigned int state;
        unsigned long inode;
        size_t n = 0;

        snprintf(own, sizeof(own), "%08X:%04X", htonl(INADDR_LOOPBACK), EGRESS_PORT);
        for (const char *line = text; line && *line;) {
                if (sscanf(line, " %*s %63s %*s %x %*s %*s %*s %*s %*s %lu", local, &state,
                           &inode) == 3 &&
                    state == LISTEN) {
                        n++;
                        if (strcmp(local, own) == 0)
                                *proxy = inode;
                }
                line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n');
        }
        return n;
}

/* Returns 1, 0, or -1 where the descriptors cannot be read. */
static int holds_socket(const struct task *t, unsigned long inode)
{
        char path[64], name[300], link[256], wanted[64];
        int held = 0;

        snprintf(path, sizeof(path), "/proc/%d/fd", t->pid);
        snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
        DIR *dir = opendir(path);
        if (!dir)
                return -1;
        for (struct dirent *e; (e = readdir(dir));) {
                snprintf(name, sizeof(name), "fd/%.200s", e->d_name);
                link_of(t->pid, name, link);
                held |= strcmp(link, wanted) == 0;
        }
        closedir(dir);
        return held;
}

/* The proxy of a profile that allows a network listens there, and its socket is not the sandbox's. */
static void check_listeners(struct attack_rows *rows, const struct task *t)
{
        _cleanup_free_ char *tcp = read_of(t->pid, "net/tcp"), *tcp6 = read_of(t->pid, "net/tcp6");
        unsigned long proxy = 0;
        char found[64] = "none";

        size_t n = count_listeners(tcp, &proxy) + count_listeners(tcp6, &proxy);
        if (!tcp)
                *found = '\0';
        else if (n == 1 && proxy)
                snprintf(found, sizeof(found), "127.0.0.1:%d alone", EGRESS_PORT);
        else if (n > 0)
                snprintf(found, sizeof(found), "%zu", n);
        add(rows, t, 112, "listeners in its network",
            t->has_proxy ? "127.0.0.1:3128 alone" : "none", found,
            n == (t->has_proxy ? 1 : 0) && t->has_proxy == (proxy != 0));
        if (!proxy)
                return;
        int held = holds_socket(t, proxy);
        add(rows, t, 2, "the proxy's socket", "not held",
            held < 0 ? ""
            : held   ? "held"
                     : "not held",
            held == 0);
}

static bool has(const char *options, const char *option)
{
        size_t n = strlen(option);

        for (const char *p = options; (p = strstr(p, option)); p += n) {
                if ((p == options || p[-1] == ',') && (p[n] == ',' || p[n] == '\0'))
                        return true;
        }
        return false;
}

static void check_mounts(struct attack_rows *rows, const struct task *t)
{
        char target[256], options[256], loose[256] = "none", root[8] = "";
        size_t n = 0;

        for (const char *line = t->mounts; line && *line; n++) {
                if (sscanf(line, "%*s %*s %*s %*s %255s %255s", target, options) == 2) {
                        bool node = strncmp(target, "/dev/", 5) == 0 &&
                                    strcmp(target, "/dev/shm") != 0;
                        if (!has(options, "nosuid") || (!node && !has(options, "nodev")))
                                snprintf(loose, sizeof(loose), "%s", target);
                        if (strcmp(target, "/") == 0)
                                snprintf(root, sizeof(root), "%s",
                                         has(options, "ro") ? "ro" : "rw");
                }
                line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n');
        }
        add(rows, t, 32, "mounts without nosuid, nodev", "none", n > 0 ? loose : "",
            strcmp(loose, "none") == 0);
        add(rows, t, 40, "the root", "ro", root, strcmp(root, "ro") == 0);
}

/* The session id, a field of /proc/PID/stat; 0: a session of another pid namespace. */
static int session_of(pid_t pid)
{
        _cleanup_free_ char *stat = read_of(pid, "stat");
        const char *rest = stat ? strrchr(stat, ')') : NULL;
        int session = -1;

        if (rest)
                sscanf(rest + 1, " %*c %*d %*d %d", &session);
        return session;
}

static void check_life(struct attack_rows *rows, const struct task *t)
{
        _cleanup_free_ char *score = read_of(t->pid, "oom_score_adj");
        bool worker = strcmp(t->role, "worker") == 0;

        if (score)
                score[strcspn(score, "\n")] = '\0';
        add(rows, t, 68, "oom_score_adj", worker ? "1000" : "below the worker's",
            score ? score : "", score && (atoi(score) == 1000) == worker);
        bool own = session_of(t->pid) != session_of(getpid());
        add(rows, t, 6, "session", "not the caller's", own ? "own" : "the caller's", own);
}

static void check_sandboxed(struct attack_rows *rows, const struct task *t)
{
        static const char *const all[] = {"cgroup", "ipc",  "mnt", "net", "pid",
                                          "time",   "user", "uts", NULL};

        check_filter(rows, t, strcmp(t->role, "worker") == 0 ? 2 : 1);
        check_namespaces(rows, t, all);
        check_privileges(rows, t);
        check_limits(rows, t);
        check_program(rows, t);
        check_descriptors(rows, t);
        check_listeners(rows, t);
        check_mounts(rows, t);
        check_life(rows, t);
}

/* The broker, the proxy, the stub and the template. */
static void check_supporting(struct attack_rows *rows, const struct task *t)
{
        static const char *const some[] = {"user", "pid", NULL};

        check_filter(rows, t, 1);
        check_namespaces(rows, t, some);
}

/* ---- which processes there are ---- */

static pid_t parent_of(pid_t pid)
{
        _cleanup_free_ char *stat = read_of(pid, "stat");
        const char *rest = stat ? strrchr(stat, ')') : NULL;
        int parent = 0;

        if (rest)
                sscanf(rest + 1, " %*c %d", &parent);
        return parent;
}

static bool is_below(pid_t pid, pid_t ancestor)
{
        for (int i = 0; i < 64 && pid > 1; i++) {
                pid = parent_of(pid);
                if (pid == ancestor)
                        return true;
        }
        return false;
}

static const char *role_of(const char *status, int own_depth)
{
        int levels = depth(status) - own_depth;

        if (levels >= 2)
                return is_first(status) ? "init" : "worker";
        if (levels < 1)
                return NULL;
        if (strncmp(status, "Name:\tcloister-broker\n", 22) == 0)
                return "broker";
        if (strncmp(status, "Name:\tcloister-egress\n", 22) == 0)
                return "egress";
        return is_first(status) ? "stub" : "template";
}

/* Returns whether it is a process of the sandbox itself. */
static bool check_task(struct attack_rows *rows, pid_t pid, bool has_proxy, int own_depth)
{
        struct task t = {.pid = pid, .has_proxy = has_proxy};
        _cleanup_free_ char *status = read_of(pid, "status"), *limits = read_of(pid, "limits");
        _cleanup_free_ char *mounts = read_of(pid, "mountinfo");

        if (!status)
                return false; /* it has ended */
        t.status = status;
        t.limits = limits;
        t.mounts = mounts;
        t.role = role_of(status, own_depth);
        if (!t.role || strstr(status, "\nState:\tZ"))
                return false; /* not confined, or it is a zombie */
        if (strcmp(t.role, "init") != 0 && strcmp(t.role, "worker") != 0) {
                check_supporting(rows, &t);
                return false;
        }
        check_sandboxed(rows, &t);
        return true;
}

int attack_posture(struct attack_rows *rows, pid_t pid, bool has_proxy, struct error *err)
{
        _cleanup_free_ char *status = read_of(getpid(), "status");
        int own_depth = depth(status);
        size_t n = 0, sandboxed = 0;

        DIR *dir = opendir("/proc");
        if (!dir)
                return error_errno(err, errno, "open /proc");
        for (struct dirent *e; n < TASKS_MAX && (e = readdir(dir));) {
                pid_t task = (pid_t)strtol(e->d_name, NULL, 10);
                if (task > 0 && is_below(task, pid)) {
                        sandboxed += check_task(rows, task, has_proxy, own_depth);
                        n++;
                }
        }
        closedir(dir);
        if (rows->error < 0)
                return error_errno(err, -rows->error, "look at the sandbox's processes");
        return sandboxed < 2 ? error_set(err, ESRCH,
                                         "the processes of the sandbox cannot be seen in /proc")
                             : 0;
}
