/*
 * A picture that a cell shows: a display, an image block of one, or an image in the result of published code.
 *
 * It is sent as image content only if a check has found it fine, or has made one of it that is (rpc/picture-messages.h). Until
 * then, and without an answer, it is not shown. The original stays what it was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "rpc/picture-messages.h"

enum { CELL_PICTURE_TEXT_MAX = 160 };

struct cell_picture {
        struct picture_answer answer; /* the verdict PICTURE_UNCHECKED: there is none yet */
        uint64_t token;               /* of the check that runs; 0: none */
        char *made; /* base64 of the picture to send, answer.made_length of it; NULL unless PICTURE_MADE */
};

void cell_picture_done(struct cell_picture *picture);

/* Whether a display with this type and these bytes (base64) is a picture that is to be checked: it has a type that models read, or it
 * is some image and begins as one of these types. */
bool cell_picture_is(const char *mime_type, const char *base64, size_t n);

/* Whether a content block is of the type image. */
bool cell_picture_is_block(yyjson_val *block);

/* Takes an answer, and what it made, of malloc(), which it owns from now on: it must be base64 of the type that it should be.
 * Otherwise the picture is refused. */
void cell_picture_take(struct cell_picture *picture, const struct picture_answer *answer,
                       char *made);

static inline bool cell_picture_is_shown(const struct cell_picture *picture)
{
        return picture->answer.verdict == PICTURE_FINE || picture->answer.verdict == PICTURE_MADE;
}

/* The MIME type of the bytes that are sent; NULL: it is not shown. */
const char *cell_picture_sent_type(const struct cell_picture *picture);
/* That of the original, as far as it is known by its bytes: a refused one of a known type, or NULL. */
const char *cell_picture_type(const struct cell_picture *picture);

/* A clause that says why it is not shown ("PNG, cut after 412 of 1,200 rows"), or how what is shown differs from it ("with
 * 2,000 x 4 pixels instead of 9,000 x 20"). Returns false if there is nothing to say. */
bool cell_picture_describe(const struct cell_picture *picture, char to[CELL_PICTURE_TEXT_MAX]);
