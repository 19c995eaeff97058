/* The program that the monitor starts for a server that is reached by HTTP. */
#pragma once

#include "base/error.h"
#include "policy/config/config.h"

#define UPSTREAM_ACCESS_VARIABLE "CLOISTER_ACCESS"

/* Makes an expanded config (with a url) one that runs cloister-access, whose path is program. */
int upstream_access_prepare(struct config_server *server, const char *program, struct error *err);
