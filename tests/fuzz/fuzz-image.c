/* image.json: what is accepted can be written again with the same content, and its paths stay below the
 * image's root. */
#include "policy/image.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

static void check_path(const char *path)
{
        assert(path[0] == '/' && path[1] != '\0');
        assert(!strstr(path, "//") && !strstr(path, "/../") && !strstr(path, "/./"));
        assert(strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/..") != 0);
}

static void check_again(const struct image_info *info)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(2 * IMAGE_JSON_MAX);
        struct image_info again = {};

        assert(image_info_append(&b, info) == 0);
        assert(image_info_parse(buffer_bytes(&b), b.length, &again, NULL) == 0);
        assert(strcmp(info->name, again.name) == 0 && strcmp(info->python, again.python) == 0);
        assert(strcmp(info->libpython, again.libpython) == 0);
        assert(strcmp(info->version, again.version) == 0 &&
               strcmp(info->source, again.source) == 0);
        assert(info->bytes == again.bytes && info->files == again.files);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct image_info info = {};
        struct error err = {};

        if (image_info_parse((const char *)data, n, &info, &err) < 0) {
                assert(error_is_set(&err) && info.name[0] == '\0');
                return false;
        }
        assert(image_name_valid(info.name));
        check_path(info.python);
        if (info.link == TEMPLATE_LINK_EMBED)
                check_path(info.libpython);
        else
                assert(info.libpython[0] == 0);
        check_again(&info);
        return true;
}

FUZZ_TARGET
