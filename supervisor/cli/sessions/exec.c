/*
 * `cloister exec`: code in a session of a running server, and a prompt for it.
 *
 * The lines of the prompt are edited here, and everything else is the session's: whether a block of code is incomplete (codeop), which
 * names there are, and how the code runs. The first two are questions that leave no trace in it (PROBE of docs/rpc.md).
 */
#include "supervisor/cli/sessions/exec.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/json-out.h"
#include "base/path.h"
#include "base/printable.h"
#include "supervisor/cli/command/script.h"
#include "supervisor/cli/sessions/line-editor.h"

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

static bool was_interrupted(void *data)
{
        return owner_cells_were_interrupted();
}

/* Between two questions to a session that runs other code. Returns whether a person has had enough. */
static bool pause_or_give_up(void)
{
        const struct timespec wait = {.tv_nsec = RETRY_MS * 1000000L};
        sigset_t mask;

        sigprocmask(SIG_BLOCK, NULL, &mask);
        sigdelset(&mask, SIGINT);
        ppoll(NULL, 0, &wait, &mask);
        return owner_cells_were_interrupted();
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

        int r = line_editor_read(p->editor, p->source.length > 0 ? "... " : ">>> ", &line);
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

        bool has_path = path_in_user_directory("XDG_STATE_HOME", ".local/state", "cloister/history",
                                               path, sizeof(path)) == 0;
        int r = line_editor_new(&p.editor, has_path ? path : NULL, &owner, &err);
        while (r >= 0 && (r = step(&p, &err)) == 0)
                ;
        if (r >= 0 && !cells->has_exited && isatty(STDIN_FILENO) == 1)
                putchar('\n');
        line_editor_free(p.editor);
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
        if ((o->given & CLI_OUT) && o->json)
                return error_set(err, EINVAL,
                                 "--out and --json do not go together: the JSON has the displays");
        return 0;
}

static int read_code(const struct options *o, const char *path, char **ret, size_t *length,
                     struct error *err)
{
        if (!o->code)
                return script_read(path, ret, length, err);
        *length = strlen(o->code);
        int r = script_check("-c", o->code, *length, err);
        if (r < 0)
                return r;
        *ret = strdup(o->code);
        return *ret ? 0 : error_errno(err, ENOMEM, "-c");
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
        if ((o->code || n > 1) && read_code(o, n > 1 ? words[1] : NULL, &code, &length, &error) < 0)
                return cli_fail(EXIT_CLOISTER, &error);
        return run(o, words, code, length, &error);
}
