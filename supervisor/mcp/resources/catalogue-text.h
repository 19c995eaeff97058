/* The catalogue of tools as the resources cloister://tools and cloister://tools/SERVER (resource-uri.h). */
#pragma once

#include "base/buffer.h"

enum { CATALOGUE_TEXT_MAX = 64 * 1024 * 1024 };

/* catalogue: the payload of a CATALOG frame. Appends a line for each server with its state, and below it one for
 * each tool: its signature and the beginning of its description. Returns 0, -EBADMSG, -EMSGSIZE, -ENOMEM. */
int catalogue_append_text(const struct buffer *catalogue, struct buffer *to);

/* Appends one server as the catalogue has it, JSON with all schemas. Returns also -ENOENT. */
int catalogue_append_server(const struct buffer *catalogue, const char *server, struct buffer *to);
