/*
 * `cloister exec`: code in a session of a running server, and a prompt for it.
 *
 * The lines of the prompt are edited here, and everything else is the session's: whether a block of code is incomplete (codeop), which
 * names there are, and how the code runs. The first two are questions that leave no trace in it (PROBE of docs/rpc.md).
 */
#include "supervisor/cli/sessions/exec.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/file-path.h"
#include "base/json-out.h"
#include "base/path.h"
#include "base/places.h"
#include "base/printable.h"
#include "supervisor/cli/command/script.h"
#include "supervisor/cli/sessions/line-editor.h"
#include "supervisor/cli/sessions/question-prompt.h"

/* ---- a cell of the owner ---- */

enum { REQUEST_MAX = 2 * 1024 * 1024, TEXT_MAX = 512 * 1024 * 1024, PIECE = 64 * 1024 };

static volatile sig_atomic_t interrupts;

static void on_interrupt(int number)
{
        interrupts = interrupts + 1;
}

void owner_cells_hold_signals(void)
{
        struct sigaction action = {.sa_handler = on_interrupt};
        sigset_t held;

        sigaction(SIGINT, &action, NULL);
        sigemptyset(&held);
        sigaddset(&held, SIGINT);
        sigprocmask(SIG_BLOCK, &held, NULL);
}

/* Whether SIGINT has come since the last call. */
static bool was_interrupted(void *data)
{
        bool were = interrupts > 0;

        interrupts = 0;
        return were;
}

/* Where output goes: to a terminal escaped, because it is of code in a sandbox. */
struct sink {
        int fd;
        bool is_terminal;
        struct terminal_stream stream;
};

static int put(struct sink *sink, const char *bytes, size_t n)
{
        int r = 0;

        if (!sink->is_terminal)
                return fd_write_all(sink->fd, bytes, n);
        for (size_t at = 0; at < n && r >= 0; at += PIECE) {
                _cleanup_buffer_ struct buffer escaped = BUFFER_INIT(16 * PIECE);
                r = terminal_escape(&sink->stream, bytes + at, n - at < PIECE ? n - at : PIECE,
                                    &escaped);
                if (r >= 0)
                        r = fd_write_all(sink->fd, buffer_bytes(&escaped), escaped.length);
        }
        return r;
}

static void put_line(struct sink *sink, const char *text, size_t n)
{
        put(sink, text, n);
        if (n > 0 && text[n - 1] != '\n')
                put(sink, "\n", 1);
}

static int put_base64(struct sink *sink, const char *text, size_t n)
{
        _cleanup_buffer_ struct buffer bytes = BUFFER_INIT(SERVER_ANSWER_MAX);
        int r = base64_decode(&bytes, text, n);

        return r < 0 ? r : put(sink, buffer_bytes(&bytes), bytes.length);
}

static void take_output(struct sink sinks[2], yyjson_val *params)
{
        size_t n = 0;
        const char *data = json_string(params, "data", &n);

        if (data)
                put_base64(&sinks[strcmp(json_text(params, "stream"), "stderr") == 0], data, n);
}

/* ---- the answer ---- */

static int write_display(struct owner_cells *cells, const char *mime, const char *text,
                         const char *data, size_t n)
{
        _cleanup_buffer_ struct buffer bytes = BUFFER_INIT(SERVER_ANSWER_MAX);
        char name[64];
        int r = text ? 0 : base64_decode(&bytes, data, n);

        if (r < 0)
                return r;
        snprintf(name, sizeof(name), "display-%zu.%s", ++cells->n_displays, mime_extension(mime));
        r = file_writer_put(cells->out, FILE_STREAM_FILE, name, strlen(name));
        if (r >= 0)
                r = file_writer_piece(cells->out, text ? text : buffer_bytes(&bytes),
                                      text ? n : bytes.length);
        return r < 0 ? r : file_writer_put(cells->out, FILE_STREAM_CLOSE, NULL, 0);
}

static void show_display(struct owner_cells *cells, struct sink sinks[2], yyjson_val *display)
{
        size_t n = 0;
        const char *mime = json_text(display, "mime_type"), *data = NULL;
        const char *text = json_string(display, "text", &n);
        const char *fault = json_string(display, "fault", NULL);
        char line[256], name[128];

        if (!text)
                data = json_string(display, "data", &n);
        if (fault) {
                printable_escape(name, sizeof(name), fault);
                snprintf(line, sizeof(line), "cloister: picture: %s\n", name);
                put_line(&sinks[1], line, strlen(line));
        }
        if ((!text && !data) || (fault && n == 0))
                return;
        if (text && strncmp(mime, "text/", 5) == 0 && strcmp(mime, "text/html") != 0) {
                put_line(&sinks[0], text, n);
        } else if (cells->out) {
                if (write_display(cells, mime, text, data, n) < 0)
                        put_line(&sinks[1], "cloister: --out: the display was not written", 44);
        } else if (!yyjson_is_true(yyjson_obj_get(display, "linked"))) {
                printable_escape(name, sizeof(name), mime);
                snprintf(line, sizeof(line),
                         "cloister: %s was displayed; --out DIRECTORY keeps it as a file\n", name);
                put_line(&sinks[1], line, strlen(line));
        }
}

static void show_member(struct sink *sink, yyjson_val *result, const char *key)
{
        size_t n = 0;
        const char *text = json_string(result, key, &n);

        if (text)
                put_line(sink, text, n);
}

static void say(struct sink *sink, const char *text)
{
        put(sink, "cloister: ", 10);
        put_line(sink, text, strlen(text));
}

static int show_busy(const struct owner_cells *cells, struct sink *sink, yyjson_val *result)
{
        char line[512], code[128], last[256];

        printable_escape(code, sizeof(code), json_text(result, "code"));
        printable_escape(last, sizeof(last), json_text(result, "line"));
        const char *wait = cells->wait_ms ? "" : "; --wait TIME waits for its end";
        if (*code)
                snprintf(line, sizeof(line),
                         "cloister: session '%s' is busy: for %" PRId64 " s it has run: %s%s%s%s",
                         cells->session, json_number(result, "duration_ms") / 1000, code,
                         *last ? "; its last line: " : "", last, wait);
        else
                snprintf(line, sizeof(line),
                         "cloister: session '%s' is busy: other code waits for its sandbox%s",
                         cells->session, wait);
        put_line(sink, line, strlen(line));
        return EXIT_CLOISTER;
}

static void show(struct owner_cells *cells, struct sink sinks[2], yyjson_val *result)
{
        const char *status = json_text(result, "status"), *why = json_text(result, "why");
        yyjson_val *item;
        size_t i, n;

        if (strcmp(status, "timeout") != 0 && strcmp(status, "cancelled") != 0)
                show_member(&sinks[1], result, "traceback");
        else if (strcmp(status, "cancelled") == 0)
                put_line(&sinks[1], "KeyboardInterrupt", 17);
        if (*why && strcmp(status, "cancelled") != 0)
                say(&sinks[1], why);
        yyjson_arr_foreach (yyjson_obj_get(result, "notices"), i, n, item)
                say(&sinks[1], yyjson_is_str(item) ? yyjson_get_str(item) : "");
        if (cells->show_value)
                show_member(&sinks[0], result, "value");
        yyjson_arr_foreach (yyjson_obj_get(result, "displays"), i, n, item)
                show_display(cells, sinks, item);
}

static int print_json(yyjson_val *result, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX), shown = BUFFER_INIT(TEXT_MAX);

        int r = json_append(&text, result);
        if (r >= 0)
                r = printable_json(&shown, buffer_bytes(&text), text.length);
        if (r >= 0)
                r = buffer_append_text(&shown, "\n");
        if (r >= 0)
                r = fd_write_all(STDOUT_FILENO, buffer_bytes(&shown), shown.length);
        return r < 0 ? error_errno(err, -r, "print the result") : 0;
}

static int conclude(struct owner_cells *cells, struct sink sinks[2], yyjson_val *result,
                    struct error *err)
{
        const char *status = json_text(result, "status");
        int code = (int)json_number(result, "exit_status") & 0xff;

        cells->is_busy = strcmp(status, "busy") == 0;
        /* os._exit() has a reason, and the session continues. */
        cells->has_exited = strcmp(status, "exit") == 0 && !*json_text(result, "why");
        cells->last_status = cells->has_exited ? code : 0;
        if (cells->json) {
                int r = print_json(yyjson_obj_get(result, "result"), err);
                return r < 0 ? r : cells->is_busy ? EXIT_CLOISTER : code;
        }
        if (cells->is_busy)
                return show_busy(cells, &sinks[1], result);
        show(cells, sinks, result);
        return code;
}

/* ---- the conversation ---- */

static int ask(const struct owner_cells *cells, struct server_link *link, const char *code,
               size_t n, const char *filename, bool has_terminal, struct error *err)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(REQUEST_MAX);
        struct json_out out = {.to = &params};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", cells->session);
        json_out_string(&out, "code", code, n);
        if (filename)
                json_out_text(&out, "filename", filename);
        if (cells->timeout_ms)
                json_out_int(&out, "timeout_ms", cells->timeout_ms);
        json_out_int(&out, "wait_ms", cells->wait_ms);
        json_out_bool(&out, "stream", !cells->json);
        json_out_bool(&out, "create", cells->create);
        json_out_bool(&out, "input", cells->editor != NULL);
        json_out_bool(&out, "terminal", has_terminal);
        if (cells->script)
                json_out_text(&out, "script", cells->script);
        json_out_end(&out, '}');
        if (out.error == -EMSGSIZE)
                return error_set(err, EMSGSIZE,
                                 "code of %zu bytes is too large: copy it with 'cloister cp' and "
                                 "run exec(open(\"…\").read())",
                                 n);
        return out.error < 0 ? error_errno(err, -out.error, "the code")
                             : server_link_send(link, "sessions/exec", &params, err);
}

/* A cell while it runs. */
struct run {
        struct owner_cells *cells;
        struct server_link *link;
        struct question_prompt
                prompt; /* of a question about its calls; in, out NULL: there is no terminal */
        struct sink sinks[2];
        yyjson_doc *message; /* the last one; in the end the answer */
        bool is_read;        /* its code waits for a line */
        struct error *err;
};

/* Waits until the server has said something, the person has answered a question, or interrupts. */
static int wait_for(struct run *run, struct error *err)
{
        struct server_link *link = run->link;
        struct question_prompt *prompt = &run->prompt;
        struct pollfd p[] = {{.fd = link->fd, .events = POLLIN},
                             {.fd = prompt->question ? fileno(prompt->in) : -1, .events = POLLIN}};
        sigset_t mask;
        struct error why = {};

        sigprocmask(SIG_BLOCK, NULL, &mask);
        sigdelset(&mask, SIGINT);
        int r = ppoll(p, ARRAY_SIZE(p), NULL, &mask);
        if (was_interrupted(NULL))
                server_link_notify(link, "interrupt", NULL);
        if (r < 0)
                return errno == EINTR ? 0 : error_errno(err, errno, "poll");
        if (p[1].revents && (r = question_prompt_take(prompt, &why)) != 0) {
                if (r < 0)
                        fprintf(prompt->out, "%s\n", why.text);
                question_prompt_close(prompt);
        }
        return p[0].revents ? server_link_read(link, err) : 0;
}

/* A question about calls of the cell, or its end: it was answered elsewhere, or withdrawn. */
static void take_question(struct run *run, yyjson_val *params)
{
        struct question_prompt *prompt = &run->prompt;
        const char *id = json_text(params, "id");
        struct error ignored = {};

        if (!prompt->in)
                return;
        if (!*id && prompt->question)
                fputs("\nThe question is over.\n", prompt->out);
        if (!*id || question_prompt_open(prompt, run->link->path, id, &ignored) < 0) {
                question_prompt_close(prompt);
                return;
        }
        question_prompt_show(prompt);
        question_prompt_ask(prompt);
}

/* Returns 1 when run->message is the answer, 0 when nothing more has arrived, or negative errno. */
static int take_arrived(struct run *run)
{
        int r;

        while ((r = server_link_take(run->link, &run->message, run->err)) > 0) {
                yyjson_val *root = yyjson_doc_get_root(run->message);
                const char *method = json_text(root, "method");
                if (strcmp(method, "read") == 0)
                        run->is_read = true;
                else if (strcmp(method, "question") == 0)
                        take_question(run, yyjson_obj_get(root, "params"));
                else if (strcmp(method, "output") == 0)
                        take_output(run->sinks, yyjson_obj_get(root, "params"));
                else
                        return 1;
                yyjson_doc_free(run->message);
                run->message = NULL;
        }
        return r;
}

/* Output of other threads is shown at once, and with the answer the code does not read any more. */
static int on_arrival(void *data)
{
        struct run *run = data;
        int r = server_link_read(run->link, run->err);

        if (r >= 0)
                r = take_arrived(run);
        return r > 0 ? -ECANCELED : r;
}

/* Returns as take_arrived(). */
static int read_for_code(struct run *run)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(REQUEST_MAX);
        _cleanup_free_ char *line = NULL;
        struct json_out out = {.to = &params};
        const struct line_editor_beside beside = {run, run->link->fd, on_arrival};

        run->is_read = false;
        int r = run->cells->editor ? line_editor_read(run->cells->editor, "", &beside, &line) : 0;
        if (r < 0 && run->message) {
                put(&run->sinks[1], "\n", 1);
                return 1;
        }
        if (r < 0 && error_is_set(run->err))
                return r;
        size_t n = r > 0 ? strlen(line) : 0;
        if (r > 0)
                line[n++] = '\n'; /* replaces its zero: n is the length */
        json_out_begin(&out, NULL, '{');
        json_out_base64(&out, "data", n > 0 ? line : "", n);
        json_out_end(&out, '}');
        if (r != -EINTR && out.error >= 0)
                server_link_notify(run->link, "input", &params);
        else
                server_link_notify(run->link, "interrupt", NULL);
        return 0;
}

int owner_cell_run(struct owner_cells *cells, struct server_link *link, const char *code, size_t n,
                   const char *filename, struct error *err)
{
        struct run run = {
                cells,
                link,
                {},
                {{.fd = STDOUT_FILENO, .is_terminal = isatty(STDOUT_FILENO) == 1},
                 {.fd = STDERR_FILENO, .is_terminal = isatty(STDERR_FILENO) == 1}},
                .err = err,
        };

        cells->is_busy = cells->has_exited = false;
        run.prompt.in = run.prompt.out = question_terminal();
        int r = ask(cells, link, code, n, filename, run.prompt.in != NULL, err);
        while (r == 0 && (r = take_arrived(&run)) == 0)
                r = run.is_read ? read_for_code(&run) : wait_for(&run, err);
        yyjson_val *result = r > 0 ? server_result(run.message, err) : NULL;
        if (result)
                r = conclude(cells, run.sinks, result, err);
        else if (r > 0)
                r = -err->code;
        yyjson_doc_free(run.message);
        question_prompt_close(&run.prompt);
        if (run.prompt.in)
                fclose(run.prompt.in);
        return r;
}

/* ---- the prompt ---- */

enum { SOURCE_MAX = 1024 * 1024, ASK_MAX = 2 * 1024 * 1024, RETRY_MS = 200 };

struct prompt {
        struct owner_cells *cells;
        struct server_link *link;
        struct line_editor *editor;
        struct buffer source; /* the block so far */
};

/* Asks the session. key and text: the question besides what. */
static int probe(struct prompt *p, const char *what, const char *key, const char *text, size_t n,
                 yyjson_doc **doc, yyjson_val **answer, struct error *err)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(ASK_MAX);
        struct json_out out = {.to = &params};
        yyjson_val *result;

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", p->cells->session);
        json_out_begin(&out, "ask", '{');
        json_out_text(&out, "what", what);
        json_out_string(&out, key, text, n);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        if (out.error < 0)
                return error_errno(err, -out.error, "the code");
        int r = server_link_ask(p->link, "sessions/probe", &params, doc, &result, err);
        if (r >= 0)
                *answer = yyjson_obj_get(result, "answer");
        return r;
}

/* Names from the sandbox: none that would control the terminal is offered. */
static void complete(void *data, const char *word, void (*add)(void *list, const char *text),
                     void *list)
{
        struct prompt *p = data;
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error ignored = {};
        yyjson_val *answer, *item;
        char shown[1024];
        size_t i, n;

        if (probe(p, "complete", "text", word, strlen(word), &doc, &answer, &ignored) < 0)
                return;
        yyjson_arr_foreach (answer, i, n, item) {
                const char *text = yyjson_is_str(item) ? yyjson_get_str(item) : "";
                if (strlen(text) < sizeof(shown) / 8 && strncmp(text, word, strlen(word)) == 0 &&
                    printable_escape(shown, sizeof(shown), text) == strlen(text) &&
                    strcmp(shown, text) == 0)
                        add(list, text);
        }
}

/* Between two questions to a session that runs other code. Returns whether a person has had enough. */
static bool pause_or_give_up(void)
{
        const struct timespec wait = {.tv_nsec = RETRY_MS * 1000000L};
        sigset_t mask;

        sigprocmask(SIG_BLOCK, NULL, &mask);
        sigdelset(&mask, SIGINT);
        ppoll(NULL, 0, &wait, &mask);
        return was_interrupted(NULL);
}

/* The session has ended, with its variables: another one takes its name. Returns 0, or negative errno. */
static int begin_again(struct prompt *p, struct error *err)
{
        *err = (struct error){};
        fputs("cloister: the session has ended: a new one begins, without variables and files\n",
              stderr);
        int r = owner_cell_run(p->cells, p->link, "", 0, NULL, err);
        if (r > 0)
                return error_set(err, EIO, "no new session could be started");
        return r;
}

/* Returns whether the block is incomplete: 1, 0, or negative errno; -EINTR: the user left it. */
static int goes_on(struct prompt *p, struct error *err)
{
        bool told = false, begun = false;

        for (;;) {
                _cleanup_json_ yyjson_doc *doc = NULL;
                yyjson_val *answer = NULL;
                *err = (struct error){};
                int r = probe(p, "more", "source", buffer_bytes(&p->source), p->source.length, &doc,
                              &answer, err);
                if (r >= 0)
                        return yyjson_is_true(answer);
                if (r == -ENOENT && p->cells->create && !begun) {
                        begun = true;
                        r = begin_again(p, err);
                        if (r < 0)
                                return r;
                        continue;
                }
                if (r != -EBUSY)
                        return r;
                if (!told)
                        fputs("cloister: the session runs other code: waiting; Ctrl-C gives up\n",
                              stderr);
                told = true;
                if (pause_or_give_up())
                        return -EINTR;
        }
}

static int run_block(struct prompt *p, struct error *err)
{
        int r = goes_on(p, err);

        if (r != 0)
                return r;
        r = owner_cell_run(p->cells, p->link, buffer_bytes(&p->source), p->source.length, NULL,
                           err);
        buffer_consume(&p->source, p->source.length);
        return r < 0 ? r : 0;
}

static bool is_exit(const char *line)
{
        static const char *const words[] = {"exit", "exit()", "quit", "quit()"};

        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                if (strcmp(line, words[i]) == 0)
                        return true;
        }
        return false;
}

static int add_line(struct prompt *p, const char *line)
{
        int r = p->source.length > 0 ? buffer_append(&p->source, "\n", 1) : 0;

        return r < 0 ? r : buffer_append(&p->source, line, strlen(line));
}

static void drop_block(struct prompt *p)
{
        fputs("\nKeyboardInterrupt\n", stderr);
        buffer_consume(&p->source, p->source.length);
}

/* Returns 0 to read the next line, 1 at the end, or negative errno. */
static int step(struct prompt *p, struct error *err)
{
        _cleanup_free_ char *line = NULL;

        int r = line_editor_read(p->editor, p->source.length > 0 ? "... " : ">>> ", NULL, &line);
        if (r == -EINTR) {
                drop_block(p);
                return 0;
        }
        if (r < 0)
                return error_errno(err, -r, "read a line");
        if (r == 0)
                return 1;
        if (p->source.length == 0 && is_exit(line))
                return 1;
        if (p->source.length == 0 && line[strspn(line, " \t")] == '\0')
                return 0;
        r = add_line(p, line);
        if (r < 0)
                return error_errno(err, -r, "the block");
        r = run_block(p, err);
        if (r == -EINTR) {
                drop_block(p);
                return 0;
        }
        return r < 0 ? r : p->cells->has_exited;
}

int prompt_run(struct owner_cells *cells, struct server_link *link)
{
        struct prompt p = {.cells = cells, .link = link, .source = BUFFER_INIT(SOURCE_MAX)};
        const struct line_editor_owner owner = {&p, complete, was_interrupted};
        char path[PATH_MAX];
        struct error err = {};

        bool has_path = place_state("history", path, sizeof(path)) == 0;
        server_link_notify(link, "stay", NULL); /* an error shows at the next request */
        int r = line_editor_new(&p.editor, has_path ? path : NULL, &owner, &err);
        cells->editor = p.editor;
        while (r >= 0 && (r = step(&p, &err)) == 0)
                ;
        if (r >= 0 && !cells->has_exited && isatty(STDIN_FILENO) == 1)
                putchar('\n');
        cells->editor = line_editor_free(p.editor);
        buffer_done(&p.source);
        return r < 0 ? cli_fail(EXIT_CLOISTER, &err) : cells->last_status;
}

/* ---- the command ---- */

static int check(const struct options *o, const char *const *words, size_t n, struct error *err)
{
        if (n == 0 || !session_name_is_plain(words[0]))
                return error_set(err, EINVAL,
                                 "the name of a SESSION is needed (see 'cloister sessions')");
        if (o->code && n > 1)
                return error_set(err, EINVAL, "exec takes a file or -c CODE, not both");
        if (o->prompt && o->json)
                return error_set(err, EINVAL, "-i and --json do not go together");
        if (!o->code && n == 1 && !o->prompt)
                return error_set(
                        err, EINVAL,
                        "exec needs a FILE, -c CODE, or - for standard input (see 'cloister exec --help')");
        if (o->given[CLI_OUT] && o->json)
                return error_set(err, EINVAL,
                                 "--out and --json do not go together: the JSON has the displays");
        return 0;
}

static int run(const struct options *o, const char *const *words, const char *code, size_t length,
               struct error *err)
{
        struct file_writer out = {.fd = -1};
        struct owner_cells cells = {
                .session = words[0], .json = o->json, .show_value = o->code != NULL};
        struct server_link link = {.fd = -1};
        struct error written = {};

        cells.timeout_ms = o->timeout_ms;
        cells.wait_ms = o->wait_ms;
        if (o->out && file_writer_open(&out, o->out, false, err) < 0)
                return cli_fail(EXIT_CLOISTER, err);
        cells.out = o->out ? &out : NULL;
        owner_cells_hold_signals();
        int r = server_link_open_session(&link, words[0], o->server, err);
        if (r >= 0 && code)
                r = owner_cell_run(&cells, &link, code, length, o->code ? NULL : words[1], err);
        cells.show_value |= o->prompt;
        if (r >= 0 && o->prompt)
                r = prompt_run(&cells, &link);
        server_link_close(&link);
        if (file_writer_close(&out, true, &written) < 0)
                r = cli_fail(EXIT_CLOISTER, (error_context(&written, "--out"), &written));
        return r < 0 ? cli_fail(EXIT_CLOISTER, err) : r;
}

int cli_exec(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_free_ char *code = NULL;
        size_t length = 0;
        struct error error = {};

        if (check(o, words, n, &error) < 0)
                return cli_fail(2, &error);
        if ((o->code || n > 1) &&
            script_take(o->code, n > 1 ? words[1] : NULL, &code, &length, &error) < 0)
                return cli_fail(EXIT_CLOISTER, &error);
        return run(o, words, code, length, &error);
}
