/* The token of `cloister login`. */
#pragma once

#include "supervisor/access/access.h"

/* As access_find_token(); a->token is the last token. */
int access_oauth_token(struct access *a, const struct access_refusal *refusal, struct error *err);
