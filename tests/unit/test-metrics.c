/* The metrics of a server: values, text, and the number of series. */
#include "supervisor/service/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/unit/test.h"

enum {
        FORMAT_MAX_US = 5000,
        TEXT_MAX = 256 * 1024,
        SLOWER = 20
}; /* a sanitizer or a loaded machine is slower */

static char *text_of(enum metrics_format format)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(METRICS_BYTES_MAX);

        check_eq_int(metrics_append(format, &b), 0);
        check_eq_int(buffer_append(&b, "", 1), 0);
        return strdup(buffer_bytes(&b));
}

static void check_line(const char *line)
{
        _cleanup_free_ char *text = text_of(METRICS_OPEN);

        check_has(text, line);
}

static size_t count_series(const char *text)
{
        size_t n = 0;

        for (const char *p = text; *p; p = strchr(p, '\n') + 1)
                n += *p != '#';
        return n;
}

static void test_values(void)
{
        metrics_add(METRIC_CELLS, 1, "ok");
        metrics_add(METRIC_CELLS, 2, "ok");
        metrics_add(METRIC_CELLS, 1, "error");
        metrics_add(METRIC_CELLS, -5, "error"); /* a counter never falls */
        metrics_set(METRIC_SESSIONS_MAX, 3);
        metrics_set(METRIC_SESSIONS_MAX, 7);
        metrics_add(METRIC_CELL_CPU, 0.25);
        check_line(
                "\ncloister_cells_total{status=\"ok\"} 3\ncloister_cells_total{status=\"error\"} 1\n");
        check_line("\ncloister_sessions_max 7\n");
        check_line("\ncloister_cell_cpu_seconds_total 0.25\n");
        metrics_set(METRIC_SESSIONS, 1, "idle");
        metrics_clear(METRIC_SESSIONS);
        metrics_sum(METRIC_SESSIONS, 1, "busy");
        metrics_sum(METRIC_SESSIONS, 1, "busy");
        check_line(
                "# HELP cloister_sessions Sessions that have a sandbox, or wait for one.\ncloister_sessions{state=\"busy\"} 2\n");
        metrics_total(METRIC_LOG_ERRORS, 4);
        metrics_total(METRIC_LOG_ERRORS, 9);
        check_line("\ncloister_log_errors_total 9\n");
        metrics_done();
}

static void test_histogram(void)
{
        metrics_observe(METRIC_SESSION_START, 0.0001);
        metrics_observe(METRIC_SESSION_START, 0.001); /* a boundary belongs to its bucket */
        metrics_observe(METRIC_SESSION_START, 400);
        metrics_observe(METRIC_SESSION_START, -1); /* a clock that was set back */
        check_line("cloister_session_start_seconds_bucket{le=\"0.0002\"} 2\n");
        check_line("cloister_session_start_seconds_bucket{le=\"0.0005\"} 2\n");
        check_line("cloister_session_start_seconds_bucket{le=\"0.001\"} 3\n");
        check_line("cloister_session_start_seconds_bucket{le=\"10.0\"} 3\n");
        check_line("cloister_session_start_seconds_bucket{le=\"300.0\"} 3\n");
        check_line(
                "cloister_session_start_seconds_bucket{le=\"+Inf\"} 4\n"
                "cloister_session_start_seconds_count 4\ncloister_session_start_seconds_sum 400.0011\n");
        metrics_done();
}

static void test_formats(void)
{
        metrics_add(METRIC_CELL_CPU, 1);
        _cleanup_free_ char *open = text_of(METRICS_OPEN);
        _cleanup_free_ char *text = text_of(METRICS_TEXT);
        check_eq_str(
                open,
                "# TYPE cloister_cell_cpu_seconds counter\n# UNIT cloister_cell_cpu_seconds seconds\n"
                "# HELP cloister_cell_cpu_seconds Processor time of cells.\ncloister_cell_cpu_seconds_total 1\n# EOF\n");
        check_eq_str(
                text,
                "# TYPE cloister_cell_cpu_seconds_total counter\n"
                "# HELP cloister_cell_cpu_seconds_total Processor time of cells.\ncloister_cell_cpu_seconds_total 1\n");
        metrics_done();
}

static void test_labels(void)
{
        char name[METRICS_VALUE_MAX + 9];

        metrics_set(METRIC_UPSTREAM_UP, 1, "a\"b\\c\nd} 1\ncloister_forged 1");
        check_line("\ncloister_upstream_up{server=\"a\\\"b\\\\c\\nd} 1\\ncloister_forged 1\"} 1\n");
        metrics_done();
        metrics_observe(METRIC_OPERATION, 1, "tools/list", "", "", "2025-11-25", "tcp");
        check_line(
                "mcp_server_operation_duration_seconds_count{mcp_method_name=\"tools/list\",mcp_protocol_version=\"2025-11-25\",network_transport=\"tcp\"} 1\n");
        metrics_done();
        /* A label without a value is absent, and no brackets are left. */
        metrics_set(METRIC_UPSTREAM_UP, 1, "");
        check_line("\ncloister_upstream_up 1\n");
        metrics_done();
        /* A long value is cut between two characters. */
        memset(name, 'x', sizeof(name));
        memcpy(name + METRICS_VALUE_MAX - 1, "\xc3\xa4", 3);
        metrics_set(METRIC_UPSTREAM_UP, 1, name);
        name[METRICS_VALUE_MAX - 1] = '\0';
        _cleanup_free_ char *text = text_of(METRICS_OPEN);
        const char *value = strchr(strstr(text, "{server="), '"') + 1;
        check(strncmp(value, name, METRICS_VALUE_MAX - 1) == 0 &&
              value[METRICS_VALUE_MAX - 1] == '"');
        metrics_done();
}

/* Fills every metric with more sets of label values than it has places for. */
static void fill(void)
{
        char v[40];

        metrics_show_principals(true);
        for (unsigned i = 0; i < 10000; i++) {
                snprintf(v, sizeof(v), "value-%u", i);
                const char *const five[] = {v, v, "error", "2025-11-25", "tcp", NULL};
                metrics_change(METRIC_OPERATION, i / 1000.0, five);
                metrics_observe(METRIC_CLIENT_SESSION, i, v, "tcp");
                metrics_observe(METRIC_UPSTREAM_CALL, 0.003, v);
                metrics_add(METRIC_CELLS, 1, v);
                metrics_set(METRIC_SESSIONS, 1, v);
                metrics_add(METRIC_SESSIONS_CREATED, 1, v);
                metrics_add(METRIC_SESSIONS_ENDED, 1, v);
                metrics_add(METRIC_SESSION_STATE, 1, v);
                metrics_add(METRIC_REFUSED, 1, v);
                metrics_set(METRIC_UPSTREAM_UP, 1, v);
                metrics_set(METRIC_MEMORY, 1, v);
                metrics_set(METRIC_LOOP_LAG, 1, v);
                metrics_add(METRIC_RELOADS, 1, v);
                metrics_set(METRIC_BUILD_INFO, 1, v);
                metrics_set(METRIC_NODE_INFO, 1, v);
                metrics_add(METRIC_PRINCIPAL_CELLS, 1, v);
                metrics_add(METRIC_PRINCIPAL_CPU, 1, v);
                metrics_set(METRIC_PRINCIPAL_SESSIONS, 1, v);
                metrics_sum(METRIC_PRINCIPAL_MEMORY, 1, v);
        }
        metrics_observe(METRIC_SESSION_START, 1);
}

static void test_bound(void)
{
        uint64_t best = UINT64_MAX;

        fill();
        _cleanup_free_ char *text = text_of(METRICS_OPEN);
        check(count_series(text) <= METRICS_SERIES_MAX);
        /* Nothing is lost: the rest is counted together. */
        check_line("\ncloister_cells_total{status=\"_OTHER\"} 9989\n");
        check_line(
                "\ncloister_principal_cells_total{principal=\"value-63\"} 1\ncloister_principal_cells_total{principal=\"_OTHER\"} 9936\n");
        check_line(
                "mcp_server_operation_duration_seconds_count{mcp_method_name=\"_OTHER\",gen_ai_tool_name=\"_OTHER\",error_type=\"_OTHER\",mcp_protocol_version=\"_OTHER\",network_transport=\"_OTHER\"} 9965\n");
        for (int i = 0; i < 5; i++) {
                uint64_t began = clock_us();
                free(text_of(METRICS_OPEN));
                best = clock_us() - began < best ? clock_us() - began : best;
        }
        check(strlen(text) <= TEXT_MAX);
        check(best < FORMAT_MAX_US * SLOWER);
        printf("%zu series, %zu bytes in %llu us\n", count_series(text), strlen(text),
               (unsigned long long)best);
        metrics_done();
}

static void test_principals(void)
{
        metrics_add(METRIC_PRINCIPAL_CELLS, 1, "alice");
        _cleanup_free_ char *without = text_of(METRICS_OPEN);
        check_eq_str(without, "# EOF\n");
        metrics_show_principals(true);
        metrics_add(METRIC_PRINCIPAL_CELLS, 1, "alice");
        metrics_add(METRIC_CELL_CPU, 1);
        check_line("\ncloister_principal_cells_total{principal=\"alice\"} 1\n");
        metrics_show_principals(false);
        _cleanup_free_ char *again = text_of(METRICS_OPEN);
        check(!strstr(again, "alice") && strstr(again, "cloister_cell_cpu"));
        metrics_done();
}

/* The table in the documentation is the one of metrics.def. */
static void test_docs(void)
{
        _cleanup_buffer_ struct buffer table = BUFFER_INIT(METRICS_BYTES_MAX);
        _cleanup_free_ char *docs = calloc(1, METRICS_BYTES_MAX);
        char path[4096];

        check_eq_int(metrics_append_table(&table), 0);
        check_eq_int(buffer_append(&table, "", 1), 0);
        snprintf(path, sizeof(path), "%s/docs/service.md", getenv("CLOISTER_SOURCE"));
        FILE *f = fopen(path, "r");
        check(f);
        check(fread(docs, 1, METRICS_BYTES_MAX - 1, f) > 0);
        fclose(f);
        if (!strstr(docs, buffer_bytes(&table)))
                fprintf(stderr, "docs/service.md needs this table:\n%s", buffer_bytes(&table));
        check(strstr(docs, buffer_bytes(&table)));
}

int main(void)
{
        run(test_values);
        run(test_histogram);
        run(test_formats);
        run(test_labels);
        run(test_bound);
        run(test_principals);
        run(test_docs);
        return 0;
}
