/* Standard input of code. */
#include "supervisor/session/calls/input.h"

#include <errno.h>

#include "base/base64.h"
#include "base/json.h"
#include "supervisor/session/channel/answer.h"
#include "supervisor/session/machine/machine.h"

enum { ANSWER_MAX = FRAME_READ_MAX * 2 };

static bool is_waiting(const struct session *session, const struct cell *cell)
{
        return cell && session->input->cell == cell->number;
}

int input_on_read(struct session *session, const struct frame_header *header,
                  struct frame_body *body, struct error *err)
{
        struct cell *cell = session_current(session);
        int64_t length = 0;
        yyjson_val *root;

        if (!cell || !cell->standard_input)
                return error_set(err, EPROTO, "READ from code that has no standard input");
        if (is_waiting(session, cell))
                return error_set(err, EPROTO, "a second READ before the answer to the first one");
        int r = frame_body_parse(body, header, &root, err);
        if (r < 0)
                return r;
        if (json_int64(yyjson_obj_get(root, "length"), &length) < 0 || length < 1 ||
            length > FRAME_READ_MAX)
                return error_set(err, EBADMSG, "READ of less than 1 or more than %d bytes",
                                 FRAME_READ_MAX);
        if (session->state == SESSION_DRAINING)
                return 0;
        *session->input = (struct session_input){cell->number, header->id};
        cell->standard_input->read(cell->data, (size_t)length);
        return 0;
}

int input_on_drop(struct session *session, uint64_t number)
{
        struct cell *cell = session_current(session);

        if (is_waiting(session, cell) && session->input->number == number) {
                *session->input = (struct session_input){};
                cell->standard_input->drop(cell->data);
        }
        return 0;
}

void cell_give_input(struct cell *cell, const char *bytes, size_t n)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(ANSWER_MAX);
        struct session *session = cell->session;
        uint64_t number = session->input->number;

        if (!is_waiting(session, cell))
                return;
        *session->input = (struct session_input){};
        int r = buffer_append_text(&b, "{\"ok\":true,\"result\":\"");
        if (r >= 0)
                r = base64_append(&b, bytes, n);
        if (r >= 0)
                r = buffer_append_text(&b, "\"}");
        if (r >= 0)
                r = channel_send(&session->channel, FRAME_RETURN, number, buffer_bytes(&b),
                                 b.length);
        /* Otherwise the code would take lost bytes for read ones. */
        if (r < 0 && r != -ENOTCONN)
                answer_refuse(&session->channel, number, "a part of the standard input was lost");
}
