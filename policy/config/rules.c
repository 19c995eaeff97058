/* Rules about the tools that may be used. */
#include "policy/config/rules.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

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
