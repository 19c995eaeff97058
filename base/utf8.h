/*
 * Converts the bytes of a stream into valid UTF-8, piece by piece: bytes that are not UTF-8 become
 * U+FFFD, one for each maximal ill-formed part (Unicode 15, section 3.9, "U+FFFD substitution of
 * maximal subparts").
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The beginning of a character whose rest has not arrived. */
struct utf8_stream {
        unsigned char pending[4];
        size_t n_pending;
};

/* Is called with pieces of valid text; returns 0, or negative errno to stop. */
typedef int utf8_sink(void *data, const char *text, size_t n);

int utf8_feed(struct utf8_stream *stream, const char *bytes, size_t n, utf8_sink *sink, void *data);
int utf8_finish(struct utf8_stream *stream, utf8_sink *sink, void *data);

/*
 * Looks at the front of n > 0 bytes. Returns the length of a whole character (positive), minus the
 * number of bytes that are ill-formed (negative), or 0 when the bytes are the beginning of a
 * character.
 */
int utf8_next(const unsigned char *s, size_t n);

/* The code point of a whole character of this length. */
uint32_t utf8_decode(const unsigned char *s, int length);

bool utf8_is_valid(const char *text, size_t n);

/* The number of characters of valid UTF-8. */
size_t utf8_count(const char *text, size_t n);

/* Offset after the first `characters` characters of valid UTF-8 (n when there are fewer). */
size_t utf8_skip(const char *text, size_t n, size_t characters);

/* Offset where the last *characters characters begin; *characters is set to how many of them are
 * missing. */
size_t utf8_skip_back(const char *text, size_t n, size_t *characters);

/* Where to cut a text so that at most `most` bytes, and no part of a character, remain. */
size_t utf8_cut(const char *text, size_t n, size_t most);

/* Removes an incomplete character at the end. */
void utf8_trim(char *text);
