/*
 * One picture that is being read.
 *
 * This happens in a separate process (serve.h) that ends after one picture: nothing is freed, and a library may exit the
 * process. Time and memory are limited from outside.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "rpc/picture-messages.h"
#include "supervisor/pictures/canvas.h"

/* The bytes of the picture, and what is found out about it. */
struct picture {
        const uint8_t *bytes;
        size_t n;
        uint32_t side;                /* pixels, the most */
        struct picture_answer answer; /* verdict, reason, type, width, height, rows, is_animated */
        struct canvas canvas;         /* pixels of the picture to make */
};

/* By the first bytes. */
enum picture_type picture_type_of(const uint8_t *bytes, size_t n);

/* Sets verdict and reason; the first of them stays. */
void picture_refuse(struct picture *picture, enum picture_reason reason);

/* Notes the size and, if it is too large, makes the canvas. Returns false if there is nothing to read: no pixels, or too many. */
bool picture_begin(struct picture *picture, uint32_t width, uint32_t height);
