/* Cells. */
#include "supervisor/session/cell/cell.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "rpc/background.h"
#include "rpc/frame.h"
#include "supervisor/session/cell/branch.h"

static const char *const status_names[] = {
        [CELL_OK] = "ok",           [CELL_ERROR] = "error",         [CELL_EXIT] = "exit",
        [CELL_TIMEOUT] = "timeout", [CELL_CANCELLED] = "cancelled", [CELL_OOM] = "oom",
        [CELL_KILLED] = "killed",   [CELL_RUNNING] = "running",     [CELL_BUSY] = "busy",
        [CELL_PLANNED] = "planned",
};
static_assert(ARRAY_SIZE(status_names) == CELL_STATUS_MAX, "a name for each status");

static const char *const state_names[] = {
        [CELL_STATE_NONE] = "none",         [CELL_STATE_NEW] = "new",
        [CELL_STATE_KEPT] = "kept",         [CELL_STATE_LOST] = "lost",
        [CELL_STATE_RESTORED] = "restored", [CELL_STATE_ROLLED_BACK] = "rolled_back",
};
static_assert(ARRAY_SIZE(state_names) == CELL_STATE_MAX, "a name for each state");

const char *cell_status_name(enum cell_status status)
{
        return status_names[status];
}

const char *cell_state_name(enum cell_state state)
{
        return state_names[state];
}

void text_append(char *to, size_t size, const char *format, ...)
{
        size_t n = strlen(to);
        va_list args;

        va_start(args, format);
        vsnprintf(to + n, size - n, format, args);
        va_end(args);
}

/* The payload of EXEC; a cell without a file name gets one when its number is known (actions.c). */
static int encode(struct cell *cell, const struct cell_request *request)
{
        int r = buffer_append(&cell->payload, request->code, request->code_length);
        if (r >= 0)
                r = buffer_append(&cell->payload, "", 1);
        if (r >= 0 && request->filename)
                r = buffer_append(&cell->payload, request->filename, strlen(request->filename));
        return r;
}

/* The payload of NEED. */
static int encode_needs(struct cell *cell, const struct cell_request *request)
{
        struct json_out out = {.to = &cell->needs};

        json_out_begin(&out, NULL, '{');
        json_out_value(&out, "dependencies", request->needs);
        if (request->merges_needs)
                json_out_bool(&out, "merge", true);
        json_out_end(&out, '}');
        return out.error;
}

static void take_excerpt(struct cell *cell, const char *code, size_t n)
{
        const char *end = code + n;
        size_t length = 0;

        while (code < end && strchr(" \t\r\n", *code))
                code++;
        while (code + length < end && length <= CELL_EXCERPT_MAX && !strchr("\r\n", code[length]))
                length++;
        if (length > CELL_EXCERPT_MAX) {
                length = CELL_EXCERPT_MAX;
                while (length > 0 && ((unsigned char)code[length] & 0xc0) == 0x80)
                        length--;
        }
        memcpy(cell->excerpt, code, length);
}

static void take_request(struct cell *cell, yyjson_val *id)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(CELL_REQUEST_MAX);

        if (id && json_append(&text, id) >= 0)
                memcpy(cell->request_id, buffer_bytes(&text), text.length);
}

int cell_new(struct cell **ret, const struct cell_request *request, struct error *err)
{
        if (request->code_length > CELL_CODE_MAX)
                return error_set(err, EMSGSIZE, "code of %zu bytes: at most %d are taken",
                                 request->code_length, CELL_CODE_MAX);
        struct cell *cell = calloc(1, sizeof(*cell));
        if (!cell)
                return error_errno(err, ENOMEM, "cell");

        buffer_init(&cell->payload, FRAME_PAYLOAD_MAX);
        buffer_init(&cell->input, FRAME_PAYLOAD_MAX);
        buffer_init(&cell->script, FRAME_PAYLOAD_MAX);
        buffer_init(&cell->needs, FRAME_PAYLOAD_MAX);
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&cell->outcome.streams[i]);
        cell->request = *request;
        memset(&cell->request, 0,
               offsetof(struct cell_request, standard_input)); /* the caller's texts */
        if (request->restore)
                snprintf(cell->restore, sizeof(cell->restore), "%s", request->restore);
        if (request->checkpoint)
                snprintf(cell->checkpoint, sizeof(cell->checkpoint), "%s", request->checkpoint);
        if (request->profile)
                memcpy(cell->profile, request->profile,
                       strnlen(request->profile, sizeof(cell->profile) - 1));
        snprintf(cell->client_name, sizeof(cell->client_name), "%s",
                 request->client_name ? request->client_name : "");
        utf8_trim(cell->client_name);
        if (request->trace)
                cell->trace = *request->trace;
        cell->is_postponed = request->is_postponed;
        cell->code_length = request->code_length;
        cell->asked_us = clock_us();
        take_excerpt(cell, request->code, request->code_length);
        take_request(cell, request->request_id);
        int r = encode(cell, request);
        if (r >= 0 && request->input)
                r = buffer_append(&cell->input, request->input, request->input_length);
        if (r >= 0 && request->script)
                r = buffer_append(&cell->script, request->script, request->script_length);
        if (r >= 0 && request->needs)
                r = encode_needs(cell, request);
        if (r < 0) {
                cell_free(cell);
                return error_errno(err, -r, "code of %zu bytes", request->code_length);
        }
        *ret = cell;
        return 0;
}

void cell_outcome_charge(struct cell_outcome *outcome)
{
        size_t bytes = 0;

        for (int i = 0; i < CELL_STREAMS; i++)
                bytes += capture_bytes(&outcome->streams[i]);
        for (size_t i = 0; i < outcome->n_displays; i++)
                bytes += outcome->displays[i].data.allocated +
                         outcome->displays[i].picture.answer.made_length;
        for (size_t i = 0; i < outcome->n_images; i++)
                bytes += outcome->images[i].picture.answer.made_length;
        if (outcome->result)
                bytes += yyjson_doc_get_read_size(outcome->result) +
                         yyjson_doc_get_val_count(outcome->result) * sizeof(yyjson_val);
        charge_set(&outcome->kept, bytes);
}

static void drop_displays(struct cell_outcome *outcome)
{
        for (size_t i = 0; i < outcome->n_displays; i++) {
                background_free(outcome->displays[i].data.data,
                                outcome->displays[i].data.allocated);
                cell_picture_done(&outcome->displays[i].picture);
        }
        outcome->n_displays = outcome->displays_total = 0;
}

void cell_outcome_clear(struct cell_outcome *outcome)
{
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_clear(&outcome->streams[i]);
        drop_displays(outcome);
        cell_outcome_charge(outcome);
}

/* Forgets what is owned, except for the streams. */
static void forget(struct cell_outcome *outcome)
{
        outcome->kept = (struct charge){};
        outcome->displays = NULL;
        outcome->images = NULL;
        outcome->n_images = 0;
        outcome->files = NULL;
        outcome->calls = NULL;
        outcome->hosts = NULL;
        outcome->n_displays = outcome->n_files = outcome->n_calls = outcome->n_hosts = 0;
        outcome->plan = outcome->plan_lines = (struct buffer){};
        outcome->result = NULL;
        outcome->value = outcome->error = outcome->output = outcome->requests = NULL;
}

void cell_outcome_strip(struct cell_outcome *outcome)
{
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_done(&outcome->streams[i]);
        drop_displays(outcome);
        free(outcome->displays);
        for (size_t i = 0; i < outcome->n_images; i++)
                cell_picture_done(&outcome->images[i].picture);
        free(outcome->images);
        free(outcome->files);
        free(outcome->calls);
        free(outcome->hosts);
        buffer_done(&outcome->plan);
        buffer_done(&outcome->plan_lines);
        background_free_json(outcome->result);
        charge_done(&outcome->kept);
        forget(outcome);
        outcome->files_total = outcome->calls_total = 0;
}

void cell_outcome_done(struct cell_outcome *outcome)
{
        cell_outcome_strip(outcome);
        *outcome = (struct cell_outcome){};
}

void cell_outcome_move(struct cell_outcome *to, struct cell_outcome *from)
{
        *to = *from;
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&from->streams[i]);
        forget(from);
}

struct cell *cell_free(struct cell *cell)
{
        if (!cell)
                return NULL;
        buffer_done(&cell->payload);
        buffer_done(&cell->input);
        buffer_done(&cell->script);
        buffer_done(&cell->needs);
        cell_outcome_done(&cell->outcome);
        if (cell->branch)
                branch_forget(cell->branch, &cell->load);
        branch_unref(cell->branch);
        free(cell);
        return NULL;
}

static void take_name(char to[CELL_NAME_MAX + 1], const char *name)
{
        size_t n = strnlen(name, CELL_NAME_MAX);

        memcpy(to, name, n);
        to[n] = '\0';
        utf8_trim(to);
}

/* Calls that were not sent leave their slots to others. */
static struct cell_call *free_slot(struct cell_outcome *outcome)
{
        if (outcome->n_calls < CELL_CALLS_KEPT)
                return &outcome->calls[outcome->n_calls++];
        for (size_t i = 0; i < outcome->n_calls; i++) {
                if (!outcome->calls[i].used)
                        return &outcome->calls[i];
        }
        return NULL;
}

struct cell_call *cell_call_begin(struct cell *cell, const char *server, const char *tool)
{
        struct cell_outcome *outcome = &cell->outcome;

        if (!outcome->calls)
                outcome->calls = calloc(CELL_CALLS_KEPT, sizeof(*outcome->calls));
        struct cell_call *slot = outcome->calls ? free_slot(outcome) : NULL;
        if (!slot)
                return NULL;
        *slot = (struct cell_call){.used = true, .pending = true};
        slot->started_us = clock_us();
        take_name(slot->server, server);
        take_name(slot->tool, tool);
        return slot;
}

void cell_call_end(struct cell *cell, struct cell_call *slot, bool sent, bool ok,
                   uint64_t duration_us, struct cell_bytes bytes)
{
        if (sent) {
                cell->outcome.calls_total++;
                cell->outcome.sent_bytes += bytes.sent;
                cell->outcome.received_bytes += bytes.received;
        }
        if (!slot)
                return;
        slot->used = sent;
        slot->pending = false;
        slot->ok = ok;
        slot->duration_us = duration_us;
        slot->sent_bytes = bytes.sent;
        slot->received_bytes = bytes.received;
}

void cell_tell_step(const struct cell *cell, const char *what, const char *text)
{
        const struct cell_client_calls *client = cell->request.client;

        if (client && client->step && !cell->cancelled)
                client->step(cell->request.data, what, text);
}
