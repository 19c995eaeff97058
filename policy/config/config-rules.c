/* Rules about the tools that may be used, and other lists of names. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/config-internal.h"
#include "policy/did-you-mean.h"

DEFINE_CLEANUP(char **, config_list_free)

/* * matches any bytes. No recursion: after a mismatch only the last star has to match more. */
static bool matches(const char *pattern, const char *text)
{
        const char *star = NULL, *from = NULL;

        while (*text) {
                if (*pattern == '*') {
                        star = ++pattern;
                        from = text;
                } else if (*pattern == *text) {
                        pattern++;
                        text++;
                } else if (star) {
                        pattern = star;
                        text = ++from;
                } else {
                        return false;
                }
        }
        return pattern[strspn(pattern, "*")] == '\0';
}

/* full: "server.tool", or NULL. */
static bool any_matches(char *const *patterns, const char *tool, const char *full)
{
        for (; patterns && *patterns; patterns++)
                if (matches(*patterns, tool) || (full && matches(*patterns, full)))
                        return true;
        return false;
}

bool config_tool_allowed(const struct config_tool_rules *rules, const char *server,
                         const char *tool)
{
        _cleanup_free_ char *full = NULL;

        if (!rules->allow && !rules->deny)
                return true;
        /* Without memory the tool is denied, because a rule that cannot be checked may deny it. */
        if (server && asprintf(&full, "%s.%s", server, tool) < 0) {
                full = NULL;
                return false;
        }
        if (any_matches(rules->deny, tool, full))
                return false;
        return !rules->allow || any_matches(rules->allow, tool, full);
}

static void complain(struct config_complaint *bad, yyjson_val *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static void complain(struct config_complaint *bad, yyjson_val *at, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(bad->text, sizeof(bad->text), format, args);
        va_end(args);
        bad->at = at;
}

int config_read_names(yyjson_val *list, const char *what, size_t most, char ***ret,
                      struct config_complaint *bad)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(list);
        size_t n = yyjson_arr_size(list), i = 0;
        yyjson_val *item;

        if (!yyjson_is_arr(list) || n > most) {
                complain(bad, list, "%s must be an array of at most %zu strings", what, most);
                return 0;
        }
        _cleanup_(cleanup_config_list_free) char **names = calloc(n + 1, sizeof(char *));
        if (!names)
                return -ENOMEM;
        while ((item = yyjson_arr_iter_next(&iter))) {
                const char *text = config_text(item);
                if (!text || *text == '\0' || strlen(text) > CONFIG_NAME_MAX) {
                        complain(bad, item, "%s: item %zu must be a string of 1 to %d bytes", what,
                                 i + 1, CONFIG_NAME_MAX);
                        return 0;
                }
                if (config_set_text(&names[i++], text) < 0)
                        return -ENOMEM;
        }
        config_list_free(*ret);
        *ret = take_ptr(names);
        return 0;
}

int config_read_rules(struct config_reader *reader, const char *where, yyjson_val *tools,
                      struct config_tool_rules *ret, struct config_complaint *bad)
{
        static const char *const names[] = {"allow", "deny", NULL};
        yyjson_obj_iter iter = yyjson_obj_iter_with(tools);
        yyjson_val *name;
        char inside[CONFIG_NAME_MAX * 2];
        int r = 0;

        if (!yyjson_is_obj(tools)) {
                complain(bad, tools,
                         "tools must be an object: {\"allow\": [\"…\"], \"deny\": [\"…\"]}");
                return 0;
        }
        snprintf(inside, sizeof(inside), "%stools: ", where);
        while (r >= 0 && !*bad->text && (name = yyjson_obj_iter_next(&iter))) {
                const char *key = yyjson_get_str(name);
                yyjson_val *value = yyjson_obj_iter_get_val(name);
                if (strcmp(key, "allow") == 0)
                        r = config_read_names(value, "tools.allow", CONFIG_RULES_MAX, &ret->allow,
                                              bad);
                else if (strcmp(key, "deny") == 0)
                        r = config_read_names(value, "tools.deny", CONFIG_RULES_MAX, &ret->deny,
                                              bad);
                else
                        r = config_warn_unknown(reader, inside, name, names);
                if (r >= 0)
                        r = config_check_twice(reader, inside, tools, name);
        }
        return r;
}

void config_rules_done(struct config_tool_rules *rules)
{
        rules->allow = config_list_free(rules->allow);
        rules->deny = config_list_free(rules->deny);
}
