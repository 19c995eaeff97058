/*
 * The entry of a server, the answers about it, and its token: from a file, from a command, or of a login.
 *
 * The token of a login comes from cloister-oauth (supervisor/oauth/refresh.h has what it reads and writes). It is a
 * separate program, so that refresh tokens are in no process that lives long.
 */
#include "supervisor/access/access.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/places.h"
#include "base/program.h"

enum {
        COMMAND_MS = 30000,
        INPUT_MAX = 4096, /* access_run() */
        ANSWER_MAX = 32 * 1024,
};

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

/* Without a stored login no process is started. */
static bool has_logins(void)
{
        char path[PATH_MAX];

        return place_state("oauth", path, sizeof(path)) == 0 && access(path, F_OK) == 0;
}

/* A header of the config is the token then. */
static bool has_authorization(const struct access *a)
{
        yyjson_val *headers = yyjson_obj_get(yyjson_doc_get_root(a->doc), "headers"), *header;
        size_t i, n;

        yyjson_arr_foreach (headers, i, n, header)
                if (strncasecmp(yyjson_get_str(header), "authorization:", 14) == 0)
                        return true;
        return false;
}

static int write_request(const struct access *a, const struct access_refusal *refusal,
                         bool challenge, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", a->name);
        json_out_text(&out, "url", a->url);
        if (refusal)
                json_out_int(&out, "status", refusal->status);
        if (refusal && challenge)
                json_out_text(&out, "challenge", refusal->challenge);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(to, "", 1);
}

static int run(const struct access *a, const struct access_refusal *refusal, char *answer,
               size_t size, struct error *err)
{
        _cleanup_buffer_ struct buffer request = BUFFER_INIT(INPUT_MAX);
        char path[PATH_MAX], verb[] = "refresh", *const argv[] = {path, verb, NULL};

        int r = program_path("cloister-oauth", path, sizeof(path), err);
        if (r < 0)
                return r;
        r = write_request(a, refusal, true, &request);
        if (r == -EMSGSIZE) {
                buffer_consume(&request, request.length);
                r = write_request(a, refusal, false, &request);
        }
        if (r < 0)
                return error_errno(err, -r, "token");
        const struct access_command command = {"token", argv, buffer_bytes(&request), COMMAND_MS};
        return access_run(&command, answer, size, err);
}

static int take_answer(struct access *a, const struct access_refusal *refusal, const char *text,
                       struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        size_t n = 0;

        int r = json_parse(text, strlen(text), &doc, err);
        if (r < 0)
                return error_context(err, "token: cloister-oauth");
        yyjson_val *root = yyjson_doc_get_root(doc);
        const char *token = json_string(root, "token", &n);
        const char *why = json_string(root, "error", NULL);
        bool needs_login = yyjson_get_bool(yyjson_obj_get(root, "login"));
        if (why && !needs_login)
                a->renew_s = 0;
        if (!token)
                return why ? error_set(err, EACCES, "%s", why) : 0;
        if (json_int64(yyjson_obj_get(root, "renew"), &a->renew_s) < 0)
                a->renew_s = -1;
        if (n >= sizeof(a->token))
                return error_set(err, EMSGSIZE, "token: it is longer than %d KiB",
                                 ACCESS_TOKEN_MAX / 1024);
        if (refusal && strcmp(token, a->token) == 0)
                return error_set(err, EACCES, "refuses the token of its login (HTTP status %d)",
                                 refusal->status);
        memcpy(a->token, token, n + 1);
        return 1;
}

static int find_login(struct access *a, const struct access_refusal *refusal, struct error *err)
{
        char answer[ANSWER_MAX];

        if ((!refusal && !has_logins()) || has_authorization(a))
                return 0;
        int r = run(a, refusal, answer, sizeof(answer), err);
        if (r >= 0)
                r = take_answer(a, refusal, answer, err);
        explicit_bzero(answer, sizeof(answer));
        return r;
}

static int run_command(yyjson_val *list, char *to, size_t size, struct error *err)
{
        size_t n = yyjson_arr_size(list), i;
        _cleanup_free_ char **argv = calloc(n + 1, sizeof(char *));
        yyjson_val *item;

        if (!argv)
                return error_errno(err, ENOMEM, "token");
        yyjson_arr_foreach (list, i, n, item)
                argv[i] = (char *)(uintptr_t)yyjson_get_str(item);
        const struct access_command command = {"token", argv, "", COMMAND_MS};
        return access_run(&command, to, size, err);
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

        a->renew_s = -1;
        if (!file && !command)
                return find_login(a, refusal, err);
        int r = file ? read_file(file, token, sizeof(token), err)
                     : run_command(command, token, sizeof(token), err);
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
