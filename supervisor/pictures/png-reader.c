/*
 * PNG.
 *
 * A picture that is to be sent as it is needs no pixels: its chunks, their sums and the length of its unpacked data are checked,
 * with libdeflate, which takes a third of the time. libpng reads one that is too large, or that is not whole: then it is said
 * how many rows are. Programs that show a picture also read chunks that neither of the two reads here, and refuse it for a
 * short or damaged one: is_usable().
 */
#include "supervisor/pictures/png-reader.h"

#include <libdeflate.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "supervisor/pictures/picture.h"

enum {
        SIGNATURE = 8,
        CHUNK = 12,                /* length, type, sum */
        TEXT_MAX = 1024 * 1024,    /* of a compressed text or colour profile, when it is unpacked */
        TEXTS_MAX = 16 * TEXT_MAX, /* of all of them */
        WHOLE_MAX = 48 * 1024 * 1024, /* bytes of pixels that are kept at once */
        HUGE_PAGE = 2 * 1024 * 1024,
        HUGE_LEAST = HUGE_PAGE / 4, /* bytes that are worth one */
};

/* The chunks of a file, as far as walk() has come. */
struct chunks {
        uint8_t depth, colour, interlace;
        uint32_t width, height;
        bool has_colours, has_end, is_odd; /* odd: libpng decides */
        uint8_t *data;                     /* of all IDAT */
        size_t n_data, n_texts;
        struct libdeflate_decompressor *inflate;
};

/* ---- chunks without pixels ---- */

static uint32_t be32(const uint8_t *b)
{
        return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Whether the text is one zlib stream that unpacks to at most TEXT_MAX. */
static bool unpacks(struct chunks *c, const uint8_t *bytes, size_t n)
{
        uint8_t *to = malloc(TEXT_MAX);
        size_t length = 0;

        bool ok = to && libdeflate_zlib_decompress(c->inflate, bytes, n, to, TEXT_MAX, &length) ==
                                LIBDEFLATE_SUCCESS;
        free(to);
        c->n_texts += length;
        return ok && c->n_texts <= TEXTS_MAX;
}

/* keyword, 0, method 0, zlib stream */
static bool is_packed_text(struct chunks *c, const uint8_t *bytes, size_t n)
{
        const uint8_t *end = memchr(bytes, 0, n);

        return end && end > bytes && end + 2 <= bytes + n && end[1] == 0 &&
               unpacks(c, end + 2, n - (size_t)(end + 2 - bytes));
}

/* keyword, 0, whether it is packed, method, language, 0, keyword, 0, text */
static bool is_international_text(struct chunks *c, const uint8_t *bytes, size_t n)
{
        const uint8_t *end = bytes + n, *at = memchr(bytes, 0, n);

        if (!at || at == bytes || end - at < 3 || at[1] > 1 || (at[1] == 1 && at[2] != 0))
                return false;
        bool packed = at[1] == 1;
        at += 3;
        for (int i = 0; i < 2; i++) {
                at = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
                if (!at)
                        return false;
                at++;
        }
        return !packed || unpacks(c, at, (size_t)(end - at));
}

/* Whether programs that read this chunk accept it. */
static bool is_usable(struct chunks *c, const uint8_t *type, const uint8_t *bytes, size_t n)
{
        static const struct {
                char type[5];
                size_t least, most; /* bytes */
        } lengths[] = {
                {"pHYs", 9, 9},   {"gAMA", 4, 4},        {"cHRM", 32, 32}, {"sRGB", 1, 1},
                {"tIME", 7, 7},   {"sBIT", 1, 4},        {"bKGD", 1, 6},   {"acTL", 8, 8},
                {"fcTL", 26, 26}, {"fdAT", 4, SIZE_MAX}, {"tRNS", 1, 256},
        };

        for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
                if (memcmp(type, lengths[i].type, 4) == 0)
                        return n >= lengths[i].least && n <= lengths[i].most;
        if (memcmp(type, "zTXt", 4) == 0 || memcmp(type, "iCCP", 4) == 0)
                return is_packed_text(c, bytes, n);
        if (memcmp(type, "iTXt", 4) == 0)
                return is_international_text(c, bytes, n);
        return true;
}

static void take_header(struct chunks *c, const uint8_t *bytes, size_t n)
{
        if (n != 13) {
                c->is_odd = true;
                return;
        }
        c->width = be32(bytes);
        c->height = be32(bytes + 4);
        c->depth = bytes[8];
        c->colour = bytes[9];
        c->interlace = bytes[12];
        c->is_odd |= bytes[10] != 0 || bytes[11] != 0;
}

/* after: the type of the chunk before it. */
static void take_data(struct chunks *c, const uint8_t *bytes, size_t n, const uint8_t *after)
{
        c->is_odd |= c->n_data > 0 && memcmp(after, "IDAT", 4) != 0;
        memcpy(c->data + c->n_data, bytes, n);
        c->n_data += n;
}

static void take(struct picture *p, struct chunks *c, const uint8_t *type, const uint8_t *bytes,
                 size_t n, const uint8_t *after)
{
        if (memcmp(type, "IHDR", 4) == 0)
                c->is_odd |= after != NULL, take_header(c, bytes, n);
        else if (memcmp(type, "PLTE", 4) == 0)
                c->is_odd |= n == 0 || n > 768 || n % 3 != 0 || c->n_data > 0 || c->has_colours,
                        c->has_colours = true;
        else if (memcmp(type, "IDAT", 4) == 0)
                take_data(c, bytes, n, after);
        else if (memcmp(type, "IEND", 4) == 0)
                c->has_end = true;
        else if (!is_usable(c, type, bytes, n))
                picture_refuse(p, PICTURE_REASON_DAMAGED);
        else
                /* One that every program must read, or of which another one may be valid only at another place. */
                c->is_odd |= !(type[0] & 0x20) || memcmp(type, "tRNS", 4) == 0;
        p->answer.is_animated |= memcmp(type, "acTL", 4) == 0;
}

static void walk(struct picture *p, struct chunks *c)
{
        const uint8_t *after = NULL;
        size_t at = SIGNATURE;

        while (!c->has_end && p->answer.verdict != PICTURE_REFUSED && p->n - at >= CHUNK) {
                const uint8_t *chunk = p->bytes + at;
                size_t length = be32(chunk);
                if (length > p->n - at - CHUNK ||
                    libdeflate_crc32(0, chunk + 4, length + 4) != be32(chunk + 8 + length)) {
                        c->is_odd = true;
                        return;
                }
                take(p, c, chunk + 4, chunk + 8, length, after);
                after = chunk + 4;
                at += CHUNK + length;
        }
        c->is_odd |= !c->has_end || c->n_data == 0;
}

/* ---- a picture that needs no pixels ---- */

/* Bits of a pixel; 0: there is no such form. */
static unsigned bits_of(const struct chunks *c)
{
        static const uint8_t channels[] = {1, 0, 3, 1, 2, 0, 4};
        static const uint32_t depths[] = {/* bits of allowed depths */ 1 << 1 | 1 << 2 | 1 << 4 |
                                                  1 << 8 | 1 << 16,
                                          0,
                                          1 << 8 | 1 << 16,
                                          1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
                                          1 << 8 | 1 << 16,
                                          0,
                                          1 << 8 | 1 << 16};

        if (c->colour > 6 || c->depth > 16 || !(depths[c->colour] & 1U << c->depth))
                return 0;
        return channels[c->colour] * (unsigned)c->depth;
}

/* Checks that each of the rows begins with the number of a filter. */
static bool has_filters(const uint8_t *bytes, size_t row, uint32_t rows)
{
        for (uint32_t y = 0; y < rows; y++)
                if (bytes[y * row] > 4)
                        return false;
        return true;
}

/* Memory for the pixels, of huge pages if the system has them: to get and clear pages of 4 KiB takes longer than to unpack the pixels. */
static uint8_t *allocate_pixels(size_t n)
{
        size_t rounded = (n + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

        if (n < HUGE_LEAST)
                return malloc(n);
        uint8_t *pixels = aligned_alloc(HUGE_PAGE, rounded);
        if (pixels)
                madvise(pixels, rounded, MADV_HUGEPAGE);
        return pixels;
}

/* Whether all chunks are right, without pixels. False is not yet a refusal. */
static bool is_right(struct picture *p, struct chunks *c)
{
        unsigned bits = bits_of(c);
        size_t row = ((size_t)c->width * bits + 7) / 8 + 1, n = row * c->height;

        if (c->is_odd || bits == 0 || c->interlace != 0 || (c->colour == 3 && !c->has_colours) ||
            n > WHOLE_MAX)
                return false;
        uint8_t *to = allocate_pixels(n);
        bool ok = to &&
                  libdeflate_zlib_decompress(c->inflate, c->data, c->n_data, to, n, NULL) ==
                          LIBDEFLATE_SUCCESS &&
                  has_filters(to, row, c->height);
        free(to);
        return ok;
}

/* ---- a picture that is made, or not whole ---- */

struct reader {
        struct picture *picture;
        size_t at;
        jmp_buf failed;
};

static void fail(png_structp png, const char *why)
{
        struct reader *r = png_get_error_ptr(png);

        picture_refuse(r->picture, PICTURE_REASON_DAMAGED);
        longjmp(r->failed, 1);
}

static void supply(png_structp png, png_bytep to, png_size_t n)
{
        struct reader *r = png_get_io_ptr(png);

        if (n > r->picture->n - r->at) {
                picture_refuse(r->picture, PICTURE_REASON_CUT);
                fail(png, NULL);
        }
        memcpy(to, r->picture->bytes + r->at, n);
        r->at += n;
}

static void skip_others(png_structp png)
{
        static const png_byte others[] =
                "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0"
                "sRGB\0sTER\0tEXt\0tIME\0zTXt";

        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, others, sizeof(others) / 5);
}

/* Eight bits a channel, three or four channels. */
static unsigned unify(png_structp png, png_infop info)
{
        bool alpha = png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA ||
                     png_get_valid(png, info, PNG_INFO_tRNS);

        png_set_expand(png);
        png_set_scale_16(png);
        png_set_gray_to_rgb(png);
        return alpha ? CANVAS_ALPHA : CANVAS_OPAQUE;
}

/* Rows of a picture that is to be made. All of an interlaced one are kept until the last pass. */
static void make(struct reader *r, png_structp png, png_infop info, int passes)
{
        struct picture *p = r->picture;
        uint32_t height = p->answer.height;
        size_t n = png_get_rowbytes(png, info), kept = passes > 1 ? height : 1;

        if (n * kept > WHOLE_MAX) {
                picture_refuse(p, PICTURE_REASON_PIXELS);
                return;
        }
        uint8_t *rows = calloc(kept, n);
        if (!rows)
                fail(png, NULL);
        for (int pass = 0; pass < passes; pass++) {
                for (uint32_t y = 0; y < height; y++) {
                        uint8_t *row = rows + (kept > 1 ? y * n : 0);
                        png_read_row(png, row, NULL);
                        if (pass == passes - 1)
                                canvas_add(&p->canvas, row), p->answer.rows = y + 1;
                }
        }
}

static void check(struct reader *r, png_structp png, png_infop info, int passes)
{
        struct picture *p = r->picture;
        uint8_t *row = malloc(png_get_rowbytes(png, info));

        if (!row)
                fail(png, NULL);
        for (int pass = 0; pass < passes; pass++) {
                for (uint32_t y = 0; y < p->answer.height; y++) {
                        png_read_row(png, row, NULL);
                        if (pass == passes - 1)
                                p->answer.rows = y + 1;
                }
        }
}

static void read_pixels(struct reader *r, png_structp png, png_infop info)
{
        struct picture *p = r->picture;

        png_read_info(png, info);
        if (!picture_begin(p, png_get_image_width(png, info), png_get_image_height(png, info)))
                return;
        bool is_made = p->answer.verdict == PICTURE_MADE;
        unsigned channels = is_made ? unify(png, info) : 0;
        int passes = png_set_interlace_handling(png);
        png_read_update_info(png, info);
        if (is_made) {
                if (!canvas_open(&p->canvas, p->answer.width, p->answer.height, p->side, channels))
                        fail(png, NULL);
                make(r, png, info, passes);
        } else {
                check(r, png, info, passes);
        }
        if (p->answer.verdict != PICTURE_REFUSED)
                png_read_end(png, NULL);
}

static void read_all(struct picture *p)
{
        struct reader r = {.picture = p};
        png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, fail, fail);
        png_infop info = png ? png_create_info_struct(png) : NULL;

        if (!info || setjmp(r.failed)) {
                picture_refuse(p, PICTURE_REASON_DAMAGED);
                return;
        }
        png_set_read_fn(png, &r, supply);
        png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
        skip_others(png);
        read_pixels(&r, png, info);
}

void png_read(struct picture *p)
{
        struct chunks c = {.inflate = libdeflate_alloc_decompressor(), .data = malloc(p->n)};

        if (!c.inflate || !c.data) {
                picture_refuse(p, PICTURE_REASON_PIXELS);
                return;
        }
        walk(p, &c);
        if (p->answer.verdict == PICTURE_REFUSED)
                return;
        if (!c.is_odd && !picture_begin(p, c.width, c.height))
                return;
        if (c.is_odd || p->answer.verdict == PICTURE_MADE || !is_right(p, &c))
                read_all(p);
}
