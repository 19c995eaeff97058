/* Durations, and lists of sessions as JSON. */
#include "supervisor/cli/sessions/session-list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/printable.h"

enum { ANSWER_MAX = 32 * 1024 * 1024 };

const char *session_list_time(int64_t ms, char to[16])
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

/* A server of an earlier version says nothing. */
static const char *network_of(yyjson_val *result)
{
        static const char *const states[] = {"none", "running", "ended"};

        for (size_t i = 0; i < ARRAY_SIZE(states); i++)
                if (strcmp(json_text(result, "network"), states[i]) == 0)
                        return states[i];
        return "unknown";
}

int session_list_print_json(const struct servers *servers)
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
