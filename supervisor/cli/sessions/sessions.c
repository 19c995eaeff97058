/*
 * `cloister sessions`: asks the running servers of this user over their control sockets.
 *
 * With --watch, every server gets one request for its list each second; a server that has not answered when the next second
 * begins is shown as such. Between two frames the program sleeps: signals and keys wake it. Everything that is shown is escaped:
 * names, code and output are of others.
 */
#include "supervisor/cli/sessions/sessions.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/plural.h"
#include "base/printable.h"
#include "supervisor/cli/sessions/servers.h"

enum {
        ANSWER_MAX = 32 * 1024 * 1024,
        STATE_WIDTH = 17,
        PROFILE_WIDTH = 8,
        PERIOD_MS = 1000, /* of --watch */
        FRAME_MAX = 4 * 1024 * 1024,
        KNOWN_MAX = 4096, /* sessions whose processor time is compared */
        GO_ON = -1,
};

/* A duration for a column: 850ms, 12s, 5m, 3h, 2d. Returns to. */
static const char *session_list_time(int64_t ms, char to[16])
{
        static const struct {
                int64_t ms;
                const char *unit;
        } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};

        for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                /* A larger unit from two on: "90m" is more precise than "1h". */
                if (ms >= 2 * units[i].ms || (i == ARRAY_SIZE(units) - 1 && ms >= units[i].ms)) {
                        snprintf(to, 16, "%" PRId64 "%s", ms / units[i].ms, units[i].unit);
                        return to;
                }
        }
        snprintf(to, 16, "%" PRId64 "ms", ms);
        return to;
}

/* "idle"; "asks, 3 calls, 40 s" while calls of its code wait for a person. */
static void state_of(yyjson_val *session, char *to, size_t size)
{
        yyjson_val *asks = yyjson_obj_get(session, "asks");
        int64_t n = json_number(asks, "calls");

        if (asks)
                snprintf(to, size, "asks, %" PRId64 " call%s, %" PRId64 " s", n, plural(n),
                         json_number(asks, "ms") / 1000);
        else
                printable_escape(to, size, json_text(session, "state"));
}

/* A server of an earlier version says nothing. */
static const char *network_of(yyjson_val *result)
{
        static const char *const states[] = {"none", "running", "ended"};

        for (size_t i = 0; i < ARRAY_SIZE(states); i++)
                if (strcmp(json_text(result, "network"), states[i]) == 0)
                        return states[i];
        return "unknown";
}

/* Prints all sessions as an array of servers, in one line. Returns 0 or negative errno. */
static int session_list_print_json(const struct servers *servers)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(ANSWER_MAX);
        struct json_out out = {.to = &b};

        json_out_begin(&out, NULL, '[');
        for (size_t i = 0; i < servers->n; i++) {
                yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(servers->list[i].answer),
                                                    "result");
                json_out_begin(&out, NULL, '{');
                json_out_int(&out, "server", servers->list[i].pid);
                json_out_int(&out, "sessions_max", json_number(result, "sessions_max"));
                json_out_int(&out, "ready", json_number(result, "ready"));
                json_out_text(&out, "network", network_of(result));
                if (yyjson_obj_get(result, "servers"))
                        json_out_value(&out, "servers", yyjson_obj_get(result, "servers"));
                json_out_value(&out, "sessions", server_sessions(&servers->list[i]));
                json_out_end(&out, '}');
        }
        json_out_end(&out, ']');
        _cleanup_buffer_ struct buffer shown = BUFFER_INIT(2 * ANSWER_MAX);
        int r = out.error ? out.error : printable_json(&shown, buffer_bytes(&b), b.length);
        if (r >= 0)
                r = buffer_append(&shown, "\n", 1);
        if (r >= 0 && fwrite(buffer_bytes(&shown), 1, shown.length, stdout) != shown.length)
                r = -EIO;
        return r;
}

/* ---- --watch: the alternate screen of a terminal ---- */

struct watch_screen {
        bool is_entered, has_modes;
        struct termios modes; /* before */
        size_t columns, rows;
};

/* The alternate screen, no cursor, no line breaks at the edge; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

static void watch_screen_measure(struct watch_screen *screen)
{
        struct winsize size = {};

        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        screen->columns = size.ws_col > 0 ? size.ws_col : 80;
        screen->rows = size.ws_row > 0 ? size.ws_row : 24;
}

/* Switches to the alternate screen, and keys are read without a newline and not shown. */
static void watch_screen_enter(struct watch_screen *screen)
{
        struct termios modes;

        watch_screen_measure(screen);
        screen->has_modes = tcgetattr(STDIN_FILENO, &screen->modes) == 0;
        if (screen->has_modes) {
                modes = screen->modes;
                modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
                tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
        }
        fd_write_all(STDOUT_FILENO, ENTER, sizeof(ENTER) - 1);
        screen->is_entered = true;
}

/* As it was before. May be called twice. */
static void watch_screen_leave(struct watch_screen *screen)
{
        if (!screen->is_entered)
                return;
        screen->is_entered = false;
        fd_write_all(STDOUT_FILENO, LEAVE, sizeof(LEAVE) - 1);
        if (screen->has_modes)
                tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->modes);
}

/* Appends a line of valid UTF-8 without control characters, cut to the width. */
static int watch_screen_line(const struct watch_screen *screen, const char *text, struct buffer *to)
{
        size_t n = strlen(text), at = 0, used = 0;
        mbstate_t state = {};

        while (at < n) {
                wchar_t c;
                size_t length = mbrtowc(&c, text + at, n - at, &state);
                if (length == 0 || length > n - at)
                        break;
                int width = wcwidth(c);
                used += width > 0 ? (size_t)width : 0;
                if (used > screen->columns)
                        break;
                at += length;
        }
        int r = buffer_append(to, text, at);
        return r < 0 ? r : buffer_append_text(to, "\033[K\n");
}

/* Processor time of a session at an answer. */
struct known {
        pid_t pid;
        char name[132];
        int64_t cpu_ms, percent; /* of one processor, since the answer before */
        uint64_t at_ms;
};

/* A session on the screen. */
struct watch_row {
        const struct server *server;
        yyjson_val *session;
        int64_t percent;
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
        char order; /* of `cloister top`: a letter of top_keys; 0: it is 'sessions --watch' */
};

/* ---- --watch: events ---- */

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

static const char top_keys[] = "cmta"; /* processor, memory, tool calls, age */

static int take_key(struct watch *w)
{
        char key = 0;
        ssize_t n = read(STDIN_FILENO, &key, 1);

        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
                w->reads_keys = false;
        if (n == 1 && w->order && strchr(top_keys, key)) {
                w->order = key;
                w->redraw = true;
        }
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
                struct error ignored = {};
                if (server_link_open_quickly(&w->links[i], w->servers.list[i].path, &ignored) < 0 ||
                    server_link_send(&w->links[i], "sessions/list", NULL, &ignored) < 0)
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

/* ---- --watch: a frame ---- */

static const struct known *find_known(const struct known *list, size_t n, pid_t pid,
                                      const char *name)
{
        for (size_t i = 0; i < n; i++) {
                if (list[i].pid == pid && strcmp(list[i].name, name) == 0)
                        return &list[i];
        }
        return NULL;
}

static void note_processor(struct watch *w, pid_t pid, yyjson_val *session, uint64_t at_ms)
{
        const char *name = json_text(session, "name");
        const struct known *before = find_known(w->before, w->n_before, pid, name);
        struct known *k = &w->now[w->n_now++];

        *k = (struct known){.pid = pid, .cpu_ms = json_number(session, "cpu_ms"), .at_ms = at_ms};
        snprintf(k->name, sizeof(k->name), "%s", name);
        if (before && at_ms > before->at_ms && k->cpu_ms >= before->cpu_ms)
                k->percent = (k->cpu_ms - before->cpu_ms) * 100 / (int64_t)(at_ms - before->at_ms);
}

/* The answers have come: compares them with those a second ago. */
static void note_all(struct watch *w)
{
        uint64_t at_ms = clock_ms();
        yyjson_val *session;
        size_t i, n;

        memcpy(w->before, w->now, w->n_now * sizeof(*w->now));
        w->n_before = w->n_now;
        w->n_now = 0;
        for (size_t k = 0; k < w->servers.n; k++) {
                yyjson_arr_foreach (server_sessions(&w->servers.list[k]), i, n, session) {
                        if (w->n_now < KNOWN_MAX)
                                note_processor(w, w->servers.list[k].pid, session, at_ms);
                }
        }
}

/* Percent of one processor in the last second. */
static int64_t processor_of(const struct watch *w, pid_t pid, yyjson_val *session)
{
        const struct known *k = find_known(w->now, w->n_now, pid, json_text(session, "name"));

        return k ? k->percent : 0;
}

static int append_session(struct watch *w, const struct server *server, yyjson_val *session,
                          struct buffer *to)
{
        yyjson_val *last = yyjson_obj_get(session, "last");
        const char *line = json_text(last, "line");
        bool runs = last && !yyjson_obj_get(last, "status");
        char name[160], state[64], code[256], shown[1024], end[64], took[16] = "", text[2048];

        printable_escape(name, sizeof(name), json_text(session, "name"));
        state_of(session, state, sizeof(state));
        printable_escape(code, sizeof(code), json_text(last, "code"));
        printable_escape(shown, sizeof(shown), line);
        printable_escape(end, sizeof(end), json_text(last, "status"));
        if (last)
                session_list_time(json_number(last, "duration_ms"), took);
        snprintf(text, sizeof(text),
                 "%-20s %-14s %6s %4" PRId64 "%% %6" PRId64 "M %6" PRId64 " %5" PRId64
                 "  %s%s%s%s%s",
                 name, state, took, processor_of(w, server->pid, session),
                 json_number(session, "memory_bytes") >> 20, json_number(session, "tool_calls"),
                 json_number(session, "cells"), runs ? "" : end, runs || !last ? "" : ": ", code,
                 *line ? " | " : "", shown);
        return watch_screen_line(&w->screen, text, to);
}

/* The sessions of a server, as many as there is room for. */
static int append_server(struct watch *w, const struct server *server, size_t *room,
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
                        r = append_session(w, server, session, to);
                *room -= *room > 0;
        }
        return r;
}

/* ---- top ---- */

/* The sums of all servers, and how it is sorted. */
static int append_top(const struct watch *w, struct buffer *to)
{
        int64_t live = 0, places = 0, ready = 0, memory = 0, percent = 0;
        yyjson_val *session;
        size_t i, n;
        char text[192];

        for (size_t k = 0; k < w->servers.n; k++) {
                const struct server *server = &w->servers.list[k];
                yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(server->answer), "result");
                places += json_number(result, "sessions_max");
                ready += json_number(result, "ready");
                yyjson_arr_foreach (server_sessions(server), i, n, session) {
                        live++;
                        memory += json_number(session, "memory_bytes");
                        percent += processor_of(w, server->pid, session);
                }
        }
        snprintf(text, sizeof(text),
                 "%zu server%s, %" PRId64 " of %" PRId64 " places, %" PRId64 " ready, %" PRId64
                 "%% processor, %" PRId64 "M memory; sorted by %s (keys: c m t a, q ends)",
                 w->servers.n, plural(w->servers.n), live, places, ready, percent, memory >> 20,
                 w->order == 'c'   ? "processor"
                 : w->order == 'm' ? "memory"
                 : w->order == 't' ? "tool calls"
                                   : "age");
        return watch_screen_line(&w->screen, text, to);
}

static int64_t value_of(const struct watch_row *row, char order)
{
        return order == 'c'   ? row->percent
               : order == 'm' ? json_number(row->session, "memory_bytes")
               : order == 't' ? json_number(row->session, "tool_calls")
                              : json_number(row->session, "age_ms");
}

/* The largest first; equal ones by name, so that rows stay where they are. */
static int compare_rows(const void *a, const void *b, void *order)
{
        const struct watch_row *x = a, *y = b;
        int64_t left = value_of(x, *(const char *)order), right = value_of(y, *(const char *)order);

        if (left != right)
                return left < right ? 1 : -1;
        return strcmp(json_text(x->session, "name"), json_text(y->session, "name"));
}

/* The sessions of all servers, as many as there is room for. */
static int append_sorted(struct watch *w, size_t *room, size_t *left_out, struct buffer *to)
{
        static struct watch_row rows[KNOWN_MAX];
        size_t i, n, n_rows = 0;
        yyjson_val *session;
        int r = 0;

        for (size_t k = 0; k < w->servers.n; k++) {
                const struct server *server = &w->servers.list[k];
                yyjson_arr_foreach (server_sessions(server), i, n, session) {
                        if (n_rows < ARRAY_SIZE(rows))
                                rows[n_rows++] = (struct watch_row){
                                        server, session, processor_of(w, server->pid, session)};
                }
        }
        qsort_r(rows, n_rows, sizeof(*rows), compare_rows, &w->order);
        for (i = 0; i < n_rows && i < *room && r >= 0; i++)
                r = append_session(w, rows[i].server, rows[i].session, to);
        *left_out = n_rows - i;
        return r;
}

static int draw(struct watch *w)
{
        _cleanup_buffer_ struct buffer frame = BUFFER_INIT(FRAME_MAX);
        size_t head = w->order ? 4 : 3;
        size_t room = w->screen.rows > head ? w->screen.rows - head : 1, left_out = 0;
        char text[128];

        int r = buffer_append_text(&frame, "\033[H");
        if (r >= 0 && w->order)
                r = append_top(w, &frame);
        snprintf(text, sizeof(text), "%-20s %-14s %6s %5s %7s %6s %5s  %s", "SESSION", "STATE",
                 "FOR", "CPU", "MEMORY", "TOOLS", "CALLS", "LAST");
        if (r >= 0)
                r = watch_screen_line(&w->screen, text, &frame);
        for (size_t i = 0; i < w->servers.n && r >= 0 && !w->order; i++)
                r = append_server(w, &w->servers.list[i], &room, &left_out, &frame);
        if (r >= 0 && w->order)
                r = append_sorted(w, &room, &left_out, &frame);
        if (r >= 0 && left_out > 0) {
                snprintf(text, sizeof(text), "and %zu more", left_out);
                r = watch_screen_line(&w->screen, text, &frame);
        }
        if (r >= 0)
                r = buffer_append_text(&frame, "\033[J");
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
        note_all(w);
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

/* order: of `cloister top`, or 0. */
static int watch_sessions(const struct options *o, char order)
{
        struct watch *w = calloc(1, sizeof(*w));
        struct error err = {};
        int status = GO_ON;

        if (!o->json && isatty(STDOUT_FILENO) != 1) {
                error_set(
                        &err, EINVAL,
                        "%s needs a terminal; 'cloister sessions --watch --json' prints one line a second",
                        order ? "top" : "--watch");
                free(w);
                return cli_fail(2, &err);
        }
        if (!w || (w->signals = hold_signals()) < 0) {
                free(w);
                return cli_fail(1, (error_errno(&err, errno, "--watch"), &err));
        }
        setlocale(LC_CTYPE, "C.UTF-8");
        w->only = o->server;
        w->order = order;
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

/* ---- the commands ---- */

static void print_session(const struct server *server, yyjson_val *session, int width, bool colour)
{
        char age[16], idle[16] = "-", took[16], name[128], profile[128], state[32], end[32];
        yyjson_val *last = yyjson_obj_get(session, "last");
        const char *status = json_text(last, "status"), *code = json_text(last, "code");
        bool bad = *status && strcmp(status, "ok") != 0;

        /* The words of a broker, which may be broken. */
        printable_escape(name, sizeof(name), json_text(session, "name"));
        printable_escape(profile, sizeof(profile), json_text(session, "profile"));
        state_of(session, state, sizeof(state));
        printable_escape(end, sizeof(end), status);

        if (yyjson_obj_get(session, "idle_ms"))
                session_list_time(json_number(session, "idle_ms"), idle);
        printf("%-*s %-*s %7d %6s %6s %6" PRId64 "M %5" PRId64 "  %-*s", width, name, PROFILE_WIDTH,
               profile, (int)server->pid, session_list_time(json_number(session, "age_ms"), age),
               idle, json_number(session, "memory_bytes") / (1024 * 1024),
               json_number(session, "cells"), STATE_WIDTH, state);
        if (last) {
                printf("  %s%s%s %s: ", bad && colour ? "\033[31m" : "", *status ? end : "since",
                       bad && colour ? "\033[0m" : "",
                       session_list_time(json_number(last, "duration_ms"), took));
                printable_print(stdout, code); /* of an agent */
        }
        putchar('\n');
}

static void print_checkpoints(yyjson_val *session)
{
        yyjson_val *list = yyjson_obj_get(session, "checkpoints"), *checkpoint;
        char name[128], age[16];
        size_t i, n;

        yyjson_arr_foreach (list, i, n, checkpoint) {
                printable_escape(name, sizeof(name), json_text(checkpoint, "name"));
                printf("%s%s (call %" PRId64 ", %s)", i > 0 ? ", " : "  checkpoints: ", name,
                       json_number(checkpoint, "cell"),
                       session_list_time(json_number(checkpoint, "age_ms"), age));
        }
        if (yyjson_arr_size(list) > 0)
                putchar('\n');
}

static void print_table(const struct servers *servers)
{
        bool colour = isatty(STDOUT_FILENO) == 1 && !getenv("NO_COLOR");
        int width = 7;
        size_t i, n;
        yyjson_val *session;

        for (size_t k = 0; k < servers->n; k++)
                yyjson_arr_foreach (server_sessions(&servers->list[k]), i, n, session) {
                        int length = (int)strlen(json_text(session, "name"));
                        width = length > width ? length : width;
                }
        printf("%-*s %-*s %7s %6s %6s %7s %5s  %-*s  %s\n", width, "SESSION", PROFILE_WIDTH,
               "PROFILE", "SERVER", "AGE", "IDLE", "MEMORY", "CALLS", STATE_WIDTH, "STATE", "LAST");
        for (size_t k = 0; k < servers->n; k++)
                yyjson_arr_foreach (server_sessions(&servers->list[k]), i, n, session) {
                        print_session(&servers->list[k], session, width, colour);
                        print_checkpoints(session);
                }
}

/* The MCP servers that were restarted, and why. */
static void print_restarts(const struct servers *servers)
{
        char name[128], reason[256], age[16];
        size_t i, n;
        yyjson_val *s;

        for (size_t k = 0; k < servers->n; k++)
                yyjson_arr_foreach (yyjson_ptr_get(yyjson_doc_get_root(servers->list[k].answer),
                                                   "/result/servers"),
                                    i, n, s) {
                        if (json_number(s, "restarts") == 0)
                                continue;
                        printable_escape(name, sizeof(name), json_text(s, "name"));
                        printable_escape(reason, sizeof(reason), json_text(s, "reason"));
                        printf("MCP server \"%s\" was restarted %s ago: %s\n", name,
                               session_list_time(json_number(s, "restarted_ms"), age), reason);
                }
}

static size_t count(const struct servers *servers)
{
        size_t n = 0;

        for (size_t i = 0; i < servers->n; i++)
                n += yyjson_arr_size(server_sessions(&servers->list[i]));
        return n;
}

int cli_sessions(const struct options *o, const char *const *words, size_t n)
{
        struct servers servers = {};
        struct error err = {};
        int status = 0;

        if (o->watch)
                return watch_sessions(o, 0);
        servers_find(o->server, &servers);
        servers_ask(&servers);
        if (o->server && servers.n == 0) {
                status = cli_fail_text(1, "no server of yours has the process id %s", o->server);
        } else if (o->json) {
                int r = session_list_print_json(&servers);
                if (r < 0)
                        status = cli_fail(1, (error_errno(&err, -r, "list sessions"), &err));
        } else if (count(&servers) > 0) {
                print_table(&servers);
        } else {
                fprintf(stderr, "No live sessions (%zu %s running).\n", servers.n,
                        servers.n == 1 ? "server is" : "servers are");
                if (*servers.refused)
                        fprintf(stderr,
                                "%s " CONTROL_DIRECTORY_FAULT
                                ": a server that had no other place for its socket is not listed.\n",
                                servers.refused);
        }
        if (!o->json)
                print_restarts(&servers);
        servers_done(&servers);
        return status;
}

int cli_top(const struct options *o, const char *const *words, size_t n)
{
        return watch_sessions(o, 'c');
}

int cli_session_names(void)
{
        struct servers servers = {};
        size_t i, n;
        yyjson_val *session;

        servers_find(NULL, &servers);
        servers_ask(&servers);
        for (size_t k = 0; k < servers.n; k++)
                yyjson_arr_foreach (server_sessions(&servers.list[k]), i, n, session) {
                        printable_print(stdout, json_text(session, "name"));
                        putchar('\n');
                }
        servers_done(&servers);
        return 0;
}

static int command(const struct options *o, const char *const *words, size_t n, const char *method)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(1024);
        struct server_link link;
        _cleanup_json_ yyjson_doc *answer = NULL;
        yyjson_val *result;
        struct error err = {};

        if (n == 0 || !session_name_is_plain(words[0]))
                return cli_fail_text(2,
                                     "the NAME of a session is needed (see 'cloister sessions')");
        if (n > 1 && !session_name_is_plain(words[1]))
                return cli_fail_text(2, "no checkpoint can be called that");
        int r = server_link_open_session(&link, words[0], o->server, &err);
        if (r < 0)
                return cli_fail(1, &err);
        struct json_out out = {.to = &params};
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", words[0]);
        if (n > 1)
                json_out_text(&out, "checkpoint", words[1]);
        json_out_end(&out, '}');
        r = server_link_ask(&link, method, &params, &answer, &result, &err);
        server_link_close(&link);
        return r < 0 ? cli_fail(1, &err) : 0;
}

int cli_sessions_end(const struct options *o, const char *const *words, size_t n)
{
        return command(o, words, n, "sessions/end");
}

int cli_sessions_undo(const struct options *o, const char *const *words, size_t n)
{
        return command(o, words, n, "sessions/undo");
}

int cli_sessions_reset(const struct options *o, const char *const *words, size_t n)
{
        return command(o, words, n, "sessions/reset");
}
