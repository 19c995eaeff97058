/*
 * Has the pictures of a cell checked, one after the other.
 *
 * The first EARLY_MAX of a cell are checked when they come, so that they are shown however it ends; all others that are still
 * there, with its RESULT: code that replaces a display again and again has no more of them read.
 *
 * No frame of the worker is taken while a picture is checked. So a cell's RESULT comes after the answers, and so do displays that
 * replace others. If the cell ends otherwise meanwhile, the picture is not shown.
 */
#pragma once

#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/picture-provider.h"

struct session_pictures {
        struct picture_check check;
        bool is_pending;
        unsigned n_early;           /* of the cell */
        bool has_result;            /* EVENT_RESULT follows */
        uint64_t cell;              /* whose pictures they are */
        uint64_t token, last_token; /* of the picture that is checked */
};

/* Whether frames must wait. */
bool pictures_are_checked(const struct session *session);

/* A display was taken. */
void pictures_take_display(struct session *session);
/* A RESULT was taken: dispatches EVENT_RESULT, when all pictures have an answer. */
void pictures_take_result(struct session *session);

/* The worker has ended: what has no answer gets none. Dispatches EVENT_RESULT if it waits. */
void pictures_give_up(struct session *session);
/* The session ends. */
void pictures_forget(struct session *session);
