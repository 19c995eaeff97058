/* `cloister run`: one cell; its output is passed on at once, and its exit status is the command's.
 */
#include "supervisor/broker/modes/mode-run.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/printable.h"
#include "policy/rules/labels.h"
#include "rpc/frame.h"
#include "supervisor/broker/control-exec.h"
#include "supervisor/broker/modes/run-files.h"
#include "supervisor/broker/modes/run-person.h"
#include "supervisor/broker/writer.h"
#include "supervisor/mcp/call/result-content.h"
#include "supervisor/mcp/call/result.h"
#include "supervisor/session/calls/calls.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/session.h"

enum {
        LAST_FLUSH_MS = 100,
        SCRIPT_FRAME_MAX = 16 * 1024 * 1024,
        ESCAPED_MAX = 1024 * 1024,
};

struct output {
        struct writer writer;
        bool is_terminal;
        struct terminal_stream stream;
};

/*
 * A socket to the process that reads standard input (supervisor/cli/run/feeder.h). One request is open at a time, and one
 * piece is kept at most.
 */
struct run_stdin {
        int fd;
        struct event *readable; /* NULL: there is none */
        struct buffer in; /* answers: a length of four bytes, and as many bytes; 0 at the end */
        size_t wanted;    /* by the code; 0: it does not read */
        size_t left;      /* of the answer at the front of `in` */
        bool is_asked;    /* the process, for an answer that is not complete */
        bool has_ended;
};

struct mode_run {
        struct output outputs[CELL_STREAMS];
        struct cell *cell; /* while it runs or waits */
        struct session *session;
        bool interrupted, done;
        int status;
        char *code; /* owned */
        size_t code_length;
        char *script; /* owned; JSON of the SCRIPT frame, or NULL */
        size_t script_length;
        struct run_in *in;
        struct run_stdin standard_input;
        struct event *waited; /* the code has waited for its input for as long as does not count */
        bool is_held;         /* the time of the cell stands still */
        struct run_out *out;
        struct run_person *person; /* at the terminal, or NULL */
        bool is_asked;             /* that person: no output of the code may follow the question */
};

static void write_output(struct output *output, const char *bytes, size_t n)
{
        _cleanup_buffer_ struct buffer escaped = BUFFER_INIT(ESCAPED_MAX);

        if (!output->is_terminal) {
                writer_write(&output->writer, bytes, n);
                return;
        }
        while (n > 0) {
                size_t piece = n < ESCAPED_MAX / 8 ? n : ESCAPED_MAX / 8;
                if (terminal_escape(&output->stream, bytes, piece, &escaped) >= 0)
                        writer_write(&output->writer, buffer_bytes(&escaped), escaped.length);
                buffer_consume(&escaped, escaped.length);
                bytes += piece;
                n -= piece;
        }
}

/* A slow reader of the output slows the code down. */
static void balance(struct mode_run *mode)
{
        bool full = false;

        for (int i = 0; i < CELL_STREAMS; i++)
                full = full || writer_is_full(&mode->outputs[i].writer);
        if (mode->session)
                session_pause_output(mode->session, full || mode->is_asked);
}

static void on_output(void *data, enum cell_stream stream, const char *bytes, size_t n)
{
        struct broker *broker = data;
        struct mode_run *mode = broker->data;

        write_output(&mode->outputs[stream], bytes, n);
        balance(mode);
}

static void say(struct mode_run *mode, const char *text)
{
        write_output(&mode->outputs[CELL_STDERR], text, strlen(text));
}

/* Prints "cloister: …" if the code's own output does not explain the end. */
static void tell_why(struct mode_run *mode, const struct cell_outcome *o)
{
        char line[CELL_WHY_MAX + 128];

        if (o->why[0] == '\0' || o->status == CELL_CANCELLED || o->status == CELL_EXIT)
                return;
        snprintf(line, sizeof(line), "cloister: %s%s\n", o->why,
                 o->status == CELL_TIMEOUT ? " (--timeout TIME sets another)" : "");
        say(mode, line);
}

/* Ends the loop once everything was written. */
static void end_when_written(struct broker *broker)
{
        struct mode_run *mode = broker->data;

        if (mode->done && writer_is_empty(&mode->outputs[CELL_STDOUT].writer) &&
            writer_is_empty(&mode->outputs[CELL_STDERR].writer))
                broker_end(broker, mode->status);
}

/* A picture that no model could be shown, by the name that it has as a file. */
static void tell_picture(struct mode_run *mode, const struct cell_display *d, size_t index)
{
        char why[CELL_PICTURE_TEXT_MAX], line[CELL_PICTURE_TEXT_MAX + 64];

        if (!d->is_picture || cell_picture_is_shown(&d->picture))
                return;
        cell_picture_describe(&d->picture, why);
        snprintf(line, sizeof(line), "cloister: picture display-%zu: %s\n", index + 1, why);
        say(mode, line);
}

/* Text other than HTML is printed. Other displays become a file with --out, else a line that names the type. */
static void show_displays(struct mode_run *mode, const struct cell_outcome *o)
{
        char line[CELL_MIME_MAX + 128];

        for (size_t i = 0; i < o->n_displays; i++) {
                const struct cell_display *d = &o->displays[i];
                tell_picture(mode, d, i);
                if (d->is_text && strncmp(d->mime_type, "text/", 5) == 0 &&
                    strcmp(d->mime_type, "text/html") != 0) {
                        write_output(&mode->outputs[CELL_STDOUT], buffer_bytes(&d->data),
                                     d->data.length);
                        write_output(&mode->outputs[CELL_STDOUT], "\n", 1);
                } else if (mode->out) {
                        run_out_display(mode->out, d, i);
                } else {
                        snprintf(line, sizeof(line),
                                 "cloister: %s was displayed; --out DIRECTORY keeps it as a file\n",
                                 d->mime_type);
                        say(mode, line);
                }
        }
        if (o->displays_total > o->n_displays) {
                snprintf(line, sizeof(line), "cloister: %zu more displays were not kept\n",
                         o->displays_total - o->n_displays);
                say(mode, line);
        }
}

static void show(struct mode_run *mode, const struct cell_outcome *o)
{
        const char *traceback = json_string(o->error, "traceback", NULL);

        if (traceback && o->status != CELL_TIMEOUT) {
                say(mode, traceback);
                if (traceback[0] && traceback[strlen(traceback) - 1] != '\n')
                        say(mode, "\n");
        }
        tell_why(mode, o);
        show_displays(mode, o);
}

/* --json: the result of run_python, in one line. */
static void write_result(struct mode_run *mode, const struct buffer *result)
{
        write_output(&mode->outputs[CELL_STDOUT], buffer_bytes(result), result->length);
        write_output(&mode->outputs[CELL_STDOUT], "\n", 1);
}

static void show_json(struct mode_run *mode, const struct cell_outcome *o)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        const struct result_options options = {
                .session = "run",
                .max_output = OUTPUT_CHARACTERS_MAX,
                .kinds = CONTENT_AUDIO,
        };

        if (result_render(o, &options, &result) >= 0) {
                write_result(mode, &result);
        } else {
                say(mode, "cloister: --json: no memory for the result\n");
                mode->status = EXIT_CLOISTER;
        }
        for (size_t i = 0; mode->out && i < o->n_displays; i++)
                run_out_display(mode->out, &o->displays[i], i);
}

static void on_done(void *data, struct cell *cell)
{
        struct broker *broker = data;
        struct mode_run *mode = broker->data;

        mode->cell = NULL;
        mode->session = NULL;
        mode->status = exit_code_of(&cell->outcome, broker->no_sandbox);
        if (broker->options.json)
                show_json(mode, &cell->outcome);
        else
                show(mode, &cell->outcome);
        if (mode->out && run_out_collect(mode->out, cell->session) == -ENOENT)
                say(mode, "cloister: the files in /workspace/out are lost with the sandbox\n");
        mode->done = !mode->out;
        end_when_written(broker);
}

static void on_out_done(void *data, const struct error *error)
{
        struct broker *broker = data;
        struct mode_run *mode = broker->data;

        if (error) {
                say(mode, "cloister: --out: ");
                say(mode, error->text);
                say(mode, "\n");
                mode->status = EXIT_CLOISTER;
        }
        mode->done = true;
        end_when_written(broker);
}

static void on_drained(void *data)
{
        struct broker *broker = data;

        balance(broker->data);
        end_when_written(broker);
}

/* The reader of the output has closed it: the exit status is that of SIGPIPE. */
static void on_broken(void *data, int code)
{
        bool unread = code == EPIPE || code == ECONNRESET;

        if (!unread)
                log_error("write the output: %s", strerror(code));
        broker_end(data, unread ? 128 + SIGPIPE : EXIT_CLOISTER);
}

static int open_outputs(struct broker *broker, struct mode_run *mode, struct error *err)
{
        static const int fds[CELL_STREAMS] = {STDOUT_FILENO, STDERR_FILENO};
        const struct writer_owner owner = {broker, on_drained, on_broken};

        for (int i = 0; i < CELL_STREAMS; i++) {
                int r = writer_open(&mode->outputs[i].writer, broker->base, fds[i], &owner, err);
                if (r < 0)
                        return r;
                mode->outputs[i].is_terminal = isatty(fds[i]) == 1;
        }
        return 0;
}

/* ---- standard input ---- */

/* Without --timeout, the time in which the code waits for its input does not count. It is bounded, because
 * other threads of the code may run meanwhile. */
static void hold(struct broker *broker)
{
        struct mode_run *mode = broker->data;
        struct timeval most = clock_timeval_ms(CELL_HELD_MAX_MS);

        if (broker->options.timeout_ms > 0 || mode->is_held)
                return;
        cell_hold(mode->cell);
        evtimer_add(mode->waited, &most);
        mode->is_held = true;
}

static void release(struct mode_run *mode)
{
        if (mode->is_held)
                cell_release(mode->cell);
        mode->is_held = false;
        evtimer_del(mode->waited);
}

static void on_waited(evutil_socket_t fd, short what, void *data)
{
        struct mode_run *mode = data;

        if (mode->cell)
                release(mode);
}

/* Answers the request of the code, which may ask again from inside of it; n is 0 at the end. */
static void hand_over(struct mode_run *mode, size_t n)
{
        struct run_stdin *in = &mode->standard_input;
        _cleanup_free_ char *bytes = malloc(n + 1);

        if (bytes && n > 0)
                memcpy(bytes, buffer_bytes(&in->in), n);
        in->wanted = 0;
        buffer_consume(&in->in, n);
        in->left -= n;
        if (!mode->cell)
                return;
        release(mode);
        cell_give_input(mode->cell, bytes ? bytes : "", bytes ? n : 0);
}

static void end_input(struct run_stdin *in)
{
        in->has_ended = true;
        event_del(in->readable);
}

/* A terminal may deliver more input after its end of file. */
static void take_length(struct mode_run *mode)
{
        struct run_stdin *in = &mode->standard_input;
        uint32_t length;

        if (in->in.length < sizeof(length))
                return;
        memcpy(&length, buffer_bytes(&in->in), sizeof(length));
        buffer_consume(&in->in, sizeof(length));
        in->is_asked = false;
        in->left = length;
        if (length > FRAME_READ_MAX)
                end_input(in);
        else if (length == 0 && in->wanted > 0)
                hand_over(mode, 0);
}

static void answer(struct mode_run *mode)
{
        struct run_stdin *in = &mode->standard_input;

        if (in->is_asked && in->left == 0)
                take_length(mode);
        size_t there = in->in.length < in->left ? in->in.length : in->left;
        if (!in->has_ended && in->wanted > 0 && there > 0)
                hand_over(mode, there < in->wanted ? there : in->wanted);
        if (in->has_ended && in->wanted > 0) {
                in->left = 0;
                hand_over(mode, 0);
        }
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct mode_run *mode = data;

        ssize_t n = buffer_read_fd(&mode->standard_input.in, (int)fd, FRAME_READ_MAX);
        if (n == -EAGAIN || n == -EINTR)
                return;
        if (n <= 0)
                end_input(&mode->standard_input);
        answer(mode);
}

/* The code asks for at most n bytes, of which there is at least one before the end. */
static void on_read(void *data, size_t n)
{
        struct broker *broker = data;
        struct mode_run *mode = broker->data;
        struct run_stdin *in = &mode->standard_input;
        uint32_t request = (uint32_t)n;

        hold(broker);
        in->wanted = n;
        if (in->left == 0 && !in->is_asked && !in->has_ended) {
                in->is_asked = true;
                if (fd_write_all(in->fd, &request, sizeof(request)) < 0)
                        end_input(in);
        }
        answer(mode);
}

/* They are not wanted any more: what comes is for the next request. */
static void on_read_dropped(void *data)
{
        struct broker *broker = data;
        struct mode_run *mode = broker->data;

        mode->standard_input.wanted = 0;
        release(mode);
}

static const struct cell_input cell_input = {on_read, on_read_dropped};

static int open_standard_input(struct broker *broker, struct mode_run *mode, struct error *err)
{
        struct run_stdin *in = &mode->standard_input;
        int fd = broker->options.stdin_fd;

        *in = (struct run_stdin){.fd = fd, .in = BUFFER_INIT(4 * FRAME_READ_MAX)};
        int r = fd_set_nonblocking(fd, 1);
        if (r < 0)
                return error_errno(err, -r, "standard input");
        in->readable = event_new(broker->base, fd, EV_READ | EV_PERSIST, on_readable, mode);
        if (!in->readable || event_add(in->readable, NULL) < 0)
                return error_errno(err, ENOMEM, "standard input");
        return 0;
}

/* ---- cells ---- */

static bool on_question(void *data, const struct person_way *way)
{
        struct broker *broker = data;
        struct mode_run *mode = broker->data;

        mode->is_asked = mode->person && run_person_ask(mode->person, way ? way->id : NULL);
        balance(mode);
        return mode->is_asked;
}

static int run_cell(struct broker *broker, const char *code, size_t n,
                    void (*done)(void *data, struct cell *cell),
                    void (*output)(void *data, enum cell_stream stream, const char *bytes,
                                   size_t n),
                    struct error *err)
{
        const struct options *options = &broker->options;
        struct mode_run *mode = broker->data;
        const struct cell_request request = {
                .code = code,
                .code_length = n,
                .filename = n > 0 ? options->code_name : NULL, /* each name is given once */
                .timeout_ms = options->timeout_ms > 0 ? options->timeout_ms
                                                      : broker->config->cell_timeout_ms,
                .profile = options->profile,
                .language = LANGUAGE_MAX,
                .script = n > 0 ? mode->script : NULL,
                .script_length = mode->script_length,
                .standard_input = n > 0 && mode->standard_input.readable ? &cell_input : NULL,
                .done = done,
                .output = output,
                .waits = on_question,
                .data = broker,
        };
        return sessions_run(broker->sessions, "default", &request, &mode->cell, err);
}

static int run_code(struct broker *broker, struct error *err)
{
        struct mode_run *mode = broker->data;

        int r = run_cell(broker, mode->code, mode->code_length, on_done,
                         broker->options.json ? NULL : on_output, err);
        if (r >= 0)
                mode->session = mode->cell->session;
        return r;
}

static void give_up(struct broker *broker, const char *why)
{
        struct mode_run *mode = broker->data;

        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        mode->status = broker->no_sandbox ? EXIT_NO_SANDBOX : EXIT_CLOISTER;
        mode->done = true;
        if (broker->options.json &&
            result_render_refusal("SandboxError", why, "run", &result) >= 0) {
                write_result(mode, &result);
        } else {
                say(mode, "cloister: ");
                say(mode, why);
                say(mode, "\n");
        }
        end_when_written(broker);
}

static void on_in_done(void *data, const struct error *error)
{
        struct broker *broker = data;
        struct error err = {};

        if (error || run_code(broker, &err) < 0)
                give_up(broker, error ? error->text : err.text);
}

/* The empty cell has ended, so the sandbox exists. */
static void on_ready(void *data, struct cell *cell)
{
        struct broker *broker = data;
        struct mode_run *mode = broker->data;
        struct error err = {};

        mode->cell = NULL;
        if (broker->options.label)
                session_labels_add(&cell->session->labels, label_find(broker->options.label),
                                   "files of --in", 0, 0);
        if (cell->outcome.status != CELL_OK)
                give_up(broker, cell->outcome.why);
        else if (run_in_start(&mode->in, cell->session, broker->options.in_fd, on_in_done, broker,
                              &err) < 0)
                give_up(broker, err.text);
}

static int open_inputs(struct broker *broker, struct mode_run *mode, struct error *err)
{
        const struct options *options = &broker->options;

        int r = fd_read_whole(options->code_fd, CELL_CODE_MAX, &mode->code, &mode->code_length,
                              err);
        if (r >= 0 && options->script_fd >= 0)
                r = fd_read_whole(options->script_fd, SCRIPT_FRAME_MAX, &mode->script,
                                  &mode->script_length, err);
        if (r >= 0 && options->stdin_fd >= 0)
                r = open_standard_input(broker, mode, err);
        if (r >= 0 && options->terminal_fd >= 0)
                r = run_person_new(&mode->person, broker->base, options->terminal_fd, err);
        mode->waited = evtimer_new(broker->base, on_waited, mode);
        return r < 0 || mode->waited ? r : error_errno(err, ENOMEM, "run");
}

static int start(struct broker *broker, struct error *err)
{
        const struct options *options = &broker->options;
        struct mode_run *mode = calloc(1, sizeof(*mode));

        if (!mode)
                return error_errno(err, ENOMEM, "run");
        broker->data = mode;
        int r = open_outputs(broker, mode, err);
        if (r >= 0)
                r = open_inputs(broker, mode, err);
        if (r < 0)
                return error_context(err, "%s", options->code_name);
        if (options->out_fd >= 0)
                r = run_out_new(&mode->out, broker->base, options->out_fd, options->out_hidden,
                                on_out_done, broker, err);
        if (r < 0)
                return r;
        if (!utf8_is_valid(mode->code, mode->code_length))
                return error_set(err, EINVAL, "%s is not UTF-8", options->code_name);

        return options->in_fd >= 0 ? run_cell(broker, "", 0, on_ready, NULL, err)
                                   : run_code(broker, err);
}

static void interrupted(struct broker *broker)
{
        struct mode_run *mode = broker->data;

        if (!mode->cell)
                broker_end(broker, EXIT_CANCELLED);
        else if (mode->interrupted)
                cell_kill(mode->cell);
        else
                cell_cancel(mode->cell);
        mode->interrupted = true;
}

static void stop(struct broker *broker)
{
        struct mode_run *mode = broker->data;

        for (int i = 0; i < CELL_STREAMS; i++)
                writer_flush(&mode->outputs[i].writer, LAST_FLUSH_MS);
}

static void mode_free(struct broker *broker)
{
        struct mode_run *mode = broker->data;

        if (!mode)
                return;
        for (int i = 0; i < CELL_STREAMS; i++)
                writer_close(&mode->outputs[i].writer);
        run_in_free(mode->in);
        run_out_free(mode->out);
        run_person_free(mode->person);
        if (mode->standard_input.readable)
                event_free(mode->standard_input.readable);
        buffer_done(&mode->standard_input.in);
        if (mode->waited)
                event_free(mode->waited);
        free(mode->script);
        free(mode->code);
        free(mode);
}

const struct broker_mode broker_mode_run = {
        .start = start,
        .stop = stop,
        .interrupted = interrupted,
        .free = mode_free,
};
