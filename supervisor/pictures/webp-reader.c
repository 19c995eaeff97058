/* WebP. */
#include "supervisor/pictures/webp-reader.h"

#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "supervisor/pictures/picture.h"

enum { PIXELS_MAX = 16 * 1000 * 1000 }; /* that are kept at once, four bytes each */

/* Puts the frame on a canvas of the size of the picture. */
static void make(struct picture *p, const WebPIterator *frame, const uint8_t *pixels)
{
        uint32_t width = p->answer.width;
        uint8_t *row = malloc((size_t)width * CANVAS_ALPHA);

        if (!row || !canvas_open(&p->canvas, width, p->answer.height, p->side, CANVAS_ALPHA)) {
                picture_refuse(p, PICTURE_REASON_PIXELS);
                return;
        }
        for (int y = 0; y < (int)p->answer.height; y++) {
                memset(row, 0, (size_t)width * CANVAS_ALPHA);
                if (y >= frame->y_offset && y < frame->y_offset + frame->height)
                        memcpy(row + (size_t)frame->x_offset * CANVAS_ALPHA,
                               pixels + (size_t)(y - frame->y_offset) * (size_t)frame->width *
                                                CANVAS_ALPHA,
                               (size_t)frame->width * CANVAS_ALPHA);
                canvas_add(&p->canvas, row);
        }
}

static void read_frame(struct picture *p, const WebPIterator *frame)
{
        WebPDecoderConfig config;
        size_t n = (size_t)frame->width * (size_t)frame->height * CANVAS_ALPHA;
        uint8_t *pixels = malloc(n);

        if (!pixels || !WebPInitDecoderConfig(&config)) {
                picture_refuse(p, PICTURE_REASON_PIXELS);
                return;
        }
        config.output.colorspace = MODE_RGBA;
        config.output.is_external_memory = 1;
        config.output.u.RGBA = (WebPRGBABuffer){
                .rgba = pixels, .stride = frame->width * CANVAS_ALPHA, .size = n};
        VP8StatusCode code = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
        if (code != VP8_STATUS_OK || config.input.width != frame->width ||
            config.input.height != frame->height) {
                picture_refuse(p, code == VP8_STATUS_NOT_ENOUGH_DATA ? PICTURE_REASON_CUT
                                                                     : PICTURE_REASON_DAMAGED);
                return;
        }
        p->answer.rows = p->answer.height;
        if (p->answer.verdict == PICTURE_MADE)
                make(p, frame, pixels);
}

void webp_read(struct picture *p)
{
        const WebPData data = {p->bytes, p->n};
        WebPDemuxState state;
        WebPDemuxer *demuxer = WebPDemuxPartial(&data, &state);
        WebPIterator frame;

        if (!demuxer || state == WEBP_DEMUX_PARSE_ERROR) {
                picture_refuse(p, PICTURE_REASON_DAMAGED);
                return;
        }
        uint32_t width = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH),
                 height = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
        p->answer.width = width;
        p->answer.height = height;
        if (state != WEBP_DEMUX_DONE) {
                picture_refuse(p, PICTURE_REASON_CUT);
                return;
        }
        p->answer.is_animated = (WebPDemuxGetI(demuxer, WEBP_FF_FORMAT_FLAGS) & ANIMATION_FLAG) !=
                                0;
        if (!picture_begin(p, width, height))
                return;
        if (!WebPDemuxGetFrame(demuxer, 1, &frame) || !frame.complete)
                picture_refuse(p, PICTURE_REASON_DAMAGED);
        else if ((uint64_t)width * height > PIXELS_MAX)
                picture_refuse(p, PICTURE_REASON_PIXELS);
        else
                read_frame(p, &frame);
}
