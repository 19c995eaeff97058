/* A request of a session, checked, and as the server gets it. */
#pragma once

#include "rpc/http/request.h"
#include "supervisor/inject/session.h"

enum { FORWARD_MAX = 2 * 1024 * 1024 + 256 * 1024 };

/* A body of which a part was sent. Embedded; all zero: none. buffer_done(&held) frees it. */
struct forward_stream {
        bool is_chunked;
        struct buffer held; /* bytes that are not sent yet */
};

/* Whether the head may be taken: its Host is the one that the tunnel is for. Returns 0, or -EACCES with a clause. */
int forward_check(const struct inject_host *host, const struct http_reader *reader,
                  struct error *err);
/*
 * Whether a body for the host may be passed on while it arrives: no secret may be put into it, so that its length stays. A body that gets a
 * value is read whole.
 */
bool forward_streams(const struct inject_settings *settings, size_t host);

/*
 * Appends the request with values instead of placeholders. A compressed answer is not asked for; what is between two peers is left out.
 * stream: NULL: the request was read whole, and its body gets a Content-Length, however it was sent. Otherwise only the head is appended, with
 * the framing that the client has chosen, and forward_more() follows. Returns 0; -EACCES: a placeholder is where it must not be, and the error is a
 * clause; -EMSGSIZE, -ENOMEM.
 */
int forward_append(const struct inject_session *session, size_t host,
                   const struct http_reader *reader, struct forward_stream *stream,
                   struct buffer *to, struct error *err);

/* Takes what the reader has of the body. All of it but the last bytes, in which a placeholder may begin, is appended; once the reader is DONE, also
 * these, and the end of the body. Returns 0, or an error as above. */
int forward_more(const struct inject_session *session, size_t host, struct http_reader *reader,
                 struct forward_stream *stream, struct buffer *to, struct error *err);
