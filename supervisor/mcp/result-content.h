/*
 * The displays and files of a cell as content of a CallToolResult.
 *
 * Images that models can read (PNG, JPEG, GIF, WebP up to CONTENT_IMAGE_MAX) become image content,
 * audio becomes audio content, text becomes text, everything else an embedded resource; files
 * become resource links. Kinds that the client's protocol version lacks are left out; the text and
 * structuredContent name all of them.
 */
#pragma once

#include "base/buffer.h"
#include "base/json-out.h"
#include "supervisor/session/cell.h"

enum {
        /* Bytes of base64: the limit of the largest providers of models for one image. */
        CONTENT_IMAGE_MAX = 5 * 1024 * 1024,

        /* Kinds of content that came with later versions of the protocol. */
        CONTENT_AUDIO = 1 << 0, /* 2025-03-26 */
        CONTENT_LINKS = 1 << 1, /* 2025-06-18 */
        CONTENT_ALL = CONTENT_AUDIO | CONTENT_LINKS,
};

/* JSON Schema of the members that result_content_structured() adds. */
#define RESULT_CONTENT_SCHEMA                                                                      \
        "\"displays\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"         \
        "\"mime_type\":{\"type\":\"string\"},\"bytes\":{\"type\":\"integer\"},"                    \
        "\"text\":{\"type\":\"string\"}},\"required\":[\"mime_type\",\"bytes\"]}},"                \
        "\"displays_total\":{\"type\":\"integer\"},"                                               \
        "\"files\":{\"type\":\"array\",\"description\":\"below /workspace/out, made or changed "   \
        "by "                                                                                      \
        "this "                                                                                    \
        "call\",\"items\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"    \
        "\"size\":{\"type\":\"integer\"},\"mime_type\":{\"type\":\"string\"}},"                    \
        "\"required\":[\"path\",\"size\"]}},"                                                      \
        "\"files_total\":{\"type\":\"integer\"}"

/* "cloister://sessions/NAME/files/PATH", percent-encoded. Returns 0 or negative errno. */
int result_content_file_uri(const char *session, const char *path, struct buffer *to);

/* Appends lines for the text that name displays and files, if there are any. */
int result_content_text(const struct cell_outcome *outcome, struct buffer *to);

/* Adds "displays" and "files" to structuredContent; their text is truncated to `most` characters in
 * total. */
void result_content_structured(struct json_out *out, const struct cell_outcome *outcome,
                               size_t most);

/* Appends one display as a block, if the client knows its kind. */
void result_content_put_display(struct json_out *out, const struct cell_outcome *outcome,
                                size_t index, size_t most, unsigned kinds);

/* Appends blocks to the array. kinds: CONTENT_…. */
void result_content_append(struct json_out *out, const struct cell_outcome *outcome,
                           const char *session, size_t most, unsigned kinds);
