/* Checks the state in which a frame arrives, and calls its handler. Background tasks run between
 * cells, so calls are legal then, but a result is not. A display may be late, from a thread of the
 * cell that has just ended. */
#include "supervisor/session/frame-table.h"

#include <errno.h>

#include "supervisor/session/calls.h"
#include "supervisor/session/files.h"
#include "supervisor/session/input.h"
#include "supervisor/session/session-internal.h"

#define IN(state) (1u << (state))

/* Sets of states: a column of frames.def. In RESTORING no frame is legal. */
enum {
        NEVER = 0,
        CELL = IN(SESSION_RUNNING) | IN(SESSION_INTERRUPTING) | IN(SESSION_DRAINING),
        ALIVE = IN(SESSION_IDLE) | IN(SESSION_KEEPING) | IN(SESSION_FREEZING) | IN(SESSION_FROZEN) |
                IN(SESSION_SETTLING) | CELL,
        RESTORED = IN(SESSION_WAKING),
};

enum { TYPES_MAX = UINT8_MAX + 1 };

static const unsigned states[TYPES_MAX] = {
#define FRAME(name, number, sender, payload, most, legal, ...) [number] = legal,
#include "rpc/frames.def"
#undef FRAME
};

static int (*const handlers[TYPES_MAX])(struct session *session, const struct frame_header *header,
                                        struct frame_body *body, struct error *err) = {
        [FRAME_RESULT] = session_on_result, [FRAME_CALL] = calls_on_call,
        [FRAME_QUERY] = calls_on_query,     [FRAME_DROP] = calls_on_drop,
        [FRAME_LOG] = session_on_log,       [FRAME_DISPLAY] = session_on_display,
        [FRAME_DATA] = files_on_data,       [FRAME_PROGRESS] = session_on_progress,
        [FRAME_KEPT] = session_on_kept,     [FRAME_RESTORED] = session_on_restored,
        [FRAME_READ] = input_on_read,
};

int frame_dispatch(struct session *session, const struct frame_header *header,
                   struct frame_body *body, struct error *err)
{
        const char *name = frame_type_name(header->type);

        if (!states[header->type] || !handlers[header->type])
                return error_set(err, EPROTO, "%s frame (0x%02x), which a worker may not send",
                                 name, header->type);
        if (!(states[header->type] & IN(session->state)))
                return error_set(err, EPROTO, "%s frame while the session is %s", name,
                                 session_state_name(session->state));
        return handlers[header->type](session, header, body, err);
}
