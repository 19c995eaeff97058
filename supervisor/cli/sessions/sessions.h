/* `cloister sessions`. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_sessions(const struct options *o, const char *const *words, size_t n);
/* `cloister top`. */
int cli_top(const struct options *o, const char *const *words, size_t n);
int cli_sessions_end(const struct options *o, const char *const *words, size_t n);
int cli_sessions_undo(const struct options *o, const char *const *words, size_t n);
int cli_sessions_reset(const struct options *o, const char *const *words, size_t n);

/* Prints the names of the sessions of all servers, one per line. Returns the exit status. */
int cli_session_names(void);
