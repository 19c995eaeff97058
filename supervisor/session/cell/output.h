/*
 * The output of a stream during one cell: kept up to a limit, and truncated for the reply.
 *
 * The first CAPTURE_KEEP and the last CAPTURE_KEEP bytes are kept, as valid UTF-8; those between
 * them are counted and dropped. A capture that was squeezed keeps less.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/utf8.h"

enum {
        CAPTURE_KEEP = 8 * 1024 * 1024,
        CAPTURE_LEAST = 4 * 1024,
        /* Most characters of a stream in a reply. Both halves of them are within the kept bytes,
           whatever their width. */
        OUTPUT_CHARACTERS_MAX = 2 * 1000 * 1000,
};

/* A place in the text of a capture. */
struct capture_mark {
        uint64_t text_bytes, characters;
};

struct capture {
        struct buffer head, tail;
        struct utf8_stream stream;
        size_t head_most, tail_keep; /* bytes that are kept: CAPTURE_KEEP, or less */
        bool has_return;             /* there is a carriage return in it */
        uint64_t bytes;              /* as read */
        uint64_t characters;         /* of the decoded text */
        uint64_t text_bytes;
        struct capture_mark cleared; /* what came before it was dropped, and is not counted above */
};

void capture_init(struct capture *c);
void capture_done(struct capture *c);

/* Drops what has come. Marks of capture_end() stay valid. */
void capture_clear(struct capture *c);

/* Bytes of memory, and how many more it takes at most to append n bytes, about. */
size_t capture_bytes(const struct capture *c);
size_t capture_growth(const struct capture *c, size_t n);
/* From now on keeps no more of the head, and of the tail not more than now, or CAPTURE_LEAST. */
void capture_squeeze(struct capture *c);

/* Returns 0 or -ENOMEM. */
int capture_append(struct capture *c, const char *bytes, size_t n);

/* Ends the stream: an incomplete character at the end counts as ill-formed. */
int capture_finish(struct capture *c);

/*
 * Appends the text, truncated to `most` characters (at most OUTPUT_CHARACTERS_MAX): the head, a
 * line that says how much is missing, the tail. Cuts at the end of a line if one is near. *cut:
 * whether it was truncated. Returns 0, -EMSGSIZE or -ENOMEM.
 */
int capture_render(const struct capture *c, size_t most, struct buffer *to, bool *cut);

/* Appends the first `most` bytes of the text, without a part of a character. *cut: whether there are more. Returns 0,
 * -EMSGSIZE or -ENOMEM. */
int capture_begin(const struct capture *c, size_t most, struct buffer *to, bool *cut);

struct capture_mark capture_end(const struct capture *c);
/* As capture_render(), for the text after a mark of capture_end(), but lines with carriage returns are rendered as a terminal shows them at their end: the last
 * state of a progress bar. Takes longer where there are returns. */
int capture_render_shown(const struct capture *c, struct capture_mark mark, size_t most,
                         struct buffer *to, bool *cut);

/* Appends valid UTF-8 in that way; a return before a newline stays as it is. Returns 0, -EMSGSIZE or -ENOMEM. */
int output_collapse(const char *text, size_t n, struct buffer *to);

/* As capture_render(), for a text in one piece, valid UTF-8. */
int output_cut(const char *text, size_t n, size_t most, struct buffer *to, bool *cut);
