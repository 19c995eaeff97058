/* Starts the processes that have the values of secrets with "to". */
#include "supervisor/monitor/monitor-inject.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/loop.h"
#include "policy/seccomp/filter.h"
#include "supervisor/monitor/monitor-helper.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/process/child.h"

enum { SETTINGS_MAX = 64 * 1024 };

/* The descriptors of the process. */
enum { GIVEN_SOCKET, GIVEN_FILTER, GIVEN_VALUES, GIVEN_CERTIFICATES, GIVEN };

struct inject_process {
        struct inject_process *next;
        struct monitor *monitor;
        uint32_t generation, profile;
        pid_t pid;
        int pidfd;
        struct event *end;
        monitor_inject_ended_fn *ended;
};

/* ---- what it is started with ---- */

static void put_list(struct json_out *out, const char *key, char *const *list)
{
        json_out_begin(out, key, '[');
        for (; list && *list; list++)
                json_out_text(out, NULL, *list);
        json_out_end(out, ']');
}

/* Names and hosts, no values. */
static int make_settings(const struct config_profile *profile, struct buffer *to)
{
        char *const usual[] = {(char[]){"header"}, NULL};
        struct json_out out = {.to = to};

        buffer_append_text(to, "CLOISTER_INJECT=");
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "secrets", '[');
        for (size_t i = 0; i < profile->n_secrets; i++) {
                const struct config_secret *secret = &profile->secrets[i];
                if (!secret->to)
                        continue;
                json_out_begin(&out, NULL, '{');
                json_out_text(&out, "name", secret->name);
                put_list(&out, "in", secret->in ? secret->in : usual);
                put_list(&out, "to", secret->to);
                json_out_end(&out, '}');
        }
        json_out_end(&out, ']');
        put_list(&out, "inspect", profile->egress.inspect);
        json_out_end(&out, '}');
        buffer_append(to, "", 1);
        return out.error < 0 ? out.error : to->error;
}

/* The file that libcurl and OpenSSL would take, by the usual names of distributions. */
static int open_certificates(struct error *err)
{
        static const char *const usual[] = {
                "/etc/ssl/certs/ca-certificates.crt",
                "/etc/pki/tls/certs/ca-bundle.crt",
                "/etc/ssl/ca-bundle.pem",
                "/etc/ssl/cert.pem",
        };
        const char *named = getenv("SSL_CERT_FILE");
        int fd = -1;

        if (named && *named) {
                fd = open(named, O_RDONLY | O_CLOEXEC | O_NOCTTY);
                return fd < 0 ? error_errno(err, errno, "SSL_CERT_FILE: open %s", named) : fd;
        }
        for (size_t i = 0; i < ARRAY_SIZE(usual) && fd < 0; i++)
                fd = open(usual[i], O_RDONLY | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? error_set(
                                err, ENOENT,
                                "no file with certificates of authorities was found: set SSL_CERT_FILE")
                      : fd;
}

/* ---- its end ---- */

static void forget(struct inject_process *p)
{
        struct inject_process **at = &p->monitor->injects;

        while (*at != p)
                at = &(*at)->next;
        *at = p->next;
        children_remove(p->monitor->children, p->pid);
        loop_event_free(&p->end);
        close(p->pidfd);
        free(p);
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct inject_process *p = data;
        int status = 0;

        waitpid(p->pid, &status, 0);
        if (status != 0)
                log_warning("cloister-inject ended with the wait status 0x%x", (unsigned)status);
        p->ended(p->monitor, p->generation, p->profile);
        forget(p);
}

void monitor_inject_done(struct monitor *m)
{
        while (m->injects) {
                child_kill(m->injects->pid);
                forget(m->injects);
        }
}

static int watch(struct monitor *m, pid_t pid, uint32_t profile, monitor_inject_ended_fn *ended,
                 struct error *err)
{
        struct inject_process *p = calloc(1, sizeof(*p));
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

        if (p && pidfd >= 0)
                p->end = event_new(m->base, pidfd, EV_READ, on_end, p);
        if (!p || !p->end || event_add(p->end, NULL) < 0) {
                if (p)
                        loop_event_free(&p->end);
                free(p);
                if (pidfd >= 0)
                        close(pidfd);
                child_kill(pid);
                children_remove(m->children, pid);
                return error_errno(err, ENOMEM, "watch");
        }
        p->next = m->injects;
        p->monitor = m;
        p->generation = m->generation;
        p->profile = profile;
        p->ended = ended;
        p->pid = pid;
        p->pidfd = pidfd;
        m->injects = p;
        return 0;
}

static size_t count(const struct monitor *m)
{
        size_t n = 0;

        for (const struct inject_process *p = m->injects; p; p = p->next)
                n++;
        return n;
}

int monitor_inject_start(struct monitor *m, uint32_t profile, int values,
                         monitor_inject_ended_fn *ended, int *control, struct error *err)
{
        _cleanup_buffer_ struct buffer settings = BUFFER_INIT(SETTINGS_MAX);
        int pair[2];

        if (count(m) >= MONITOR_INJECTS_MAX)
                return error_set(err, EAGAIN, "%d processes with secrets run already",
                                 MONITOR_INJECTS_MAX);
        int r = make_settings(&m->config->profiles[profile], &settings);
        if (r < 0)
                return error_errno(err, -r, "settings of cloister-inject");
        _cleanup_close_ int certificates = open_certificates(err);
        if (certificates < 0)
                return certificates;
        _cleanup_close_ int filter = filter_compile(FILTER_INJECT, err);
        if (filter < 0)
                return filter;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "socketpair");
        _cleanup_close_ int ours = pair[0], theirs = pair[1];
        const int given[GIVEN] = {[GIVEN_SOCKET] = theirs,
                                  [GIVEN_FILTER] = filter,
                                  [GIVEN_VALUES] = values,
                                  [GIVEN_CERTIFICATES] = certificates};
        const struct monitor_helper helper = {.program = m->inject_program,
                                              .name = "cloister-inject",
                                              .fds = given,
                                              .n_fds = GIVEN,
                                              .variable = buffer_bytes(&settings)};
        pid_t pid = monitor_helper_start(m, &helper, err);
        r = pid < 0 ? pid : watch(m, pid, profile, ended, err);
        if (r < 0)
                return error_context(err, "start cloister-inject");
        *control = take_fd(ours);
        return 0;
}
