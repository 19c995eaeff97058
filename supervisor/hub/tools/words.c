/* The words of a text. */
#include "supervisor/hub/tools/words.h"

#include <string.h>

#include "base/utf8.h"

static bool is_upper(uint32_t c)
{
        return c - 'A' < 26;
}

/* Latin, Greek and Cyrillic letters whose lower case is as long in UTF-8; towlower() needs a locale. */
static uint32_t lower(uint32_t c)
{
        if (c < 0x80)
                return is_upper(c) ? c + 32 : c;
        if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) ||
            (c >= 0x410 && c <= 0x42f))
                return c + 32;
        if (c >= 0x400 && c <= 0x40f)
                return c + 80;
        if ((c >= 0x100 && c <= 0x12f) || (c >= 0x132 && c <= 0x137) || (c >= 0x14a && c <= 0x177))
                return c | 1;
        return c;
}

/* Letters and digits of any alphabet. Other characters separate words. */
static bool is_letter(uint32_t c)
{
        if (c < 0x80)
                return (c | 32) - 'a' < 26 || c - '0' < 10;
        return c >= 0xc0 && c != 0xd7 && c != 0xf7 && (c < 0x2000 || c > 0x206f) &&
               (c < 0x3000 || c > 0x303f) && c != 0xfffd;
}

/* Reads the next character; bytes that are not UTF-8 count as U+0000. Returns its length. */
static size_t next(const char *text, size_t n, uint32_t *c)
{
        *c = (unsigned char)*text;
        if (*c < 0x80)
                return 1;
        int length = utf8_next((const unsigned char *)text, n);
        *c = length > 0 ? utf8_decode((const unsigned char *)text, length) : 0;
        return length > 0 ? (size_t)length : length < 0 ? (size_t)-length : n;
}

/* Writes a character of n bytes in lower case, which has as many bytes. Returns the end. */
static inline char *put_lower(char *to, const char *text, size_t n, uint32_t c)
{
        uint32_t small = lower(c);

        if (n == 1) {
                *to++ = small == c ? *text : (char)small;
                return to;
        }
        if (small == c)
                return mempcpy(to, text, n);
        *to++ = (char)(0xc0 | small >> 6);
        *to++ = (char)(0x80 | (small & 0x3f));
        return to;
}

/* The length of the English ending of a word of n bytes, if three bytes remain without it. */
static size_t ending(const char *end, size_t n)
{
        if (n >= 6 && memcmp(end - 3, "ing", 3) == 0)
                return 3;
        if (n >= 5 && (memcmp(end - 2, "es", 2) == 0 || memcmp(end - 2, "ed", 2) == 0))
                return 2;
        return n >= 4 && end[-1] == 's';
}

/* Ends a word with a space. Returns the end. */
static char *end_word(const char *begin, char *end, bool stems)
{
        if (stems)
                end -= ending(end, (size_t)(end - begin));
        *end++ = ' ';
        return end;
}

int tool_words_append(struct buffer *to, const char *text, size_t n, bool stems, int most)
{
        uint32_t c, before = 0;
        int words = 0, r = buffer_reserve(to, 2 * n + 2); /* each letter may be a word */

        if (r < 0)
                return r;
        char *at = buffer_tail(to), *word = NULL;
        *at++ = ' ';
        for (size_t i = 0, length; i < n; i += length, before = c) {
                length = next(text + i, n - i, &c);
                bool separates = !is_letter(c), is_camel = is_upper(c) && !is_upper(before);
                if (word && (separates || (is_camel && before < 0x80))) {
                        at = end_word(word, at, stems);
                        word = NULL;
                }
                if (separates)
                        continue;
                if (!word && words == most)
                        break;
                words += !word;
                word = word ? word : at;
                at = put_lower(at, text + i, length, c);
        }
        if (word)
                at = end_word(word, at, stems);
        buffer_produced(to, (size_t)(at - buffer_tail(to)));
        return words;
}

int tool_words_lower(struct buffer *to, const char *text, size_t n)
{
        int r = buffer_reserve(to, n);

        if (r < 0)
                return r;
        char *at = buffer_tail(to);
        uint32_t c;
        for (size_t i = 0, length; i < n; i += length) {
                length = next(text + i, n - i, &c);
                at = put_lower(at, text + i, length, c);
        }
        buffer_produced(to, n);
        return 0;
}
