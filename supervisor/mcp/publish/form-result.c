/* Fills the form of a result. */
#include "supervisor/mcp/publish/form-result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json-out.h"
#include "base/utf8.h"
#include "supervisor/mcp/call/result-content.h"
#include "supervisor/mcp/call/result.h"
#include "supervisor/session/cell/output.h"

enum {
        VALUE_MAX = 4 * 1024 *
                    1024, /* bytes of a value that the code printed as JSON, with line breaks */
        NUMBER_MAX = 48,
        EXIT_KILLED = 137, /* 128 and SIGKILL, as a shell tells it */
};
static_assert((int)RESULT_LIMIT_MAX <= (int)CAPTURE_KEEP, "the begin of a stream is kept");

/* A form while it is filled. */
struct filling {
        const struct cell_outcome *outcome;
        const struct form_facts *facts;
        enum result_end end;
        const struct cell_call *call; /* of "item", or NULL */
        const struct buffer *text;    /* of "structured": the whole text, or NULL */
};

/* ---- the end ---- */

/* The length of the white space (Python's str.isspace) that begins a text; 0: none. */
static size_t space_at(const char *text, size_t n)
{
        const unsigned char *s = (const unsigned char *)text;
        int length = n > 0 ? utf8_next(s, n) : 0;

        if (length <= 0)
                return 0;
        uint32_t c = utf8_decode(s, length);
        bool is_space = (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 ||
                        c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
                        c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
        return is_space ? (size_t)length : 0;
}

static void strip_front(const char **text, size_t *n)
{
        size_t length;

        while ((length = space_at(*text, *n)) > 0) {
                *text += length;
                *n -= length;
        }
}

static void strip_back(const char *text, size_t *n)
{
        for (;;) {
                size_t last = *n > 0 ? *n - 1 : 0;

                while (last > 0 && ((unsigned char)text[last] & 0xc0) == 0x80)
                        last--;
                if (*n == 0 || space_at(text + last, *n - last) == 0)
                        return;
                *n = last;
        }
}

static bool is_blank(const struct capture *c)
{
        const struct buffer *parts[] = {&c->head, &c->tail};

        if (c->head.length + c->tail.length < c->text_bytes)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
                const char *text = parts[i]->length > 0 ? buffer_bytes(parts[i]) : "";
                size_t n = parts[i]->length;

                strip_front(&text, &n);
                if (n > 0)
                        return false;
        }
        return true;
}

/* How a call ended. */
static enum result_end form_end(const struct cell_outcome *o, const struct form_facts *facts)
{
        if (*facts->server)
                return RESULT_NO_SERVER;
        if (o->error_type)
                return RESULT_REFUSED;
        switch (o->status) {
        case CELL_OK:
                break;
        case CELL_ERROR:
                return RESULT_ERROR;
        case CELL_EXIT:
                if (o->has_exit_code && o->exit_code != 0)
                        return RESULT_EXIT;
                break;
        case CELL_TIMEOUT:
                return RESULT_TIMEOUT;
        case CELL_OOM:
                return RESULT_OOM;
        default:
                return RESULT_KILLED;
        }
        return is_blank(&o->streams[CELL_STDOUT]) ? RESULT_NO_OUTPUT : RESULT_OK;
}

/* ---- fields ---- */

static int append_string(struct buffer *to, yyjson_val *string)
{
        return buffer_append(to, yyjson_get_str(string), yyjson_get_len(string));
}

/* A line of Cloister's may end within a character. */
static int append_why(struct buffer *to, const char *why)
{
        char text[CELL_WHY_MAX];

        snprintf(text, sizeof(text), "%s", why);
        utf8_trim(text);
        return buffer_append_text(to, text);
}

/* The type and the message of the error, or why there is no result. */
static int append_error(const struct filling *f, struct buffer *to)
{
        const struct cell_outcome *o = f->outcome;
        yyjson_val *message = yyjson_obj_get(o->error, "message");
        const char *type = json_string(o->error, "type", NULL);

        if (result_end_is_good(f->end))
                return 0;
        if (!o->error_type && o->status == CELL_EXIT)
                return buffer_printf(to, "exit code %d", o->exit_code);
        if (o->error_type || o->status != CELL_ERROR)
                return append_why(to, *o->why ? o->why : cell_status_name(o->status));
        if (type && strncmp(type, "cloister.", strlen("cloister.")) != 0) {
                buffer_append_text(to, type);
                buffer_append_text(to, yyjson_get_len(message) > 0 ? ": " : "");
        }
        return append_string(to, message);
}

/* As Python leaves it on the standard error of a script. */
static yyjson_val *traceback_of(const struct filling *f)
{
        return f->end == RESULT_ERROR ? yyjson_obj_get(f->outcome->error, "traceback") : NULL;
}

/* A stream: its begin up to a limit of bytes, or shortened. *cut: whether it is not whole. */
static int append_stream(const struct filling *f, enum cell_stream stream, size_t limit,
                         struct buffer *to, bool *cut)
{
        const struct capture *c = &f->outcome->streams[stream];
        yyjson_val *traceback = stream == CELL_STDERR && f->facts->is_script ? traceback_of(f)
                                                                             : NULL;

        int r = limit > 0 ? capture_begin(c, limit, to, cut)
                          : capture_render(c, f->facts->most, to, cut);
        if (r < 0 || !traceback || (limit > 0 && *cut))
                return r;
        if (limit > 0)
                return append_string(to, traceback);
        bool both = *cut;
        r = output_cut(yyjson_get_str(traceback), yyjson_get_len(traceback), f->facts->most, to,
                       cut);
        *cut |= both;
        return r;
}

static int append_name(const struct filling *f, enum result_field field, struct buffer *to)
{
        const struct cell_outcome *o = f->outcome;
        const char *name = o->signal ? sigabbrev_np(o->signal) : NULL;

        switch (field) {
        case RESULT_OF_STATUS:
                return buffer_append_text(to, result_end_name(f->end));
        case RESULT_OF_SIGNAL:
                return name ? buffer_printf(to, "SIG%s", name) : 0;
        case RESULT_OF_SESSION:
                return buffer_append_text(to, f->facts->session);
        case RESULT_OF_SERVER:
                return buffer_append_text(to, f->call ? f->call->server : f->facts->server);
        case RESULT_OF_TOOL:
                return buffer_append_text(to, f->call ? f->call->tool : "");
        default:
                return 0;
        }
}

/* A text that is not a stream. */
static int append_other(const struct filling *f, enum result_field field, struct buffer *to)
{
        yyjson_val *traceback = traceback_of(f);

        if (field == RESULT_OF_NOTICE)
                return result_append_notice(f->outcome, to);
        if (field == RESULT_OF_VALUE && f->outcome->value)
                return append_string(to, yyjson_obj_get(f->outcome->value, "repr"));
        if (field == RESULT_OF_TRACEBACK && traceback)
                return append_string(to, traceback);
        if (field == RESULT_OF_TRACEBACK || field == RESULT_OF_ERROR_LINE)
                return append_error(f, to);
        if (field == RESULT_OF_WHOLE_TEXT && f->text && f->text->length > 0)
                return buffer_append(to, buffer_bytes(f->text), f->text->length);
        return append_name(f, field, to);
}

static int collect_text(const struct filling *f, enum result_field field, size_t limit,
                        struct buffer *to, bool *cut)
{
        *cut = false;
        if (field == RESULT_OF_STDOUT || field == RESULT_OF_STDERR)
                return append_stream(f, field == RESULT_OF_STDOUT ? CELL_STDOUT : CELL_STDERR,
                                     limit, to, cut);
        if (limit > 0 || field == RESULT_OF_WHOLE_TEXT)
                return append_other(f, field, to);
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT(FORM_TEXT_MAX);
        int r = append_other(f, field, &whole);
        return r < 0 || whole.length == 0
                       ? r
                       : output_cut(buffer_bytes(&whole), whole.length, f->facts->most, to, cut);
}

static int exit_code(const struct filling *f)
{
        const struct cell_outcome *o = f->outcome;

        if (o->has_exit_code)
                return o->exit_code;
        if (result_end_is_good(f->end))
                return 0;
        if (o->signal)
                return 128 + o->signal;
        return f->end == RESULT_ERROR || f->end == RESULT_REFUSED || f->end == RESULT_NO_SERVER
                       ? 1
                       : EXIT_KILLED;
}

/* Three digits after the point, of which zeros at the end are left out. */
static void print_shortest(char to[NUMBER_MAX], double value)
{
        size_t n = (size_t)snprintf(to, NUMBER_MAX, "%.3f", value);

        while (to[n - 1] == '0')
                n--;
        to[to[n - 1] == '.' ? n - 1 : n] = '\0';
}

static void print_number(const struct filling *f, const struct result_part *part,
                         char to[NUMBER_MAX])
{
        uint64_t us = f->call ? f->call->duration_us : f->outcome->duration_us;
        uint64_t ms = us / 1000;
        double value = 0;

        switch (part->field) {
        case RESULT_OF_EXIT_CODE:
                value = exit_code(f);
                break;
        case RESULT_OF_SECONDS:
                value = (double)us / 1e6;
                break;
        case RESULT_OF_MILLISECONDS:
                value = part->digits > 0 ? (double)us / 1e3 : (double)ms;
                break;
        case RESULT_OF_TIMEOUT_S:
                value = f->facts->timeout_ms / 1e3;
                break;
        case RESULT_OF_TIMEOUT_MS:
                value = f->facts->timeout_ms;
                break;
        default:
                break;
        }
        if (part->digits >= 0)
                snprintf(to, NUMBER_MAX, "%.*f", part->digits, value);
        else
                print_shortest(to, value);
}

/* ---- parts of a text ---- */

static int append_marker(const struct result_part *part, struct buffer *to)
{
        const char *at = yyjson_get_str(part->marker), *end = at + yyjson_get_len(part->marker);
        struct result_piece piece;
        int r = 0;

        while (r >= 0 && at && result_piece_next(&at, end, RESULT_IN_MARKER, &piece) > 0) {
                if (piece.literal)
                        r = buffer_append(to, piece.literal, piece.length);
                else if (piece.field == RESULT_OF_LIMIT)
                        r = buffer_printf(to, "%zu", part->limit);
                else
                        r = buffer_printf(to, "%.0f", (double)part->limit / 1024);
        }
        return r;
}

/* Shortens a text to the limit of its part, the marker included. */
static int append_limited(const struct result_part *part, const char *text, size_t n, bool cut,
                          struct buffer *to)
{
        _cleanup_buffer_ struct buffer marker = BUFFER_INIT(RESULT_FORM_MAX);

        if (part->limit == 0 || (!cut && n <= part->limit))
                return buffer_append(to, text, n);
        int r = append_marker(part, &marker);
        if (r < 0)
                return r;
        size_t after = marker.length > 0
                               ? utf8_cut(buffer_bytes(&marker), marker.length, part->limit)
                               : 0;
        r = buffer_append(to, text, utf8_cut(text, n, part->limit - after));
        return r < 0 || after == 0 ? r : buffer_append(to, buffer_bytes(&marker), after);
}

/* The value of a part as text, without `before` and `after`. */
static int append_value(const struct filling *f, const struct result_part *part, struct buffer *to)
{
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT(FORM_TEXT_MAX);
        char number[NUMBER_MAX];
        bool cut;

        if (result_field_type(part->field) == RESULT_NUMBER) {
                print_number(f, part, number);
                return buffer_append_text(to, number);
        }
        if (result_field_type(part->field) == RESULT_BOOL)
                return buffer_append_text(to, f->call && f->call->ok ? "true" : "false");
        int r = collect_text(f, part->field, part->limit, &whole, &cut);
        if (r < 0 || whole.length == 0)
                return r;
        const char *text = buffer_bytes(&whole);
        size_t n = whole.length;
        if (part->is_stripped)
                strip_front(&text, &n);
        if (part->is_stripped)
                strip_back(text, &n);
        return append_limited(part, text, n, cut, to);
}

/* A part with options. Returns whether it stands. */
static int append_part(const struct filling *f, const struct result_part *part, struct buffer *to)
{
        _cleanup_buffer_ struct buffer value = BUFFER_INIT(FORM_TEXT_MAX);

        int r = append_value(f, part, &value);
        if (r < 0)
                return r;
        if (value.length == 0) {
                r = yyjson_is_str(part->empty) ? append_string(to, part->empty) : 0;
                return r < 0 ? r : part->empty != NULL;
        }
        append_string(to, part->before);
        buffer_append(to, buffer_bytes(&value), value.length);
        append_string(to, part->after);
        return to->error < 0 ? to->error : 1;
}

/* A string with fields. Returns whether one of them has a value, or there is none. */
static int append_pieces(const struct filling *f, yyjson_val *string, struct buffer *to)
{
        const char *at = yyjson_get_str(string), *end = at + yyjson_get_len(string);
        struct result_piece piece;
        bool has_field = false, has_value = false;
        int r = 0;

        while (r >= 0 && result_piece_next(&at, end, ~0u, &piece) > 0) {
                const struct result_part part = {.field = piece.field, .digits = -1};
                size_t before = to->length;

                r = piece.literal ? buffer_append(to, piece.literal, piece.length)
                                  : append_value(f, &part, to);
                has_field |= !piece.literal;
                has_value |= !piece.literal && to->length > before;
        }
        return r < 0 ? r : has_value || !has_field;
}

static int append_text(const struct filling *f, const struct result_case *of, struct buffer *to)
{
        yyjson_val *one;
        size_t i, n, n_parts = 0;

        yyjson_arr_foreach (of->text, i, n, one) {
                _cleanup_buffer_ struct buffer text = BUFFER_INIT(FORM_TEXT_MAX);
                struct result_part part;

                if (!yyjson_is_str(one))
                        result_part_read(one, &part);
                int r = yyjson_is_str(one) ? append_pieces(f, one, &text)
                                           : append_part(f, &part, &text);
                if (r < 0)
                        return r;
                if (r == 0)
                        continue;
                if (n_parts++ > 0 && of->join)
                        append_string(to, of->join);
                else if (n_parts > 1)
                        buffer_append(to, "\n", 1);
                if (text.length > 0)
                        buffer_append(to, buffer_bytes(&text), text.length);
        }
        return to->error;
}

/* ---- parts of a json ---- */

static void put_tree(struct json_out *out, const struct filling *f, yyjson_val *tree);
static void put_member(struct json_out *out, const struct filling *f, yyjson_val *key,
                       yyjson_val *value);

static void put_string(struct json_out *out, const struct buffer *text)
{
        json_out_string(out, NULL, text->length > 0 ? buffer_bytes(text) : "", text->length);
}

/* Text of the code that is JSON stands as its value, unless it is too large. Returns whether it does. */
static bool put_parsed(struct json_out *out, const char *text, size_t n)
{
        _cleanup_buffer_ struct buffer value = BUFFER_INIT(VALUE_MAX);
        struct json_out own = {.to = &value, .indent = out->indent};
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error ignored = {};

        if (n > VALUE_MAX || json_parse(text, n, &doc, &ignored) < 0)
                return false;
        json_out_value(&own, NULL, yyjson_doc_get_root(doc));
        if (own.error < 0)
                return false;
        json_out_value(out, NULL, yyjson_doc_get_root(doc));
        return true;
}

static void put_calls(struct json_out *out, const struct filling *f, yyjson_val *item)
{
        static const enum result_field usual[] = {RESULT_OF_SERVER, RESULT_OF_TOOL};
        const struct cell_outcome *o = f->outcome;

        json_out_begin(out, NULL, '[');
        for (size_t i = 0; i < o->n_calls; i++) {
                struct filling inner = *f;

                inner.call = &o->calls[i];
                if (!inner.call->used)
                        continue;
                if (item) {
                        put_member(out, &inner, NULL, item);
                        continue;
                }
                json_out_begin(out, NULL, '{');
                for (size_t j = 0; j < ARRAY_SIZE(usual); j++)
                        json_out_text(out, j == 0 ? "server" : "tool",
                                      j == 0 ? inner.call->server : inner.call->tool);
                json_out_bool(out, "ok", inner.call->ok);
                json_out_int(out, "milliseconds", (int64_t)(inner.call->duration_us / 1000));
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}

static bool has_calls(const struct cell_outcome *o)
{
        for (size_t i = 0; i < o->n_calls; i++)
                if (o->calls[i].used)
                        return true;
        return false;
}

/* The value of a part whose text is not empty. */
static void put_value(struct json_out *out, const struct filling *f, const struct result_part *part,
                      const struct buffer *text)
{
        enum result_type type = result_field_type(part->field);
        yyjson_val *json = part->field == RESULT_OF_VALUE && part->is_json
                                   ? yyjson_obj_get(f->outcome->value, "json")
                                   : NULL;

        if (type == RESULT_NUMBER || type == RESULT_BOOL)
                json_out_raw(out, NULL, buffer_bytes(text), text->length);
        else if (json)
                json_out_value(out, NULL, json);
        else if (!part->is_json || part->field == RESULT_OF_VALUE ||
                 !put_parsed(out, buffer_bytes(text), text->length))
                put_string(out, text);
}

static void put_key(struct json_out *out, yyjson_val *key)
{
        if (key)
                json_out_key(out, yyjson_get_str(key), yyjson_get_len(key));
}

/* A part with options: left out, with its key, if it is empty. */
static void put_part(struct json_out *out, const struct filling *f, yyjson_val *key,
                     const struct result_part *part)
{
        _cleanup_buffer_ struct buffer value = BUFFER_INIT(FORM_TEXT_MAX);
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(FORM_TEXT_MAX);
        bool is_list = result_field_type(part->field) == RESULT_LIST;
        int r = 0;

        if (!is_list)
                r = append_value(f, part, &value);
        if (r < 0) {
                json_out_fail(out, r);
                return;
        }
        if (is_list ? has_calls(f->outcome) : value.length > 0) {
                put_key(out, key);
                if (is_list) {
                        put_calls(out, f, part->item);
                } else if (!part->before && !part->after) {
                        put_value(out, f, part, &value);
                } else {
                        append_string(&text, part->before);
                        buffer_append(&text, buffer_bytes(&value), value.length);
                        append_string(&text, part->after);
                        if (text.error < 0)
                                json_out_fail(out, text.error);
                        put_string(out, &text);
                }
        } else if (part->empty) {
                put_key(out, key);
                json_out_value(out, NULL, part->empty);
        }
}

static void put_member(struct json_out *out, const struct filling *f, yyjson_val *key,
                       yyjson_val *value)
{
        struct result_part part;

        if (result_is_part(value)) {
                result_part_read(value, &part);
                put_part(out, f, key, &part);
        } else {
                put_key(out, key);
                put_tree(out, f, value);
        }
}

/* Its depth has a bound: the form was checked. */
static void put_tree(struct json_out *out, const struct filling *f, yyjson_val *tree)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(FORM_TEXT_MAX);
        yyjson_val *key, *value;
        size_t i, n;

        if (yyjson_is_str(tree)) {
                int r = append_pieces(f, tree, &text);
                if (r < 0)
                        json_out_fail(out, r);
                put_string(out, &text);
        } else if (yyjson_is_ctn(tree)) {
                json_out_begin(out, NULL, yyjson_is_obj(tree) ? '{' : '[');
                yyjson_obj_foreach (tree, i, n, key, value) {
                        put_member(out, f, key, value);
                }
                yyjson_arr_foreach (tree, i, n, value) {
                        put_member(out, f, NULL, value);
                }
                json_out_end(out, yyjson_is_obj(tree) ? '}' : ']');
        } else {
                json_out_value(out, NULL, tree);
        }
}

/* ---- the result ---- */

static void put_text_block(struct json_out *out, const struct buffer *text)
{
        json_out_begin(out, NULL, '{');
        json_out_text(out, "type", "text");
        json_out_key(out, "text", strlen("text"));
        put_string(out, text);
        json_out_end(out, '}');
}

static void put_images(struct json_out *out, const struct filling *f, enum result_images which)
{
        const struct cell_outcome *o = f->outcome;
        const struct result_options shown = {.session = f->facts->session,
                                             .max_output = f->facts->most,
                                             .kinds = f->facts->kinds};
        size_t last = o->n_displays;

        for (size_t i = 0; i < o->n_displays; i++)
                if (o->displays[i].is_picture && !o->displays[i].is_block)
                        last = i;
        for (size_t i = 0; i < o->n_displays && which != RESULT_IMAGES_NONE; i++) {
                const struct cell_display *d = &o->displays[i];

                if (!d->is_picture || d->is_block || (which == RESULT_IMAGES_LAST && i != last))
                        continue;
                if (cell_picture_is_shown(&d->picture))
                        result_content_put_display(out, o, i, &shown);
                else
                        result_content_put_refused(out, &d->picture, buffer_bytes(&d->data),
                                                   d->data.length);
        }
}

static int make_text(const struct filling *f, const struct result_case *of, struct buffer *text)
{
        struct json_out json = {.to = text, .indent = !of->is_compact};

        if (of->text)
                return append_text(f, of, text);
        put_member(&json, f, NULL, of->json);
        return json.error;
}

/* The bytes of a text as a JSON string, at most. */
static size_t string_bytes(const struct buffer *text)
{
        size_t n = text->length;

        for (size_t i = 0; i < text->length; i++) {
                unsigned char c = (unsigned char)buffer_bytes(text)[i];
                n += c < 0x20 || c == 0x7f ? 5 : c == '"' || c == '\\';
        }
        return n;
}

static int render(const struct filling *f, const struct result_case *of, struct buffer *to)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(FORM_TEXT_MAX);
        struct filling whole = *f;
        struct json_out out = {.to = to};
        bool is_good = result_end_is_good(f->end);

        int r = make_text(f, of, &text);
        bool is_too_large = r == -EMSGSIZE || (r >= 0 && string_bytes(&text) > FORM_STRING_MAX);
        if (r < 0 && !is_too_large)
                return r;
        if (is_too_large) {
                buffer_done(&text);
                buffer_init(&text, FORM_TEXT_MAX);
                buffer_printf(&text, "the result is larger than %d MiB", FORM_TEXT_MAX >> 20);
        }
        whole.text = &text;
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "content", '[');
        put_images(&out, f, of->images);
        put_text_block(&out, &text);
        json_out_end(&out, ']');
        if (of->structured && !is_too_large) {
                json_out_key(&out, "structuredContent", strlen("structuredContent"));
                put_tree(&out, &whole, of->structured);
        }
        json_out_bool(&out, "isError",
                      is_too_large || (of->has_is_error ? of->is_error : !is_good));
        json_out_end(&out, '}');
        return out.error;
}

/* The streams stripped, then the value and the reason of a failure; a script has its traceback in stderr. */
static const char usual_of_cell[] =
        "[{\"images\":\"all\",\"text\":[{\"field\":\"stdout\",\"as\":\"stripped\"},"
        "{\"field\":\"stderr\",\"as\":\"stripped\"},\"{value}\","
        "{\"field\":\"traceback\",\"as\":\"stripped\"}]}]";
static const char usual_of_script[] =
        "[{\"when\":[\"ok\",\"error\"],\"images\":\"all\",\"text\":["
        "{\"field\":\"stdout\",\"as\":\"stripped\"},{\"field\":\"stderr\",\"as\":\"stripped\"}]},"
        "{\"images\":\"all\",\"text\":[{\"field\":\"stdout\",\"as\":\"stripped\"},"
        "{\"field\":\"stderr\",\"as\":\"stripped\"},\"{error}\"]}]";

int form_render(const struct cell_outcome *outcome, const struct form_facts *facts,
                struct buffer *to)
{
        const struct filling f = {
                .outcome = outcome, .facts = facts, .end = form_end(outcome, facts)};
        const char *form = facts->form        ? facts->form
                           : facts->is_script ? usual_of_script
                                              : usual_of_cell;
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct result_case of = {};
        struct error err = {};

        if (json_parse(form, strlen(form), &doc, &err) < 0)
                return -ENOMEM;
        result_form_find(yyjson_doc_get_root(doc), f.end, &of);
        return render(&f, &of, to);
}
