/* Names and URI templates of what is published. */
#include "policy/published-name.h"

#include <string.h>

#include "base/file-path.h"
#include "base/json-out.h"
#include "base/percent.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

const char *published_name_problem(const char *name)
{
        size_t n = strlen(name);

        if (n == 0 || n > PUBLISHED_NAME_MAX || strspn(name, LETTERS DIGITS "_.-") != n)
                return "a name is 1 to 64 letters, digits, _ . -";
        if (strcmp(name, "run_python") == 0 || strcmp(name, "run_javascript") == 0)
                return "run_python and run_javascript are Cloister's own tools";
        return NULL;
}

/* Characters of RFC 3986, without the braces of a template. */
static bool is_uri_text(const char *text)
{
        return text[strspn(text, LETTERS DIGITS "-._~:/?#[]@!$&'()*+,;=%")] == '\0';
}

bool published_uri_valid(const char *uri, size_t n)
{
        return n > 0 && n <= PUBLISHED_URI_MAX && strlen(uri) == n && is_uri_text(uri);
}

static const char *scheme_problem(const char *uri)
{
        size_t n = strspn(uri, LETTERS DIGITS "+-.");

        if (n == 0 || uri[n] != ':' || !strchr(LETTERS, uri[0]))
                return "a URI begins with a scheme, as notes:// does";
        if (n == strlen("cloister") && strncasecmp(uri, "cloister", n) == 0)
                return "cloister:// is Cloister's own";
        return NULL;
}

const char *published_uri_problem(const char *uri)
{
        const char *why = scheme_problem(uri);

        if (why)
                return why;
        if (strlen(uri) > PUBLISHED_URI_MAX || !is_uri_text(uri))
                return "a URI has at most 255 ASCII characters; others are written as %XX";
        return NULL;
}

/* A part of a template: text before an expression, and the expression's variable. */
struct part {
        const char *text, *name; /* name: NULL at the end */
        size_t text_length, name_length;
        bool reserved; /* {+name} */
};

/* Returns what follows, or NULL if the template is malformed. */
static const char *next_part(const char *at, struct part *ret)
{
        *ret = (struct part){.text = at, .text_length = strcspn(at, "{}")};
        at += ret->text_length;
        if (*at == '\0')
                return at;
        if (*at != '{')
                return NULL;
        ret->reserved = at[1] == '+';
        ret->name = at + (ret->reserved ? 2 : 1);
        ret->name_length = strspn(ret->name, LETTERS DIGITS "_");
        at = ret->name + ret->name_length;
        if (ret->name_length == 0 || ret->name_length > PUBLISHED_NAME_MAX || *at != '}')
                return NULL;
        return at + 1;
}

static bool has_name(const struct part *parts, size_t n, const struct part *part)
{
        for (size_t i = 0; i < n; i++) {
                if (parts[i].name_length == part->name_length &&
                    memcmp(parts[i].name, part->name, part->name_length) == 0)
                        return true;
        }
        return false;
}

const char *published_template_problem(const char *template)
{
        struct part parts[PUBLISHED_VARIABLES_MAX];
        const char *why = scheme_problem(template), *at = template;
        size_t n = 0;

        if (why)
                return why;
        if (strlen(template) > PUBLISHED_URI_MAX)
                return "a template has at most 255 characters";
        while (at && *at) {
                struct part part;

                at = next_part(at, &part);
                if (!at)
                        return "expressions are {name} and {+name}";
                if (n > 0 && part.name && part.text_length == 0)
                        return "between two variables there must be text";
                if (part.name && (n == PUBLISHED_VARIABLES_MAX || has_name(parts, n, &part)))
                        return "at most 8 variables, each once";
                if (part.name)
                        parts[n++] = part;
        }
        return n == 0 ? "it has no {variable}: that is a resource" : NULL;
}

static bool is_token(const char *text, size_t n)
{
        size_t i = 0;

        while (i < n && (strchr(LETTERS DIGITS, text[i]) || strchr("!#$&^_.+-", text[i])))
                i++;
        return n > 0 && i == n;
}

/* type/subtype, and parameters of visible characters. */
bool published_mime_type_valid(const char *text)
{
        const char *slash = strchr(text, '/');
        size_t n = strcspn(text, ";");

        if (strlen(text) > 127 || !slash || (size_t)(slash - text) >= n)
                return false;
        for (const char *c = text; *c; c++) {
                if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
                        return false;
        }
        return is_token(text, (size_t)(slash - text)) &&
               is_token(slash + 1, n - (size_t)(slash - text) - 1);
}

/* ---- matching ---- */

/* Returns the length, or -1. */
static int decode(const char *text, size_t n, char to[PUBLISHED_VARIABLE_MAX])
{
        int length = 0;

        for (size_t i = 0, used; i < n; i += used) {
                used = length < PUBLISHED_VARIABLE_MAX ? percent_next(text + i, n - i, &to[length])
                                                       : 0;
                if (used == 0)
                        return -1;
                length++;
        }
        return length;
}

/* A variable is as long as the text behind it, or the end, allows. */
static size_t match_variable(const struct part *part, const struct part *next, const char *at,
                             size_t n)
{
        size_t most = n, length = 0;

        if (next->text_length > 0) {
                const char *found = memmem(at, n, next->text, next->text_length);
                most = found ? (size_t)(found - at) : 0;
        }
        while (length < most && (part->reserved || !strchr("/?#", at[length])))
                length++;
        return length == most ? most : 0;
}

static bool put_variable(const struct part *part, const char *at, size_t n, struct json_out *out)
{
        char value[PUBLISHED_VARIABLE_MAX], name[PUBLISHED_NAME_MAX + 1];
        int length = decode(at, n, value);

        if (length <= 0 || !file_path_valid(value, (size_t)length) ||
            (!part->reserved && memchr(value, '/', (size_t)length)))
                return false;
        memcpy(name, part->name, part->name_length);
        name[part->name_length] = '\0';
        json_out_string(out, name, value, (size_t)length);
        return true;
}

static bool match(const char *template, const char *uri, size_t n, struct json_out *out)
{
        struct part part, next;

        template = next_part(template, &part);
        for (;;) {
                if (part.text_length > n || memcmp(uri, part.text, part.text_length) != 0)
                        return false;
                uri += part.text_length;
                n -= part.text_length;
                if (!part.name)
                        return n == 0;
                template = next_part(template, &next);
                size_t length = match_variable(&part, &next, uri, n);
                if (length == 0 || !put_variable(&part, uri, length, out))
                        return false;
                uri += length;
                n -= length;
                part = next;
        }
}

int published_template_match(const char *template, const char *uri, size_t n, struct buffer *to)
{
        struct json_out out = {.to = to};
        size_t before = to->length;

        if (!published_uri_valid(uri, n))
                return 0;
        json_out_begin(&out, NULL, '{');
        bool matches = match(template, uri, n, &out);
        json_out_end(&out, '}');
        if (!matches)
                to->length = before;
        return out.error < 0 ? out.error : matches;
}
