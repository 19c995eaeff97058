/* The messages between the broker and cloister-pictures. */
#include "rpc/picture-messages.h"

const char *picture_mime_type(enum picture_type type)
{
        static const char *const names[PICTURE_TYPE_MAX] = {
                [PICTURE_PNG] = "image/png",
                [PICTURE_JPEG] = "image/jpeg",
                [PICTURE_GIF] = "image/gif",
                [PICTURE_WEBP] = "image/webp",
        };

        return type < PICTURE_TYPE_MAX ? names[type] : NULL;
}

static bool is_within(uint32_t width, uint32_t height, uint32_t side)
{
        return width > 0 && height > 0 && width <= side && height <= side;
}

bool picture_answer_valid(const struct picture_answer *a, const struct picture_request *request)
{
        uint64_t most = (request->bytes + UINT64_C(2)) / 3 * 4;

        if (a->serial != request->serial || a->verdict >= PICTURE_VERDICT_MAX ||
            a->reason >= PICTURE_REASON_MAX || a->type >= PICTURE_TYPE_MAX ||
            a->made >= PICTURE_TYPE_MAX || a->is_animated > 1)
                return false;
        switch (a->verdict) {
        case PICTURE_FINE:
                return a->type != PICTURE_OTHER && !a->is_animated && a->made_length == 0 &&
                       request->length <= most && is_within(a->width, a->height, request->side);
        case PICTURE_MADE:
                return a->type != PICTURE_OTHER && a->made != PICTURE_OTHER && a->made_length > 0 &&
                       a->made_length <= most &&
                       is_within(a->made_width, a->made_height, request->side);
        case PICTURE_REFUSED:
                return a->reason != PICTURE_REASON_NONE && a->made_length == 0;
        default:
                return false;
        }
}
