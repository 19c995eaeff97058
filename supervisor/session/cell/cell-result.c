/* Reads RESULT and DISPLAY: content blocks, displays, lists of files, and how a cell ended. */
#include "supervisor/session/cell/cell-result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/file-path.h"
#include "supervisor/session/cell/result-images.h"

/* ---- content blocks ---- */

enum { MEMBERS_MAX = 16 };

static bool has_text(yyjson_val *object, const char *key)
{
        return yyjson_is_str(yyjson_obj_get(object, key));
}

static bool has_base64(yyjson_val *object, const char *key)
{
        size_t n = 0;
        const char *text = json_string(object, key, &n);

        return text && base64_valid(text, n, NULL);
}

static bool is_absent_or(yyjson_val *value, bool (*is)(yyjson_val *value))
{
        return !value || is(value);
}

int content_resource_check(yyjson_val *resource, bool needs_uri, struct error *err)
{
        if (!yyjson_is_obj(resource) || yyjson_obj_size(resource) > MEMBERS_MAX)
                return error_set(err, EBADMSG, "a resource is an object");
        if (!is_absent_or(yyjson_obj_get(resource, "uri"), yyjson_is_str) ||
            (needs_uri && !yyjson_obj_get(resource, "uri")))
                return error_set(err, EBADMSG, "a resource needs a uri");
        if (!is_absent_or(yyjson_obj_get(resource, "mimeType"), yyjson_is_str))
                return error_set(err, EBADMSG, "a resource's mimeType is a text");
        if (!is_absent_or(yyjson_obj_get(resource, "_meta"), yyjson_is_obj))
                return error_set(err, EBADMSG, "a resource's _meta is an object");
        if (has_text(resource, "text") == has_base64(resource, "blob"))
                return error_set(err, EBADMSG, "a resource needs one of text and blob (base64)");
        return 0;
}

static bool is_link(yyjson_val *block)
{
        return has_text(block, "uri") && has_text(block, "name") &&
               is_absent_or(yyjson_obj_get(block, "mimeType"), yyjson_is_str) &&
               is_absent_or(yyjson_obj_get(block, "title"), yyjson_is_str) &&
               is_absent_or(yyjson_obj_get(block, "description"), yyjson_is_str);
}

int content_block_check(yyjson_val *block, struct error *err)
{
        const char *type = json_string(block, "type", NULL);
        bool good = false;

        if (!yyjson_is_obj(block) || yyjson_obj_size(block) > MEMBERS_MAX || !type)
                return error_set(err, EBADMSG, "a content block is an object with a type");
        if (!is_absent_or(yyjson_obj_get(block, "annotations"), yyjson_is_obj) ||
            !is_absent_or(yyjson_obj_get(block, "_meta"), yyjson_is_obj))
                return error_set(err, EBADMSG,
                                 "annotations and _meta of a content block are objects");
        /* Of two members with one name we read the first, and the client perhaps the last. */
        if (json_check_names(block, NULL, err) < 0)
                return -EBADMSG;
        if (strcmp(type, "text") == 0)
                good = has_text(block, "text");
        else if (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0)
                good = has_base64(block, "data") && has_text(block, "mimeType");
        else if (strcmp(type, "resource_link") == 0)
                good = is_link(block);
        else if (strcmp(type, "resource") == 0)
                return content_resource_check(yyjson_obj_get(block, "resource"), true, err);
        return good ? 0
                    : error_set(err, EBADMSG,
                                "a content block of a type that is unknown or lacks its members");
}

/* ---- displays ---- */

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

/* The place of the display with this id, whose content is dropped; n_displays if none has it. */
static size_t make_place(struct cell_outcome *outcome, uint64_t id)
{
        size_t i = 0;

        while (i < outcome->n_displays && (id == 0 || outcome->displays[i].id != id))
                i++;
        if (i == outcome->n_displays)
                return i;
        buffer_done(&outcome->displays[i].data);
        cell_picture_done(&outcome->displays[i].picture);
        outcome->n_displays--;
        outcome->displays_total--;
        memmove(&outcome->displays[i], &outcome->displays[i + 1],
                (outcome->n_displays - i) * sizeof(*outcome->displays));
        cell_outcome_charge(outcome);
        return i;
}

/* Keeps the display if it is within the limits, and takes its content then. */
static int keep(struct cell_outcome *outcome, const struct display_view *view, char **content,
                struct error *err)
{
        size_t n = view->n, n_data = 0, place = make_place(outcome, view->id);

        outcome->displays_total++;
        if (outcome->n_displays == CELL_DISPLAYS_MAX ||
            n > CELL_DISPLAY_BYTES_MAX - bytes_kept(outcome) || !charge_fits(&outcome->kept, n))
                return 0;
        if (!outcome->displays)
                outcome->displays = calloc(CELL_DISPLAYS_MAX, sizeof(*outcome->displays));
        if (!outcome->displays)
                return error_errno(err, ENOMEM, "display");
        struct cell_display *display = &outcome->displays[place];
        memmove(display + 1, display, (outcome->n_displays++ - place) * sizeof(*display));
        *display = (struct cell_display){.data = BUFFER_INIT(CELL_DISPLAY_BYTES_MAX),
                                         .id = view->id,
                                         .is_text = view->is_text,
                                         .is_linked = view->is_linked,
                                         .is_block = view->block != NULL};
        display->is_picture = view->block ? cell_picture_of_block(view->block, &n_data) != NULL
                                          : !view->is_text && !view->is_linked &&
                                                    cell_picture_is(view->mime, *content, n);
        display->data.data = take_ptr(*content);
        display->data.length = display->data.allocated = n;
        snprintf(display->mime_type, sizeof(display->mime_type), "%s", view->mime);
        cell_outcome_charge(outcome);
        return 0;
}

int display_check(yyjson_val *root, struct display_view *ret, struct error *err)
{
        size_t n_mime = 0, n_text = 0, n_data = 0;
        int64_t id = 0;

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
        if (yyjson_obj_get(root, "id") &&
            (json_int64(yyjson_obj_get(root, "id"), &id) < 0 || id < 1))
                return error_set(err, EBADMSG, "DISPLAY with an id that is not a positive integer");
        *ret = (struct display_view){.mime = mime,
                                     .text = text ? text : data,
                                     .n = text ? n_text : n_data,
                                     .id = (uint64_t)id,
                                     .is_text = text,
                                     .is_linked = yyjson_is_true(yyjson_obj_get(root, "link"))};
        return 0;
}

int display_copy(struct display_view *view, char **ret, struct error *err)
{
        if (view->block) {
                int r = json_write(view->block, ret, &view->n);
                return r < 0 ? error_errno(err, -r, "DISPLAY") : 0;
        }
        if (!view->is_text && !base64_valid(view->text, view->n, NULL))
                return error_set(err, EBADMSG, "DISPLAY with data that is not base64");
        *ret = malloc(view->n + 1);
        if (*ret)
                memcpy(*ret, view->text, view->n);
        return *ret ? 0 : error_errno(err, ENOMEM, "DISPLAY");
}

int cell_take_display(struct cell_outcome *outcome, yyjson_val *root, char **checked,
                      struct error *err)
{
        _cleanup_free_ char *copy = NULL;
        struct display_view view;

        int r = display_check(root, &view, err);
        if (r < 0)
                return r;
        if (!checked || !*checked) {
                checked = &copy;
                r = display_copy(&view, &copy, err);
        } else if (view.block) {
                view.n = strlen(*checked);
        }
        return r < 0 ? r : keep(outcome, &view, checked, err);
}

/* ---- files ---- */

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

/* ---- RESULT ---- */

/* exit_code is cut to 0 to 255, as the kernel does it; sys.exit(0) counts as ok. */
static int take_exit(struct cell_outcome *outcome, yyjson_val *root, struct error *err)
{
        int64_t code = 0;

        if (json_int64(yyjson_obj_get(root, "exit_code"), &code) < 0)
                return error_set(err, EBADMSG, "RESULT with status exit and no exit_code");
        outcome->exit_code = (int)(code & 0xff);
        outcome->has_exit_code = outcome->exit_code != 0;
        outcome->status = outcome->exit_code == 0 ? CELL_OK : CELL_EXIT;
        return 0;
}

static int take_status(struct cell_outcome *outcome, yyjson_val *root, struct error *err)
{
        const char *status = json_string(root, "status", NULL);

        if (!status)
                return error_set(err, EBADMSG, "RESULT without a status");
        if (strcmp(status, "exit") == 0)
                return take_exit(outcome, root, err);
        outcome->interrupted = strcmp(status, "interrupted") == 0;
        if (strcmp(status, "ok") == 0)
                outcome->status = CELL_OK;
        else if (strcmp(status, "error") == 0 || strcmp(status, "interrupted") == 0)
                outcome->status = CELL_ERROR;
        else
                return error_set(err, EBADMSG, "RESULT with the unknown status \"%.40s\"", status);
        return 0;
}

int cell_take_result(struct cell *cell, yyjson_doc **doc, struct error *err)
{
        struct cell_outcome *outcome = &cell->outcome;
        yyjson_val *root = yyjson_doc_get_root(*doc);

        if (!yyjson_is_obj(root))
                return error_set(err, EBADMSG, "RESULT is not an object");
        yyjson_val *value = yyjson_obj_get(root, "value"), *error = yyjson_obj_get(root, "error");
        if (value && !yyjson_is_null(value) && !has_text(value, "repr"))
                return error_set(err, EBADMSG, "RESULT with a malformed value");
        if (error && !yyjson_is_null(error) &&
            !(has_text(error, "type") && has_text(error, "message") &&
              has_text(error, "traceback")))
                return error_set(err, EBADMSG, "RESULT with a malformed error");
        if (file_list_take(root, CELL_FILES_MAX, &outcome->files, &outcome->n_files,
                           &outcome->files_total, err) < 0)
                return error_context(err, "RESULT");
        int r = take_status(outcome, root, err);
        if (r < 0)
                return r;
        outcome->value = yyjson_is_obj(value) ? value : NULL;
        outcome->error = yyjson_is_obj(error) ? error : NULL;
        if (cell_is_published(cell)) {
                yyjson_val *output = yyjson_obj_get(root, "output");
                yyjson_val *requests = yyjson_obj_get(root, "requests");
                outcome->output = yyjson_is_obj(output) ? output : NULL;
                outcome->requests = yyjson_is_obj(requests) ? requests : NULL;
                r = result_images_take(outcome);
                if (r < 0)
                        return error_errno(err, -r, "RESULT");
        }
        outcome->result = take_ptr(*doc);
        cell_outcome_charge(outcome);
        return 0;
}
