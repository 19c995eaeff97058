/* The gauges of the metrics, as they are when /metrics is read. */
#pragma once

/* data: struct broker. */
void collect_metrics(void *data);
/* What never changes. */
void collect_begin(void);
