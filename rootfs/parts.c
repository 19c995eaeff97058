/* The files of the host that an image contains. */
#include "rootfs/parts.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "rootfs/store.h"

int parts_look(const char *path, struct image_stamp *ret)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return -errno;
        *ret = (struct image_stamp){
                .inode = st.st_ino,
                .size = (uint64_t)st.st_size,
                .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
        };
        return 0;
}

int parts_default_name(int store, const char *python, char ret[IMAGE_NAME_SIZE], struct error *err)
{
        char key[IMAGE_KEY_SIZE];

        image_parts_key(python, key);
        _cleanup_free_ char *parts = store_read_note(store, "parts", key);
        return image_default_name(python, parts, parts_look, ret, err);
}

bool parts_known(int store, const char *python)
{
        char key[IMAGE_KEY_SIZE];

        image_parts_key(python, key);
        _cleanup_free_ char *parts = store_read_note(store, "parts", key);
        return parts;
}

/* Programs and libraries: they can be upgraded while Python stays the same. */
static bool is_part(const struct plan_entry *entry)
{
        const char *file = strrchr(entry->path, '/');

        return entry->kind == PLAN_FILE && !strchr(entry->path, '\n') &&
               (entry->linked || strstr(file, ".so"));
}

int parts_write(int store, const char *python, const struct plan *plan, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(IMAGE_PARTS_MAX - 1);
        char key[IMAGE_KEY_SIZE];

        /* The rest is not recorded. */
        for (size_t i = 0; i < plan->n; i++)
                if (is_part(&plan->entries[i]) &&
                    buffer_printf(&text, "%s\n", plan->entries[i].path) < 0)
                        break;
        if (buffer_append(&text, "", 1) < 0)
                return error_errno(err, ENOMEM, "parts of the image");
        image_parts_key(python, key);
        return store_write_note(store, "parts", key, buffer_bytes(&text), err);
}
