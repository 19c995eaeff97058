/* The sessions of a broker, with a fake monitor and fake workers, for the tests of the pool. */
#pragma once

#include "supervisor/session/pool.h"

#include <errno.h>

#include "base/clock.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/session.h"
#include "supervisor/session/sessions-owner.h"
#include "tests/unit/fake-client.h"
#include "tests/unit/fake-clock.h"

enum { SANDBOXES = 32, EARLY = 30 };

#define POOL "\"pool\": {\"min\": 1, \"max\": 8}"
#define ONE  "{" POOL "}"

/* Several sandboxes at once; the one of fake-monitor.h is the newest. */
struct world {
        struct event_base *base;
        struct config *config;
        struct monitor_hello hello;
        struct sessions *sessions;
        int creates, kills;
        bool refuse;
        uint32_t profile;                   /* newest */
        struct monitor_principal principal; /* newest */
        uint32_t number;                    /* newest */
        struct {
                int rpc;
                bool killed;
        } sandbox[SANDBOXES]; /* by target, which is the serial */
};

static int on_request(void *data, const struct monitor_request *request, uint32_t *serial)
{
        struct world *w = data;
        uint32_t target = request->target;

        if (request->verb == MONITOR_SESSION_CREATE && !w->refuse) {
                w->profile = target;
                w->number = request->number;
                w->principal = request->principal;
                *serial = (uint32_t)++w->creates;
        } else if (request->verb == MONITOR_SESSION_KILL) {
                check(target > 0 && target < SANDBOXES);
                w->kills++;
                w->sandbox[target].killed = true;
        } else if (request->verb != MONITOR_SESSION_INTERRUPT) {
                return -EPIPE;
        }
        return 0;
}

/* Runs the loop for a time of the fake clock, a millisecond in each turn. */
static inline void spin(struct world *w, int ms)
{
        for (int i = 0; i < ms; i++) {
                event_base_loop(w->base, EVLOOP_NONBLOCK);
                fake_clock_advance_ms(1);
        }
        event_base_loop(w->base, EVLOOP_NONBLOCK);
}

static inline struct sessions_count count(const struct world *w)
{
        struct sessions_count count;

        sessions_count(w->sessions, &count);
        return count;
}

static inline size_t n_spares(const struct world *w)
{
        return count(w).spares_ready + count(w).spares_coming;
}

#define until(w, expr)                                                                             \
        do {                                                                                       \
                for (int i_ = 0; i_ < 10000 && !(expr); i_++)                                      \
                        spin(w, 1);                                                                \
                check(expr);                                                                       \
        } while (0)

/* Longer than any wait of the pool except a period, or the wait after two ends in a row. */
enum { LONG_MS = POOL_FIRST_MS + POOL_PATIENCE_MS + 50 };

static inline void open_world(struct world *w, const char *config, uint32_t sessions_max)
{
        const struct sandbox_requests requests = {w, on_request, NULL};
        struct error err = {};

        *w = (struct world){};
        fake_clock_skip_idle(true);
        w->hello = fake_hello;
        w->hello.sessions_max = sessions_max;
        for (int i = 0; i < SANDBOXES; i++)
                w->sandbox[i].rpc = -1;
        signal(SIGPIPE, SIG_IGN);
        fake_tools_reset("{\"servers\":[]}");
        w->base = event_base_new();
        w->config = fake_config(config);
        check_ok(sessions_new(&w->sessions, w->base, w->config, &w->hello, &fake_tool_provider,
                              &requests, &err));
}

static inline void close_world(struct world *w)
{
        sessions_free(w->sessions);
        for (int i = 0; i < SANDBOXES; i++)
                if (w->sandbox[i].rpc >= 0)
                        close(w->sandbox[i].rpc);
        event_base_free(w->base);
        config_free(w->config);
        buffer_done(&fake_tools.catalogue);
}

static inline void reload(struct world *w, const char *text)
{
        struct config *config = fake_config(text);

        sessions_reload(w->sessions, config, &w->hello);
        config_free(w->config);
        w->config = config;
}

static inline void expect(struct world *w, const char *profile)
{
        int i = config_find_profile(w->config, profile, NULL);

        check(i >= 0);
        sessions_expect(w->sessions, &w->config->profiles[i]);
}

/* The monitor's answer to a request. */
static inline void start(struct world *w, uint32_t serial)
{
        int pair[2], out[2], err[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        check_eq_int(pipe2(out, O_CLOEXEC), 0);
        check_eq_int(pipe2(err, O_CLOEXEC), 0);
        close(out[1]);
        close(err[1]);
        check(w->sandbox[serial].rpc < 0);
        w->sandbox[serial].rpc = pair[1];
        const int fds[SESSION_FDS] = {pair[0],
                                      out[0],
                                      err[0],
                                      -1,
                                      memfd_create("cpu", MFD_CLOEXEC),
                                      memfd_create("memory", MFD_CLOEXEC),
                                      memfd_create("memory", MFD_CLOEXEC)};
        check_eq_int(sessions_started(w->sessions, serial, serial, fds), 0);
        spin(w, 1);
}

static inline void end(struct world *w, uint32_t target)
{
        const struct monitor_ended ended = {.wait_status = SIGKILL};

        check_eq_int(sessions_ended(w->sessions, target, &ended), 0);
        spin(w, 1);
}

static inline void fail(struct world *w, uint32_t serial, int code)
{
        struct error error = {.code = code, .text = "there is no image"};

        check_eq_int(sessions_failed(w->sessions, serial, &error), 0);
        spin(w, 1);
}

static inline void begin_as(struct world *w, struct end *end, const char *name, const char *profile,
                            bool is_unnamed)
{
        const struct cell_request request = {.code = "1",
                                             .code_length = 1,
                                             .profile = profile,
                                             .profile_asked = profile != NULL,
                                             .is_unnamed = is_unnamed,
                                             .done = fake_on_done,
                                             .data = end};
        struct error err = {};
        struct cell *cell = NULL;

        memset(end, 0, sizeof(*end));
        check_ok(sessions_run(w->sessions, name, &request, &cell, &err));
        spin(w, 1);
}

static inline void begin(struct world *w, struct end *end, const char *name, const char *profile)
{
        begin_as(w, end, name, profile, false);
}

/* A cell has ended. */
static inline void answer(struct world *w, uint32_t target, uint64_t cell, const struct end *done)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_SMALL_MAX);
        static const char ok[] = "{\"status\":\"ok\"}";

        check_eq_int(frame_append(&b, FRAME_RESULT, cell, ok, strlen(ok)), 0);
        check_eq_int(write(w->sandbox[target].rpc, buffer_bytes(&b), b.length), (ssize_t)b.length);
        until(w, done->count == 1);
        check_eq_int(done->status, CELL_OK);
}

/* A new session, whose only cell has ended. */
static inline void run_one(struct world *w, const char *name, bool is_unnamed)
{
        struct end done;

        begin_as(w, &done, name, NULL, is_unnamed);
        uint32_t target = (uint32_t)w->creates;
        start(w, target);
        answer(w, target, 1, &done);
}

static inline void check_refused(struct world *w, const char *name, const char *why)
{
        int creates = w->creates, kills = w->kills;
        struct end done;

        begin(w, &done, name, NULL);
        check_eq_int(done.count, 1);
        check_has(done.why, why);
        check_eq_int(w->creates, creates);
        check_eq_int(w->kills, kills);
}

/* Whether a worker was sent something. */
static inline bool has_cell(struct world *w, uint32_t target)
{
        struct pollfd p = {w->sandbox[target].rpc, POLLIN, 0};

        return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

/* One ready, made by request 1; the very first was too early to stay. */
static inline void open_with_one(struct world *w, const char *config, uint32_t sessions_max)
{
        open_world(w, config, sessions_max);
        w->creates = EARLY - 1;
        expect(w, "default");
        until(w, w->creates == EARLY);
        start(w, EARLY);
        check_eq_int(count(w).spares_ready, 1);
        spin(w, POOL_EARLY_MS / 2);
        check_eq_int(w->creates, EARLY);
        w->creates = 0;
        until(w, w->creates == 1);
        start(w, 1);
        check(w->sandbox[EARLY].killed);
        end(w, EARLY);
        check_eq_int(count(w).spares_ready, 1);
}
