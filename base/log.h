/*
 * The log: one line for each event, as text for a person or as JSON for a program. Top-level handlers
 * log, libraries return errors.
 *
 *     cloister: warning: server files: cannot start: … [session default, request 7]
 *     {"time":"2026-01-31T12:00:00.123Z","level":"warning","program":"cloister",
 *      "message":"server files: cannot start: …","session":"default","request":7}
 *
 * Untrusted text is escaped here: control characters are written as \xNN, so that a peer can neither
 * forge a line nor control a terminal. Secrets are masked (base/mask.h).
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

enum log_level {
        LOG_LEVEL_ERROR,
        LOG_LEVEL_WARNING,
        LOG_LEVEL_INFO,
        LOG_LEVEL_DEBUG,
        LOG_LEVEL_MAX
};

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_MAX };

/* Less important messages than level are not written. The default is LOG_LEVEL_WARNING. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* A level by its name (error, warning, info, debug); negative when there is none. */
int log_level_from_name(const char *name);
const char *log_level_name(enum log_level level);

/* text or json; negative when there is none. */
int log_format_from_name(const char *name);
const char *log_format_name(enum log_format format);

/* Where lines are written (borrowed; the default is standard error), and their format. Errors are also
 * written to standard error, as text, if that is another file. */
void log_to(int fd, enum log_format format);
int log_get_fd(void);
/* Called before each line; it may put another file at the descriptor. */
void log_before_write(void (*fn)(void));
enum log_format log_get_format(void);

/* The program's name, which starts each line; a literal. */
void log_set_name(const char *name);

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
