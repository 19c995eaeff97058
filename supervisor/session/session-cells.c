/* A session's queue of cells. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "supervisor/session/display.h"
#include "supervisor/session/outcome.h"
#include "supervisor/session/session-internal.h"
#include "supervisor/session/streams.h"

bool session_has_cells(const struct session *s)
{
        return s->cells != NULL;
}

bool session_is_full(const struct session *s)
{
        return s->n_cells >= SESSION_CELLS_MAX;
}

bool cell_is_first(const struct cell *cell)
{
        const struct cell *first = cell->session->cells;

        /* A branch has a time limit of its own. */
        while (first && first->kind != CELL_CODE)
                first = first->next;
        return first == cell;
}

void session_end_cell(struct session *s, struct cell *cell)
{
        for (struct cell **at = &s->cells; *at; at = &(*at)->next) {
                if (*at == cell) {
                        *at = cell->next;
                        break;
                }
        }
        s->n_cells--;
        if (cell->number != 0)
                session_note_owners_end(s, cell);
        const struct log_ids ids = session_log_ids(s, cell);
        log_event(cell->is_probe ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, &ids,
                  "cell ended: %s in %llu ms%s%s", cell_status_name(cell->outcome.status),
                  (unsigned long long)(cell->outcome.duration_us / 1000),
                  *cell->outcome.why ? ", " : "", cell->outcome.why);
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_finish(&cell->outcome.streams[i]);
        if (cell->number != 0 && cell->kind == CELL_CODE) {
                receipts_add(&s->receipts, cell->number, &cell->outcome);
                session_tasks_ask(s, cell);
        } else if (cell->number != 0 && cell->kind == CELL_LOAD) {
                session_tasks_begin(s, cell);
        }
        cell->done(cell->data, cell);
        cell_free(cell);
}

void session_refuse_cell(struct session *s, struct cell *cell, enum cell_status status,
                         const char *type, const char *why)
{
        cell->outcome.status = status;
        cell->outcome.state = s->state < SESSION_IDLE ? CELL_STATE_NONE : CELL_STATE_KEPT;
        cell->outcome.error_type = type;
        snprintf(cell->outcome.why, sizeof(cell->outcome.why), "%s", why);
        session_end_cell(s, cell);
}

void session_drop_cancelled(struct session *s)
{
        struct cell *next;

        for (struct cell *cell = s->cells; cell; cell = next) {
                next = cell->next;
                if (cell->cancelled && cell->number == 0)
                        session_refuse_cell(s, cell, CELL_CANCELLED, NULL,
                                            "the call was cancelled before it began");
        }
}

/* A cell without a file name is called by its number. */
static int complete_payload(struct cell *cell)
{
        if (buffer_bytes(&cell->payload)[cell->payload.length - 1] != '\0')
                return 0;
        int r = buffer_append_text(&cell->payload, "<cell ");
        if (r >= 0)
                r = buffer_append_number(&cell->payload, (int64_t)cell->number);
        return r < 0 ? r : buffer_append_text(&cell->payload, ">");
}

static void note_start(struct session *s, struct cell *cell)
{
        bool fresh = session_note_owner(s, cell);

        cell->outcome.state = fresh ? CELL_STATE_NEW : CELL_STATE_KEPT;
        if (fresh)
                snprintf(cell->outcome.before, sizeof(cell->outcome.before), "%s", s->lost);
        if (!cell->is_owners) {
                s->lost[0] = '\0';
                session_copy_note(s, cell);
        }
        s->transaction.state = cell->rolls_back ? TRANSACTION_RUNNING : TRANSACTION_NONE;
        bool has_copy = s->copy.asked_after == s->last_number;
        cell->number = ++s->last_number;
        cell->started_us = clock_us();
        if (cell->is_probe) {
                s->copy.asked_after = has_copy ? s->last_number : s->copy.asked_after;
                return;
        }
        s->n_run++;
        s->last.started_us = cell->started_us;
        memcpy(s->last.code, cell->excerpt, sizeof(s->last.code));
        const struct log_ids ids = session_log_ids(s, cell);
        log_event(LOG_LEVEL_DEBUG, &ids, "cell begins");
}

static uint8_t frame_of(const struct cell *cell)
{
        return cell->is_probe ? FRAME_PROBE : cell->check_only ? FRAME_CHECK : FRAME_EXEC;
}

int session_send_cell(struct session *s)
{
        struct cell *cell = s->cells;

        streams_begin(s, cell);
        if (cell->kind == CELL_CODE)
                session_send_catalogue(s);
        note_start(s, cell);
        if (cell->kind != CELL_CODE)
                return session_send_branch(s, cell);
        int r = complete_payload(cell);
        if (r >= 0 && cell_is_published(cell))
                r = channel_send(&s->channel, FRAME_INPUT, cell->number, buffer_bytes(&cell->input),
                                 cell->input.length);
        if (r >= 0 && cell->script.length > 0)
                r = channel_send(&s->channel, FRAME_SCRIPT, cell->number,
                                 buffer_bytes(&cell->script), cell->script.length);
        if (r >= 0 && cell->needs.length > 0 && !cell->check_only)
                r = channel_send(&s->channel, FRAME_NEED, cell->number, buffer_bytes(&cell->needs),
                                 cell->needs.length);
        if (r >= 0)
                r = channel_send(&s->channel, frame_of(cell), cell->number,
                                 buffer_bytes(&cell->payload), cell->payload.length);
        /* Read while the worker wakes up: it has used almost no CPU time for the cell by then. */
        cell->cpu_before_us = usage_cpu_us(session_usage_kind(s), s->cpu_fd);
        outcome_begin_peak(s, cell);
        cell->sent_as = s->channel.queued;
        cell->attempts++;
        if (s->n_run > 1 || cell->is_probe)
                buffer_done(&cell->payload);
        return r;
}

bool session_take_back_cell(struct session *s)
{
        struct cell *cell = session_current(s);

        if (!cell || cell->is_probe || s->n_run != 1 || s->end != END_NONE ||
            cell->attempts >= CELL_ATTEMPTS_MAX || s->streams[CELL_STDOUT].has_come ||
            s->streams[CELL_STDERR].has_come || !channel_was_unread(&s->channel, cell->sent_as))
                return false;
        cell->number = 0;
        s->last_number--;
        snprintf(s->lost, sizeof(s->lost), "%s", cell->outcome.before);
        return true;
}

void session_send_catalogue(struct session *s)
{
        const struct tool_provider *tools = &s->context->tools;
        uint64_t version = 0;
        const struct buffer *catalogue = tools->catalogue(tools->data, s->profile, &version);

        if (!catalogue || version <= s->catalogue)
                return;
        int r = channel_send(&s->channel, FRAME_CATALOG, version, buffer_bytes(catalogue),
                             catalogue->length);
        if (r < 0)
                log_warning("session %s: catalogue of %zu bytes not sent: %s", s->name,
                            catalogue->length, strerror(-r));
        else
                s->catalogue = version;
}

/* Idle workers get the catalogue with their next cell. */
void session_catalogue_changed(struct session *s)
{
        if (s->state == SESSION_RUNNING || s->state == SESSION_INTERRUPTING)
                session_send_catalogue(s);
}

/* A DISPLAY of an earlier cell, from a thread or task that it left behind, is dropped. */
int session_on_display(struct session *s, const struct frame_header *header,
                       struct frame_body *body, struct error *err)
{
        struct cell *cell = session_current(s);
        yyjson_val *root;

        if (header->id > s->last_number)
                return error_set(err, EPROTO, "DISPLAY for cell %llu, which has not begun",
                                 (unsigned long long)header->id);
        if (!cell || header->id != cell->number)
                return 0;
        int r = frame_body_parse(body, header, &root, err);
        if (r >= 0 && yyjson_obj_get(root, "block") && !cell_is_published(cell))
                return error_set(err, EBADMSG,
                                 "DISPLAY with a block, from code that is not published");
        return r < 0 ? r : cell_take_display(&cell->outcome, root, &body->text, err);
}

/* Of published code only; of an earlier cell it is dropped. */
static int pass_on(struct session *s, const struct frame_header *header, struct frame_body *body,
                   struct error *err)
{
        struct cell *cell = session_current(s);
        yyjson_val *root;

        if (header->id > s->last_number)
                return error_set(err, EPROTO, "%s for cell %llu, which has not begun",
                                 frame_type_name(header->type), (unsigned long long)header->id);
        if (!cell || header->id != cell->number)
                return 0;
        if (!cell_is_published(cell))
                return error_set(err, EPROTO, "%s from code that is not published",
                                 frame_type_name(header->type));
        int r = frame_body_parse(body, header, &root, err);
        if (r >= 0 && cell->told && !cell->cancelled)
                cell->told(cell->data, header->type, root);
        return r;
}

int session_on_progress(struct session *s, const struct frame_header *header,
                        struct frame_body *body, struct error *err)
{
        return pass_on(s, header, body, err);
}

int session_on_log(struct session *s, const struct frame_header *header, struct frame_body *body,
                   struct error *err)
{
        if (header->id != 0)
                return pass_on(s, header, body, err);
        log_debug("session %s: worker: %.*s", s->name,
                  header->length > 500 ? 500 : (int)header->length, body->bytes);
        return 0;
}
