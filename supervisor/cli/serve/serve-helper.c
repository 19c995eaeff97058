/* Accepts on unix sockets, and watches the file of tokens, for the broker. */
#include "supervisor/cli/serve/serve-helper.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/loop.h"
#include "rpc/serve-messages.h"
#include "supervisor/config/config-watch.h"

/* It holds its sockets and no other descriptor. */
enum { BROKER_FD = STDERR_FILENO + 1, FIRST_LISTENER };

enum {
        LISTENERS_MAX = 4,
        ACCEPT_AT_ONCE = 16,
        /* Few connections are on their way at once: the kernel limits how many, of each user. */
        SEND_BUFFER = 8 * 1024,
        RETRY_MS = 100,
        UID_UNKNOWN = 65534,
};

struct helper {
        struct event_base *base;
        struct config_watch *watch;
        const char *tokens;
        int broker;
        uid_t unknown; /* what the kernel shows for a uid that our user namespace does not have */
};

/* Blocks while the broker takes no more. */
static void tell(const struct helper *h, const struct serve_message *message, const int *fd)
{
        int r = fd_send(h->broker, message, sizeof(*message), fd, fd ? 1 : 0, MSG_NOSIGNAL);

        if (r == -EPIPE || r == -ECONNRESET)
                _exit(0);
}

/* ---- connections ---- */

static uid_t unknown_uid(void)
{
        char text[32] = "";
        int fd = open("/proc/sys/kernel/overflowuid", O_RDONLY | O_CLOEXEC);

        if (fd >= 0) {
                (void)!read(fd, text, sizeof(text) - 1);
                close(fd);
        }
        return *text ? (uid_t)atol(text) : UID_UNKNOWN;
}

static void pass_client(const struct helper *h, int fd)
{
        struct serve_message message = {.kind = SERVE_CLIENT};
        struct ucred peer;
        socklen_t n = sizeof(peer);

        /* All users whose uid is not known here would be one. */
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid != h->unknown) {
                message.uid = peer.uid;
                tell(h, &message, &fd);
        }
        close(fd);
}

static void on_connection(evutil_socket_t listener, short what, void *data)
{
        const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000};
        const struct helper *h = data;

        for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
                int fd = accept4((int)listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd >= 0) {
                        pass_client(h, fd);
                        continue;
                }
                /* The machine has no descriptor left. */
                if (errno == ENFILE || errno == EMFILE || errno == ENOMEM || errno == ENOBUFS)
                        nanosleep(&pause, NULL);
                return;
        }
}

/* ---- the file of tokens ---- */

int serve_tokens_open(const char *path, struct error *err)
{
        struct stat st;

        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "--tokens %s", path);
        if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
                return error_set(
                        err, EPERM,
                        "--tokens %s: others can read it: 'chmod 600' it, and use new tokens",
                        path);
        if (st.st_uid != geteuid() && st.st_uid != 0)
                return error_set(err, EPERM,
                                 "--tokens %s: it belongs to uid %u, who could change it", path,
                                 st.st_uid);
        return take_fd(fd);
}

static int read_tokens(const struct helper *h, struct error *err)
{
        _cleanup_close_ int file = serve_tokens_open(h->tokens, err);
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        int r = file < 0 ? file : fd_read_whole(file, SERVE_TOKENS_MAX, &text, &n, err);
        if (r < 0)
                return r;
        r = fd_sealed("tokens", text, n, err);
        explicit_bzero(text, n);
        return r;
}

static void pass_tokens(const struct helper *h, bool asked)
{
        struct serve_message message = {.kind = SERVE_TOKENS, .asked = asked};

        _cleanup_close_ int fd = read_tokens(h, &message.error);
        if (fd < 0)
                message.kind = SERVE_PROBLEM;
        tell(h, &message, fd < 0 ? NULL : &fd);
        config_watch_files(h->watch, NULL);
}

/* May be called although nothing has changed. */
static void on_changed(void *data)
{
        pass_tokens(data, false);
}

/* ---- the process ---- */

static void on_broker(evutil_socket_t fd, short what, void *data)
{
        const struct helper *h = data;
        struct serve_message message;

        ssize_t n = fd_receive(fd, &message, sizeof(message), NULL, NULL, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EINTR)
                return;
        if (n != sizeof(message) || message.kind != SERVE_READ || !h->tokens)
                _exit(0);
        pass_tokens(h, true);
}

static int watch(struct helper *h, size_t n_listeners, struct error *err)
{
        struct event *end = event_new(h->base, h->broker, EV_READ | EV_PERSIST, on_broker, h);

        if (!end || event_add(end, NULL) < 0)
                return error_errno(err, ENOMEM, "event");
        for (size_t i = 0; i < n_listeners; i++) {
                struct event *event = event_new(h->base, FIRST_LISTENER + (int)i,
                                                EV_READ | EV_PERSIST, on_connection, h);
                if (!event || event_add(event, NULL) < 0)
                        return error_errno(err, ENOMEM, "event");
        }
        return h->tokens ? config_watch_new(&h->watch, h->base, &h->tokens, 1, on_changed, h, err)
                         : 0;
}

static _Noreturn void run(int broker, const struct serve_helper *work, pid_t parent)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int fds[FIRST_LISTENER + LISTENERS_MAX] = {null, null, null, broker};
        struct helper h = {.tokens = work->tokens, .broker = BROKER_FD};
        struct serve_message failed = {.kind = SERVE_FAILED};

        for (size_t i = 0; i < work->n_listeners; i++)
                fds[FIRST_LISTENER + i] = work->listeners[i];
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
            fd_arrange(fds, FIRST_LISTENER + work->n_listeners) < 0 ||
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || capabilities_keep(0) < 0)
                _exit(1);
        setsid();
        /* It ends with the broker, which may have to finish calls: not by a signal to all processes of a unit. */
        signal(SIGTERM, SIG_IGN);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        h.unknown = unknown_uid();
        h.base = loop_new();
        if (!h.base)
                error_set(&failed.error, ENOMEM, "it could not start: no memory or no descriptors");
        else if (watch(&h, work->n_listeners, &failed.error) >= 0 && loop_run(h.base) < 0)
                error_set(&failed.error, EIO, "the event loop has failed");
        tell(&h, &failed, NULL);
        _exit(1);
}

int serve_helper_start(const struct serve_helper *work, struct error *err)
{
        const int size = SEND_BUFFER;
        pid_t parent = getpid();
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "serve: socketpair");
        _cleanup_close_ int ours = pair[0];
        _cleanup_close_ int theirs = pair[1];
        setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        /* The monitor kills children that it does not know, but not those that it has from before. */
        pid_t pid = fork();
        if (pid < 0)
                return error_errno(err, errno, "serve: start a process");
        if (pid == 0)
                run(theirs, work, parent);
        for (size_t i = 0; i < work->n_listeners; i++)
                close(work->listeners[i]);
        return take_fd(ours);
}
