/* One question at a terminal. */
#include "supervisor/cli/sessions/question-prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/printable.h"

enum { PARAMS_MAX = 256 * 1024, TEXT_MAX = 64 * 1024 * 1024, COLUMNS = 80 };

FILE *question_terminal(void)
{
        _cleanup_close_ int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

        if (fd < 0 || tcgetpgrp(fd) != getpgrp())
                return NULL;
        return fdopen(take_fd(fd), "r+");
}

size_t question_columns(int fd)
{
        struct winsize size = {};

        ioctl(fd, TIOCGWINSZ, &size);
        return size.ws_col >= 20 ? size.ws_col : COLUMNS;
}

int question_prompt_send(struct question_prompt *p, const char *word, const char *note,
                         struct error *err)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);
        _cleanup_json_ yyjson_doc *answer = NULL;
        struct server_link link = {.fd = -1};
        struct json_out out = {.to = &params};
        yyjson_val *result;

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "id", json_text(p->question, "id"));
        json_out_text(&out, "sha256", json_text(p->question, "sha256"));
        json_out_text(&out, "answer", word);
        if (note && *note)
                json_out_text(&out, "note", note);
        json_out_end(&out, '}');
        int r = out.error < 0 ? error_errno(err, -out.error, "the answer")
                              : server_link_open(&link, p->path, err);
        if (r >= 0)
                r = server_link_ask(&link, "questions/answer", &params, &answer, &result, err);
        server_link_close(&link);
        if (r >= 0)
                fputs("Answered.\n", p->out);
        return r;
}

int question_prompt_open(struct question_prompt *p, const char *path, const char *id,
                         struct error *err)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);
        struct server_link link = {.fd = -1};
        struct json_out out = {.to = &params};

        question_prompt_close(p);
        snprintf(p->path, sizeof(p->path), "%s", path);
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "id", id);
        json_out_int(&out, "columns", (int64_t)question_columns(fileno(p->out)));
        json_out_end(&out, '}');
        int r = server_link_open(&link, path, err);
        if (r >= 0)
                r = server_link_ask(&link, "questions/show", &params, &p->doc, &p->question, err);
        server_link_close(&link);
        return r;
}

void question_prompt_show(const struct question_prompt *p)
{
        _cleanup_buffer_ struct buffer shown = BUFFER_INIT(TEXT_MAX);
        struct terminal_stream stream = {};
        size_t n = 0;
        const char *text = json_string(p->question, "text", &n);

        /* The server parses what sandboxes send: its text may have any bytes. */
        if (text && terminal_escape(&stream, text, n, &shown) >= 0)
                fwrite(buffer_bytes(&shown), 1, shown.length, p->out);
        fflush(p->out);
}

static void put_prompt(const struct question_prompt *p)
{
        fputs("Send? once, cell, session, always, no, or rows such as 1-12,15: ", p->out);
        fflush(p->out);
}

void question_prompt_ask(const struct question_prompt *p)
{
        /* A line that was typed before the question is not an answer: code can have asked for it. */
        tcflush(fileno(p->in), TCIFLUSH);
        put_prompt(p);
}

int question_prompt_take(struct question_prompt *p, struct error *err)
{
        _cleanup_free_ char *line = NULL;
        size_t size = 0;

        if (getline(&line, &size, p->in) < 0)
                return error_set(err, EPIPE, "no answer was typed");
        line[strcspn(line, "\n")] = '\0';
        char *word = line + strspn(line, " \t");
        char *note = word + strcspn(word, " \t");
        if (*note)
                *note++ = '\0';
        int r = question_prompt_send(p, word, note, err);
        if (r != -EINVAL)
                return r < 0 ? r : 1;
        put_prompt(p);
        return 0;
}

void question_prompt_close(struct question_prompt *p)
{
        yyjson_doc_free(p->doc);
        p->doc = NULL;
        p->question = NULL;
}
