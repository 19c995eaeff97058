/* JPEG. */
#include "supervisor/pictures/jpeg-reader.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jerror.h>
#include <jpeglib.h>

#include "supervisor/pictures/picture.h"

enum { EIGHTHS = 8 };

struct reader {
        struct jpeg_error_mgr errors; /* first */
        struct picture *picture;
        jmp_buf failed;
};

static void fail(j_common_ptr jpeg)
{
        struct reader *r = (struct reader *)jpeg->err;

        picture_refuse(r->picture, PICTURE_REASON_DAMAGED);
        longjmp(r->failed, 1);
}

/* Level -1: the data is damaged, and the library would guess. */
static void note(j_common_ptr jpeg, int level)
{
        struct reader *r = (struct reader *)jpeg->err;

        if (level >= 0)
                return;
        if (r->errors.msg_code == JWRN_JPEG_EOF)
                picture_refuse(r->picture, PICTURE_REASON_CUT);
        fail(jpeg);
}

/* Every marker segment before the picture is as long as it says. Returns false after a refusal. */
static bool walk(struct picture *p)
{
        size_t at = 2;

        while (p->n - at >= 4) {
                const uint8_t *b = p->bytes + at;
                if (b[0] != 0xff) {
                        picture_refuse(p, PICTURE_REASON_DAMAGED);
                        return false;
                }
                if (b[1] == 0xff) {
                        at++;
                        continue;
                }
                size_t length = (size_t)b[2] << 8 | b[3];
                if (length < 2 || length > p->n - at - 2)
                        break;
                if (b[1] == 0xda)
                        return true;
                at += 2 + length;
        }
        picture_refuse(p, PICTURE_REASON_CUT);
        return false;
}

/* The library makes a picture that is much too large smaller by halves, which takes less time. Without a canvas only
 * the data is read. */
static void choose_scale(struct jpeg_decompress_struct *jpeg, const struct picture *p)
{
        uint32_t longest = p->answer.width > p->answer.height ? p->answer.width : p->answer.height;

        jpeg->scale_denom = EIGHTHS;
        jpeg->scale_num = 1;
        if (p->answer.verdict == PICTURE_MADE) {
                while (jpeg->scale_num < EIGHTHS && longest * jpeg->scale_num / EIGHTHS < p->side)
                        jpeg->scale_num *= 2;
        } else {
                jpeg->do_fancy_upsampling = FALSE;
                jpeg->dct_method = JDCT_IFAST;
        }
}

static void read_pixels(struct jpeg_decompress_struct *jpeg, struct picture *p)
{
        bool is_made = p->answer.verdict == PICTURE_MADE;

        choose_scale(jpeg, p);
        if (is_made)
                jpeg->out_color_space = JCS_RGB;
        jpeg_start_decompress(jpeg);
        if (is_made && !canvas_open(&p->canvas, jpeg->output_width, jpeg->output_height, p->side,
                                    CANVAS_OPAQUE))
                fail((j_common_ptr)jpeg);
        JSAMPROW row = malloc((size_t)jpeg->output_width * (unsigned)jpeg->output_components);
        if (!row)
                fail((j_common_ptr)jpeg);
        while (jpeg->output_scanline < jpeg->output_height) {
                jpeg_read_scanlines(jpeg, &row, 1);
                p->answer.rows = (uint32_t)((uint64_t)jpeg->output_scanline * p->answer.height /
                                            jpeg->output_height);
                if (is_made)
                        canvas_add(&p->canvas, row);
        }
        jpeg_finish_decompress(jpeg);
}

void jpeg_read(struct picture *p)
{
        struct jpeg_decompress_struct jpeg = {};
        struct reader r = {.picture = p};

        jpeg.err = jpeg_std_error(&r.errors);
        r.errors.error_exit = fail;
        r.errors.emit_message = note;
        if (!walk(p) || setjmp(r.failed))
                return;
        jpeg_create_decompress(&jpeg);
        jpeg_mem_src(&jpeg, p->bytes, p->n);
        jpeg_read_header(&jpeg, TRUE);
        /* Few programs read the arithmetic coding, and colours of printers are shown wrong by many. */
        if (jpeg.arith_code || (jpeg.num_components != 1 && jpeg.num_components != 3))
                picture_refuse(p, PICTURE_REASON_KIND);
        if (picture_begin(p, jpeg.image_width, jpeg.image_height))
                read_pixels(&jpeg, p);
}
