/*
 * The processes of servers whose config says "instances": "principal": one for each principal that calls the server.
 *
 * It is started at the first call, and ended with the principal, or when it was unused for the config's `idle`. The
 * server of the catalogue has such a process only while it lists the tools.
 */
#pragma once

#include <event2/event_struct.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "supervisor/hub/server/server.h"

enum {
        INSTANCES_MAX = CONFIG_INSTANCES_MAX,
        INSTANCES_OF_ONE = INSTANCES_MAX / 4, /* of a principal */
};

struct instance {
        LIST_ENTRY(instance) link;
        struct instances *instances;
        struct hub_server *of; /* borrowed: the server of the catalogue */
        struct hub_server *server;
        struct event idle;
        char principal[];
};

struct instances {
        LIST_HEAD(instance_list, instance) list;
        struct hub_server_host host; /* of these servers: set by the owner */
        uint32_t idle_ms;            /* set by the owner */
};

/* The server of the principal, which is made if it does not exist. Returns NULL and why. */
struct hub_server *instances_get(struct instances *instances, struct hub_server *of,
                                 struct book_principal principal, struct error *err);
/* Those of a principal end; NULL: all, as by hub_server_free(). */
void instances_end(struct instances *instances, const char *principal);
/* After a reload: each takes the entry of its server, or ends if that is not among the servers. */
void instances_reload(struct instances *instances, struct hub_server *const *servers, size_t n);
