/* Outcome of a cell -> CallToolResult. */
#include "supervisor/mcp/call/result.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/json-out.h"
#include "base/json.h"
#include "supervisor/session/cell/receipts.h"

enum {
        TEXT_MAX = 64 * 1024 * 1024,
        QUEUED_WORTH_TELLING_US = 10000,
        ERROR_TYPE_MAX = 256,
        NETWORK_REFUSALS_MAX = 3,
};

#define RECEIPT_SCHEMA                                                                                   \
        "\"receipt\":{\"type\":\"object\",\"description\":\"by the kernel and Cloister, not by the "     \
        "code\",\"properties\":{"                                                                        \
        "\"cell\":{\"type\":\"integer\",\"description\":\"the whole is the resource "                    \
        "cloister://sessions/SESSION/cells/CELL/receipt\"},"                                             \
        "\"peak_of\":{\"type\":\"string\",\"enum\":[\"cell\",\"session\",\"process\",\"sampled\"],"      \
        "\"description\":\"what peak_memory_bytes is of\"},"                                             \
        "\"network\":{\"type\":\"string\",\"enum\":[\"none\",\"loopback\",\"allow\"]},"                  \
        "\"sent_bytes\":{\"type\":\"integer\",\"description\":\"of tool calls\"},"                       \
        "\"received_bytes\":{\"type\":\"integer\",\"description\":\"of their results\"},"                \
        "\"output_bytes\":{\"type\":\"integer\"},"                                                       \
        "\"kept_out_bytes\":{\"type\":\"integer\",\"description\":\"results and output that are not in " \
        "the text\"}}}"

#define NETWORK_SCHEMA                                                                                   \
        "\"network\":{\"type\":\"array\",\"description\":\"hosts that were asked for\",\"items\":{"      \
        "\"type\":\"object\",\"properties\":{\"host\":{\"type\":\"string\"},\"port\":{\"type\":"         \
        "\"integer\"},\"bytes_in\":{\"type\":\"integer\"},\"bytes_out\":{\"type\":\"integer\"},"         \
        "\"requests\":{\"type\":\"integer\"},\"denied\":{\"type\":\"integer\"}},\"required\":[\"host\"," \
        "\"bytes_in\",\"bytes_out\",\"denied\"]}}"

const char result_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"status\":{\"type\":\"string\",\"enum\":[\"ok\",\"error\",\"exit\",\"timeout\","
        "\"cancelled\","
        "\"oom\",\"killed\",\"running\",\"busy\",\"planned\"]},"
        "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"
        "\"value\":{\"type\":\"object\",\"description\":\"of the last expression\",\"properties\":{"
        "\"repr\":{\"type\":\"string\"},\"json\":{},\"json_text\":{\"type\":\"string\","
        "\"description\":\"instead of json: JSON with a number that a double cannot hold\"}},"
        "\"required\":[\"repr\"]},"
        "\"error\":{\"type\":\"object\",\"properties\":{\"type\":{\"type\":\"string\"},"
        "\"message\":{\"type\":\"string\"},\"traceback\":{\"type\":\"string\"},"
        "\"line\":{\"type\":\"integer\"}},\"required\":[\"type\",\"message\"]},"
        "\"notice\":{\"type\":\"string\",\"description\":\"what is unusual about the end or the "
        "state\"},"
        "\"running\":{\"type\":\"object\",\"description\":\"what the session runs, status busy\","
        "\"properties\":{\"code\":{\"type\":\"string\"},\"duration_ms\":{\"type\":\"number\"},"
        "\"last_line\":{\"type\":\"string\"}}},"
        "\"earlier\":{\"type\":\"string\",\"description\":\"result of an earlier call that no call "
        "has had\"},"
        "\"exit_code\":{\"type\":\"integer\"},\"signal\":{\"type\":\"string\"},"
        "\"tool_calls\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
        "\"server\":{\"type\":\"string\"},\"tool\":{\"type\":\"string\"},\"ok\":{\"type\":"
        "\"boolean\"},"
        "\"pending\":{\"type\":\"boolean\"},\"duration_ms\":{\"type\":\"number\"},"
        "\"sent_bytes\":{\"type\":\"integer\"},\"received_bytes\":{\"type\":\"integer\"}},"
        "\"required\":[\"server\",\"tool\",\"ok\",\"duration_ms\"]}},"
        "\"tool_calls_total\":{\"type\":\"integer\"},"
        "\"duration_ms\":{\"type\":\"number\"},\"queued_ms\":{\"type\":\"number\"},"
        "\"cpu_ms\":{\"type\":\"number\"},\"peak_memory_bytes\":{\"type\":\"integer\"},"
        "\"session\":{\"type\":\"string\"},"
        "\"state\":{\"type\":\"string\",\"enum\":[\"new\",\"kept\",\"restored\",\"rolled_back\",\"lost\"]},"
        "\"checkpoint\":{\"type\":\"boolean\",\"description\":\"the end of this call was kept as the checkpoint\"},"
        "\"truncated\":{\"type\":\"object\",\"properties\":{\"stdout_bytes\":{\"type\":\"integer\"}"
        ","
        "\"stderr_bytes\":{\"type\":\"integer\"},\"resource\":{\"type\":\"string\","
        "\"description\":\"URI of the whole\"},\"stderr_resource\":{\"type\":\"string\"}}}"
        ",\"branches\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
        "\"session\":{\"type\":\"string\"},\"status\":{\"type\":\"string\"},\"value\":{\"type\":\"object\"},"
        "\"stdout\":{\"type\":\"string\"},\"error\":{\"type\":\"object\"},\"notice\":{\"type\":\"string\"}},"
        "\"required\":[\"session\",\"status\"]}}"
        ",\"plan\":{\"type\":\"object\",\"description\":\"calls of the code in a copy of the session, and what was made of them\"}"
        "," RECEIPT_SCHEMA "," NETWORK_SCHEMA "," RESULT_CONTENT_SCHEMA
        "},\"required\":[\"status\",\"session\"]}";

/* The parts that text and structuredContent share, truncated once. */
enum { REPR, MESSAGE, TRACEBACK, SHOWN, NOTICE, TEXTS };
struct parts {
        struct buffer streams[CELL_STREAMS];
        struct buffer links[CELL_STREAMS]; /* URI of the whole, where it was cut and is kept */
        struct buffer texts[TEXTS];
        bool cut[CELL_STREAMS], repr_cut;
        const char *type;                      /* of the error, or NULL */
        const struct session_running *running; /* status busy */
};

static void parts_done(struct parts *p)
{
        for (int i = 0; i < CELL_STREAMS; i++) {
                buffer_done(&p->streams[i]);
                buffer_done(&p->links[i]);
        }
        for (int i = 0; i < TEXTS; i++)
                buffer_done(&p->texts[i]);
}
#define PARTS_INIT                                                                                 \
        {                                                                                          \
                .streams = {[0 ... CELL_STREAMS - 1] = BUFFER_INIT(TEXT_MAX)},                     \
                .links = {[0 ... CELL_STREAMS - 1] = BUFFER_INIT(TEXT_MAX)}, .texts = {            \
                        [0 ... TEXTS - 1] = BUFFER_INIT(TEXT_MAX)                                  \
                }                                                                                  \
        }
#define _cleanup_parts_ _cleanup_(parts_done)

static int append_piece(void *data, const char *text, size_t n)
{
        return buffer_append(data, text, n);
}

/* A line of Cloister's; the text in it may end within a character. */
static void append_checked(struct buffer *b, const char *text)
{
        struct utf8_stream stream = {};

        if (utf8_feed(&stream, text, strlen(text), append_piece, b) >= 0)
                utf8_finish(&stream, append_piece, b);
}

static int cut_member(yyjson_val *object, const char *key, size_t most, struct buffer *to,
                      bool *cut)
{
        size_t n = 0;
        const char *text = json_string(object, key, &n);

        *cut = false;
        return text ? output_cut(text, n, most, to, cut) : 0;
}

static const char *fate_of_state(const struct cell_outcome *o)
{
        if (o->state == CELL_STATE_LOST)
                return "; the session's variables and files are lost";
        if (o->state == CELL_STATE_RESTORED || o->state == CELL_STATE_ROLLED_BACK)
                return "; ";
        return o->status == CELL_OK || o->state == CELL_STATE_NONE ? "" : "; variables are kept";
}

static void append_line(struct buffer *to, const char *before, const char *text)
{
        buffer_printf(to, "%s%s", to->length > 0 ? "\n" : "", before);
        append_checked(to, text);
}

/* A line about an end of the proxy, and one about each refusal, with the setting's name, at most NETWORK_REFUSALS_MAX; more
 * are counted. */
static void append_refusals(const struct cell_outcome *o, struct buffer *to)
{
        static const char *const changes[] = {
                [CELL_NETWORK_AGAIN] =
                        "the proxy has ended and another one has taken over: connections were closed, requests can be repeated",
                [CELL_NETWORK_RULES] =
                        "network.allow of the profile has changed: connections were closed, requests can be repeated",
                [CELL_NETWORK_OVER] = "the network of this server has ended: restart Cloister",
        };
        char line[512];
        uint64_t more = 0;
        size_t n = 0;

        if (o->network_change != CELL_NETWORK_SAME)
                append_line(to, "", changes[o->network_change]);
        for (size_t i = 0; i < o->n_hosts; i++) {
                const struct cell_host *host = &o->hosts[i];
                if (host->sums.denied == 0 || !egress_is_denial(host->why) ||
                    n == NETWORK_REFUSALS_MAX) {
                        more += host->sums.denied;
                        continue;
                }
                n++;
                egress_reason_print(line, sizeof(line), host->name[0] ? host->name : "a host",
                                    host->port, host->why, o->network_profile);
                append_line(to, "", line);
        }
        if (more == 0)
                return;
        snprintf(line, sizeof(line),
                 "%llu more requests were refused by network.allow of profile \"%s\"",
                 (unsigned long long)more, o->network_profile);
        append_line(to, "", line);
}

/* Notices besides status and output, one line each in structuredContent; none for a normal end. */
static void collect_notice(const struct cell_outcome *o, const struct result_options *options,
                           struct buffer *to)
{
        const char *const notes[] = {o->block, o->note, o->planned, o->owner};
        bool has_why = o->why[0] && !o->error_type;

        if (options->said && *options->said)
                append_line(to, "", options->said);
        if (o->before[0])
                append_line(to, "new session: the earlier one's variables and files were lost: ",
                            o->before);
        if (has_why) {
                append_line(to, "", o->why);
                buffer_append_text(to, fate_of_state(o));
        }
        if (o->restored[0] && has_why)
                append_checked(to, o->restored);
        else if (o->restored[0])
                append_line(to, "", o->restored);
        for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
                if (*notes[i])
                        append_line(to, "", notes[i]);
        }
        append_refusals(o, to);
        if (options->from[CELL_STDOUT].characters + options->from[CELL_STDERR].characters > 0)
                append_line(to, "", "the output begins where the last answer ended");
        if (options->earlier && options->earlier->length > 0)
                append_line(to, "", "an earlier call has ended: its result follows at the end");
}

/* The URI of each truncated output, in the text and in structuredContent. */
static int collect_links(const struct result_options *options, bool has_ended, struct parts *p)
{
        static const char *const names[CELL_STREAMS] = {"stdout", "stderr"};
        struct buffer *notice = &p->texts[NOTICE];

        for (int i = 0; i < CELL_STREAMS; i++) {
                if (p->cut[i] && !has_ended)
                        append_line(notice, names[i],
                                    " was cut; the result at the end names all of it");
                p->cut[i] |= options->was_cut[i];
                if (!options->whole[i] || !p->cut[i])
                        continue;
                int r = resource_uri_append(options->whole[i], &p->links[i]);
                if (r < 0)
                        return r;
                append_line(notice, names[i], " was cut; all of it is the resource ");
                buffer_append(notice, buffer_bytes(&p->links[i]), p->links[i].length);
        }
        return notice->error;
}

static int collect(const struct cell_outcome *o, const struct result_options *options,
                   struct parts *p)
{
        size_t most = options->max_output;
        bool cut;
        int r = 0;

        for (int i = 0; i < CELL_STREAMS && r >= 0; i++)
                r = capture_render_shown(&o->streams[i], options->from[i], most, &p->streams[i],
                                         &p->cut[i]);
        if (r >= 0)
                r = cut_member(o->value, "repr", most, &p->texts[REPR], &p->repr_cut);
        if (r >= 0)
                r = cut_member(o->error, "message", most, &p->texts[MESSAGE], &cut);
        if (r >= 0)
                r = cut_member(o->error, "traceback", most, &p->texts[TRACEBACK], &cut);
        if (r >= 0)
                r = result_content_text(o, options, &p->texts[SHOWN]);
        collect_notice(o, options, &p->texts[NOTICE]);
        if (r >= 0)
                r = collect_links(options, o->status != CELL_RUNNING, p);
        if (o->error)
                p->type = json_string(o->error, "type", NULL);
        if (o->error_type) {
                p->type = o->error_type;
                append_checked(&p->texts[MESSAGE], o->why);
        }
        return r < 0 ? r : p->texts[MESSAGE].error;
}

/* Appends text that begins a new line. */
static void append_block(struct buffer *to, const char *before, const struct buffer *text)
{
        if (text->length == 0)
                return;
        if (to->length > 0 && buffer_bytes(to)[to->length - 1] != '\n')
                buffer_append_text(to, "\n");
        buffer_append_text(to, before);
        buffer_append(to, buffer_bytes(text), text->length);
}

/* Whether text of the code begins like the line that append_status() writes, or could be taken for it:
 * after blanks and signs, with letters of other alphabets, with characters that are not seen. */
static bool looks_like_status(const struct buffer *text)
{
        const char *at = text->length > 0 ? buffer_bytes(text) : "";
        const char *end = at + text->length;
        size_t letters = 0;

        for (; at < end && letters < 6; at++) {
                unsigned char c = (unsigned char)*at;
                if (c >= 0x7f || (c < 0x20 && !isspace(c)))
                        return true;
                if (isalpha(c) && tolower(c) != "status"[letters++])
                        return false;
        }
        return letters == 6;
}

/*
 * Cloister's own first line about the call: everything after it is from the code. A line at
 * the end could not be told from one that the code has printed.
 */
static void append_status(const struct cell_outcome *o, const struct buffer *notice,
                          struct buffer *to)
{
        const char *text = buffer_bytes(notice);
        size_t pending = 0;

        buffer_printf(to, "status: %s", cell_status_name(o->status));
        if (o->has_exit_code)
                buffer_printf(to, " (exit code %d)", o->exit_code);
        for (size_t i = 0; i < o->n_calls; i++)
                pending += o->calls[i].pending;
        if (o->status != CELL_OK && o->calls_total > 0)
                buffer_printf(to, "; tool calls sent: %llu, without an answer: %zu",
                              (unsigned long long)o->calls_total, pending);
        for (size_t at = 0; at < notice->length;) {
                const char *end = memchr(text + at, '\n', notice->length - at);
                size_t n = end ? (size_t)(end - text) - at : notice->length - at;
                buffer_append_text(to, "; ");
                buffer_append(to, text + at, n);
                at += n + 1;
        }
}

/* Appends the output, the value and the exception of the code. From the code is all text after the first line, of code that
 * runs too. */
static void append_output(const struct parts *p, struct buffer *to)
{
        const struct buffer *texts = p->texts;

        append_block(to, "", &p->streams[CELL_STDOUT]);
        append_block(to, "[stderr]\n", &p->streams[CELL_STDERR]);
        append_block(to, "value: ", &texts[REPR]);
        append_block(to, "", &texts[TRACEBACK]);
        if (p->type && texts[TRACEBACK].length == 0) {
                _cleanup_buffer_ struct buffer line = BUFFER_INIT(TEXT_MAX);
                buffer_printf(&line, "%.*s: ", ERROR_TYPE_MAX, p->type);
                buffer_append(&line, buffer_bytes(&texts[MESSAGE]), texts[MESSAGE].length);
                append_block(to, "", &line);
                if (line.error < 0)
                        to->error = line.error;
        }
        if (p->running) {
                append_line(to, "running: ", p->running->code);
                if (p->running->line[0])
                        append_line(to, "last line: ", p->running->line);
        }
        append_block(to, "", &texts[SHOWN]);
}

/* The text. Never empty: one client shows "{}" instead of an empty text. */
static int make_text(const struct cell_outcome *o, const struct result_options *options,
                     const struct parts *p, struct buffer *to)
{
        _cleanup_buffer_ struct buffer output = BUFFER_INIT(TEXT_MAX);
        const struct buffer *notice = &p->texts[NOTICE];

        append_output(p, &output);
        if (o->status != CELL_OK || notice->length > 0 || looks_like_status(&output))
                append_status(o, notice, to);
        if (to->length == 0 && output.length == 0)
                buffer_append_text(to, "ok, no output");
        append_block(to, "", &output);
        append_block(to, "[plan]\n", &o->plan_lines);
        if (options->earlier)
                append_block(to, "[result of an earlier call]\n", options->earlier);
        return output.error < 0 ? output.error : to->error;
}

static void put_buffer(struct json_out *out, const char *key, const struct buffer *b)
{
        json_out_string(out, key, buffer_bytes(b), b->length);
}

static void put_text(struct json_out *out, const char *key, const struct buffer *b)
{
        if (b->length > 0)
                put_buffer(out, key, b);
}

/* Milliseconds, below 10 ms with decimals. */
static void put_ms(struct json_out *out, const char *key, uint64_t us)
{
        const char text[] = {(char)('0' + us / 1000), '.', (char)('0' + us / 100 % 10),
                             (char)('0' + us / 10 % 10)};

        if (us < 10000)
                json_out_raw(out, key, text, us % 100 < 10 ? 3 : 4);
        else
                json_out_int(out, key, us / 1000);
}

/* The value has json besides its repr if both are within the limit; as text if clients in JavaScript would round it. */
static void put_value(struct json_out *out, const struct cell_outcome *o, const struct parts *p,
                      size_t most)
{
        yyjson_val *json = yyjson_obj_get(o->value, "json");
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(most + 1);

        if (!o->value)
                return;
        json_out_begin(out, "value", '{');
        put_buffer(out, "repr", &p->texts[REPR]);
        if (json && !p->repr_cut && json_append(&text, json) >= 0 &&
            text.length + p->texts[REPR].length <= most) {
                if (json_fits_doubles(json))
                        json_out_raw(out, "json", buffer_bytes(&text), text.length);
                else
                        put_buffer(out, "json_text", &text);
        }
        json_out_end(out, '}');
}

static void put_error(struct json_out *out, const struct cell_outcome *o, const struct parts *p)
{
        int64_t line;

        if (!p->type)
                return;
        json_out_begin(out, "error", '{');
        json_out_string(out, "type", p->type, utf8_cut(p->type, strlen(p->type), ERROR_TYPE_MAX));
        put_buffer(out, "message", &p->texts[MESSAGE]);
        put_text(out, "traceback", &p->texts[TRACEBACK]);
        if (json_int64(yyjson_obj_get(o->error, "line"), &line) == 0)
                json_out_int(out, "line", line);
        json_out_end(out, '}');
}

static void put_calls(struct json_out *out, const struct cell_outcome *o)
{
        if (o->calls_total == 0)
                return;
        json_out_begin(out, "tool_calls", '[');
        for (size_t i = 0; i < o->n_calls; i++) {
                const struct cell_call *c = &o->calls[i];
                if (!c->used)
                        continue;
                json_out_begin(out, NULL, '{');
                json_out_text(out, "server", c->server);
                json_out_text(out, "tool", c->tool);
                json_out_bool(out, "ok", c->ok);
                if (c->pending)
                        json_out_bool(out, "pending", true);
                put_ms(out, "duration_ms", c->duration_us);
                if (c->sent_bytes > 0)
                        json_out_int(out, "sent_bytes", (int64_t)c->sent_bytes);
                if (c->received_bytes > 0)
                        json_out_int(out, "received_bytes", (int64_t)c->received_bytes);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
        json_out_int(out, "tool_calls_total", o->calls_total);
}

static void put_signal(struct json_out *out, int number)
{
        char text[32];
        const char *name = sigabbrev_np(number);

        if (number == 0)
                return;
        if (name)
                snprintf(text, sizeof(text), "SIG%s", name);
        else
                snprintf(text, sizeof(text), "SIG%d", number);
        json_out_text(out, "signal", text);
}

static void put_running(struct json_out *out, const struct session_running *running)
{
        if (!running)
                return;
        json_out_begin(out, "running", '{');
        json_out_text(out, "code", running->code);
        put_ms(out, "duration_ms", running->duration_us);
        if (running->line[0])
                json_out_text(out, "last_line", running->line);
        json_out_end(out, '}');
}

static void put_truncated(struct json_out *out, const struct cell_outcome *o, const struct parts *p)
{
        if (!p->cut[CELL_STDOUT] && !p->cut[CELL_STDERR])
                return;
        json_out_begin(out, "truncated", '{');
        if (p->cut[CELL_STDOUT])
                json_out_int(out, "stdout_bytes", o->streams[CELL_STDOUT].bytes);
        if (p->cut[CELL_STDERR])
                json_out_int(out, "stderr_bytes", o->streams[CELL_STDERR].bytes);
        bool both = p->links[CELL_STDOUT].length > 0;
        put_text(out, "resource", &p->links[both ? CELL_STDOUT : CELL_STDERR]);
        if (both)
                put_text(out, "stderr_resource", &p->links[CELL_STDERR]);
        json_out_end(out, '}');
}

static void put_count(struct json_out *out, const char *key, uint64_t n)
{
        if (n > 0)
                json_out_int(out, key, (int64_t)n);
}

/* The resources that the cell has used and the bytes that it has moved, by the kernel and the broker. Nothing in it is the word of the code. cell: 0: it has no
 * number; shown: bytes of the result's text. */
static void put_receipt(struct json_out *out, const struct cell_outcome *o, uint64_t cell,
                        size_t shown)
{
        uint64_t output = 0, seen = o->received_bytes;

        if (o->memory_peak == 0)
                return; /* there was no sandbox */
        for (int i = 0; i < CELL_STREAMS; i++)
                output += o->streams[i].bytes;
        seen += output;
        json_out_begin(out, "receipt", '{');
        put_count(out, "cell", cell);
        json_out_text(out, "peak_of", cell_peak_name(o->peak_of));
        json_out_text(out, "network", cell_network_name(o->network));
        put_count(out, "sent_bytes", o->sent_bytes);
        put_count(out, "received_bytes", o->received_bytes);
        put_count(out, "output_bytes", output);
        put_count(out, "kept_out_bytes", seen > shown ? seen - shown : 0);
        json_out_end(out, '}');
}

static void put_structured(struct json_out *out, const struct cell_outcome *o,
                           const struct result_options *options, const struct parts *p,
                           size_t shown)
{

        json_out_begin(out, "structuredContent", '{');
        json_out_text(out, "status", cell_status_name(o->status));
        put_text(out, "stdout", &p->streams[CELL_STDOUT]);
        put_text(out, "stderr", &p->streams[CELL_STDERR]);
        put_value(out, o, p, options->max_output);
        put_error(out, o, p);
        put_text(out, "notice", &p->texts[NOTICE]);
        put_running(out, p->running);
        if (o->plan.length > 0)
                json_out_buffer(out, "plan", &o->plan);
        if (options->earlier)
                put_text(out, "earlier", options->earlier);
        if (o->has_exit_code)
                json_out_int(out, "exit_code", o->exit_code);
        put_signal(out, o->signal);
        result_content_structured(out, o, options);
        put_calls(out, o);
        if (o->duration_us > 0) {
                put_ms(out, "duration_ms", o->duration_us);
                if (o->status != CELL_RUNNING)
                        put_ms(out, "cpu_ms", o->cpu_us);
        }
        if (o->queued_us >= QUEUED_WORTH_TELLING_US)
                put_ms(out, "queued_ms", o->queued_us);
        if (o->memory_peak > 0)
                json_out_int(out, "peak_memory_bytes", o->memory_peak);
        put_receipt(out, o, options->cell, shown);
        if (o->n_hosts > 0)
                receipt_put_hosts(out, "network", o);
        json_out_text(out, "session", options->session);
        if (o->state != CELL_STATE_NONE)
                json_out_text(out, "state", cell_state_name(o->state));
        if (o->is_checkpoint)
                json_out_bool(out, "checkpoint", true);
        put_truncated(out, o, p);
        json_out_end(out, '}');
}

static int render(const struct cell_outcome *o, const struct result_options *options,
                  struct parts *p, struct buffer *to)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        struct json_out out = {.to = to};

        int r = collect(o, options, p);
        if (r >= 0)
                r = make_text(o, options, p, &text);
        if (r < 0)
                return r;
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "content", '[');
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "type", "text");
        put_buffer(&out, "text", &text);
        json_out_end(&out, '}');
        result_content_append(&out, o, options);
        json_out_end(&out, ']');
        put_structured(&out, o, options, p, text.length);
        json_out_bool(&out, "isError",
                      o->status != CELL_OK && o->status != CELL_RUNNING &&
                              o->status != CELL_PLANNED);
        json_out_end(&out, '}');
        return out.error;
}

int result_render(const struct cell_outcome *outcome, const struct result_options *options,
                  struct buffer *to)
{
        _cleanup_parts_ struct parts parts = PARTS_INIT;

        return render(outcome, options, &parts, to);
}

int result_append_notice(const struct cell_outcome *outcome, struct buffer *to)
{
        const struct result_options none = {};

        collect_notice(outcome, &none, to);
        return to->error;
}

int result_render_text(const struct cell_outcome *outcome, const struct result_options *options,
                       struct buffer *to)
{
        _cleanup_parts_ struct parts parts = PARTS_INIT;

        int r = collect(outcome, options, &parts);
        return r < 0 ? r : make_text(outcome, options, &parts, to);
}

int result_render_branch(const struct cell_outcome *outcome, const char *session, size_t most,
                         struct buffer *object, struct buffer *text)
{
        const struct result_options options = {.session = session, .max_output = most};
        _cleanup_parts_ struct parts parts = PARTS_INIT;
        struct json_out out = {.to = object};

        int r = collect(outcome, &options, &parts);
        if (r < 0)
                return r;
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "session", session);
        json_out_text(&out, "status", cell_status_name(outcome->status));
        put_value(&out, outcome, &parts, most);
        put_text(&out, "stdout", &parts.streams[CELL_STDOUT]);
        put_error(&out, outcome, &parts);
        put_text(&out, "notice", &parts.texts[NOTICE]);
        json_out_end(&out, '}');
        buffer_printf(text, "[%s]", session);
        _cleanup_buffer_ struct buffer shown = BUFFER_INIT(TEXT_MAX);
        r = make_text(outcome, &options, &parts, &shown);
        append_block(text, "\n", &shown);
        buffer_append_text(text, "\n");
        return r < 0 ? r : out.error < 0 ? out.error : text->error;
}

/* Renders the outcome of a call that has no cell. running: what its session runs, or NULL. */
static int render_without_cell(struct cell_outcome *outcome, const char *why, const char *session,
                               const struct session_running *running, struct buffer *to)
{
        const struct result_options options = {.session = session,
                                               .max_output = OUTPUT_CHARACTERS_MAX};
        _cleanup_parts_ struct parts parts = PARTS_INIT;

        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&outcome->streams[i]);
        snprintf(outcome->why, sizeof(outcome->why), "%s", why);
        parts.running = running;
        return render(outcome, &options, &parts, to);
}

int result_render_busy(const struct session_running *running, const char *why, const char *session,
                       struct buffer *to)
{
        return render_without_cell(&(struct cell_outcome){.status = CELL_BUSY}, why, session,
                                   running->code[0] ? running : NULL, to);
}

int result_render_refusal(const char *type, const char *message, const char *session,
                          struct buffer *to)
{
        return render_without_cell(&(struct cell_outcome){.status = CELL_ERROR, .error_type = type},
                                   message, session, NULL, to);
}
