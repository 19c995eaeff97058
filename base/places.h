/*
 * Cloister's own directories. A service manager names them in the environment of its service: STATE_DIRECTORY,
 * RUNTIME_DIRECTORY, LOGS_DIRECTORY, CONFIGURATION_DIRECTORY and CREDENTIALS_DIRECTORY (systemd.exec(5)), each an absolute path, or
 * several with a colon between them, of which the first one counts. Without them they are the user's (XDG Base Directory Specification).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Call it first in a process that a user starts, never in one that Cloister starts. A service that starts Cloister passes on the
 * variables of its own directories, which are not for Cloister: systemd says in SYSTEMD_EXEC_PID which process they are
 * for. Credentials stay, because only a config that names one reads it. */
void places_begin(void);

/* $STATE_DIRECTORY/below, else $XDG_STATE_HOME/cloister/below, else ~/.local/state/cloister/below. below "": the directory itself.
 * Returns 0, -ENOENT: no such variable, no home, or -ENAMETOOLONG. */
int place_state(const char *below, char *ret, size_t size);
#define PLACE_STATE_MISSING "none of STATE_DIRECTORY, XDG_STATE_HOME and HOME is set"
/* Writes the path below CONFIGURATION_DIRECTORY, XDG_CONFIG_HOME and ~/.config. */
int place_config(const char *below, char *ret, size_t size);

/* The directories that have no place of the user's instead: false if the variable names none, or its path is too long. */
bool place_service_state(char *ret, size_t size);
bool place_runtime(char *ret, size_t size);
bool place_logs(char *ret, size_t size);
bool place_credentials(char *ret, size_t size);

enum { CREDENTIAL_SIZE_MAX = 64 * 1024, CREDENTIAL_NAME_MAX = 128 };

/* Whether it is a name that a credential can have: letters, digits, "_", "-" and ".", and not "." or "..". */
bool credential_name_valid(const char *name, size_t n);

/* Reads the credential of that name: a file of CREDENTIALS_DIRECTORY, without the line feed at its end. *ret is the caller's, who
 * clears it. A file that has a byte 0 or is longer than CREDENTIAL_SIZE_MAX is refused. */
int credential_read(const char *name, char **ret, struct error *err);
