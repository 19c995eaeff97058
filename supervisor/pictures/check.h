/* Checks one picture: its type, its size, whether it is whole and still; makes the picture to send if it is not within the limits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "rpc/picture-messages.h"

/* All of the answer but its serial and made_length. *made: the picture to send, owned by the caller, or NULL. side, most: pixels
 * and bytes that it may have. */
void picture_check(const uint8_t *bytes, size_t n, uint32_t side, uint32_t most,
                   struct picture_answer *answer, uint8_t **made, size_t *n_made);
