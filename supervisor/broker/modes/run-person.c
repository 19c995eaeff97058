/* Questions at the terminal of `cloister run`. */
#include "supervisor/broker/modes/run-person.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "supervisor/broker/writer.h"
#include "supervisor/trust/questions/approval.h"

enum { COLUMNS = 80, LINE_MAX_BYTES = 4096, TEXT_MAX = 64 * 1024 * 1024 };

struct run_person {
        struct writer writer;
        struct event *readable;
        int fd;
        char id[QUESTION_ID_LENGTH + 1]; /* of the open question, or "" */
        char sha256[QUESTION_SHA_SIZE];
        struct buffer line;
};

static const char prompt[] = "Send? " APPROVAL_GRAMMAR ": ";

static void say(struct run_person *p, const char *text)
{
        writer_write(&p->writer, text, strlen(text));
}

/* "ANSWER [NOTE]" */
static void take_line(struct run_person *p, char *line)
{
        static uint8_t rows[APPROVAL_CALLS_MAX];
        char *word = line + strspn(line, " \t");
        char *note = word + strcspn(word, " \t");
        struct approval_answer answer;
        char id[sizeof(p->id)];
        struct error err = {};

        if (*note)
                *note++ = '\0';
        if (approval_answer_read(word, rows, &answer, &err) < 0) {
                say(p, prompt);
                return;
        }
        answer.note = note;
        memcpy(id, p->id, sizeof(id));
        int r = approvals_answer(approvals_of_process(), APPROVAL_BY_TERMINAL, id, p->sha256,
                                 &answer, &err);
        if (r < 0) {
                say(p, err.text);
                say(p, "\n");
        }
        if (r == -EINVAL)
                say(p, prompt);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct run_person *p = data;
        ssize_t n = buffer_read_fd(&p->line, fd, LINE_MAX_BYTES);

        if (n == -EAGAIN || n == -EINTR)
                return;
        if (n <= 0 && n != -EMSGSIZE) {
                event_del(p->readable);
                return;
        }
        char *end;
        while (p->line.length > 0 && (end = memchr(buffer_bytes(&p->line), '\n', p->line.length))) {
                _cleanup_free_ char *line = strndup(buffer_bytes(&p->line),
                                                    (size_t)(end - buffer_bytes(&p->line)));
                buffer_consume(&p->line, (size_t)(end - buffer_bytes(&p->line)) + 1);
                if (line && *p->id)
                        take_line(p, line);
        }
        if (p->line.length == p->line.limit)
                buffer_consume(&p->line, p->line.length);
}

static bool show(struct run_person *p, const char *id)
{
        const struct approval_list *all = approvals_of_process();
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        struct approvals *a = NULL;
        struct question_view view;
        uint64_t asked_us;

        while ((a = approvals_next(all, a))) {
                approvals_view(a, &view, &asked_us);
                if (strcmp(view.id, id) == 0)
                        break;
        }
        if (!a || question_whole(&view, COLUMNS, &text) < 0)
                return false;
        snprintf(p->id, sizeof(p->id), "%s", id);
        snprintf(p->sha256, sizeof(p->sha256), "%s", view.sha256);
        writer_write(&p->writer, buffer_bytes(&text), text.length);
        say(p, prompt);
        return true;
}

bool run_person_ask(struct run_person *p, const char *id)
{
        p->id[0] = '\0';
        if (!id) {
                event_del(p->readable);
                return false;
        }
        /* A line that was typed before the question is not an answer: code can have asked for it. */
        buffer_consume(&p->line, p->line.length);
        tcflush(p->fd, TCIFLUSH);
        return event_add(p->readable, NULL) >= 0 && show(p, id);
}

static void on_drained(void *data)
{
}

/* No person can answer: the question ends by its time. */
static void on_broken(void *data, int code)
{
        struct run_person *p = data;

        event_del(p->readable);
}

int run_person_new(struct run_person **ret, struct event_base *base, int fd, struct error *err)
{
        struct run_person *p = calloc(1, sizeof(*p));
        int r;

        if (!p) {
                close(fd);
                return error_errno(err, ENOMEM, "the terminal");
        }
        p->fd = fd;
        buffer_init(&p->line, LINE_MAX_BYTES);
        const struct writer_owner owner = {p, on_drained, on_broken};
        p->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, p);
        r = p->readable ? fd_set_nonblocking(fd, 1) : -ENOMEM;
        if (r >= 0)
                r = writer_open(&p->writer, base, fd, &owner, err);
        if (r < 0) {
                if (p->readable)
                        event_free(p->readable);
                close(fd);
                free(p);
                return error_is_set(err) ? r : error_errno(err, -r, "the terminal");
        }
        *ret = p;
        return 0;
}

struct run_person *run_person_free(struct run_person *p)
{
        if (!p)
                return NULL;
        event_free(p->readable);
        writer_close(&p->writer);
        buffer_done(&p->line);
        close(p->fd);
        free(p);
        return NULL;
}
