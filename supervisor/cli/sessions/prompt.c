/*
 * A prompt for a session.
 *
 * The lines are edited here, and everything else is the session's: whether a block of code is incomplete (codeop), which names there
 * are, and how the code runs. The first two are questions that leave no trace in it (PROBE of docs/rpc.md).
 */
#include "supervisor/cli/sessions/prompt.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/json-out.h"
#include "base/path.h"
#include "base/printable.h"
#include "supervisor/cli/command/fail.h"
#include "supervisor/cli/sessions/line-editor.h"

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
