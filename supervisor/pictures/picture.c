/* One picture. */
#include "supervisor/pictures/picture.h"

#include <stdlib.h>
#include <string.h>

enum picture_type picture_type_of(const uint8_t *b, size_t n)
{
        static const struct {
                enum picture_type type;
                size_t at, n;
                const char *bytes;
        } signatures[] = {
                {PICTURE_PNG, 0, 8, "\x89PNG\r\n\x1a\n"},
                {PICTURE_JPEG, 0, 3, "\xff\xd8\xff"},
                {PICTURE_GIF, 0, 6, "GIF87a"},
                {PICTURE_GIF, 0, 6, "GIF89a"},
                {PICTURE_WEBP, 8, 4, "WEBP"},
        };

        for (size_t i = 0; i < sizeof(signatures) / sizeof(*signatures); i++) {
                size_t at = signatures[i].at;
                if (n >= at + signatures[i].n &&
                    memcmp(b + at, signatures[i].bytes, signatures[i].n) == 0 &&
                    (at == 0 || memcmp(b, "RIFF", 4) == 0))
                        return signatures[i].type;
        }
        return PICTURE_OTHER;
}

void picture_refuse(struct picture *p, enum picture_reason reason)
{
        if (p->answer.verdict == PICTURE_REFUSED)
                return;
        p->answer.verdict = PICTURE_REFUSED;
        p->answer.reason = (uint8_t)reason;
}

bool picture_begin(struct picture *p, uint32_t width, uint32_t height)
{
        p->answer.width = width;
        p->answer.height = height;
        if (width == 0 || height == 0)
                picture_refuse(p, PICTURE_REASON_SIDE);
        else if ((uint64_t)width * height > PICTURE_PIXELS_MAX)
                picture_refuse(p, PICTURE_REASON_PIXELS);
        else if (width > p->side || height > p->side || p->answer.is_animated)
                p->answer.verdict = PICTURE_MADE;
        else
                p->answer.verdict = PICTURE_FINE;
        return p->answer.verdict != PICTURE_REFUSED;
}
