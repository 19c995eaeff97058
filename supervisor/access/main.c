/* cloister-access: answers one line for each line of standard input, and one at the start. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-out.h"
#include "supervisor/access/access.h"

enum { ANSWER_MAX = 256 * 1024 };

static int answer(struct access *a, const struct access_refusal *refusal)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(ANSWER_MAX);
        struct error err = {};

        int r = access_find_token(a, refusal, &err);
        if (r >= 0) {
                r = access_append_answer(a, &line);
        } else {
                struct json_out out = {.to = &line};
                json_out_begin(&out, NULL, '{');
                json_out_text(&out, "error", err.text);
                json_out_end(&out, '}');
                r = out.error < 0 ? out.error : buffer_append_text(&line, "\n");
        }
        return r < 0 ? r : fd_write_all(STDOUT_FILENO, buffer_bytes(&line), line.length);
}

static int answer_line(struct access *a, const char *text, size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct access_refusal refusal = {.challenge = ""};
        struct error err = {};
        int64_t status = 0;

        if (json_parse(text, n, &doc, &err) < 0)
                return -EINVAL;
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (json_int64(yyjson_obj_get(root, "status"), &status) == 0)
                refusal.status = (int)status;
        if (json_string(root, "challenge", NULL))
                refusal.challenge = json_string(root, "challenge", NULL);
        return answer(a, &refusal);
}

/* Until the end of standard input. */
static int serve(struct access *a)
{
        _cleanup_buffer_ struct buffer in = BUFFER_INIT(ACCESS_LINE_MAX);
        ssize_t n;

        while ((n = buffer_read_fd(&in, STDIN_FILENO, ACCESS_LINE_MAX)) > 0) {
                const char *end;
                while (in.length > 0 && (end = memchr(buffer_bytes(&in), '\n', in.length))) {
                        size_t length = (size_t)(end - buffer_bytes(&in));
                        int r = answer_line(a, buffer_bytes(&in), length);
                        if (r < 0)
                                return r;
                        buffer_consume(&in, length + 1);
                }
        }
        return (int)n;
}

int main(void)
{
        static struct access a;
        struct error err = {};

        if (fd_open_standard_streams() < 0)
                return 1;
        signal(SIGPIPE, SIG_IGN);
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
