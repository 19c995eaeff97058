/* Checks the state in which a frame arrives, and calls its handler. Background tasks run between
 * cells, so calls are legal then, but a result is not. A display may be late, from a thread of the
 * cell that has just ended. */
#include "supervisor/session/frame-table.h"

#include <errno.h>
#include <string.h>

#include "supervisor/session/calls/calls.h"
#include "supervisor/session/calls/decisions.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/calls/install.h"
#include "supervisor/session/calls/pictures.h"
#include "supervisor/session/cell/cell-result.h"
#include "supervisor/session/hold.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/state/block.h"
#include "supervisor/session/state/copies.h"
#include "supervisor/session/state/restore.h"

/* ---- frames of the running cell ---- */

static int on_result(struct session *s, const struct frame_header *header, struct frame_body *body,
                     struct error *err)
{
        struct cell *cell = session_current(s);

        if (!cell || header->id != cell->number)
                return error_set(err, EPROTO, "RESULT for cell %llu while cell %llu runs",
                                 (unsigned long long)header->id,
                                 (unsigned long long)(cell ? cell->number : 0));
        if (cell->has_result)
                return error_set(err, EPROTO, "a second RESULT for cell %llu",
                                 (unsigned long long)cell->number);
        if (s->copies->back == BACK_BLOCK)
                return error_set(err, EPROTO, "RESULT of cell %llu while a block is rolled back",
                                 (unsigned long long)cell->number);
        yyjson_val *root;
        int r = frame_body_parse(body, header, &root, err);
        if (r >= 0)
                r = cell_take_result(cell, &body->doc, err);
        if (r < 0)
                return r;
        pictures_take_result(s);
        return 0;
}

/* Returns 1 with the body of a frame of the running cell. 0: a thread or task that an earlier cell left behind has sent it,
 * and it is dropped. */
static int parse_of_cell(struct session *s, const struct frame_header *header,
                         struct frame_body *body, yyjson_val **root, struct error *err)
{
        const struct cell *cell = session_current(s);

        if (header->id > s->queue.last_number)
                return error_set(err, EPROTO, "%s for cell %llu, which has not begun",
                                 frame_type_name(header->type), (unsigned long long)header->id);
        if (!cell || header->id != cell->number)
                return 0;
        if (header->type != FRAME_DISPLAY && !cell_is_published(cell))
                return error_set(err, EPROTO, "%s from code that is not published",
                                 frame_type_name(header->type));
        int r = frame_body_parse(body, header, root, err);
        return r < 0 ? r : 1;
}

static int on_display(struct session *s, const struct frame_header *header, struct frame_body *body,
                      struct error *err)
{
        struct cell *cell = session_current(s);
        yyjson_val *root;

        int r = parse_of_cell(s, header, body, &root, err);
        if (r > 0 && yyjson_obj_get(root, "block") && !cell_is_published(cell))
                return error_set(err, EBADMSG,
                                 "DISPLAY with a block, from code that is not published");
        if (r <= 0)
                return r;
        r = cell_take_display(&cell->outcome, root, &body->text, err);
        if (r >= 0)
                pictures_take_display(s);
        return r;
}

/* Of published code only. */
static int pass_on(struct session *s, const struct frame_header *header, struct frame_body *body,
                   struct error *err)
{
        struct cell *cell = session_current(s);
        yyjson_val *root;

        int r = parse_of_cell(s, header, body, &root, err);
        if (r > 0 && cell->request.told && !cell->cancelled)
                cell->request.told(cell->request.data, header->type, root);
        return r < 0 ? r : 0;
}

static int on_log(struct session *s, const struct frame_header *header, struct frame_body *body,
                  struct error *err)
{
        if (header->id != 0)
                return pass_on(s, header, body, err);
        log_debug("session %s: worker: %.*s", s->name,
                  header->length > 500 ? 500 : (int)header->length, body->bytes);
        return 0;
}

/* ---- queries ---- */

/* clear_output(). The pipes have all output that the code wrote before this frame, and the code waits for the answer before it
 * writes more. Output that was passed on cannot be taken back. */
static int on_clear(struct session *s, uint64_t number, yyjson_val *root, struct error *err)
{
        struct cell *cell = session_current(s);

        if (cell && (s->state == SESSION_RUNNING || s->state == SESSION_INTERRUPTING)) {
                streams_drain(&s->streams);
                cell_outcome_clear(&cell->outcome);
        }
        answer_confirm(&s->channel, number);
        return 0;
}

static int on_query(struct session *s, const struct frame_header *header, struct frame_body *body,
                    struct error *err)
{
        static const struct {
                const char *what;
                int (*handle)(struct session *s, uint64_t number, yyjson_val *root,
                              struct error *err);
        } kinds[] = {
                {"catalogue", calls_on_catalogue}, {"search", calls_on_search},
                {"undo", checkpoint_on_undo},      {"install", install_begin},
                {"transaction", block_on_query},   {"clear", on_clear},
                {"rules", calls_on_rules},
        };
        yyjson_val *root;

        if (s->state == SESSION_DRAINING)
                return 0;
        int r = frame_body_parse(body, header, &root, err);
        if (r < 0)
                return r;
        const char *what = json_string(root, "what", NULL);
        for (size_t i = 0; what && i < ARRAY_SIZE(kinds); i++) {
                if (strcmp(what, kinds[i].what) == 0)
                        return kinds[i].handle(s, header->id, root, err);
        }
        return error_set(err, EBADMSG, "QUERY for something unknown");
}

/* ---- the table ---- */

#define IN(state) (1u << (state))

/* Sets of states: a column of frames.def. In RESTORING no frame is legal. */
enum {
        NEVER = 0,
        CELL = IN(SESSION_RUNNING) | IN(SESSION_INTERRUPTING) | IN(SESSION_DRAINING),
        ALIVE = IN(SESSION_IDLE) | IN(SESSION_KEEPING) | IN(SESSION_FREEZING) | IN(SESSION_FROZEN) |
                IN(SESSION_SWEEPING) | IN(SESSION_SETTLING) | CELL,
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
        [FRAME_RESULT] = on_result,    [FRAME_CALL] = calls_on_call,
        [FRAME_QUERY] = on_query,      [FRAME_DROP] = calls_on_drop,
        [FRAME_LOG] = on_log,          [FRAME_DISPLAY] = on_display,
        [FRAME_DATA] = files_on_data,  [FRAME_PROGRESS] = pass_on,
        [FRAME_KEPT] = copies_on_kept, [FRAME_RESTORED] = restore_on_restored,
        [FRAME_READ] = input_on_read,  [FRAME_SETTLED] = hold_on_settled,
};

int frame_dispatch(void *data, const struct frame_header *header, struct frame_body *body,
                   struct error *err)
{
        const char *name = frame_type_name(header->type);
        struct session *session = data;

        if (!states[header->type] || !handlers[header->type])
                return error_set(err, EPROTO, "%s frame (0x%02x), which a worker may not send",
                                 name, header->type);
        if (!(states[header->type] & IN(session->state)))
                return error_set(err, EPROTO, "%s frame while the session is %s", name,
                                 session_state_name(session->state));
        return handlers[header->type](session, header, body, err);
}
