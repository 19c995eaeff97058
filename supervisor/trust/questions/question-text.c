/* Text and form of a question. */
#include "supervisor/trust/questions/question-text.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/plural.h"
#include "base/printable.h"
#include "supervisor/service/sha256.h"

enum {
        WHY_SHOWN = 300,  /* bytes */
        WHY_SHORT = 30,   /* characters that the first line has of it in any case … */
        WHY_SHORTER = 15, /* … with other rules */
        TOOLS_SHOWN = 3,
        RULES_SHOWN = 3,
        TAIL_MAX = 1000, /* bytes of the lines after the calls */
        TEXT_MAX = 64 * 1024,
        WHOLE_MAX = 32 * 1024 * 1024, /* of arguments, with escapes */
        COLUMNS_MIN = 20,
};

static_assert((int)QUESTION_SHA_SIZE == SHA256_TEXT_SIZE, "the digest of a question is SHA-256");

/* ---- the digest ---- */

int question_digest(const struct question_call *const *calls, size_t n, char ret[QUESTION_SHA_SIZE])
{
        _cleanup_buffer_ struct buffer all = BUFFER_INIT(SIZE_MAX / 2);
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++) {
                r = buffer_printf(&all, "%s.%s\n", calls[i]->server, calls[i]->tool);
                if (r >= 0)
                        r = buffer_append(&all, calls[i]->json, calls[i]->n);
                if (r >= 0)
                        r = buffer_append(&all, "\n", 1);
        }
        if (r < 0)
                return r;
        sha256_text(buffer_bytes(&all), all.length, ret);
        return 0;
}

/* ---- the message ---- */

/* Appends at most `most` characters of a text that is not trusted, in one line. */
static int append_name(struct buffer *to, const char *text, size_t most)
{
        size_t n = strlen(text), cut = utf8_skip(text, n, most);
        int r = terminal_escape_line(text, cut, to);

        return r >= 0 && cut < n ? buffer_append_text(to, "…") : r;
}

static bool is_same_tool(const struct question_call *a, const struct question_call *b)
{
        return strcmp(a->server, b->server) == 0 && strcmp(a->tool, b->tool) == 0;
}

static int append_tool(struct buffer *to, const struct question_call *call)
{
        int r = append_name(to, call->server, 40);

        if (r >= 0)
                r = buffer_append(to, ".", 1);
        return r < 0 ? r : append_name(to, call->tool, 60);
}

static size_t count_tool(const struct question_view *view, size_t of)
{
        size_t n = 0;

        for (size_t i = 0; i < view->n_calls; i++)
                n += is_same_tool(view->calls[i], view->calls[of]);
        return n;
}

/* The different tools, in the order of the calls; of a plan with how often each is called. */
static int append_tools(const struct question_view *view, struct buffer *to)
{
        size_t shown = 0;
        int r = 0;

        for (size_t i = 0; i < view->n_calls && r >= 0; i++) {
                bool is_known = false;
                for (size_t k = 0; k < i && !is_known; k++)
                        is_known = is_same_tool(view->calls[k], view->calls[i]);
                if (is_known)
                        continue;
                if (shown == TOOLS_SHOWN)
                        return buffer_append_text(to, " and other tools");
                if (shown++ > 0)
                        r = buffer_append_text(to, ", ");
                if (r >= 0 && view->is_plan)
                        r = buffer_printf(to, "%zu ", count_tool(view, i));
                if (r >= 0)
                        r = append_tool(to, view->calls[i]);
        }
        return r;
}

static bool is_same_rule(const struct question_call *a, const struct question_call *b)
{
        return strcmp(a->rule, b->rule) == 0 &&
               strcmp(a->why ? a->why : "", b->why ? b->why : "") == 0;
}

/* Whether call i is the first one of its rule, and has one. */
static bool is_first_of_rule(const struct question_view *view, size_t i)
{
        if (strcmp(view->calls[i]->rule, QUESTION_ALLOWED) == 0)
                return false;
        for (size_t k = 0; k < i; k++) {
                if (is_same_rule(view->calls[k], view->calls[i]))
                        return false;
        }
        return true;
}

/* Counted up to `most`. */
static size_t count_rules(const struct question_view *view, size_t most)
{
        size_t n = 0;

        for (size_t i = 0; i < view->n_calls && n < most; i++)
                n += is_first_of_rule(view, i);
        return n;
}

/* The reason of the first call that has one. */
static const char *find_why(const struct question_view *view)
{
        for (size_t i = 0; i < view->n_calls; i++) {
                if (view->calls[i]->why && *view->calls[i]->why)
                        return view->calls[i]->why;
        }
        return NULL;
}

/* "40 calls of mail.send: writes outside the notes: cloister approve 7k2m9x4a". */
static int append_first(const struct question_view *view, struct buffer *to)
{
        bool has_others = count_rules(view, 2) > 1;
        size_t least = has_others ? WHY_SHORTER : WHY_SHORT;
        const char *others = has_others ? " (and other rules)" : "";
        const char *why = find_why(view);
        const char *last = view->lacks_terminal ? "question" : "cloister approve";
        size_t from = to->length;

        int r = buffer_printf(to, view->is_plan ? "plan of %zu call%s: " : "%zu call%s of ",
                              view->n_calls, plural(view->n_calls));
        if (r >= 0)
                r = append_tools(view, to);
        size_t used = utf8_count(buffer_bytes(to) + from, to->length - from) + strlen(": :  ") +
                      strlen(last) + strlen(view->id) + strlen(others);
        if (r >= 0 && why) {
                size_t room = used < QUESTION_LINE ? QUESTION_LINE - used - 1 : 0;
                r = buffer_append_text(to, ": ");
                if (r >= 0)
                        r = append_name(to, why, room > least ? room : least);
        }
        return r < 0 ? r : buffer_printf(to, "%s: %s %s\n", others, last, view->id);
}

/* The JSON that will be sent, in one line: white space between its values may be anything. */
static int append_json(struct buffer *to, const char *json, size_t n)
{
        size_t from = to->length;
        int r = printable_json(to, json, n);

        for (char *c = buffer_bytes(to) + from; r >= 0 && c < buffer_bytes(to) + to->length; c++) {
                if (*c == '\n' || *c == '\r' || *c == '\t')
                        *c = ' ';
        }
        return r;
}

static int append_call(const struct question_view *view, size_t i, struct buffer *to)
{
        const struct question_call *call = view->calls[i];
        int r = buffer_printf(to, "%zu. ", i + 1);

        if (r >= 0)
                r = append_tool(to, call);
        if (r >= 0)
                r = buffer_append(to, " ", 1);
        if (r < 0)
                return r;
        size_t from = to->length;
        /* Enough to fill the line: an escape is not shorter than what it replaces. */
        size_t shown = utf8_cut(call->json, call->n, QUESTION_LINE_MAX);
        r = append_json(to, call->json, shown);
        if (r < 0)
                return r;
        if (shown < call->n || to->length - from > QUESTION_LINE_MAX) {
                size_t cut = utf8_cut(buffer_bytes(to) + from, to->length - from,
                                      QUESTION_LINE_MAX);
                to->length = from + cut;
                r = buffer_append_text(to, "… (cut)");
        }
        if (r >= 0)
                r = buffer_printf(to, " (%zu bytes)", call->n);
        if (r >= 0 && call->unsure)
                r = buffer_printf(to, " unsure: line %u", call->unsure);
        return r < 0 ? r : buffer_append(to, "\n", 1);
}

/* The lines of the calls, as many as there is room for: *n. */
static int append_calls(const struct question_view *view, size_t most, struct buffer *to, size_t *n)
{
        for (size_t i = *n = 0; i < view->n_calls; i++, (*n)++) {
                _cleanup_buffer_ struct buffer line = BUFFER_INIT(TEXT_MAX);
                int r = append_call(view, i, &line);

                if (r < 0)
                        return r;
                if (to->length + line.length > most)
                        return view->lacks_terminal
                                       ? buffer_printf(to, "… %zu more\n", view->n_calls - i)
                                       : buffer_printf(to, "… %zu more: cloister approve %s\n",
                                                       view->n_calls - i, view->id);
                r = buffer_append(to, buffer_bytes(&line), line.length);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int append_rules(const struct question_view *view, struct buffer *to)
{
        size_t shown = 0;
        int r = 0;

        for (size_t i = 0; i < view->n_calls && r >= 0; i++) {
                if (!is_first_of_rule(view, i))
                        continue;
                if (shown == RULES_SHOWN)
                        return buffer_append_text(to, " and others");
                r = buffer_append_text(to, shown++ > 0 ? ", " : "");
                if (r >= 0)
                        r = append_name(to, view->calls[i]->rule, WHY_SHOWN / RULES_SHOWN);
        }
        return r;
}

int question_message(const struct question_view *view, struct buffer *to, size_t *n_shown)
{
        _cleanup_buffer_ struct buffer tail = BUFFER_INIT(TEXT_MAX);

        int r = buffer_append_text(&tail, "session ");
        if (r >= 0)
                r = append_name(&tail, view->session, 130);
        if (r >= 0 && *view->principal)
                r = buffer_append_text(&tail, ", principal ");
        if (r >= 0 && *view->principal)
                r = append_name(&tail, view->principal, 130);
        if (r >= 0)
                r = buffer_printf(&tail, "; rule%s: ", count_rules(view, 2) > 1 ? "s" : "");
        if (r >= 0)
                r = append_rules(view, &tail);
        if (r >= 0)
                r = buffer_printf(&tail, "\nSHA-256 %s", view->sha256);
        if (r >= 0)
                r = append_first(view, to);
        if (r >= 0)
                r = append_calls(view, CLIENT_MESSAGE_MAX - TAIL_MAX - 100, to, n_shown);
        if (r < 0)
                return r;
        return buffer_append(to, buffer_bytes(&tail),
                             utf8_cut(buffer_bytes(&tail), tail.length, TAIL_MAX));
}

/* ---- at a terminal ---- */

#define PREFIX "   | "

/* The columns of a character, or more than it has: a line that is wrapped early does no harm. */
static size_t width_of(uint32_t c)
{
        return c < 0x1100 ? 1 : 2;
}

/* Valid UTF-8 in one line, in lines of at most `columns`. */
static int append_wrapped(const char *text, size_t n, size_t columns, struct buffer *to)
{
        const unsigned char *s = (const unsigned char *)text;
        size_t used = columns;
        int r = 0;

        for (size_t at = 0; at < n && r >= 0;) {
                int length = utf8_next(s + at, n - at);
                size_t taken = length > 0 ? (size_t)length : 1;
                size_t width = length > 0 ? width_of(utf8_decode(s + at, length)) : 1;

                if (used + width > columns) {
                        r = buffer_append_text(to, at > 0 ? "\n" PREFIX : PREFIX);
                        used = strlen(PREFIX);
                }
                if (r >= 0)
                        r = buffer_append(to, text + at, taken);
                used += width;
                at += taken;
        }
        return r < 0 ? r : buffer_append(to, "\n", 1);
}

static int append_whole_call(const struct question_call *call, size_t i, size_t columns,
                             struct buffer *to)
{
        _cleanup_buffer_ struct buffer json = BUFFER_INIT(WHOLE_MAX);

        int r = buffer_printf(to, "%zu. ", i + 1);
        if (r >= 0)
                r = append_tool(to, call);
        if (r >= 0)
                r = buffer_printf(to, ", %zu bytes", call->n);
        if (r >= 0 && call->unsure)
                r = buffer_printf(
                        to, "; unsure: the code has used a result that is not real, at line %u",
                        call->unsure);
        if (r >= 0)
                r = buffer_append_text(to, "; rule: ");
        if (r >= 0)
                r = append_name(to, call->rule, WHY_SHOWN);
        if (r >= 0 && call->why && *call->why)
                r = buffer_append_text(to, ": ");
        if (r >= 0 && call->why && *call->why)
                r = append_name(to, call->why, WHY_SHOWN);
        if (r >= 0)
                r = buffer_append(to, "\n", 1);
        if (r >= 0)
                r = append_json(&json, call->json, call->n);
        return r < 0 ? r : append_wrapped(buffer_bytes(&json), json.length, columns, to);
}

int question_whole(const struct question_view *view, size_t columns, struct buffer *to)
{
        int r = buffer_printf(to, "question %s%s, session ", view->id,
                              view->is_plan ? " about a plan" : "");

        columns = columns < COLUMNS_MIN ? COLUMNS_MIN : columns;
        if (r >= 0)
                r = append_name(to, view->session, 130);
        if (r >= 0 && *view->principal)
                r = buffer_append_text(to, ", principal ");
        if (r >= 0 && *view->principal)
                r = append_name(to, view->principal, 130);
        if (r >= 0)
                r = buffer_append(to, "\n", 1);
        for (size_t i = 0; i < view->n_calls && r >= 0; i++)
                r = append_whole_call(view->calls[i], i, columns, to);
        return r < 0 ? r : buffer_printf(to, "SHA-256 %s\n", view->sha256);
}

bool question_is_short(const struct question_view *view)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);

        if (view->n_calls > 2 || append_first(view, &text) < 0)
                return false;
        for (size_t i = 0; i < view->n_calls; i++) {
                if (view->calls[i]->n > QUESTION_LINE || append_call(view, i, &text) < 0)
                        return false;
        }
        const char *line = buffer_bytes(&text), *end = line + text.length;
        while (line < end) {
                const char *next = memchr(line, '\n', (size_t)(end - line));
                if (!next || utf8_count(line, (size_t)(next - line)) > QUESTION_LINE)
                        return false;
                line = next + 1;
        }
        return true;
}

/* ---- the form ---- */

static const char *const scopes[SCOPES] = {"once", "cell", "session", "always", "no"};

const char *question_scope_name(enum question_scope scope)
{
        return scopes[scope];
}

enum question_scope question_scope_find(const char *name, size_t n)
{
        for (int i = 0; i < SCOPES; i++) {
                if (strlen(scopes[i]) == n && memcmp(scopes[i], name, n) == 0)
                        return (enum question_scope)i;
        }
        return SCOPES;
}

/* A terminal may show the end of a long message only: the number stands here too. */
void question_title(const struct question_view *view, char ret[QUESTION_TITLE_SIZE])
{
        if (view->n_calls == 1)
                snprintf(ret, QUESTION_TITLE_SIZE, "Send this call?");
        else
                snprintf(ret, QUESTION_TITLE_SIZE, "Send these %zu calls?", view->n_calls);
}

/* One list that is not required: Codex cannot leave an empty text field, and shows one field on a screen. */
static void put_schema(struct json_out *out, const struct question_view *view)
{
        char title[QUESTION_TITLE_SIZE];

        question_title(view, title);
        json_out_begin(out, "requestedSchema", '{');
        json_out_text(out, "type", "object");
        json_out_begin(out, "properties", '{');
        json_out_begin(out, "scope", '{');
        json_out_text(out, "type", "string");
        json_out_text(out, "title", title);
        json_out_text(
                out, "description",
                view->is_plan
                        ? "once: the code runs, and these calls are sent; or no"
                        : "once; or yes to this rule and tool for the cell, session, always; or no");
        json_out_begin(out, "enum", '[');
        for (int i = 0; i < SCOPES; i++) {
                if (!view->is_plan || i == SCOPE_ONCE || i == SCOPE_NO)
                        json_out_text(out, NULL, scopes[i]);
        }
        json_out_end(out, ']');
        json_out_text(out, "default", scopes[SCOPE_ONCE]);
        json_out_end(out, '}');
        json_out_end(out, '}');
        json_out_end(out, '}');
}

int question_form(const struct question_view *view, bool again, struct client_request *ret,
                  size_t *n_shown)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);

        *ret = (struct client_request){.kind = CLIENT_FORM, .needs = CLIENT_CAN_FORM};
        buffer_init(&ret->params, CLIENT_FORM_MAX);
        int r = question_message(view, &text, n_shown);
        if (r >= 0 && again)
                r = buffer_append_text(&text,
                                       "\nThe answer before did not fit the form. Asked again.");
        if (r < 0)
                return r;
        struct json_out out = {.to = &ret->params};
        json_out_begin(&out, NULL, '{');
        json_out_string(&out, "message", buffer_bytes(&text), text.length);
        put_schema(&out, view);
        json_out_end(&out, '}');
        return out.error;
}

int question_address(const struct question_view *view, const char *address,
                     struct client_request *ret)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        size_t ignored;

        *ret = (struct client_request){.kind = CLIENT_URL, .needs = CLIENT_CAN_URL};
        buffer_init(&ret->params, CLIENT_FORM_MAX);
        int r = question_message(view, &text, &ignored);
        if (r < 0)
                return r;
        struct json_out out = {.to = &ret->params};
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "mode", "url");
        json_out_string(&out, "message", buffer_bytes(&text), text.length);
        json_out_text(&out, "url", address);
        json_out_text(&out, "elicitationId", view->id);
        json_out_end(&out, '}');
        return out.error;
}

enum question_form_answer question_form_read(yyjson_val *result, enum question_scope *scope,
                                             bool *declined)
{
        yyjson_val *action = yyjson_obj_get(result, "action");
        yyjson_val *content = yyjson_obj_get(result, "content");
        yyjson_val *chosen = yyjson_obj_get(content, "scope");

        *scope = SCOPE_NO;
        *declined = yyjson_equals_str(action, "decline") || yyjson_equals_str(action, "cancel");
        if (*declined)
                return FORM_NO;
        if (!yyjson_equals_str(action, "accept") || (content && !yyjson_is_obj(content)))
                return FORM_MISFIT;
        if (yyjson_obj_size(content) != (chosen ? 1 : 0))
                return FORM_MISFIT;
        if (!chosen) {
                *scope = SCOPE_ONCE;
                return FORM_YES;
        }
        enum question_scope found = yyjson_is_str(chosen)
                                            ? question_scope_find(yyjson_get_str(chosen),
                                                                  yyjson_get_len(chosen))
                                            : SCOPES;
        if (found == SCOPES)
                return FORM_MISFIT;
        *scope = found;
        return found == SCOPE_NO ? FORM_NO : FORM_YES;
}
