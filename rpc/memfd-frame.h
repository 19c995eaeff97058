/* The payload of a RETURN in a memfd (rpc/frame.h, FRAME_IN_MEMFD). */
#pragma once

#include <stddef.h>
#include <sys/uio.h>

enum { MEMFD_FRAME_MIN = 1024 * 1024 }; /* bytes; shorter ones are as fast in the stream */

/* The bytes before and after the result of a tool in the payload. */
#define RETURN_BEFORE "{\"ok\":true,\"result\":"
#define RETURN_AFTER  "}"
/* Before a result that stands for that of a call which was not sent (docs/plans.md). */
#define RETURN_BLANK_BEFORE "{\"ok\":false,\"blank\":"

/* Makes a memfd of these parts, sealed except against truncation. Returns the descriptor or
 * negative errno. */
int memfd_frame_make(const struct iovec *parts, size_t n);
