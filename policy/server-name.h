/* Names of servers: 1 to 64 characters of UTF-8 that can be shown. */
#pragma once

#include <stddef.h>

enum { SERVER_NAME_MAX = 64 };

/* Why a name cannot be one, or NULL. The text is UTF-8 (JSON's parser saw to that), maybe with NUL.
 */
const char *server_name_wrong(const char *name, size_t n);

/* The bytes of its first SERVER_NAME_MAX characters. */
size_t server_name_cut(const char *name, size_t n);
