/*
 * The token of a server that asks for a login: cloister-oauth has it (supervisor/oauth/refresh.h says
 * what it reads and writes). It is a separate program, so that refresh tokens are in no process that
 * lives long.
 */
#include "supervisor/access/oauth.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/json-out.h"
#include "base/path.h"
#include "base/program.h"
#include "supervisor/access/command.h"

enum {
        INPUT_MAX = 4096, /* access_run() */
        ANSWER_MAX = 32 * 1024,
};

/* Without a stored login no process is started. */
static bool has_logins(void)
{
        char path[PATH_MAX];

        return path_in_user_directory("XDG_STATE_HOME", ".local/state", "cloister/oauth", path,
                                      sizeof(path)) == 0 &&
               access(path, F_OK) == 0;
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
        _cleanup_buffer_ struct buffer request = BUFFER_INIT(INPUT_MAX),
                                       words = BUFFER_INIT(2 * PATH_MAX);
        _cleanup_json_ yyjson_doc *argv = NULL;
        struct json_out out = {.to = &words};
        char path[PATH_MAX];

        int r = program_path("cloister-oauth", path, sizeof(path), err);
        if (r < 0)
                return r;
        json_out_begin(&out, NULL, '[');
        json_out_text(&out, NULL, path);
        json_out_text(&out, NULL, "refresh");
        json_out_end(&out, ']');
        r = out.error < 0 ? out.error : json_parse(buffer_bytes(&words), words.length, &argv, err);
        if (r >= 0)
                r = write_request(a, refusal, true, &request);
        if (r == -EMSGSIZE) {
                buffer_consume(&request, request.length);
                r = write_request(a, refusal, false, &request);
        }
        if (r < 0)
                return error_errno(err, -r, "token");
        return access_run(yyjson_doc_get_root(argv), buffer_bytes(&request), ACCESS_COMMAND_MS,
                          answer, size, err);
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

int access_oauth_token(struct access *a, const struct access_refusal *refusal, struct error *err)
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
