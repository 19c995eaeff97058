/*
 * Learning which era of MCP a server speaks, and shaking hands in it.
 *
 * Theory of operation
 *
 * A server of unknown era is asked server/discover first. A modern one says what it supports. A
 * legacy one says that there is no such method, and is asked to initialize on the same pipe; or it
 * says nothing, and is asked to initialize HUB_PROBE_MS later, while an answer that comes late
 * still counts (npx may have had to download first); or it ends over what it does not know, or
 * refuses to initialize after it (supergateway has done so by itself then), and is started again
 * without the question. What proved right is kept with the tools in the cache, so that a legacy
 * server is not asked again; when the memory turns out wrong, the next attempt asks.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/log.h"
#include "cloister-config.h"
#include "supervisor/hub/catalogue-cache.h"
#include "supervisor/hub/hub-internal.h"

/* Of MCP 2026-07-28: a server that says one of these speaks it. */
enum {
        HEADER_MISMATCH = -32020,
        MISSING_CLIENT_CAPABILITY = -32021,
        UNSUPPORTED_PROTOCOL_VERSION = -32022,
};

static const char modern[] = "2026-07-28";
/* The revisions that shake hands by initialize (what each changed is none of ours to send). */
static const char *const revisions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

static const char initialize[] =
        "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"cloister\",\"version\":\"" CLOISTER_VERSION
        "\"}}";

static const char *const era_names[] = {
        [HUB_ERA_UNKNOWN] = "unknown",
        [HUB_ERA_LEGACY] = "legacy",
        [HUB_ERA_MODERN] = "modern",
};
static_assert(ARRAY_SIZE(era_names) == HUB_ERA_MAX, "a name an era");

const char *hub_era_name(enum hub_era era)
{
        return era < HUB_ERA_MAX ? era_names[era] : "?";
}

enum hub_era hub_era_find(const char *name)
{
        for (int i = 0; name && i < HUB_ERA_MAX; i++) {
                if (strcmp(name, era_names[i]) == 0)
                        return (enum hub_era)i;
        }
        return HUB_ERA_UNKNOWN;
}

static void send_initialize(struct hub_server *s)
{
        hub_server_initializing(s);
        s->request_id = ++s->last_id;
        hub_server_request(s, s->request_id, "initialize", initialize, strlen(initialize));
}

void hub_handshake_begin(struct hub_server *s)
{
        const struct timeval in = {.tv_sec = HUB_PROBE_MS / 1000,
                                   .tv_usec = (suseconds_t)(HUB_PROBE_MS % 1000) * 1000};

        s->speaks = HUB_ERA_UNKNOWN;
        s->is_probed = s->era != HUB_ERA_LEGACY && !s->skips_probe;
        s->skips_probe = false;
        if (!s->is_probed) {
                send_initialize(s);
                return;
        }
        s->discover_id = ++s->last_id;
        s->speaks = HUB_ERA_MODERN; /* what the question itself is written in */
        hub_server_request(s, s->discover_id, "server/discover", "{}", 2);
        s->speaks = HUB_ERA_UNKNOWN;
        /* One that was modern last time needs no second guess, only its time to start. */
        if (s->era != HUB_ERA_MODERN)
                evtimer_add(&s->probe, &in);
}

void hub_handshake_on_probe(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;

        (void)fd;
        (void)what;
        if (s->state == SERVER_PROBING)
                send_initialize(s);
}

void hub_handshake_drop(struct hub_server *s)
{
        event_del(&s->probe);
        event_del(&s->relisten);
        s->discover_id = s->listen_id = 0;
        s->listens = false;
        s->speaks = HUB_ERA_UNKNOWN;
}

/* Whether the server took the question in. What it left in the pipe it did not end over. */
static bool has_read_probe(const struct hub_server *s)
{
        int unread = 0;

        if (s->fds[0] < 0)
                return s->state == SERVER_INITIALIZING;
        return s->queue.length == 0 && ioctl(s->fds[0], FIONREAD, &unread) == 0 && unread == 0;
}

bool hub_handshake_ended(struct hub_server *s)
{
        bool waits = s->state == SERVER_PROBING || s->state == SERVER_INITIALIZING;
        bool over_probe = waits && s->discover_id != 0 && has_read_probe(s);

        if (waits)
                s->era = HUB_ERA_UNKNOWN;
        s->skips_probe = over_probe;
        return over_probe;
}

void hub_handshake_expired(struct hub_server *s)
{
        /* One that took the question so badly that it answers nothing more gets another chance when
         * it is tried again; one that was never asked is asked then. */
        s->skips_probe = s->state == SERVER_INITIALIZING && s->discover_id != 0;
        s->era = HUB_ERA_UNKNOWN;
}

static void take_instructions(struct hub_server *s, yyjson_val *result)
{
        size_t n = 0;
        const char *text = json_string(result, "instructions", &n);

        free(s->instructions);
        s->instructions = text && n > 0
                                  ? strndup(text, hub_cut_point(text, n, HUB_INSTRUCTIONS_MAX))
                                  : NULL;
}

static bool is_known_revision(yyjson_val *version)
{
        for (size_t i = 0; i < ARRAY_SIZE(revisions); i++) {
                if (yyjson_equals_str(version, revisions[i]))
                        return true;
        }
        return false;
}

static void refuse_version(struct hub_server *s, yyjson_val *version)
{
        hub_server_failf(s, "speaks MCP %.40s; Cloister speaks %s to %s and %s",
                         yyjson_is_str(version) ? yyjson_get_str(version) : "of no version",
                         revisions[ARRAY_SIZE(revisions) - 1], revisions[0], modern);
}

/* ---- legacy ---- */

/* A refusal may be due to what was asked before it, or to what was not. Returns whether another
 * process is tried, the other way. */
static bool try_otherwise(struct hub_server *s)
{
        if (s->is_probed)
                s->skips_probe = true;
        else if (s->era == HUB_ERA_LEGACY) /* by memory only */
                s->era = HUB_ERA_UNKNOWN;
        else
                return false;
        hub_server_restart(s, "refused initialize");
        return true;
}

static void on_initialized(struct hub_server *s, const struct jsonrpc_message *m)
{
        yyjson_val *version = yyjson_obj_get(m->result, "protocolVersion");

        if (m->kind == JSONRPC_ERROR && try_otherwise(s))
                return;
        if (m->kind == JSONRPC_ERROR)
                hub_server_failf(s, "refused initialize: %.200s (%lld)", m->error_message,
                                 (long long)m->error_code);
        else if (!yyjson_is_str(version))
                hub_server_failf(s, "answered initialize without a protocolVersion");
        else if (!is_known_revision(version))
                refuse_version(s, version);
        else {
                hub_handshake_drop(s);
                s->era = s->speaks = HUB_ERA_LEGACY;
                take_instructions(s, m->result);
                hub_server_notify(s, "notifications/initialized", NULL, 0);
                hub_server_list(s);
        }
}

/* ---- modern ---- */

static void listen_to(struct hub_server *s)
{
        static const char params[] = "{\"notifications\":{\"toolsListChanged\":true}}";

        s->listens = false;
        s->listen_id = ++s->last_id;
        if (hub_server_request(s, s->listen_id, "subscriptions/listen", params, strlen(params)) < 0)
                s->listen_id = 0;
}

/* result: of server/discover, or NULL where an error told us the era. */
static void go_modern(struct hub_server *s, yyjson_val *result)
{
        yyjson_val *tools = yyjson_obj_get(yyjson_obj_get(result, "capabilities"), "tools");

        hub_handshake_drop(s);
        s->request_id = 0; /* initialize, if it was sent meanwhile: no answer counts any more */
        s->era = s->speaks = HUB_ERA_MODERN;
        take_instructions(s, result);
        /* Before the list is asked for, so that no change falls between the two. */
        if (yyjson_is_true(yyjson_obj_get(tools, "listChanged")))
                listen_to(s);
        hub_server_list(s);
}

static void go_legacy(struct hub_server *s)
{
        s->discover_id = 0;
        event_del(&s->probe);
        if (s->state == SERVER_PROBING)
                send_initialize(s);
}

/* Chooses among what the server says it speaks. */
static void choose(struct hub_server *s, yyjson_val *versions, yyjson_val *result)
{
        size_t i, n;
        yyjson_val *version;
        bool is_legacy = false;

        yyjson_arr_foreach (versions, i, n, version) {
                if (yyjson_equals_str(version, modern)) {
                        go_modern(s, result);
                        return;
                }
                is_legacy |= is_known_revision(version);
        }
        if (is_legacy)
                go_legacy(s);
        else
                refuse_version(s, yyjson_arr_get_first(versions));
}

static void on_discovered(struct hub_server *s, const struct jsonrpc_message *m)
{
        yyjson_val *versions = yyjson_obj_get(m->result, "supportedVersions");

        if (m->kind == JSONRPC_ERROR)
                versions = m->error_code == UNSUPPORTED_PROTOCOL_VERSION
                                   ? yyjson_obj_get(m->error_data, "supported")
                                   : NULL;
        if (yyjson_arr_size(versions) > 0)
                choose(s, versions, m->result);
        else if (m->kind == JSONRPC_ERROR &&
                 (m->error_code == HEADER_MISMATCH || m->error_code == MISSING_CLIENT_CAPABILITY))
                go_modern(s, NULL);
        else
                go_legacy(s);
}

void hub_handshake_on_relisten(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;

        (void)fd;
        (void)what;
        if (s->state == SERVER_READY && s->listen_id == 0) {
                listen_to(s);
                hub_server_list_changed(s);
        }
}

/* The subscription is over: by the server's wish, or because it cannot. */
static void on_listen_over(struct hub_server *s, bool again)
{
        const struct timeval in = {.tv_sec = HUB_RELISTEN_MS / 1000};

        s->listen_id = 0;
        s->listens = false;
        if (again)
                evtimer_add(&s->relisten, &in);
}

bool hub_handshake_answer(struct hub_server *s, const struct jsonrpc_message *m)
{
        if (s->discover_id != 0 && jsonrpc_id_is(m->id, s->discover_id)) {
                on_discovered(s, m);
                return true;
        }
        if (s->listen_id != 0 && jsonrpc_id_is(m->id, s->listen_id)) {
                on_listen_over(s, m->kind == JSONRPC_RESPONSE);
                return true;
        }
        if (s->state != SERVER_INITIALIZING || s->request_id == 0 ||
            !jsonrpc_id_is(m->id, s->request_id))
                return false;
        s->request_id = 0;
        on_initialized(s, m);
        return true;
}

bool hub_handshake_spoiled(struct hub_server *s, yyjson_val *id)
{
        if (s->discover_id == 0 || !jsonrpc_id_is(id, s->discover_id))
                return false;
        go_legacy(s);
        return true;
}

/* Whether a notification belongs to our subscription; a legacy server needs none. */
static bool is_ours(const struct hub_server *s, const struct jsonrpc_message *m)
{
        yyjson_val *id = yyjson_obj_get(yyjson_obj_get(m->params, "_meta"),
                                        "io.modelcontextprotocol/subscriptionId");

        if (s->speaks != HUB_ERA_MODERN)
                return true;
        return s->listen_id != 0 && id && jsonrpc_id_is(id, s->listen_id);
}

void hub_handshake_on_changed(struct hub_server *s, const struct jsonrpc_message *m)
{
        if (is_ours(s, m))
                hub_server_list_changed(s);
}

void hub_handshake_on_acknowledged(struct hub_server *s, const struct jsonrpc_message *m)
{
        yyjson_val *granted = yyjson_obj_get(m->params, "notifications");

        if (s->speaks == HUB_ERA_MODERN && is_ours(s, m))
                s->listens = yyjson_is_true(yyjson_obj_get(granted, "toolsListChanged"));
}

void hub_handshake_on_cancelled(struct hub_server *s, const struct jsonrpc_message *m)
{
        yyjson_val *id = yyjson_obj_get(m->params, "requestId");

        if (s->listen_id != 0 && id && jsonrpc_id_is(id, s->listen_id))
                on_listen_over(s, true);
}
