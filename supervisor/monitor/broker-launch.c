/*
 * The start of the broker.
 *
 * Theory of operation. The broker parses all hostile input. It therefore gets its own user, pid,
 * mount and ipc namespace; from its pid namespace it can neither signal, trace nor limit us. It is
 * exec'd with the user's own id, because its loader has to read the user's files, and with four
 * ambient capabilities in its user namespace, with which it builds its root directory. It gives them
 * up before it reads a byte from outside. It leads its own session, so that it gets SIGINT of a
 * terminal once, from us.
 */
#include "supervisor/monitor/broker-launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/path.h"
#include "rpc/monitor-messages.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"
#include "supervisor/monitor/process/time-slice.h"

/* ---- the broker's log ---- */

/*
 * The pipe does not block the broker: lines that do not fit are lost. It is read once in RELAY_MS,
 * so that a flood neither occupies the loop nor writes more than 3 MiB a second.
 */

enum {
        RELAY_MS = 20,
        RELAY_BYTES = 64 * 1024,
        RELAY_PIPE = 1024 * 1024, /* holds the lines of a busy moment; what the kernel allows */
        RELAY_READS_MAX = 32,     /* at the end */
};

struct log_relay {
        int fd;
        struct event *readable, *again;
        void (*lost)(void *data, uint64_t n);
        void *data;
        uint64_t n_lost; /* that were reported */
        size_t n;        /* bytes of a line that has begun */
        char bytes[RELAY_BYTES];
};

/* The broker's lines have no other control characters (base/printable.h). */
static void clean(char *bytes, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if ((unsigned char)bytes[i] < ' ' && bytes[i] != '\n')
                        bytes[i] = '?';
        }
}

/* Appends whole lines, or all bytes if no line end is among them. Returns what read() did. */
static ssize_t relay_once(struct log_relay *relay)
{
        ssize_t n = read(relay->fd, relay->bytes + relay->n, sizeof(relay->bytes) - relay->n);

        if (n <= 0)
                return n;
        clean(relay->bytes + relay->n, (size_t)n);
        relay->n += (size_t)n;
        const char *last = memrchr(relay->bytes, '\n', relay->n);
        size_t whole = last                               ? (size_t)(last - relay->bytes) + 1
                       : relay->n == sizeof(relay->bytes) ? relay->n
                                                          : 0;
        log_file_append(relay->bytes, whole);
        relay->n -= whole;
        memmove(relay->bytes, relay->bytes + whole, relay->n);
        return n;
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct log_relay *relay = data;
        const struct timeval in = clock_timeval_ms(RELAY_MS);

        if (relay_once(relay) != 0) /* else it has ended */
                evtimer_add(relay->again, &in);
}

static void on_again(evutil_socket_t fd, short what, void *data)
{
        struct log_relay *relay = data;
        uint64_t n = log_errors();

        event_add(relay->readable, NULL);
        if (n > relay->n_lost)
                relay->lost(relay->data, n - relay->n_lost);
        relay->n_lost = n;
}

int log_relay_new(struct log_relay **ret, struct event_base *base,
                  void (*lost)(void *data, uint64_t n), void *data, int *theirs, struct error *err)
{
        int ends[2];

        *ret = NULL;
        *theirs = -1;
        if (!log_file_is_bounded())
                return 0;
        struct log_relay *relay = calloc(1, sizeof(*relay));
        if (!relay || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
                int code = relay ? errno : ENOMEM;
                free(relay);
                return error_errno(err, code, "pipe for the log");
        }
        (void)fcntl(ends[1], F_SETPIPE_SZ, RELAY_PIPE);
        relay->fd = ends[0];
        relay->lost = lost;
        relay->data = data;
        relay->readable = event_new(base, relay->fd, EV_READ, on_readable, relay);
        relay->again = evtimer_new(base, on_again, relay);
        if (!relay->readable || !relay->again || event_add(relay->readable, NULL) < 0) {
                close(ends[1]);
                log_relay_free(relay);
                return error_errno(err, ENOMEM, "read the broker's log");
        }
        *theirs = ends[1];
        *ret = relay;
        return 0;
}

struct log_relay *log_relay_free(struct log_relay *relay)
{
        if (!relay)
                return NULL;
        for (int i = 0; i < RELAY_READS_MAX && relay_once(relay) > 0; i++)
                ;
        log_file_append(relay->bytes, relay->n);
        loop_free_events((struct event *[]){relay->readable, relay->again}, 2);
        close(relay->fd);
        free(relay);
        return NULL;
}

/* ---- the control socket ---- */

enum { BACKLOG = 64, ATTEMPTS = 3 };

/* A service manager has made it. */
static int service_directory(const char *path, struct error *err)
{
        struct stat st;

        if (lstat(path, &st) < 0)
                return error_errno(err, errno, "RUNTIME_DIRECTORY: %s", path);
        if (st.st_uid != geteuid() || !control_directory_is_sound(&st))
                return error_set(err, EPERM, "RUNTIME_DIRECTORY: %s " CONTROL_SERVICE_FAULT, path);
        return 0;
}

/* Another user could have created it first, for example in /tmp. */
static int own_directory(const char *path, struct error *err)
{
        struct stat st;

        /* The directories above the other candidates exist, or these cannot be used. */
        if (strstr(path, "/" CONTROL_STATE_BELOW "/"))
                (void)path_make_parents(path, 0700);
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return error_errno(err, errno, "create %s", path);
        if (lstat(path, &st) < 0)
                return error_errno(err, errno, "%s", path);
        if (!control_directory_is_private(&st, geteuid()))
                return error_set(err, EPERM, "%s " CONTROL_DIRECTORY_FAULT, path);
        return 0;
}

/* Returns the listening descriptor. */
static int listen_at(const char *path, struct error *err)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_errno(err, errno, "socket");
        fd_refuse_rights(fd);
        memcpy(address.sun_path, path, strlen(path) + 1);
        mode_t mask = umask(0177);
        int r = bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
        umask(mask);
        if (r >= 0 && listen(fd, BACKLOG) < 0)
                r = -errno;
        return r < 0 ? error_errno(err, -r, "listen at %s", path) : take_fd(fd);
}

static int try_directory(struct control_socket *s, const char *directory, bool is_of_service,
                         struct error *err)
{
        int r = is_of_service ? service_directory(directory, err) : own_directory(directory, err);

        if (r < 0)
                return r;
        s->is_of_service = is_of_service;
        control_path(directory, getpid(), s->path);
        /* Some file systems have no sockets. */
        int fd = r = listen_at(s->path, err);
        if (fd >= 0)
                close(fd);
        control_path_remove(s->path);
        if (r < 0)
                s->path[0] = '\0';
        return r < 0 ? r : 0;
}

int control_socket_choose(struct control_socket *s, struct error *err)
{
        char directories[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE];
        size_t n = control_directories_here(directories);
        int r = -ENOENT;

        *s = (struct control_socket){.fd = -1};
        /* A manager's directory that cannot be used is a fault: 'cloister sessions' would search in another place than this. */
        if (control_directory_of_service(directories[0]))
                return try_directory(s, directories[0], true, err);
        for (size_t i = 0; i < n && r < 0; i++) {
                *err = (struct error){};
                r = try_directory(s, directories[i], false, err);
        }
        return r < 0 ? r : 0;
}

/* The socket is reachable by its owner alone until its group is set. */
static int give_to_group(const struct control_socket *s, const char *group, struct error *err)
{
        const struct group *entry = group ? getgrnam(group) : NULL;

        if (!group)
                return 0;
        if (!entry)
                return error_set(err, ENOENT, "\"control_group\": there is no group \"%s\"", group);
        if (!s->is_of_service)
                return error_set(
                        err, EINVAL,
                        "\"control_group\" needs a directory that its members can enter: RuntimeDirectory=cloister in the unit");
        if (lchown(s->path, (uid_t)-1, entry->gr_gid) < 0)
                return error_errno(
                        err, errno,
                        "\"control_group\": the server's user is not in \"%s\" (SupplementaryGroups=%s in the unit)",
                        group, group);
        return chmod(s->path, 0660) < 0 ? error_errno(err, errno, "chmod %s", s->path) : 0;
}

int control_socket_open(struct control_socket *s, const char *group, struct error *err)
{
        char directory[CONTROL_PATH_SIZE];
        int fd = -ENOENT;

        snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(s->path, '/') - s->path),
                 s->path);
        unlink(s->path);
        /* Another server that ends may remove the directory while it is empty. */
        for (int i = 0; i < ATTEMPTS && fd == -ENOENT; i++) {
                int r = s->is_of_service ? service_directory(directory, err)
                                         : own_directory(directory, err);
                if (r < 0)
                        return r;
                fd = listen_at(s->path, err);
        }
        if (fd < 0)
                return fd;
        s->fd = fd;
        return give_to_group(s, group, err);
}

void control_socket_close(struct control_socket *s)
{
        if (s->fd >= 0)
                close(s->fd);
        s->fd = -1;
        if (*s->path)
                control_path_remove(s->path);
        s->path[0] = '\0';
}

/* ---- the process ---- */

enum { FILTER_FD = MONITOR_FD + 1, CONTROL_FD, LOG_FD, EGRESS_FD, FIRST_FREE_FD = 1000 };

/* Descriptors of the broker. */
static const int places[] = {MONITOR_FD, FILTER_FD, CONTROL_FD, LOG_FD, EGRESS_FD};

/* Keeps 0 to 2, the placed ones (-1: none) and those of `cloister`; closes all others. */
static int place_descriptors(const struct broker_launch *how, const int placed[])
{
        int keep[3 + ARRAY_SIZE(places) + OPTION_FDS_MAX] = {STDIN_FILENO, STDOUT_FILENO,
                                                             STDERR_FILENO};
        int *high = keep + 3, *passed = high + ARRAY_SIZE(places);

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                high[i] = placed[i] < 0 ? -1 : fcntl(placed[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
                if (placed[i] >= 0 && high[i] < 0)
                        return -errno;
        }
        size_t n = options_fds(how->options, PROGRAM_BROKER, passed);
        for (size_t i = 0; i < n; i++)
                fd_set_cloexec(passed[i], 0);
        static_assert(ARRAY_SIZE(keep) <= CHILD_KEEP_MAX,
                      "child_close_all_but() takes all of them");
        child_close_all_but(keep, 3 + ARRAY_SIZE(places) + n);
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                if (high[i] >= 0 && dup2(high[i], places[i]) < 0)
                        return -errno;
        fd_close_range(FIRST_FREE_FD, ~0U);
        return 0;
}

/* The broker gets its part of what `cloister` was started with, and what the monitor chose. */
static void broker_exec(const struct broker_launch *how, const int placed[], uid_t uid)
{
        struct options options = *how->options;
        struct command_line line;

        options.uid = uid;
        options.log_level = (int)log_get_level();
        options.log_format = (int)log_get_format();
        options.state_path = how->state_path;
        options.node_name = how->node_name;
        options.has_http = how->has_http;
        options.probe = how->probe;
        options.watchdog_ms = how->watchdog_ms;
        options.filter_fd = placed[1] < 0 ? -1 : FILTER_FD;
        options.control_fd = placed[2] < 0 ? -1 : CONTROL_FD;
        options.log_fd = placed[3] < 0 ? -1 : LOG_FD;
        options.egress_filter_fd = placed[4] < 0 ? -1 : EGRESS_FD;
        command_line_init(&line, "cloister-broker", options_mode_name(options.mode), &options,
                          PROGRAM_BROKER);
        execv(how->program, (char *const *)line.words);
}

static void broker_child(const struct broker_launch *how, int link, int go, uid_t uid)
{
        const int placed[ARRAY_SIZE(places)] = {link, how->filter_fd, how->control_fd, how->log_fd,
                                                how->egress_filter_fd};
        struct error error = {};
        char byte;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        time_slice_shorten();
        ssize_t n = read(go, &byte, 1);
        /* Without its byte the monitor has failed, and says why. */
        if (n == 0)
                _exit(1);
        int r = n < 0 ? -errno : place_descriptors(how, placed);
        if (r >= 0)
                r = userns_keep_capabilities();
        if (r >= 0)
                broker_exec(how, placed, uid);
        error_errno(&error, r < 0 ? -r : errno, "cloister: start %s", how->program);
        dprintf(STDERR_FILENO, "%s\n", error.text);
        _exit(1);
}

/* PID 1 ignores signals without a handler: they are blocked from its first moment. The broker unblocks
 * them when it has handlers. */
static pid_t fork_broker(void)
{
        sigset_t blocked, before;

        sigemptyset(&blocked);
        sigaddset(&blocked, SIGINT);
        sigaddset(&blocked, SIGTERM);
        sigaddset(&blocked, SIGHUP);
        sigprocmask(SIG_SETMASK, &blocked, &before);
        pid_t pid = userns_fork(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC);
        if (pid != 0)
                sigprocmask(SIG_SETMASK, &before, NULL);
        return pid;
}

static pid_t launch(const struct broker_launch *how, struct children *children, int link,
                    struct error *err)
{
        int ends[2];
        bool range = how->ids->mode != SANDBOX_ROOTLESS;
        uid_t uid = how->ids->broker;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "pipe");
        _cleanup_close_ int go_read = ends[0];
        _cleanup_close_ int go = ends[1];
        pid_t pid = fork_broker();
        if (pid < 0)
                return error_errno(err, -pid, "new user, pid, mount and ipc namespace");
        if (pid == 0) {
                close(go);
                broker_child(how, link, go_read, uid);
        }
        int r = children_add(children, pid);
        if (r < 0)
                return error_errno(err, -r, "broker");
        r = userns_map(pid, uid, uid, range ? uid : getegid(), 1, err);
        if (r < 0)
                return r;
        r = fd_write_all(go, "g", 1);
        return r < 0 ? error_errno(err, -r, "go") : pid;
}

pid_t broker_launch(const struct broker_launch *how, struct children *children, int *link,
                    struct error *err)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "socketpair");
        _cleanup_close_ int ours = pair[0];
        fd_refuse_rights(ours);
        _cleanup_close_ int theirs = pair[1];
        pid_t pid = launch(how, children, theirs, err);
        if (pid < 0)
                return error_context(err, "start the broker");
        *link = take_fd(ours);
        return pid;
}
