/*
 * The images in what published code returned: in the content of a tool, the messages of a prompt, the contents of a resource, and
 * the questions to the client's model. The first CELL_DISPLAYS_MAX are checked; the others are not shown.
 */
#pragma once

#include "base/error.h"
#include "supervisor/session/cell/cell.h"

/* Finds them. Returns 0 or -ENOMEM. */
int result_images_take(struct cell_outcome *outcome);

/* The check of the image in this block or resource; one without an answer if it has none. */
const struct cell_picture *result_images_find(const struct cell_outcome *outcome,
                                              yyjson_val *block);

/* Changes the images in the questions, in their document, to those that may be sent. Returns 0; -EBADMSG, and the reason, if one of them may not. */
int result_images_correct_questions(const struct cell_outcome *outcome, struct error *err);
