/* Payloads of frames from a worker. */
#include "supervisor/session/channel/frame-body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/session/cell/cell-result.h"

/* An object of a frame has a handful of members; each is looked up by going through all of them. */
enum { MEMBERS_MAX = 64 };

struct frame_job {
        struct background_job job; /* first */
        struct frame_header header;
        struct buffer payload;
        struct frame_body body;
        int r;
        struct error err;
        void (*done)(void *data, struct frame_body *body, int r, struct error *err);
        void *data;
};

void frame_body_done(struct frame_body *body)
{
        shared_text_unref(body->arguments);
        background_free(body->text, body->n);
        background_free_json(body->doc);
        *body = (struct frame_body){};
}

static int check_root(const struct frame_header *header, yyjson_val *root, struct error *err)
{
        const char *name = frame_type_name(header->type);

        if (!yyjson_is_obj(root))
                return error_set(err, EBADMSG, "%s: no object", name);
        if (yyjson_obj_size(root) > MEMBERS_MAX)
                return error_set(err, EBADMSG,
                                 "%s: an object of %zu members, at most %d are allowed", name,
                                 yyjson_obj_size(root), MEMBERS_MAX);
        return 0;
}

int frame_body_parse(struct frame_body *body, const struct frame_header *header, yyjson_val **ret,
                     struct error *err)
{
        int r = 0;

        if (!body->doc) {
                r = json_parse(body->bytes, header->length, &body->doc, err);
                if (r < 0)
                        return error_context(err, "%s", frame_type_name(header->type));
                body->values = yyjson_doc_get_val_count(body->doc);
        }
        *ret = yyjson_doc_get_root(body->doc);
        return check_root(header, *ret, err);
}

/* The arguments of a call are written here, because that takes as long as parsing them. */
static int write_arguments(struct frame_job *job, yyjson_val *root)
{
        yyjson_val *arguments = yyjson_obj_get(root, "arguments");
        char *text = NULL;
        size_t n = 0;

        if (job->header.type != FRAME_CALL || !yyjson_is_obj(arguments))
                return 0;
        if (json_check_names(root, NULL, &job->body.names) < 0)
                return 0;
        int r = json_write(arguments, &text, &n);
        if (r >= 0)
                job->body.arguments = shared_text_new(text, n);
        return job->body.arguments ? 0 : error_errno(&job->err, r < 0 ? -r : ENOMEM, "CALL");
}

/* The content of a display is checked and copied here for the same reason. */
static int copy_display(struct frame_job *job, yyjson_val *root)
{
        struct display_view view;

        if (job->header.type != FRAME_DISPLAY)
                return 0;
        int r = display_check(root, &view, &job->err);
        return r < 0 ? r : display_copy(&view, &job->body.text, &job->err);
}

static void run(struct background_job *background)
{
        struct frame_job *job = (void *)background;
        yyjson_val *root = NULL;

        job->r = frame_body_parse(&job->body, &job->header, &root, &job->err);
        if (job->r >= 0)
                job->r = write_arguments(job, root);
        if (job->r >= 0)
                job->r = copy_display(job, root);
        job->body.values = 0;
        job->body.bytes = NULL;
        buffer_done(&job->payload);
}

static void free_job(struct background_job *background)
{
        struct frame_job *job = (void *)background;

        frame_body_done(&job->body);
        buffer_done(&job->payload);
        free(job);
}

static void finish(struct background_job *background)
{
        struct frame_job *job = (void *)background;

        job->done(job->data, &job->body, job->r, &job->err);
        free_job(background);
}

struct frame_job *frame_job_start(
        struct event_base *base, const struct frame_header *header, struct buffer *payload,
        void (*done)(void *data, struct frame_body *body, int r, struct error *err), void *data)
{
        static const struct background_kind kind = {run, finish, free_job};
        struct frame_job *job = calloc(1, sizeof(*job));

        if (!job)
                return NULL;
        job->header = *header;
        job->payload = *payload;
        *payload = (struct buffer)BUFFER_INIT(payload->limit);
        job->body = (struct frame_body){.bytes = buffer_bytes(&job->payload),
                                        .n = job->payload.length};
        job->done = done;
        job->data = data;
        background_start(&job->job, &kind, base);
        return job;
}

struct frame_job *frame_job_cancel(struct frame_job *job)
{
        if (job)
                background_cancel(&job->job);
        return NULL;
}
