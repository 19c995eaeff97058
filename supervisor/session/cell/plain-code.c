/* Recognizes plain code. */
#include "supervisor/session/cell/plain-code.h"

#include <stdbool.h>
#include <string.h>

enum { PLAIN_MAX = 256 }; /* bytes: longer code, such as a product of many numbers, takes time */

static bool is_one_of(char c, const char *list)
{
        return c != '\0' && strchr(list, c);
}

static bool is_expression(const char *text, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (!is_one_of(text[i], "0123456789.+-*/() \t") ||
                    (text[i] == '*' && i > 0 && text[i - 1] == '*'))
                        return false;
        }
        return true;
}

/* The length of "name =" at the beginning; 0: there is none. A name with a "_" first may mean something to Python. */
static size_t skip_target(const char *text, size_t n)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
        size_t i = 0;

        if (n == 0 || !is_one_of(text[0], letters) || is_one_of(text[0], "_0123456789"))
                return 0;
        while (i < n && is_one_of(text[i], letters))
                i++;
        while (i < n && is_one_of(text[i], " \t"))
                i++;
        return i < n && text[i] == '=' ? i + 1 : 0;
}

enum plain_code plain_code_of(const char *code, size_t n)
{
        enum plain_code found = PLAIN_VALUE;

        if (n > PLAIN_MAX)
                return PLAIN_NOT;
        while (n > 0) {
                const char *end = memchr(code, '\n', n);
                size_t line = end ? (size_t)(end - code) : n, target = skip_target(code, line);
                if (target > 0)
                        found = PLAIN_ASSIGNS;
                if (!is_expression(code + target, line - target))
                        return PLAIN_NOT;
                code += end ? line + 1 : line;
                n -= end ? line + 1 : line;
        }
        return found;
}
