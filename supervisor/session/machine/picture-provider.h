/*
 * The checks of pictures, as sessions use them: a table of functions. The broker fills it with those of cloister-pictures
 * (supervisor/broker/pictures.c).
 *
 * A session has one check at a time. Those of all principals take turns.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "rpc/picture-messages.h"

struct session_principal;

struct picture_check {
        TAILQ_ENTRY(picture_check) link; /* of the provider, while it waits */
        struct session_principal *principal;
        struct picture_request limits; /* side, bytes */
        /* Returns a sealed memfd with the picture as base64, or negative errno: it is of no use any more. */
        int (*open)(struct picture_check *check, uint32_t *length);
        /* made: of malloc(), base64 of answer->made_length, owned from now on; NULL unless the verdict is PICTURE_MADE. Called
         * once, from the event loop, unless the check is cancelled. */
        void (*done)(struct picture_check *check, const struct picture_answer *answer, char *made);
        void *data;
};

struct picture_provider {
        void *data;
        void (*ask)(void *data, struct picture_check *check);
        void (*cancel)(void *data, struct picture_check *check);
};
