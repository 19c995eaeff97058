/*
 * The log: one line for each event, as text for a person or as JSON for a program. Top-level handlers
 * log, libraries return errors.
 *
 *     cloister: warning: server files: cannot start: … [session default, request 7]
 *     {"time":"2026-01-31T12:00:00.123Z","level":"warning","program":"cloister",
 *      "session":"default","request":7,"message":"server files: cannot start: …"}
 *     12:00:00 cloister WARNING server files: cannot start: … [session default, request 7]
 *
 * The fourth format is journald's, over a socket (base/journald.h).
 *
 * Untrusted text is escaped here: control characters are written as \xNN, so that a peer can neither
 * forge a line nor control a terminal. Secrets are masked (base/mask.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log-line.h"

/* Less important messages than level are not written. The default is LOG_LEVEL_WARNING. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* Where lines are written (borrowed; the default is standard error), and their format. Errors are also
 * written to standard error, as text, if that is another file and not journald's. */
void log_to(int fd, enum log_format format);
int log_get_fd(void);
enum log_format log_get_format(void);

/* The node of a service (copied), for the formats that programs read; "": it has none. */
enum { LOG_NODE_MAX = 16 };
void log_set_node(const char *node);

void log_event(enum log_level level, const struct log_ids *ids, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* An event with fields, for programs (supervisor/service/event.h). For people it is its message. */
void log_record(enum log_level level, const struct log_ids *ids, const struct log_record *record,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * Lines of records that may wait (struct log_record) are written together with the next line, in their order, or by
 * log_flush(). later(): the first such line waits, and the caller's loop calls log_flush() within LOG_WAIT_MS. NULL: no line
 * waits. A process calls log_flush() before it ends.
 */
enum { LOG_WAIT_MS = 5 };
void log_set_later(void (*later)(void *data), void *data);
void log_flush(void);

/* How many lines were lost because they could not be written, here and in other processes that have reported theirs. The
 * log has a line about its own, once one can be written again. */
uint64_t log_errors(void);
void log_add_errors(uint64_t n);

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

/* Appends lines that another process wrote. Lines that cannot be written are counted. */
void log_file_append(const char *lines, size_t n);
