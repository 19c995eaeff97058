/* Logs a call in the words of codemode-lite. */
#include "supervisor/mcp/publish/run-tool-log.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"

enum { SERVERS_TEXT_MAX = 256, ERROR_MAX = 300 };

void run_tool_log_start(enum config_guest guest, const struct run_tool_arguments *arguments)
{
        char servers[SERVERS_TEXT_MAX] = "none";
        yyjson_val *name;
        size_t i, n, used = 0;

        if (guest == GUEST_CLOISTER)
                return;
        yyjson_arr_foreach (arguments->servers, i, n, name) {
                if (used < sizeof(servers))
                        used += (size_t)snprintf(servers + used, sizeof(servers) - used, "%s%s",
                                                 used > 0 ? ", " : "", yyjson_get_str(name));
        }
        log_info("RUN_PYTHON START | servers=%s | timeout=%g | code (%zu bytes): %.*s", servers,
                 arguments->timeout_ms / 1e3, arguments->code_length, (int)arguments->code_length,
                 arguments->code);
}

void run_tool_log_end(enum config_guest guest, const struct cell_outcome *outcome)
{
        const char *backend = guest == GUEST_PYODIDE ? "pyodide-wasm" : "podman (cloister)";
        bool good = outcome->status == CELL_OK;
        size_t total = 0, ok = 0;

        if (guest == GUEST_CLOISTER)
                return;
        for (size_t i = 0; i < outcome->n_calls; i++) {
                const struct cell_call *call = &outcome->calls[i];
                if (!call->used)
                        continue;
                total++;
                ok += call->ok;
                log_info("  TOOL %s | %s | %.3fs", call->ok ? "OK" : "FAIL", call->tool,
                         (double)call->duration_us / 1e6);
        }
        log_info("RUN_PYTHON %s | %.2fs | tool_calls=%zu (ok=%zu fail=%zu) | backend=%s",
                 good ? "SUCCESS" : "FAILED", (double)outcome->duration_us / 1e6, total, ok,
                 total - ok, backend);
        if (good)
                return;
        const char *type = json_string(outcome->error, "type", NULL);
        const char *message = json_string(outcome->error, "message", NULL);
        if (*outcome->why || !type)
                log_warning("RUN_PYTHON ERROR | %.*s", ERROR_MAX,
                            *outcome->why ? outcome->why : cell_status_name(outcome->status));
        else
                log_warning("RUN_PYTHON ERROR | %s: %.*s", type, ERROR_MAX, message ? message : "");
}
