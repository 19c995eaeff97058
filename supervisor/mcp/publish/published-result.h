/*
 * The outcome of published code as the result of a tool, prompt, resource or completion.
 *
 * What the code returned comes from the worker: its form is checked here, so that a client gets valid
 * results only.
 */
#pragma once

#include "base/buffer.h"
#include "policy/config/config.h"
#include "supervisor/mcp/resources/resource-uri.h"
#include "supervisor/session/cell/cell.h"

/* The kind of a result, and what its form depends on; without pointers, because it is made in the background. */
struct published_view {
        enum published_what {
                RESULT_OF_TOOL,
                RESULT_OF_PROMPT,
                RESULT_OF_RESOURCE,
                RESULT_OF_COMPLETION
        } what;
        bool structured;                 /* the tool has an outputSchema */
        char uri[RESOURCE_PATH_MAX + 1]; /* of the resource */
        char mime_type[128];             /* of the resource, or "" */
};

/* Appends the result. kinds: CONTENT_…; most: characters of stdout. Returns 0; -EBADMSG: the worker's
 * output has another form (not of a tool, whose result then is an error); -EMSGSIZE, -ENOMEM. */
int published_render(const struct cell_outcome *outcome, const struct published_view *view,
                     unsigned kinds, size_t most, struct buffer *to);

/* Why the code failed, in one line, or NULL if it did not fail. */
const char *published_failure(const struct cell_outcome *outcome, char *to, size_t size);
