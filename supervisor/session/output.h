/*
 * What a stream printed during one cell: kept up to a bound, counted beyond it, and cut for the
 * reply.
 *
 * The first CAPTURE_KEEP and the last CAPTURE_KEEP bytes are kept, as valid UTF-8; what lies
 * between is counted and gone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/utf8.h"

enum {
        CAPTURE_KEEP = 8 * 1024 * 1024,
        /* Most characters of a stream in a reply: both halves then lie in what is kept whatever
           their width. */
        OUTPUT_CHARACTERS_MAX = 2 * 1000 * 1000,
};

struct capture {
        struct buffer head, tail;
        struct utf8_stream stream;
        uint64_t bytes;      /* as they came */
        uint64_t characters; /* of the text made of them */
        uint64_t text_bytes;
};

void capture_init(struct capture *c);
void capture_done(struct capture *c);

/* Returns 0 or -ENOMEM. */
int capture_append(struct capture *c, const char *bytes, size_t n);

/* No more bytes come: half a character at the end counts as ill-formed. */
int capture_finish(struct capture *c);

/*
 * Appends the text, cut to `most` characters (at most OUTPUT_CHARACTERS_MAX): the head, a notice in
 * a line of its own that tells what is missing, the tail. Cuts at the end of a line where one is
 * near. *cut tells whether it was. Returns 0, -EMSGSIZE or -ENOMEM.
 */
int capture_render(const struct capture *c, size_t most, struct buffer *to, bool *cut);

/* The same cut for a text in one piece, valid UTF-8. */
int output_cut(const char *text, size_t n, size_t most, struct buffer *to, bool *cut);
