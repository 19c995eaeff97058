/* The values of the secrets of one profile, as cloister-access writes them (supervisor/access/secrets.h). Freed memory is cleared. */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { SECRET_VALUES_BYTES_MAX = 8 * 1024 * 1024 /* of the JSON text */ };

struct secret_values;

/* json: an object, {"NAME": VALUE, …}. */
int secret_values_parse(const char *json, size_t n, struct secret_values **ret, struct error *err);
/* Masks them in the log (base/mask.h). */
void secret_values_mask(const struct secret_values *values);
struct secret_values *secret_values_free(struct secret_values *values);
/* The value of a secret, with a NUL; NULL if there is none. */
const char *secret_values_find(const struct secret_values *values, const char *name, size_t *n);
