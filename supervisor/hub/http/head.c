/* The lines of a response's head. */
#include "supervisor/hub/http/head.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The value of a header of this name, or NULL. The line ends with \r\n. */
static const char *header_value(const char *line, size_t n, const char *name, size_t *length)
{
        size_t skip = strlen(name);

        if (n <= skip || line[skip] != ':' || strncasecmp(line, name, skip) != 0)
                return NULL;
        line += skip + 1;
        n -= skip + 1;
        while (n > 0 && (*line == ' ' || *line == '\t')) {
                line++;
                n--;
        }
        while (n > 0 && isspace((unsigned char)line[n - 1]))
                n--;
        *length = n;
        return line;
}

static void take_content_type(struct exchange_head *head, const char *value, size_t n)
{
        const char *end = memchr(value, ';', n);

        n = end ? (size_t)(end - value) : n;
        while (n > 0 && value[n - 1] == ' ')
                n--;
        if (n > EXCHANGE_CONTENT_TYPE_MAX)
                n = EXCHANGE_CONTENT_TYPE_MAX;
        for (size_t i = 0; i < n; i++)
                head->content_type[i] = (char)tolower((unsigned char)value[i]);
        head->content_type[n] = '\0';
}

/* "It MUST only contain visible ASCII characters" (2025-11-25, "Session Management"). */
static void take_session(struct exchange_head *head, const char *value, size_t n)
{
        head->session_is_bad = n == 0 || n > EXCHANGE_SESSION_MAX;
        for (size_t i = 0; i < n && !head->session_is_bad; i++)
                head->session_is_bad = value[i] <= ' ' || value[i] > '~';
        if (head->session_is_bad)
                n = 0;
        memcpy(head->session, value, n);
        head->session[n] = '\0';
}

static void take_challenge(struct exchange_head *head, const char *value, size_t n)
{
        size_t before = strlen(head->challenge);
        const char *comma = before > 0 ? ", " : "";

        if (before + strlen(comma) + n > EXCHANGE_CHALLENGE_MAX || memchr(value, '\0', n))
                return;
        snprintf(head->challenge + before, sizeof(head->challenge) - before, "%s%.*s", comma,
                 (int)n, value);
}

static void take_header(struct exchange_head *head, const char *line, size_t n)
{
        const char *value;
        size_t length;

        if ((value = header_value(line, n, "content-type", &length)))
                take_content_type(head, value, length);
        else if ((value = header_value(line, n, "mcp-session-id", &length)))
                take_session(head, value, length);
        else if ((value = header_value(line, n, "www-authenticate", &length)))
                take_challenge(head, value, length);
        else if (header_value(line, n, "location", &length))
                head->is_redirect = head->status / 100 == 3;
}

/* "HTTP/1.1 200 OK": of the response, of a 1xx before it, or of a proxy. */
static void begin(struct exchange_head *head, const char *line, size_t n)
{
        char text[32] = "";

        memcpy(text, line, n < sizeof(text) ? n : sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        const char *status = strchr(text, ' ');
        *head = (struct exchange_head){.status = status ? atoi(status + 1) : 0,
                                       .bytes = head->bytes};
}

int exchange_head_line(struct exchange_head *head, const char *line, size_t n)
{
        head->bytes += n;
        if (head->bytes > EXCHANGE_HEADERS_MAX)
                return -EMSGSIZE;
        if (head->is_whole) /* a trailer */
                return 0;
        if (n >= 5 && strncmp(line, "HTTP/", 5) == 0)
                begin(head, line, n);
        else if (n <= 2 && n > 0 && (line[0] == '\r' || line[0] == '\n'))
                head->is_whole = head->status >= 200;
        else
                take_header(head, line, n);
        return head->is_whole;
}
