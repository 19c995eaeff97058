/*
 * The commands that start the systems which `cloister mcp --as NAME` replaces, as their pages have them: a script of an
 * interpreter, a module, a console script, also by uvx, uv or pipx.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct old_system;

/* NULL: there is no such system; the error names those that there are. */
const struct old_system *old_system_find(const char *name, struct error *err);

/* Prints the names of the systems, one per line. Returns 0. */
int old_system_print_names(void);

/* Further parts of an entry that name its program. */
struct old_entry {
        const char *name;
        const char *const *variables; /* names, NULL-terminated; or NULL */
};

/* The number of words that start the system: the rest are its own arguments. 0: the command is another one, or one whose
 * options are not known. */
size_t old_command_length(const struct old_system *system, const char *const *words, size_t n,
                          const struct old_entry *entry);

/* Whether the entry or a word of its command has the system's name. */
bool old_command_names(const struct old_system *system, const char *const *words, size_t n,
                       const struct old_entry *entry);
