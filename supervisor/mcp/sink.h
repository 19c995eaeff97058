/*
 * Where messages to a client go: standard output, or the response to one HTTP request.
 *
 * A sink is counted. Each reply and each batch that is still to be answered holds one reference, so
 * that release() means that no message can follow.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum { RESULT_MAX = 512 * 1024 * 1024 }; /* bytes of a message, or of a result in it */

struct json_out;
struct mcp_sink;
struct service_refusal;

/* A whole JSON-RPC message, with its newline. */
struct mcp_message {
        const char *bytes;
        size_t n;
        bool answers; /* a request or a batch: it is the last one for that */
        int code;     /* of the error that it answers with, else 0 */
        const struct service_refusal *refusal; /* the call was not begun; or NULL */
};

struct mcp_sink_calls {
        /* A call that is refused gets an error of the protocol, so that it can be sent elsewhere, and not a result. */
        bool has_refusals;
        void (*send)(struct mcp_sink *sink, const struct mcp_message *message);
        /* A request or a batch was cancelled and gets no answer; NULL: the client does not wait for it. */
        void (*unanswered)(struct mcp_sink *sink);
        /* Whether many bytes wait to be written; NULL: never. */
        bool (*congested)(const struct mcp_sink *sink);
        /* Whether a request to the client reaches it; NULL: always. */
        bool (*takes_requests)(const struct mcp_sink *sink);
        /* The next answer is about this session, whose name is valid; NULL: the transport has no place for it. */
        void (*names_session)(struct mcp_sink *sink, const char *session);
        /* After the last reference was dropped; NULL: the owner outlives all references. */
        void (*release)(struct mcp_sink *sink);
};

struct mcp_sink {
        const struct mcp_sink_calls *calls;
        unsigned refs; /* begins at 1, the owner's */
};

static inline struct mcp_sink *mcp_sink_ref(struct mcp_sink *sink)
{
        if (sink)
                sink->refs++;
        return sink;
}

static inline struct mcp_sink *mcp_sink_unref(struct mcp_sink *sink)
{
        if (sink && --sink->refs == 0 && sink->calls->release)
                sink->calls->release(sink);
        return NULL;
}

static inline bool mcp_sink_congested(const struct mcp_sink *sink)
{
        return sink && sink->calls->congested && sink->calls->congested(sink);
}

/* Sends a whole message; answers, code: as in struct mcp_message. sink: NULL: there is no client any more. */
void mcp_sink_send(struct mcp_sink *sink, const struct buffer *message, bool answers, int code);
/* The answer of a call is about this session (a valid name). Call it before anything is sent. */
void mcp_sink_name_session(struct mcp_sink *sink, const char *session);
/* Sends the answer to a call that was refused. */
void mcp_sink_refuse(struct mcp_sink *sink, const struct buffer *message,
                     const struct service_refusal *refusal);
/* A request or a batch gets no answer. */
void mcp_sink_unanswered(struct mcp_sink *sink);
/* Ends the object that out has begun, and sends it as params, unless it could not be made. */
void mcp_sink_notify_out(struct mcp_sink *sink, const char *method, struct json_out *out);
/* params: a JSON object, or NULL. */
void mcp_sink_notify(struct mcp_sink *sink, const char *method, const struct buffer *params);
