/*
 * The displays and files of a cell as content of a CallToolResult.
 *
 * Pictures that were checked (cell-picture.h) become image content,
 * audio becomes audio content, text becomes text, everything else an embedded resource; files, and
 * what is larger than its share of the result, become resource links. Kinds that the client's protocol version lacks are left out; the text and
 * structuredContent name all of them.
 */
#pragma once

#include "base/buffer.h"
#include "base/json-out.h"
#include "supervisor/mcp/resources/resource-uri.h"
#include "supervisor/session/cell/cell.h"

enum {
        /* Bytes of base64 of a display that is not a picture. */
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
        "\"text\":{\"type\":\"string\"},\"resource\":{\"type\":\"string\",\"description\":"        \
        "\"URI of the whole, which is not shown\"}},\"required\":[\"mime_type\",\"bytes\"]}},"     \
        "\"displays_total\":{\"type\":\"integer\"},"                                               \
        "\"files\":{\"type\":\"array\",\"description\":\"below /workspace/out, made or changed "   \
        "by "                                                                                      \
        "this "                                                                                    \
        "call\",\"items\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"    \
        "\"size\":{\"type\":\"integer\"},\"mime_type\":{\"type\":\"string\"}},"                    \
        "\"required\":[\"path\",\"size\"]}},"                                                      \
        "\"files_total\":{\"type\":\"integer\"},"                                                  \
        "\"sent\":{\"type\":\"array\",\"description\":\"tool calls of a call that was rolled "     \
        "back\",\"items\":{\"type\":\"object\",\"properties\":{\"server\":{\"type\":\"string\"},"  \
        "\"tool\":{\"type\":\"string\"},\"outcome\":{\"type\":\"string\",\"enum\":[\"ok\","        \
        "\"failed\",\"in doubt\"]}},\"required\":[\"server\",\"tool\",\"outcome\"]}}"

/* How to render an outcome. */
struct result_options {
        const char *session;
        size_t max_output; /* characters of a stream, and of all displays together, except images and audio */
        unsigned kinds; /* CONTENT_… that the client's version knows */
        const struct resource_uri *whole[CELL_STREAMS]; /* URI of the whole output, or NULL */
        struct capture_mark from[CELL_STREAMS]; /* the output before it is in an earlier answer */
        bool was_cut[CELL_STREAMS];             /* by an earlier answer */
        const char *said;                       /* of the call itself, for the notice; or NULL */
        const struct buffer
                *earlier; /* text of a result that no call has fetched; NULL or empty: none */
        uint64_t cell;    /* whose displays are kept if the result does not show them; 0: none */
};

/* Whether a display is not part of the result: it is a resource, whole. */
bool result_content_is_linked(const struct cell_outcome *outcome, size_t index,
                              const struct result_options *options);
/* Its MIME type as a resource: a program may make an image of one that is called an image. */
const char *result_content_type(const struct cell_display *display);
/* Its URI. */
struct resource_uri result_content_uri(size_t index, const struct result_options *options);

/* Appends lines for the text that name displays and files, if there are any. */
int result_content_text(const struct cell_outcome *outcome, const struct result_options *options,
                        struct buffer *to);

/* Adds "displays", "files" and "sent" to structuredContent. */
void result_content_structured(struct json_out *out, const struct cell_outcome *outcome,
                               const struct result_options *options);

/* Appends a picture that is shown as an image. block: whose annotations it keeps, or NULL; data: base64 of the original. */
void result_content_put_image(struct json_out *out, const struct cell_picture *picture,
                              yyjson_val *block, const char *data, size_t n);
/* Appends a picture that is not shown: the reason as text, and the original as a resource. */
void result_content_put_refused(struct json_out *out, const struct cell_picture *picture,
                                const char *data, size_t n);

/* Appends a block with a picture, as it may leave: an image, or a resource. */
void result_content_put_picture(struct json_out *out, const struct cell_picture *picture,
                                yyjson_val *block);

/* Appends one display as a block, if the client supports its kind. */
void result_content_put_display(struct json_out *out, const struct cell_outcome *outcome,
                                size_t index, const struct result_options *options);

/* Appends blocks to the array. */
void result_content_append(struct json_out *out, const struct cell_outcome *outcome,
                           const struct result_options *options);
