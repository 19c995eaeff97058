/*
 * The messages between the broker and cloister-pictures, which checks pictures before they become image content. Both
 * are of fixed size. A request has a sealed memfd with the picture as base64; an answer with the verdict MADE has a sealed
 * memfd with the picture to send, as base64.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limits.h"

enum picture_type {
        PICTURE_OTHER, /* none of the types that models read */
        PICTURE_PNG,
        PICTURE_JPEG,
        PICTURE_GIF,
        PICTURE_WEBP,
        PICTURE_TYPE_MAX,
};

enum picture_verdict {
        PICTURE_UNCHECKED, /* it has no answer, and is not shown */
        PICTURE_FINE,      /* whole and still, of `type`, within the limits */
        PICTURE_MADE,      /* the memfd has a picture of the type `made` that is fine */
        PICTURE_REFUSED,   /* it is not shown; `reason` says why */
        PICTURE_VERDICT_MAX,
};

enum picture_reason {
        PICTURE_REASON_NONE,
        PICTURE_REASON_EMPTY,
        PICTURE_REASON_TYPE,    /* PICTURE_OTHER */
        PICTURE_REASON_SIDE,    /* no pixels */
        PICTURE_REASON_CUT,     /* after `rows` rows */
        PICTURE_REASON_DAMAGED, /* after `rows` rows */
        PICTURE_REASON_PIXELS,  /* more than PICTURE_PIXELS_MAX */
        PICTURE_REASON_BYTES,   /* more than the limit, even when scaled down */
        PICTURE_REASON_KIND,    /* a form of the type that few programs read */
        /* Of the processes, not of the picture. */
        PICTURE_REASON_TIME,
        PICTURE_REASON_ENDED, /* the check ended without an answer */
        PICTURE_REASON_MAX,
};

enum {
        PICTURE_PIXELS_MAX = 64 * 1000 * 1000,
        PICTURE_INPUT_MAX = 16 * 1024 * 1024, /* of base64 */
        PICTURE_CHILDREN_MAX = 2,             /* pictures that are checked at a time */
        PICTURE_CPU_MS = 200,
        PICTURE_WALL_MS = 3000, /* for these 200 ms, on a machine that does other work */
};

struct picture_request {
        uint32_t serial; /* not 0 */
        uint32_t side;   /* pixels, the most */
        uint32_t bytes;  /* of the picture, the most; not of its base64 */
        uint32_t length; /* of the memfd */
};

struct picture_answer {
        uint32_t serial;
        uint8_t verdict, reason, type, made;           /* the enums above */
        uint32_t width, height;                        /* 0: not known */
        uint32_t rows;                                 /* of the picture, that are whole */
        uint32_t made_width, made_height, made_length; /* the last: of the memfd */
        uint8_t is_animated, padding[3];
};

/* "image/png"; NULL for PICTURE_OTHER. */
const char *picture_mime_type(enum picture_type type);

/* Whether the values are in their ranges and agree with each other, for a request with this side and these bytes. */
bool picture_answer_valid(const struct picture_answer *answer,
                          const struct picture_request *request);
