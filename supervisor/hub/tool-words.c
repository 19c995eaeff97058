/* Words of a text. */
#include "supervisor/hub/tool-words.h"

#include <ctype.h>
#include <string.h>

#include "base/utf8.h"

/* Latin, Greek and Cyrillic letters whose lower case is as long in UTF-8; towlower() would need a locale. */
static uint32_t lower(uint32_t c)
{
        if (c < 0x80)
                return (uint32_t)tolower((int)c);
        if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) ||
            (c >= 0x410 && c <= 0x42f))
                return c + 32;
        if (c >= 0x400 && c <= 0x40f)
                return c + 80;
        if ((c >= 0x100 && c <= 0x12f) || (c >= 0x132 && c <= 0x137) || (c >= 0x14a && c <= 0x177))
                return c | 1;
        return c;
}

/* Letters and digits of any alphabet; the signs between them separate words. */
static bool is_letter(uint32_t c)
{
        if (c < 0x80)
                return isalnum((int)c);
        return c >= 0xc0 && c != 0xd7 && c != 0xf7 && (c < 0x2000 || c > 0x206f) &&
               (c < 0x3000 || c > 0x303f) && c != 0xfffd;
}

static size_t encode(uint32_t c, char to[4])
{
        if (c < 0x80) {
                to[0] = (char)c;
                return 1;
        }
        if (c < 0x800) {
                to[0] = (char)(0xc0 | c >> 6);
                to[1] = (char)(0x80 | (c & 0x3f));
                return 2;
        }
        return 0; /* lower() does not change it */
}

/* Appends one character in lower case. */
static int append_lower(struct buffer *to, const char *text, size_t n, uint32_t c)
{
        char bytes[4];
        size_t length = encode(lower(c), bytes);

        return length > 0 ? buffer_append(to, bytes, length) : buffer_append(to, text, n);
}

/* The next character; what is not UTF-8 counts as a sign. Returns its length. */
static size_t next(const char *text, size_t n, uint32_t *c)
{
        int length = utf8_next((const unsigned char *)text, n);

        *c = length > 0 ? utf8_decode((const unsigned char *)text, length) : 0;
        return length > 0 ? (size_t)length : length < 0 ? (size_t)-length : n;
}

/* Removes the ending of the word that begins here. */
static void cut_ending(struct buffer *to, size_t begin)
{
        static const char *const endings[] = {"ing", "es", "ed", "s"};
        size_t n = to->length - begin;
        const char *word = buffer_bytes(to) + begin;

        for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
                size_t m = strlen(endings[i]);
                if (n >= m + 3 && memcmp(word + n - m, endings[i], m) == 0) {
                        to->length -= m;
                        return;
                }
        }
}

static int end_word(struct buffer *to, size_t begin, bool stems)
{
        if (stems)
                cut_ending(to, begin);
        return buffer_append(to, " ", 1);
}

int tool_words_append(struct buffer *to, const char *text, size_t n, bool stems, int most)
{
        uint32_t c, before = 0;
        size_t begin = 0;
        int words = 0, r = buffer_append(to, " ", 1);

        for (size_t at = 0, length; at < n && r >= 0; at += length, before = c) {
                length = next(text + at, n - at, &c);
                bool inside = is_letter(before);
                bool camel = inside && before < 0x80 && c < 0x80 && isupper((int)c) &&
                             !isupper((int)before);

                if (inside && (camel || !is_letter(c)))
                        r = end_word(to, begin, stems);
                if (r < 0 || !is_letter(c))
                        continue;
                if (!inside || camel) {
                        if (words == most)
                                return words;
                        words++;
                        begin = to->length;
                }
                r = append_lower(to, text + at, length, c);
        }
        if (r >= 0 && is_letter(before))
                r = end_word(to, begin, stems);
        return r < 0 ? r : words;
}

int tool_words_lower(struct buffer *to, const char *text, size_t n)
{
        uint32_t c;
        int r = 0;

        for (size_t at = 0, length; at < n && r >= 0; at += length) {
                length = next(text + at, n - at, &c);
                r = append_lower(to, text + at, length, c);
        }
        return r;
}
