/* Checks untrusted relative paths; names of files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { FILE_PATH_MAX = 255 };

/* UTF-8 without control characters, line separators or characters that turn the direction of writing, no
 * component empty, "." or "..", at most FILE_PATH_MAX bytes. */
bool file_path_valid(const char *path, size_t n);
/* Whether a component has a leading dot. */
bool file_path_hidden(const char *path, size_t n);

/* The extension of a file of a MIME type, without a dot; "bin" for an unknown type. */
const char *mime_extension(const char *mime);
