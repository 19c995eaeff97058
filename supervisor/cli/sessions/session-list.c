/* Durations, and lists of sessions as JSON. */
#include "supervisor/cli/sessions/session-list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json.h"
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

int session_list_print_json(const struct servers *servers, bool one_line)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(ANSWER_MAX);
        int r = buffer_append(&b, "[", 1);

        for (size_t i = 0; i < servers->n && r >= 0; i++) {
                yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(servers->list[i].answer),
                                                    "result");
                r = buffer_printf(&b,
                                  "%s{\"server\": %d, \"sessions_max\": %" PRId64
                                  ", \"ready\": %" PRId64 ", \"network\": \"%s\", \"sessions\": ",
                                  i == 0     ? ""
                                  : one_line ? ", "
                                             : ",\n ",
                                  (int)servers->list[i].pid, json_number(result, "sessions_max"),
                                  json_number(result, "ready"), network_of(result));
                if (r >= 0)
                        r = json_append(&b, server_sessions(&servers->list[i]));
                if (r >= 0)
                        r = buffer_append(&b, "}", 1);
        }
        if (r >= 0)
                r = buffer_append(&b, "]\n", 2);
        _cleanup_buffer_ struct buffer shown = BUFFER_INIT(2 * ANSWER_MAX);
        if (r >= 0)
                r = printable_json(&shown, buffer_bytes(&b), b.length);
        if (r >= 0 && fwrite(buffer_bytes(&shown), 1, shown.length, stdout) != shown.length)
                r = -EIO;
        return r;
}
