/*
 * The log: one line for each event, as text for a person or as JSON for a program. Top-level handlers
 * log, libraries return errors.
 *
 *     cloister: warning: server files: cannot start: … [session default, request 7]
 *     {"time":"2026-01-31T12:00:00.123Z","level":"warning","program":"cloister",
 *      "message":"server files: cannot start: …","session":"default","request":7}
 *     12:00:00 cloister WARNING server files: cannot start: … [session default, request 7]
 *
 * Untrusted text is escaped here: control characters are written as \xNN, so that a peer can neither
 * forge a line nor control a terminal. Secrets are masked (base/mask.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum log_level {
        LOG_LEVEL_ERROR,
        LOG_LEVEL_WARNING,
        LOG_LEVEL_INFO,
        LOG_LEVEL_DEBUG,
        LOG_LEVEL_MAX
};

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_PLAIN, LOG_FORMAT_MAX };

/* Less important messages than level are not written. The default is LOG_LEVEL_WARNING. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* A level by its name (error, warning, info, debug); negative when there is none. */
int log_level_from_name(const char *name);
const char *log_level_name(enum log_level level);

/* text, json or plain; negative when there is none. */
int log_format_from_name(const char *name);
const char *log_format_name(enum log_format format);

/* Where lines are written (borrowed; the default is standard error), and their format. Errors are also
 * written to standard error, as text, if that is another file. */
void log_to(int fd, enum log_format format);
int log_get_fd(void);
enum log_format log_get_format(void);

/* The owner of an event; NULL and 0: unknown or without an owner. */
struct log_ids {
        const char *session;
        const char *request; /* JSON text of the client's id */
        uint64_t cell, call; /* numbers in the session */
        const char *server, *tool;
};

void log_event(enum log_level level, const struct log_ids *ids, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

#define log_write(level, ...) log_event(level, NULL, __VA_ARGS__)
#define log_error(...)        log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...)      log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)         log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)        log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

/*
 * The log in a file, for the process that opened it.
 *
 * A file of LOG_FILE_MAX bytes becomes FILE.1, which replaces the previous FILE.1, and FILE begins anew. A file that
 * cannot be renamed is emptied.
 */
enum { LOG_FILE_MAX = 16 * 1024 * 1024 };

/* Appends to the file at path, which gets mode 0600; NULL: to standard error. Fails without waiting for a link, and for
 * anything that is not a regular file of this user with one name. The descriptor gets a high number, out of the way of
 * those that a child expects its own descriptors at. */
int log_file_open(const char *path, enum log_format format, struct error *err);

/* Opens the file again under its name, which another program may have renamed. Without a file it does nothing. */
int log_file_reopen(struct error *err);

/* Whether the log is a file, which has a bound. */
bool log_file_is_bounded(void);

/* Appends lines that another process wrote. */
void log_file_append(const char *lines, size_t n);
