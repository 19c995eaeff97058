/* The states of an upstream server. */
#include "supervisor/hub/server/state.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"

enum {
        FREE_FAILURES = 3, /* starts in a row that may fail before there is a delay */
        DELAY_MAX_MS = 60000,
};

static const char *const state_names[] = {
        [SERVER_STOPPED] = "stopped",     [SERVER_STARTING] = "starting",
        [SERVER_HANDSHAKE] = "handshake", [SERVER_LISTING] = "listing",
        [SERVER_READY] = "ready",         [SERVER_ENDING] = "ending",
        [SERVER_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(state_names) == SERVER_STATE_MAX, "a name for each state");

void hub_server_set_state(struct hub_server *s, enum server_state state)
{
        log_debug("server %s: %s -> %s", s->config->name, state_names[s->state],
                  state_names[state]);
        s->state = state;
        s->host->changed(s->host->data);
}

void hub_server_set_deadline(struct hub_server *s, unsigned ms)
{
        struct timeval in = clock_timeval_ms(ms);

        event_add(s->deadline, &in);
}

const char *hub_server_name(void *data)
{
        return ((struct hub_server *)data)->config->name;
}

const char *hub_server_unusable(const struct hub_server *s)
{
        if (s->config->problem)
                return s->config->problem;
        if (s->config->disabled)
                return "disabled in the config";
        return NULL;
}

bool hub_server_is_starting(const struct hub_server *s)
{
        return s->state == SERVER_STARTING || s->state == SERVER_HANDSHAKE ||
               s->state == SERVER_LISTING;
}

/* The process, or one of its pipes, has ended: only the rest of its output is awaited. */
bool hub_server_is_ending(const struct hub_server *s)
{
        return connection_is_open(s->connection) &&
               (s->has_ended || !connection_has_input(s->connection) ||
                !connection_has_output(s->connection));
}

/* The line of stderr that best explains a failure, as the end of a message; or "". */
static void describe_stderr(struct hub_server *s, char *to, size_t size)
{
        const char *line = connection_last_stderr(s->connection);

        if (line[0])
                snprintf(to, size, "; its stderr says: %s", line);
        else
                to[0] = '\0';
}

/* Forgets the process; the monitor ends it, and what it then reports is ignored. */
void hub_server_release(struct hub_server *s)
{
        event_del(s->deadline);
        listing_stop(s->listing);
        handshake_stop(s->handshake);
        questions_withdraw_all(&s->questions);
        if (s->roots_due)
                event_free(s->roots_due);
        s->roots_due = NULL;
        s->log_level = 0;
        connection_close(s->connection);
        if (s->has_instance && !s->has_ended)
                s->host->owner->stop(s->host->owner->data, s->instance);
        s->has_instance = false;
}

static unsigned retry_delay_ms(unsigned failures)
{
        if (failures < FREE_FAILURES)
                return 0;
        unsigned shift = failures - FREE_FAILURES;
        return shift >= 6 ? DELAY_MAX_MS : 1000U << shift;
}

void hub_server_fail(struct hub_server *s, const struct error *err)
{
        char message[sizeof(err->text)];

        s->error = *err;
        s->failures++;
        s->failed_at = clock_us();
        s->retry_at = s->failed_at + retry_delay_ms(s->failures) * 1000ULL;
        log_warning("server %s: %s", s->config->name, s->error.text);
        hub_server_release(s);
        hub_server_set_state(s, SERVER_FAILED);
        snprintf(message, sizeof(message), "server \"%s\": %s", s->config->name, s->error.text);
        hub_calls_fail_sent(s->calls, message);
        hub_calls_fail_waiting(s->calls, message);
}

void hub_server_failf(struct hub_server *s, const char *format, ...)
{
        struct error err = {};
        char what[sizeof(err.text)], last_line[320];
        va_list args;

        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        describe_stderr(s, last_line, sizeof(last_line));
        error_set(&err, EIO, "%s%s", what, last_line);
        hub_server_fail(s, &err);
}

/* How it ended, as a predicate. */
static void describe_end(const struct hub_server *s, char *to, size_t size)
{
        int status = s->wait_status;

        if (!s->has_ended)
                snprintf(to, size, "closed its %s",
                         connection_has_output(s->connection) ? "input" : "output");
        else if (WIFSIGNALED(status))
                snprintf(to, size, "was killed by SIG%s", sigabbrev_np(WTERMSIG(status)) ?: "?");
        else
                snprintf(to, size, "ended with exit status %d", WEXITSTATUS(status));
}

static unsigned start_ms(const struct hub_server *s)
{
        return s->config->start_timeout_ms ? s->config->start_timeout_ms : SERVER_START_MS;
}

/* The config's timeout is for all until the tools are known. */
static unsigned list_ms(const struct hub_server *s)
{
        return s->config->start_timeout_ms ? s->config->start_timeout_ms : SERVER_LIST_MS;
}

void hub_server_set_start_deadline(struct hub_server *s)
{
        uint64_t now = clock_us();

        hub_server_set_deadline(s, s->start_by > now ? (unsigned)((s->start_by - now) / 1000) : 0);
}

/* Asks the monitor; start_by is set. */
static void ask_monitor(struct hub_server *s)
{
        s->error = (struct error){};
        s->has_ended = false;
        hub_server_set_state(s, SERVER_STARTING);
        hub_server_set_start_deadline(s);
        s->host->owner->start(s->host->owner->data, s->index);
}

void hub_server_start(struct hub_server *s)
{
        assert(s->state == SERVER_STOPPED || s->state == SERVER_FAILED);
        s->start_by = clock_us() + start_ms(s) * 1000ULL;
        ask_monitor(s);
}

/* Ends the process, which is of no use because of what it did (why: a predicate), and asks for
 * another. The deadline of the start stays, and the calls wait. */
void hub_server_restart(struct hub_server *s, const char *why)
{
        log_info("server %s: %s; it is started again", s->config->name, why);
        hub_server_release(s);
        ask_monitor(s);
}

/* All its output was read, or awaited long enough. */
void hub_server_conclude(struct hub_server *s)
{
        char how[64], last_line[320], message[sizeof(s->error.text)];

        describe_end(s, how, sizeof(how));
        if (handshake_ended(s->handshake)) {
                hub_server_restart(s, how);
                return;
        }
        if (hub_server_is_starting(s)) {
                hub_server_failf(s, "%s while it was starting", how);
                return;
        }
        describe_stderr(s, last_line, sizeof(last_line));
        log_warning("server %s: %s; it is started again when it is needed%s", s->config->name, how,
                    last_line);
        snprintf(message, sizeof(message), "server \"%s\" %s during the call%s", s->config->name,
                 how, last_line);
        hub_server_release(s);
        hub_server_set_state(s, SERVER_STOPPED);
        hub_calls_fail_sent(s->calls, message);
        if (!TAILQ_EMPTY(&s->calls->waiting))
                hub_server_start(s);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;

        if (hub_server_is_ending(s)) {
                hub_server_conclude(s);
        } else if (s->state == SERVER_LISTING) {
                hub_server_failf(s, "did not list its tools within %g s", list_ms(s) / 1000.0);
        } else if (hub_server_is_starting(s)) {
                const char *awaited = handshake_awaits(s->handshake);
                handshake_expired(s->handshake);
                hub_server_failf(s, "did not answer %s within %g s", awaited, start_ms(s) / 1000.0);
        } else {
                listing_expired(s->listing);
        }
}

/* No answer is awaited any more. */
void hub_server_clear_deadline(struct hub_server *s)
{
        /* A server that is ending needs its deadline. */
        if (!hub_server_is_ending(s))
                event_del(s->deadline);
}

int hub_server_add_deadline(struct hub_server *s)
{
        s->deadline = evtimer_new(s->host->base, on_deadline, s);
        return s->deadline ? 0 : -ENOMEM;
}
