/* Commands of the owner about the whole server: server/reload and server/drain. */
#pragma once

#include <stdint.h>

#include "supervisor/broker/control.h"
#include "supervisor/broker/reload.h"

/* The actions of a `cloister serve`. Other servers have none: NULL in the context of their control. */
struct control_service {
        void *data;
        void (*reload)(void *data, struct reload_waiter *waiter);
        void (*forget)(void *data, struct reload_waiter *waiter);
        /* deadline_ms: 0: none. */
        int (*drain)(void *data, uint64_t deadline_ms, struct error *err);
        int (*undo_drain)(void *data, struct error *err);
};

int control_reload(struct control_client *client, struct control *control,
                   struct jsonrpc_message *request, struct error *err);
int control_drain(const struct control_context *context, yyjson_val *params, struct buffer *result,
                  struct error *err);
