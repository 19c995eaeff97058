/*
 * One line of the log as bytes, or one entry of journald's native protocol (systemd, "Native Journal Protocol").
 *
 * Nothing that a peer has named can begin another line, member or field: in lines its control characters are
 * escaped, and an entry has a value with a newline in the form that begins with its length.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level {
        LOG_LEVEL_ERROR,
        LOG_LEVEL_WARNING,
        LOG_LEVEL_INFO,
        LOG_LEVEL_DEBUG,
        LOG_LEVEL_MAX
};

enum log_format {
        LOG_FORMAT_TEXT,
        LOG_FORMAT_JSON,
        LOG_FORMAT_PLAIN,
        LOG_FORMAT_JOURNAL,
        LOG_FORMAT_MAX
};

/* A level by its name (error, warning, info, debug); negative when there is none. */
int log_level_from_name(const char *name);
const char *log_level_name(enum log_level level);

/* text, json, plain or journal; negative when there is none. */
int log_format_from_name(const char *name);
const char *log_format_name(enum log_format format);

/* The owner of an event; NULL and 0: unknown or without an owner. */
struct log_ids {
        const char *session;   /* SESSION, or PRINCIPAL:SESSION: two members in JSON and journald */
        const char *principal; /* of what has no session */
        const char *client;    /* the name that it has given itself */
        const char *request;   /* JSON text of the client's id */
        uint64_t cell, call;   /* numbers in the session */
        const char *server, *tool;
        const char *trace_id; /* 32 hexadecimal digits */
};

enum log_field_kind {
        LOG_TEXT, /* any bytes; not UTF-8: U+FFFD in JSON */
        LOG_NUMBER,
        LOG_BOOL, /* number */
        LOG_JSON, /* text: valid JSON, without a newline */
        LOG_CODE, /* text that is cut if it does not fit; number 1: it was cut already */
};
enum { LOG_CODE_MAX = 8000 }; /* bytes of which it can have no more */

struct log_field {
        const char *name; /* lower case and _ */
        enum log_field_kind kind;
        const char *text;
        size_t n;
        uint64_t number;
};

struct log_record {
        const char *event;      /* its kind */
        const char *message_id; /* of journald (sd-id128): 32 hexadecimal digits */
        const struct log_field *fields;
        size_t n;
        bool may_wait; /* it may be lost if the process is killed within LOG_WAIT_MS (base/log.h) */
};

enum {
        LOG_LINE_MAX = 4096,   /* bytes: a pipe takes PIPE_BUF bytes atomically (pipe(7)) */
        LOG_RECORD_MAX = 8192, /* of the line of a record */
};

struct log_line {
        size_t n, most;
        char text[LOG_RECORD_MAX];
};

/* The values that are the same in all lines of a process. */
struct log_source {
        const char *program;
        const char *node; /* or "" */
};

struct log_message {
        enum log_level level;
        const struct log_ids *ids;       /* or NULL */
        const struct log_record *record; /* or NULL */
        const char *text;                /* without control characters */
};

/* Writes the line with its newline, or the entry. A field that does not fit is left out; the message is cut, and so is a
 * field of LOG_CODE. */
void log_line_make(struct log_line *line, enum log_format format, const struct log_source *source,
                   const struct log_message *message);
