/*
 * The transport of a server over HTTP, between two ends that a test plays: the hub's connection, and the
 * server itself (tests/unit/far-server.h). cloister-access is three pipes.
 */
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "supervisor/hub/http/http.h"
#include "supervisor/hub/http/queue.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/far-server.h"

static struct client {
        struct event_base *base;
        struct exchange_loop *loop;
        struct transport *t;
        struct http *http;               /* the same */
        struct buffer events;            /* events of the connection, one per line */
        int to_access, from_access, err; /* the ends of cloister-access */
        bool is_closed;
        bool refuses; /* each line is one of a flood */
} client;

static inline void client_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void client_log(const char *format, ...)
{
        char text[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        check_eq_int(buffer_printf(&client.events, "%s\n", text), 0);
}

static inline const char *client_name(void *data)
{
        (void)data;
        return "s";
}

/* As the hub does: reports an answer to the transport first. */
static inline bool client_line(void *data, const char *line, size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};
        int64_t id;

        (void)data;
        if (json_parse(line, n, &doc, &err) >= 0) {
                yyjson_val *root = yyjson_doc_get_root(doc);
                if (!yyjson_obj_get(root, "method") &&
                    json_int64(yyjson_obj_get(root, "id"), &id) == 0)
                        client.t->kind->answered(client.t, id);
        }
        client_log("line %.*s", (int)n, line);
        return !client.refuses;
}

static inline void client_refused(void *data, const char *line, size_t n)
{
        (void)data;
        client_log("refused %.*s", (int)n, line);
}

static inline bool client_parsed(void *data, struct large_line *line)
{
        (void)data;
        client_log("parsed %zu", line->memfd >= 0 ? line->memfd_length : line->text.length);
        client.t->kind->answered(client.t, line->has_id ? line->id : 0);
        return true;
}

static inline void client_part(void *data, const char *line, size_t n)
{
        (void)data;
        client_log("part %.*s", (int)n, line);
}

static inline void client_cut(void *data)
{
        (void)data;
        client_log("cut");
}

static inline void client_unanswered(void *data, int64_t id, const char *why)
{
        (void)data;
        client_log("unanswered %lld %s", (long long)id, why);
}

static inline void client_failed(void *data, const char *why)
{
        (void)data;
        client_log("failed %s", why);
        client.is_closed = true;
        client.t->kind->close(client.t);
}

static inline void client_mirror(void *data, yyjson_val *params,
                                 void (*add)(void *to, const char *name, const char *value,
                                             size_t n),
                                 void *to)
{
        (void)data;
        (void)params;
        add(to, "Mcp-Param-Region", "eu", 2);
}

static inline void client_reopened(void *data)
{
        (void)data;
        client_log("reopened");
}

static const struct connection_host client_host = {
        .name = client_name,
        .line = client_line,
        .parsed = client_parsed,
        .late = client_part,
        .oversized = client_part,
        .cut = client_cut,
        .no_memory = client_cut,
        .refused = client_refused,
        .unanswered = client_unanswered,
        .failed = client_failed,
        .mirror = client_mirror,
        .reopened = client_reopened,
};

static inline void client_access_says(const char *line)
{
        check_eq_int(fd_write_all(client.from_access, line, strlen(line)), 0);
        check_eq_int(fd_write_all(client.from_access, "\n", 1), 0);
        far_turn();
}

/* The request that the transport sent to cloister-access, "" if none. Valid until the next call. */
static inline const char *client_asked_access(void)
{
        static char text[64 * 1024];

        far_turn();
        ssize_t n = read(client.to_access, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        return text;
}

/* Its url is not known yet. */
static inline void client_open(bool is_sse)
{
        int pipes[3][2];

        client = (struct client){.base = event_base_new()};
        buffer_init(&client.events, 64 << 20);
        check(client.base);
        far_open(client.base);
        for (int i = 0; i < 3; i++)
                check_eq_int(pipe2(pipes[i], O_CLOEXEC), 0);
        client.to_access = pipes[0][0];
        client.from_access = pipes[1][1];
        client.err = pipes[2][1];
        fd_set_nonblocking(client.to_access, 1);
        client.t = http_new(client.base, &client.loop, &client_host, NULL);
        check(client.t);
        client.http = (void *)client.t;
        http_open(client.t, (const int[]){pipes[0][1], pipes[1][0], pipes[2][0]}, is_sse);
}

static inline void client_give_url(const char *path)
{
        char line[512];

        snprintf(line, sizeof(line), "{\"url\":\"%s\",\"headers\":[\"X-Own: 1\"]}", far_url(path));
        client_access_says(line);
}

static inline void client_begin(void)
{
        client_open(false);
        client_give_url("/mcp");
}

static inline void client_end(void)
{
        transport_free(client.t);
        exchange_loop_free(client.loop);
        far_close();
        event_base_free(client.base);
        buffer_done(&client.events);
        close(client.to_access);
        close(client.from_access);
        close(client.err);
}

/* Returns prepare()'s result. text: the message, or NULL: n bytes. */
static inline int client_send(const struct outgoing *m, const char *text, size_t n)
{
        struct buffer *to;

        int r = client.t->kind->prepare(client.t, n, &to);
        if (r < 0)
                return r;
        for (size_t i = 0; !text && i < n; i += 1024)
                check_eq_int(buffer_append(to, (const char[1024]){}, n - i < 1024 ? n - i : 1024),
                             0);
        if (text)
                check_eq_int(buffer_append_text(to, text), 0);
        check_eq_int(buffer_append_text(to, "\n"), 0);
        client.t->kind->commit(client.t, m);
        return 0;
}

static inline int client_request(int64_t id, const char *method, bool is_modern)
{
        static const char params[] = "{\"name\":\"t\",\"arguments\":{}}";
        const struct outgoing m = {.kind = OUTGOING_REQUEST,
                                   .id = id,
                                   .method = method,
                                   .params = params,
                                   .n = sizeof(params) - 1,
                                   .is_modern = is_modern};
        char text[256];

        snprintf(text, sizeof(text),
                 "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"method\":\"%s\",\"params\":%s}", (long long)id,
                 method, params);
        return client_send(&m, text, strlen(text));
}

static inline int client_call(int64_t id)
{
        return client_request(id, "tools/call", false);
}

static inline int client_notify(const char *method)
{
        const struct outgoing m = {.kind = OUTGOING_NOTIFICATION, .method = method};
        char text[256];

        snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"method\":\"%s\"}", method);
        return client_send(&m, text, strlen(text));
}

/* Waits for events and returns those since the last call. The text is valid until the next call. */
static inline const char *client_told(void)
{
        static char text[8192];

        far_until(client.events.length > 0);
        far_turn();
        snprintf(text, sizeof(text), "%.*s", (int)client.events.length,
                 buffer_bytes(&client.events));
        buffer_consume(&client.events, client.events.length);
        return text;
}

static inline void client_told_nothing(void)
{
        far_turn();
        if (client.events.length > 0)
                test_fail_("told: %s", client_told());
}

#define CLIENT_RESULT(id, result) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":" result "}"
#define CLIENT_INITIALIZED                                                                         \
        CLIENT_RESULT(1, "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}")

/* Up to notifications/initialized, in a session or without (NULL). Returns the connection of the GET for
 * the server's own messages, which awaits its answer. */
static inline struct far_connection *client_initialize(const char *session)
{
        char headers[256];

        snprintf(headers, sizeof(headers), FAR_JSON "%s%s%s", session ? "Mcp-Session-Id: " : "",
                 session ? session : "", session ? "\r\n" : "");
        check_eq_int(client_request(1, "initialize", false), 0);
        struct far_connection *c = far_next();
        check(!strstr(c->head, "Mcp-Session-Id") && !strstr(c->head, "MCP-Protocol-Version"));
        far_answer(c, 200, headers, CLIENT_INITIALIZED);
        check_has(client_told(), "line {");
        client.t->kind->set_version(client.t, "2025-11-25");
        check_eq_int(client_notify("notifications/initialized"), 0);
        c = far_next();
        check_has(c->body, "notifications/initialized");
        if (session)
                check_has(c->head, session);
        far_answer(c, 202, "", "");
        c = far_next();
        check_eq_int(strncmp(c->head, "GET /mcp ", 9), 0);
        check_has(c->head, "Accept: text/event-stream\r\n");
        check_has(c->head, "MCP-Protocol-Version: 2025-11-25\r\n");
        return c;
}

/* Calls client_initialize() with a server that has no such stream. */
static inline void client_ready(const char *session)
{
        client_begin();
        far_answer(client_initialize(session), 405, "", "");
        far_turn();
}
