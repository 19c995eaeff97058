/*
 * What an image says of itself: image.json beside its root (docs/images.md). Written by rootfs/, read by the monitor
 * from a store that it did not write: everything is checked.
 *
 *     STORE/NAME/image.json
 *     STORE/NAME/root/…
 *
 * {"format": 1, "name", "created", "python": "/usr/bin/python3.11", "version": "3.11.2",
 *  "libpython": "/usr/lib/…/libpython3.11.so.1.0", "source": "…", "bytes": n, "files": n}
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { IMAGE_FORMAT = 1, IMAGE_JSON_MAX = 64 * 1024 };

struct image_info {
        char name[65];       /* [A-Za-z0-9_.-]{1,64} */
        char python[256];    /* absolute paths inside the image */
        char libpython[256];
        char version[16];
        char created[32];    /* RFC 3339 */
        char source[256];    /* the host interpreter it was made from */
        uint64_t bytes, files;
};

int image_info_parse(const char *data, size_t n, struct image_info *ret, struct error *err);
