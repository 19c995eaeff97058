/* Checks untrusted relative paths. */
#include "base/file-path.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

static bool component_valid(const char *name, size_t n)
{
        return n > 0 && !(n == 1 && name[0] == '.') && !(n == 2 && memcmp(name, "..", 2) == 0);
}

bool file_path_hidden(const char *path, size_t n)
{
        for (size_t at = 0; at < n; at++) {
                if (path[at] == '.' && (at == 0 || path[at - 1] == '/'))
                        return true;
        }
        return false;
}

/* Line separators, and what makes "fdp.exe" look like "exe.pdf". */
static bool is_forbidden(uint32_t c)
{
        return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
               (c >= 0x2066 && c <= 0x2069);
}

bool file_path_valid(const char *path, size_t n)
{
        size_t begin = 0;

        if (n == 0 || n > FILE_PATH_MAX)
                return false;
        for (size_t at = 0; at < n;) {
                int length = utf8_next((const unsigned char *)path + at, n - at);
                if (length <= 0)
                        return false;
                uint32_t c = utf8_decode((const unsigned char *)path + at, length);
                if (is_forbidden(c))
                        return false;
                if (c == '/') {
                        if (!component_valid(path + begin, at - begin))
                                return false;
                        begin = at + 1;
                }
                at += (size_t)length;
        }
        return component_valid(path + begin, n - begin);
}

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
