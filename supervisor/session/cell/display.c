/* Displays and lists of files from a worker. */
#include "supervisor/session/cell/display.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/file-path.h"
#include "supervisor/session/cell/content-block.h"

static bool is_token(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               (c != '\0' && strchr("!#$&^_.+-", c));
}

bool mime_type_valid(const char *text, size_t n)
{
        size_t slashes = 0;

        if (n > CELL_MIME_MAX || n < 3 || text[0] == '/' || text[n - 1] == '/')
                return false;
        for (size_t i = 0; i < n; i++) {
                slashes += text[i] == '/';
                if (text[i] != '/' && !is_token(text[i]))
                        return false;
        }
        return slashes == 1;
}

static size_t bytes_kept(const struct cell_outcome *outcome)
{
        size_t bytes = 0;

        for (size_t i = 0; i < outcome->n_displays; i++)
                bytes += outcome->displays[i].data.length;
        return bytes;
}

/* Keeps the display if it is within the limits. owned: the text in memory that may be taken, or NULL. */
static int keep(struct cell_outcome *outcome, const struct display_view *view, char **owned,
                struct error *err)
{
        size_t n = view->n;

        outcome->displays_total++;
        if (outcome->n_displays == CELL_DISPLAYS_MAX ||
            n > CELL_DISPLAY_BYTES_MAX - bytes_kept(outcome) || !charge_fits(&outcome->kept, n))
                return 0;
        if (!outcome->displays)
                outcome->displays = calloc(CELL_DISPLAYS_MAX, sizeof(*outcome->displays));
        if (!outcome->displays)
                return error_errno(err, ENOMEM, "display");
        struct cell_display *display = &outcome->displays[outcome->n_displays];
        *display = (struct cell_display){.data = BUFFER_INIT(CELL_DISPLAY_BYTES_MAX),
                                         .is_text = view->is_text,
                                         .is_linked = view->is_linked,
                                         .is_block = view->block != NULL};
        if (owned && *owned) {
                display->data.data = take_ptr(*owned);
                display->data.length = display->data.allocated = n;
        } else if (buffer_append(&display->data, view->text, n) < 0) {
                return error_errno(err, ENOMEM, "display");
        }
        snprintf(display->mime_type, sizeof(display->mime_type), "%s", view->mime);
        outcome->n_displays++;
        cell_outcome_charge(outcome);
        return 0;
}

int display_check(yyjson_val *root, struct display_view *ret, struct error *err)
{
        size_t n_mime = 0, n_text = 0, n_data = 0;

        const char *mime = json_string(root, "mime", &n_mime);
        const char *text = json_string(root, "text", &n_text);
        const char *data = json_string(root, "data", &n_data);
        yyjson_val *block = yyjson_obj_get(root, "block");
        if (block) {
                *ret = (struct display_view){.mime = json_string(block, "type", NULL),
                                             .block = block};
                return content_block_check(block, err);
        }
        if (!mime || !mime_type_valid(mime, n_mime))
                return error_set(err, EBADMSG, "DISPLAY without a MIME type");
        if (!text == !data)
                return error_set(err, EBADMSG, "DISPLAY needs one of text and data");
        *ret = (struct display_view){.mime = mime,
                                     .text = text ? text : data,
                                     .n = text ? n_text : n_data,
                                     .is_text = text,
                                     .is_linked = yyjson_is_true(yyjson_obj_get(root, "link"))};
        return 0;
}

int display_check_data(const struct display_view *view, struct error *err)
{
        if (!view->block && !view->is_text && !base64_valid(view->text, view->n, NULL))
                return error_set(err, EBADMSG, "DISPLAY with data that is not base64");
        return 0;
}

/* The block as JSON: the text in memory, else written now. */
static int keep_block(struct cell_outcome *outcome, struct display_view *view, char **checked,
                      struct error *err)
{
        _cleanup_free_ char *written = NULL;

        if (checked && *checked) {
                view->n = strlen(*checked);
                return keep(outcome, view, checked, err);
        }
        int r = json_write(view->block, &written, &view->n);
        return r < 0 ? error_errno(err, -r, "DISPLAY") : keep(outcome, view, &written, err);
}

int cell_take_display(struct cell_outcome *outcome, yyjson_val *root, char **checked,
                      struct error *err)
{
        struct display_view view;

        int r = display_check(root, &view, err);
        if (r >= 0 && !(checked && *checked))
                r = display_check_data(&view, err);
        if (r >= 0 && view.block)
                return keep_block(outcome, &view, checked, err);
        return r < 0 ? r : keep(outcome, &view, checked, err);
}

static int take_file(yyjson_val *item, struct cell_file *file, struct error *err)
{
        size_t n_path = 0, n_mime = 0;
        const char *path = json_string(item, "path", &n_path);
        const char *mime = json_string(item, "mime", &n_mime);
        int64_t size = -1;

        if (!path || !file_path_valid(path, n_path))
                return error_set(err, EBADMSG, "a file with a malformed path");
        if (!mime || !mime_type_valid(mime, n_mime))
                return error_set(err, EBADMSG, "a file with a malformed MIME type");
        if (json_int64(yyjson_obj_get(item, "size"), &size) < 0 || size < 0)
                return error_set(err, EBADMSG, "a file without a size");
        memcpy(file->path, path, n_path + 1);
        memcpy(file->mime_type, mime, n_mime + 1);
        file->size = (uint64_t)size;
        return 0;
}

int file_list_take(yyjson_val *object, size_t most, struct cell_file **files, size_t *n,
                   size_t *total, struct error *err)
{
        yyjson_val *list = yyjson_obj_get(object, "files"), *item;
        _cleanup_free_ struct cell_file *taken = NULL;
        size_t count = yyjson_arr_size(list), i, max;
        int64_t files_total = 0;

        if (list && !yyjson_is_arr(list))
                return error_set(err, EBADMSG, "files that are no list");
        if (count > most)
                return error_set(err, EBADMSG, "%zu files, at most %zu are allowed", count, most);
        taken = count ? calloc(count, sizeof(*taken)) : NULL;
        if (count && !taken)
                return error_errno(err, ENOMEM, "files");
        yyjson_arr_foreach (list, i, max, item) {
                int r = take_file(item, &taken[i], err);
                if (r < 0)
                        return r;
        }
        json_int64(yyjson_obj_get(object, "files_total"), &files_total);
        *files = take_ptr(taken);
        *n = count;
        *total = files_total > (int64_t)count ? (size_t)files_total : count;
        return 0;
}
