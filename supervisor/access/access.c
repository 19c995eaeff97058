/* The answers of cloister-access. */
#include "supervisor/access/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"

static const char variable[] = "CLOISTER_ACCESS";

int access_init(struct access *a, struct error *err)
{
        const char *text = getenv(variable);

        *a = (struct access){};
        if (!text)
                return error_set(err, EINVAL, "cloister-access is started by Cloister");
        int r = json_parse(text, strlen(text), &a->doc, err);
        if (r < 0)
                return r;
        unsetenv(variable);
        yyjson_val *entry = yyjson_doc_get_root(a->doc);
        a->name = json_string(entry, "name", NULL);
        a->url = json_string(entry, "url", NULL);
        if (!a->name || !a->url)
                return error_set(err, EINVAL, "%s has no name or no url", variable);
        return 0;
}

void access_done(struct access *a)
{
        yyjson_doc_free(a->doc);
}

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

int access_append_answer(struct access *a, bool is_renewed, struct buffer *to)
{
        yyjson_val *headers = yyjson_obj_get(yyjson_doc_get_root(a->doc), "headers"), *header;
        struct json_out out = {.to = to};
        size_t i, n;

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "url", a->url);
        json_out_begin(&out, "headers", '[');
        yyjson_arr_foreach (headers, i, n, header)
                json_out_text(&out, NULL, yyjson_get_str(header));
        json_out_end(&out, ']');
        if (*a->token)
                json_out_text(&out, "token", a->token);
        a->n_tokens += *a->token != '\0';
        if (is_renewed)
                json_out_bool(&out, "renewed", true);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append_text(to, "\n");
}
