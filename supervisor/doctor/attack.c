/* Runs the probe in a sandbox, by `cloister run`, and reports. */
#include "supervisor/doctor/attack.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/program.h"
#include "base/unguessable.h"
#include "policy/config/add.h"
#include "policy/config/keys.h"
#include "rpc/egress-messages.h"
#include "supervisor/config/config-files.h"
#include "supervisor/doctor/attack-rows.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/options/options.h"

enum {
        SCRIPT_MAX = 256 * 1024,
        LINE_MAX_BYTES = 4096,
        BATTERY_S = 120, /* the image may have to be built first */
        END_S = 20,
        HOLD_S = 60,
        PROBE_ROWS_MIN = 200, /* there are some 260; a kernel may lack kinds of namespaces */
        WORDS_MAX = 2 * CONFIG_PATHS_MAX + 16,
        FILE_MAX = 1024 * 1024,
        TASKS_MAX = 64,
};

#define MARKER_NAME "CLOISTER_ATTACK_MARKER"

static const unsigned char probe[] = {
#include "supervisor/doctor/probe.inc"
};
static const unsigned char probe_network[] = {
#include "supervisor/doctor/probe-network.inc"
};

static const char *const all_namespaces[] = {"cgroup", "ipc",  "mnt", "net", "pid",
                                             "time",   "user", "uts", NULL};

/* ---- the view of the host ---- */

/*
 * The host's view of a sandbox: what the kernel says about each of its processes.
 *
 * All processes below `cloister run` are found by their parents. The sandbox's own are those two pid
 * namespaces deeper than this process: PID 1 (init) and the worker. The others are the monitor,
 * which is not confined, the broker, the proxy of profiles with a network, the stub and the template; these have
 * a pid namespace of their own too.
 */
struct task {
        pid_t pid;
        const char *role; /* the group of its rows; NULL: not confined */
        char *status, *limits, *mounts;
        bool has_proxy;
};

static char *read_of(pid_t pid, const char *name)
{
        char path[64], *text = NULL;
        size_t n;

        snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 || fd_read_whole(fd, FILE_MAX, &text, &n, NULL) < 0 ? NULL : text;
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
        if (statfs(listed, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
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
        return stat(path, &own) == 0 && own.st_dev == st->st_dev && own.st_ino == st->st_ino;
}

/* init counts the pids that were handed out, and locks of files: for reading, of a /proc that the guest cannot reach. */
static bool is_counter(const struct task *t, const char *name, const char *link)
{
        char path[320];
        struct statfs fs;

        snprintf(path, sizeof(path), "/proc/%d/%s", t->pid, name);
        return (strcmp(link, "/proc/sys/kernel/ns_last_pid") == 0 || strcmp(link, "/locks") == 0) &&
               statfs(path, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static void check_descriptors(struct attack_rows *rows, const struct task *t)
{
        bool init = strcmp(t->role, "init") == 0;
        const char *expected = init ? "a proc, pids, locks, /workspace" : "none";
        char path[64], name[300], link[256], found[256] = "none";
        bool held = true;
        struct stat st;

        snprintf(path, sizeof(path), "/proc/%d/fd", t->pid);
        _cleanup_closedir_ DIR *dir = opendir(path);
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
                held = held && init &&
                       (is_own_proc(t, name) || is_own_workspace(t, &st) ||
                        is_counter(t, name, link));
        }
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
        _cleanup_closedir_ DIR *dir = opendir(path);
        if (!dir)
                return -1;
        for (struct dirent *e; (e = readdir(dir));) {
                snprintf(name, sizeof(name), "fd/%.200s", e->d_name);
                link_of(t->pid, name, link);
                held |= strcmp(link, wanted) == 0;
        }
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

struct relatives {
        int parent, session; /* session 0: of another pid namespace */
};

/* From fields of /proc/PID/stat. */
static struct relatives relatives_of(pid_t pid)
{
        _cleanup_free_ char *stat = read_of(pid, "stat");
        const char *rest = stat ? strrchr(stat, ')') : NULL;
        struct relatives ret = {0, -1};

        if (rest)
                sscanf(rest + 1, " %*c %d %*d %d", &ret.parent, &ret.session);
        return ret;
}

static void check_life(struct attack_rows *rows, const struct task *t)
{
        _cleanup_free_ char *score = read_of(t->pid, "oom_score_adj");
        bool worker = strcmp(t->role, "worker") == 0;

        if (score)
                score[strcspn(score, "\n")] = '\0';
        add(rows, t, 68, "oom_score_adj", worker ? "1000" : "below the worker's",
            score ? score : "", score && (atoi(score) == 1000) == worker);
        bool own = relatives_of(t->pid).session != relatives_of(getpid()).session;
        add(rows, t, 6, "session", "not the caller's", own ? "own" : "the caller's", own);
}

static void check_sandboxed(struct attack_rows *rows, const struct task *t)
{
        check_filter(rows, t, strcmp(t->role, "worker") == 0 ? 2 : 1);
        check_namespaces(rows, t, all_namespaces);
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

static bool is_below(pid_t pid, pid_t ancestor)
{
        for (int i = 0; i < 64 && pid > 1; i++) {
                pid = relatives_of(pid).parent;
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

/* Adds rows about the processes of the sandbox that `cloister run` (the process pid) started.
 * has_proxy: its profile allows a network. Returns 0, -ESRCH if there is none, or another negative errno. */
static int look_at_processes(struct attack_rows *rows, pid_t pid, bool has_proxy, struct error *err)
{
        _cleanup_free_ char *status = read_of(getpid(), "status");
        int own_depth = depth(status);
        size_t n = 0, sandboxed = 0;

        _cleanup_closedir_ DIR *dir = opendir("/proc");
        if (!dir)
                return error_errno(err, errno, "open /proc");
        for (struct dirent *e; n < TASKS_MAX && (e = readdir(dir));) {
                pid_t task = (pid_t)strtol(e->d_name, NULL, 10);
                if (task > 0 && is_below(task, pid)) {
                        sandboxed += check_task(rows, task, has_proxy, own_depth);
                        n++;
                }
        }
        if (rows->error < 0)
                return error_errno(err, -rows->error, "look at the sandbox's processes");
        return sandboxed < 2 ? error_set(err, ESRCH,
                                         "the processes of the sandbox cannot be seen in /proc")
                             : 0;
}

/* ---- the battery ---- */

struct battery {
        const struct options *options;
        struct config *config;
        const struct config_profile *profile; /* of config */
        char marker[UNGUESSABLE_LENGTH + 1];
        pid_t pid;  /* of `cloister run`; 0: not started */
        bool ended; /* it has closed its output */
        int status; /* of waitpid() */
        int output;
        struct buffer in;
        struct attack_rows rows;
};

/* ---- the script: what is expected, then the probe ---- */

static void put_namespaces(struct json_out *out)
{
        json_out_begin(out, "namespaces", '{');
        for (const char *const *kind = all_namespaces; *kind; kind++) {
                char path[64], link[64] = "";
                snprintf(path, sizeof(path), "/proc/self/ns/%s", *kind);
                /* A kind that the kernel does not have is left out. */
                if (readlink(path, link, sizeof(link) - 1) > 0)
                        json_out_text(out, *kind, link);
        }
        json_out_end(out, '}');
}

/* Mirrors the sockets of policy/seccomp/rules.c. */
static const char *families(const struct config_profile *p)
{
        if (p->network != CONFIG_NETWORK_NONE)
                return p->n_mounts > 0 ? "[2, 10]" : "[1, 2, 10]";
        return p->n_mounts > 0 ? "[]" : "[1]";
}

static void put_profile(struct json_out *out, const struct config_profile *p)
{
        struct limits limits = p->limits;
        bool has_network = p->network == CONFIG_NETWORK_ALLOW;

        json_out_raw(out, "families", families(p), strlen(families(p)));
        json_out_begin(out, "network", '[');
        for (char *const *rule = p->egress.allow; has_network && rule && *rule; rule++)
                json_out_text(out, NULL, *rule);
        json_out_end(out, ']');
        json_out_begin(out, "mounts", '{');
        for (size_t i = 0; i < p->n_mounts; i++) {
                json_out_key(out, p->mounts[i].target, strlen(p->mounts[i].target));
                json_out_text(out, NULL, p->mounts[i].writable ? "rw" : "ro");
        }
        json_out_end(out, '}');
        limits_fit(&limits);
        json_out_int(out, "processes", limits.pids);
        json_out_int(out, "below_node", p->language == LANGUAGE_JAVASCRIPT);
        json_out_begin(out, "bytes", '{');
        json_out_int(out, "/tmp", (int64_t)limits.tmp);
        json_out_int(out, "/workspace", (int64_t)limits.workspace);
        json_out_int(out, "/dev/shm", (int64_t)limits.shm);
        json_out_end(out, '}');
}

/* JSON without null, true and false is also an expression of Python. */
static int append_expected(struct buffer *b, const struct battery *battery)
{
        struct json_out out = {.to = b, .indent = true};
        char host[256] = "";
        struct utsname kernel;

        gethostname(host, sizeof(host) - 1);
        uname(&kernel);
        int r = buffer_append_text(b, "EXPECTED = ");
        if (r < 0)
                return r;
        json_out_begin(&out, NULL, '{');
        put_namespaces(&out);
        json_out_text(&out, "kernel", kernel.release);
        json_out_text(&out, "hostname", host);
        json_out_int(&out, "pid", getpid());
        json_out_text(&out, "marker", battery->marker);
        json_out_int(&out, "hold", HOLD_S);
        put_profile(&out, battery->profile);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(b, "\n", 1);
}

/* From JavaScript, the image's Python is a child of Node, and runs the probe. */
static int wrap(struct buffer *b)
{
        _cleanup_buffer_ struct buffer python = *b;
        struct json_out out = {.to = b};

        *b = (struct buffer)BUFFER_INIT(2 * SCRIPT_MAX);
        buffer_append_text(b, "require('child_process').spawnSync('python3', ['-Ic', ");
        json_out_string(&out, NULL, buffer_bytes(&python), python.length);
        return buffer_append_text(b, "], {stdio: [0, 1, 2]});\n");
}

static int make_script(const struct battery *battery, struct error *err)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(SCRIPT_MAX);

        int r = append_expected(&b, battery);
        if (r >= 0 && (r = buffer_append(&b, probe_network, sizeof(probe_network) - 1)) >= 0)
                r = buffer_append(&b, probe, sizeof(probe) - 1);
        if (r >= 0 && battery->profile->language == LANGUAGE_JAVASCRIPT)
                r = wrap(&b);
        if (r < 0)
                return error_errno(err, -r, "make the probe");
        return fd_sealed("probe", buffer_bytes(&b), b.length, err);
}

/* ---- the config ---- */

static int read_config(struct battery *battery, struct error *err)
{
        const struct options *o = battery->options;
        struct config_files *files = NULL;
        struct ids ids;

        battery->config = config_new();
        if (!battery->config)
                return error_errno(err, ENOMEM, "read the config");
        bool trusted_only = ids_choose(0, 0, 2, &ids, NULL) < 0 ? geteuid() == 0
                                                                : ids.mode != SANDBOX_ROOTLESS;
        int r = config_files_open(o->configs, o->n_configs, trusted_only, NULL, battery->config,
                                  &files, err);
        if (r >= 0)
                r = config_finish(battery->config, err);
        config_files_free(files);
        if (r >= 0 && o->profile)
                r = config_find_profile(battery->config, o->profile, err);
        if (r < 0)
                return r;
        battery->profile = o->profile ? &battery->config->profiles[r]
                                      : config_usual_profile(battery->config);
        return battery->profile ? 0 : error_set(err, ENOENT, "the config has no profile");
}

/* ---- the run ---- */

static void add_option(const char **words, size_t *n, const char *option, const char *value)
{
        if (!value)
                return;
        words[(*n)++] = option;
        words[(*n)++] = value;
}

static void exec_run(const struct battery *battery, const char *path, int script, int output)
{
        const struct options *o = battery->options;
        const char *words[WORDS_MAX + 1] = {"cloister", "run"};
        char timeout[16];
        size_t n = 2;

        uint32_t most = battery->config->cell_timeout_max_ms / 1000;
        snprintf(timeout, sizeof(timeout), "%u", most > 0 && most < BATTERY_S ? most : BATTERY_S);
        for (size_t i = 0; i < o->n_configs; i++)
                add_option(words, &n, "--config", o->configs[i]);
        add_option(words, &n, "--profile", o->profile);
        add_option(words, &n, "--image", o->image);
        add_option(words, &n, "--python", o->python);
        add_option(words, &n, "--store", o->store);
        add_option(words, &n, "--timeout", timeout);
        words[n++] = "-"; /* what follows it is for the script */
        setenv(MARKER_NAME, battery->marker, 1);
        if (dup2(script, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0)
                execv(path, (char *const *)words);
        _exit(127);
}

static int start(struct battery *battery, struct error *err)
{
        char path[4096];
        int pipes[2];

        int r = program_path("cloister", path, sizeof(path), err);
        if (r < 0)
                return r;
        _cleanup_close_ int script = make_script(battery, err);
        if (script < 0)
                return script;
        if (pipe2(pipes, O_CLOEXEC) < 0)
                return error_errno(err, errno, "start the probe");
        battery->pid = fork();
        if (battery->pid == 0)
                exec_run(battery, path, script, pipes[1]);
        int code = errno;
        close(pipes[1]);
        battery->output = pipes[0];
        return battery->pid < 0 ? error_errno(err, code, "start the probe") : 0;
}

/* Takes whole lines. Returns as attack_take_line(), 0 if there is no whole line. */
static int take_lines(struct battery *battery, size_t *count, struct error *err)
{
        struct buffer *in = &battery->in;
        char *end;
        int r = 0;

        while (r == 0 && in->length > 0 && (end = memchr(buffer_bytes(in), '\n', in->length))) {
                char *line = buffer_bytes(in);
                char text[128];
                *end = '\0';
                snprintf(text, sizeof(text), "%s", line);
                size_t n = (size_t)(end - line) + 1;
                r = attack_take_line(&battery->rows, line, count);
                buffer_consume(in, n);
                if (r < 0)
                        error_set(err, -r, "the probe answered: %s", text);
        }
        return r;
}

static int read_rows(struct battery *battery, struct error *err)
{
        uint64_t deadline = clock_ms() + BATTERY_S * 1000;
        size_t count = 0;
        int r = 0;

        while (r == 0) {
                struct pollfd p = {.fd = battery->output, .events = POLLIN};
                int64_t left = (int64_t)(deadline - clock_ms());
                if (left <= 0)
                        return error_set(err, ETIMEDOUT, "the probe did not end in %d s",
                                         BATTERY_S);
                if (poll(&p, 1, (int)left) <= 0)
                        continue;
                ssize_t n = buffer_read_fd(&battery->in, battery->output, LINE_MAX_BYTES);
                if (n < 0)
                        return error_errno(err, (int)-n, "read the probe's rows");
                battery->ended = n == 0;
                if (n == 0)
                        return error_set(err, EPROTO,
                                         "the sandbox ended before the probe did (rows: %zu)",
                                         battery->rows.n);
                r = take_lines(battery, &count, err);
        }
        if (r > 0 && count != battery->rows.n)
                return error_set(err, EPROTO, "the probe's rows are incomplete: %zu of %zu",
                                 battery->rows.n, count);
        return r < 0 ? r : 0;
}

/* SIGTERM, which `cloister run` passes on, unless it ends by itself; then SIGKILL. */
static void stop(struct battery *battery)
{
        if (battery->pid <= 0)
                return;
        if (!battery->ended)
                kill(battery->pid, SIGTERM);
        for (int i = 0; i < END_S * 100; i++) {
                if (waitpid(battery->pid, &battery->status, WNOHANG) != 0)
                        return;
                usleep(10000);
        }
        kill(battery->pid, SIGKILL);
        waitpid(battery->pid, &battery->status, 0);
}

static int run(struct battery *battery, struct error *err)
{
        unguessable(battery->marker);
        int r = read_config(battery, err);
        if (r >= 0)
                r = start(battery, err);
        if (r >= 0)
                r = read_rows(battery, err);
        size_t tried = battery->rows.n;
        if (r >= 0)
                r = look_at_processes(&battery->rows, battery->pid,
                                      battery->profile->network == CONFIG_NETWORK_ALLOW, err);
        /* An image whose interpreter ends the probe early must not pass. */
        if (r >= 0 && tried < PROBE_ROWS_MIN)
                r = error_set(err, EPROTO, "the probe tried %zu things only", tried);
        if (r >= 0 && !battery->profile->speculation_disabled)
                attack_allow_speculation(&battery->rows);
        stop(battery);
        return r;
}

/* Whether the config itself has "speculation": "shared", in the profile or at the top level. */
static bool says_shared(const struct battery *battery)
{
        enum config_form form;
        const struct config_key *key = config_find_key(CONFIG_PROFILE, "speculation", &form);
        uint64_t said = battery->config->top.said | battery->profile->said;

        return !battery->profile->speculation_disabled && (said & config_key_bit(key)) != 0;
}

int attack_main(const struct options *options)
{
        struct battery battery = {.options = options, .output = -1, .in = BUFFER_INIT(1024 * 1024)};
        struct error error = {};

        int r = run(&battery, &error);
        if (r < 0) {
                log_error("doctor --attack: %s", error.text);
        } else {
                const char *name = battery.profile->name;
                r = options->json ? attack_print_json(&battery.rows, name, says_shared(&battery))
                                  : attack_print_table(&battery.rows, name, isatty(STDOUT_FILENO));
                if (r < 0)
                        log_error("doctor --attack: the report cannot be written");
        }
        int status = r < 0 || battery.rows.of[ATTACK_OPEN] > 0;
        if (WIFEXITED(battery.status) && WEXITSTATUS(battery.status) == EXIT_NO_SANDBOX)
                status = EXIT_NO_SANDBOX;
        if (battery.output >= 0)
                close(battery.output);
        buffer_done(&battery.in);
        attack_rows_done(&battery.rows);
        config_free(battery.config);
        return status;
}
