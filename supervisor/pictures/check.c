/* Checks one picture, and makes the one to send. */
#include "supervisor/pictures/check.h"

#include "supervisor/pictures/gif-reader.h"
#include "supervisor/pictures/jpeg-reader.h"
#include "supervisor/pictures/picture.h"
#include "supervisor/pictures/png-reader.h"
#include "supervisor/pictures/webp-reader.h"

/* A photograph stays one. Another picture is made without loss unless it is too long then. */
static void write_made(struct picture *p, uint32_t most, uint8_t **made, size_t *n_made)
{
        bool photograph = p->answer.type == PICTURE_JPEG;
        const struct canvas *c = &p->canvas;

        for (int i = 0; i < 2; i++) {
                bool ok = photograph == (i == 0) ? canvas_write_jpeg(c, made, n_made)
                                                 : canvas_write_png(c, made, n_made);
                if (!ok || *n_made > most)
                        continue;
                p->answer.made = photograph == (i == 0) ? PICTURE_JPEG : PICTURE_PNG;
                p->answer.made_width = c->width;
                p->answer.made_height = c->height;
                return;
        }
        *made = NULL;
        picture_refuse(p, PICTURE_REASON_BYTES);
}

void picture_check(const uint8_t *bytes, size_t n, uint32_t side, uint32_t most,
                   struct picture_answer *answer, uint8_t **made, size_t *n_made)
{
        static void (*const readers[PICTURE_TYPE_MAX])(struct picture *) = {
                [PICTURE_PNG] = png_read,
                [PICTURE_JPEG] = jpeg_read,
                [PICTURE_GIF] = gif_read,
                [PICTURE_WEBP] = webp_read,
        };
        struct picture p = {.bytes = bytes, .n = n, .side = side};

        *made = NULL;
        *n_made = 0;
        p.answer.type = (uint8_t)picture_type_of(bytes, n);
        if (p.answer.type == PICTURE_OTHER)
                picture_refuse(&p, n == 0 ? PICTURE_REASON_EMPTY : PICTURE_REASON_TYPE);
        else
                readers[p.answer.type](&p);
        if (p.answer.verdict == PICTURE_FINE && n > most)
                picture_refuse(&p, PICTURE_REASON_BYTES);
        if (p.answer.verdict == PICTURE_MADE)
                write_made(&p, most, made, n_made);
        *answer = p.answer;
}
