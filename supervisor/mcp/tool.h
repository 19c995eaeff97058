/*
 * run_python as the client sees it: the answer to tools/list, and the server's instructions.
 *
 * Both are made from the config, the connection's profile and the catalogue of tools alone, so that
 * they are the same for every connection of a profile and, byte for byte, until the catalogue
 * changes. Limits: CLIENTS read 4,000 characters of each at least, some only the first 240 of the
 * instructions or 150 of the description.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/config.h"

enum {
        TOOL_DESCRIPTION_MAX = 2000, /* bytes */
        TOOL_INSTRUCTIONS_MAX = 3900,
};

#define TOOL_NAME "run_python"

/* catalogue: the payload of a CATALOG frame (rpc/frame.h). Appends the result object of
 * tools/list, as it is for a profile (NULL: a config has none, as tests make it). */
int tool_append_list(const struct config *config, const struct config_profile *profile,
                     const struct buffer *catalogue, struct buffer *to, struct error *err);

/* Appends the text. */
int tool_append_instructions(const struct config *config, const struct buffer *catalogue,
                             struct buffer *to, struct error *err);

/* Appends "name(argument, optional?)" of a tool of the catalogue. */
int tool_append_signature(yyjson_val *tool, struct buffer *to);
