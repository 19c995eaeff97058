/* Requests about tasks, for their tests. */
#pragma once

#include "base/clock.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/tasks/task.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-mcp.h"

#define REQUEST(id, method, params)                                                                \
        "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" params "}}"
#define TASK_CALL(id, task, more)                                                                  \
        REQUEST(id, "tools/call",                                                                  \
                "\"name\":\"run_python\",\"arguments\":{\"code\":\"1\"},\"task\":" task more)
#define CANCELLED(id)                                                                              \
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"                                         \
        "cancelled\",\"params\":{\"requestId\":" id "}}"
#define META(extensions)                                                                           \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
        "\"io.modelcontextprotocol/clientCapabilities\":{" extensions "}}"
#define WITH META("\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}")
#define RUN  "\"name\":\"run_python\",\"arguments\":{\"code\":\"1\"}"

static char id[64]; /* of the task that was created last */

static inline yyjson_val *at(yyjson_doc *doc, const char *pointer)
{
        return yyjson_ptr_get(yyjson_doc_get_root(doc), pointer);
}

static inline const char *text_at(yyjson_doc *doc, const char *pointer)
{
        return yyjson_get_str(at(doc, pointer));
}

static inline int64_t number_at(yyjson_doc *doc, const char *pointer)
{
        int64_t n = -1;

        json_int64(at(doc, pointer), &n);
        return n;
}

static inline void open_legacy(void)
{
        open_server();
        send_line(INITIALIZE("2025-11-25"));
        _cleanup_json_ yyjson_doc *doc = take_message();
        check(at(doc, "/result/capabilities/tasks/requests/tools/call"));
        check(!at(doc, "/result/capabilities/extensions"));
}

/* Sends a request about the last task. */
static inline void ask(struct mcp_peer *of, int number, const char *method, const char *more)
{
        char line[600];

        snprintf(
                line, sizeof(line),
                "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tasks/%s\",\"params\":{\"taskId\":\"%s\"%s}}",
                number, method, id, more);
        mcp_peer_line(of, &sink, line, strlen(line));
}

static inline void check_status(const char *status)
{
        ask(peer, 90, "get", "");
        _cleanup_json_ yyjson_doc *doc = take_message();
        check_eq_str(text_at(doc, "/result/status"), status);
        check_eq_str(text_at(doc, "/result/taskId"), id);
}

static inline void take_created(const char *pointer)
{
        _cleanup_json_ yyjson_doc *doc = take_message();
        yyjson_val *task = at(doc, pointer);

        check_eq_str(json_string(task, "status", NULL), "working");
        snprintf(id, sizeof(id), "%s", json_string(task, "taskId", NULL));
        check_eq_int(strlen(id), 32);
}

static inline void create(const char *line)
{
        send_line(line);
        take_created("/result/task");
}

static inline void begin_cell(bool first)
{
        fake_spin(&f);
        if (first)
                fake_start(&f);
}

static inline void finish_one(bool first)
{
        create(TASK_CALL("1", "{}", ""));
        begin_cell(first);
        finish_cell("{\"status\":\"ok\"}");
        yyjson_doc_free(take_message());
}
