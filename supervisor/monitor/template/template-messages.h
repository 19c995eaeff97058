/*
 * The standard error of a template: warnings of packages, errors of CPython. It goes into the log,
 * up to a budget for each period; what is beyond is read and dropped, at a bounded rate.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"

struct template_messages;

enum {
        TEMPLATE_MESSAGES_BUDGET = 16 * 1024, /* bytes logged in a period */
        TEMPLATE_MESSAGES_PERIOD_MS = 10000,
        TEMPLATE_MESSAGES_PAUSE_MS = 10, /* between two reads beyond the budget */
};

/* fd: the read end of a pipe, owned by the callee on success. */
int template_messages_new(struct event_base *base, int fd, struct template_messages **ret,
                          struct error *err);
struct template_messages *template_messages_free(struct template_messages *messages);
