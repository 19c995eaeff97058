/* Names of servers that people misspell. */
#include "policy/rules/server-names.h"

#include <errno.h>
#include <string.h>

#include "policy/did-you-mean.h"

int server_names_unknown(const char *what, const char *name, const char *const *names,
                         struct error *err)
{
        /* "mcp_files" is what code calls server "files", and clients call its tools "mcp__files__…". */
        const char *plain = strncmp(name, "mcp_", 4) == 0 ? name + 4 : name;

        plain += plain != name && *plain == '_';
        const char *meant = did_you_mean(plain, names);
        return meant ? error_set(err, EINVAL, "%sthere is no server \"%s\"; did you mean \"%s\"?",
                                 what, name, meant)
                     : error_set(err, EINVAL, "%sthere is no server \"%s\"", what, name);
}
