/* Parsing and writing cloister:// URIs. */
#include "supervisor/mcp/resources/resource-uri.h"

#include <errno.h>
#include <string.h>

#include "base/file-path.h"
#include "base/percent.h"
#include "supervisor/session/cell/session-name.h"

static const char prefix[] = "cloister://sessions/", tools_prefix[] = RESOURCE_TOOLS_URI;
static const char *const stream_names[CELL_STREAMS] = {"stdout", "stderr"};

/* The rest of the text. */
struct rest {
        const char *at;
        size_t n;
};

static bool take(struct rest *rest, const char *word)
{
        size_t n = strlen(word);

        if (rest->n < n || memcmp(rest->at, word, n) != 0)
                return false;
        rest->at += n;
        rest->n -= n;
        return true;
}

/* No leading zeros: each number has one spelling. */
static bool take_number(struct rest *rest, uint64_t *ret)
{
        uint64_t value = 0;
        size_t i = 0;

        for (; i < rest->n && rest->at[i] >= '0' && rest->at[i] <= '9'; i++) {
                if (i > 0 && value == 0)
                        return false;
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(rest->at[i] - '0'), &value))
                        return false;
        }
        rest->at += i;
        rest->n -= i;
        *ret = value;
        return i > 0;
}

static bool take_session(struct rest *rest, char *name)
{
        const char *end = memchr(rest->at, '/', rest->n);
        size_t n = end ? (size_t)(end - rest->at) : 0;

        if (!end || !session_name_valid(rest->at, n))
                return false;
        memcpy(name, rest->at, n);
        name[n] = '\0';
        rest->at = end + 1;
        rest->n -= n + 1;
        return true;
}

/* Up to '?' or the end. */
static bool take_path(struct rest *rest, char *path)
{
        size_t n = 0;

        while (rest->n > 0 && *rest->at != '?') {
                size_t used = n < RESOURCE_PATH_MAX ? percent_next(rest->at, rest->n, &path[n]) : 0;

                if (used == 0)
                        return false;
                n++;
                rest->at += used;
                rest->n -= used;
        }
        path[n] = '\0';
        return file_path_valid(path, n);
}

/* Parses an output, a display or a receipt of a call. */
static bool take_output(struct rest *rest, struct resource_uri *ret)
{
        if (!take_number(rest, &ret->cell) || ret->cell == 0 || !take(rest, "/"))
                return false;
        if (take(rest, "displays/")) {
                ret->kind = RESOURCE_DISPLAY;
                return take_number(rest, &ret->display) && ret->display > 0;
        }
        if (take(rest, "receipt")) {
                ret->kind = RESOURCE_RECEIPT;
                return true;
        }
        for (int i = 0; i < CELL_STREAMS; i++) {
                if (take(rest, stream_names[i])) {
                        ret->stream = (enum cell_stream)i;
                        return true;
                }
        }
        return false;
}

static bool take_all(struct rest *rest, struct resource_uri *ret)
{
        bool of_tools = take(rest, tools_prefix);
        bool good = of_tools || (take(rest, prefix) && take_session(rest, ret->session));

        if (of_tools) {
                ret->kind = RESOURCE_TOOLS;
                good = !take(rest, "/") || take_path(rest, ret->path);
        } else if (good && take(rest, "cells/")) {
                ret->kind = RESOURCE_OUTPUT;
                good = take_output(rest, ret);
        } else if (good && take(rest, "files/")) {
                ret->kind = RESOURCE_FILE;
                good = take_path(rest, ret->path);
        } else {
                return false;
        }
        if (good && ret->kind != RESOURCE_FILE && take(rest, "?offset="))
                good = take_number(rest, &ret->offset);
        return good && rest->n == 0;
}

int resource_uri_parse(const char *text, size_t n, struct resource_uri *ret, struct error *err)
{
        struct rest rest = {text, n};

        *ret = (struct resource_uri){};
        if (n > RESOURCE_URI_MAX || !take_all(&rest, ret))
                return error_set(
                        err, EINVAL,
                        "no such resource: there are %sNAME/cells/N/stdout, …/stderr, …/displays/I, …/receipt, %sNAME/files/PATH, %s and %s/SERVER",
                        prefix, prefix, tools_prefix, tools_prefix);
        return 0;
}

int resource_uri_append(const struct resource_uri *uri, struct buffer *to)
{
        unsigned long long cell = uri->cell;

        if (uri->kind == RESOURCE_PUBLISHED)
                return buffer_append_text(to, uri->path);
        if (uri->kind == RESOURCE_TOOLS)
                buffer_printf(to, "%s%s", tools_prefix, uri->path[0] ? "/" : "");
        else
                buffer_printf(to, "%s%s/", prefix, uri->session);
        if (uri->kind == RESOURCE_OUTPUT)
                buffer_printf(to, "cells/%llu/%s", cell, stream_names[uri->stream]);
        else if (uri->kind == RESOURCE_DISPLAY)
                buffer_printf(to, "cells/%llu/displays/%llu", cell,
                              (unsigned long long)uri->display);
        else if (uri->kind == RESOURCE_RECEIPT)
                buffer_printf(to, "cells/%llu/receipt", cell);
        else if (uri->kind == RESOURCE_FILE)
                buffer_append_text(to, "files/");
        if (uri->kind == RESOURCE_TOOLS || uri->kind == RESOURCE_FILE)
                percent_append(to, uri->path, PERCENT_UNRESERVED "/", true);
        if (uri->offset > 0)
                buffer_printf(to, "?offset=%llu", (unsigned long long)uri->offset);
        return to->error;
}

void resource_uri_put(struct json_out *out, const char *key, const struct resource_uri *uri)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(4 * RESOURCE_URI_MAX);
        int r = resource_uri_append(uri, &text);

        if (r < 0)
                json_out_fail(out, r);
        else
                json_out_string(out, key, buffer_bytes(&text), text.length);
}

bool resource_uri_same(const struct resource_uri *a, const struct resource_uri *b)
{
        if (a->kind != b->kind || strcmp(a->session, b->session) != 0)
                return false;
        if (a->kind == RESOURCE_OUTPUT)
                return a->cell == b->cell && a->stream == b->stream;
        if (a->kind == RESOURCE_RECEIPT)
                return a->cell == b->cell;
        if (a->kind == RESOURCE_DISPLAY)
                return a->cell == b->cell && a->display == b->display;
        return strcmp(a->path, b->path) == 0;
}
