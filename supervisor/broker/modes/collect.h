/* The gauges of the metrics, as they are when /metrics is read. */
#pragma once

/* data: struct broker. */
void collect_metrics(void *data);
/* Sets the metrics that never change: version, node, time of the start. */
void collect_begin(void);
