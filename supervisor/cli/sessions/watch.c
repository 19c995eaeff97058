/*
 * The sessions of all servers, once a second.
 *
 * Each second every server gets one request for its list; a server that has not answered when the next second begins is
 * shown as such. Between two frames the program sleeps: signals and keys wake it. Everything that is shown is escaped: names, code and
 * output are of others.
 */
#include "supervisor/cli/sessions/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/printable.h"
#include "supervisor/cli/command/fail.h"
#include "supervisor/cli/sessions/session-list.h"
#include "supervisor/cli/sessions/watch-screen.h"

enum {
        PERIOD_MS = 1000,
        FRAME_MAX = 4 * 1024 * 1024,
        KNOWN_MAX = 4096, /* sessions whose processor time is compared */
        GO_ON = -1,
};

/* Processor time of a session a frame ago. */
struct known {
        pid_t pid;
        char name[132];
        int64_t cpu_ms;
        uint64_t at_ms;
};

struct watch {
        const char *only;
        bool json;
        int signals; /* signalfd */
        struct watch_screen screen;
        struct servers servers;
        struct server_link links[SERVERS_MAX];
        struct known before[KNOWN_MAX], now[KNOWN_MAX];
        size_t n_before, n_now;
        bool reads_keys, redraw;
};

/* ---- events ---- */

static void stop_program(struct watch *w)
{
        watch_screen_leave(&w->screen);
        raise(SIGSTOP);
        if (!w->json)
                watch_screen_enter(&w->screen);
        w->redraw = true;
}

/* Returns an exit status, or GO_ON. */
static int take_signal(struct watch *w)
{
        struct signalfd_siginfo info;

        if (read(w->signals, &info, sizeof(info)) != sizeof(info))
                return GO_ON;
        switch (info.ssi_signo) {
        case SIGWINCH:
                watch_screen_measure(&w->screen);
                w->redraw = true;
                return GO_ON;
        case SIGTSTP:
                stop_program(w);
                return GO_ON;
        case SIGCONT:
                return GO_ON;
        default:
                return 128 + (int)info.ssi_signo;
        }
}

static int take_key(struct watch *w)
{
        char key = 0;
        ssize_t n = read(STDIN_FILENO, &key, 1);

        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
                w->reads_keys = false;
        return n == 1 && key == 'q' ? 0 : GO_ON;
}

/* Waits for an answer, a signal or a key, at most until then. */
static int wait_until(struct watch *w, uint64_t then_ms, bool for_answers)
{
        struct pollfd p[SERVERS_MAX + 2];
        uint64_t now = clock_ms();
        size_t n = for_answers ? w->servers.n : 0;

        p[0] = (struct pollfd){.fd = w->signals, .events = POLLIN};
        p[1] = (struct pollfd){.fd = w->reads_keys ? STDIN_FILENO : -1, .events = POLLIN};
        for (size_t i = 0; i < n; i++)
                p[i + 2] = (struct pollfd){.fd = w->links[i].fd, .events = POLLIN};
        poll(p, (nfds_t)n + 2, then_ms > now ? (int)(then_ms - now) : 0);
        if (p[0].revents)
                return take_signal(w);
        if (p[1].revents)
                return take_key(w);
        for (size_t i = 0; i < n; i++) {
                struct error ignored = {};
                if (!p[i + 2].revents)
                        continue;
                if (server_link_read(&w->links[i], &ignored) < 0 ||
                    server_link_take(&w->links[i], &w->servers.list[i].answer, &ignored) != 0)
                        server_link_close(&w->links[i]);
        }
        return GO_ON;
}

static void ask(struct watch *w)
{
        servers_done(&w->servers);
        w->servers = (struct servers){};
        servers_find(w->only, &w->servers);
        for (size_t i = 0; i < w->servers.n; i++) {
                _cleanup_buffer_ struct buffer params = BUFFER_INIT(16);
                struct error ignored = {};
                if (buffer_append_text(&params, "{}") < 0 ||
                    server_link_open_quickly(&w->links[i], w->servers.list[i].path, &ignored) < 0 ||
                    server_link_send(&w->links[i], "sessions/list", &params, &ignored) < 0)
                        server_link_close(&w->links[i]);
        }
}

static bool is_waiting(const struct watch *w)
{
        for (size_t i = 0; i < w->servers.n; i++) {
                if (w->links[i].fd >= 0)
                        return true;
        }
        return false;
}

/* ---- a frame ---- */

/* Percent of one processor since the last frame. */
static int64_t processor_of(struct watch *w, pid_t pid, yyjson_val *session, uint64_t at_ms)
{
        const char *name = json_text(session, "name");
        int64_t cpu = json_number(session, "cpu_ms");

        if (w->n_now < KNOWN_MAX) {
                struct known *k = &w->now[w->n_now++];
                *k = (struct known){.pid = pid, .cpu_ms = cpu, .at_ms = at_ms};
                snprintf(k->name, sizeof(k->name), "%s", name);
        }
        for (size_t i = 0; i < w->n_before; i++) {
                const struct known *k = &w->before[i];
                if (k->pid == pid && strcmp(k->name, name) == 0 && at_ms > k->at_ms &&
                    cpu >= k->cpu_ms)
                        return (cpu - k->cpu_ms) * 100 / (int64_t)(at_ms - k->at_ms);
        }
        return 0;
}

static int append_session(struct watch *w, const struct server *server, yyjson_val *session,
                          uint64_t at_ms, struct buffer *to)
{
        yyjson_val *last = yyjson_obj_get(session, "last");
        const char *line = json_text(last, "line");
        bool runs = last && !yyjson_obj_get(last, "status");
        char name[160], state[64], code[256], shown[1024], end[64], took[16] = "", text[2048];

        printable_escape(name, sizeof(name), json_text(session, "name"));
        printable_escape(state, sizeof(state), json_text(session, "state"));
        printable_escape(code, sizeof(code), json_text(last, "code"));
        printable_escape(shown, sizeof(shown), line);
        printable_escape(end, sizeof(end), json_text(last, "status"));
        if (last)
                session_list_time(json_number(last, "duration_ms"), took);
        snprintf(text, sizeof(text),
                 "%-20s %-14s %6s %4" PRId64 "%% %6" PRId64 "M %6" PRId64 " %5" PRId64
                 "  %s%s%s%s%s",
                 name, state, took, processor_of(w, server->pid, session, at_ms),
                 json_number(session, "memory_bytes") >> 20, json_number(session, "tool_calls"),
                 json_number(session, "cells"), runs ? "" : end, runs || !last ? "" : ": ", code,
                 *line ? " | " : "", shown);
        return watch_screen_line(&w->screen, text, to);
}

/* The sessions of a server, as many as there is room for. */
static int append_server(struct watch *w, const struct server *server, uint64_t at_ms, size_t *room,
                         size_t *left_out, struct buffer *to)
{
        char text[128];
        yyjson_val *session;
        size_t i, n;
        int r = 0;

        if (!server->answer) {
                snprintf(text, sizeof(text), "server %d does not answer", (int)server->pid);
                if (*room > 0)
                        r = watch_screen_line(&w->screen, text, to);
                *room -= *room > 0;
                return r;
        }
        yyjson_arr_foreach (server_sessions(server), i, n, session) {
                if (*room == 0)
                        ++*left_out;
                else if (r >= 0)
                        r = append_session(w, server, session, at_ms, to);
                *room -= *room > 0;
        }
        return r;
}

static int draw(struct watch *w)
{
        _cleanup_buffer_ struct buffer frame = BUFFER_INIT(FRAME_MAX);
        size_t room = w->screen.rows > 3 ? w->screen.rows - 3 : 1, left_out = 0;
        uint64_t at_ms = clock_ms();
        char text[128];

        w->n_now = 0;
        int r = buffer_append_text(&frame, "\033[H");
        snprintf(text, sizeof(text), "%-20s %-14s %6s %5s %7s %6s %5s  %s", "SESSION", "STATE",
                 "FOR", "CPU", "MEMORY", "TOOLS", "CALLS", "LAST");
        if (r >= 0)
                r = watch_screen_line(&w->screen, text, &frame);
        for (size_t i = 0; i < w->servers.n && r >= 0; i++)
                r = append_server(w, &w->servers.list[i], at_ms, &room, &left_out, &frame);
        if (r >= 0 && left_out > 0) {
                snprintf(text, sizeof(text), "and %zu more", left_out);
                r = watch_screen_line(&w->screen, text, &frame);
        }
        if (r >= 0)
                r = buffer_append_text(&frame, "\033[J");
        memcpy(w->before, w->now, w->n_now * sizeof(*w->now));
        w->n_before = w->n_now;
        return r < 0 ? r : fd_write_all(STDOUT_FILENO, buffer_bytes(&frame), frame.length);
}

static int show(struct watch *w)
{
        if (!w->json)
                return draw(w);
        size_t n = 0;
        for (size_t i = 0; i < w->servers.n; i++) {
                if (w->servers.list[i].answer)
                        w->servers.list[n++] = w->servers.list[i];
        }
        w->servers.n = n;
        int r = session_list_print_json(&w->servers);
        return r >= 0 && fflush(stdout) != 0 ? -errno : r;
}

/* Returns an exit status, or GO_ON after a second. */
static int one_second(struct watch *w)
{
        uint64_t end = clock_ms() + PERIOD_MS;
        int status = GO_ON;

        ask(w);
        while (status == GO_ON && is_waiting(w) && clock_ms() < end)
                status = wait_until(w, end, true);
        for (size_t i = 0; i < w->servers.n; i++)
                server_link_close(&w->links[i]);
        w->redraw = true;
        while (status == GO_ON && (w->redraw || clock_ms() < end)) {
                if (w->redraw && show(w) < 0)
                        return 1;
                w->redraw = false;
                status = wait_until(w, end, false);
                w->redraw &= !w->json;
        }
        return status;
}

static int hold_signals(void)
{
        static const int held[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH, SIGCONT};
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(held); i++)
                sigaddset(&set, held[i]);
        sigprocmask(SIG_BLOCK, &set, NULL);
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int watch_sessions(const struct options *o)
{
        struct watch *w = calloc(1, sizeof(*w));
        struct error err = {};
        int status = GO_ON;

        if (!o->json && isatty(STDOUT_FILENO) != 1) {
                error_set(&err, EINVAL,
                          "--watch needs a terminal; --watch --json prints one line a second");
                free(w);
                return cli_fail(2, &err);
        }
        if (!w || (w->signals = hold_signals()) < 0) {
                free(w);
                return cli_fail(1, (error_errno(&err, errno, "--watch"), &err));
        }
        setlocale(LC_CTYPE, "C.UTF-8");
        w->only = o->server;
        w->json = o->json;
        w->reads_keys = !w->json && isatty(STDIN_FILENO) == 1;
        for (size_t i = 0; i < SERVERS_MAX; i++)
                w->links[i].fd = -1;
        if (!w->json)
                watch_screen_enter(&w->screen);
        while (status == GO_ON)
                status = one_second(w);
        watch_screen_leave(&w->screen);
        servers_done(&w->servers);
        close(w->signals);
        free(w);
        return status == 128 + SIGINT ? 0 : status;
}
