/*
 * Code of the server's owner in a session (`cloister exec`, and the prompt), and questions to it.
 *
 * It is a cell like those of the client, in the same queue, with the same limits. Its output is passed on as it comes; while
 * the owner's program does not read, the session's output is not read either, which slows the code down until its timeout. Code of
 * a prompt has a standard input: the notification "read" asks the program for a line, and "input" {data: base64} brings it.
 */
#include "supervisor/broker/control-exec.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/exit-status.h"
#include "base/json-out.h"
#include "rpc/background.h"
#include "supervisor/mcp/call/result-content.h"
#include "supervisor/mcp/call/result.h"
#include "supervisor/session/calls/calls.h"
#include "supervisor/session/hold.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/session.h"

/* The worker raises this error before it runs a line of the script. */
static bool lacks_packages(const struct cell_outcome *o)
{
        const char *type = json_string(o->error, "type", NULL);

        return type && strcmp(type, "cloister.MissingPackages") == 0;
}

int exit_code_of(const struct cell_outcome *o, bool no_sandbox)
{
        switch (o->status) {
        case CELL_OK:
                return 0;
        case CELL_EXIT:
                return o->exit_code;
        case CELL_TIMEOUT:
                return EXIT_TIMEOUT;
        case CELL_CANCELLED:
                return EXIT_CANCELLED;
        case CELL_OOM:
        case CELL_KILLED:
                return 128 + (o->signal ? o->signal : SIGKILL);
        default:
                if (o->error_type)
                        return no_sandbox ? EXIT_NO_SANDBOX : EXIT_CLOISTER;
                return lacks_packages(o) ? EXIT_CLOISTER : 1;
        }
}

enum {
        UNREAD_MAX = 1024 * 1024, /* bytes for a client that does not read */
        OUTPUT_PIECE = 64 * 1024,
        LARGE_MIN = 256 * 1024, /* an answer that is made in the background */
        WAIT_MAX_MS = 24 * 3600 * 1000,
        FILENAME_MAX_BYTES = 255,
        PROBE_MAX = 256 * 1024,
        PROBE_TIMEOUT_MS = 5000,
};

struct exec {
        struct control_task task; /* first */
        char key[SESSION_KEY_MAX + 1];
        struct cell *cell; /* until done() */
        struct session *session;
        struct event *patience; /* for a busy session */
        struct event *relief;   /* ends the pause of the output at the cell's timeout, or NULL */
        bool is_busy, is_streamed;
        size_t unread;    /* bytes that the client has not read */
        bool is_stopping; /* the code must come to its end: what the client does not read is dropped */
        struct exec_answer *answer; /* being made */
        struct buffer typed;        /* what the code has not read */
        size_t wanted;              /* bytes that it waits for, or 0 */
        bool is_asked;              /* the person: no output of the code may follow the question */
        bool is_held, is_over;      /* its time stands still; there is no more input */
        struct event *held;         /* ends that, or NULL */
};

/* An answer, made in the background if it is large. */
struct exec_answer {
        struct background_job job; /* first */
        struct exec *exec;
        struct cell_outcome outcome;
        char session[SESSION_KEY_MAX + 1];
        bool is_streamed;
        struct buffer result;
        int r;
};

static void exec_free(struct exec *exec)
{
        if (exec->patience)
                event_free(exec->patience);
        if (exec->relief)
                event_free(exec->relief);
        if (exec->held)
                event_free(exec->held);
        if (exec->answer)
                background_cancel(&exec->answer->job);
        buffer_done(&exec->typed);
        free(exec);
}

static void free_task(struct control_task *task)
{
        exec_free((struct exec *)task);
}

/* Sends the answer, or the error if that is set. */
static void finish(struct exec *exec, const struct buffer *result, const struct error *error)
{
        control_task_finish(&exec->task, result, error);
        exec_free(exec);
}

/* Code that is interrupted ends only if its output is read. */
static void let_end(struct exec *exec)
{
        exec->is_stopping = true;
        if (exec->session)
                session_pause_output(exec->session, false);
}

static void stop(struct control_task *task)
{
        struct exec *exec = (struct exec *)task;

        let_end(exec);
        if (exec->cell)
                cell_cancel(exec->cell);
}

static void drained(struct control_task *task)
{
        struct exec *exec = (struct exec *)task;

        exec->unread = 0;
        if (exec->session && !exec->is_asked)
                session_pause_output(exec->session, false);
}

/* ---- what the person at a prompt types for the code ---- */

static void release(struct exec *exec)
{
        if (exec->is_held && exec->cell)
                cell_release(exec->cell);
        exec->is_held = false;
        if (exec->held)
                evtimer_del(exec->held);
}

static void on_held(evutil_socket_t fd, short what, void *data)
{
        release(data);
}

/* The time in which the code waits for a person does not count. It is bounded, because its threads may run meanwhile. */
static void hold(struct exec *exec)
{
        struct timeval most = clock_timeval_ms(CELL_HELD_MAX_MS);

        if (!exec->held)
                exec->held = evtimer_new(control_context(exec->task.control)->base, on_held, exec);
        if (!exec->held || exec->is_held || evtimer_add(exec->held, &most) < 0)
                return;
        cell_hold(exec->cell);
        exec->is_held = true;
}

static void hand_over(struct exec *exec)
{
        size_t n = exec->typed.length < exec->wanted ? exec->typed.length : exec->wanted;

        if (exec->wanted == 0 || (n == 0 && !exec->is_over))
                return;
        _cleanup_free_ char *bytes = malloc(n + 1);
        if (!bytes)
                n = 0;
        else
                memcpy(bytes, buffer_bytes(&exec->typed), n);
        buffer_consume(&exec->typed, n);
        exec->wanted = 0;
        exec->is_over = false;
        release(exec);
        cell_give_input(exec->cell, bytes ? bytes : "", n);
}

static void on_input(struct control_task *task, yyjson_val *params)
{
        struct exec *exec = (struct exec *)task;
        size_t n = 0;
        const char *data = json_string(params, "data", &n);

        if (!exec->cell || !data)
                return;
        exec->is_over = n == 0; /* as of a terminal: what is typed later is read again */
        base64_decode(&exec->typed, data, n);
        hand_over(exec);
}

static void on_read(void *data, size_t n)
{
        static const char ask[] = "{\"jsonrpc\":\"2.0\",\"method\":\"read\"}\n";
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(sizeof(ask));
        struct exec *exec = data;

        exec->wanted = n;
        if (exec->typed.length > 0 || !exec->task.client) {
                exec->is_over = exec->typed.length == 0;
                hand_over(exec);
                return;
        }
        hold(exec);
        if (buffer_append_text(&line, ask) >= 0)
                exec->unread = control_task_send(&exec->task, &line);
}

static void on_read_dropped(void *data)
{
        struct exec *exec = data;

        exec->wanted = 0;
        release(exec);
}

static const struct cell_input person = {on_read, on_read_dropped};

/* The person at the program's terminal can answer a question about the calls. id NULL: it is over. */
static bool on_question(void *data, const struct person_way *way)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(256);
        struct json_out out = {.to = &line};
        struct exec *exec = data;

        /* Its person has a terminal and no token. */
        if (!exec->task.client || (way && !way->id))
                return false;
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "jsonrpc", "2.0");
        json_out_text(&out, "method", "question");
        json_out_begin(&out, "params", '{');
        json_out_text(&out, "id", way ? way->id : "");
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        if (out.error < 0 || buffer_append(&line, "\n", 1) < 0)
                return false;
        exec->unread = control_task_send(&exec->task, &line);
        exec->is_asked = way != NULL;
        if (exec->session)
                session_pause_output(exec->session, exec->is_asked || exec->unread > UNREAD_MAX);
        return true;
}

static const struct control_work work = {stop, drained, on_input, free_task};

static int append_output(struct buffer *line, enum cell_stream stream, const char *bytes, size_t n)
{
        struct json_out out = {.to = line};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "jsonrpc", "2.0");
        json_out_text(&out, "method", "output");
        json_out_begin(&out, "params", '{');
        json_out_text(&out, "stream", stream == CELL_STDOUT ? "stdout" : "stderr");
        json_out_base64(&out, "data", bytes, n);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(line, "\n", 1);
}

static void on_relief(evutil_socket_t fd, short what, void *data)
{
        let_end(data);
}

static void pause_output(struct exec *exec)
{
        const struct cell *cell = exec->cell;
        uint64_t passed = (clock_us() - cell->started_us) / 1000;
        struct timeval left = clock_timeval_ms(
                passed < cell->request.timeout_ms ? cell->request.timeout_ms - passed : 0);

        session_pause_output(exec->session, true);
        if (!exec->relief)
                exec->relief = evtimer_new(control_context(exec->task.control)->base, on_relief,
                                           exec);
        if (exec->relief)
                evtimer_add(exec->relief, &left);
}

static void on_output(void *data, enum cell_stream stream, const char *bytes, size_t n)
{
        struct exec *exec = data;

        for (size_t at = 0; at < n && exec->task.client; at += OUTPUT_PIECE) {
                if (exec->is_stopping && exec->unread > UNREAD_MAX)
                        return;
                _cleanup_buffer_ struct buffer line = BUFFER_INIT(4 * OUTPUT_PIECE);
                size_t piece = n - at < OUTPUT_PIECE ? n - at : OUTPUT_PIECE;
                if (append_output(&line, stream, bytes + at, piece) >= 0)
                        exec->unread = control_task_send(&exec->task, &line);
        }
        if (exec->unread > UNREAD_MAX)
                pause_output(exec);
}

/* ---- answers ---- */

static void put_displays(struct json_out *out, const struct cell_outcome *o)
{
        json_out_begin(out, "displays", '[');
        for (size_t i = 0; i < o->n_displays; i++) {
                const struct cell_display *d = &o->displays[i];
                char why[CELL_PICTURE_TEXT_MAX];

                json_out_begin(out, NULL, '{');
                json_out_text(out, "mime_type", d->mime_type);
                if (d->is_picture && !cell_picture_is_shown(&d->picture) &&
                    cell_picture_describe(&d->picture, why))
                        json_out_text(out, "fault", why);
                json_out_string(out, d->is_text ? "text" : "data", buffer_bytes(&d->data),
                                d->data.length);
                json_out_bool(out, "linked", d->is_linked);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
        json_out_int(out, "displays_total", (int64_t)o->displays_total);
}

static void put_member(struct json_out *out, const char *key, yyjson_val *object,
                       const char *member)
{
        size_t n = 0;
        const char *text = json_string(object, member, &n);

        if (text)
                json_out_string(out, key, text, n);
}

/* For a person, who has the output already. */
static void put_plainly(struct json_out *out, const struct cell_outcome *o)
{
        const char *const notices[] = {o->before, o->restored, o->note};

        put_member(out, "traceback", o->error, "traceback");
        put_member(out, "value", o->value, "repr");
        json_out_begin(out, "notices", '[');
        for (size_t i = 0; i < ARRAY_SIZE(notices); i++) {
                if (*notices[i])
                        json_out_text(out, NULL, notices[i]);
        }
        json_out_end(out, ']');
        put_displays(out, o);
}

static int put_result(struct json_out *out, const struct exec_answer *a)
{
        const struct result_options options = {
                .session = a->session, .max_output = OUTPUT_CHARACTERS_MAX, .kinds = CONTENT_ALL};
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        int r = result_render(&a->outcome, &options, &result);
        json_out_raw(out, "result", buffer_bytes(&result), result.length);
        return r;
}

static void make_answer(struct background_job *job)
{
        struct exec_answer *a = (void *)job;
        const struct cell_outcome *o = &a->outcome;
        struct json_out out = {.to = &a->result};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "status", cell_status_name(o->status));
        json_out_int(&out, "exit_status", exit_code_of(o, false));
        if (o->why[0])
                json_out_text(&out, "why", o->why);
        if (a->is_streamed)
                put_plainly(&out, o);
        else
                a->r = put_result(&out, a);
        json_out_end(&out, '}');
        a->r = a->r < 0 ? a->r : out.error;
}

static void free_answer(struct background_job *job)
{
        struct exec_answer *a = (void *)job;

        cell_outcome_done(&a->outcome);
        buffer_done(&a->result);
        free(a);
}

static void on_answer(struct background_job *job)
{
        struct exec_answer *a = (void *)job;
        struct exec *exec = a->exec;
        struct error err = {};

        exec->answer = NULL;
        if (a->r < 0)
                error_errno(&err, -a->r, "the result");
        finish(exec, &a->result, &err);
        free_answer(job);
}

static size_t bytes_of(const struct cell_outcome *o)
{
        size_t n = o->result ? yyjson_doc_get_read_size(o->result) : 0;

        for (int i = 0; i < CELL_STREAMS; i++)
                n += o->streams[i].characters;
        for (size_t i = 0; i < o->n_displays; i++)
                n += o->displays[i].data.length;
        return n;
}

static void answer(struct exec *exec, struct cell_outcome *outcome)
{
        static const struct background_kind kind = {make_answer, on_answer, free_answer};
        struct exec_answer *a = calloc(1, sizeof(*a));
        struct error err = {};

        if (!a) {
                error_errno(&err, ENOMEM, "the result");
                finish(exec, NULL, &err);
                return;
        }
        bool is_large = bytes_of(outcome) > LARGE_MIN;
        a->exec = exec;
        a->is_streamed = exec->is_streamed;
        memcpy(a->session, exec->key, sizeof(a->session));
        buffer_init(&a->result, RESULT_MAX);
        cell_outcome_move(&a->outcome, outcome);
        exec->answer = a;
        if (is_large) {
                background_start(&a->job, &kind, control_context(exec->task.control)->base);
                return;
        }
        make_answer(&a->job);
        on_answer(&a->job);
}

/* A cell that was not run. */
static void answer_busy(struct exec *exec)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX),
                                       line = BUFFER_INIT(RESULT_MAX);
        struct session_running running;
        struct json_out out = {.to = &line};
        struct error err = {};

        session_describe_running(
                sessions_find(control_context(exec->task.control)->sessions, exec->key), &running);
        int r = result_render_busy(&running, "the session runs other code; nothing was run",
                                   exec->key, &result);
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "status", "busy");
        json_out_text(&out, "code", running.code);
        json_out_int(&out, "duration_ms", (int64_t)(running.duration_us / 1000));
        json_out_text(&out, "line", running.line);
        json_out_raw(&out, "result", buffer_bytes(&result), result.length);
        json_out_end(&out, '}');
        if (r < 0 || out.error < 0)
                error_set(&err, EBUSY, "the session runs other code");
        finish(exec, &line, &err);
}

static void on_done(void *data, struct cell *cell)
{
        struct exec *exec = data;

        session_pause_output(exec->session, false);
        release(exec);
        exec->cell = NULL;
        exec->session = NULL;
        if (exec->patience)
                event_del(exec->patience);
        if (exec->relief)
                event_del(exec->relief);
        if (exec->is_busy && cell->number == 0)
                answer_busy(exec);
        else
                answer(exec, &cell->outcome);
}

static void on_patience(evutil_socket_t fd, short what, void *data)
{
        struct exec *exec = data;

        if (!exec->cell || exec->cell->number != 0)
                return;
        exec->is_busy = true;
        cell_cancel(exec->cell);
}

/* ---- requests ---- */

static int take_number(yyjson_val *params, const char *key, int64_t most, int64_t *ret,
                       struct error *err)
{
        yyjson_val *value = yyjson_obj_get(params, key);

        if (!value)
                return 0;
        if (json_int64(value, ret) < 0 || *ret < 0 || *ret > most)
                return error_set(err, EINVAL, "%s: a number from 0 to %lld is needed", key,
                                 (long long)most);
        return 0;
}

static int take_timeout(struct control *control, yyjson_val *params, int64_t *ret,
                        struct error *err)
{
        const struct config *config = sessions_config(control_context(control)->sessions);
        int64_t most = config->cell_timeout_max_ms;

        *ret = config->cell_timeout_ms;
        int r = take_number(params, "timeout_ms", INT64_MAX, ret, err);
        if (r >= 0 && (*ret < 1 || *ret > most))
                return error_set(err, EINVAL,
                                 "--timeout: at most %lld s: \"timeout_max\" in the config",
                                 (long long)most / 1000);
        return r;
}

/* Queues the cell. The exec is begun, or freed. */
static int start(struct exec *exec, struct control_client *client, struct control *control,
                 struct cell_request *cell, struct jsonrpc_message *request, struct error *err)
{
        cell->done = on_done;
        cell->is_owners = true;
        cell->data = exec;
        int r = sessions_run(control_context(control)->sessions, exec->key, cell, &exec->cell, err);
        if (r < 0) {
                exec_free(exec);
                return r;
        }
        exec->session = exec->cell->session;
        control_task_begin(client, &exec->task, &work, request);
        return 0;
}

/* The parameters of a request. */
struct exec_params {
        const char *key, *code, *filename;
        size_t n_code;
        int64_t timeout_ms, wait_ms;
        bool stream, is_waited, create, input, terminal;
        const char *script; /* for a session that is created, or NULL */
        size_t n_script;
};

static int take_params(struct control *control, yyjson_val *params, struct exec_params *ret,
                       struct error *err)
{
        struct session *session = NULL;
        size_t n = 0;

        ret->code = json_string(params, "code", &ret->n_code);
        ret->filename = json_string(params, "filename", &n);
        if (!ret->code || n > FILENAME_MAX_BYTES || (ret->filename && strlen(ret->filename) != n))
                return error_set(err, EINVAL, "code is needed, and filename is at most %d bytes",
                                 FILENAME_MAX_BYTES);
        int r = take_timeout(control, params, &ret->timeout_ms, err);
        if (r >= 0)
                r = take_number(params, "wait_ms", WAIT_MAX_MS, &ret->wait_ms, err);
        if (r < 0)
                return r;
        ret->stream = yyjson_is_true(yyjson_obj_get(params, "stream"));
        ret->terminal = yyjson_is_true(yyjson_obj_get(params, "terminal"));
        ret->input = yyjson_is_true(yyjson_obj_get(params, "input"));
        ret->key = json_string(params, "name", &n);
        r = control_session(control, params, NULL, &session, err);
        ret->create = yyjson_is_true(yyjson_obj_get(params, "create"));
        if (r == -ENOENT && ret->create && !session) {
                ret->script = json_string(params, "script", &ret->n_script);
                return ret->script || !yyjson_obj_get(params, "script")
                               ? 0
                               : error_set(err, EINVAL, "script: a string is needed");
        }
        ret->is_waited = session && session_has_cells(session);
        if (session && session_is_held(session))
                ret->wait_ms = 0; /* a person may take long */
        return r;
}

int control_exec(struct control_client *client, struct control *control,
                 struct jsonrpc_message *request, struct error *err)
{
        static const char of_person[] = "{\"input\":\"terminal\"}";
        struct exec_params p = {};

        int r = control_check_room(control, err);
        if (r >= 0)
                r = take_params(control, request->params, &p, err);
        if (r < 0)
                return r;
        struct exec *exec = calloc(1, sizeof(*exec));
        if (!exec)
                return error_errno(err, ENOMEM, "exec");
        snprintf(exec->key, sizeof(exec->key), "%s", p.key);
        exec->is_streamed = p.stream;
        buffer_init(&exec->typed, 2 * CONTROL_LINE_MAX);
        bool with_input = p.input && p.stream && !p.script;
        if (p.is_waited && p.wait_ms == 0) {
                control_task_begin(client, &exec->task, &work, request);
                answer_busy(exec);
                return 0;
        }
        struct cell_request cell = {
                .code = p.code,
                .code_length = p.n_code,
                .language = LANGUAGE_MAX,
                .filename = p.filename,
                .script = with_input ? of_person : p.script,
                .script_length = with_input ? sizeof(of_person) - 1 : p.n_script,
                .standard_input = with_input ? &person : NULL,
                .timeout_ms = (uint32_t)p.timeout_ms,
                .is_bound = !p.create,
                .output = p.stream ? on_output : NULL,
                .waits = p.terminal ? on_question : NULL,
        };
        r = start(exec, client, control, &cell, request, err);
        if (r < 0 || !p.is_waited)
                return r;
        const struct timeval wait = clock_timeval_ms((uint64_t)p.wait_ms);
        exec->patience = evtimer_new(control_context(control)->base, on_patience, exec);
        if (exec->patience)
                evtimer_add(exec->patience, &wait);
        return 0;
}

/* ---- questions ---- */

static void on_probed(void *data, struct cell *cell)
{
        struct exec *exec = data;
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(2 * PROBE_MAX);
        yyjson_val *answer = yyjson_obj_get(cell->outcome.value, "json");
        struct json_out out = {.to = &line};
        struct error err = {};

        exec->cell = NULL;
        exec->session = NULL;
        json_out_begin(&out, NULL, '{');
        if (answer)
                json_out_value(&out, "answer", answer);
        else
                json_out_raw(&out, "answer", "null", 4);
        json_out_end(&out, '}');
        if (cell->outcome.status != CELL_OK || out.error < 0)
                error_set(&err, EBUSY, "the session did not answer: %s", cell->outcome.why);
        finish(exec, &line, &err);
}

/* Only a session that runs nothing answers. */
int control_probe(struct control_client *client, struct control *control,
                  struct jsonrpc_message *request, struct error *err)
{
        _cleanup_buffer_ struct buffer ask = BUFFER_INIT(PROBE_MAX);
        struct session *session;
        const char *key;

        int r = control_check_room(control, err);
        if (r >= 0)
                r = control_session(control, request->params, &key, &session, err);
        if (r < 0)
                return r;
        if (session_has_cells(session))
                return error_set(err, EBUSY, "session \"%s\" runs code", key);
        yyjson_val *value = yyjson_obj_get(request->params, "ask");
        if (!yyjson_is_obj(value) || json_append(&ask, value) < 0)
                return error_set(err, EINVAL, "ask: an object of at most %d bytes is needed",
                                 PROBE_MAX);
        struct exec *exec = calloc(1, sizeof(*exec));
        if (!exec)
                return error_errno(err, ENOMEM, "probe");
        snprintf(exec->key, sizeof(exec->key), "%s", key);
        struct cell_request cell = {.code = buffer_bytes(&ask),
                                    .code_length = ask.length,
                                    .language = LANGUAGE_MAX,
                                    .filename = "<probe>",
                                    .is_probe = true,
                                    .timeout_ms = PROBE_TIMEOUT_MS};
        r = start(exec, client, control, &cell, request, err);
        if (r >= 0)
                exec->cell->request.done = on_probed;
        return r;
}
