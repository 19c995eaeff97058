/*
 * The layout of a sandbox as seen from inside, and the descriptors of the template across its exec.
 * Data only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Descriptors of the template while it makes sessions; TEMPLATE_CONTROL_FD is 3. */
enum {
        LAYOUT_INIT_FD = 4,
        LAYOUT_WORKER_FILTER_FD = 5,
        LAYOUT_INIT_FILTER_FD = 6,
        LAYOUT_PLAN_FD = 7, /* sealed memfd: struct template_plan */
        LAYOUT_SYNCS_FD =
                8, /* memfd: the syncs of all sessions of the template (rpc/sandbox-messages.h) */
        LAYOUT_DRAFT_FD = 9, /* empty memfds, until the template is warm (worker/memory/image.h) */
        LAYOUT_HEAP_FD = 10,
        LAYOUT_FD_END = 11,
        LAYOUT_MODULE_FD = 11, /* cloister-module, until it is loaded */
};

/* The RPC socket is this far below the limit of open files: code that opens files gets the lowest
 * free numbers and does not meet it. */
enum { LAYOUT_RPC_FD_MARGIN = 24 };

#define LAYOUT_HOSTNAME  "cloister"
#define LAYOUT_WORKSPACE "/workspace"
#define LAYOUT_OUT       LAYOUT_WORKSPACE "/out" /* files for the client */

/* Whether a target is below a directory on which each session mounts its own tmpfs. */
static inline bool layout_is_late(const char *target)
{
        static const char *const covered[] = {"/workspace", "/tmp"};

        for (size_t i = 0; i < sizeof(covered) / sizeof(covered[0]); i++) {
                size_t n = strlen(covered[i]);
                if (strncmp(target, covered[i], n) == 0 && (target[n] == '/' || target[n] == '\0'))
                        return true;
        }
        return false;
}

/* The environment of the guest. */
#define LAYOUT_VARIABLES                                                                           \
        "PATH=/usr/local/bin:/usr/bin:/bin", ("HOME=" LAYOUT_WORKSPACE), "USER=agent",             \
                "LOGNAME=agent", "SHELL=/bin/sh", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TMPDIR=/tmp", \
                "TZ=UTC", "TERM=dumb"

/* Where a session finds the modules of the JavaScript worker: a read-only tmpfs in /dev, because every image has that. */
#define LAYOUT_MODULES "cloister"

/* argv[0] of cloister-init as the template of a profile with JavaScript. */
#define LAYOUT_JAVASCRIPT_TEMPLATE "cloister-javascript"

/* Where images made of a CPython have CA certificates (rootfs/contents.c). */
#define LAYOUT_CERTIFICATES          "/etc/ssl/certs/ca-certificates.crt"
#define LAYOUT_CERTIFICATES_VARIABLE ("SSL_CERT_FILE=" LAYOUT_CERTIFICATES)

/* Of a session with a network: what programs find the proxy by (EGRESS_PORT). */
#define LAYOUT_PROXY "http://127.0.0.1:3128"
#define LAYOUT_PROXY_VARIABLES                                                                     \
        ("HTTP_PROXY=" LAYOUT_PROXY), ("http_proxy=" LAYOUT_PROXY), ("HTTPS_PROXY=" LAYOUT_PROXY), \
                ("https_proxy=" LAYOUT_PROXY), ("ALL_PROXY=" LAYOUT_PROXY),                        \
                ("all_proxy=" LAYOUT_PROXY), "NO_PROXY=localhost,127.0.0.1,::1",                   \
                "no_proxy=localhost,127.0.0.1,::1"
