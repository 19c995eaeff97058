/*
 * The payload of a frame from a worker, as its handler gets it. A large one was parsed in the
 * background (rpc/background.h) before.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "rpc/background.h"
#include "rpc/frame.h"
#include "rpc/memory-account.h"

struct frame_body {
        const char *bytes; /* header.length of them; NULL: parsed already */
        size_t n;
        yyjson_doc *doc;               /* owned; NULL: not parsed yet. A handler may take it */
        struct shared_text *arguments; /* of a large CALL; owned */
        char *text;                    /* of a large DISPLAY what it shows, checked; owned */
        size_t values;                 /* of the document, when it was parsed in the loop */
        struct error names;            /* of a large CALL: -ENOTUNIQ of json_check_names() */
};

void frame_body_done(struct frame_body *body);

/* The root of the document, which must be an object. The error names the frame. */
int frame_body_parse(struct frame_body *body, const struct frame_header *header, yyjson_val **ret,
                     struct error *err);

/* A large frame that is parsed in the background. */
struct frame_job;

/* Takes the payload out of the buffer. done() gets the body, which it owns, or the error; the job is
 * gone then. NULL: out of memory. */
struct frame_job *frame_job_start(
        struct event_base *base, const struct frame_header *header, struct buffer *payload,
        void (*done)(void *data, struct frame_body *body, int r, struct error *err), void *data);
/* done() is not called. NULL is allowed. Returns NULL. */
struct frame_job *frame_job_cancel(struct frame_job *job);
