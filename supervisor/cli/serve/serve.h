/* `cloister mcp`, `tools`, `doctor`, `login`, `logout` and `bench`, which other programs carry out. */
#pragma once

#include "supervisor/cli/command/command.h"

int cli_mcp(const struct options *o, const char *const *words, size_t n);
int cli_tools(const struct options *o, const char *const *words, size_t n);
int cli_doctor(const struct options *o, const char *const *words, size_t n);
int cli_login(const struct options *o, const char *const *words, size_t n);
int cli_logout(const struct options *o, const char *const *words, size_t n);
int cli_bench(const struct options *o, const char *const *words, size_t n);

/* For --attest: has the doctor attack a sandbox before anything is served. Returns a sealed memfd with the
 * report of `cloister doctor --attack --json`; the caller owns it. If anything is open, it is an error
 * that names it; *status is then the exit status, 1 or EXIT_NO_SANDBOX. */
int attest_run(const struct options *options, int *status, struct error *err);
