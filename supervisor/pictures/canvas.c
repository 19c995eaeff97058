/* Scales pictures down, and writes them. */
#include "supervisor/pictures/canvas.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { JPEG_QUALITY = 88 };

static uint32_t scaled(uint32_t length, uint32_t longest, uint32_t side)
{
        uint64_t n = ((uint64_t)length * side + longest / 2) / longest;

        return n > 0 ? (uint32_t)n : 1;
}

bool canvas_open(struct canvas *c, uint32_t source_width, uint32_t source_height, uint32_t side,
                 unsigned channels)
{
        uint32_t longest = source_width > source_height ? source_width : source_height;

        *c = (struct canvas){.source_width = source_width,
                             .source_height = source_height,
                             .width = source_width,
                             .height = source_height,
                             .channels = channels};
        if (longest > side) {
                c->width = scaled(source_width, longest, side);
                c->height = scaled(source_height, longest, side);
        }
        c->sums = calloc((size_t)source_width * channels, sizeof(*c->sums));
        c->pixels = calloc((size_t)c->width * channels, c->height);
        return c->sums && c->pixels;
}

static bool is_opaque(const uint8_t *row, uint32_t width)
{
        uint8_t all = 0xff;

        for (uint32_t i = 0; i < width; i++)
                all &= row[4 * i + 3];
        return all == 0xff;
}

/* Colours count by their alpha: sums of colours are sums of colour times alpha / 255. */
static void add_seen_through(struct canvas *c, const uint8_t *row)
{
        for (uint32_t i = 0; i < c->source_width; i++) {
                const uint8_t *pixel = row + 4 * i;
                for (int k = 0; k < 3; k++)
                        c->sums[4 * i + (uint32_t)k] += (pixel[k] * pixel[3] + 127u) / 255u;
                c->sums[4 * i + 3] += pixel[3];
        }
}

/* The first column of the source that falls on the column after this one, or the first such row. */
static uint32_t end_of(uint32_t at, uint32_t length, uint32_t source)
{
        return (uint32_t)(((uint64_t)at + 1) * source / length);
}

static void write_pixel(const struct canvas *c, const uint64_t sums[4], uint64_t n, uint8_t *to)
{
        uint64_t alpha = sums[3];

        if (c->channels == CANVAS_OPAQUE) {
                for (int k = 0; k < 3; k++)
                        to[k] = (uint8_t)((sums[k] + n / 2) / n);
                return;
        }
        for (int k = 0; k < 3; k++) {
                uint64_t value = alpha > 0 ? (sums[k] * 255 + alpha / 2) / alpha : 0;
                to[k] = (uint8_t)(value > 255 ? 255 : value);
        }
        to[3] = (uint8_t)((alpha + n / 2) / n);
}

static void flush(struct canvas *c)
{
        uint8_t *to = c->pixels + (size_t)c->written * c->width * c->channels;
        uint32_t from = 0;

        for (uint32_t x = 0; x < c->width; x++, to += c->channels) {
                uint32_t end = end_of(x, c->width, c->source_width);
                uint64_t sums[4] = {}, n = (uint64_t)(end - from) * c->n_sums;
                for (; from < end; from++)
                        for (unsigned k = 0; k < c->channels; k++)
                                sums[k] += c->sums[(size_t)from * c->channels + k];
                write_pixel(c, sums, n, to);
        }
        memset(c->sums, 0, (size_t)c->source_width * c->channels * sizeof(*c->sums));
        c->n_sums = 0;
        c->written++;
}

void canvas_add(struct canvas *c, const uint8_t *row)
{
        size_t n = (size_t)c->source_width * c->channels;
        bool opaque = c->channels == CANVAS_OPAQUE || is_opaque(row, c->source_width);

        if (c->written == c->height)
                return;
        c->is_seen_through |= !opaque;
        if (opaque && c->width == c->source_width && c->height == c->source_height) {
                memcpy(c->pixels + c->written++ * n, row, n);
                c->row++;
                return;
        }
        if (opaque)
                for (size_t i = 0; i < n; i++)
                        c->sums[i] += row[i];
        else
                add_seen_through(c, row);
        c->n_sums++;
        if (++c->row == end_of(c->written, c->height, c->source_height))
                flush(c);
}

/* A write of a library into memory. */
struct growing {
        uint8_t *bytes;
        size_t n, allocated;
};

static void append(png_structp png, png_bytep bytes, png_size_t n)
{
        struct growing *to = png_get_io_ptr(png);

        while (to->allocated - to->n < n) {
                to->allocated = to->allocated ? 2 * to->allocated : 65536;
                to->bytes = realloc(to->bytes, to->allocated);
                if (!to->bytes)
                        png_error(png, "no memory");
        }
        memcpy(to->bytes + to->n, bytes, n);
        to->n += n;
}

static void ignore(png_structp png)
{
}

/* Without alpha if all pixels are opaque. */
bool canvas_write_png(const struct canvas *c, uint8_t **ret, size_t *n)
{
        struct growing to = {};
        bool alpha = c->channels == CANVAS_ALPHA && c->is_seen_through;
        png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
        png_infop info = png ? png_create_info_struct(png) : NULL;

        if (!info || setjmp(png_jmpbuf(png)))
                return false;
        png_set_write_fn(png, &to, append, ignore);
        png_set_IHDR(png, info, c->width, c->height, 8,
                     alpha ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                     PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
        png_set_compression_level(png, 1);
        png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);
        png_write_info(png, info);
        if (c->channels == CANVAS_ALPHA && !alpha)
                png_set_filler(png, 0, PNG_FILLER_AFTER);
        for (uint32_t y = 0; y < c->height; y++)
                png_write_row(png, c->pixels + (size_t)y * c->width * c->channels);
        png_write_end(png, NULL);
        png_destroy_write_struct(&png, &info);
        *ret = to.bytes;
        *n = to.n;
        return true;
}

/* Only of an opaque canvas. The library ends the process on a failure. */
bool canvas_write_jpeg(const struct canvas *c, uint8_t **ret, size_t *n)
{
        struct jpeg_compress_struct jpeg = {};
        struct jpeg_error_mgr errors;
        unsigned char *bytes = NULL;
        unsigned long length = 0;

        if (c->channels == CANVAS_ALPHA && c->is_seen_through)
                return false;
        jpeg.err = jpeg_std_error(&errors);
        jpeg_create_compress(&jpeg);
        jpeg_mem_dest(&jpeg, &bytes, &length);
        jpeg.image_width = c->width;
        jpeg.image_height = c->height;
        jpeg.input_components = (int)c->channels;
        jpeg.in_color_space = c->channels == CANVAS_ALPHA ? JCS_EXT_RGBX : JCS_RGB;
        jpeg_set_defaults(&jpeg);
        jpeg_set_quality(&jpeg, JPEG_QUALITY, TRUE);
        jpeg_start_compress(&jpeg, TRUE);
        while (jpeg.next_scanline < jpeg.image_height) {
                JSAMPROW row = c->pixels + (size_t)jpeg.next_scanline * c->width * c->channels;
                jpeg_write_scanlines(&jpeg, &row, 1);
        }
        jpeg_finish_compress(&jpeg);
        *ret = bytes;
        *n = length;
        return true;
}
