/* cloister-access: answers one line for each line of standard input, and one at the start; or one line with the values of secrets. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "supervisor/access/access.h"
#include "supervisor/access/secrets.h"

enum {
        ANSWER_MAX = 256 * 1024,
        RENEW_MIN_S = 2, /* between two renewals, whatever the authorization server says */
        RENEW_MAX_S = 24 * 3600,
        RENEW_TRIES_MAX = 5, /* of one token */
};

/* The next renewal ahead of the token's end. */
struct renewal {
        uint64_t due_ms; /* 0: none */
        unsigned tries;  /* that have failed */
};

static void plan(struct renewal *w, const struct access *a)
{
        int64_t s = a->renew_s, least = RENEW_MIN_S << w->tries;

        w->due_ms = 0;
        if (s < 0 || w->tries == RENEW_TRIES_MAX)
                return;
        if (s < least)
                s = least;
        w->due_ms = clock_ms() + (uint64_t)(s < RENEW_MAX_S ? s : RENEW_MAX_S) * 1000;
}

static int write_token(struct access *a, bool is_renewed)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(ANSWER_MAX);

        int r = access_append_answer(a, is_renewed, &line);
        return r < 0 ? r : fd_write_all(STDOUT_FILENO, buffer_bytes(&line), line.length);
}

static int renew(struct access *a, struct renewal *w)
{
        static char before[sizeof(a->token)];
        struct error err = {};

        memcpy(before, a->token, sizeof(before));
        int found = access_find_token(a, NULL, &err);
        bool is_new = found > 0 && strcmp(before, a->token) != 0;
        explicit_bzero(before, sizeof(before));
        w->tries = found < 0 || (!is_new && a->renew_s == 0) ? w->tries + 1 : 0;
        if (found < 0)
                dprintf(STDERR_FILENO, "cloister-access: the token is not renewed: %s\n", err.text);
        plan(w, a);
        return is_new ? write_token(a, true) : 0;
}

static int answer(struct access *a, const struct access_refusal *refusal)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(ANSWER_MAX);
        struct error err = {};

        int r = access_find_token(a, refusal, &err);
        if (r >= 0)
                return write_token(a, false);
        struct json_out out = {.to = &line};
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "error", err.text);
        json_out_end(&out, '}');
        buffer_append_text(&line, "\n");
        return line.error < 0 ? line.error
                              : fd_write_all(STDOUT_FILENO, buffer_bytes(&line), line.length);
}

static int answer_line(struct access *a, const char *text, size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct access_refusal refusal = {.challenge = ""};
        struct error err = {};
        int64_t status = 0, tokens = 0;

        if (json_parse(text, n, &doc, &err) < 0)
                return -EINVAL;
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (json_int64(yyjson_obj_get(root, "status"), &status) == 0)
                refusal.status = (int)status;
        /* The refused token is not the last one. */
        if (json_int64(yyjson_obj_get(root, "tokens"), &tokens) == 0 && tokens < a->n_tokens)
                return write_token(a, false);
        if (json_string(root, "challenge", NULL))
                refusal.challenge = json_string(root, "challenge", NULL);
        return answer(a, &refusal);
}

static int answer_lines(struct access *a, struct renewal *w, struct buffer *in)
{
        const char *end;

        while (in->length > 0 && (end = memchr(buffer_bytes(in), '\n', in->length))) {
                size_t length = (size_t)(end - buffer_bytes(in));
                int r = answer_line(a, buffer_bytes(in), length);
                if (r < 0)
                        return r;
                buffer_consume(in, length + 1);
                w->tries = 0;
                plan(w, a);
        }
        return 0;
}

/* Whether the renewal is due, before there is something to read. */
static bool is_due(const struct renewal *w)
{
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        uint64_t now = clock_ms();
        int ms = w->due_ms == 0 ? -1 : w->due_ms > now ? (int)(w->due_ms - now) : 0;

        return poll(&p, 1, ms) == 0;
}

/* Until the end of standard input. */
static int serve(struct access *a)
{
        _cleanup_buffer_ struct buffer in = BUFFER_INIT(ACCESS_LINE_MAX);
        struct renewal renewal = {};
        ssize_t n = 1;
        int r = 0;

        plan(&renewal, a);
        while (r >= 0 && n > 0) {
                if (is_due(&renewal)) {
                        r = renew(a, &renewal);
                        continue;
                }
                n = buffer_read_fd(&in, STDIN_FILENO, ACCESS_LINE_MAX);
                if (n > 0)
                        r = answer_lines(a, &renewal, &in);
        }
        return r < 0 ? r : (int)n;
}

/* Other processes of this user must not read them from /proc. */
static int answer_secrets(void)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(SECRETS_LINE_MAX);
        struct error err = {};

        prctl(PR_SET_DUMPABLE, 0);
        int r = secrets_read(&line, &err);
        if (r < 0)
                dprintf(STDERR_FILENO, "%s\n", err.text);
        else
                r = fd_write_all(STDOUT_FILENO, buffer_bytes(&line), line.length);
        if (line.length > 0)
                explicit_bzero(buffer_bytes(&line), line.length);
        return r < 0;
}

int main(void)
{
        static struct access a;
        struct error err = {};

        if (fd_open_standard_streams() < 0)
                return 1;
        signal(SIGPIPE, SIG_IGN);
        if (getenv(SECRETS_VARIABLE))
                return answer_secrets();
        int r = access_init(&a, &err);
        if (r < 0)
                dprintf(STDERR_FILENO, "cloister-access: %s\n", err.text);
        if (r >= 0)
                r = answer(&a, NULL);
        if (r >= 0)
                r = serve(&a);
        access_done(&a);
        return r < 0;
}
