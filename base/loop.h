/*
 * The process's event loop. It stops when libevent warns: then something is not watched (epoll_ctl
 * or epoll_wait failed, for want of memory), and its waiters would wait without an end.
 */
#pragma once

#include <event2/event.h>
#include <stddef.h>

/* One in a process. NULL: no memory. */
struct event_base *loop_new(void);

/* Frees an event, or NULL, and empties the variable. */
static inline void loop_event_free(struct event **event)
{
        if (*event)
                event_free(*event);
        *event = NULL;
}

/* Until event_base_loopbreak(). Returns 0, or -EIO after a warning, which was logged. */
int loop_run(struct event_base *base);
/* One turn: 1 when there is to be another. */
int loop_turn(struct event_base *base);

/* NULL among them is allowed. */
static inline void loop_free_events(struct event *const *events, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (events[i])
                        event_free(events[i]);
}
