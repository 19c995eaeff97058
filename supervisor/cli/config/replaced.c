/* The bytes that `cloister setup --replace` has replaced. */
#include "supervisor/cli/config/replaced.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/path.h"
#include "supervisor/cli/config/entry-text.h"

enum { FILE_MAX = 4 * 1024 * 1024 };

static int read_item(yyjson_val *from, struct replaced *to)
{
        yyjson_val *keys = yyjson_obj_get(from, "keys"), *key;
        size_t i, n;

        *to = (struct replaced){.file = json_string(from, "file", NULL),
                                .as = json_string(from, "as", NULL),
                                .command = json_string(from, "command", NULL),
                                .args = json_string(from, "args", NULL),
                                .put_command = json_string(from, "put_command", NULL),
                                .put_args = json_string(from, "put_args", NULL)};
        if (!to->file || !to->as || !to->command || !to->put_command ||
            yyjson_arr_size(keys) > REPLACED_KEYS_MAX || yyjson_arr_size(keys) < 2)
                return -EBADMSG;
        yyjson_arr_foreach (keys, i, n, key) {
                to->keys[i] = yyjson_get_str(key);
                if (!to->keys[i])
                        return -EBADMSG;
        }
        return 0;
}

int replaced_read(struct replaced_list *list, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        yyjson_val *item;
        size_t n = 0, i, count;

        list->n = 0;
        list->doc = NULL;
        int r = path_in_user_directory("XDG_STATE_HOME", ".local/state", "cloister/replaced.json",
                                       list->path, sizeof(list->path));
        if (r < 0)
                return error_set(err, -r, "HOME is not set: there is no place for the old entry");
        _cleanup_close_ int fd = open(list->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return errno == ENOENT ? 0 : error_errno(err, errno, "%s", list->path);
        r = fd_read_whole(fd, FILE_MAX, &text, &n, err);
        if (r >= 0)
                r = json_parse(text, n, &list->doc, err);
        if (r < 0)
                return error_context(err, "%s", list->path);
        yyjson_arr_foreach (yyjson_doc_get_root(list->doc), i, count, item) {
                if (list->n == REPLACED_MAX || read_item(item, &list->items[list->n]) < 0)
                        return error_set(err, EBADMSG, "%s: entry %zu is not valid", list->path,
                                         i + 1);
                list->n++;
        }
        return 0;
}

void replaced_done(struct replaced_list *list)
{
        yyjson_doc_free(list->doc);
}

static bool is_same_place(const struct replaced *a, const struct replaced *b)
{
        if (strcmp(a->file, b->file) != 0)
                return false;
        for (size_t i = 0; i <= REPLACED_KEYS_MAX; i++) {
                if (!a->keys[i] || !b->keys[i])
                        return a->keys[i] == b->keys[i];
                if (strcmp(a->keys[i], b->keys[i]) != 0)
                        return false;
        }
        return true;
}

void replaced_drop(struct replaced_list *list, size_t i)
{
        memmove(&list->items[i], &list->items[i + 1], (--list->n - i) * sizeof(list->items[0]));
}

int replaced_add(struct replaced_list *list, const struct replaced *item, struct error *err)
{
        for (size_t i = 0; i < list->n; i++)
                if (is_same_place(&list->items[i], item))
                        replaced_drop(list, i--);
        if (list->n == REPLACED_MAX)
                return error_set(
                        err, E2BIG,
                        "%s has %d entries: 'cloister setup CLIENT --replace NAME --remove' takes some out",
                        list->path, REPLACED_MAX);
        list->items[list->n++] = *item;
        return 0;
}

static void put(struct json_out *out, const char *key, const char *text)
{
        if (text)
                json_out_text(out, key, text);
}

int replaced_write(const struct replaced_list *list, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(FILE_MAX);
        struct json_out out = {.to = &text, .indent = true};

        json_out_begin(&out, NULL, '[');
        for (size_t i = 0; i < list->n; i++) {
                const struct replaced *item = &list->items[i];
                json_out_begin(&out, NULL, '{');
                put(&out, "file", item->file);
                put(&out, "as", item->as);
                json_out_begin(&out, "keys", '[');
                for (size_t k = 0; item->keys[k]; k++)
                        json_out_text(&out, NULL, item->keys[k]);
                json_out_end(&out, ']');
                put(&out, "command", item->command);
                put(&out, "args", item->args);
                put(&out, "put_command", item->put_command);
                put(&out, "put_args", item->put_args);
                json_out_end(&out, '}');
        }
        json_out_end(&out, ']');
        int r = out.error < 0 ? out.error : buffer_append_text(&text, "\n");
        return r < 0 ? error_errno(err, -r, "%s", list->path)
                     : entry_text_write(list->path, &text, true, err);
}
