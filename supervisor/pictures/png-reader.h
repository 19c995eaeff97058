/*
 * PNG: fills the answer of a picture of this type, and its canvas if the picture is too wide or high, or moves. The verdict MADE
 * means that the canvas is to be written.
 */
#pragma once

struct picture;

void png_read(struct picture *picture);
