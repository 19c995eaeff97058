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

/* Whether a client could take this for the type of a picture that models read: it may ignore case, blanks and parameters. */
bool cell_picture_is_named(const char *mime_type);
/* The base64 of the picture in a content block: one of the type image ("" if it has no data), or a resource as below; or NULL. */
const char *cell_picture_of_block(yyjson_val *block, size_t *n);
/* The base64 of a resource ({"mimeType", "blob"}) that a client may pass on to a model as an image, or NULL. */
const char *cell_picture_of_resource(yyjson_val *resource, size_t *n);
/* The resource of a block of that type, or NULL. */
yyjson_val *cell_picture_resource(yyjson_val *block);
/* Changes the resource's type, in its document: to that of the picture if it is fine as it is, otherwise to that of any bytes. */
void cell_picture_correct_resource(const struct cell_picture *picture, yyjson_val *resource);

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
