/* `cloister mcp`, `serve`, `tools`, `doctor`, `login`, `logout` and `bench`, which other programs carry out. */
#pragma once

#include "supervisor/cli/command/command.h"

#define LISTEN_DEFAULT "127.0.0.1:8808"

int cli_mcp(const struct options *o, const char *const *words, size_t n);
int cli_serve(const struct options *o, const char *const *words, size_t n);
int cli_tools(const struct options *o, const char *const *words, size_t n);
int cli_doctor(const struct options *o, const char *const *words, size_t n);
int cli_login(const struct options *o, const char *const *words, size_t n);
int cli_logout(const struct options *o, const char *const *words, size_t n);
int cli_bench(const struct options *o, const char *const *words, size_t n);
