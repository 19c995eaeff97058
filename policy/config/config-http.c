/* The keys of a server that is reached by HTTP: url, headers, token. */
#include "policy/config/config-http.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

enum {
        HEADERS_MAX = 64,
        HEADER_BYTES_MAX = 16 * 1024,
        TOKEN_ARGS_MAX = 64,
};

/* Cloister sets these itself, or they would change how the request is read. */
static const char *const own_headers[] = {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        NULL,
};

DEFINE_CLEANUP(char **, config_list_free)

static int wrong(struct config_complaint *bad, yyjson_val *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static int wrong(struct config_complaint *bad, yyjson_val *at, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(bad->text, sizeof(bad->text), format, args);
        va_end(args);
        bad->at = at;
        return 0;
}

/* A token of RFC 9110, 5.6.2. */
static bool is_header_name(const char *name)
{
        if (!*name)
                return false;
        for (; *name; name++) {
                if (!isalnum((unsigned char)*name) && !strchr("!#$%&'*+-.^_`|~", *name))
                        return false;
        }
        return true;
}

static bool is_own_header(const char *name)
{
        if (strncasecmp(name, "mcp-", 4) == 0)
                return true;
        for (const char *const *own = own_headers; *own; own++) {
                if (strcasecmp(name, *own) == 0)
                        return true;
        }
        return false;
}

bool config_header_value_valid(const char *value)
{
        for (; *value; value++) {
                if ((unsigned char)*value < ' ' && *value != '\t')
                        return false;
                if (*value == 0x7f)
                        return false;
        }
        return true;
}

/* "NAME: value", or NULL and the complaint or no memory. */
static char *make_header(yyjson_val *name, yyjson_val *value, bool from_variable,
                         struct config_complaint *bad)
{
        const char *header = config_text(name), *text = config_text(value);
        char *made = NULL;

        if (!header || !is_header_name(header))
                wrong(bad, name, "\"headers\": \"%.60s\" cannot be a header's name",
                      header ? header : "…");
        else if (is_own_header(header))
                wrong(bad, name, "\"headers\": %.60s is set by Cloister", header);
        else if (!text || strlen(text) > HEADER_BYTES_MAX || !config_header_value_valid(text))
                wrong(bad, value,
                      "\"headers\": %.60s must be a string of at most %d KiB in one line", header,
                      HEADER_BYTES_MAX / 1024);
        else if (asprintf(&made, from_variable ? "%s: ${%s}" : "%s: %s", header, text) < 0)
                made = NULL;
        return made;
}

int config_read_headers(yyjson_val *object, bool from_variables, char ***ret,
                        struct config_complaint *bad)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        size_t before = 0, n = yyjson_obj_size(object);
        yyjson_val *name;

        while (*ret && (*ret)[before])
                before++;
        if (!yyjson_is_obj(object))
                return wrong(bad, object, "\"headers\" must be an object of strings");
        if (before + n > HEADERS_MAX)
                return wrong(bad, object, "\"headers\" has more than %d members", HEADERS_MAX);
        _cleanup_(cleanup_config_list_free) char **list = calloc(before + n + 1, sizeof(char *));
        if (!list)
                return -ENOMEM;
        for (size_t i = 0; i < before; i++) {
                list[i] = strdup((*ret)[i]);
                if (!list[i])
                        return -ENOMEM;
        }
        while ((name = yyjson_obj_iter_next(&iter))) {
                list[before] = make_header(name, yyjson_obj_iter_get_val(name), from_variables,
                                           bad);
                if (!list[before++])
                        return *bad->text ? 0 : -ENOMEM;
        }
        config_list_free(*ret);
        *ret = take_ptr(list);
        return 0;
}

static int read_token_command(yyjson_val *list, char ***ret, struct config_complaint *bad)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(list);
        size_t n = yyjson_arr_size(list), i = 0;
        yyjson_val *item;

        if (n == 0 || n > TOKEN_ARGS_MAX)
                return wrong(bad, list,
                             "\"token\": command must be an array of strings: a program and its "
                             "arguments");
        _cleanup_(cleanup_config_list_free) char **made = calloc(n + 1, sizeof(char *));
        if (!made)
                return -ENOMEM;
        while ((item = yyjson_arr_iter_next(&iter))) {
                const char *text = config_text(item);
                if (!text || (i == 0 && !*text))
                        return wrong(bad, item, "\"token\": item %zu of command must be a string",
                                     i + 1);
                made[i] = strdup(text);
                if (!made[i++])
                        return -ENOMEM;
        }
        config_list_free(*ret);
        *ret = take_ptr(made);
        return 0;
}

int config_read_token(yyjson_val *value, char **file, char ***command, struct config_complaint *bad)
{
        yyjson_val *path = yyjson_obj_get(value, "file"), *list = yyjson_obj_get(value, "command");
        const char *text = config_text(path);

        if (yyjson_obj_size(value) != 1 || (!path && !list))
                return wrong(
                        bad, value,
                        "\"token\" must be {\"file\": \"PATH\"} or {\"command\": [\"PROGRAM\", "
                        "…]}");
        if (list)
                return read_token_command(list, command, bad);
        if (!text || !*text)
                return wrong(bad, path, "\"token\": file must be a string that is not empty");
        return config_set_text(file, text);
}

const char *config_url_fault(const char *url)
{
        size_t scheme = strcspn(url, ":");

        /* What a variable will say is checked when it is known. */
        if (url[0] == '$')
                return NULL;
        if (!(scheme == 4 && strncasecmp(url, "http", 4) == 0) &&
            !(scheme == 5 && strncasecmp(url, "https", 5) == 0))
                return "must begin with https:// or http://";
        if (strncmp(url + scheme, "://", 3) != 0 || strchr("/?#", url[scheme + 3]))
                return "has no host";
        if (strchr(url, '#'))
                return "has a fragment (#), which is never sent: remove it";
        for (const char *p = url; *p; p++) {
                if ((unsigned char)*p <= ' ' || *p == 0x7f)
                        return "has a blank or a control character";
        }
        return NULL;
}
