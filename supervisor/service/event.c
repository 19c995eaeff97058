/* The form of events: one function for each kind. */
#include "supervisor/service/event.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "base/mask.h"
#include "base/utf8.h"
#include "supervisor/service/sha256.h"

enum {
        FIELDS_MAX = 12,
        TOOLS_BYTES_MAX = 4096,
        TOOL_NAME_MAX = 128,
        CODE_MAX = LOG_CODE_MAX,
        HASHED_MAX = 1024 * 1024, /* bytes of code: other clients wait 4 ms for them */
};

/* The kinds. The ids are those of journald (sd-id128(3)). */
static const struct kind {
        const char *name, *message_id;
} kinds[] = {
        {"cell.begin", "a6760d4a33164be69a3ad54783e0303f"},
        {"cell.end", "584e3cd67555412684a5900466613293"},
        {"session.start", "f4e552ff4eed4ad6992676f8ccb2ca7d"},
        {"session.end", "9078609f697e4c2391c73b9fbcefffb5"},
        {"token.refused", "9dbcb5b459a842bfa374d82bf3729d91"},
        {"reload", "9541dbe2c79b474b926d7a251e8b9443"},
        {"drain", "761877bb39854c13b2d22414102e03da"},
        {"owner", "6c6cb6d0e50142069b64806aeb862e62"},
};
enum kind_index {
        CELL_BEGIN,
        CELL_END,
        SESSION_START,
        SESSION_END,
        TOKEN_REFUSED,
        RELOAD,
        DRAIN,
        OWNER
};
static_assert(ARRAY_SIZE(kinds) == OWNER + 1, "a name for each kind");

static enum config_log_code code_told;

static event_sink *sink;

bool event_is_on(bool is_journalled)
{
        return log_get_level() >= LOG_LEVEL_INFO || (sink && is_journalled);
}

void event_set_sink(event_sink *to)
{
        sink = to;
}

void event_set_code(enum config_log_code code)
{
        code_told = code;
}

/* ---- the fields of one event ---- */

struct fields {
        size_t n;
        struct log_field list[FIELDS_MAX];
};

static void add(struct fields *fields, const struct log_field *field)
{
        assert(fields->n < FIELDS_MAX);
        fields->list[fields->n++] = *field;
}

/* Text that a program reads; an empty one is left out. */
static void add_text(struct fields *fields, const char *name, const char *text)
{
        if (text && *text)
                add(fields, &(struct log_field){name, LOG_TEXT, text, strlen(text), 0});
}

static void add_number(struct fields *fields, const char *name, uint64_t number)
{
        add(fields, &(struct log_field){.name = name, .kind = LOG_NUMBER, .number = number});
}

static void add_bool(struct fields *fields, const char *name, bool value)
{
        add(fields, &(struct log_field){.name = name, .kind = LOG_BOOL, .number = value});
}

static struct log_record record(enum kind_index kind, const struct fields *fields)
{
        return (struct log_record){kinds[kind].name, kinds[kind].message_id, fields->list,
                                   fields->n};
}

/* To the journal, if there is one. */
static void tell(const struct log_ids *ids, const struct log_record *r, bool is_journalled)
{
        if (sink && is_journalled)
                sink(ids, r);
}

/* ---- cells ---- */

/* Copies code with secrets masked. Returns whether it was cut. */
static bool copy_code(const char *code, size_t n, char to[CODE_MAX + 1])
{
        size_t most = n <= CODE_MAX ? n : utf8_cut(code, n, CODE_MAX);

        memcpy(to, code, most);
        to[most] = '\0';
        mask_text(to);
        return most < n;
}

void event_cell_begin(const struct event_cell_begin *event)
{
        static char code[CODE_MAX + 1];
        char digest[SHA256_TEXT_SIZE];
        struct fields f = {};

        if (!event_is_on(event->is_journalled))
                return;
        add_text(&f, "profile", event->profile);
        if (event->attempt > 1)
                add_number(&f, "attempt", event->attempt);
        /* The journal has the hash in any case. */
        bool is_recorded = sink && event->is_journalled;
        struct fields with_hash = f;
        if (code_told != CONFIG_LOG_NONE || is_recorded) {
                if (event->code_length <= HASHED_MAX) {
                        sha256_text(event->code, event->code_length, digest);
                        add_text(&with_hash, "code_sha256", digest);
                }
                add_number(&with_hash, "code_bytes", event->code_length);
        }
        const struct log_record for_journal = record(CELL_BEGIN, &with_hash);
        tell(&event->ids, &for_journal, is_recorded);
        if (code_told != CONFIG_LOG_NONE)
                f = with_hash;
        if (code_told == CONFIG_LOG_FULL) {
                bool is_cut = copy_code(event->code, event->code_length, code);
                add(&f, &(struct log_field){"code", LOG_CODE, code, strlen(code), is_cut});
        }
        const struct log_record r = record(CELL_BEGIN, &f);
        log_record(LOG_LEVEL_INFO, &event->ids, &r, "cell begins");
}

static void put_name(struct json_out *out, const char *key, const char *name)
{
        size_t n = strlen(name);

        json_out_string(out, key, name, n <= TOOL_NAME_MAX ? n : utf8_cut(name, n, TOOL_NAME_MAX));
}

/* Appends the calls, as many as fit. The newlines of names are escaped: it is JSON. */
static void put_tools(const struct event_cell_end *event, struct buffer *to)
{
        struct json_out out = {.to = to};
        size_t most = TOOLS_BYTES_MAX - 2 * (6 * TOOL_NAME_MAX + 64);

        json_out_begin(&out, NULL, '[');
        for (size_t i = 0; i < event->n_tools && to->length < most; i++) {
                json_out_begin(&out, NULL, '{');
                put_name(&out, "server", event->tools[i].server);
                put_name(&out, "tool", event->tools[i].tool);
                json_out_bool(&out, "ok", event->tools[i].ok);
                json_out_int(&out, "ms", (int64_t)(event->tools[i].duration_us / 1000));
                json_out_end(&out, '}');
        }
        json_out_end(&out, ']');
}

void event_cell_end(const struct event_cell_end *event)
{
        _cleanup_buffer_ struct buffer tools = BUFFER_INIT(TOOLS_BYTES_MAX);
        struct fields f = {};

        if (!event_is_on(event->is_journalled))
                return;
        add_text(&f, "status", event->status);
        add_text(&f, "state", event->state);
        add_number(&f, "ms", event->duration_us / 1000);
        add_number(&f, "cpu_ms", event->cpu_us / 1000);
        if (event->memory_peak > 0)
                add_number(&f, "memory_peak_bytes", event->memory_peak);
        if (event->tools_total > 0) {
                put_tools(event, &tools);
                if (!tools.error)
                        add(&f, &(struct log_field){"tools", LOG_JSON, buffer_bytes(&tools),
                                                    tools.length, 0});
                add_number(&f, "tools_total", event->tools_total);
        }
        struct log_record r = record(CELL_END, &f);
        r.may_wait = true;
        if (event->receipt && event->is_journalled) {
                struct fields whole = f;
                add(&whole, &(struct log_field){"receipt", LOG_JSON, buffer_bytes(event->receipt),
                                                event->receipt->length, 0});
                const struct log_record with = record(CELL_END, &whole);
                tell(&event->ids, &with, true);
        } else {
                tell(&event->ids, &r, event->is_journalled);
        }
        log_record(LOG_LEVEL_INFO, &event->ids, &r, "cell ended: %s in %llu ms%s%s", event->status,
                   (unsigned long long)(event->duration_us / 1000), *event->why ? ", " : "",
                   event->why);
}

/* ---- sessions ---- */

static void add_session(struct fields *f, const struct event_session *event)
{
        add_number(f, "sandbox", event->sandbox);
        add_text(f, "profile", event->profile);
}

void event_session_start(const struct event_session *event)
{
        struct fields f = {};

        add_session(&f, event);
        const struct log_record r = record(SESSION_START, &f);
        tell(&event->ids, &r, event->is_journalled);
        log_record(LOG_LEVEL_INFO, &event->ids, &r, "sandbox %u is up", event->sandbox);
}

void event_session_end(const struct event_session *event)
{
        struct fields f = {};

        add_session(&f, event);
        add_text(&f, "reason", event->reason);
        const struct log_record r = record(SESSION_END, &f);
        tell(&event->ids, &r, event->is_journalled);
        log_record(LOG_LEVEL_INFO, &event->ids, &r, "sandbox %u ended: %s", event->sandbox,
                   *event->why ? event->why : event->reason);
}

/* ---- the server ---- */

/* Whether one more refusal becomes an event. *left_out: how many did not since the last event. */
static bool may_tell_refusal(uint64_t *left_out)
{
        static uint64_t until_us, n;
        const uint64_t each = EVENT_REFUSED_MS * UINT64_C(1000), now = clock_us();

        if (until_us > now + (EVENT_REFUSED_BURST - 1) * each) {
                n++;
                return false;
        }
        until_us = (until_us > now ? until_us : now) + each;
        *left_out = n;
        n = 0;
        return true;
}

void event_token_refused(const struct event_token_refused *event)
{
        const char *reason = event->is_missing ? "missing" : "unknown";
        uint64_t left_out = 0;
        struct fields f = {};

        if (!event_is_on(true) || !may_tell_refusal(&left_out))
                return;
        add_text(&f, "reason", reason);
        add_number(&f, "status", (uint64_t)event->status);
        if (left_out > 0)
                add_number(&f, "left_out", left_out);
        const struct log_record r = record(TOKEN_REFUSED, &f);
        tell(NULL, &r, true);
        log_record(LOG_LEVEL_INFO, NULL, &r, "a request was refused: its token is %s", reason);
}

void event_reload(const struct event_reload *event)
{
        struct fields f = {};

        add_text(&f, "what", event->what);
        add_bool(&f, "ok", event->ok);
        const struct log_record r = record(RELOAD, &f);
        tell(NULL, &r, true);
        if (event->ok)
                log_record(LOG_LEVEL_INFO, NULL, &r, "%s: reloaded", event->what);
        else
                log_record(LOG_LEVEL_INFO, NULL, &r, "%s: not reloaded: %s", event->what,
                           event->why);
}

void event_drain(const struct event_drain *event)
{
        struct fields f = {};

        add_text(&f, "phase", event->phase);
        if (event->deadline_ms > 0)
                add_number(&f, "deadline_ms", event->deadline_ms);
        add_number(&f, "sessions", event->sessions);
        if (event->cells > 0)
                add_number(&f, "cells", event->cells);
        const struct log_record r = record(DRAIN, &f);
        tell(NULL, &r, true);
        log_record(LOG_LEVEL_INFO, NULL, &r, "draining: %s: %s", event->phase, event->why);
}

void event_owner(const struct event_owner *event)
{
        struct fields f = {};

        add_text(&f, "command", event->command);
        add_bool(&f, "ok", event->ok);
        const struct log_record r = record(OWNER, &f);
        tell(&event->ids, &r, true);
        log_record(LOG_LEVEL_INFO, &event->ids, &r, "command of the owner: %s%s%s", event->command,
                   event->ok ? "" : ": ", event->ok ? "" : event->why);
}
