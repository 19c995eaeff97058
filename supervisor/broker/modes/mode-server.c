/* The MCP server of the modes `mcp` and `serve`. */
#include "supervisor/broker/modes/mode-server.h"
#include "supervisor/broker/tool-provider.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "cloister-config.h"
#include "policy/config/node-keys.h"
#include "supervisor/broker/link.h"
#include "supervisor/broker/modes/collect.h"
#include "supervisor/broker/reader.h"
#include "supervisor/broker/writer.h"
#include "supervisor/mcp/call/ask.h"
#include "supervisor/mcp/peer.h"
#include "supervisor/mcp/server.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/service/drain.h"
#include "supervisor/service/event.h"
#include "supervisor/service/lease.h"
#include "supervisor/service/liveness.h"
#include "supervisor/service/metrics.h"
#include "supervisor/service/node.h"
#include "supervisor/service/phase.h"
#if HAVE_SERVE
#include "supervisor/http/server.h"
#include "supervisor/session/sessions-owner.h"
#endif

enum {
        ATTESTATION_MAX = 4 * 1024 * 1024,
        LINE_MAX_BYTES = LINES_MAX + 1024 * 1024, /* code of 16 MiB, escaped, and its envelope */
        LAST_FLUSH_MS = 100,
        TRY_MS = 1000, /* between two sandboxes that are tried at the start, doubled each time */
        TRY_MAX_MS = 32000,
        TRY_TIMEOUT_MS = 30000,
        TRIED_MS = 5, /* until the state of its session is read again */
};

struct mode_server {
        struct broker *broker;
        struct mcp_server *mcp;
        char *attestation; /* what clients can read as cloister://attestation; NULL: there is none */
        size_t attestation_length;

        struct mcp_sink sink; /* mcp: standard output */
        struct writer out;
        struct reader in;
        struct mcp_peer *peer;

        struct http_server *http; /* serve */
        struct drain *drain;
        struct event *again; /* a sandbox is tried, or NULL */
        uint32_t try_ms;     /* until the next one */
        bool is_tried;       /* it has answered, and is ending */
};

static int read_attestation(struct mode_server *mode, int fd, struct error *err)
{
        if (fd < 0)
                return 0;
        int r = fd_read_whole(fd, ATTESTATION_MAX, &mode->attestation, &mode->attestation_length,
                              err);
        close(fd);
        return r < 0 ? error_context(err, "read the attestation") : 0;
}

static int start(struct broker *broker, const char *name, struct error *err)
{
        const struct tool_provider tools = tool_parts_provider(&broker->tool_parts);
        struct mode_server *mode = calloc(1, sizeof(*mode));

        if (!mode)
                return error_errno(err, ENOMEM, "%s", name);
        mode->broker = broker;
        broker->data = mode;
        int r = read_attestation(mode, broker->options.attestation_fd, err);
        if (r < 0)
                return r;
        const struct mcp_host host = {
                .profile = broker->options.profile,
                .attestation = mode->attestation,
                .attestation_length = mode->attestation_length,
        };
        return mcp_server_new(&mode->mcp, broker->base, broker->config, &tools, broker->sessions,
                              &host, err);
}

static void stop(struct broker *broker)
{
        struct mode_server *mode = broker->data;

        subscriptions_close(mode->mcp);
        writer_flush(&mode->out, LAST_FLUSH_MS);
}

static void catalogue_changed(struct broker *broker)
{
        const struct mode_server *mode = broker->data;

        mcp_server_catalogue_changed(mode->mcp);
}

static void page_done(struct broker *broker, const char *server, const char *principal,
                      const char *id, size_t n)
{
        const struct mode_server *mode = broker->data;

        notified_page_done(mode->mcp, server, principal, id, n);
}

static void config_changed(struct broker *broker, const struct config *config)
{
        const struct mode_server *mode = broker->data;

        mcp_server_set_config(mode->mcp, config);
        metrics_show_principals(config->metrics_principals);
        metrics_add(METRIC_RELOADS, 1, "config");
#if HAVE_SERVE
        if (mode->http)
                http_server_restrict(mode->http);
#endif
}

static void mode_free(struct broker *broker)
{
        struct mode_server *mode = broker->data;

        if (!mode)
                return;
        liveness_stop();
        drain_free(mode->drain);
        loop_event_free(&mode->again);
        if (mode->mcp)
                mcp_server_drop_calls(mode->mcp);
        mcp_peer_free(mode->peer);
#if HAVE_SERVE
        http_server_free(mode->http);
#endif
        mcp_server_free(mode->mcp);
        free(mode->attestation);
        writer_close(&mode->out);
        reader_close(&mode->in);
        free(mode);
}

/* ---- standard input and output ---- */

/* While the client does not read, nothing is read from it, so that memory does not grow. */
static void balance(struct mode_server *mode)
{
        reader_pause(&mode->in, writer_is_full(&mode->out));
}

static struct mode_server *mode_of(const struct mcp_sink *sink)
{
        return (struct mode_server *)((char *)(uintptr_t)sink - offsetof(struct mode_server, sink));
}

static void send_message(struct mcp_sink *sink, const struct mcp_message *message)
{
        struct mode_server *mode = mode_of(sink);

        writer_write(&mode->out, message->bytes, message->n);
        balance(mode);
}

static bool is_congested(const struct mcp_sink *sink)
{
        return writer_is_full(&mode_of(sink)->out);
}

static const struct mcp_sink_calls sink_calls = {.send = send_message, .congested = is_congested};

static void on_line(void *data, const char *line, size_t n)
{
        struct mode_server *mode = data;

        mcp_peer_line(mode->peer, &mode->sink, line, n);
}

static void on_parsed(void *data, struct large_line *line)
{
        struct mode_server *mode = data;

        mcp_peer_parsed(mode->peer, &mode->sink, &line->message, line->r, &line->err);
}

static void on_too_long(void *data, size_t most)
{
        struct mode_server *mode = data;

        mcp_peer_too_long(mode->peer, &mode->sink, most);
}

static void on_ended(void *data)
{
        struct broker *broker = ((struct mode_server *)data)->broker;

        broker_end(broker, broker->no_sandbox ? EXIT_NO_SANDBOX : 0);
}

static void on_drained(void *data)
{
        balance(data);
}

static void on_broken(void *data, int code)
{
        const struct mode_server *mode = data;

        if (code == ENOBUFS)
                log_error(
                        "standard output: the client does not read, and %d MiB wait for it: the server ends",
                        WRITER_MAX / (1024 * 1024));
        else if (code != EPIPE && code != ECONNRESET)
                log_error("standard output: %s", strerror(code));
        broker_end(mode->broker, code == EPIPE || code == ECONNRESET ? 0 : 1);
}

static int start_mcp(struct broker *broker, struct error *err)
{
        int r = start(broker, "mcp", err);
        struct mode_server *mode = broker->data;

        if (r < 0)
                return r;
        mode->sink = (struct mcp_sink){&sink_calls, 1};
        r = mcp_peer_new(&mode->peer, mode->mcp, NULL, &mode->sink, err);
        if (r >= 0)
                r = writer_open(&mode->out, broker->base, STDOUT_FILENO,
                                &(struct writer_owner){mode, on_drained, on_broken}, err);
        if (r >= 0)
                r = reader_open(
                        &mode->in, broker->base, STDIN_FILENO, LINE_MAX_BYTES,
                        &(struct reader_owner){mode, on_line, on_parsed, on_too_long, on_ended},
                        err);
        return r;
}

static int ask(struct broker *broker, struct client_ask *client_ask, struct error *err)
{
        const struct mode_server *mode = broker->data;

        return mcp_ask_peer(mode->peer, client_ask, err);
}

const struct broker_mode broker_mode_mcp = {
        .start = start_mcp,
        .stop = stop,
        .catalogue_changed = catalogue_changed,
        .config_changed = config_changed,
        .ask = ask,
        .page_done = page_done,
        .free = mode_free,
};

/* ---- HTTP ---- */

#if HAVE_SERVE

static_assert((int)OPTION_LISTEN_MAX == (int)HTTP_LISTENERS_MAX, "one limit");

static void on_failed(void *data)
{
        broker_end(data, 1);
}

static int ping_monitor(void *data)
{
        const struct broker *broker = data;

        return link_request(broker->link, &(struct monitor_request){.verb = MONITOR_PING}, NULL);
}

/* ---- draining ---- */

static bool has_sessions(void *data)
{
        const struct broker *broker = data;
        struct sessions_count count;

        sessions_count(broker->sessions, &count);
        return count.live > 0;
}

static void stop_listening(void *data)
{
        const struct mode_server *mode = ((struct broker *)data)->data;

        http_server_stop(mode->http);
}

static bool has_calls(void *data)
{
        const struct broker *broker = data;
        const struct mode_server *mode = broker->data;

        return mcp_server_has_calls(mode->mcp) || sessions_pending(broker->sessions) > 0;
}

static bool has_results(void *data, uint64_t since_us)
{
        const struct mode_server *mode = ((struct broker *)data)->data;

        return mcp_server_has_results(mode->mcp, since_us);
}

static void cancel_calls(void *data)
{
        const struct broker *broker = data;

        sessions_interrupt(broker->sessions, "the server is stopping");
}

static void close_streams(void *data)
{
        const struct mode_server *mode = ((struct broker *)data)->data;

        subscriptions_close(mode->mcp);
        http_server_close(mode->http);
}

static bool has_answers(void *data)
{
        const struct mode_server *mode = ((struct broker *)data)->data;

        return http_server_has_answers(mode->http);
}

/* The monitor tells of SIGTERM itself, but not of the end of a drain. */
static void on_phase(void *data, bool stopping, uint64_t left_ms)
{
        uint64_t s = left_ms / 1000 + (left_ms % 1000 > 0);

        if (service_phase() == SERVICE_READY)
                broker_ask_monitor(data, MONITOR_SERVICE_READY, 0);
        else if (!stopping)
                broker_ask_monitor(data, MONITOR_SERVICE_DRAINING,
                                   s < INT32_MAX ? (uint32_t)s : INT32_MAX);
}

static void on_drain_phase(void *data, bool stopping, uint64_t left_ms)
{
        const struct broker *broker = data;
        bool is_cancelled = service_phase() == SERVICE_READY;
        struct sessions_count count;

        sessions_count(broker->sessions, &count);
        event_drain(&(struct event_drain){
                .phase = is_cancelled ? "cancel"
                         : stopping   ? "stop"
                                      : "begin",
                .deadline_ms = left_ms,
                .sessions = count.live,
                .cells = sessions_pending(broker->sessions),
                .why = is_cancelled ? "new sessions are taken again"
                       : stopping   ? "no call begins any more"
                                    : "no session begins any more",
        });
        on_phase(data, stopping, left_ms);
}

static void on_drain_end(void *data, bool whole)
{
        const struct broker *broker = data;

        event_drain(&(struct event_drain){
                .phase = "end", .why = whole ? "every call was answered" : "calls were cut off"});
        broker_end(data, whole && sessions_killed(broker->sessions) == 0 ? 0 : 1);
}

static const struct drain_actions drain_actions = {
        .has_sessions = has_sessions,
        .stop = stop_listening,
        .has_calls = has_calls,
        .has_results = has_results,
        .cancel = cancel_calls,
        .close = close_streams,
        .has_answers = has_answers,
        .changed = on_drain_phase,
        .ended = on_drain_end,
};

static void terminated(struct broker *broker)
{
        const struct mode_server *mode = broker->data;

        if (mode->drain)
                drain_stop(mode->drain, broker->config->drain_timeout_ms);
        else
                broker_end(broker, 0);
}

static int drain(struct broker *broker, uint64_t deadline_ms, struct error *err)
{
        const struct mode_server *mode = broker->data;

        return drain_wait(mode->drain, deadline_ms, broker->config->drain_timeout_ms, err);
}

static int undo_drain(struct broker *broker, struct error *err)
{
        const struct mode_server *mode = broker->data;

        return drain_undo(mode->drain, err);
}

/* ---- the first sandbox ---- */

static const char first_session[] = "cloister-start";

static void on_tried(void *data, struct cell *cell)
{
        struct broker *broker = data;
        struct mode_server *mode = broker->data;

        mode->is_tried = cell->outcome.status == CELL_OK;
        const struct timeval later = clock_timeval_ms(mode->is_tried ? TRIED_MS : mode->try_ms);
        if (!mode->is_tried) {
                log_error("no sandbox has answered yet: %s; trying again in %u s",
                          cell->outcome.why, mode->try_ms / 1000);
                mode->try_ms = 2 * mode->try_ms < TRY_MAX_MS ? 2 * mode->try_ms : TRY_MAX_MS;
        }
        if (service_phase() == SERVICE_STARTING)
                evtimer_add(mode->again, &later);
}

/* Its sandbox has left its place to the clients. */
static void wait_for_its_end(struct broker *broker)
{
        const struct mode_server *mode = broker->data;
        const struct timeval later = clock_timeval_ms(TRIED_MS);

        if (sessions_is_live(broker->sessions, first_session)) {
                evtimer_add(mode->again, &later);
        } else if (service_phase() == SERVICE_STARTING) {
                service_set_ready();
                on_phase(broker, false, 0);
        }
}

static void on_try(evutil_socket_t fd, short what, void *data)
{
        static const char code[] = "1";
        struct broker *broker = data;
        struct mode_server *mode = broker->data;
        const struct timeval later = clock_timeval_ms(mode->try_ms);
        const struct cell_request request = {
                .code = code,
                .code_length = sizeof(code) - 1,
                .language = LANGUAGE_MAX,
                .timeout_ms = TRY_TIMEOUT_MS,
                .is_single = true,
                .done = on_tried,
                .data = broker,
        };
        struct error err = {};
        struct cell *cell;

        if (mode->is_tried) {
                wait_for_its_end(broker);
                return;
        }
        if (sessions_run(broker->sessions, first_session, &request, &cell, &err) >= 0)
                return;
        log_error("no sandbox could be tried: %s", err.text);
        evtimer_add(mode->again, &later);
}

/* A service manager waits until a sandbox has answered: on a machine that can make no sandbox, every call would fail. */
static int try_sandbox(struct broker *broker, struct error *err)
{
        struct mode_server *mode = broker->data;

        if (!broker->options.probe) {
                service_set_ready();
                return broker_ask_monitor(broker, MONITOR_SERVICE_READY, 0);
        }
        mode->try_ms = TRY_MS;
        mode->again = evtimer_new(broker->base, on_try, broker);
        if (!mode->again)
                return error_set(err, ENOMEM, "event");
        event_active(mode->again, EV_TIMEOUT, 0);
        return 0;
}

/* ---- tokens ---- */

static void on_tokens_checked(void *data, const struct error *error)
{
        reload_checked(((struct broker *)data)->reload, error);
}

static void check_tokens(struct broker *broker)
{
        const struct mode_server *mode = broker->data;

        http_server_check_tokens(mode->http, on_tokens_checked, broker);
}

static void take_tokens(struct broker *broker, bool use)
{
        const struct mode_server *mode = broker->data;

        http_server_take_tokens(mode->http, use);
}

/* Its name and its balancers are those of the config that the server was started with. */
static void start_node(const struct broker *broker)
{
        const struct config_node *node = &broker->config->node;
        struct network_rule rules[CONFIG_BALANCERS_MAX];
        size_t n = 0;

        if (!broker->options.node_name)
                return;
        node_set_name(broker->options.node_name);
        log_set_node(node_name());
        while (node->balancers && node->balancers[n] &&
               config_balancer_parse(node->balancers[n], &rules[n]))
                n++;
        lease_start(rules, n, node->lease_ms);
}

static int start_serve(struct broker *broker, struct error *err)
{
        const struct options *o = &broker->options;
        _cleanup_free_ char *tokens = NULL;
        struct http_options options = {
                .n_fds = o->n_listen_fds,
                .hosts = o->hosts,
                .n_hosts = o->n_hosts,
                .origins = o->origins,
                .n_origins = o->n_origins,
                .profile = o->profile,
                .passed = o->passed,
                .helper = o->helper_fd,
                .admin_fd = o->admin_fd,
                .admin_view = o->admin_view,
                .collect = collect_metrics,
                .failed = on_failed,
                .data = broker,
        };

        collect_begin();
        metrics_show_principals(broker->config->metrics_principals);
        start_node(broker);
        int r = start(broker, "serve", err);
        if (r < 0)
                return r;
        struct mode_server *mode = broker->data;
        for (size_t i = 0; i < o->n_listen_fds; i++)
                options.fds[i] = o->listen_fds[i];
        if (o->tokens_fd >= 0) {
                r = fd_read_whole(o->tokens_fd, ACCESS_FILE_MAX, &tokens, &options.tokens_length,
                                  err);
                close(o->tokens_fd);
        }
        options.tokens = tokens;
        if (r >= 0)
                r = http_server_new(&mode->http, broker->base, mode->mcp, &options, err);
        if (r >= 0 && liveness_start(broker->base, o->watchdog_ms, ping_monitor, broker) < 0)
                r = error_errno(err, ENOMEM, "timer");
        if (tokens)
                explicit_bzero(tokens, options.tokens_length);
        if (r >= 0)
                r = drain_new(&mode->drain, broker->base, &drain_actions, broker, err);
        if (r >= 0 && o->serving)
                fputs(o->serving, stderr);
        if (r >= 0)
                return try_sandbox(broker, err);
        return r < 0 && o->tokens_fd >= 0 ? error_context(err, "the file of tokens") : r;
}

#else

static int start_serve(struct broker *broker, struct error *err)
{
        return error_set(err, ENOSYS,
                         "serve: this Cloister was built without it (-Dhttp=disabled)");
}

#endif

const struct broker_mode broker_mode_serve = {
        .start = start_serve,
        .stop = stop,
#if HAVE_SERVE
        .terminated = terminated,
        .check_tokens = check_tokens,
        .take_tokens = take_tokens,
        .drain = drain,
        .undo_drain = undo_drain,
#endif
        .catalogue_changed = catalogue_changed,
        .config_changed = config_changed,
        .page_done = page_done,
        .free = mode_free,
};
