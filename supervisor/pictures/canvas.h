/*
 * The pixels of a picture that is made from another one: smaller, or its first frame.
 *
 * Rows come from the top, eight bits a channel. Each pixel of the canvas is the mean of those of the source that fall on it; where
 * some are transparent, each counts by its alpha.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CANVAS_OPAQUE = 3, CANVAS_ALPHA = 4 };

struct canvas {
        uint32_t source_width, source_height, width, height;
        unsigned channels; /* CANVAS_OPAQUE or CANVAS_ALPHA; 0: there is no canvas */
        uint32_t row;      /* of the source, which comes next */
        uint32_t *sums;    /* of one row of the canvas, before the columns are joined */
        uint32_t n_sums;   /* rows in them */
        uint32_t written;  /* rows of `pixels` */
        uint8_t *pixels;
        bool is_seen_through; /* some pixel is not opaque */
};

/* Returns false if there is no memory. */
bool canvas_open(struct canvas *canvas, uint32_t source_width, uint32_t source_height,
                 uint32_t side, unsigned channels);
/* A row of source_width pixels of `channels` bytes. */
void canvas_add(struct canvas *canvas, const uint8_t *row);

/* Write the canvas. Return false on a failure. */
bool canvas_write_png(const struct canvas *canvas, uint8_t **ret, size_t *n);
bool canvas_write_jpeg(const struct canvas *canvas, uint8_t **ret, size_t *n);
