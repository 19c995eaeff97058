/* Follows all places of the pattern at once that the text so far can have led to: a set of bits, one for each token. */
#include "policy/rules/glob.h"

#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

enum { WORDS = (GLOB_MAX + 1 + 63) / 64, STAR = 256, STARS = 257 };

struct set {
        uint64_t words[WORDS];
};

/* Its tokens: bytes, STAR and STARS. skip: from here the tokens up to the end of "**" and "/" may be left out. */
struct compiled {
        uint16_t tokens[GLOB_MAX];
        bool skip[GLOB_MAX + 1];
        size_t n;
};

static void compile(const char *pattern, struct compiled *c)
{
        size_t n = strnlen(pattern, GLOB_MAX);

        c->n = 0;
        memset(c->skip, 0, sizeof(c->skip));
        for (size_t i = 0; i < n; i++) {
                if (pattern[i] != '*') {
                        c->tokens[c->n++] = (unsigned char)pattern[i];
                        continue;
                }
                size_t begin = i;
                while (i + 1 < n && pattern[i + 1] == '*')
                        i++;
                bool is_long = i > begin;
                c->skip[c->n] = is_long && begin > 0 && pattern[begin - 1] == '/' && i + 1 < n &&
                                pattern[i + 1] == '/';
                c->tokens[c->n++] = is_long ? STARS : STAR;
        }
}

static bool has(const struct set *set, size_t i)
{
        return set->words[i / 64] >> (i % 64) & 1;
}

/* Adds a place, and those that follow it without a character. after_slash: of the text; otherwise "/ ** /" would match the end
 * of a name, as in /xb for / ** /b (without the blanks). */
static void add(const struct compiled *c, struct set *set, size_t at, bool after_slash)
{
        while (!has(set, at)) {
                set->words[at / 64] |= UINT64_C(1) << (at % 64);
                if (at == c->n || c->tokens[at] < STAR)
                        return;
                if (c->skip[at] && after_slash)
                        add(c, set, at + 2, true);
                at++;
        }
}

/* Returns how many places there were. */
static uint64_t step(const struct compiled *c, const struct set *from, unsigned char byte,
                     struct set *to)
{
        uint64_t n = 0;

        for (size_t w = 0; w < WORDS; w++) {
                for (uint64_t bits = from->words[w]; bits; bits &= bits - 1, n++) {
                        size_t at = w * 64 + (size_t)__builtin_ctzll(bits);
                        if (at == c->n)
                                continue;
                        if (c->tokens[at] == byte)
                                add(c, to, at + 1, byte == '/');
                        else if (c->tokens[at] == STARS || (c->tokens[at] == STAR && byte != '/'))
                                add(c, to, at, byte == '/');
                }
        }
        return n;
}

bool glob_matches(const char *pattern, const char *text, size_t n, struct rules_work *work)
{
        struct compiled c _uninitialized_;
        struct set now = {};

        compile(pattern, &c);
        add(&c, &now, 0, false);
        for (size_t i = 0; i < n; i++) {
                struct set next = {};
                uint64_t places = step(&c, &now, (unsigned char)text[i], &next);
                if (places == 0)
                        return false;
                if (!rules_work_take(work, places))
                        return false;
                now = next;
        }
        return has(&now, c.n);
}
