/* Which frame a worker may send in which state of its session, and which function handles it. */
#pragma once

#include "rpc/frame.h"
#include "supervisor/session/channel/frame-body.h"

struct session;

/* Passes a frame to its handler. -EPROTO with the reason when the frame is not legal now. */
int frame_dispatch(struct session *session, const struct frame_header *header,
                   struct frame_body *body, struct error *err);
