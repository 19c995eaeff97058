/* `cloister approve`: an answer is taken from a terminal only. */
#include "supervisor/cli/sessions/approve.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "supervisor/cli/command/command.h"
#include "supervisor/cli/sessions/question-prompt.h"
#include "supervisor/cli/sessions/servers.h"

enum { TEXT_MAX = 16 * 1024 * 1024, PERIOD_US = 300 * 1000 /* of --watch */ };

static void print_row(yyjson_val *question)
{
        char tool[200], session[200], why[200], line[800];

        printable_escape(tool, sizeof(tool), json_text(question, "tool"));
        printable_escape(session, sizeof(session), json_text(question, "session"));
        printable_escape(why, sizeof(why), json_text(question, "why"));
        snprintf(line, sizeof(line), "%-8.8s %4" PRId64 "s %5" PRId64 "  %-14.14s %-22.22s %s",
                 json_text(question, "id"), json_number(question, "age_ms") / 1000,
                 json_number(question, "calls"), session, tool, why);
        size_t n = strlen(line);
        fwrite(line, 1, utf8_skip(line, n, question_columns(STDOUT_FILENO) - 1), stdout);
        putchar('\n');
}

/* ---- the servers ---- */

/* The questions of a server: an answer of questions/list, or NULL. */
static yyjson_doc *ask_list(const struct server *server)
{
        struct server_link link = {.fd = -1};
        yyjson_val *result = NULL;
        yyjson_doc *answer = NULL;
        struct error ignored = {};

        if (server_link_open_quickly(&link, server->path, &ignored) >= 0)
                server_link_ask(&link, "questions/list", NULL, &answer, &result, &ignored);
        server_link_close(&link);
        return answer;
}

static yyjson_val *questions_of(yyjson_doc *answer)
{
        return yyjson_ptr_get(yyjson_doc_get_root(answer), "/result/questions");
}

/* Calls found() for each question of each server until it returns true. */
static bool each_question(const char *only,
                          bool (*found)(void *data, const struct server *server,
                                        yyjson_val *question),
                          void *data)
{
        static struct servers servers;
        bool is_over = false;

        servers = (struct servers){};
        servers_find(only, &servers);
        for (size_t k = 0; k < servers.n && !is_over; k++) {
                _cleanup_json_ yyjson_doc *answer = ask_list(&servers.list[k]);
                yyjson_val *question;
                size_t i, n;

                yyjson_arr_foreach (questions_of(answer), i, n, question) {
                        if (!is_over)
                                is_over = found(data, &servers.list[k], question);
                }
        }
        servers_done(&servers);
        return is_over;
}

struct search {
        const char *id; /* NULL: any */
        char path[CONTROL_PATH_SIZE], found[64];
};

static bool is_meant(void *data, const struct server *server, yyjson_val *question)
{
        struct search *search = data;
        const char *id = json_text(question, "id");

        if (search->id && strcmp(search->id, id) != 0)
                return false;
        memcpy(search->path, server->path, sizeof(search->path));
        snprintf(search->found, sizeof(search->found), "%s", id);
        return true;
}

/* ---- one question ---- */

static bool is_at_terminal(void)
{
        return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
}

static int print_document(yyjson_val *value)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4 * TEXT_MAX),
                                       shown = BUFFER_INIT(4 * TEXT_MAX);

        if (json_append(&b, value) < 0 || printable_json(&shown, buffer_bytes(&b), b.length) < 0)
                return cli_fail_text(1, "out of memory");
        fwrite(buffer_bytes(&shown), 1, shown.length, stdout);
        putchar('\n');
        return 0;
}

/* Shows the question that was found, and answers it if the person does. */
static int show(const struct options *o, const struct search *search)
{
        const char *word = o->answer ? o->answer : o->rows;
        struct question_prompt prompt = {.in = stdin, .out = stdout};
        struct error err = {};

        int r = question_prompt_open(&prompt, search->path, search->found, &err);
        if (r >= 0 && o->json && !word) {
                r = print_document(prompt.question);
        } else if (r >= 0) {
                question_prompt_show(&prompt);
                if (word)
                        r = question_prompt_send(&prompt, word, o->note, &err);
                else if (is_at_terminal())
                        question_prompt_ask(&prompt);
                while (r >= 0 && !word && is_at_terminal() &&
                       (r = question_prompt_take(&prompt, &err)) == 0) {
                }
        }
        question_prompt_close(&prompt);
        return r >= 0 ? 0 : cli_fail(r == -EINVAL ? 2 : 1, &err);
}

/* ---- the command ---- */

static bool print_one(void *data, const struct server *server, yyjson_val *question)
{
        size_t *n = data;

        if ((*n)++ == 0)
                puts("ID        AGE CALLS  SESSION        TOOL                   WHY");
        print_row(question);
        return false;
}

static bool put_one(void *data, const struct server *server, yyjson_val *question)
{
        struct json_out *out = data;

        json_out_value(out, NULL, question);
        return false;
}

static int list(const struct options *o)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(TEXT_MAX), shown = BUFFER_INIT(4 * TEXT_MAX);
        struct json_out out = {.to = &b};
        size_t n = 0;

        if (!o->json) {
                each_question(o->server, print_one, &n);
                if (n == 0)
                        fprintf(stderr, "No questions.\n");
                else if (isatty(STDOUT_FILENO) == 1)
                        puts("'cloister approve ID' shows one whole, and reads the answer.");
                return 0;
        }
        json_out_begin(&out, NULL, '[');
        each_question(o->server, put_one, &out);
        json_out_end(&out, ']');
        if (out.error < 0 || printable_json(&shown, buffer_bytes(&b), b.length) < 0)
                return cli_fail_text(1, "out of memory");
        fwrite(buffer_bytes(&shown), 1, shown.length, stdout);
        putchar('\n');
        return 0;
}

/* Waits for the next question, shows it and reads an answer, until the input ends. */
static int watch(const struct options *o)
{
        char last[64] = "";
        bool is_told = false;

        for (;;) {
                struct search search = {};
                if (!each_question(o->server, is_meant, &search)) {
                        if (!is_told)
                                printf("Waiting for a question (Ctrl-C ends it).\n");
                        fflush(stdout);
                        is_told = true;
                        usleep(PERIOD_US);
                        continue;
                }
                is_told = false;
                /* A question that the person has left unanswered is shown again. */
                if (show(o, &search) != 0 && (feof(stdin) || o->json))
                        return 1;
                if (strcmp(last, search.found) == 0)
                        usleep(PERIOD_US);
                memcpy(last, search.found, sizeof(last));
        }
}

int cli_approve(const struct options *o, const char *const *words, size_t n)
{
        struct search search = {.id = n > 0 ? words[0] : NULL};
        const char *given = cli_option_given(o, CLI_OPTIONS(CLI_ANSWER, CLI_ROWS, CLI_NOTE));

        setlocale(LC_CTYPE, "");
        if (n > 0 && o->watch)
                return cli_fail_text(2, "--watch and an ID exclude each other");
        if (given && n == 0)
                return cli_fail_text(2, "%s needs the ID of a question (see 'cloister approve')",
                                     given);
        if (o->answer && o->rows)
                return cli_fail_text(2, "--answer and --rows exclude each other");
        if (o->note && !o->answer && !o->rows)
                return cli_fail_text(2, "--note needs --answer or --rows");
        if ((given || o->watch) && !is_at_terminal())
                return cli_fail_text(
                        2, "an answer is taken from a terminal only: run this command in one");
        if (o->watch)
                return watch(o);
        if (n == 0)
                return list(o);
        if (!each_question(o->server, is_meant, &search))
                return cli_fail_text(
                        1,
                        "no question has this id: it was answered, or has ended (see 'cloister approve')");
        return show(o, &search);
}
