/* The table of frames. Background tasks run between cells, so calls are legal then, but a result is
 * not. A display may be late, from a thread of the cell that has just ended. */
#include "supervisor/session/frame-table.h"

#include <errno.h>

#include "supervisor/session/calls.h"
#include "supervisor/session/files.h"
#include "supervisor/session/input.h"
#include "supervisor/session/session-internal.h"

#define IN(state) (1u << (state))

struct frame_rule {
        uint8_t type;
        unsigned states;
        int (*handle)(struct session *session, const struct frame_header *header,
                      struct frame_body *body, struct error *err);
};

enum {
        WITH_CELL = IN(SESSION_RUNNING) | IN(SESSION_INTERRUPTING) | IN(SESSION_DRAINING),
        ALIVE = IN(SESSION_IDLE) | IN(SESSION_KEEPING) | IN(SESSION_FREEZING) | IN(SESSION_FROZEN) |
                IN(SESSION_SETTLING) | WITH_CELL,
};

/* ASK is reserved: not legal in any state yet. In RESTORING no frame is taken. */
static const struct frame_rule rules[] = {
        {FRAME_RESULT, WITH_CELL, session_on_result},
        {FRAME_CALL, ALIVE, calls_on_call},
        {FRAME_QUERY, ALIVE, calls_on_query},
        {FRAME_DROP, ALIVE, calls_on_drop},
        {FRAME_LOG, ALIVE, session_on_log},
        {FRAME_DISPLAY, ALIVE, session_on_display},
        {FRAME_DATA, ALIVE, files_on_data},
        {FRAME_PROGRESS, ALIVE, session_on_progress},
        {FRAME_KEPT, ALIVE, session_on_kept},
        {FRAME_RESTORED, IN(SESSION_WAKING), session_on_restored},
        {FRAME_READ, WITH_CELL, input_on_read},
};

int frame_dispatch(struct session *session, const struct frame_header *header,
                   struct frame_body *body, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
                if (rules[i].type != header->type)
                        continue;
                if (rules[i].states & IN(session->state))
                        return rules[i].handle(session, header, body, err);
                return error_set(err, EPROTO, "%s frame while the session is %s",
                                 frame_type_name(header->type), session_state_name(session->state));
        }
        return error_set(err, EPROTO, "%s frame (0x%02x), which a worker may not send",
                         frame_type_name(header->type), header->type);
}
