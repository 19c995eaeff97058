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
        uint32_t
                code; /* 0, the number of a published entry, or a layer: CONFIG_TARGET_LAYER (policy/config/config.h) */
};

/* The callee takes ownership of descriptors. */
struct link_owner {
        void *data;
        /* For each checked event except those of the config. */
        void (*received)(void *data, const struct monitor_message *message);
        /* The config was reloaded: later requests have hello->generation. A pending request for an
         * upstream server is not answered any more. */
        void (*reloaded)(void *data, const struct monitor_hello *hello,
                         const struct link_config_file *files, size_t n);
        /* The monitor has ended (error not set) or broke the protocol. Called once; nothing
         * follows. */
        void (*closed)(void *data, const struct error *error);
};

/* Before the loop: waits for HELLO, the config files and READY. files has room for
 * CONFIG_SNAPSHOT_MAX. */
int link_hello(int fd, struct monitor_hello *ret, struct link_config_file *files, size_t *n_files,
               struct error *err);

/* fd is borrowed. */
int link_new(struct link **ret, struct event_base *base, int fd, uint32_t generation,
             const struct link_owner *owner, struct error *err);
struct link *link_free(struct link *link);

/* Sends a request, now or when the socket takes it; the link sets its serial and generation. Returns 0,
 * and the serial if that is not NULL, or negative errno. */
int link_request(struct link *link, const struct monitor_request *request, uint32_t *serial);
