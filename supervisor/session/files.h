/*
 * Files of a session's /workspace, read and written through its worker: FETCH and PUT out, DATA in.
 *
 * The worker answers when its code lets it, between cells or while a cell awaits something; who
 * asks waits FILES_WAIT_MS and is told that the session is busy. What the worker says is its word:
 * its form, its amount and that it was asked for are checked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "rpc/frame.h"
#include "supervisor/session/cell.h"

struct session;
struct file_request;

enum {
        FILES_CHUNK = 1024 * 1024, /* bytes of one FETCH or PUT */
        FILES_READ_MAX = 64 * 1024 * 1024,
        FILES_LIST_MAX = 10000,
        FILES_WAIT_MS = 10000,
        FILES_REQUESTS_MAX = 64, /* under way in one session */
        FILES_VERSION_MAX = 127,
};

/* A session's requests that are under way, oldest first. */
struct files {
        struct file_request *first;
        size_t n;
        uint64_t last_number;
};

/* What a worker answered; valid until the function that gets it returns. */
struct file_answer {
        struct buffer data;                  /* of a FETCH */
        uint64_t size;                       /* of the whole file, now */
        bool eof;                            /* data reaches its end */
        char version[FILES_VERSION_MAX + 1]; /* another one: the file has changed */
        struct cell_file *files;             /* of a list */
        size_t n_files, files_total;
};

/* What was asked for. */
struct file_question {
        uint8_t type; /* FRAME_FETCH or FRAME_PUT */
        bool is_list;
        size_t length; /* most bytes of the answer */
};

/* Takes the payload of a DATA. Returns 1 with an answer, to be ended with file_answer_done(), 0
 * when the worker says no (refusal tells, in one line), -EBADMSG or -ENOMEM. */
int file_answer_take(const struct file_question *question, const char *payload, size_t n,
                     struct file_answer *ret, struct error *refusal, struct error *err);
void file_answer_done(struct file_answer *answer);

/* error is NULL, or tells why there is no answer. Called exactly once, never from inside the
 * function that asked; when the sessions are freed, too. */
typedef void files_done_fn(void *data, const struct file_answer *answer, const struct error *error);

/* Each asks the worker of a session: 0, or negative errno when nobody can be asked. Paths are
 * relative to /workspace (base/file-path.h); the list is that of /workspace/out. */
int files_fetch(struct session *session, const char *path, uint64_t offset, size_t length,
                files_done_fn *done, void *data, struct error *err);
int files_list(struct session *session, files_done_fn *done, void *data, struct error *err);
int files_put(struct session *session, const char *path, uint64_t offset, const void *bytes,
              size_t n, files_done_fn *done, void *data, struct error *err);

/* Handler of the frame table. */
int files_on_data(struct session *session, const struct frame_header *header, const char *payload,
                  struct error *err);

/* The sandbox is gone: whoever waits is told so. */
void files_fail_all(struct session *session, const char *why);
