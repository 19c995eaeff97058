/*
 * The entries of "rule_tests" that a condition on a host decides, at a reload. The monitor has no parser of URLs: a child of it runs the
 * entries, and cloister-oauth, which confines itself, reads the URLs for that child.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/monitor/process/child-task.h"

/* Whether an entry of the config cannot be decided without a parser of URLs. */
bool monitor_rule_tests_need_urls(const struct config *config);

/* One run of them. Embedded; all zero: none. child_task_cancel(task) ends it. */
struct monitor_rule_tests {
        struct child_task *task; /* NULL: none runs */
        void (*done)(void *data, const struct error *error);
        void *data;
};

/* Starts the child. config is borrowed during the call. done() is called once, from the loop, with the first entry that failed, or with the
 * reason why the entries could not be run. error: NULL: all have passed. */
int monitor_rule_tests_start(struct monitor_rule_tests *tests, struct child_tasks *tasks,
                             struct config *config, struct error *err);
