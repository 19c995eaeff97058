/* The broker's arguments. The command line and the monitor write them: an error in them is a bug of
 * ours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum broker_what { BROKER_MCP, BROKER_RUN, BROKER_TOOLS, BROKER_SERVE };

enum { BROKER_LISTENERS_MAX = 4, BROKER_NAMES_MAX = 16 };

struct broker_options {
        int filter_fd;        /* -1: none */
        int egress_filter_fd; /* for the process that has the network of sessions; -1: there is none */
        bool has_uid;
        bool has_http; /* servers are reached by HTTP */
        uid_t uid;
        const char *state_path; /* or NULL */
        const char *profile;    /* or NULL */
        int log_level;          /* negative: the default */
        int log_fd;             /* -1: standard error */
        int log_format;         /* enum log_format */
        enum broker_what what;
        int control_fd;     /* listens for the owner; -1: none */
        int code_fd;        /* run; -1 else */
        int attestation_fd; /* mcp, serve: a report for the resource cloister://attestation, or -1 */
        int listen_fds[BROKER_LISTENERS_MAX]; /* serve: listening sockets */
        size_t n_listen_fds;
        int helper_fd; /* serve: rpc/serve-messages.h, or -1 */
        int tokens_fd; /* serve: a file of tokens (supervisor/http/access.h), or -1 */
        const char *hosts[BROKER_NAMES_MAX], *origins[BROKER_NAMES_MAX]; /* serve: allowed ones */
        size_t n_hosts, n_origins;
        const char *name; /* run: what tracebacks call the code */
        int in_fd;        /* run: a stream of files for /workspace (rpc/file-stream.h), or -1 */
        int out_fd;       /* run: a socket that takes such a stream, or -1 */
        int script_fd;    /* run: JSON of the SCRIPT frame (rpc/frame.h), or -1 */
        int stdin_fd;     /* run: a socket to the process that reads standard input, or -1 */
        bool out_hidden;  /* run: names with a leading dot too */
        bool has_timeout;
        uint32_t timeout_ms; /* run */
        bool json;           /* tools */
        bool no_tools;       /* run: no server is started */
};

/* Strings are borrowed from argv. argv[0] is skipped. */
int broker_options_parse(int argc, char **argv, struct broker_options *ret, struct error *err);
