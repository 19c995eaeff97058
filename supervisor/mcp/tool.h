/*
 * run_python as the client sees it: the answer to tools/list, and the server's instructions.
 *
 * Both depend on the config, the connection's profile and the catalogue of tools only: they are the
 * same, byte for byte, for every connection with that profile until the catalogue changes. Limits:
 * most clients read at least 4,000 characters of each, some only the first 240 of the instructions
 * or 150 of the description.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/config/config.h"

enum {
        TOOL_DESCRIPTION_MAX = 2000, /* bytes */
        TOOL_INSTRUCTIONS_MAX = 3900,
};

#define TOOL_NAME "run_python"

/* catalogue: the payload of a CATALOG frame (rpc/frame.h). Appends the tool as tools/list has it for a profile (NULL: the
 * config has none, in tests). */
int tool_append(const struct config *config, const struct config_profile *profile,
                const struct buffer *catalogue, struct buffer *to, struct error *err);

/* Appends the text. */
int tool_append_instructions(const struct config *config, const struct buffer *catalogue,
                             struct buffer *to, struct error *err);

/* Appends text of an upstream server as one line: without control characters. */
int tool_append_clean(struct buffer *to, const char *text, size_t n);

/* Appends "name(argument, optional?)" of a tool of the catalogue. */
int tool_append_signature(yyjson_val *tool, struct buffer *to);
