/*
 * Ends sessions that are over their memory limit, where no control group does.
 *
 * It looks at the processes of each session every 20 to 200 ms, for at most a millisecond at a time: at their CPU clocks, and at their
 * memory if one of them has run.
 * What a session takes between two looks is more than its limit: some hundred MiB a second and
 * processor. It sends the sum to the broker.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "base/error.h"
#include "supervisor/monitor/process/child-task.h"
#include "supervisor/monitor/template/sandbox.h"

struct memory_watch;

struct memory_watch_host {
        struct event_base *base;
        struct child_tasks *tasks;
        struct sandbox *const *sandboxes; /* n slots, of which each is NULL or a sandbox */
        uint32_t n;
        void *data;
        /* What the processes of a sandbox have in use, but init and the copies: resident and swapped
         * pages and page tables. A page that several share counts for each; if the sum is above the limit, it is the exact figure of
         * all processes. Called at the first look, and
         * when it or what its files have has changed by 1 MiB. */
        void (*used)(void *data, struct sandbox *sandbox, uint64_t bytes);
};

/* All borrowed. */
int memory_watch_new(const struct memory_watch_host *host, struct memory_watch **ret,
                     struct error *err);
struct memory_watch *memory_watch_free(struct memory_watch *watch);

/* The sum that was sent last; 0: none. */
uint64_t memory_watch_used(const struct memory_watch *watch, const struct sandbox *sandbox);

/* The sandbox in this slot has ended. */
void memory_watch_forget(struct memory_watch *watch, uint32_t slot);

/* The bytes that all sessions use, files in their tmpfs included, without the pages that each shares with its template; what the one in
 * this slot adds to it. */
uint64_t memory_watch_sum(const struct memory_watch *watch);
uint64_t memory_watch_part(const struct memory_watch *watch, uint32_t slot);

/* A sandbox was put into a slot. */
void memory_watch_wake(struct memory_watch *watch);
