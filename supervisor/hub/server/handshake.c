/*
 * The era of MCP that a server speaks.
 *
 * Theory of operation
 *
 * A server of unknown era is sent server/discover first. A modern server answers with what it
 * supports. A legacy server does one of these:
 *
 *  - It answers that there is no such method: it is sent initialize on the same pipe.
 *  - It does not answer: it is sent initialize HANDSHAKE_PROBE_MS later, and an answer to
 *    server/discover that comes later still counts (npx may have had to download the server).
 *  - It ends because of the unknown request, or refuses to initialize after it (supergateway takes
 *    the request for the initialization): it is started again and sent initialize only.
 *
 * The era is kept in the cache with the tools, so that a legacy server is not probed again. When the
 * cached era proves wrong, the next attempt probes.
 */
#include "supervisor/hub/server/handshake.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "rpc/client-request.h"

/* Error codes of MCP 2026-07-28: a server that sends one speaks it. */
enum {
        HEADER_MISMATCH = -32020,
        MISSING_CLIENT_CAPABILITY = -32021,
        UNSUPPORTED_PROTOCOL_VERSION = -32022,
};

static const char modern[] = "2026-07-28";
/* The revisions that begin with initialize. */
static const char *const revisions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

enum { INITIALIZE_MAX = 1024 };

static void set_speaks(struct handshake *h, enum hub_era era)
{
        h->speaks = era;
        connection_set_modern(h->connection, era == HUB_ERA_MODERN);
}

static void fail(struct handshake *h, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
static void fail(struct handshake *h, const char *format, ...)
{
        char why[400];
        va_list args;

        va_start(args, format);
        vsnprintf(why, sizeof(why), format, args);
        va_end(args);
        h->host->failed(h->data, why);
}

/* Returns the id, or 0 when it cannot be sent: the deadline of the start will pass then. */
static int64_t request(struct handshake *h, const char *method, const char *params)
{
        int64_t id = connection_request(h->connection, method, params, strlen(params));

        return id < 0 ? 0 : id;
}

static void send_initialize(struct handshake *h, const char *revision)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(INITIALIZE_MAX);
        struct json_out out = {.to = &params};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "protocolVersion", revision);
        json_out_begin(&out, "capabilities", '{');
        client_can_put(&out, h->host->can(h->data));
        json_out_end(&out, '}');
        connection_put_client(&out, "clientInfo");
        json_out_end(&out, '}');
        int r = out.error < 0 ? out.error : buffer_append(&params, "", 1);
        h->phase = PHASE_INITIALIZING;
        h->asked = revision;
        h->initialize_id = r < 0 ? 0 : request(h, "initialize", buffer_bytes(&params));
}

void handshake_begin(struct handshake *h)
{
        const struct timeval in = clock_timeval_ms(
                connection_is_http(h->connection) ? HANDSHAKE_PROBE_HTTP_MS : HANDSHAKE_PROBE_MS);

        set_speaks(h, HUB_ERA_UNKNOWN);
        h->is_probed = h->era != HUB_ERA_LEGACY && !h->skips_probe &&
                       !h->connection->has_only_legacy;
        h->skips_probe = false;
        if (!h->is_probed) {
                send_initialize(h, revisions[0]);
                return;
        }
        h->phase = PHASE_PROBING;
        connection_set_modern(h->connection, true); /* server/discover is a modern request */
        h->discover_id = request(h, "server/discover", "{}");
        connection_set_modern(h->connection, false);
        /* A server that was modern last time is not sent initialize too. */
        if (h->era != HUB_ERA_MODERN)
                evtimer_add(&h->probe, &in);
}

static void on_probe(evutil_socket_t fd, short what, void *data)
{
        struct handshake *h = data;

        if (h->phase == PHASE_PROBING)
                send_initialize(h, revisions[0]);
}

void handshake_stop(struct handshake *h)
{
        event_del(&h->probe);
        event_del(&h->relisten);
        h->phase = PHASE_NONE;
        h->discover_id = h->initialize_id = h->listen_id = 0;
        h->listens = false;
        set_speaks(h, HUB_ERA_UNKNOWN);
}

const char *handshake_awaits(const struct handshake *h)
{
        return h->phase == PHASE_PROBING ? "server/discover" : "initialize";
}

/* Whether the server has read server/discover: it did not end because of what is still in the pipe.
 */
static bool has_read_probe(const struct handshake *h)
{
        return connection_has_input(h->connection) ? connection_is_read(h->connection)
                                                   : h->phase == PHASE_INITIALIZING;
}

bool handshake_ended(struct handshake *h)
{
        bool waits = h->phase == PHASE_PROBING || h->phase == PHASE_INITIALIZING;

        h->skips_probe = waits && h->discover_id != 0 && has_read_probe(h);
        if (waits)
                h->era = HUB_ERA_UNKNOWN;
        return h->skips_probe;
}

void handshake_expired(struct handshake *h)
{
        /* server/discover may have confused the server so that it answers nothing any more: the
         * next process is not sent it. A process that was not sent it is probed next time. */
        h->skips_probe = h->phase == PHASE_INITIALIZING && h->discover_id != 0;
        h->era = HUB_ERA_UNKNOWN;
}

void handshake_set_era(struct handshake *h, enum hub_era era)
{
        h->era = era;
}

/* The server can be used. */
static void finish(struct handshake *h, enum hub_era era)
{
        handshake_stop(h);
        h->phase = PHASE_DONE;
        h->era = era;
        set_speaks(h, era);
}

static void report(struct handshake *h, yyjson_val *result)
{
        size_t n = 0;
        const char *instructions = json_string(result, "instructions", &n);

        yyjson_val *capabilities = yyjson_obj_get(result, "capabilities");

        h->host->done(h->data, instructions, n, yyjson_is_obj(capabilities) ? capabilities : NULL);
}

static bool names(yyjson_val *versions, const char *wanted)
{
        size_t i, n;
        yyjson_val *version;

        yyjson_arr_foreach (versions, i, n, version) {
                if (yyjson_equals_str(version, wanted))
                        return true;
        }
        return false;
}

static bool is_known_revision(yyjson_val *version)
{
        for (size_t i = 0; i < ARRAY_SIZE(revisions); i++) {
                if (yyjson_equals_str(version, revisions[i]))
                        return true;
        }
        return false;
}

static void refuse_version(struct handshake *h, yyjson_val *version)
{
        fail(h, "speaks MCP %.40s; Cloister speaks %s to %s and %s",
             yyjson_is_str(version) ? yyjson_get_str(version) : "of no version",
             revisions[ARRAY_SIZE(revisions) - 1], revisions[0], modern);
}

/* ---- legacy ---- */

/* A server may refuse the revision and name others (2025-11-25, "Lifecycle", "Error Handling"): it is
 * asked again, once, for the newest that both know. Returns whether it is. */
static bool try_named(struct handshake *h, yyjson_val *error_data)
{
        yyjson_val *supported = yyjson_obj_get(error_data, "supported");

        for (size_t i = 1; h->asked == revisions[0] && i < ARRAY_SIZE(revisions); i++) {
                if (names(supported, revisions[i])) {
                        send_initialize(h, revisions[i]);
                        return true;
                }
        }
        return false;
}

/* initialize may be refused because server/discover was sent before it, or because server/discover was
 * not sent. Returns whether another process is tried the other way. */
static bool try_other_way(struct handshake *h)
{
        if (h->is_probed)
                h->skips_probe = true;
        else if (h->era == HUB_ERA_LEGACY) /* from the cache */
                h->era = HUB_ERA_UNKNOWN;
        else
                return false;
        h->host->restart(h->data, "refused initialize");
        return true;
}

static void on_initialized(struct handshake *h, const struct jsonrpc_message *m)
{
        yyjson_val *version = yyjson_obj_get(m->result, "protocolVersion");

        if (m->kind == JSONRPC_ERROR && (try_named(h, m->error_data) || try_other_way(h)))
                return;
        if (m->kind == JSONRPC_ERROR)
                fail(h, "refused initialize: %.200s (%lld)", m->error_message,
                     (long long)m->error_code);
        else if (!yyjson_is_str(version))
                fail(h, "answered initialize without a protocolVersion");
        else if (!is_known_revision(version))
                refuse_version(h, version);
        else {
                finish(h, HUB_ERA_LEGACY);
                connection_set_version(h->connection, yyjson_get_str(version));
                connection_notify(h->connection, "notifications/initialized", NULL, 0);
                report(h, m->result);
        }
}

/* ---- modern ---- */

static void subscribe(struct handshake *h)
{
        static const char params[] = "{\"notifications\":{\"toolsListChanged\":true}}";

        h->listens = false;
        h->listen_id = request(h, "subscriptions/listen", params);
}

/* result: of server/discover, or NULL where an error told the era. An answer to initialize, if that
 * was sent too, does not count any more. */
static void go_modern(struct handshake *h, yyjson_val *result)
{
        yyjson_val *tools = yyjson_obj_get(yyjson_obj_get(result, "capabilities"), "tools");

        finish(h, HUB_ERA_MODERN);
        /* Before the list is requested, so that no change is missed between the two. */
        if (yyjson_is_true(yyjson_obj_get(tools, "listChanged")))
                subscribe(h);
        report(h, result);
}

static void go_legacy(struct handshake *h)
{
        h->discover_id = 0;
        event_del(&h->probe);
        if (h->phase == PHASE_PROBING)
                send_initialize(h, revisions[0]);
}

/* Chooses among the versions that the server supports. */
static void choose(struct handshake *h, yyjson_val *versions, yyjson_val *result)
{
        size_t i, n;
        yyjson_val *version;
        bool is_legacy = false;

        yyjson_arr_foreach (versions, i, n, version) {
                if (yyjson_equals_str(version, modern)) {
                        go_modern(h, result);
                        return;
                }
                is_legacy |= is_known_revision(version);
        }
        if (is_legacy)
                go_legacy(h);
        else
                refuse_version(h, yyjson_arr_get_first(versions));
}

static void on_discovered(struct handshake *h, const struct jsonrpc_message *m)
{
        yyjson_val *versions = yyjson_obj_get(m->result, "supportedVersions");

        if (m->kind == JSONRPC_ERROR)
                versions = m->error_code == UNSUPPORTED_PROTOCOL_VERSION
                                   ? yyjson_obj_get(m->error_data, "supported")
                                   : NULL;
        if (yyjson_arr_size(versions) > 0)
                choose(h, versions, m->result);
        else if (m->kind == JSONRPC_ERROR &&
                 (m->error_code == HEADER_MISMATCH || m->error_code == MISSING_CLIENT_CAPABILITY))
                go_modern(h, NULL);
        else if (m->kind == JSONRPC_ERROR && m->error_code == UNSUPPORTED_PROTOCOL_VERSION)
                fail(h, "refuses MCP %s and does not name a version that it speaks", modern);
        else
                go_legacy(h);
}

static void on_relisten(evutil_socket_t fd, short what, void *data)
{
        struct handshake *h = data;

        if (h->phase == PHASE_DONE && h->listen_id == 0) {
                subscribe(h);
                h->host->tools_changed(h->data);
        }
}

/* The server has ended the subscription, or refused it. */
static void on_unsubscribed(struct handshake *h, bool again)
{
        const struct timeval in = clock_timeval_ms(HANDSHAKE_LISTEN_MS);

        h->listen_id = 0;
        h->listens = false;
        if (again)
                evtimer_add(&h->relisten, &in);
}

static bool is_answer_to(int64_t request_id, yyjson_val *id)
{
        return request_id != 0 && id && jsonrpc_id_is(id, request_id);
}

bool handshake_on_answer(struct handshake *h, const struct jsonrpc_message *m)
{
        if (is_answer_to(h->discover_id, m->id)) {
                on_discovered(h, m);
        } else if (is_answer_to(h->listen_id, m->id)) {
                on_unsubscribed(h, m->kind == JSONRPC_RESPONSE);
        } else if (is_answer_to(h->initialize_id, m->id)) {
                h->initialize_id = 0;
                on_initialized(h, m);
        } else {
                return false;
        }
        return true;
}

bool handshake_on_unanswered(struct handshake *h, int64_t id, const char *why)
{
        if (h->discover_id != 0 && id == h->discover_id)
                go_legacy(h);
        else if (h->initialize_id != 0 && id == h->initialize_id)
                fail(h, "%s", why);
        else if (h->listen_id != 0 && id == h->listen_id)
                on_unsubscribed(h, true);
        else
                return false;
        return true;
}

bool handshake_on_invalid(struct handshake *h, yyjson_val *id, const char *why)
{
        if (is_answer_to(h->discover_id, id))
                go_legacy(h);
        else if (is_answer_to(h->initialize_id, id))
                fail(h, "gave no valid answer to initialize: %s", why);
        else
                return false;
        return true;
}

/* Whether a notification belongs to the subscription; a legacy server needs none. */
static bool is_subscribed(const struct handshake *h, const struct jsonrpc_message *m)
{
        yyjson_val *id = yyjson_obj_get(yyjson_obj_get(m->params, "_meta"),
                                        "io.modelcontextprotocol/subscriptionId");

        if (h->speaks != HUB_ERA_MODERN)
                return true;
        return is_answer_to(h->listen_id, id);
}

void handshake_on_changed(struct handshake *h, const struct jsonrpc_message *m)
{
        if (is_subscribed(h, m))
                h->host->tools_changed(h->data);
}

void handshake_on_acknowledged(struct handshake *h, const struct jsonrpc_message *m)
{
        yyjson_val *granted = yyjson_obj_get(m->params, "notifications");

        if (h->speaks == HUB_ERA_MODERN && is_subscribed(h, m))
                h->listens = yyjson_is_true(yyjson_obj_get(granted, "toolsListChanged"));
}

void handshake_on_cancelled(struct handshake *h, const struct jsonrpc_message *m)
{
        yyjson_val *id = yyjson_obj_get(m->params, "requestId");

        if (is_answer_to(h->listen_id, id))
                on_unsubscribed(h, true);
}

void handshake_init(struct handshake *h, struct event_base *base, struct connection *connection,
                    const struct handshake_host *host, void *data)
{
        *h = (struct handshake){.connection = connection, .host = host, .data = data};
        evtimer_assign(&h->probe, base, on_probe, h);
        evtimer_assign(&h->relisten, base, on_relisten, h);
}

void handshake_done(struct handshake *h)
{
        event_del(&h->probe);
        event_del(&h->relisten);
}
