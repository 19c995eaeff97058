/* Writes RETURN frames. */
#include "supervisor/session/channel/answer.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

/* {"ok": false, "error": {…}} */
static int append_error(struct buffer *b, const struct answer_error *error, yyjson_val *data)
{
        int r = buffer_printf(b,
                              "{\"ok\":false,\"error\":{\"kind\":\"%s\",\"message\":", error->kind);

        if (r >= 0)
                r = json_append_string(b, error->message, strlen(error->message));
        if (r >= 0 && error->code != 0)
                r = buffer_printf(b, ",\"code\":%lld", (long long)error->code);
        if (r >= 0 && data) {
                r = buffer_append(b, ",\"data\":", 8);
                if (r >= 0)
                        r = json_append(b, data);
        }
        return r < 0 ? r : buffer_append(b, "}}", 2);
}

void answer_error(struct channel *channel, uint64_t number, const struct answer_error *error)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(FRAME_PAYLOAD_MAX);

        int r = append_error(&b, error, error->data);
        if (r < 0 && error->data) {
                buffer_consume(&b, b.length);
                r = append_error(&b, error, NULL);
        }
        if (r >= 0)
                r = channel_send(channel, FRAME_RETURN, number, buffer_bytes(&b), b.length);
        if (r < 0 && r != -ENOTCONN)
                log_warning("session %s: an answer was dropped: %s", channel->owner.session,
                            strerror(-r));
}

void answer_refuse(struct channel *channel, uint64_t number, const char *why)
{
        answer_error(channel, number, &(struct answer_error){.kind = "ToolError", .message = why});
}

void answer_confirm(struct channel *channel, uint64_t number)
{
        answer_result(channel, number, "{}", 2);
}

int answer_result(struct channel *channel, uint64_t number, const char *text, size_t n)
{
        static char before[] = RETURN_BEFORE, after[] = RETURN_AFTER;
        const struct iovec parts[] = {
                {.iov_base = before, .iov_len = sizeof(before) - 1},
                {.iov_base = (void *)(uintptr_t)text, .iov_len = n},
                {.iov_base = after, .iov_len = sizeof(after) - 1},
        };

        return channel_send_parts(channel, FRAME_RETURN, number, parts, ARRAY_SIZE(parts));
}
