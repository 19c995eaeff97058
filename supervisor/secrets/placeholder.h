/* Placeholders: texts that code has instead of the values of secrets. */
#pragma once

#include <stddef.h>

/* Writes a random text of the shape of `like` (policy/config/secret-keys.h), or of the default for NULL. size: more than CONFIG_LIKE_MAX.
 * Returns 0 or negative errno: there are no random bytes. */
int placeholder_make(const char *like, char *to, size_t size);
