/* Progress and live output of one call. */
#include "supervisor/mcp/call/live.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/utf8.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/tasks/task.h"

enum { SCANNED_MAX = 4096, NAME_SHOWN = 60 };

/* Characters that control a terminal or the direction of the text: C0, DEL, C1, line separators,
 * directional marks and overrides. */
static bool is_harmful(uint32_t c)
{
        return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
               (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

/* Appends a line of output to a message. */
static void append_harmless(struct buffer *to, const char *text, size_t n)
{
        const unsigned char *s = (const unsigned char *)text;

        for (size_t i = 0; i < n;) {
                int length = utf8_next(s + i, n - i);
                size_t used = length > 0 ? (size_t)length : length < 0 ? (size_t)-length : n - i;

                if (length > 0 && !is_harmful(utf8_decode(s + i, length)))
                        buffer_append(to, text + i, used);
                else
                        buffer_append(to, " ", 1);
                i += used;
        }
}

static bool is_blank(const char *line)
{
        return line[strspn(line, " \t")] == '\0';
}

static void end_line(struct live *live)
{
        if (!is_blank(live->line))
                memcpy(live->last, live->line, sizeof(live->last));
        live->line[0] = '\0';
}

/* The last line is that of both streams together, as on a terminal; \r ends a line too. Of long
 * output only the end is looked at. */
static void note_lines(struct live *live, const char *bytes, size_t n)
{
        if (n > SCANNED_MAX) {
                live->line[0] = '\0';
                bytes += n - SCANNED_MAX;
                n = SCANNED_MAX;
        }
        for (size_t length = strlen(live->line); n > 0; n--, bytes++) {
                if (*bytes == '\n' || *bytes == '\r') {
                        end_line(live);
                        length = 0;
                } else if (length < LIVE_LINE_MAX) {
                        live->line[length++] = *bytes == '\0' ? ' ' : *bytes;
                        live->line[length] = '\0';
                }
        }
}

static size_t calls_made(const struct cell_outcome *o)
{
        size_t n = (size_t)o->calls_total;

        for (size_t i = 0; i < o->n_calls; i++)
                n += o->calls[i].pending;
        return n;
}

/* Begins the params of a notification: which task it is about, if any. */
static struct json_out begin_params(const struct live *live, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        if (live->task[0]) {
                json_out_begin(&out, "_meta", '{');
                json_out_begin(&out, META_RELATED_TASK, '{');
                json_out_text(&out, "taskId", live->task);
                json_out_end(&out, '}');
                json_out_end(&out, '}');
        }
        return out;
}

/* "running for 12 s; 3 tool calls, the last library.list_loans; last line: …" */
static void append_message(struct live *live, uint64_t now, struct buffer *to)
{
        if (!live->cell) {
                buffer_append_text(to, "waiting for the client");
                return;
        }
        const struct cell_outcome *o = &live->cell->outcome;
        const char *line = is_blank(live->line) ? live->last : live->line;
        size_t calls = calls_made(o);
        uint64_t since = live->cell->number ? live->cell->started_us : live->started_us;

        if (live->person)
                buffer_printf(to, "%s; ", live->person);
        buffer_printf(to, "%s for %llu s; %zu tool call%s",
                      live->cell->number ? "running" : "waiting",
                      (unsigned long long)((now - since) / 1000000), calls, plural(calls));
        if (o->n_calls > 0) {
                const struct cell_call *call = &o->calls[o->n_calls - 1];
                char name[2 * NAME_SHOWN + 2];

                int n = snprintf(name, sizeof(name), "%.*s.%.*s", NAME_SHOWN, call->server,
                                 NAME_SHOWN, call->tool);
                buffer_append_text(to, ", the last ");
                append_harmless(to, name, (size_t)n);
        }
        if (live->step[0] && live->step_cell == live->cell->number) {
                buffer_append_text(to, "; ");
                append_harmless(to, live->step, strlen(live->step));
        }
        if (live->note[0]) {
                buffer_append_text(to, "; ");
                append_harmless(to, live->note, strlen(live->note));
        }
        if (line[0]) {
                buffer_append_text(to, "; last line: ");
                append_harmless(to, line, strlen(line));
        }
}

/* The value is the time in seconds: two messages are LIVE_PROGRESS_MS apart, so it always grows. */
static void send_progress(struct live *live, uint64_t now)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(RESULT_MAX), text = BUFFER_INIT(8192);
        unsigned long long value = (now - live->started_us) / 1000;
        struct json_out out = begin_params(live, &params);
        char seconds[32];

        int n = snprintf(seconds, sizeof(seconds), "%llu.%03llu", value / 1000, value % 1000);
        append_message(live, now, &text);
        json_out_value(&out, "progressToken", yyjson_doc_get_root(live->token));
        json_out_raw(&out, "progress", seconds, (size_t)n);
        json_out_string(&out, "message", buffer_bytes(&text), text.length);
        live->progress_us = now;
        live->new_output = false;
        live->progress = (double)value / 1000;
        if (text.error == 0 && !mcp_sink_congested(live->sink))
                mcp_sink_notify_out(live->sink, "notifications/progress", &out);
}

static void send_step(struct live *live, uint64_t now)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(RESULT_MAX), text = BUFFER_INIT(8192);
        struct json_out out = begin_params(live, &params);

        append_harmless(&text, live->step, strlen(live->step));
        json_out_text(&out, "level", mcp_log_level_name(MCP_LOG_INFO));
        json_out_text(&out, "logger", "cloister");
        json_out_string(&out, "data", buffer_bytes(&text), text.length);
        live->step_us = now;
        live->new_step = false;
        if (text.error == 0 && !mcp_sink_congested(live->sink))
                mcp_sink_notify_out(live->sink, "notifications/message", &out);
}

/* The number of bytes before an incomplete character at the end. */
static size_t whole_part(const struct buffer *b)
{
        const unsigned char *s = (const unsigned char *)buffer_bytes(b);

        for (size_t back = 1; back <= 3 && back <= b->length; back++) {
                if ((s[b->length - back] & 0xc0) != 0x80)
                        return utf8_next(s + b->length - back, back) == 0 ? b->length - back
                                                                          : b->length;
        }
        return b->length;
}

static int append_log(struct live *live, enum cell_stream stream, size_t n, struct buffer *to)
{
        static const char *const names[CELL_STREAMS] = {"stdout", "stderr"};
        struct json_out out = begin_params(live, to);

        json_out_text(&out, "level", mcp_log_level_name(MCP_LOG_INFO));
        json_out_text(&out, "logger", "run_python");
        json_out_begin(&out, "data", '{');
        json_out_text(&out, "session", live->session);
        json_out_int(&out, "cell", (int64_t)live->cell->number);
        json_out_text(&out, "stream", names[stream]);
        json_out_string(&out, "text", buffer_bytes(&live->pending[stream]), n);
        if (live->skipped[stream] > 0)
                json_out_int(&out, "skipped_bytes", (int64_t)live->skipped[stream]);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        return out.error;
}

static void send_output(struct live *live, enum cell_stream stream, bool last)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(RESULT_MAX);
        struct buffer *pending = &live->pending[stream];
        uint64_t *skipped = &live->skipped[stream];

        if (pending->length == 0 && *skipped == 0)
                return;
        size_t n = last ? pending->length : whole_part(pending);
        if (n == 0 && *skipped == 0)
                return;
        bool sent = !mcp_sink_congested(live->sink) && append_log(live, stream, n, &params) >= 0;
        if (sent)
                mcp_sink_notify(live->sink, "notifications/message", &params);
        /* The rest of a character was skipped. */
        buffer_consume(pending, *skipped > 0 ? pending->length : n);
        *skipped = sent ? 0 : *skipped + n;
}

static void send_skipped(struct live *live)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(LIVE_LOG_MAX);

        if (live->messages_skipped > 0 &&
            buffer_printf(
                    &params,
                    "{\"level\":\"warning\",\"logger\":\"run_python\",\"data\":\"%u messages of servers were left out\"}",
                    live->messages_skipped) >= 0)
                mcp_sink_notify(live->sink, "notifications/message", &params);
        live->messages_skipped = 0;
}

static void send_messages(struct live *live)
{
        struct buffer *all = &live->messages;

        while (all->length > 0) {
                const char *line = buffer_bytes(all), *end = memchr(line, '\n', all->length);
                _cleanup_buffer_ struct buffer params = BUFFER_INIT(LIVE_LOGS_MAX);
                size_t n = (size_t)(end - line);

                if (mcp_sink_congested(live->sink))
                        live->messages_skipped++;
                else if (buffer_append(&params, line, n) >= 0)
                        mcp_sink_notify(live->sink, "notifications/message", &params);
                buffer_consume(all, n + 1);
        }
        if (!mcp_sink_congested(live->sink))
                send_skipped(live);
}

static void flush_output(struct live *live, bool last)
{
        for (int i = 0; i < CELL_STREAMS; i++)
                send_output(live, (enum cell_stream)i, last);
        send_messages(live);
        live->output_us = clock_us();
}

static bool has_output(const struct live *live)
{
        for (int i = 0; i < CELL_STREAMS; i++) {
                if (live->pending[i].length > 0 || live->skipped[i] > 0)
                        return true;
        }
        return live->messages.length > 0;
}

static uint64_t progress_due(const struct live *live)
{
        return live->progress_us +
               (live->new_output ? LIVE_PROGRESS_MS : LIVE_HEARTBEAT_MS) * UINT64_C(1000);
}

static uint64_t step_due(const struct live *live)
{
        return live->new_step ? live->step_us + LIVE_PROGRESS_MS * UINT64_C(1000) : UINT64_MAX;
}

static void schedule(struct live *live)
{
        uint64_t now = clock_us(), due = step_due(live);

        if (live->token && !live->told && progress_due(live) < due)
                due = progress_due(live);
        if (has_output(live) && live->output_us + LIVE_OUTPUT_MS * 1000 < due)
                due = live->output_us + LIVE_OUTPUT_MS * 1000;
        if (due == UINT64_MAX)
                return;
        struct timeval t = clock_timeval_ms(due > now ? (uint32_t)((due - now) / 1000 + 1) : 0);
        evtimer_add(live->timer, &t);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct live *live = data;
        uint64_t now = clock_us();

        if (has_output(live) && now >= live->output_us + LIVE_OUTPUT_MS * 1000)
                flush_output(live, false);
        if (live->token && !live->told && now >= progress_due(live))
                send_progress(live, now);
        if (now >= step_due(live))
                send_step(live, now);
        schedule(live);
}

int live_start(struct live *live, const struct mcp_request *request, const struct reply *reply,
               const struct cell *cell, const char *session)
{
        enum mcp_log_level level = request->era == ERA_MODERN ? request->log_level
                                                              : request->peer->log_level;
        struct reply copy = {};

        *live = (struct live){.cell = cell,
                              .session = session,
                              .level = level,
                              .logs = !live->published && level <= MCP_LOG_INFO,
                              .published = live->published,
                              .progress = -1};
        for (int i = 0; i < CELL_STREAMS; i++)
                buffer_init(&live->pending[i], LIVE_OUTPUT_MAX);
        buffer_init(&live->messages, LIVE_LOGS_MAX);
        if (reply->task && request->era == ERA_LEGACY)
                snprintf(live->task, sizeof(live->task), "%s", reply->task->id);
        if (!request->token && level == MCP_LOG_OFF)
                return 0;
        if (request->token && reply_init(&copy, request->token, NULL, NULL) < 0)
                return -ENOMEM;
        live->token = copy.id_doc;
        live->started_us = live->progress_us = clock_us();
        live->timer = evtimer_new(request->peer->server->base, on_timer, live);
        if (!live->timer)
                return -ENOMEM;
        live->sink = mcp_sink_ref(reply->sink);
        schedule(live);
        return 0;
}

static void keep_output(struct live *live, enum cell_stream stream, const char *bytes, size_t n)
{
        struct buffer *pending = &live->pending[stream];
        size_t room = LIVE_OUTPUT_MAX - pending->length;

        /* No gaps: once a byte did not fit, none is taken. */
        if (live->skipped[stream] > 0)
                room = 0;
        size_t taken = n < room ? n : room;
        if (buffer_append(pending, bytes, taken) < 0)
                taken = 0;
        live->skipped[stream] += n - taken;
}

void live_output(struct live *live, enum cell_stream stream, const char *bytes, size_t n)
{
        if (!live->timer)
                return;
        bool had_new = live->new_output, had_output = has_output(live);

        if (live->logs)
                keep_output(live, stream, bytes, n);
        if (live->token && !live->published) {
                note_lines(live, bytes, n);
                live->new_output = true;
        }
        if (live->new_output != had_new || has_output(live) != had_output)
                schedule(live);
}

/* "library: 3 of 10, reading" */
void live_progress(struct live *live, const char *server, const struct cell_progress *p)
{
        int n, rest;

        /* Published code tells its own progress, whose values are others. */
        if (!live->timer || !live->token || live->published)
                return;
        rest = p->length < LIVE_LINE_MAX ? (int)p->length : LIVE_LINE_MAX;
        if (p->total > 0)
                n = snprintf(live->note, sizeof(live->note), "%.*s: %g of %g", NAME_SHOWN, server,
                             p->value, p->total);
        else if (p->message)
                n = snprintf(live->note, sizeof(live->note), "%.*s", NAME_SHOWN, server);
        else
                n = snprintf(live->note, sizeof(live->note), "%.*s: %g", NAME_SHOWN, server,
                             p->value);
        if (p->message)
                snprintf(live->note + n, sizeof(live->note) - (size_t)n, "%s%.*s",
                         p->total > 0 ? ", " : ": ", rest, p->message);
        bool had_new = live->new_output;
        live->new_output = true;
        if (!had_new)
                schedule(live);
}

void live_step(struct live *live, const char *what, const char *text)
{
        char step[LIVE_LINE_MAX + 1] = "";
        bool had_new = live->new_output || live->new_step;

        if (!live->timer || !live->cell)
                return;
        if (*text)
                snprintf(step, sizeof(step), "%s: %s", what, text);
        bool is_same = live->step_cell == live->cell->number && strcmp(step, live->step) == 0;
        memcpy(live->step, step, sizeof(live->step));
        live->step_cell = live->cell->number;
        if (live->token)
                live->new_output |= *step != '\0';
        else if (!*step)
                live->new_step = false;
        else if (live->level <= MCP_LOG_INFO && !is_same)
                live->new_step = true;
        if (!had_new)
                schedule(live);
}

void live_person(struct live *live, const char *text)
{
        uint64_t now = clock_us();

        live->person = text;
        /* Two messages are a millisecond apart at least: the value grows. */
        if (text && live->timer && live->token && !live->told && now >= live->progress_us + 1000)
                send_progress(live, now);
}

/* Its logger is the server, or the server and what that calls it. */
static int append_server_log(const struct live *live, yyjson_val *params, const char *server,
                             enum mcp_log_level level, struct buffer *to)
{
        _cleanup_buffer_ struct buffer name = BUFFER_INIT(LIVE_LOG_MAX),
                                       data = BUFFER_INIT(LIVE_LOG_MAX);
        const char *logger = json_string(params, "logger", NULL);
        struct json_out out = begin_params(live, to);

        int r = buffer_printf(&name, "%s%s%.*s", server, logger ? "/" : "", NAME_SHOWN,
                              logger ? logger : "");
        json_out_text(&out, "level", mcp_log_level_name(level));
        json_out_string(&out, "logger", buffer_bytes(&name), name.length);
        if (json_append(&data, yyjson_obj_get(params, "data")) >= 0)
                json_out_buffer(&out, "data", &data);
        else
                json_out_text(&out, "data", "a message of more than 8 KiB was left out");
        json_out_end(&out, '}');
        return r < 0 || out.error < 0 ? -EMSGSIZE : buffer_append(to, "\n", 1);
}

void live_log(struct live *live, const char *server, yyjson_val *params)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(4 * LIVE_LOG_MAX);
        enum mcp_log_level level;

        if (!live->timer || !yyjson_obj_get(params, "data") ||
            mcp_log_level_read(yyjson_obj_get(params, "level"), &level) < 0 || level < live->level)
                return;
        bool had_output = has_output(live);
        if (append_server_log(live, params, server, level, &line) < 0 ||
            buffer_append(&live->messages, buffer_bytes(&line), line.length) < 0)
                live->messages_skipped++;
        if (!had_output)
                schedule(live);
}

/* ---- what published code reports ---- */

static bool may_tell(struct live *live)
{
        if (!live->timer || live->reports >= LIVE_REPORTS_MAX || mcp_sink_congested(live->sink))
                return false;
        live->reports++;
        return true;
}

/* Progress must grow (specification, "Progress"). */
void live_report_progress(struct live *live, yyjson_val *told)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &params};
        yyjson_val *progress = yyjson_obj_get(told, "progress");
        yyjson_val *total = yyjson_obj_get(told, "total");
        yyjson_val *message = yyjson_obj_get(told, "message");
        double value = -1;

        if (!live->token || json_double(progress, &value) < 0 || value <= live->progress ||
            (total && !json_is_number(total)) || (message && !yyjson_is_str(message)) ||
            !may_tell(live))
                return;
        live->told = true;
        live->progress = value;
        json_out_begin(&out, NULL, '{');
        json_out_value(&out, "progressToken", yyjson_doc_get_root(live->token));
        json_out_value(&out, "progress", progress);
        if (total)
                json_out_value(&out, "total", total);
        if (message)
                json_out_value(&out, "message", message);
        mcp_sink_notify_out(live->sink, "notifications/progress", &out);
}

void live_report_log(struct live *live, yyjson_val *told)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &params};
        yyjson_val *data = yyjson_obj_get(told, "data");
        enum mcp_log_level level;

        if (mcp_log_level_read(yyjson_obj_get(told, "level"), &level) < 0 || level < live->level ||
            !data || !may_tell(live))
                return;
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "level", mcp_log_level_name(level));
        json_out_value(&out, "data", data);
        mcp_sink_notify_out(live->sink, "notifications/message", &out);
}

void live_finish(struct live *live)
{
        if (live->timer)
                flush_output(live, true);
        live_done(live);
}

void live_done(struct live *live)
{
        if (live->timer)
                event_free(live->timer);
        yyjson_doc_free(live->token);
        mcp_sink_unref(live->sink);
        for (int i = 0; i < CELL_STREAMS; i++)
                buffer_done(&live->pending[i]);
        buffer_done(&live->messages);
        *live = (struct live){};
}
