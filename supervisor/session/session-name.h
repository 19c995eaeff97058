/* Names of sessions. They need no escaping in JSON, URIs and logs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SESSION_NAME_MAX = 64 };

/* Whether name matches [A-Za-z0-9_.-]{1,64}. */
bool session_name_valid(const char *name, size_t n);
