/* The headers of a request. */
#pragma once

#include "supervisor/hub/http/queue.h"

/* "NAME: value", NULL-terminated; free with http_headers_free(). NULL: no memory. */
char **http_headers_new(const struct http_request *r);

/* The value of Mcp-Name or of a mirrored parameter, encoded if necessary; the caller frees it. */
char *http_header_encode(const char *text, size_t n);
