/* Names of what is published: of tools and prompts, URIs of resources, URI templates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum {
        PUBLISHED_NAME_MAX = 64,
        PUBLISHED_URI_MAX = 255,
        PUBLISHED_VARIABLES_MAX = 8,  /* of a template */
        PUBLISHED_ARGUMENTS_MAX = 32, /* of a prompt */
        PUBLISHED_VARIABLE_MAX = 255, /* bytes of a value */
};

/* Each returns why the text is not valid, in a few words, or NULL. */
const char *published_name_problem(const char *name);
const char *published_uri_problem(const char *uri);
/* RFC 6570, with {name} and {+name} only. */
const char *published_template_problem(const char *template);

/* Whether a client's text, which ends with a NUL byte, has only characters of a URI, and not too many. */
bool published_uri_valid(const char *uri, size_t n);

bool published_mime_type_valid(const char *text);

/*
 * Matches a client's URI with a valid template, and appends a JSON object of the variables, percent-decoded.
 *
 * {name} matches characters but / ? #; its value has no / either. {+name} matches any. A value is a
 * valid part of a file's path (base/file-path.h): it is not empty, has no component "." or "..", no
 * leading or double / and no control character. Returns 1, 0 if the URI does not match, -EMSGSIZE or
 * -ENOMEM.
 */
int published_template_match(const char *template, const char *uri, size_t n, struct buffer *to);
