/* Requests for files, by the ids that the broker gave them. */
#include "supervisor/session/calls/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/file-path.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/loop.h"
#include "rpc/memory-account.h"
#include "supervisor/session/cell/cell-result.h"
#include "supervisor/session/machine/machine.h"

enum { PAYLOAD_MAX = 2 * FILES_CHUNK, MESSAGE_MAX = 200 };

struct file_request {
        struct file_request *next;
        struct session *session;
        uint64_t number;
        struct file_question question;
        files_done_fn *done;
        void *data;
        struct event *timer;
};

static void request_free(struct file_request *request)
{
        principal_count(request->session->principal, -1, 0);
        loop_event_free(&request->timer);
        free(request);
}

static void remove_request(struct file_request *request)
{
        struct files *files = request->session->files;
        struct file_request **at = &files->first;

        while (*at != request)
                at = &(*at)->next;
        *at = request->next;
        files->n--;
}

static void finish(struct file_request *request, const struct file_answer *answer,
                   const struct error *error)
{
        remove_request(request);
        request->done(request->data, answer, error);
        request_free(request);
}

static void on_timeout(evutil_socket_t fd, short what, void *data)
{
        struct file_request *request = data;
        struct error error = {};

        error_set(
                &error, EBUSY,
                "session \"%s\" is busy: it did not answer within %d s; try again when its code has ended",
                session_key_name(request->session->name), FILES_WAIT_MS / 1000);
        finish(request, NULL, &error);
}

static int check_alive(const struct session *s, struct error *err)
{
        if (s->state == SESSION_RESTORING || s->state == SESSION_WAKING)
                return error_set(err, EBUSY, "session \"%s\" is being restored: try again",
                                 session_key_name(s->name));
        if (!session_is_usable(s))
                return error_set(err, ENOENT, "session \"%s\" is gone, and its files with it",
                                 session_key_name(s->name));
        if (s->stands_still)
                return error_set(err, EBUSY,
                                 "session \"%s\" is busy: it stands still while a person decides",
                                 session_key_name(s->name));
        if (s->files->n >= FILES_REQUESTS_MAX)
                return error_set(err, EBUSY, "session \"%s\": too many files are read at once",
                                 session_key_name(s->name));
        return 0;
}

/* Sends the request that was written to *out, and remembers it. */
static int send_request(struct session *s, const struct file_question *question,
                        const struct json_out *out, const char *what, files_done_fn *done,
                        void *data, struct error *err)
{
        const struct timeval wait = clock_timeval_ms(FILES_WAIT_MS);
        struct file_request **at = &s->files->first;

        int r = check_alive(s, err);
        if (r < 0)
                return r;
        if (out->error < 0)
                return error_errno(err, -out->error, "%s", what);
        struct file_request *request = calloc(1, sizeof(*request));
        if (!request)
                return error_errno(err, ENOMEM, "file request");
        *request = (struct file_request){.session = s,
                                         .number = s->files->last_number + 1,
                                         .question = *question,
                                         .done = done,
                                         .data = data};
        request->timer = evtimer_new(s->context->base, on_timeout, request);
        principal_count(s->principal, 1, 0);
        session_thaw(s);
        r = request->timer ? channel_send(&s->channel, question->type, request->number,
                                          buffer_bytes(out->to), out->to->length)
                           : -ENOMEM;
        if (r < 0) {
                request_free(request);
                return error_errno(err, -r, "session \"%s\": ask for a file",
                                   session_key_name(s->name));
        }
        s->files->last_number++;
        evtimer_add(request->timer, &wait);
        while (*at)
                at = &(*at)->next;
        *at = request;
        s->files->n++;
        return 0;
}

int files_fetch(struct session *s, const char *path, uint64_t offset, size_t length,
                files_done_fn *done, void *data, struct error *err)
{
        const struct file_question question = {.type = FRAME_FETCH, .length = length};
        _cleanup_buffer_ struct buffer payload = BUFFER_INIT(PAYLOAD_MAX);
        struct json_out out = {.to = &payload};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "path", path);
        json_out_int(&out, "offset", (int64_t)offset);
        json_out_int(&out, "length", (int64_t)length);
        json_out_end(&out, '}');
        return send_request(s, &question, &out, path, done, data, err);
}

int files_list(struct session *s, const char *path, files_done_fn *done, void *data,
               struct error *err)
{
        const struct file_question question = {
                .type = FRAME_FETCH, .is_list = true, .has_kind = path != NULL};
        _cleanup_buffer_ struct buffer payload = BUFFER_INIT(PAYLOAD_MAX);
        struct json_out out = {.to = &payload};

        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "list", FILES_LIST_MAX);
        if (path)
                json_out_text(&out, "path", path);
        json_out_end(&out, '}');
        return send_request(s, &question, &out, "files", done, data, err);
}

int files_put(struct session *s, const struct file_put *put, files_done_fn *done, void *data,
              struct error *err)
{
        const struct file_question question = {.type = FRAME_PUT};
        _cleanup_buffer_ struct buffer payload = BUFFER_INIT(PAYLOAD_MAX);
        struct json_out out = {.to = &payload};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "path", put->path);
        json_out_int(&out, "offset", (int64_t)put->offset);
        if (put->to)
                json_out_text(&out, "to", put->to);
        if (put->discard)
                json_out_bool(&out, "discard", true);
        json_out_base64(&out, "data", put->bytes, put->n);
        json_out_end(&out, '}');
        return send_request(s, &question, &out, put->path, done, data, err);
}

static struct file_request *find(struct session *s, uint64_t number)
{
        for (struct file_request *r = s->files->first; r; r = r->next) {
                if (r->number == number)
                        return r;
        }
        return NULL;
}

static int take_chunk(const struct file_question *question, yyjson_val *root,
                      struct file_answer *answer, struct error *err)
{
        size_t n_text = 0, n_version = 0, bytes = 0;
        const char *text = json_string(root, "data", &n_text);
        const char *version = json_string(root, "version", &n_version);
        int64_t size = -1;

        if (!text || !base64_valid(text, n_text, &bytes) || bytes > question->length)
                return error_set(err, EBADMSG, "DATA without the requested bytes");
        if (json_int64(yyjson_obj_get(root, "size"), &size) < 0 || size < 0 || !version ||
            n_version > FILES_VERSION_MAX)
                return error_set(err, EBADMSG, "DATA without the size or version of the file");
        answer->eof = yyjson_is_true(yyjson_obj_get(root, "eof"));
        if (bytes == 0 && !answer->eof)
                return error_set(err, EBADMSG, "DATA with neither bytes nor an end");
        answer->size = (uint64_t)size;
        memcpy(answer->version, version, n_version + 1);
        int r = base64_decode(&answer->data, text, n_text);
        return r < 0 ? error_errno(err, -r, "DATA") : 0;
}

static int take_kind(yyjson_val *root, struct file_answer *answer, struct error *err)
{
        static const char *const kinds[] = {"directory", "file", "other", "absent"};
        const char *kind = json_string(root, "kind", NULL);

        for (size_t i = 0; kind && i < ARRAY_SIZE(kinds); i++) {
                if (strcmp(kind, kinds[i]) == 0) {
                        memcpy(answer->kind, kind, strlen(kind) + 1);
                        return 0;
                }
        }
        return error_set(err, EBADMSG, "DATA without what the path is");
}

static int take_answer(const struct file_question *question, yyjson_val *root,
                       struct file_answer *answer, struct error *err)
{
        if (question->type == FRAME_PUT)
                return 0;
        if (question->has_kind && take_kind(root, answer, err) < 0)
                return -EBADMSG;
        if (question->is_list)
                return file_list_take(root, FILES_LIST_MAX, &answer->files, &answer->n_files,
                                      &answer->files_total, err);
        return take_chunk(question, root, answer, err);
}

/* One line of the worker's: what it says may be anything. */
static void take_refusal(yyjson_val *root, struct error *refusal)
{
        const char *text = json_string(root, "error", NULL);
        char line[MESSAGE_MAX];

        snprintf(line, sizeof(line), "%s", text && text[0] ? text : "the file cannot be had");
        utf8_trim(line);
        for (char *c = line; *c; c++) {
                if ((unsigned char)*c < 0x20 || *c == 0x7f)
                        *c = ' ';
        }
        error_set(refusal, EIO, "%s", line);
}

int file_answer_take(const struct file_question *question, yyjson_val *root,
                     struct file_answer *ret, struct error *refusal, struct error *err)
{
        struct file_answer answer = {.data = BUFFER_INIT(FILES_CHUNK)};

        if (!yyjson_is_true(yyjson_obj_get(root, "ok"))) {
                take_refusal(root, refusal);
                return 0;
        }
        int r = take_answer(question, root, &answer, err);
        if (r < 0) {
                file_answer_done(&answer);
                return r;
        }
        *ret = answer;
        return 1;
}

void file_answer_done(struct file_answer *answer)
{
        buffer_done(&answer->data);
        free(answer->files);
        answer->files = NULL;
}

int files_on_data(struct session *s, const struct frame_header *header, struct frame_body *body,
                  struct error *err)
{
        yyjson_val *root;
        struct file_request *request = find(s, header->id);
        struct file_answer answer;
        struct error refusal = {};

        if (header->id == 0 || header->id > s->files->last_number)
                return error_set(err, EPROTO, "DATA for the request %llu, which was not made",
                                 (unsigned long long)header->id);
        if (!request)
                return 0; /* too late: the request has timed out */
        int r = frame_body_parse(body, header, &root, err);
        if (r >= 0)
                r = file_answer_take(&request->question, root, &answer, &refusal, err);
        if (r < 0)
                return r;
        if (r == 0) {
                error_context(&refusal, "session \"%s\"", session_key_name(s->name));
                finish(request, NULL, &refusal);
                return 0;
        }
        finish(request, &answer, NULL);
        file_answer_done(&answer);
        return 0;
}

void files_fail_all(struct session *s, const char *why)
{
        struct error error = {};

        error_set(&error, ENOENT, "session \"%s\" is gone, and its files with it%s%s",
                  session_key_name(s->name), why[0] ? ": " : "", why);
        while (s->files->first)
                finish(s->files->first, NULL, &error);
        s->files->last_number = 0;
}

/* ---- whole files, in pieces ---- */

struct file_read {
        struct session *session;
        char path[CELL_PATH_MAX + 8]; /* from /workspace on */
        char version[FILES_VERSION_MAX + 1];
        size_t most;
        struct buffer content;
        struct charge kept; /* of it */
        files_read_fn *done;
        void *data;
};

static void read_end(struct file_read *read, const struct error *error)
{
        read->done(read->data, error ? NULL : &read->content, error);
        charge_done(&read->kept);
        buffer_done(&read->content);
        free(read);
}

/* Returns 1 if there is more to read, 0 if the file is complete. */
static int take_piece(struct file_read *read, const struct file_answer *answer, struct error *err)
{
        if (read->content.length == 0)
                memcpy(read->version, answer->version, sizeof(read->version));
        if (strcmp(read->version, answer->version) != 0)
                return error_set(err, EAGAIN, "%s changed while it was read: try again",
                                 read->path);
        if (answer->size > read->most || answer->data.length > read->most - read->content.length)
                return error_set(err, EFBIG, "%s has %llu bytes: at most %zu are read", read->path,
                                 (unsigned long long)answer->size, read->most);
        if (!charge_fits(&read->kept, answer->data.length))
                return error_set(err, EBUSY, "%s: too many files are being read: try again",
                                 read->path);
        charge_set(&read->kept, read->content.length + answer->data.length);
        int r = buffer_append(&read->content, buffer_bytes(&answer->data), answer->data.length);
        return r < 0 ? error_errno(err, -r, "%s", read->path) : !answer->eof;
}

static void on_piece(void *data, const struct file_answer *answer, const struct error *error)
{
        struct file_read *read = data;
        struct error err = {};

        if (error) {
                read_end(read, error);
                return;
        }
        int r = take_piece(read, answer, &err);
        if (r > 0)
                r = files_fetch(read->session, read->path, read->content.length, FILES_CHUNK,
                                on_piece, read, &err) < 0
                            ? -1
                            : 1;
        if (r <= 0)
                read_end(read, r < 0 ? &err : NULL);
}

int files_read(struct session *session, const char *name, const char *path, size_t most,
               files_read_fn *done, void *data, struct error *err)
{
        if (!session || session->state == SESSION_NONE)
                return error_set(err, ENOENT, "there is no session \"%.64s\"", name);
        if (!file_path_valid(path, strlen(path)))
                return error_set(err, EINVAL, "\"%.255s\" is not a path below /workspace/out",
                                 path);
        struct file_read *read = calloc(1, sizeof(*read));
        if (!read)
                return error_errno(err, ENOMEM, "%s", path);
        *read = (struct file_read){
                .session = session,
                .most = most < FILES_READ_MAX ? most : FILES_READ_MAX,
                .content = BUFFER_INIT(FILES_READ_MAX),
                .done = done,
                .data = data,
        };
        snprintf(read->path, sizeof(read->path), "out/%s", path);
        charge_open(&read->kept, session->account);
        int r = files_fetch(session, read->path, 0, FILES_CHUNK, on_piece, read, err);
        if (r < 0) {
                charge_done(&read->kept);
                free(read);
        }
        return r;
}
