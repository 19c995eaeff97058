/* What a session may be called: it stands in JSON, URIs and logs as it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether it is a session's name: [A-Za-z0-9_.-]{1,64}. */
bool session_name_valid(const char *name, size_t n);
