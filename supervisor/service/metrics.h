/*
 * The metrics of a server: counters, gauges and histograms, which /metrics shows (docs/service.md).
 *
 *     metrics_add(METRIC_CELLS, 1, "ok");
 *     metrics_observe(METRIC_UPSTREAM_CALL, duration_us / 1e6, "files");
 *     metrics_set(METRIC_SESSIONS_MAX, 64);
 *
 * One process has one set of values, as it has one log. The values of the labels follow in the order of metrics.def; "" means
 * that the label is absent. They must come from tables of ours or from the config, never from a client or from code in a
 * sandbox: pass METRIC_OTHER for what is in no table. The number of series has a bound nevertheless: sets of label values
 * that have no place are counted together, under METRIC_OTHER.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum metric {
#define METRIC(id, type, name, labels, most, help) METRIC_##id,
#include "supervisor/service/metrics.def"
        METRIC_MAX
};

enum {
        METRICS_SERIES_MAX = 2000,   /* a histogram has one for each boundary, and three more */
        METRICS_LABELS_MAX = 5,      /* of one metric */
        METRICS_VALUE_MAX = 128,     /* bytes of a label's value; a longer one is cut */
        METRICS_BYTES_MAX = 1 << 20, /* of the whole text */
};

#define METRIC_OTHER "_OTHER"

/* Adds to a counter. */
#define metrics_add(metric, amount, ...)                                                           \
        metrics_change(metric, amount, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
/* Sets a gauge. */
#define metrics_set(metric, value, ...)                                                            \
        metrics_change(metric, value, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
/* Adds a value, in seconds, to a histogram. */
#define metrics_observe(metric, seconds, ...)                                                      \
        metrics_change(metric, seconds, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* labels: as many as the metric has, then NULL. Adds, sets or observes, by the type of the metric. Without memory nothing
 * happens. */
void metrics_change(enum metric metric, double value, const char *const labels[]);

/* Adds to a gauge that metrics_clear() has emptied: a sum over all values that follow. */
void metrics_sum(enum metric metric, double value, const char *label);
/* A counter that is counted elsewhere: its value replaces the former one. It has no labels. */
void metrics_total(enum metric metric, double value);
/* Removes all values of a gauge, before it is set anew. */
void metrics_clear(enum metric metric);

/* Whether metrics with a label "principal" have values (config: "metrics"); otherwise nothing is counted for them. */
void metrics_show_principals(bool show);

enum metrics_format {
        METRICS_OPEN, /* OpenMetrics 1.0 */
        METRICS_TEXT, /* Prometheus's text format 0.0.4 */
};
/* Appends all metrics that have a value, at most METRICS_BYTES_MAX bytes. Returns 0, -EMSGSIZE or -ENOMEM. */
int metrics_append(enum metrics_format format, struct buffer *to);
/* The value of the header Content-Type. */
const char *metrics_content_type(enum metrics_format format);

/* Appends the table of docs/service.md. */
int metrics_append_table(struct buffer *to);

/* Frees all values. */
void metrics_done(void);
