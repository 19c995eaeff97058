/* W3C Trace Context. */
#include "rpc/trace-context.h"

#include <stdio.h>
#include <string.h>

#include "base/unguessable.h"

enum {
        VERSION_AT = 0,
        ID_AT = 3,
        SPAN_AT = 36,
        SPAN_LENGTH = 16,
        FLAGS_AT = 53,
        FLAGS_KNOWN = 3, /* sampled, random trace id (Level 2) */
        MEMBERS_MAX = 32,
        KEY_MAX = 256,
        VALUE_MAX = 256,
};

/* Whether n characters are lower-case hexadecimal digits; *any: whether one is not 0. */
static bool is_hex(const char *text, size_t n, bool *any)
{
        *any = false;
        for (size_t i = 0; i < n; i++) {
                if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
                        return false;
                *any |= text[i] != '0';
        }
        return true;
}

static int digit(char c)
{
        return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* "traceparent Header Field Values" (3.2.2). Later versions may have more, behind another "-". */
static bool read_parent(struct trace_context *ret, const char *text, size_t n)
{
        bool any;

        if (n < TRACE_PARENT_LENGTH || !is_hex(text + VERSION_AT, 2, &any) ||
            memcmp(text, "ff", 2) == 0 || text[ID_AT - 1] != '-' || text[SPAN_AT - 1] != '-' ||
            text[FLAGS_AT - 1] != '-')
                return false;
        if (n > TRACE_PARENT_LENGTH &&
            (memcmp(text, "00", 2) == 0 || text[TRACE_PARENT_LENGTH] != '-'))
                return false;
        if (!is_hex(text + FLAGS_AT, 2, &any) || !is_hex(text + SPAN_AT, SPAN_LENGTH, &any) ||
            !any || !is_hex(text + ID_AT, TRACE_ID_LENGTH, &any) || !any)
                return false;
        memcpy(ret->id, text + ID_AT, TRACE_ID_LENGTH);
        ret->id[TRACE_ID_LENGTH] = '\0';
        ret->flags = (uint8_t)((digit(text[FLAGS_AT]) << 4 | digit(text[FLAGS_AT + 1])) &
                               FLAGS_KNOWN);
        return true;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t';
}

static bool is_key(const char *key, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                char c = key[i];
                bool is_first = i == 0;
                if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      (!is_first && (c == '_' || c == '-' || c == '*' || c == '/' || c == '@'))))
                        return false;
        }
        return n > 0 && n <= KEY_MAX;
}

static bool is_value(const char *value, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (value[i] < ' ' || value[i] > '~' || value[i] == ',' || value[i] == '=')
                        return false;
        }
        return n > 0 && n <= VALUE_MAX;
}

/* "tracestate Header Field Values" (3.3.1): members that do not fit are left out, from the end. One that is not valid makes
 * all of it invalid. */
static bool read_state(char to[TRACE_STATE_MAX + 1], const char *text, size_t n)
{
        const char *end = text + n;
        size_t used = 0, members = 0;
        bool fits = true;

        while (text < end) {
                const char *comma = memchr(text, ',', (size_t)(end - text));
                const char *from = text, *to_end = comma ? comma : end;
                text = to_end + 1;
                while (from < to_end && is_blank(*from))
                        from++;
                while (to_end > from && is_blank(to_end[-1]))
                        to_end--;
                size_t length = (size_t)(to_end - from);
                if (length == 0)
                        continue;
                const char *equals = memchr(from, '=', length);
                if (++members > MEMBERS_MAX || !equals || !is_key(from, (size_t)(equals - from)) ||
                    !is_value(equals + 1, (size_t)(to_end - equals - 1)))
                        return false;
                fits = fits && used + (used > 0) + length <= TRACE_STATE_MAX;
                if (!fits)
                        continue;
                if (used > 0)
                        to[used++] = ',';
                memcpy(to + used, from, length);
                used += length;
        }
        to[used] = '\0';
        return true;
}

bool trace_context_read(struct trace_context *ret, const char *parent, size_t n_parent,
                        const char *state, size_t n_state)
{
        ret->id[0] = ret->state[0] = '\0';
        ret->flags = 0;
        if (!parent || !read_parent(ret, parent, n_parent))
                return false;
        /* 32 members of the greatest length, with blanks around them: more is not read. */
        if (state && (n_state > MEMBERS_MAX * (KEY_MAX + VALUE_MAX + 8) ||
                      !read_state(ret->state, state, n_state)))
                ret->state[0] = '\0';
        return true;
}

void trace_context_child(const struct trace_context *context, char ret[TRACE_PARENT_LENGTH + 1])
{
        char random[UNGUESSABLE_LENGTH + 1];

        unguessable(random);
        snprintf(ret, TRACE_PARENT_LENGTH + 1, "00-%s-%.16s-%02x", context->id, random,
                 context->flags);
}
