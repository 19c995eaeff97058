/* Starts cells in sessions and records how they ended. */
#pragma once

#include "tests/unit/fake-monitor.h"

/* How a cell ended. The text is copied because the cell is freed. */
struct end {
        int count;
        enum cell_status status;
        enum cell_state state;
        char why[CELL_WHY_MAX], before[CELL_WHY_MAX], restored[CELL_WHY_MAX], note[CELL_NOTE_MAX];
        char block[CELL_WHY_MAX];
        uint64_t n_blocks;
        char out[512], err[512], repr[64], type[64];
        int exit_code, signal;
        bool has_exit_code, is_checkpoint;
        uint64_t calls_total, cpu_us, memory_peak;
        size_t n_calls;
        struct cell_call calls[4];
};

static inline void fake_on_done(void *data, struct cell *cell)
{
        struct end *end = data;
        const struct cell_outcome *o = &cell->outcome;
        bool cut;

        end->count++;
        end->status = o->status;
        end->state = o->state;
        snprintf(end->why, sizeof(end->why), "%s", o->why);
        snprintf(end->before, sizeof(end->before), "%s", o->before);
        snprintf(end->restored, sizeof(end->restored), "%s", o->restored);
        snprintf(end->note, sizeof(end->note), "%s", o->note);
        snprintf(end->block, sizeof(end->block), "%s", o->block);
        end->n_blocks = o->n_blocks;
        for (int i = 0; i < CELL_STREAMS; i++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024 * 1024);
                check_eq_int(capture_render(&o->streams[i], 400, &b, &cut), 0);
                snprintf(i == CELL_STDOUT ? end->out : end->err, sizeof(end->out), "%.*s",
                         (int)b.length, b.length ? buffer_bytes(&b) : "");
        }
        const char *repr = json_string(o->value, "repr", NULL),
                   *type = json_string(o->error, "type", NULL);
        snprintf(end->repr, sizeof(end->repr), "%s", repr ? repr : "");
        snprintf(end->type, sizeof(end->type), "%s",
                 o->error_type ? o->error_type : (type ? type : ""));
        end->exit_code = o->exit_code;
        end->has_exit_code = o->has_exit_code;
        end->signal = o->signal;
        end->is_checkpoint = o->is_checkpoint;
        end->calls_total = o->calls_total;
        end->cpu_us = o->cpu_us;
        end->memory_peak = o->memory_peak;
        end->n_calls = o->n_calls;
        for (size_t i = 0; i < o->n_calls && i < ARRAY_SIZE(end->calls); i++)
                end->calls[i] = o->calls[i];
}

static inline struct cell *ask_on(struct fake *f, struct end *end, const char *name,
                                  const char *code, uint32_t timeout_ms, bool reset)
{
        const struct cell_request request = {.code = code,
                                             .code_length = strlen(code),
                                             .timeout_ms = timeout_ms,
                                             .reset = reset,
                                             .done = fake_on_done,
                                             .data = end};
        struct error err = {};
        struct cell *cell = NULL;

        memset(end, 0, sizeof(*end));
        check_ok(sessions_run(f->sessions, name, &request, &cell, &err));
        return cell;
}

static inline struct cell *ask(struct fake *f, struct end *end, const char *code)
{
        struct cell *cell = ask_on(f, end, "default", code, 0, false);

        fake_spin(f);
        return cell;
}

/* Runs a first cell without an error, so that the session has state to lose. */
static inline void warm_up(struct fake *f)
{
        struct end end;

        ask(f, &end, "x = 1");
        fake_start(f);
        uint64_t cell = fake_take_exec(f, NULL, 0);
        fake_send(f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        check_eq_int(end.count, 1);
        check_eq_int(end.state, CELL_STATE_NEW);
}
