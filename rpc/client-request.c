/* Requests of servers to our client, and its answers. */
#include "rpc/client-request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json-out.h"
#include "base/printable.h"
#include "base/utf8.h"

static const char *const methods[] = {
        [CLIENT_FORM] = "elicitation/create",
        [CLIENT_URL] = "elicitation/create",
        [CLIENT_ROOTS] = "roots/list",
        [CLIENT_SAMPLE] = "sampling/createMessage",
};

/* ---- what a client declares ---- */

unsigned client_can_read(yyjson_val *capabilities)
{
        yyjson_val *elicitation = yyjson_obj_get(capabilities, "elicitation");
        yyjson_val *sampling = yyjson_obj_get(capabilities, "sampling");
        unsigned can = 0;

        /* An empty object means form mode (2025-11-25, "Elicitation", "Capabilities"). */
        if (yyjson_is_obj(yyjson_obj_get(elicitation, "form")) ||
            (yyjson_is_obj(elicitation) && !yyjson_obj_get(elicitation, "url")))
                can |= CLIENT_CAN_FORM;
        if (yyjson_is_obj(yyjson_obj_get(elicitation, "url")))
                can |= CLIENT_CAN_URL;
        if (yyjson_is_obj(yyjson_obj_get(capabilities, "roots")))
                can |= CLIENT_CAN_ROOTS;
        if (yyjson_is_true(yyjson_obj_get(yyjson_obj_get(capabilities, "roots"), "listChanged")))
                can |= CLIENT_TELLS_ROOTS;
        if (yyjson_is_obj(sampling))
                can |= CLIENT_CAN_SAMPLE;
        if (yyjson_is_obj(yyjson_obj_get(sampling, "tools")))
                can |= CLIENT_CAN_SAMPLE_TOOLS;
        return can;
}

void client_can_put(struct json_out *out, unsigned can)
{
        if (can & (CLIENT_CAN_FORM | CLIENT_CAN_URL)) {
                json_out_begin(out, "elicitation", '{');
                if (can & CLIENT_CAN_FORM)
                        json_out_raw(out, "form", "{}", 2);
                if (can & CLIENT_CAN_URL)
                        json_out_raw(out, "url", "{}", 2);
                json_out_end(out, '}');
        }
        if (can & (CLIENT_CAN_ROOTS | CLIENT_TELLS_ROOTS)) {
                json_out_begin(out, "roots", '{');
                if (can & CLIENT_TELLS_ROOTS)
                        json_out_bool(out, "listChanged", true);
                json_out_end(out, '}');
        }
        if (can & (CLIENT_CAN_SAMPLE | CLIENT_CAN_SAMPLE_TOOLS)) {
                json_out_begin(out, "sampling", '{');
                if (can & CLIENT_CAN_SAMPLE_TOOLS)
                        json_out_raw(out, "tools", "{}", 2);
                json_out_end(out, '}');
        }
}

/* ---- addresses ---- */

static bool is_url_byte(char c)
{
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               (c && strchr("-._~:/?#[]@!$&'()*+,;=%", c));
}

static bool is_local(const char *host, size_t n)
{
        static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (n == strlen(names[i]) && strncasecmp(host, names[i], n) == 0)
                        return true;
        }
        return false;
}

/* The length of the host at the beginning of HOST[:PORT]; 0: not a host. */
static size_t host_length(const char *text, size_t n)
{
        bool is_ip6 = n > 0 && text[0] == '[';
        const char *close = is_ip6 ? memchr(text, ']', n) : NULL;
        size_t host = is_ip6 ? (close ? (size_t)(close - text) + 1 : 0) : 0;

        if (!is_ip6) {
                while (host < n && text[host] != ':')
                        host++;
        }
        for (size_t i = 0; i < host; i++) {
                if (strchr(is_ip6 ? "/?#@!$&'()*+,;=%_~" : "[]!$&'()*+,;=%", text[i]))
                        return 0;
        }
        for (size_t i = host; i < n; i++) {
                if (i == host ? text[i] != ':' : text[i] < '0' || text[i] > '9')
                        return 0;
        }
        return host;
}

bool client_url_is_safe(const char *url, size_t n)
{
        bool is_https = n > 8 && strncasecmp(url, "https://", 8) == 0;
        bool is_http = n > 7 && strncasecmp(url, "http://", 7) == 0;
        size_t begin = is_https ? 8 : 7, end = begin;

        if ((!is_https && !is_http) || n > CLIENT_URL_MAX)
                return false;
        for (size_t i = 0; i < n; i++) {
                if (!is_url_byte(url[i]))
                        return false;
        }
        while (end < n && !strchr("/?#", url[end]))
                end++;
        if (memchr(url + begin, '@', end - begin))
                return false;
        size_t host = host_length(url + begin, end - begin);
        return host > 0 && (is_https || is_local(url + begin, host));
}

/* ---- writing ---- */

static void put(struct json_out *out, const char *key, yyjson_val *value)
{
        if (value)
                json_out_value(out, key, value);
}

static int refuse(struct error *err, const char *why)
{
        return error_set(err, EINVAL, "%s", why);
}

/* The question, behind the name of who asks, without what changes how text is shown. */
static void put_message(struct json_out *out, const char *server, yyjson_val *message)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(2 * CLIENT_MESSAGE_MAX);
        const unsigned char *s = (const unsigned char *)yyjson_get_str(message);
        size_t n = yyjson_get_len(message);
        int r = buffer_printf(&text, "%s: ", server);

        for (size_t i = 0; i < n && r >= 0;) {
                int length = utf8_next(s + i, n - i);
                size_t used = length > 0 ? (size_t)length : 1;
                bool is_shown = length > 0 &&
                                (s[i] == '\n' || printable_is(utf8_decode(s + i, length)));

                r = is_shown ? buffer_append(&text, s + i, used) : buffer_append(&text, " ", 1);
                i += used;
        }
        if (r < 0)
                json_out_fail(out, r);
        json_out_string(out, "message", buffer_bytes(&text), text.length);
}

static int check_message(yyjson_val *params, struct error *err)
{
        yyjson_val *message = yyjson_obj_get(params, "message");

        if (!yyjson_is_str(message))
                return refuse(err, "message must be a string");
        if (yyjson_get_len(message) > CLIENT_MESSAGE_MAX)
                return error_set(err, EMSGSIZE, "the message is longer than %d bytes",
                                 CLIENT_MESSAGE_MAX);
        return 0;
}

/* ---- forms ---- */

/* An array of strings, or of {"const", "title"}. */
static bool are_choices(yyjson_val *list, bool are_titled)
{
        size_t i, n;
        yyjson_val *choice;

        if (!yyjson_is_arr(list) || yyjson_arr_size(list) == 0 ||
            yyjson_arr_size(list) > CLIENT_CHOICES_MAX)
                return false;
        yyjson_arr_foreach (list, i, n, choice) {
                if (!are_titled && !yyjson_is_str(choice))
                        return false;
                if (are_titled && (yyjson_obj_size(choice) != 2 ||
                                   !yyjson_is_str(yyjson_obj_get(choice, "const")) ||
                                   !yyjson_is_str(yyjson_obj_get(choice, "title"))))
                        return false;
        }
        return true;
}

/* The "items" of a field of several choices. */
static bool are_items(yyjson_val *items)
{
        yyjson_val *list = yyjson_obj_get(items, "enum"), *any = yyjson_obj_get(items, "anyOf"),
                   *type = yyjson_obj_get(items, "type");

        if (any)
                return yyjson_obj_size(items) == 1 && are_choices(any, true);
        return yyjson_obj_size(items) == 2 && yyjson_equals_str(type, "string") &&
               are_choices(list, false);
}

static bool is_default(yyjson_val *value)
{
        size_t i, n;
        yyjson_val *one;

        if (yyjson_is_obj(value))
                return false;
        yyjson_arr_foreach (value, i, n, one) {
                if (!yyjson_is_str(one))
                        return false;
        }
        return true;
}

static bool is_type(const char *type)
{
        static const char *const types[] = {"string", "number", "integer", "boolean", "array"};

        for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
                if (strcmp(type, types[i]) == 0)
                        return true;
        }
        return false;
}

static bool is_field(yyjson_val *field)
{
        const char *type = json_string(field, "type", NULL);
        yyjson_val *list = yyjson_obj_get(field, "enum"), *one = yyjson_obj_get(field, "oneOf"),
                   *names = yyjson_obj_get(field, "enumNames");

        if (!type || !is_type(type))
                return false;
        if ((list || one || names) && strcmp(type, "string") != 0)
                return false;
        return (!list || are_choices(list, false)) && (!one || are_choices(one, true)) &&
               (!names || are_choices(names, false)) &&
               (strcmp(type, "array") != 0 || are_items(yyjson_obj_get(field, "items"))) &&
               is_default(yyjson_obj_get(field, "default"));
}

/* Of a field, only what the specification knows is passed on, so that no reference can be. */
static void put_field(struct json_out *out, yyjson_val *field)
{
        static const char *const scalars[] = {"type",    "title",     "description", "minLength",
                                              "format",  "maxLength", "pattern",     "minimum",
                                              "maximum", "minItems",  "maxItems"};
        static const char *const others[] = {"default", "enum", "enumNames", "oneOf"};
        yyjson_val *value;

        json_out_begin(out, NULL, '{');
        for (size_t i = 0; i < ARRAY_SIZE(scalars); i++) {
                value = yyjson_obj_get(field, scalars[i]);
                put(out, scalars[i], yyjson_is_ctn(value) ? NULL : value);
        }
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                put(out, others[i], yyjson_obj_get(field, others[i]));
        if (yyjson_equals_str(yyjson_obj_get(field, "type"), "array"))
                put(out, "items", yyjson_obj_get(field, "items"));
        json_out_end(out, '}');
}

static bool are_required(yyjson_val *required, yyjson_val *fields)
{
        size_t i, n;
        yyjson_val *name;

        if (required && (!yyjson_is_arr(required) || yyjson_arr_size(required) > CLIENT_FIELDS_MAX))
                return false;
        yyjson_arr_foreach (required, i, n, name) {
                if (!yyjson_is_str(name) ||
                    !yyjson_obj_getn(fields, yyjson_get_str(name), yyjson_get_len(name)))
                        return false;
        }
        return true;
}

static int put_schema(struct json_out *out, yyjson_val *schema, struct error *err)
{
        yyjson_val *fields = yyjson_obj_get(schema, "properties"), *key, *field;
        yyjson_val *required = yyjson_obj_get(schema, "required");
        size_t i, n;

        if (!yyjson_equals_str(yyjson_obj_get(schema, "type"), "object") || !yyjson_is_obj(fields))
                return refuse(err, "requestedSchema must be an object schema with properties");
        if (yyjson_obj_size(fields) > CLIENT_FIELDS_MAX)
                return error_set(err, EMSGSIZE, "the form has more than %d fields",
                                 CLIENT_FIELDS_MAX);
        if (!are_required(required, fields))
                return refuse(err, "required must name properties");
        json_out_begin(out, "requestedSchema", '{');
        json_out_text(out, "type", "object");
        json_out_begin(out, "properties", '{');
        yyjson_obj_foreach (fields, i, n, key, field) {
                if (!is_field(field))
                        return refuse(err,
                                      "a property of requestedSchema is not a field of a form");
                json_out_key(out, yyjson_get_str(key), yyjson_get_len(key));
                put_field(out, field);
        }
        json_out_end(out, '}');
        put(out, "required", required);
        json_out_end(out, '}');
        return 0;
}

static int read_form(struct client_request *q, const char *server, yyjson_val *params,
                     struct json_out *out, struct error *err)
{
        q->needs = CLIENT_CAN_FORM;
        int r = check_message(params, err);
        if (r < 0)
                return r;
        put_message(out, server, yyjson_obj_get(params, "message"));
        /* Without "mode": form is the default, and revisions before 2025-11-25 have no modes. */
        return put_schema(out, yyjson_obj_get(params, "requestedSchema"), err);
}

int client_page_name(char to[CLIENT_PAGE_MAX + 1], const char *server, const char *id, size_t n)
{
        if (n > CLIENT_URL_MAX || strlen(id) != n)
                return -EINVAL;
        int length = snprintf(to, CLIENT_PAGE_MAX + 1, "%s/%s", server, id);
        return length > CLIENT_PAGE_MAX ? -EINVAL : 0;
}

static int read_url(struct client_request *q, const char *server, yyjson_val *params,
                    struct json_out *out, struct error *err)
{
        yyjson_val *url = yyjson_obj_get(params, "url"),
                   *id = yyjson_obj_get(params, "elicitationId");
        char page[CLIENT_PAGE_MAX + 1];

        q->kind = CLIENT_URL;
        q->needs = CLIENT_CAN_URL;
        int r = check_message(params, err);
        if (r < 0)
                return r;
        if (!yyjson_is_str(url) || !client_url_is_safe(yyjson_get_str(url), yyjson_get_len(url)))
                return refuse(err,
                              "url must be an https address in ASCII (http only of this machine)");
        if (id && (!yyjson_is_str(id) ||
                   client_page_name(page, server, yyjson_get_str(id), yyjson_get_len(id)) < 0))
                return refuse(err, "elicitationId must be a short string");
        put_message(out, server, yyjson_obj_get(params, "message"));
        json_out_text(out, "mode", "url");
        put(out, "url", url);
        if (id)
                json_out_text(out, "elicitationId", page);
        return 0;
}

/* ---- sampling ---- */

static bool is_block(yyjson_val *block)
{
        return yyjson_is_str(yyjson_obj_get(block, "type"));
}

static bool is_content(yyjson_val *content)
{
        size_t i, n;
        yyjson_val *block;

        if (!yyjson_is_arr(content))
                return is_block(content);
        yyjson_arr_foreach (content, i, n, block) {
                if (!is_block(block))
                        return false;
        }
        return true;
}

/* Whether a message of sampling, in a request or as the answer, has a role (user or assistant) and content
 * (a block, or a list of blocks, each with a type). */
static bool is_message(yyjson_val *message)
{
        yyjson_val *role = yyjson_obj_get(message, "role");

        return (yyjson_equals_str(role, "user") || yyjson_equals_str(role, "assistant")) &&
               is_content(yyjson_obj_get(message, "content"));
}

static bool are_messages(yyjson_val *messages)
{
        size_t i, n;
        yyjson_val *message;

        if (!yyjson_is_arr(messages) || yyjson_arr_size(messages) == 0 ||
            yyjson_arr_size(messages) > CLIENT_MESSAGES_MAX)
                return false;
        yyjson_arr_foreach (messages, i, n, message) {
                if (!is_message(message))
                        return false;
        }
        return true;
}

/* includeContext is left out: "this server" would be Cloister, with all other servers' data. */
static int read_sample(struct client_request *q, yyjson_val *params, struct json_out *out,
                       struct error *err)
{
        static const char *const members[] = {"messages",         "maxTokens",   "systemPrompt",
                                              "modelPreferences", "temperature", "stopSequences",
                                              "metadata",         "tools",       "toolChoice"};
        int64_t tokens;

        q->needs = CLIENT_CAN_SAMPLE;
        if (yyjson_obj_get(params, "tools") || yyjson_obj_get(params, "toolChoice"))
                q->needs |= CLIENT_CAN_SAMPLE_TOOLS;
        if (!are_messages(yyjson_obj_get(params, "messages")))
                return refuse(err, "messages must be a list of messages with role and content");
        if (json_int64(yyjson_obj_get(params, "maxTokens"), &tokens) < 0 || tokens < 1)
                return refuse(err, "maxTokens must be a positive integer");
        for (size_t i = 0; i < ARRAY_SIZE(members); i++)
                put(out, members[i], yyjson_obj_get(params, members[i]));
        return 0;
}

/* ---- all ---- */

/* CLIENT_FORM for both kinds of elicitation; -1: there is no such method. */
static int find_kind(const char *method, size_t n)
{
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (strlen(methods[i]) == n && memcmp(methods[i], method, n) == 0)
                        return (int)i;
        }
        return -1;
}

static int read_params(struct client_request *q, const char *server, yyjson_val *params,
                       struct json_out *out, struct error *err)
{
        yyjson_val *mode = yyjson_obj_get(params, "mode");

        if (q->kind == CLIENT_ROOTS) {
                q->needs = CLIENT_CAN_ROOTS;
                return 0;
        }
        if (!yyjson_is_obj(params))
                return refuse(err, "params must be an object");
        if (q->kind == CLIENT_SAMPLE)
                return read_sample(q, params, out, err);
        if (!mode || yyjson_equals_str(mode, "form"))
                return read_form(q, server, params, out, err);
        if (yyjson_equals_str(mode, "url"))
                return read_url(q, server, params, out, err);
        return refuse(err, "mode must be form or url");
}

int client_request_read(struct client_request *ret, const char *server, const char *method,
                        size_t method_length, yyjson_val *params, struct error *err)
{
        int kind = find_kind(method, method_length);
        struct json_out out = {.to = &ret->params};

        *ret = (struct client_request){};
        buffer_init(&ret->params, kind == CLIENT_SAMPLE ? CLIENT_SAMPLE_MAX : CLIENT_FORM_MAX);
        if (kind < 0)
                return error_set(err, EOPNOTSUPP, "there is no such method");
        ret->kind = (enum client_request_kind)kind;
        json_out_begin(&out, NULL, '{');
        int r = read_params(ret, server, params, &out, err);
        json_out_end(&out, '}');
        r = r < 0 ? r : out.error;
        if (r >= 0)
                r = json_parse(buffer_bytes(&ret->params), ret->params.length, &ret->doc, err);
        if (r == -EMSGSIZE && !error_is_set(err))
                return error_set(err, EMSGSIZE, "the request is too large");
        if (r < 0 && !error_is_set(err))
                return error_errno(err, -r, "take the request");
        return r;
}

int client_request_restore(struct client_request *ret, const char *method, size_t method_length,
                           yyjson_val *params, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(CLIENT_FORM_MAX);
        int kind = find_kind(method, method_length);

        *ret = (struct client_request){};
        if (kind < 0)
                return error_set(err, EINVAL, "there is no such method");
        ret->kind = (enum client_request_kind)kind;
        if (kind != CLIENT_FORM)
                return 0;
        if (yyjson_equals_str(yyjson_obj_get(params, "mode"), "url"))
                ret->kind = CLIENT_URL;
        int r = json_append(&text, params);
        if (r >= 0)
                r = json_parse(buffer_bytes(&text), text.length, &ret->doc, err);
        return r < 0 && !error_is_set(err) ? error_errno(err, -r, "take the request") : r;
}

void client_request_done(struct client_request *request)
{
        buffer_done(&request->params);
        yyjson_doc_free(request->doc);
        *request = (struct client_request){};
}

const char *client_request_method(const struct client_request *request)
{
        return methods[request->kind];
}

const char *client_request_url(const struct client_request *request)
{
        return json_string(yyjson_doc_get_root(request->doc), "url", NULL);
}

const char *client_request_page(const struct client_request *request)
{
        return request->kind == CLIENT_URL
                       ? json_string(yyjson_doc_get_root(request->doc), "elicitationId", NULL)
                       : NULL;
}

const char *client_request_message(const struct client_request *request)
{
        return json_string(yyjson_doc_get_root(request->doc), "message", NULL);
}

void client_request_describe(const struct client_request *request, char *to, size_t size)
{
        static const char *const clauses[] = {
                [CLIENT_FORM] = "asks for input",
                [CLIENT_URL] = "asks to open ",
                [CLIENT_ROOTS] = "asks for the client's directories",
                [CLIENT_SAMPLE] = "asks for the answer of a model",
        };
        const char *url = client_request_url(request);

        snprintf(to, size, "%s%s", clauses[request->kind],
                 request->kind != CLIENT_URL ? ""
                 : url                       ? url
                                             : "an address");
}

/* ---- answers: forms ---- */

enum { ROOT_URI_MAX = 4096, ROOT_NAME_MAX = 1024, NAME_SHOWN = 60 };

static bool is_choice(yyjson_val *list, yyjson_val *value)
{
        size_t i, n;
        yyjson_val *one;

        yyjson_arr_foreach (list, i, n, one) {
                yyjson_val *text = yyjson_is_obj(one) ? yyjson_obj_get(one, "const") : one;
                if (yyjson_equals_strn(value, yyjson_get_str(text), yyjson_get_len(text)))
                        return true;
        }
        return false;
}

/* Whether n is within two bounds of the field, if it has them. */
static bool is_within(yyjson_val *field, const char *least, const char *most, double n)
{
        double bound;

        if (json_double(yyjson_obj_get(field, least), &bound) >= 0 && n < bound)
                return false;
        return json_double(yyjson_obj_get(field, most), &bound) < 0 || n <= bound;
}

static bool fits_text(yyjson_val *field, yyjson_val *value)
{
        yyjson_val *list = yyjson_obj_get(field, "enum"), *one = yyjson_obj_get(field, "oneOf");

        if (!yyjson_is_str(value))
                return false;
        if ((list && !is_choice(list, value)) || (one && !is_choice(one, value)))
                return false;
        return is_within(field, "minLength", "maxLength",
                         (double)utf8_count(yyjson_get_str(value), yyjson_get_len(value)));
}

static bool fits_list(yyjson_val *field, yyjson_val *value)
{
        yyjson_val *items = yyjson_obj_get(field, "items"), *any = yyjson_obj_get(items, "anyOf"),
                   *one;
        size_t i, n;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > CLIENT_CHOICES_MAX)
                return false;
        yyjson_arr_foreach (value, i, n, one) {
                if (!yyjson_is_str(one) ||
                    !is_choice(any ? any : yyjson_obj_get(items, "enum"), one))
                        return false;
        }
        return is_within(field, "minItems", "maxItems", (double)yyjson_arr_size(value));
}

static bool fits(yyjson_val *field, yyjson_val *value)
{
        const char *type = json_string(field, "type", NULL);
        double number;

        if (strcmp(type, "string") == 0)
                return fits_text(field, value);
        if (strcmp(type, "array") == 0)
                return fits_list(field, value);
        if (strcmp(type, "boolean") == 0)
                return yyjson_is_bool(value);
        if (strcmp(type, "integer") == 0 && !json_is_integer(value))
                return false;
        return json_is_number(value) && json_double(value, &number) >= 0 &&
               is_within(field, "minimum", "maximum", number);
}

static int check_required(yyjson_val *schema, yyjson_val *content, struct error *err)
{
        size_t i, n;
        yyjson_val *name;

        yyjson_arr_foreach (yyjson_obj_get(schema, "required"), i, n, name) {
                if (!yyjson_obj_getn(content, yyjson_get_str(name), yyjson_get_len(name)))
                        return error_set(err, EINVAL, "the field %.*s is missing", NAME_SHOWN,
                                         yyjson_get_str(name));
        }
        return 0;
}

static int check_content(const struct client_request *q, yyjson_val *content, struct error *err)
{
        yyjson_val *schema = yyjson_obj_get(yyjson_doc_get_root(q->doc), "requestedSchema");
        yyjson_val *fields = yyjson_obj_get(schema, "properties"), *key, *value;
        size_t i, n;

        if (!yyjson_is_obj(content) || yyjson_obj_size(content) > CLIENT_FIELDS_MAX)
                return refuse(err, "content must be an object with the fields of the form");
        yyjson_obj_foreach (content, i, n, key, value) {
                yyjson_val *field = yyjson_obj_getn(fields, yyjson_get_str(key),
                                                    yyjson_get_len(key));
                if (!field)
                        return error_set(err, EINVAL, "the form has no field %.*s", NAME_SHOWN,
                                         yyjson_get_str(key));
                if (!fits(field, value))
                        return error_set(err, EINVAL, "the value of %.*s does not fit its schema",
                                         NAME_SHOWN, yyjson_get_str(key));
        }
        return check_required(schema, content, err);
}

static int take_elicitation(const struct client_request *q, yyjson_val *result,
                            struct json_out *out, struct error *err)
{
        yyjson_val *action = yyjson_obj_get(result, "action"),
                   *content = yyjson_obj_get(result, "content");
        bool accepts = yyjson_equals_str(action, "accept");
        int r = 0;

        if (!accepts && !yyjson_equals_str(action, "decline") &&
            !yyjson_equals_str(action, "cancel"))
                return refuse(err, "action must be accept, decline or cancel");
        bool has_data = accepts && q->kind == CLIENT_FORM;
        if (has_data)
                r = check_content(q, content, err);
        if (r < 0)
                return r;
        json_out_begin(out, NULL, '{');
        json_out_value(out, "action", action);
        if (has_data)
                json_out_value(out, "content", content);
        json_out_end(out, '}');
        return 0;
}

/* ---- answers: roots ---- */

static bool is_root(yyjson_val *root)
{
        yyjson_val *name = yyjson_obj_get(root, "name");
        size_t n = 0;
        const char *uri = json_string(root, "uri", &n);

        return uri && n <= ROOT_URI_MAX && strncmp(uri, "file://", 7) == 0 &&
               (!name || (yyjson_is_str(name) && yyjson_get_len(name) <= ROOT_NAME_MAX));
}

static void put_root(struct json_out *out, yyjson_val *root)
{
        yyjson_val *name = yyjson_obj_get(root, "name");

        json_out_begin(out, NULL, '{');
        json_out_value(out, "uri", yyjson_obj_get(root, "uri"));
        if (name)
                json_out_value(out, "name", name);
        json_out_end(out, '}');
}

static int take_roots(yyjson_val *result, struct json_out *out, struct error *err)
{
        yyjson_val *roots = yyjson_obj_get(result, "roots"), *root;
        size_t i, n;

        if (!yyjson_is_arr(roots) || yyjson_arr_size(roots) > CLIENT_ROOTS_MAX)
                return error_set(err, EINVAL, "roots must be a list of at most %d",
                                 CLIENT_ROOTS_MAX);
        json_out_begin(out, NULL, '{');
        json_out_begin(out, "roots", '[');
        yyjson_arr_foreach (roots, i, n, root) {
                if (!is_root(root))
                        return refuse(err, "a root must have a short file:// uri");
                put_root(out, root);
        }
        json_out_end(out, ']');
        json_out_end(out, '}');
        return 0;
}

/* ---- answers: sampling ---- */

static int take_sample(yyjson_val *result, struct json_out *out, struct error *err)
{
        static const char *const members[] = {"role", "content", "model", "stopReason"};
        yyjson_val *reason = yyjson_obj_get(result, "stopReason");

        if (!is_message(result))
                return refuse(
                        err,
                        "the answer must have a role, assistant or user, and content, a block or a list of blocks");
        if (!yyjson_is_str(yyjson_obj_get(result, "model")) || (reason && !yyjson_is_str(reason)))
                return refuse(err, "model and stopReason must be strings");
        json_out_begin(out, NULL, '{');
        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                yyjson_val *value = yyjson_obj_get(result, members[i]);
                if (value)
                        json_out_value(out, members[i], value);
        }
        json_out_end(out, '}');
        return 0;
}

/* ---- answers ---- */

int client_answer_take(const struct client_request *request, yyjson_val *result, struct buffer *to,
                       struct error *err)
{
        struct json_out out = {.to = to};
        int r;

        if (!yyjson_is_obj(result))
                return refuse(err, "the result is not an object");
        if (request->kind == CLIENT_ROOTS)
                r = take_roots(result, &out, err);
        else if (request->kind == CLIENT_SAMPLE)
                r = take_sample(result, &out, err);
        else
                r = take_elicitation(request, result, &out, err);
        r = r < 0 ? r : out.error;
        if (r == -EMSGSIZE)
                return error_set(err, EMSGSIZE, "the answer is too large");
        return r;
}
