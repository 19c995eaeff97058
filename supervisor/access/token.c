/* Finds the token of a server: in a file, from a command, or of a login. */
#include "supervisor/access/token.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/access/command.h"
#include "supervisor/access/oauth.h"

static int read_file(const char *path, char *to, size_t size, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return error_errno(err, errno, "token: open %s", path);
        ssize_t n = fd_read_full(fd, to, size);
        if (n < 0)
                return error_errno(err, (int)-n, "token: read %s", path);
        if ((size_t)n == size)
                return error_set(err, EFBIG, "token: %s is longer than %d KiB", path,
                                 ACCESS_TOKEN_MAX / 1024);
        to[n] = '\0';
        to[strcspn(to, "\r\n")] = '\0';
        return 0;
}

/* b64token of RFC 6750, 2.1, and what services use besides: printable ASCII. */
static bool is_token(const char *text)
{
        if (!*text)
                return false;
        for (; *text; text++) {
                if (*text <= ' ' || *text > '~')
                        return false;
        }
        return true;
}

int access_find_token(struct access *a, const struct access_refusal *refusal, struct error *err)
{
        yyjson_val *entry = yyjson_doc_get_root(a->doc);
        yyjson_val *command = yyjson_obj_get(entry, "token_command");
        const char *file = json_string(entry, "token_file", NULL);
        char token[sizeof(a->token)];
        int r;

        a->renew_s = -1;
        if (!file && !command)
                return access_oauth_token(a, refusal, err);
        if (file)
                r = read_file(file, token, sizeof(token), err);
        else
                r = access_run(command, "", ACCESS_COMMAND_MS, token, sizeof(token), err);
        if (r < 0)
                return r;
        if (!is_token(token))
                return error_set(err, EINVAL, "token: %s%s no token",
                                 file ? file : "the command printed", file ? " has" : "");
        if (refusal && strcmp(token, a->token) == 0)
                return error_set(err, EACCES, "refuses the token of its entry (HTTP status %d)",
                                 refusal->status);
        memcpy(a->token, token, sizeof(token));
        return 1;
}
