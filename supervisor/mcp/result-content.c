/* Displays and files -> content blocks, a line of text, members of structuredContent. */
#include "supervisor/mcp/result-content.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/mcp/resource-uri.h"
#include "supervisor/session/output.h"

enum {
        FILES_TOLD = 20, /* in the text; structuredContent has CELL_FILES_MAX */
        URI_MAX = 4096,
        TEXT_MAX = 64 * 1024 * 1024,
};

int result_content_file_uri(const char *session, const char *path, struct buffer *to)
{
        struct resource_uri uri = {.kind = RESOURCE_FILE};

        snprintf(uri.session, sizeof(uri.session), "%s", session);
        snprintf(uri.path, sizeof(uri.path), "%s", path);
        return resource_uri_append(&uri, to);
}

static bool is_kind(const char *mime, const char *kind)
{
        return strncmp(mime, kind, strlen(kind)) == 0;
}

static bool is_picture(const char *mime)
{
        static const char *const pictures[] = {"image/png", "image/jpeg", "image/gif",
                                               "image/webp"};

        for (size_t i = 0; i < ARRAY_SIZE(pictures); i++) {
                if (strcmp(mime, pictures[i]) == 0)
                        return true;
        }
        return false;
}

static size_t bytes_of(const struct cell_display *display)
{
        size_t n = display->data.length;
        const char *text = buffer_bytes(&display->data);

        if (display->is_text || n < 4)
                return n;
        return n / 4 * 3 - (text[n - 1] == '=') - (text[n - 2] == '=');
}

static bool is_too_large(const struct cell_display *display)
{
        return !display->is_text && display->data.length > CONTENT_IMAGE_MAX;
}

/* 1234567 bytes as "1.2 MiB". */
static int append_size(struct buffer *to, uint64_t bytes)
{
        if (bytes < 10 * 1024)
                return buffer_printf(to, "%llu bytes", (unsigned long long)bytes);
        if (bytes < 10 * 1024 * 1024)
                return buffer_printf(to, "%llu KiB", (unsigned long long)(bytes / 1024));
        return buffer_printf(to, "%llu MiB", (unsigned long long)(bytes >> 20));
}

static int append_displays(const struct cell_outcome *o, struct buffer *to)
{
        size_t lost = o->displays_total - o->n_displays;
        int r = buffer_printf(to, "displayed:");

        for (size_t i = 0; i < o->n_displays && r >= 0; i++) {
                const struct cell_display *d = &o->displays[i];
                r = buffer_printf(to, "%s %s (", i > 0 ? "," : "", d->mime_type);
                if (r >= 0)
                        r = append_size(to, bytes_of(d));
                if (r >= 0)
                        r = buffer_printf(to, is_too_large(d) ? ": too large to show)" : ")");
        }
        if (r >= 0 && lost > 0)
                r = buffer_printf(to, "%s %zu more, which were not kept (%d of one call, %d MiB)",
                                  o->n_displays > 0 ? " and" : "", lost, CELL_DISPLAYS_MAX,
                                  CELL_DISPLAY_BYTES_MAX >> 20);
        return r;
}

static int append_files(const struct cell_outcome *o, struct buffer *to)
{
        size_t told = o->n_files < FILES_TOLD ? o->n_files : FILES_TOLD;
        int r = buffer_printf(to, "%sfiles in /workspace/out:", to->length > 0 ? "\n" : "");

        for (size_t i = 0; i < told && r >= 0; i++) {
                r = buffer_printf(to, "%s %s (", i > 0 ? "," : "", o->files[i].path);
                if (r >= 0)
                        r = append_size(to, o->files[i].size);
                if (r >= 0)
                        r = buffer_append(to, ")", 1);
        }
        if (r >= 0 && o->files_total > told)
                r = buffer_printf(to, "%s %zu more", told > 0 ? " and" : "", o->files_total - told);
        return r;
}

int result_content_text(const struct cell_outcome *o, struct buffer *to)
{
        int r = 0;

        if (o->displays_total > 0)
                r = append_displays(o, to);
        if (r >= 0 && o->files_total > 0)
                r = append_files(o, to);
        return r;
}

/* The text of a display, cut as output is. */
static yyjson_mut_val *text_of(yyjson_mut_doc *doc, const struct cell_display *d, size_t most)
{
        _cleanup_buffer_ struct buffer cut_text = BUFFER_INIT(TEXT_MAX);
        bool cut;

        if (d->data.length == 0)
                return yyjson_mut_str(doc, "");
        if (output_cut(buffer_bytes(&d->data), d->data.length, most, &cut_text, &cut) < 0 ||
            cut_text.length == 0)
                return NULL;
        return yyjson_mut_strncpy(doc, buffer_bytes(&cut_text), cut_text.length);
}

static int add_displays(yyjson_mut_doc *doc, yyjson_mut_val *to, const struct cell_outcome *o,
                        size_t most)
{
        yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, to, "displays");

        for (size_t i = 0; i < o->n_displays; i++) {
                const struct cell_display *d = &o->displays[i];
                yyjson_mut_val *item = yyjson_mut_arr_add_obj(doc, list);
                yyjson_mut_obj_add_str(doc, item, "mime_type", d->mime_type);
                yyjson_mut_obj_add_uint(doc, item, "bytes", bytes_of(d));
                yyjson_mut_val *text = d->is_text ? text_of(doc, d, most / o->n_displays) : NULL;
                if (d->is_text && !text)
                        return -ENOMEM;
                if (text)
                        yyjson_mut_obj_add_val(doc, item, "text", text);
        }
        if (o->displays_total > o->n_displays)
                yyjson_mut_obj_add_uint(doc, to, "displays_total", o->displays_total);
        return 0;
}

static void add_files(yyjson_mut_doc *doc, yyjson_mut_val *to, const struct cell_outcome *o)
{
        yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, to, "files");

        for (size_t i = 0; i < o->n_files; i++) {
                yyjson_mut_val *item = yyjson_mut_arr_add_obj(doc, list);
                yyjson_mut_obj_add_str(doc, item, "path", o->files[i].path);
                yyjson_mut_obj_add_uint(doc, item, "size", o->files[i].size);
                yyjson_mut_obj_add_str(doc, item, "mime_type", o->files[i].mime_type);
        }
        if (o->files_total > o->n_files)
                yyjson_mut_obj_add_uint(doc, to, "files_total", o->files_total);
}

int result_content_structured(yyjson_mut_doc *doc, yyjson_mut_val *structured,
                              const struct cell_outcome *o, size_t most)
{
        if (o->files_total > 0)
                add_files(doc, structured, o);
        return o->displays_total > 0 ? add_displays(doc, structured, o, most) : 0;
}

static yyjson_mut_val *add_block(yyjson_mut_doc *doc, yyjson_mut_val *content, const char *type)
{
        yyjson_mut_val *block = yyjson_mut_arr_add_obj(doc, content);

        yyjson_mut_obj_add_str(doc, block, "type", type);
        return block;
}

/* The base64 of a display stays where it is: the outcome outlives the document. */
static void add_data(yyjson_mut_doc *doc, yyjson_mut_val *block, const char *key,
                     const struct cell_display *d)
{
        yyjson_mut_obj_add_val(
                doc, block, key,
                yyjson_mut_strn(doc, d->data.length ? buffer_bytes(&d->data) : "", d->data.length));
}

static int append_resource(yyjson_mut_doc *doc, yyjson_mut_val *content,
                           const struct cell_display *d, size_t index, const char *session,
                           size_t most)
{
        char uri[URI_MAX];

        snprintf(uri, sizeof(uri), "cloister://sessions/%s/displays/%zu", session, index + 1);
        yyjson_mut_val *block = add_block(doc, content, "resource");
        yyjson_mut_val *resource = yyjson_mut_obj_add_obj(doc, block, "resource");
        yyjson_mut_obj_add_strcpy(doc, resource, "uri", uri);
        yyjson_mut_obj_add_str(doc, resource, "mimeType", d->mime_type);
        if (!d->is_text) {
                add_data(doc, resource, "blob", d);
                return 0;
        }
        yyjson_mut_val *text = text_of(doc, d, most);
        return yyjson_mut_obj_add_val(doc, resource, "text", text) ? 0 : -ENOMEM;
}

static int append_display(yyjson_mut_doc *doc, yyjson_mut_val *content,
                          const struct cell_display *d, size_t index, const char *session,
                          size_t most, unsigned kinds)
{
        bool picture = !d->is_text && is_picture(d->mime_type);
        bool audio = !d->is_text && is_kind(d->mime_type, "audio/") && kinds & CONTENT_AUDIO;

        if (is_too_large(d))
                return 0;
        if (picture || audio) {
                yyjson_mut_val *block = add_block(doc, content, picture ? "image" : "audio");
                add_data(doc, block, "data", d);
                yyjson_mut_obj_add_str(doc, block, "mimeType", d->mime_type);
                return 0;
        }
        if (!d->is_text || !is_kind(d->mime_type, "text/"))
                return append_resource(doc, content, d, index, session, most);
        yyjson_mut_val *text = text_of(doc, d, most);
        return yyjson_mut_obj_add_val(doc, add_block(doc, content, "text"), "text", text) ? 0
                                                                                          : -ENOMEM;
}

static int append_link(yyjson_mut_doc *doc, yyjson_mut_val *content, const struct cell_file *file,
                       const char *session)
{
        _cleanup_buffer_ struct buffer uri = BUFFER_INIT(URI_MAX);
        const char *slash = strrchr(file->path, '/');

        int r = result_content_file_uri(session, file->path, &uri);
        if (r < 0)
                return r;
        yyjson_mut_val *block = add_block(doc, content, "resource_link");
        yyjson_mut_obj_add_strncpy(doc, block, "uri", buffer_bytes(&uri), uri.length);
        yyjson_mut_obj_add_str(doc, block, "name", slash ? slash + 1 : file->path);
        yyjson_mut_obj_add_str(doc, block, "mimeType", file->mime_type);
        yyjson_mut_obj_add_uint(doc, block, "size", file->size);
        return 0;
}

int result_content_append(yyjson_mut_doc *doc, yyjson_mut_val *content,
                          const struct cell_outcome *o, const char *session, size_t most,
                          unsigned kinds)
{
        int r = 0;

        for (size_t i = 0; i < o->n_displays && r >= 0; i++)
                r = append_display(doc, content, &o->displays[i], i, session, most / o->n_displays,
                                   kinds);
        for (size_t i = 0; i < o->n_files && r >= 0 && kinds & CONTENT_LINKS; i++)
                r = append_link(doc, content, &o->files[i], session);
        return r;
}
