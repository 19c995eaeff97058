/* Sets the gauges of a server. */
#include "supervisor/broker/modes/collect.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/log.h"
#include "cloister-config.h"
#include "supervisor/broker/broker.h"
#include "supervisor/service/metrics.h"
#include "supervisor/service/node.h"
#include "supervisor/session/overview.h"

static double seconds(const struct timeval *t)
{
        return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

/* The second number of proc_pid_statm(5), in pages. */
static void collect_resident(int statm_fd)
{
        char text[128] = "", *end;

        if (statm_fd < 0 || pread(statm_fd, text, sizeof(text) - 1, 0) <= 0)
                return;
        strtoull(text, &end, 10);
        metrics_set(METRIC_PROCESS_MEMORY,
                    (double)strtoull(end, NULL, 10) * (double)sysconf(_SC_PAGESIZE));
}

static void collect_process(const struct broker *broker)
{
        struct rusage usage;

        if (getrusage(RUSAGE_SELF, &usage) == 0)
                metrics_total(METRIC_PROCESS_CPU,
                              seconds(&usage.ru_utime) + seconds(&usage.ru_stime));
        collect_resident(broker->statm_fd);
}

void collect_metrics(void *data)
{
        const struct broker *broker = data;

        sessions_collect(broker->sessions);
        hub_collect(broker->hub);
        collect_process(broker);
        if (*node_name())
                metrics_set(METRIC_NODE_INFO, 1, node_name());
        metrics_total(METRIC_LOG_ERRORS, (double)log_errors());
}

void collect_begin(void)
{
        struct timeval now;

        gettimeofday(&now, NULL);
        metrics_set(METRIC_PROCESS_START, seconds(&now));
        metrics_set(METRIC_BUILD_INFO, 1, CLOISTER_VERSION);
}
