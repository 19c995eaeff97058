/* The command line of cloister-monitor or cloister-doctor: collected here, then exec'd by this
 * process. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "supervisor/cli/options.h"

enum {
        MONITOR_COMMAND_FD_FIRST = 64, /* low numbers are reserved for the monitor and the broker */
        MONITOR_COMMAND_WORDS_MAX = 2 * CONFIG_PATHS_MAX + 160,
        MONITOR_COMMAND_OWNED_MAX = CONFIG_PATHS_MAX + 32
};

struct monitor_command {
        const char *words[MONITOR_COMMAND_WORDS_MAX + 1]; /* NULL-terminated; [0] is the program */
        size_t n;
        char *owned[MONITOR_COMMAND_OWNED_MAX]; /* words that were allocated here */
        size_t n_owned;
};

/* Starts a command line: `program`, `verb` (or NULL) and the options that all verbs share: config,
 * image, python, packages, log. Paths are made absolute; --python may be a name in PATH or the
 * directory of a virtual environment. */
int monitor_command_init(struct monitor_command *command, const char *program, const char *verb,
                         const struct cli_options *options, struct error *err);
void monitor_command_done(struct monitor_command *command);

void monitor_command_add(struct monitor_command *command, const char *word);
/* Adds "--option value" unless value is NULL. */
void monitor_command_add_option(struct monitor_command *command, const char *option,
                                const char *value);

/* Returns a copy of a descriptor that survives the exec, or fd if that is negative; closes fd. */
int monitor_command_fd(int fd, struct error *err);
/* Adds "--pass-fd N", unless fd is negative: the monitor passes it to the broker. number: N. */
void monitor_command_pass(struct monitor_command *command, int fd, char number[16]);

/* Execs the program; returns only if that fails. */
int monitor_command_exec(struct monitor_command *command, struct error *err);

/* The same, as the end of a command: returns the exit status after it has said why it failed: EXIT_NO_SANDBOX
 * if what surrounds Cloister refuses the call, else this one. */
int monitor_command_leave(struct monitor_command *command, int status);

/* The absolute path of an interpreter given as a path, a name in PATH, or the directory of a
 * virtual environment. *ret is owned by the caller. */
int monitor_command_python(const char *given, char **ret, struct error *err);
