/* The body of a response without libcurl: bytes that the test has, and an exchange that only notes whether
 * it is paused. */
#pragma once

#include <assert.h>

#include "supervisor/hub/http/exchange.h"
#include "supervisor/hub/http/incoming.h"

struct rig {
        struct incoming in;
        struct exchange exchange;
};

static inline void rig_init(struct rig *rig, struct exchange_loop *loop,
                            const struct incoming_host *host, void *data)
{
        rig->exchange = (struct exchange){.loop = loop};
        incoming_init(&rig->in, loop->base, host, data);
}

/* As an exchange gives them. *is_over: set by the host when the incoming has ended or was freed. Waits
 * in the loop while the exchange is paused. */
static inline void rig_feed(struct rig *rig, const char *bytes, size_t n, size_t piece,
                            const bool *is_over)
{
        size_t at = 0, kept = 0;

        while (at < n && !*is_over) {
                if (rig->exchange.is_paused) {
                        event_base_loop(rig->exchange.loop->base, EVLOOP_ONCE);
                        continue;
                }
                if (kept == 0)
                        kept = n - at < piece ? n - at : piece;
                size_t used = incoming_feed(&rig->in, bytes + at, kept);
                if (*is_over)
                        return;
                assert(used <= kept && (used > 0 || rig->exchange.is_paused));
                at += used;
                kept -= used;
        }
}
