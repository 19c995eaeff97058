/* One server of the user's: its states, from the wish to its end. */
#include "supervisor/hub/server.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/hub/catalogue-cache.h"
#include "supervisor/hub/hub-internal.h"

static const char *const state_names[] = {
        [SERVER_STOPPED] = "stopped", [SERVER_STARTING] = "starting",
        [SERVER_PROBING] = "probing", [SERVER_INITIALIZING] = "initializing",
        [SERVER_LISTING] = "listing", [SERVER_READY] = "ready",
        [SERVER_ENDING] = "ending",   [SERVER_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(state_names) == SERVER_STATE_MAX, "a name a state");

const char *server_state_name(enum server_state state)
{
        return state < SERVER_STATE_MAX ? state_names[state] : "?";
}

static void set_state(struct hub_server *s, enum server_state state)
{
        log_debug("server %s: %s -> %s", s->config->name, server_state_name(s->state),
                  server_state_name(state));
        s->state = state;
        hub_touch(s->hub);
}

static void set_deadline(struct hub_server *s, unsigned ms)
{
        struct timeval in = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};

        event_add(&s->deadline, &in);
}

const char *hub_server_unusable(const struct hub_server *s)
{
        if (s->config->problem)
                return s->config->problem;
        if (s->config->disabled)
                return "disabled in the config";
        if (!s->config->command)
                return "reached by url, which is not supported yet; give a command instead";
        return NULL;
}

bool hub_server_is_starting(const struct hub_server *s)
{
        return s->state == SERVER_STARTING || s->state == SERVER_PROBING ||
               s->state == SERVER_INITIALIZING || s->state == SERVER_LISTING;
}

bool hub_server_is_over(const struct hub_server *s)
{
        return s->has_events && (s->has_ended || s->fds[0] < 0 || s->fds[1] < 0);
}

/* What it wrote on stderr at last, as the end of a message; "" when there is nothing. */
static void last_words(struct hub_server *s, char *to, size_t size)
{
        hub_server_drain_log(s);
        if (s->last_words[0])
                snprintf(to, size, "; its stderr says: %s", s->last_words);
        else
                to[0] = '\0';
}

/* The monitor need not run it any more; its end is then nothing to us. */
static void let_go(struct hub_server *s)
{
        event_del(&s->deadline);
        event_del(&s->relist);
        hub_server_list_drop(s);
        hub_handshake_drop(s);
        hub_server_close(s);
        s->request_id = 0;
        if (s->has_instance && !s->has_ended)
                s->hub->host.stop(s->hub->host.data, s->instance);
        s->has_instance = false;
}

static unsigned retry_delay_ms(unsigned failures)
{
        if (failures < HUB_FREE_FAILURES)
                return 0;
        unsigned shift = failures - HUB_FREE_FAILURES;
        return shift >= 6 ? HUB_DELAY_MAX_MS : 1000U << shift;
}

void hub_server_fail(struct hub_server *s, const struct error *err)
{
        char message[sizeof(err->text)];

        s->error = *err;
        s->failures++;
        s->failed_at = clock_us();
        s->retry_at = s->failed_at + retry_delay_ms(s->failures) * 1000ULL;
        log_warning("server %s: %s", s->config->name, s->error.text);
        let_go(s);
        set_state(s, SERVER_FAILED);
        snprintf(message, sizeof(message), "server \"%s\": %s", s->config->name, s->error.text);
        hub_call_fail_sent(s, message);
        hub_call_fail_waiting(s, message);
}

void hub_server_failf(struct hub_server *s, const char *format, ...)
{
        struct error err = {};
        char what[sizeof(err.text)], words[320];
        va_list args;

        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        last_words(s, words, sizeof(words));
        error_set(&err, EIO, "%s%s", what, words);
        hub_server_fail(s, &err);
}

/* Says how it ended, as a predicate. */
static void describe_end(const struct hub_server *s, char *to, size_t size)
{
        int status = s->wait_status;

        if (!s->has_ended)
                snprintf(to, size, "closed its %s", s->fds[1] < 0 ? "output" : "input");
        else if (WIFSIGNALED(status))
                snprintf(to, size, "was killed by SIG%s", sigabbrev_np(WTERMSIG(status)) ?: "?");
        else
                snprintf(to, size, "ended with exit status %d", WEXITSTATUS(status));
}

/* All that it wrote has been read, or was awaited long enough. */
static void conclude(struct hub_server *s)
{
        char how[64], words[320], message[sizeof(s->error.text)];

        describe_end(s, how, sizeof(how));
        if (hub_handshake_ended(s)) {
                hub_server_restart(s, how);
                return;
        }
        if (hub_server_is_starting(s)) {
                hub_server_failf(s, "%s while it was starting", how);
                return;
        }
        last_words(s, words, sizeof(words));
        log_warning("server %s: %s; it is started again when it is needed%s", s->config->name, how,
                    words);
        snprintf(message, sizeof(message), "server \"%s\" %s during the call%s", s->config->name,
                 how, words);
        let_go(s);
        set_state(s, SERVER_STOPPED);
        hub_call_fail_sent(s, message);
        if (!TAILQ_EMPTY(&s->waiting))
                hub_server_start(s);
}

static unsigned start_ms(const struct hub_server *s)
{
        return s->config->start_timeout_ms ? s->config->start_timeout_ms : HUB_START_MS;
}

/* A time that the config gives is for all until the tools are known. */
static unsigned list_ms(const struct hub_server *s)
{
        return s->config->start_timeout_ms ? s->config->start_timeout_ms : HUB_LIST_MS;
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;

        (void)fd;
        (void)what;
        if (hub_server_is_over(s)) {
                conclude(s);
        } else if (s->state == SERVER_LISTING) {
                hub_server_failf(s, "did not list its tools within %g s", list_ms(s) / 1000.0);
        } else if (hub_server_is_starting(s)) {
                hub_handshake_expired(s);
                hub_server_failf(s, "did not answer %s within %g s",
                                 s->state == SERVER_PROBING ? "server/discover" : "initialize",
                                 start_ms(s) / 1000.0);
        } else {
                hub_server_list_expired(s);
        }
}

void hub_server_cut(struct hub_server *s)
{
        if (s->has_ended) {
                conclude(s);
                return;
        }
        if (s->state == SERVER_READY)
                set_state(s, SERVER_ENDING);
        /* Its exit status will say more; a server that goes on with closed pipes is of no use. */
        set_deadline(s, HUB_END_MS);
}

void hub_server_ended(struct hub_server *s, int wait_status)
{
        s->has_ended = true;
        s->wait_status = wait_status;
        if (s->fds[1] < 0) {
                conclude(s);
                return;
        }
        /* Answers that it wrote before its end may still be in the pipe. */
        if (s->state == SERVER_READY)
                set_state(s, SERVER_ENDING);
        set_deadline(s, HUB_DRAIN_MS);
}

static void set_start_deadline(struct hub_server *s)
{
        uint64_t now = clock_us();

        set_deadline(s, s->start_by > now ? (unsigned)((s->start_by - now) / 1000) : 0);
}

/* Asks the monitor; the time it may take runs already. */
static void ask_for_it(struct hub_server *s)
{
        s->error = (struct error){};
        s->has_ended = false;
        s->last_words[0] = '\0';
        s->last_words_tell = false;
        set_state(s, SERVER_STARTING);
        set_start_deadline(s);
        s->hub->host.start(s->hub->host.data, s->index);
}

void hub_server_start(struct hub_server *s)
{
        assert(s->state == SERVER_STOPPED || s->state == SERVER_FAILED);
        s->start_by = clock_us() + start_ms(s) * 1000ULL;
        ask_for_it(s);
}

void hub_server_restart(struct hub_server *s, const char *why)
{
        log_info("server %s: %s; it is started again", s->config->name, why);
        let_go(s);
        ask_for_it(s);
}

void hub_server_ask_again(struct hub_server *s)
{
        if (s->state == SERVER_STARTING)
                s->hub->host.start(s->hub->host.data, s->index);
}

bool hub_server_started(struct hub_server *s, uint32_t instance, const int fds[3])
{
        /* It may come when the deadline has passed, or a second time after a second wish. */
        if (s->state != SERVER_STARTING)
                return false;
        s->instance = instance;
        s->has_instance = true;
        s->last_id = 0;
        hub_server_open(s, fds);
        set_state(s, SERVER_PROBING);
        hub_handshake_begin(s);
        return true;
}

void hub_server_initializing(struct hub_server *s)
{
        set_state(s, SERVER_INITIALIZING);
}

void hub_server_no_deadline(struct hub_server *s)
{
        /* When it is over, the deadline is for what is left of it. */
        if (!hub_server_is_over(s))
                event_del(&s->deadline);
}

void hub_server_listing(struct hub_server *s)
{
        bool first = s->state == SERVER_INITIALIZING || s->state == SERVER_PROBING;

        if (first)
                set_state(s, SERVER_LISTING);
        if (hub_server_is_over(s))
                return;
        if (first && s->config->start_timeout_ms)
                set_start_deadline(s);
        else
                set_deadline(s, HUB_LIST_MS);
}

void hub_server_ready(struct hub_server *s)
{
        /* One that is over meanwhile is not ready: else a server that ends right after its list
         * would be started for the same waiting call again and again. */
        if (hub_server_is_over(s))
                return;
        s->failures = 0;
        set_state(s, SERVER_READY);
        log_info("server %s: ready, %zu tools, %s", s->config->name, hub_tools_count(s->tools),
                 hub_era_name(s->speaks));
        hub_call_send_waiting(s);
}

static void take_from_cache(struct hub_server *s)
{
        struct hub_cache_entry entry = {};

        if (hub_cache_load(s->hub->cache_dir, s->config->key, s->config->name, &entry) != 1)
                return;
        s->tools = entry.tools;
        s->instructions = entry.instructions;
        s->era = entry.era;
}

struct hub_server *hub_server_new(struct hub *hub, uint32_t index,
                                  const struct config_server *config)
{
        const uint64_t second = 1000000;
        struct hub_server *s = malloc(sizeof(*s));

        if (!s)
                return NULL;
        *s = (struct hub_server){
                .hub = hub,
                .config = config,
                .index = index,
                .fds = {-1, -1, -1},
                .junk_lines = {.window_us = HUB_PAUSE_MS * 1000, .most = 2000},
                .junk_bytes = {.window_us = HUB_PAUSE_MS * 1000, .most = 4 * 1024 * 1024},
                .log_bytes = {.window_us = HUB_PAUSE_MS * 1000, .most = 4 * 1024 * 1024},
                .log_rate = {.window_us = second, .most = 100},
                .warn_rate = {.window_us = 60 * second, .most = 10},
        };
        evtimer_assign(&s->deadline, hub->base, on_deadline, s);
        hub_server_assign(s);
        TAILQ_INIT(&s->waiting);
        for (size_t i = 0; i < CALL_BUCKETS; i++)
                TAILQ_INIT(&s->sent[i]);
        if (!hub_server_unusable(s))
                take_from_cache(s);
        return s;
}

struct hub_server *hub_server_free(struct hub_server *s)
{
        hub_call_free_all(&s->waiting);
        for (size_t i = 0; i < CALL_BUCKETS; i++)
                hub_call_free_all(&s->sent[i]);
        event_del(&s->deadline);
        event_del(&s->relist);
        hub_server_list_drop(s);
        hub_handshake_drop(s);
        hub_server_close(s);
        hub_tools_free(s->tools);
        free(s->instructions);
        free(s);
        return NULL;
}

void hub_server_retire(struct hub_server *s, const char *why)
{
        char message[sizeof(s->error.text)];

        snprintf(message, sizeof(message), "server \"%s\" %s", s->config->name, why);
        let_go(s);
        hub_call_fail_sent(s, message);
        hub_call_fail_waiting(s, message);
        hub_server_free(s);
}
