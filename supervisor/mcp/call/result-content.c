/* Displays and files -> content blocks, a line of text, members of structuredContent. */
#include "supervisor/mcp/call/result-content.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/session/cell/output.h"

enum {
        FILES_NAMED = 20, /* in the text; structuredContent has CELL_FILES_MAX */
        URI_MAX = 4096,
        TEXT_MAX = 64 * 1024 * 1024,
};

static bool is_kind(const char *mime, const char *kind)
{
        return strncmp(mime, kind, strlen(kind)) == 0;
}

static bool is_shown_picture(const struct cell_display *d)
{
        return d->is_picture && cell_picture_is_shown(&d->picture);
}

static bool is_refused_picture(const struct cell_display *d)
{
        return d->is_picture && !cell_picture_is_shown(&d->picture);
}

const char *result_content_type(const struct cell_display *d)
{
        bool is_known = !is_refused_picture(d) || cell_picture_type(&d->picture);

        return is_known ? d->mime_type : "application/octet-stream";
}

static size_t bytes_of(const struct cell_display *display)
{
        size_t n = display->data.length;
        const char *text = buffer_bytes(&display->data);

        if (display->is_text || n < 4)
                return n;
        return n / 4 * 3 - (text[n - 1] == '=') - (text[n - 2] == '=');
}

/* Pictures have limits of their own. */
static bool is_too_large(const struct cell_display *display)
{
        return !display->is_text && !is_shown_picture(display) &&
               display->data.length > CONTENT_IMAGE_MAX;
}

/* Characters of a display that the client shows to the model as text, 0 for others. */
static size_t characters_of(const struct cell_display *d, unsigned kinds)
{
        if (d->is_block || d->is_picture ||
            (!d->is_text && is_kind(d->mime_type, "audio/") && kinds & CONTENT_AUDIO))
                return 0;
        return d->is_text ? utf8_count(buffer_bytes(&d->data), d->data.length) : d->data.length;
}

static size_t share_of(const struct cell_outcome *o, const struct result_options *options)
{
        return options->max_output / o->n_displays;
}

bool result_content_is_linked(const struct cell_outcome *o, size_t index,
                              const struct result_options *options)
{
        const struct cell_display *d = &o->displays[index];

        if (options->cell == 0 || d->is_block)
                return false;
        if (d->is_picture && d->data.length > 0 && d->picture.answer.verdict != PICTURE_FINE)
                return true;
        return d->is_linked || is_too_large(d) ||
               characters_of(d, options->kinds) > share_of(o, options);
}

struct resource_uri result_content_uri(size_t index, const struct result_options *options)
{
        struct resource_uri uri = {
                .kind = RESOURCE_DISPLAY, .cell = options->cell, .display = index + 1};

        snprintf(uri.session, sizeof(uri.session), "%s", options->session);
        return uri;
}

/* 1234567 bytes as "1.2 MiB". */
static void append_size(struct buffer *to, uint64_t bytes)
{
        unsigned long long n = bytes;

        if (n < 10 * 1024)
                buffer_printf(to, "%llu bytes", n);
        else if (n < 10 * 1024 * 1024)
                buffer_printf(to, "%llu KiB", n / 1024);
        else
                buffer_printf(to, "%llu MiB", n >> 20);
}

static void append_displays(const struct cell_outcome *o, const struct result_options *options,
                            struct buffer *to)
{
        size_t lost = o->displays_total - o->n_displays;

        buffer_append_text(to, "displayed:");
        for (size_t i = 0; i < o->n_displays; i++) {
                const struct cell_display *d = &o->displays[i];
                const struct resource_uri uri = result_content_uri(i, options);

                buffer_printf(to, "%s %s (", i > 0 ? "," : "", result_content_type(d));
                append_size(to, bytes_of(d));
                if (d->is_picture && d->picture.answer.reason != PICTURE_REASON_BYTES) {
                        /* append_pictures() says more. */
                } else if (result_content_is_linked(o, i, options)) {
                        buffer_append_text(to, ": all of it is the resource ");
                        resource_uri_append(&uri, to);
                } else if (is_too_large(d)) {
                        buffer_append_text(to, ": too large to show");
                }
                buffer_append_text(to, ")");
        }
        if (lost > 0)
                buffer_printf(to, "%s %zu more, which were not kept (%d of one call, %d MiB)",
                              o->n_displays > 0 ? " and" : "", lost, CELL_DISPLAYS_MAX,
                              CELL_DISPLAY_BYTES_MAX >> 20);
}

/* A line for each picture that is not shown, or not as it is. */
static void append_pictures(const struct cell_outcome *o, const struct result_options *options,
                            struct buffer *to)
{
        char why[CELL_PICTURE_TEXT_MAX];
        size_t number = 0;

        for (size_t i = 0; i < o->n_displays; i++) {
                const struct cell_display *d = &o->displays[i];
                const struct resource_uri uri = result_content_uri(i, options);
                number += d->is_picture;
                if (!d->is_picture || !cell_picture_describe(&d->picture, why))
                        continue;
                buffer_printf(to, "\nimage %zu is %s%s", number,
                              is_shown_picture(d) ? "shown " : "not shown: ", why);
                if (result_content_is_linked(o, i, options)) {
                        buffer_append_text(to, is_shown_picture(d) ? "; the original: " : ": ");
                        resource_uri_append(&uri, to);
                }
        }
}

static void append_files(const struct cell_outcome *o, struct buffer *to)
{
        size_t named = o->n_files < FILES_NAMED ? o->n_files : FILES_NAMED;

        buffer_printf(to, "%sfiles in /workspace/out:", to->length > 0 ? "\n" : "");
        for (size_t i = 0; i < named; i++) {
                buffer_printf(to, "%s %s (", i > 0 ? "," : "", o->files[i].path);
                append_size(to, o->files[i].size);
                buffer_append_text(to, ")");
        }
        if (o->files_total > named)
                buffer_printf(to, "%s %zu more", named > 0 ? " and" : "", o->files_total - named);
}

int result_content_text(const struct cell_outcome *o, const struct result_options *options,
                        struct buffer *to)
{
        if (o->displays_total > 0)
                append_displays(o, options, to);
        append_pictures(o, options, to);
        if (o->files_total > 0)
                append_files(o, to);
        return to->error;
}

/* The text of a display, truncated as output is. */
static void put_text(struct json_out *out, const struct cell_display *d, size_t most)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        bool cut;

        int r = output_cut(buffer_bytes(&d->data), d->data.length, most, &text, &cut);
        if (r < 0)
                json_out_fail(out, r);
        json_out_string(out, "text", buffer_bytes(&text), text.length);
}

static void put_uri(struct json_out *out, const char *key, size_t index,
                    const struct result_options *options)
{
        const struct resource_uri uri = result_content_uri(index, options);

        resource_uri_put(out, key, &uri);
}

static void put_displays(struct json_out *out, const struct cell_outcome *o,
                         const struct result_options *options)
{
        json_out_begin(out, "displays", '[');
        for (size_t i = 0; i < o->n_displays; i++) {
                const struct cell_display *d = &o->displays[i];
                json_out_begin(out, NULL, '{');
                json_out_text(out, "mime_type", result_content_type(d));
                json_out_int(out, "bytes", bytes_of(d));
                if (result_content_is_linked(o, i, options))
                        put_uri(out, "resource", i, options);
                else if (d->is_text)
                        put_text(out, d, share_of(o, options));
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
        if (o->displays_total > o->n_displays)
                json_out_int(out, "displays_total", o->displays_total);
}

static void put_files(struct json_out *out, const struct cell_outcome *o)
{
        json_out_begin(out, "files", '[');
        for (size_t i = 0; i < o->n_files; i++) {
                json_out_begin(out, NULL, '{');
                json_out_text(out, "path", o->files[i].path);
                json_out_int(out, "size", o->files[i].size);
                json_out_text(out, "mime_type", o->files[i].mime_type);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
        if (o->files_total > o->n_files)
                json_out_int(out, "files_total", o->files_total);
}

/* Tool calls that a rollback, of the call or of blocks in it, did not undo. A call without an answer may have been carried out. */
static void put_sent(struct json_out *out, const struct cell_outcome *o)
{
        bool all = o->state == CELL_STATE_ROLLED_BACK, any = all && o->calls_total > 0;

        for (size_t i = 0; i < o->n_calls && !any; i++)
                any = o->calls[i].in_block;
        if (!any)
                return;
        json_out_begin(out, "sent", '[');
        for (size_t i = 0; i < o->n_calls; i++) {
                const struct cell_call *c = &o->calls[i];
                if (!c->used || !(all || c->in_block))
                        continue;
                json_out_begin(out, NULL, '{');
                json_out_text(out, "server", c->server);
                json_out_text(out, "tool", c->tool);
                json_out_text(out, "outcome", c->pending ? "in doubt" : c->ok ? "ok" : "failed");
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}

void result_content_structured(struct json_out *out, const struct cell_outcome *o,
                               const struct result_options *options)
{
        if (o->files_total > 0)
                put_files(out, o);
        if (o->displays_total > 0)
                put_displays(out, o, options);
        put_sent(out, o);
}

static void begin_block(struct json_out *out, const char *type)
{
        json_out_begin(out, NULL, '{');
        json_out_text(out, "type", type);
}

/* The text is base64: it was checked. */
static void put_data(struct json_out *out, const char *key, const struct cell_display *d)
{
        json_out_string(out, key, buffer_bytes(&d->data), d->data.length);
}

static void put_resource(struct json_out *out, const struct cell_display *d, size_t index,
                         const char *session, size_t most)
{
        char uri[URI_MAX];

        snprintf(uri, sizeof(uri), "cloister://sessions/%s/displays/%zu", session, index + 1);
        begin_block(out, "resource");
        json_out_begin(out, "resource", '{');
        json_out_text(out, "uri", uri);
        json_out_text(out, "mimeType",
                      is_refused_picture(d) ? "application/octet-stream" : d->mime_type);
        if (d->is_text)
                put_text(out, d, most);
        else
                put_data(out, "blob", d);
        json_out_end(out, '}');
        json_out_end(out, '}');
}

static void put_display_link(struct json_out *out, const struct cell_display *d, size_t index,
                             const struct result_options *options)
{
        char name[64];

        snprintf(name, sizeof(name), "display-%zu", index + 1);
        begin_block(out, "resource_link");
        put_uri(out, "uri", index, options);
        json_out_text(out, "name", name);
        json_out_text(out, "mimeType", result_content_type(d));
        json_out_int(out, "size", bytes_of(d));
        json_out_end(out, '}');
}

void result_content_put_image(struct json_out *out, const struct cell_picture *picture,
                              yyjson_val *block, const char *data, size_t n)
{
        yyjson_val *annotations = yyjson_obj_get(block, "annotations"),
                   *meta = yyjson_obj_get(block, "_meta");

        begin_block(out, "image");
        if (picture->made)
                json_out_string(out, "data", picture->made, picture->answer.made_length);
        else
                json_out_string(out, "data", data, n);
        json_out_text(out, "mimeType", cell_picture_sent_type(picture));
        if (annotations)
                json_out_value(out, "annotations", annotations);
        if (meta)
                json_out_value(out, "_meta", meta);
        json_out_end(out, '}');
}

static void put_refusal(struct json_out *out, const struct cell_picture *picture)
{
        char why[CELL_PICTURE_TEXT_MAX], text[CELL_PICTURE_TEXT_MAX + 64];

        cell_picture_describe(picture, why);
        snprintf(text, sizeof(text), "an image is not shown: %s", why);
        begin_block(out, "text");
        json_out_text(out, "text", text);
        json_out_end(out, '}');
}

void result_content_put_refused(struct json_out *out, const struct cell_picture *picture,
                                const char *data, size_t n)
{
        put_refusal(out, picture);
        if (n == 0)
                return;
        begin_block(out, "resource");
        json_out_begin(out, "resource", '{');
        json_out_text(out, "uri", "cloister://pictures/not-shown");
        json_out_text(out, "mimeType", "application/octet-stream");
        json_out_string(out, "blob", data, n);
        json_out_end(out, '}');
        json_out_end(out, '}');
}

void result_content_put_picture(struct json_out *out, const struct cell_picture *picture,
                                yyjson_val *block)
{
        yyjson_val *resource = cell_picture_resource(block);
        size_t n = 0;
        const char *data = json_string(block, "data", &n);

        if (resource) {
                if (!cell_picture_is_shown(picture))
                        put_refusal(out, picture);
                cell_picture_correct_resource(picture, resource);
                json_out_value(out, NULL, block);
        } else if (cell_picture_is_shown(picture)) {
                result_content_put_image(out, picture, block, data, n);
        } else {
                result_content_put_refused(out, picture, data, n);
        }
}

/* A block of an upstream tool's result, or of published code. */
static void put_block(struct json_out *out, const struct cell_display *d, unsigned kinds)
{
        yyjson_doc *doc = NULL;

        if (!d->is_picture) {
                if ((kinds & CONTENT_AUDIO || strcmp(d->mime_type, "audio") != 0) &&
                    (kinds & CONTENT_LINKS || strcmp(d->mime_type, "resource_link") != 0))
                        json_out_raw(out, NULL, buffer_bytes(&d->data), d->data.length);
                return;
        }
        int r = json_parse(buffer_bytes(&d->data), d->data.length, &doc, NULL);
        if (r < 0)
                json_out_fail(out, r);
        else
                result_content_put_picture(out, &d->picture, yyjson_doc_get_root(doc));
        yyjson_doc_free(doc);
}

void result_content_put_display(struct json_out *out, const struct cell_outcome *o, size_t index,
                                const struct result_options *options)
{
        const struct cell_display *d = &o->displays[index];
        size_t most = share_of(o, options);
        unsigned kinds = options->kinds;
        bool audio = !d->is_text && is_kind(d->mime_type, "audio/") && kinds & CONTENT_AUDIO;

        if (d->is_block) {
                put_block(out, d, kinds);
                return;
        }
        if (is_shown_picture(d)) {
                result_content_put_image(out, &d->picture, NULL, buffer_bytes(&d->data),
                                         d->data.length);
                return;
        }
        if (result_content_is_linked(o, index, options)) {
                if (kinds & CONTENT_LINKS)
                        put_display_link(out, d, index, options);
                return;
        }
        if (is_too_large(d) || (d->is_picture && d->data.length == 0))
                return;
        if (audio) {
                begin_block(out, "audio");
                put_data(out, "data", d);
                json_out_text(out, "mimeType", d->mime_type);
                json_out_end(out, '}');
        } else if (d->is_text && is_kind(d->mime_type, "text/")) {
                begin_block(out, "text");
                put_text(out, d, most);
                json_out_end(out, '}');
        } else {
                put_resource(out, d, index, options->session, most);
        }
}

static void put_link(struct json_out *out, const struct cell_file *file, const char *session)
{
        const char *slash = strrchr(file->path, '/');
        struct resource_uri uri = {.kind = RESOURCE_FILE};

        snprintf(uri.session, sizeof(uri.session), "%s", session);
        snprintf(uri.path, sizeof(uri.path), "%s", file->path);
        begin_block(out, "resource_link");
        resource_uri_put(out, "uri", &uri);
        json_out_text(out, "name", slash ? slash + 1 : file->path);
        json_out_text(out, "mimeType", file->mime_type);
        json_out_int(out, "size", file->size);
        json_out_end(out, '}');
}

void result_content_append(struct json_out *out, const struct cell_outcome *o,
                           const struct result_options *options)
{
        for (size_t i = 0; i < o->n_displays; i++)
                result_content_put_display(out, o, i, options);
        for (size_t i = 0; i < o->n_files && options->kinds & CONTENT_LINKS; i++)
                put_link(out, &o->files[i], options->session);
}
