/* MIME types -> extensions. */
#include "base/mime.h"

#include <string.h>

#include "base/cleanup.h"

const char *mime_extension(const char *mime)
{
        static const char *const known[][2] = {
                {"image/png", "png"},       {"image/jpeg", "jpg"},    {"image/gif", "gif"},
                {"image/webp", "webp"},     {"image/svg+xml", "svg"}, {"audio/wav", "wav"},
                {"audio/mpeg", "mp3"},      {"audio/ogg", "ogg"},     {"application/json", "json"},
                {"application/pdf", "pdf"}, {"text/html", "html"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
                if (strcmp(known[i][0], mime) == 0)
                        return known[i][1];
        }
        size_t n = strlen(mime);
        return n > 5 && strcmp(mime + n - 5, "+json") == 0 ? "json" : "bin";
}
