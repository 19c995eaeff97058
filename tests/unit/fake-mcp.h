/* An MCP server whose monitor, worker and tool provider are fakes: the test sends lines and takes
 * messages. */
#pragma once

#include "supervisor/mcp/call/result.h"
#include "supervisor/mcp/peer.h"
#include "supervisor/mcp/server.h"
#include "supervisor/mcp/state.h"
#include "tests/unit/fake-monitor.h"

static struct fake f;
static struct mcp_server *server;
static struct mcp_peer *peer;
static struct buffer sent;

static inline void on_send(struct mcp_sink *sink, const struct mcp_message *message)
{
        check_eq_int(message->bytes[message->n - 1], '\n');
        check_eq_int(buffer_append(&sent, message->bytes, message->n), 0);
}

static struct mcp_sink_calls sink_calls = {.send = on_send};
static struct mcp_sink sink = {&sink_calls, 1};

static inline void open_server(void)
{
        const struct mcp_host host = {};
        struct error err = {};

        fake_open(&f);
        buffer_init(&sent, 256 * 1024 * 1024);
        check_ok(mcp_server_new(&server, f.base, f.config, &fake_tool_provider, f.sessions, &host,
                                &err));
        check_ok(mcp_peer_new(&peer, server, NULL, &sink, &err));
}

static inline void close_server(void)
{
        f.sessions = sessions_free(f.sessions);
        mcp_server_drop_calls(server);
        peer = mcp_peer_free(peer);
        server = mcp_server_free(server);
        fake_done(&f);
        buffer_done(&sent);
}

static inline void send_line(const char *line)
{
        mcp_peer_line(peer, &sink, line, strlen(line));
}

/* Removes the oldest message that the server sent and parses it; the caller frees. */
static inline yyjson_doc *take_message(void)
{
        struct error err = {};
        yyjson_doc *doc = NULL;

        check(sent.length > 0);
        const char *end = memchr(buffer_bytes(&sent), '\n', sent.length);
        size_t n = (size_t)(end - buffer_bytes(&sent));
        check_ok(json_parse(buffer_bytes(&sent), n, &doc, &err));
        buffer_consume(&sent, n + 1);
        return doc;
}

static inline void check_message(const char *expected)
{
        const char *end = sent.length ? memchr(buffer_bytes(&sent), '\n', sent.length) : NULL;

        check(end);
        size_t n = (size_t)(end - buffer_bytes(&sent));
        check_eq_bytes(buffer_bytes(&sent), n, expected);
        buffer_consume(&sent, n + 1);
}

static inline void check_no_message(void)
{
        check_eq_int(sent.length, 0);
}

/* id_json: NULL: it has none. */
static inline void check_error(int64_t code, const char *id_json, const char *part)
{
        _cleanup_json_ yyjson_doc *doc = take_message();
        yyjson_val *root = yyjson_doc_get_root(doc), *error = yyjson_obj_get(root, "error");
        _cleanup_buffer_ struct buffer id = BUFFER_INIT(1024);
        int64_t n = 0;

        check_eq_int(json_int64(yyjson_obj_get(error, "code"), &n), 0);
        check_eq_int(n, code);
        check_eq_int(yyjson_obj_get(root, "id") != NULL, id_json != NULL);
        if (id_json) {
                check_eq_int(json_append(&id, yyjson_obj_get(root, "id")), 0);
                check_eq_bytes(buffer_bytes(&id), id.length, id_json);
        }
        check_has(json_string(error, "message", NULL), part);
}

#define CALL(id, arguments)                                                                        \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":"       \
        "\"run_python\",\"arguments\":" arguments "}}"

#define INITIALIZE(version)                                                                        \
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"                     \
        "\"protocolVersion\":\"" version                                                           \
        "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}"

static inline void finish_cell(const char *result)
{
        fake_send(&f, FRAME_RESULT, fake_take_exec(&f, NULL, 0), result);
}
