/* Parses and writes JSON-RPC 2.0 messages. */
#include "rpc/jsonrpc.h"

#include <errno.h>
#include <string.h>

#include "base/json-out.h"

/* A message with a method: a request if it has an id. */
static int classify_method(yyjson_val *root, yyjson_val *method, struct jsonrpc_message *m,
                           struct error *err)
{
        yyjson_val *id = yyjson_obj_get(root, "id");
        yyjson_val *params = yyjson_obj_get(root, "params");

        if (!yyjson_is_str(method))
                return error_set(err, EINVAL, "the method is not a string");
        if (id && !m->id)
                return error_set(err, EINVAL, "the id is neither a string nor an integer");
        if (params && !yyjson_is_ctn(params))
                return error_set(err, EINVAL, "the params are neither an object nor an array");
        m->method = yyjson_get_str(method);
        m->method_length = yyjson_get_len(method);
        m->params = params;
        m->kind = id ? JSONRPC_REQUEST : JSONRPC_NOTIFICATION;
        return 0;
}

static int classify_error(yyjson_val *root, yyjson_val *error, struct jsonrpc_message *m,
                          struct error *err)
{
        yyjson_val *id = yyjson_obj_get(root, "id");

        if (id && !m->id && !yyjson_is_null(id))
                return error_set(err, EINVAL, "the id is neither a string nor an integer");
        if (!yyjson_is_obj(error))
                return error_set(err, EINVAL, "the error is not an object");
        if (json_int64(yyjson_obj_get(error, "code"), &m->error_code) < 0)
                return error_set(err, EINVAL, "the error's code is not a whole number");
        const char *message = json_string(error, "message", NULL);
        m->error_message = message ? message : "";
        m->error_data = yyjson_obj_get(error, "data");
        m->kind = JSONRPC_ERROR;
        return 0;
}

static int classify_response(yyjson_val *root, struct jsonrpc_message *m, struct error *err)
{
        yyjson_val *result = yyjson_obj_get(root, "result");
        yyjson_val *error = yyjson_obj_get(root, "error");

        /* Some servers add "error": null to a result. */
        if (result && yyjson_is_null(error))
                error = NULL;
        if (result && error)
                return error_set(err, EINVAL, "both a result and an error");
        if (error)
                return classify_error(root, error, m, err);
        if (!result)
                return error_set(err, EINVAL, "neither a method nor a result nor an error");
        if (!m->id)
                return error_set(err, EINVAL, "a result without a usable id");
        m->result = result;
        m->kind = JSONRPC_RESPONSE;
        return 0;
}

int jsonrpc_classify(yyjson_val *value, struct jsonrpc_message *ret, struct error *err)
{
        *ret = (struct jsonrpc_message){};
        if (!yyjson_is_obj(value))
                return error_set(err, EINVAL, "not a JSON-RPC message: not an object");

        yyjson_val *id = yyjson_obj_get(value, "id");
        yyjson_val *method = yyjson_obj_get(value, "method");
        yyjson_val *version = yyjson_obj_get(value, "jsonrpc");
        yyjson_val *result = yyjson_obj_get(value, "result");

        ret->id = yyjson_is_str(id) || json_is_integer(id) ? id : NULL;
        /* structuredContent is passed on to code, and not read here. */
        int r = json_check_names(value, method ? NULL : yyjson_obj_get(result, "structuredContent"),
                                 err);
        if (r < 0)
                return r;
        if (!yyjson_equals_str(version, "2.0"))
                r = error_set(err, EINVAL, "the member jsonrpc is not \"2.0\"");
        else if (method)
                r = classify_method(value, method, ret, err);
        else
                r = classify_response(value, ret, err);
        return r < 0 ? error_context(err, "not a JSON-RPC message") : 0;
}

static int classify_batch(yyjson_val *root, struct jsonrpc_message *ret, struct error *err)
{
        size_t n = yyjson_arr_size(root);

        if (n == 0)
                return error_set(err, EINVAL, "not a JSON-RPC message: an empty batch");
        if (n > JSONRPC_BATCH_MAX)
                return error_set(err, EINVAL, "a batch of %zu messages, at most %d are allowed", n,
                                 JSONRPC_BATCH_MAX);
        *ret = (struct jsonrpc_message){.kind = JSONRPC_BATCH, .batch = root};
        return 0;
}

static bool is_space(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The offset in data of the opening quote of a key. yyjson unescapes strings in place, in its copy of
 * the text, so that a string begins at the same offset in both. */
static bool find_key(const struct jsonrpc_message *m, yyjson_val *key, const char *data, size_t n,
                     size_t *ret)
{
        size_t at = (size_t)(yyjson_get_str(key) - m->doc->str_pool) - 1;

        *ret = at;
        return m->doc->str_pool && at < n && data[at] == '"';
}

/* The text of the result lies between its key and the next member, or the end of the message. If
 * anything is not as expected, there is no text: it can be written from the value. */
static void find_text(struct jsonrpc_message *m, const char *data, size_t n)
{
        static const char name[] = "\"result\"";
        yyjson_val *root = yyjson_doc_get_root(m->doc), *next = unsafe_yyjson_get_next(m->result);
        bool is_last = next == unsafe_yyjson_get_next(root);
        size_t begin, end = n;

        if (!yyjson_is_obj(m->result) || !find_key(m, m->result - 1, data, n, &begin) ||
            n - begin < sizeof(name) || memcmp(data + begin, name, sizeof(name) - 1) != 0)
                return;
        begin += sizeof(name) - 1;
        if (!is_last && !find_key(m, next, data, n, &end))
                return;
        while (begin < end && (is_space(data[begin]) || data[begin] == ':'))
                begin++;
        while (end > begin && is_space(data[end - 1]))
                end--;
        if (end == begin || data[--end] != (is_last ? '}' : ','))
                return;
        while (end > begin && is_space(data[end - 1]))
                end--;
        if (end - begin < 2 || data[begin] != '{' || data[end - 1] != '}')
                return;
        m->text = data + begin;
        m->text_length = end - begin;
}

int jsonrpc_parse(const char *data, size_t n, struct jsonrpc_message *ret, struct error *err)
{
        yyjson_doc *doc = NULL;

        *ret = (struct jsonrpc_message){};
        int r = json_parse(data, n, &doc, err);
        if (r < 0)
                return r;
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (yyjson_is_arr(root))
                r = classify_batch(root, ret, err);
        else
                r = jsonrpc_classify(root, ret, err);
        ret->doc = doc;
        if (r >= 0 && ret->kind == JSONRPC_RESPONSE)
                find_text(ret, data, n);
        return r;
}

void jsonrpc_done(struct jsonrpc_message *message)
{
        yyjson_doc_free(message->doc);
        *message = (struct jsonrpc_message){};
}

bool jsonrpc_id_is(yyjson_val *id, int64_t n)
{
        int64_t value;

        return json_int64(id, &value) == 0 && value == n;
}

bool jsonrpc_id_equals(yyjson_val *a, yyjson_val *b)
{
        if (yyjson_is_raw(a) && yyjson_is_raw(b))
                return yyjson_get_len(a) == yyjson_get_len(b) &&
                       memcmp(yyjson_get_raw(a), yyjson_get_raw(b), yyjson_get_len(a)) == 0;
        return yyjson_is_str(a) && yyjson_is_str(b) &&
               yyjson_equals_strn(a, yyjson_get_str(b), yyjson_get_len(b));
}

int jsonrpc_id_copy(yyjson_val *id, size_t most, yyjson_doc **ret)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(most);

        if (yyjson_is_raw(id))
                return yyjson_get_len(id) > most
                               ? -EMSGSIZE
                               : json_parse(yyjson_get_raw(id), yyjson_get_len(id), ret, NULL);
        int r = json_append(&text, id);
        return r < 0 ? r : json_parse(buffer_bytes(&text), text.length, ret, NULL);
}

/* The offset of a string's closing quote, from after its opening one; n when there is none. */
static size_t end_of_string(const char *line, size_t at, size_t n)
{
        while (at < n && line[at] != '"')
                at += line[at] == '\\' ? 2 : 1;
        return at < n ? at : n;
}

/* The number after a key's colon. */
static bool number_after(const char *line, size_t at, size_t n, int64_t *ret)
{
        int64_t value = 0;
        size_t digits = 0;

        while (at < n && line[at] == ' ')
                at++;
        if (at >= n || line[at++] != ':')
                return false;
        while (at < n && line[at] == ' ')
                at++;
        for (; at < n && line[at] >= '0' && line[at] <= '9' && digits < 18; at++, digits++)
                value = value * 10 + (line[at] - '0');
        *ret = value;
        return digits > 0;
}

bool jsonrpc_guess_id(const char *line, size_t n, int64_t *ret)
{
        size_t depth = 0;
        bool found = false;

        for (size_t i = 0; i < n; i++) {
                if (line[i] == '{' || line[i] == '[')
                        depth++;
                else if (line[i] == '}' || line[i] == ']')
                        depth--;
                if (line[i] != '"')
                        continue;
                const char *key = line + i + 1;
                size_t end = end_of_string(line, i + 1, n), length = end - i - 1;
                i = end;
                if (depth != 1)
                        continue;
                if (length == 6 && memcmp(key, "method", 6) == 0)
                        return false;
                if (length == 2 && memcmp(key, "id", 2) == 0)
                        found = number_after(line, end + 1, n, ret) || found;
        }
        return found;
}

/* ---- writing ---- */

/* id: or NULL. */
static void begin(struct json_out *out, yyjson_val *id)
{
        json_out_begin(out, NULL, '{');
        json_out_text(out, "jsonrpc", "2.0");
        if (id)
                json_out_value(out, "id", id);
}

/* Removes what was appended of a message that failed. */
static int end(struct json_out *out, size_t before)
{
        json_out_end(out, '}');
        if (out->error >= 0)
                json_out_fail(out, buffer_append(out->to, "\n", 1));
        if (out->error < 0)
                out->to->length = before;
        return out->error;
}

static void put_text(struct json_out *out, const char *key, const char *text, size_t n)
{
        if (text)
                json_out_raw(out, key, text, n);
}

static void begin_request(struct json_out *out, int64_t id, const char *method)
{
        begin(out, NULL);
        json_out_int(out, "id", id);
        json_out_text(out, "method", method);
}

int jsonrpc_append_request(struct buffer *b, int64_t id, const char *method, const char *params,
                           size_t n)
{
        struct json_out out = {.to = b};
        size_t before = b->length;

        begin_request(&out, id, method);
        put_text(&out, "params", params, n);
        return end(&out, before);
}

int jsonrpc_begin_request(struct buffer *b, int64_t id, const char *method, const char *members,
                          const char *params, size_t n)
{
        struct json_out out = {.to = b};

        if (members && (n < 2 || params[0] != '{'))
                return -EINVAL;
        begin_request(&out, id, method);
        if (!members) {
                put_text(&out, "params", params, n);
                return out.error;
        }
        json_out_begin(&out, "params", '{');
        json_out_raw(&out, NULL, members, strlen(members));
        /* The members of the params, and their closing brace. */
        if (n <= 2)
                out.more = false;
        json_out_raw(&out, NULL, params + 1, n - 1);
        return out.error;
}

int jsonrpc_append_notification(struct buffer *b, const char *method, const char *params, size_t n)
{
        struct json_out out = {.to = b};
        size_t before = b->length;

        begin(&out, NULL);
        json_out_text(&out, "method", method);
        put_text(&out, "params", params, n);
        return end(&out, before);
}

int jsonrpc_append_result(struct buffer *b, yyjson_val *id, const char *result, size_t n)
{
        struct json_out out = {.to = b};
        size_t before = b->length;

        begin(&out, id);
        put_text(&out, "result", result, n);
        return end(&out, before);
}

int jsonrpc_append_error(struct buffer *b, yyjson_val *id, int code, const char *message,
                         const char *data, size_t n)
{
        struct json_out out = {.to = b};
        size_t before = b->length;

        begin(&out, id);
        json_out_begin(&out, "error", '{');
        json_out_int(&out, "code", code);
        json_out_text(&out, "message", message);
        put_text(&out, "data", data, n);
        json_out_end(&out, '}');
        return end(&out, before);
}
