/*
 * `cloister approve`.
 *
 * Arguments of calls are text of code. Each line that shows them begins with a fixed prefix, also where it was too long for the
 * terminal: otherwise code could write a line that looks like one of Cloister's. An answer names the id and the digest of what was
 * shown, and is taken from a terminal only.
 */
#include "supervisor/cli/sessions/approve.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/printable.h"
#include "supervisor/cli/command/command.h"
#include "supervisor/cli/sessions/servers.h"

enum {
        PARAMS_MAX = 256 * 1024,
        TEXT_MAX = 16 * 1024 * 1024,
        COLUMNS = 80,
        ID_SHOWN = 8,
        PERIOD_US = 300 * 1000, /* of --watch */
};

#define PREFIX "   | "

static const char grammar[] = "once, cell, session, always, no, or rows such as 1-12,15";

/* ---- what is shown ---- */

static size_t columns(void)
{
        struct winsize size = {};

        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        return size.ws_col >= 20 ? size.ws_col : COLUMNS;
}

static void print_escaped(const char *text, int width)
{
        char shown[256];

        printable_escape(shown, sizeof(shown), text);
        printf("%.*s", width, shown);
}

static void print_age(int64_t ms)
{
        printf(ms < 120000 ? "%" PRId64 " s" : "%" PRId64 " min",
               ms < 120000 ? ms / 1000 : ms / 60000);
}

/* Valid UTF-8 without control characters, in lines of the terminal that all begin with the prefix. */
static void print_wrapped(const char *text, size_t n)
{
        size_t room = columns() - strlen(PREFIX), used = room, at = 0;
        mbstate_t state = {};
        bool is_first = true;

        while (at < n) {
                wchar_t c;
                size_t length = mbrtowc(&c, text + at, n - at, &state);
                int width = 1;

                if (length == 0 || length > n - at) {
                        length = 1;
                        state = (mbstate_t){};
                } else {
                        width = wcwidth(c) > 0 ? wcwidth(c) : 1;
                }
                if (used + (size_t)width > room) {
                        printf("%s" PREFIX, is_first ? "" : "\n");
                        is_first = false;
                        used = 0;
                }
                fwrite(text + at, 1, length, stdout);
                used += (size_t)width;
                at += length;
        }
        if (!is_first)
                putchar('\n');
}

static void print_json(const char *json, size_t n)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(4 * TEXT_MAX),
                                       line = BUFFER_INIT(4 * TEXT_MAX);

        /* White space between values may have line breaks. */
        if (printable_json(&text, json, n) < 0 ||
            terminal_escape_line(buffer_bytes(&text), text.length, &line) < 0) {
                puts(PREFIX "(out of memory)");
                return;
        }
        print_wrapped(buffer_bytes(&line), line.length);
}

/* SESSION, or PRINCIPAL:NAME: in one line. */
static void print_question(yyjson_val *question)
{
        yyjson_val *list = yyjson_obj_get(question, "calls"), *call;
        const char *principal = json_text(question, "principal");
        size_t i, n;

        printf("question %.*s, session ", ID_SHOWN, json_text(question, "id"));
        print_escaped(json_text(question, "session"), 60);
        if (*principal) {
                fputs(", principal ", stdout);
                print_escaped(principal, 60);
        }
        fputs(", ", stdout);
        print_age(json_number(question, "age_ms"));
        fputs(" ago\n", stdout);
        yyjson_arr_foreach (list, i, n, call) {
                size_t length = 0;
                const char *json = json_string(call, "json", &length);

                printf("%zu. ", i + 1);
                print_escaped(json_text(call, "tool"), 100);
                printf(", %" PRId64 " bytes; rule: ", json_number(call, "bytes"));
                print_escaped(json_text(call, "rule"), 100);
                if (*json_text(call, "why")) {
                        fputs(": ", stdout);
                        print_escaped(json_text(call, "why"), 200);
                }
                putchar('\n');
                print_json(json ? json : "", length);
        }
        fputs("SHA-256 ", stdout);
        print_escaped(json_text(question, "sha256"), 64);
        putchar('\n');
}

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
        fwrite(line, 1, utf8_skip(line, n, columns() - 1), stdout);
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

/* ---- answers ---- */

/* "1-12,15" as [[1,12],[15,15]]. Returns false if it is not such a list. */
static bool put_rows(struct json_out *out, const char *text)
{
        json_out_begin(out, "rows", '[');
        while (*text) {
                char *end;
                if (*text < '1' || *text > '9')
                        return false;
                long first = strtol(text, &end, 10), last = first;
                if (*end == '-' && end[1] >= '1' && end[1] <= '9')
                        last = strtol(end + 1, &end, 10);
                if (last < first || last > 100000 || (*end && (*end != ',' || !end[1])))
                        return false;
                json_out_begin(out, NULL, '[');
                json_out_int(out, NULL, first);
                json_out_int(out, NULL, last);
                json_out_end(out, ']');
                text = *end ? end + 1 : end;
        }
        json_out_end(out, ']');
        return true;
}

/* Returns false if the word is no answer. */
static bool put_answer(struct json_out *out, const char *word)
{
        static const char *const scopes[] = {"once", "cell", "session", "always", "no"};

        if (strcmp(word, "yes") == 0 || strcmp(word, "y") == 0)
                word = "once";
        if (strcmp(word, "n") == 0)
                word = "no";
        for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
                if (strcmp(word, scopes[i]) == 0) {
                        json_out_text(out, "scope", word);
                        return true;
                }
        }
        json_out_text(out, "scope", "once");
        return *word && put_rows(out, word);
}

static int send_answer(struct server_link *link, yyjson_val *question, const char *word,
                       const char *note)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);
        _cleanup_json_ yyjson_doc *answer = NULL;
        struct json_out out = {.to = &params};
        yyjson_val *result;
        struct error err = {};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "id", json_text(question, "id"));
        json_out_text(&out, "sha256", json_text(question, "sha256"));
        if (!put_answer(&out, word))
                return cli_fail_text(2, "the answer is %s", grammar);
        if (note && *note)
                json_out_text(&out, "note", note);
        json_out_end(&out, '}');
        if (server_link_ask(link, "questions/answer", &params, &answer, &result, &err) < 0)
                return cli_fail(1, &err);
        puts(strcmp(word, "no") == 0 || strcmp(word, "n") == 0 ? "Denied." : "Answered.");
        return 0;
}

/* Reads "ANSWER [NOTE]" from the person. Returns false at the end of the input. */
static bool read_answer(char **line, char **word, char **note)
{
        size_t size = 0;

        for (;;) {
                printf("Send? %s: ", grammar);
                fflush(stdout);
                if (getline(line, &size, stdin) < 0) {
                        putchar('\n');
                        return false;
                }
                (*line)[strcspn(*line, "\n")] = '\0';
                *word = *line + strspn(*line, " \t");
                *note = *word + strcspn(*word, " \t");
                if (**note)
                        *(*note)++ = '\0';
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(PARAMS_MAX);
                struct json_out out = {.to = &b};
                json_out_begin(&out, NULL, '{');
                if (put_answer(&out, *word))
                        return true;
        }
}

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
static int show(const struct options *o, const struct search *search, const char *word,
                const char *note)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);
        _cleanup_json_ yyjson_doc *answer = NULL;
        _cleanup_free_ char *line = NULL;
        struct server_link link = {.fd = -1}, second = {.fd = -1};
        struct json_out out = {.to = &params};
        yyjson_val *question = NULL;
        struct error err = {};
        char *typed, *typed_note;

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "id", search->found);
        json_out_end(&out, '}');
        int r = server_link_open(&link, search->path, &err);
        if (r >= 0)
                r = server_link_ask(&link, "questions/show", &params, &answer, &question, &err);
        server_link_close(&link);
        if (r < 0)
                return cli_fail(1, &err);
        if (o->json && !word)
                return print_document(question);
        print_question(question);
        if (!word && !is_at_terminal())
                return 0;
        if (!word) {
                if (!read_answer(&line, &typed, &typed_note))
                        return 1;
                word = typed;
                note = typed_note;
        }
        r = server_link_open(&second, search->path, &err);
        int status = r < 0 ? cli_fail(1, &err) : send_answer(&second, question, word, note);
        server_link_close(&second);
        return status;
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
                if (show(o, &search, NULL, NULL) != 0 && (feof(stdin) || o->json))
                        return 1;
                if (strcmp(last, search.found) == 0)
                        usleep(PERIOD_US);
                memcpy(last, search.found, sizeof(last));
        }
}

int cli_approve(const struct options *o, const char *const *words, size_t n)
{
        struct search search = {.id = n > 0 ? words[0] : NULL};

        setlocale(LC_CTYPE, "");
        if (n > 0 && o->watch)
                return cli_fail_text(2, "--watch and an ID exclude each other");
        if ((n > 1 || o->watch) && !is_at_terminal())
                return cli_fail_text(
                        2, "an answer is taken from a terminal only: type it there yourself");
        if (o->watch)
                return watch(o);
        if (n == 0)
                return list(o);
        if (!each_question(o->server, is_meant, &search))
                return cli_fail_text(
                        1,
                        "no question has this id: it was answered, or has ended (see 'cloister approve')");
        return show(o, &search, n > 1 ? words[1] : NULL, n > 2 ? words[2] : NULL);
}
