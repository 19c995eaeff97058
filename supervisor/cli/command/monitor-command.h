/* Replaces this process by cloister-monitor, cloister-doctor or cloister-oauth. */
#pragma once

#include "base/error.h"
#include "supervisor/options/options.h"

struct monitor_command {
        struct options options; /* the caller may set more of them */
        char *owned[CONFIG_PATHS_MAX + PACKAGE_FILES_MAX +
                    5]; /* the paths that were made absolute */
        size_t n_owned;
};

/* Copies the options. Paths are made absolute; --python may be a name in PATH or the directory of a
 * virtual environment. */
int monitor_command_init(struct monitor_command *command, const struct options *given,
                         struct error *err);
void monitor_command_done(struct monitor_command *command);

/* Returns a copy of a descriptor that survives the exec, as one that the monitor passes to the broker,
 * or fd if that is negative; closes fd. */
int monitor_command_fd(int fd, struct error *err);

/* Executes the program with the options that it accepts. verb: its mode or command, or NULL. Returns only
 * if that fails. */
int monitor_command_exec(const struct monitor_command *command, enum option_program program,
                         const char *verb, struct error *err);

/* All of these steps, as the end of a command: prints the error, and returns the exit status: EXIT_NO_SANDBOX if a filter
 * around Cloister refuses the call, otherwise this one. */
int monitor_command_leave(const struct options *options, enum option_program program,
                          const char *verb, int status);

/* Resolves the directory of a path, but not the file: that may be a symbolic link that is changed later, or
 * the interpreter of a virtual environment, which is recognised by its own path. *ret is owned by the
 * caller. */
int monitor_command_absolute(const char *path, char **ret, struct error *err);

/* The absolute path of an interpreter given as a path, a name in PATH, or the directory of a
 * virtual environment. *ret is owned by the caller. */
int monitor_command_python(const char *given, char **ret, struct error *err);
