/* Selectors of rules. */
#include "policy/rules/selector.h"

#include <errno.h>
#include <string.h>

int selector_check(const char *text, size_t n, struct error *err)
{
        const char *dot = text ? strchr(text, '.') : NULL;

        if (!text || n == 0 || n > SELECTOR_MAX || strlen(text) != n)
                return error_set(err, EINVAL, "must be a string of 1 to %d bytes", SELECTOR_MAX);
        for (const char *p = text; *p; p++)
                if ((unsigned char)*p <= ' ' || *p == 0x7f)
                        return error_set(err, EINVAL,
                                         "has blanks or characters that cannot be seen");
        /* As the permission rules of MCP clients have them. */
        bool is_foreign = !dot && (strncmp(text, "mcp__", 5) == 0 || strchr(text, '('));
        if (is_foreign || (!strchr(text, '*') && (!dot || dot == text || dot[1] == '\0')))
                return is_foreign
                               ? error_set(
                                         err, EINVAL,
                                         "must be SERVER.TOOL, such as files.read_file, and not the name that an MCP client gives the tool")
                               : error_set(err, EINVAL, "must be SERVER.TOOL, SERVER.* or *.TOOL");
        return 0;
}

/* No recursion: after a mismatch only the last star has to match more. */
bool selector_matches(const char *pattern, const char *text)
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

bool selector_names_server(const char *selector, const char *server)
{
        size_t n = strlen(server), literal = strcspn(selector, "*");

        return literal > n && strncmp(selector, server, n) == 0 && selector[n] == '.';
}

bool selector_can_match_server(const char *selector, const char *server)
{
        size_t n = strlen(server), literal = strcspn(selector, "*");

        if (literal > n)
                return selector_names_server(selector, server);
        return selector[literal] == '*' && strncmp(selector, server, literal) == 0;
}
