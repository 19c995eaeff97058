/*
 * The broker's end of the boundary (rpc/monitor-messages.h): requests out, events in.
 *
 * Every event is checked against the request that it answers. An event that does not fit ends the
 * broker, as the end of the monitor does.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/monitor-messages.h"

struct link;

/* A config file: a sealed memfd, owned. */
struct link_config_file {
        char path[512];
        int fd;
        uint32_t code; /* 0, or of the published entry with this number, from 1 */
};

/* Called for the monitor's events. The callee takes ownership of descriptors. serial is that of
 * link_request(). */
struct link_events {
        void *data;
        void (*session_started)(void *data, uint32_t serial, uint32_t target,
                                const int fds[SESSION_FDS]);
        void (*session_failed)(void *data, uint32_t serial, const struct error *error);
        void (*session_ended)(void *data, uint32_t target, const struct monitor_ended *ended);
        /* fds: its new counters. */
        void (*session_cleared)(void *data, uint32_t target, const struct monitor_ended *ended,
                                const int fds[SESSION_COUNTERS]);
        /* A copy has ended by itself. pid: in the sandbox. */
        void (*session_gone)(void *data, uint32_t target, uint32_t pid);
        void (*session_counted)(void *data, uint32_t target, const struct monitor_counted *counted);
        void (*session_memory)(void *data, uint32_t target, uint64_t bytes);
        /* The answer to SESSION_KEEP; error may be NULL. */
        void (*session_kept)(void *data, uint32_t target, const struct error *error);
        void (*upstream_started)(void *data, uint32_t index, uint32_t instance, const int fds[3]);
        void (*upstream_failed)(void *data, uint32_t index, const struct error *error);
        void (*upstream_ended)(void *data, uint32_t instance, int wait_status);
        /* A requested freeze is done. */
        void (*session_frozen)(void *data, uint32_t target);
        /* From now on the usage files of sessions are of this kind (enum monitor_usage). */
        void (*limits)(void *data, uint32_t usage);
        /* The config was reloaded: later requests have hello->generation. A pending request for an
         * upstream server is not answered any more. */
        void (*reloaded)(void *data, const struct monitor_hello *hello,
                         const struct link_config_file *files, size_t n);
        /* The monitor has ended (error not set) or broke the protocol. Called once; nothing
         * follows. */
        void (*closed)(void *data, const struct error *error);
        /* A session that is about to start has a listener, which the callee takes. */
        void (*session_network)(void *data, uint32_t target, int listener);
        /* The answer to INSTALLER_START. */
        void (*installer_started)(void *data, uint32_t serial, uint32_t instance, const int fds[3]);
        void (*installer_failed)(void *data, uint32_t serial, const struct error *error);
};

/* Before the loop: waits for HELLO, the config files and READY. files has room for
 * CONFIG_SNAPSHOT_MAX. */
int link_hello(int fd, struct monitor_hello *ret, struct link_config_file *files, size_t *n_files,
               struct error *err);

/* fd is borrowed. */
int link_new(struct link **ret, struct event_base *base, int fd, uint32_t generation,
             const struct link_events *events, struct error *err);
struct link *link_free(struct link *link);

/* Sends a request, now or when the socket takes it. Returns 0 with its serial, or negative errno.
 */
int link_request(struct link *link, enum monitor_verb verb, uint32_t target, uint32_t *serial);
/* The same with the members `number` and `instead`, which may be NULL. */
int link_request_copy(struct link *link, enum monitor_verb verb, uint32_t target, uint32_t number,
                      const uint32_t instead[MONITOR_INSTEAD_MAX], uint32_t *serial);
