/* A session whose cell has blocks that are taken back, and what worker and monitor do for them. */
#pragma once

#include <errno.h>
#include <signal.h>

#include "supervisor/session/machine/session-state.h"
#include "supervisor/session/state/copies.h"
#include "tests/unit/fake-client.h"

#define OK   "{\"status\":\"ok\"}"
#define KEPT "{\"pid\":51,\"threads\":0,\"processes\":0}"
#define DONE                                                                                       \
        "{\"rolled_back\":{\"changed\":1,\"returned\":0,\"removed\":2,\"files\":[\"a\",\"b\"],"    \
        "\"failed\":0},\"elsewhere\":0}"
#define STEP(step) "{\"what\":\"transaction\",\"step\":\"" step "\"}"

static uint64_t cell;   /* number of the one that runs */
static uint64_t number; /* of the last QUERY */
static uint64_t keep;   /* of the last KEEP */

static inline void open_with(struct fake *f, const char *text)
{
        const struct monitor_hello hello = fake_hello;
        struct config *config = fake_config(text);

        fake_open(f);
        sessions_reload(f->sessions, config, &hello);
        config_free(config);
        warm_up(f);
}

/* A session with a copy of the end of its first cell, pid 41, whose second one runs. */
static inline void open_running(struct fake *f, struct end *end, uint32_t timeout_ms)
{
        open_with(f, "{}");
        fake_run_ms(f, SESSION_QUIET_MS + 2);
        struct frame_header header = fake_read(f, NULL, 0);
        check_eq_str(frame_type_name(header.type), "KEEP");
        fake_send(f, FRAME_KEPT, header.id, "{\"pid\":41,\"threads\":0,\"processes\":0}");
        sessions_kept(f->sessions, f->target, NULL);
        check_eq_int(f->keeps, 1);
        ask_on(f, end, "default", "1", timeout_ms, false);
        fake_spin(f);
        cell = fake_take_exec(f, NULL, 0);
}

static inline void query(struct fake *f, const char *payload)
{
        fake_send(f, FRAME_QUERY, ++number, payload);
}

/* The answer of the last QUERY; "": it is ok. */
static inline void take_answer(struct fake *f, const char *why)
{
        char text[400];
        struct frame_header header = fake_read(f, text, sizeof(text));

        check_eq_str(frame_type_name(header.type), "RETURN");
        check_eq_int(header.id, number);
        check_has(text, *why ? why : "{\"ok\":true");
}

static inline void ask_block(struct fake *f)
{
        char payload[100];

        query(f, STEP("begin"));
        struct frame_header header = fake_read(f, payload, sizeof(payload));
        check_eq_str(frame_type_name(header.type), "KEEP");
        check_has(payload, ",\"files\":");
        keep = header.id;
        take_answer(f, "");
}

static inline void begin_block(struct fake *f)
{
        ask_block(f);
        fake_send(f, FRAME_KEPT, keep, KEPT);
        check_eq_int(f->aside, 51);
        query(f, STEP("await"));
        check(!fake_has_frame(f));
        sessions_kept(f->sessions, f->target, NULL);
        take_answer(f, "");
}

static inline void clear(struct fake *f, uint32_t pid)
{
        const struct monitor_ended ended = {.wait_status = SIGKILL, .cpu_usec = 9000, .copy = pid};
        const int fds[SESSION_COUNTERS] = {dup(f->cpu), dup(f->memory), dup(f->memory)};

        sessions_cleared(f->sessions, f->target, &ended, fds);
        fake_spin(f);
}

/* Sends a frame that the broker has not read when the monitor's next event comes. */
static inline void put(struct fake *f, uint8_t type, uint64_t id, const char *payload)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_PAYLOAD_MAX);

        check_eq_int(frame_append(&b, type, id, payload, strlen(payload)), 0);
        check_eq_int(write(f->rpc, buffer_bytes(&b), b.length), b.length);
}

static inline void fail_block(struct fake *f)
{
        int before = f->rollbacks;

        query(f, STEP("fail"));
        check_eq_int(f->restored, 51);
        clear(f, 51);
        check_eq_int(f->rollbacks, before + 1);
        fake_send(f, FRAME_RESTORED, keep, DONE);
}

static inline void end_cell(struct fake *f, struct end *end, enum cell_status status)
{
        fake_send(f, FRAME_RESULT, cell, OK);
        check_eq_int(end->count, 1);
        check_eq_int(end->status, status);
        check_eq_int(end->state, CELL_STATE_KEPT);
}
