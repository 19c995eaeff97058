/*
 * Ends sessions that are over their memory limit, where no control group does.
 *
 * It looks at the processes of each session every 20 to 200 ms, for at most a millisecond at a time.
 * What a session takes between two looks is more than its limit: some hundred MiB a second and
 * processor.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "base/error.h"
#include "supervisor/monitor/process/child-task.h"
#include "supervisor/monitor/template/sandbox.h"

struct memory_watch;

/* All borrowed. sandboxes: n slots, of which each is NULL or a sandbox. */
int memory_watch_new(struct event_base *base, struct child_tasks *tasks,
                     struct sandbox *const *sandboxes, uint32_t n, struct memory_watch **ret,
                     struct error *err);
struct memory_watch *memory_watch_free(struct memory_watch *watch);

/* A sandbox was put into a slot. */
void memory_watch_wake(struct memory_watch *watch);
