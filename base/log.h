/*
 * The log: one line an event on standard error. Top-level handlers log, libraries return errors.
 *
 * Text that came from outside is made harmless here: control characters are shown as \xNN, so that
 * a peer can neither forge a line nor drive a terminal.
 */
#pragma once

enum log_level {
        LOG_LEVEL_ERROR,
        LOG_LEVEL_WARNING,
        LOG_LEVEL_INFO,
        LOG_LEVEL_DEBUG,
        LOG_LEVEL_MAX
};

/* What is more talkative than level is not written. The default is LOG_LEVEL_WARNING. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* A level by its name (error, warning, info, debug); negative when there is none. */
int log_level_from_name(const char *name);
const char *log_level_name(enum log_level level);

/* The program's name, which starts each line; a literal. */
void log_set_name(const char *name);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
