/* Checks of the url and the headers of a server. */
#include "policy/config/http.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Cloister sets these itself, or they would change how the request is read. */
static const char *const own_headers[] = {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        NULL,
};

/* A token of RFC 9110, 5.6.2. */
static bool is_header_name(const char *name)
{
        if (!*name)
                return false;
        for (; *name; name++) {
                if (!isalnum((unsigned char)*name) && !strchr("!#$%&'*+-.^_`|~", *name))
                        return false;
        }
        return true;
}

static bool is_own_header(const char *name)
{
        if (strncasecmp(name, "mcp-", 4) == 0)
                return true;
        for (const char *const *own = own_headers; *own; own++) {
                if (strcasecmp(name, *own) == 0)
                        return true;
        }
        return false;
}

bool config_header_value_valid(const char *value)
{
        for (; *value; value++) {
                if ((unsigned char)*value < ' ' && *value != '\t')
                        return false;
                if (*value == 0x7f)
                        return false;
        }
        return true;
}

const char *config_header_fault(const char *name)
{
        if (!is_header_name(name))
                return "cannot be a header's name";
        return is_own_header(name) ? "is set by Cloister" : NULL;
}

const char *config_url_fault(const char *url)
{
        size_t scheme = strcspn(url, ":");

        /* The value of a variable is checked when it is expanded. */
        if (url[0] == '$')
                return NULL;
        if (!(scheme == 4 && strncasecmp(url, "http", 4) == 0) &&
            !(scheme == 5 && strncasecmp(url, "https", 5) == 0))
                return "must begin with https:// or http://";
        if (strncmp(url + scheme, "://", 3) != 0 || strchr("/?#", url[scheme + 3]))
                return "has no host";
        if (strchr(url, '#'))
                return "has a fragment (#), which is never sent: remove it";
        for (const char *p = url; *p; p++) {
                if ((unsigned char)*p <= ' ' || *p == 0x7f)
                        return "has a blank or a control character";
        }
        return NULL;
}
