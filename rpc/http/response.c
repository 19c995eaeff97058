/* Writes status lines and events. */
#include "rpc/http/response.h"

#include <string.h>

#include "base/cleanup.h"

static const struct {
        int status;
        const char *reason;
} reasons[] = {
        {200, "OK"},
        {202, "Accepted"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
};

/* "OK" for 200; "" for a status that is not sent. */
static const char *reason_of(int status)
{
        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
                if (reasons[i].status == status)
                        return reasons[i].reason;
        }
        return "";
}

int http_append_status(struct buffer *to, int status)
{
        return buffer_printf(to, "HTTP/1.1 %d %s\r\n", status, reason_of(status));
}

static int append_data(struct buffer *to, const char *data, size_t n)
{
        const char *end = data + n;
        int r = 0;

        if (n > 0 && end[-1] == '\n')
                end--;
        do {
                const char *newline = data < end ? memchr(data, '\n', (size_t)(end - data)) : NULL;
                const char *line_end = newline ? newline : end;
                r = buffer_append(to, "data: ", 6);
                if (r >= 0)
                        r = buffer_append(to, data, (size_t)(line_end - data));
                if (r >= 0)
                        r = buffer_append(to, "\n", 1);
                data = line_end + 1;
        } while (r >= 0 && data <= end && n > 0);
        return r;
}

int sse_append_event(struct buffer *to, const char *id, const char *name, unsigned retry_ms,
                     const char *data, size_t n)
{
        int r = name ? buffer_printf(to, "event: %s\n", name) : 0;

        if (r >= 0 && id)
                r = buffer_printf(to, "id: %s\n", id);
        if (r >= 0 && retry_ms > 0)
                r = buffer_printf(to, "retry: %u\n", retry_ms);
        if (r >= 0)
                r = append_data(to, data, n);
        return r < 0 ? r : buffer_append(to, "\n", 1);
}
