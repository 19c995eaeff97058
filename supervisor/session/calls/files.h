/*
 * Files of a session's /workspace, read and written through its worker: FETCH and PUT out, DATA in.
 *
 * The worker answers between cells or while a cell awaits something. A request that is not answered
 * within FILES_WAIT_MS fails because the session is busy. The worker is not trusted: the format and
 * length of each answer are checked, and that it was requested.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "rpc/frame.h"
#include "supervisor/session/cell/cell.h"
#include "supervisor/session/channel/frame-body.h"

struct session;
struct file_request;

enum {
        FILES_CHUNK = 1024 * 1024, /* bytes of one FETCH or PUT */
        FILES_READ_MAX = 64 * 1024 * 1024,
        FILES_LIST_MAX = 10000,
        FILES_WAIT_MS = 10000,
        FILES_REQUESTS_MAX = 64, /* pending in one session */
        FILES_VERSION_MAX = 127,
        FILES_KIND_MAX = 15,
};

/* The pending requests of a session, oldest first. */
struct files {
        struct file_request *first;
        size_t n;
        uint64_t last_number;
};

/* A worker's answer; valid until the callback returns. */
struct file_answer {
        struct buffer data;                  /* of a FETCH */
        uint64_t size;                       /* of the whole file, now */
        bool eof;                            /* data reaches its end */
        char version[FILES_VERSION_MAX + 1]; /* differs when the file has changed */
        char kind[FILES_KIND_MAX + 1];       /* of a list: directory, file, other or absent */
        struct cell_file *files;             /* of a list */
        size_t n_files, files_total;
};

/* The request that a DATA answers. */
struct file_question {
        uint8_t type; /* FRAME_FETCH or FRAME_PUT */
        bool is_list, has_kind;
        size_t length; /* most bytes of the answer */
};

/* Takes a DATA. Returns 1 with an answer (free it with file_answer_done()), 0 if the
 * worker reports an error (in refusal, one line), -EBADMSG or -ENOMEM. */
int file_answer_take(const struct file_question *question, yyjson_val *root,
                     struct file_answer *ret, struct error *refusal, struct error *err);
void file_answer_done(struct file_answer *answer);

/* error is NULL, or says why there is no answer. Called exactly once, also when the sessions are
 * freed; never from inside the function that made the request. */
typedef void files_done_fn(void *data, const struct file_answer *answer, const struct error *error);

/* Each sends a request to the worker of a session. Returns 0, or negative errno if the session has
 * no usable worker. Paths are relative to /workspace. The list is that of a directory, whose files are then relative to it,
 * or with NULL of /workspace/out. */
int files_fetch(struct session *session, const char *path, uint64_t offset, size_t length,
                files_done_fn *done, void *data, struct error *err);
int files_list(struct session *session, const char *path, files_done_fn *done, void *data,
               struct error *err);
/* A piece of a file that is written. */
struct file_put {
        const char *path;
        uint64_t offset;
        const void *bytes;
        size_t n;
        const char *to; /* its name from now on, which replaces a file; NULL: it keeps its name */
        bool discard;   /* removes it instead */
};
int files_put(struct session *session, const struct file_put *put, files_done_fn *done, void *data,
              struct error *err);

/* One of content and error is NULL. content may be taken over. */
typedef void files_read_fn(void *data, struct buffer *content, const struct error *error);

/*
 * Reads a file of at most `most` bytes (FILES_READ_MAX at most) below /workspace/out, in pieces. session: NULL if none
 * has this name. Returns 0, or negative errno: no such session, an invalid path, too many requests. done is called
 * exactly once after 0, never from inside this function.
 */
int files_read(struct session *session, const char *name, const char *path, size_t most,
               files_read_fn *done, void *data, struct error *err);

/* Handler of DATA frames. */
int files_on_data(struct session *session, const struct frame_header *header,
                  struct frame_body *body, struct error *err);

/* Fails all pending requests because the sandbox has ended. */
void files_fail_all(struct session *session, const char *why);
