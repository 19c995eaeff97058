/* Starts the broker in its own namespaces. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/options/options.h"

struct broker_launch {
        const struct ids *ids;
        const char *program;    /* path of `cloister-broker` */
        int filter_fd;          /* FILTER_BROKER or FILTER_BROKER_HTTP (borrowed) */
        int egress_filter_fd;   /* FILTER_EGRESS (borrowed), or -1: no session has a network */
        bool has_http;          /* it may reach servers by HTTP */
        int control_fd;         /* the control socket (borrowed), or -1 */
        int log_fd;             /* for its log (borrowed), or -1: standard error */
        const char *state_path; /* directory that the broker may write, or NULL */
        const struct options *options; /* its mode, and what `cloister` passes to it */
};

/* Returns its pid, which is added to children. *link: our end of its SOCK_SEQPACKET pair. */
pid_t broker_launch(const struct broker_launch *how, struct children *children, int *link,
                    struct error *err);
