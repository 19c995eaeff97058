/* The token of a server. */
#pragma once

#include "supervisor/access/access.h"

/* Finds a token, another one if the last was refused (refusal: NULL at the start). Returns 1, 0 when no
 * token is needed, or negative errno with what to do as text. */
int access_find_token(struct access *a, const struct access_refusal *refusal, struct error *err);
