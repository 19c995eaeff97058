/* Which frame a worker may send in which state of its session, and which function handles it. */
#pragma once

#include "rpc/frame.h"
#include "supervisor/session/channel/frame-body.h"

/* Passes a frame to its handler: frame() of a channel whose owner is a session. -EPROTO with the reason when the frame is not legal now. */
int frame_dispatch(void *data, const struct frame_header *header, struct frame_body *body,
                   struct error *err);
