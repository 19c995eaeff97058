/* GIF. */
#include "supervisor/pictures/gif-reader.h"

#include <gif_lib.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/pictures/picture.h"

enum { NO_COLOUR = -1, CODE_BITS_MAX = 12, CODES_MAX = 1 << CODE_BITS_MAX };

struct reader {
        struct picture *picture;
        size_t at;
        bool is_over; /* more bytes were read than there are */
        int transparent;
        uint8_t *frame; /* numbers of colours, of the first frame */
        GifImageDesc place;
        GifColorType colours[256];
        int n_colours;
};

static int supply(GifFileType *gif, GifByteType *to, int n)
{
        struct reader *r = gif->UserData;
        size_t left = r->picture->n - r->at, take = (size_t)n < left ? (size_t)n : left;

        r->is_over |= take < (size_t)n;
        memcpy(to, r->picture->bytes + r->at, take);
        r->at += take;
        return (int)take;
}

static void refuse(struct reader *r)
{
        picture_refuse(r->picture, r->is_over ? PICTURE_REASON_CUT : PICTURE_REASON_DAMAGED);
}

/* Where row n of the file stands in the picture. */
static int interlaced(int n, int height)
{
        static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};

        for (int pass = 0; pass < 4; pass++) {
                int rows = height > first[pass]
                                   ? (height - first[pass] + step[pass] - 1) / step[pass]
                                   : 0;
                if (n < rows)
                        return first[pass] + n * step[pass];
                n -= rows;
        }
        return 0;
}

/* ---- codes: giflib takes one that does not exist yet for some other ---- */

struct codes {
        const uint8_t *at, *end; /* of the sub-blocks */
        unsigned block;          /* bytes of the current one that are left */
        uint32_t bits;
        unsigned n_bits;
};

/* Returns -1 at the end of the data. */
static int next_code(struct codes *c, unsigned size)
{
        while (c->n_bits < size) {
                if (c->block == 0) {
                        if (c->at == c->end || *c->at == 0)
                                return -1;
                        c->block = *c->at++;
                }
                if (c->at == c->end)
                        return -1;
                c->block--;
                c->bits |= (uint32_t)*c->at++ << c->n_bits;
                c->n_bits += 8;
        }
        int code = (int)(c->bits & ((1U << size) - 1));
        c->bits >>= size;
        c->n_bits -= size;
        return code;
}

/* at: of the smallest size of a code, before the first sub-block. */
static bool has_known_codes(const struct picture *p, size_t at)
{
        unsigned least = p->bytes[at], size = least + 1;
        int clear = 1 << least, next = clear + 2, last = -1, code;
        struct codes c = {.at = p->bytes + at + 1, .end = p->bytes + p->n};

        while ((code = next_code(&c, size)) >= 0 && code != clear + 1) {
                if (code == clear) {
                        size = least + 1;
                        next = clear + 2;
                        last = -1;
                        continue;
                }
                if (last < 0 ? code > clear : code > next)
                        return false;
                if (last >= 0 && next < CODES_MAX && ++next == 1 << size && size < CODE_BITS_MAX)
                        size++;
                last = code;
        }
        return true;
}

/* ---- frames ---- */

static bool read_frame(struct reader *r, GifFileType *gif)
{
        const GifImageDesc *place = &gif->Image;

        r->place = *place;
        if (r->at == 0 || r->picture->bytes[r->at - 1] > 8 ||
            !has_known_codes(r->picture, r->at - 1))
                return false;
        if (place->Width <= 0 || place->Height <= 0 || place->Left + place->Width > gif->SWidth ||
            place->Top + place->Height > gif->SHeight)
                return false;
        const ColorMapObject *colours = place->ColorMap ? place->ColorMap : gif->SColorMap;
        if (!colours)
                return false;
        r->n_colours = colours->ColorCount < 256 ? colours->ColorCount : 256;
        memcpy(r->colours, colours->Colors, (size_t)r->n_colours * sizeof(*r->colours));
        r->frame = malloc((size_t)place->Width * (size_t)place->Height);
        if (!r->frame)
                return false;
        for (int i = 0; i < place->Height; i++) {
                int y = place->Interlace ? interlaced(i, place->Height) : i;
                if (DGifGetLine(gif, r->frame + (size_t)y * (size_t)place->Width, place->Width) ==
                    GIF_ERROR)
                        return false;
                r->picture->answer.rows = (uint32_t)i + 1;
        }
        return true;
}

/* How often the frames are shown: some readers take it for an animation, also with one frame. */
static bool is_loop(int code, const GifByteType *block)
{
        return code == APPLICATION_EXT_FUNC_CODE && block && block[0] == 11 &&
               (memcmp(block + 1, "NETSCAPE2.0", 11) == 0 ||
                memcmp(block + 1, "ANIMEXTS1.0", 11) == 0);
}

static bool read_extension(struct reader *r, GifFileType *gif)
{
        GifByteType *block;
        int code;

        if (DGifGetExtension(gif, &code, &block) == GIF_ERROR)
                return false;
        r->picture->answer.is_animated |= is_loop(code, block);
        while (block) {
                if (code == GRAPHICS_EXT_FUNC_CODE && block[0] >= 4 && !r->frame)
                        r->transparent = block[1] & 1 ? block[4] : NO_COLOUR;
                if (DGifGetExtensionNext(gif, &block) == GIF_ERROR)
                        return false;
        }
        return true;
}

/* Reads the first frame, and up to the second one or the end. */
static bool read_records(struct reader *r, GifFileType *gif)
{
        GifRecordType type;

        for (;;) {
                if (DGifGetRecordType(gif, &type) == GIF_ERROR)
                        return false;
                if (type == TERMINATE_RECORD_TYPE)
                        return r->frame;
                if (type == IMAGE_DESC_RECORD_TYPE && r->frame) {
                        r->picture->answer.is_animated = 1;
                        return true;
                }
                bool ok = type == IMAGE_DESC_RECORD_TYPE
                                  ? DGifGetImageDesc(gif) != GIF_ERROR && read_frame(r, gif)
                                  : type == EXTENSION_RECORD_TYPE && read_extension(r, gif);
                if (!ok)
                        return false;
        }
}

static void make(struct reader *r)
{
        struct picture *p = r->picture;
        uint32_t width = p->answer.width;
        uint8_t *row = malloc((size_t)width * CANVAS_ALPHA);

        if (!row || !canvas_open(&p->canvas, width, p->answer.height, p->side, CANVAS_ALPHA)) {
                picture_refuse(p, PICTURE_REASON_PIXELS);
                return;
        }
        for (int y = 0; y < (int)p->answer.height; y++) {
                memset(row, 0, (size_t)width * CANVAS_ALPHA);
                bool is_in = y >= r->place.Top && y < r->place.Top + r->place.Height;
                for (int x = 0; is_in && x < r->place.Width; x++) {
                        int colour = r->frame[(size_t)(y - r->place.Top) * (size_t)r->place.Width +
                                              (size_t)x];
                        uint8_t *to = row + (size_t)(r->place.Left + x) * CANVAS_ALPHA;
                        if (colour >= r->n_colours || colour == r->transparent)
                                continue;
                        memcpy(to, &r->colours[colour], 3);
                        to[3] = 0xff;
                }
                canvas_add(&p->canvas, row);
        }
}

void gif_read(struct picture *p)
{
        struct reader r = {.picture = p, .transparent = NO_COLOUR};
        int code = 0;
        GifFileType *gif = DGifOpen(&r, supply, &code);

        if (!gif) {
                refuse(&r);
                return;
        }
        if (!picture_begin(p, (uint32_t)gif->SWidth, (uint32_t)gif->SHeight))
                return;
        if (!read_records(&r, gif))
                refuse(&r);
        else if (p->answer.is_animated)
                p->answer.verdict = PICTURE_MADE;
        if (p->answer.verdict == PICTURE_MADE)
                make(&r);
}
