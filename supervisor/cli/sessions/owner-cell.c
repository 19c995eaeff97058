/* A cell of the server's owner. */
#include "supervisor/cli/sessions/owner-cell.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/file-path.h"
#include "base/printable.h"

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

bool owner_cells_were_interrupted(void)
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
        char line[256], name[128];

        if (!text)
                data = json_string(display, "data", &n);
        if (!text && !data)
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
               size_t n, const char *filename, struct error *err)
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

/* Waits until the server has said something, or a person interrupts. */
static int wait_for(struct server_link *link, struct error *err)
{
        struct pollfd p = {.fd = link->fd, .events = POLLIN};
        sigset_t mask;

        sigprocmask(SIG_BLOCK, NULL, &mask);
        sigdelset(&mask, SIGINT);
        int r = ppoll(&p, 1, NULL, &mask);
        if (owner_cells_were_interrupted())
                server_link_notify(link, "interrupt");
        if (r < 0)
                return errno == EINTR ? 0 : error_errno(err, errno, "poll");
        return server_link_read(link, err);
}

/* Returns 1 when *message is the answer. */
static int next(struct server_link *link, struct sink sinks[2], yyjson_doc **message,
                struct error *err)
{
        int r = server_link_take(link, message, err);

        if (r <= 0)
                return r < 0 ? r : wait_for(link, err);
        yyjson_val *root = yyjson_doc_get_root(*message);
        if (strcmp(json_text(root, "method"), "output") != 0)
                return 1;
        take_output(sinks, yyjson_obj_get(root, "params"));
        yyjson_doc_free(*message);
        *message = NULL;
        return 0;
}

int owner_cell_run(struct owner_cells *cells, struct server_link *link, const char *code, size_t n,
                   const char *filename, struct error *err)
{
        struct sink sinks[2] = {
                {.fd = STDOUT_FILENO, .is_terminal = isatty(STDOUT_FILENO) == 1},
                {.fd = STDERR_FILENO, .is_terminal = isatty(STDERR_FILENO) == 1},
        };
        _cleanup_json_ yyjson_doc *message = NULL;

        cells->is_busy = cells->has_exited = false;
        int r = ask(cells, link, code, n, filename, err);
        while (r >= 0 && (r = next(link, sinks, &message, err)) == 0)
                ;
        if (r < 0)
                return r;
        yyjson_val *result = server_result(message, err);
        return result ? conclude(cells, sinks, result, err) : -err->code;
}
