/* Requests, keeps and forgets copies. */
#include "supervisor/session/state/copies.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/printable.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/cell/plain-code.h"
#include "supervisor/session/machine/queue.h"

enum {
        PID_MAX = 1 << 22,
        KEEP_SIZE = 96 + 12 * COPIES_MAX,
        NAMES_SHOWN = 5,
        COUNT_MAX = 100000,
        REST_SIZE = 48, /* of what follows the names */
};

/* Of limits.memory: what a snapshot may take. */
enum { SHARE_OF_MEMORY = 4, SHARE_OF_FREE = 2 };

/* ---- writer sockets ---- */

void copy_close_writer_socket(struct copy *copy)
{
        if (copy->has_writer_socket)
                close(copy->writer_socket);
        copy->has_writer_socket = false;
}

static int make_writer_socket(int ends[2])
{
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        if (shutdown(ends[0], SHUT_RD) == 0)
                return 0;
        int r = -errno;
        fd_close_many(ends, 2);
        return r;
}

static void send_writer_socket(struct session *s, struct copy *asked)
{
        int ends[2];

        if (make_writer_socket(ends) < 0)
                return;
        _cleanup_close_ int theirs = ends[1];
        asked->writer_socket = ends[0];
        asked->has_writer_socket = true;
        if (channel_send_fd(&s->channel, FRAME_WRITER, asked->id, theirs) < 0)
                copy_close_writer_socket(asked);
}

int copy_ask_to_write(const struct copy *copy, int fd, struct error *err)
{
        if (!copy->has_writer_socket)
                return error_set(err, ENOTCONN,
                                 "its process does not answer: a restore makes another one");
        int r = fd_send(copy->writer_socket, "", 1, &fd, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (r == -EPIPE || r == -ECONNRESET)
                return error_set(err, -r, "its process has ended");
        if (r < 0)
                return error_set(err, -r, "its process does not read");
        return 0;
}

/* ---- the list ---- */

struct copy *copies_newest(struct session *s)
{
        for (size_t i = s->copies->n; i > 0; i--) {
                if (!s->copies->list[i - 1].of_block)
                        return &s->copies->list[i - 1];
        }
        return NULL;
}

struct copy *copies_find(struct session *s, uint64_t id)
{
        for (size_t i = 0; i < s->copies->n; i++) {
                if (s->copies->list[i].id == id)
                        return &s->copies->list[i];
        }
        return NULL;
}

struct copy *copies_find_pid(struct session *s, uint32_t pid)
{
        for (size_t i = 0; i < s->copies->n; i++) {
                if (s->copies->list[i].pid == pid)
                        return &s->copies->list[i];
        }
        return NULL;
}

struct copy *copies_find_name(struct session *s, const char *name)
{
        for (size_t i = 0; i < s->copies->n; i++) {
                if (strcmp(s->copies->list[i].name, name) == 0)
                        return &s->copies->list[i];
        }
        return NULL;
}

size_t copies_list_names(const struct session *s, char *to, size_t size)
{
        size_t found = 0;

        to[0] = '\0';
        for (size_t i = 0; i < s->copies->n; i++) {
                if (s->copies->list[i].name[0])
                        text_append(to, size, "%s%s", found++ > 0 ? ", " : "there are ",
                                    s->copies->list[i].name);
        }
        if (found == 0)
                text_append(to, size, "there is none");
        return found;
}

void copies_forget(struct session *s, struct copy *copy)
{
        size_t i = (size_t)(copy - s->copies->list);

        copy_close_writer_socket(copy);
        s->copies->n--;
        memmove(&s->copies->list[i], &s->copies->list[i + 1],
                (s->copies->n - i) * sizeof(s->copies->list[0]));
}

void copies_forget_all(struct session *s)
{
        while (s->copies->n > 0)
                copies_forget(s, &s->copies->list[s->copies->n - 1]);
        copy_close_writer_socket(&s->copies->asked);
}

/* ---- making one ---- */

bool copies_is_due(const struct session *s)
{
        return s->profile && s->profile->survives && !s->single && s->history.n_run > 0 &&
               s->copies->asked_after != s->queue.last_number && !s->copies->is_awaited &&
               !s->copies->is_offered;
}

/* The copy holds it beside the worker, and the worker must have room for the cell too. */
int64_t copies_snapshot_bytes(const struct session *s)
{
        uint64_t memory = s->profile->limits.memory, most = memory / SHARE_OF_MEMORY;
        uint64_t used = meter_memory(&s->meter, session_usage_kind(s));
        uint64_t left = used < memory ? (memory - used) / SHARE_OF_FREE : 0;

        return (int64_t)(left < most ? left : most);
}

/* {"copies": [their pids]}: the worker does not count them as processes of the code. The first KEEP after a restore has the
 * value of "_" that the copy lacks. */
static void write_keep(const struct session *s, int64_t files, char to[KEEP_SIZE])
{
        const struct copy *woken = &s->copies->woken;

        snprintf(to, KEEP_SIZE, "{\"copies\":[");
        for (size_t i = 0; i < s->copies->n; i++)
                text_append(to, KEEP_SIZE, "%s%u", i > 0 ? "," : "", s->copies->list[i].pid);
        text_append(to, KEEP_SIZE, "]");
        if (files >= 0)
                text_append(to, KEEP_SIZE, ",\"files\":%lld", (long long)files);
        if (woken->has_value)
                text_append(to, KEEP_SIZE, ",\"value\":%lld", (long long)woken->value);
        text_append(to, KEEP_SIZE, "}");
}

bool copies_request(struct session *s, const struct copy_requester *requester, const char *name,
                    int64_t files)
{
        struct copy *asked = &s->copies->asked;
        char payload[KEEP_SIZE];

        copy_close_writer_socket(asked);
        *asked = (struct copy){
                .id = asked->id + 1, .of = s->copies->state_of, .of_block = requester->of_block};
        snprintf(asked->name, sizeof(asked->name), "%s", name);
        if (*name)
                send_writer_socket(s, asked);
        write_keep(s, files, payload);
        s->copies->woken.has_value = false;
        s->copies->requester = requester;
        s->copies->is_awaited = channel_send(&s->channel, FRAME_KEEP, asked->id, payload,
                                             strlen(payload)) >= 0;
        return s->copies->is_awaited;
}

static enum plain_code plain_code_in(const struct cell *cell)
{
        size_t n = cell->payload.length;

        if (cell->kind != CELL_CODE || n == 0 || cell->request.check_only ||
            cell_is_published(cell) || cell->script.length > 0 || cell->needs.length > 0)
                return PLAIN_NOT;
        const char *code = buffer_bytes(&cell->payload); /* a zero byte and the file name follow */
        return code[n - 1] == '\0' ? plain_code_of(code, n - 1) : PLAIN_NOT;
}

void copies_begin_cell(struct session *s, const struct cell *cell, bool was_due)
{
        enum plain_code code = plain_code_in(cell);

        s->copies->is_current = !was_due;
        s->copies->runs_value = code == PLAIN_VALUE && !cell->checkpoint[0];
        if (cell->kind == CELL_DUMP) /* a fork writes the state */
                return;
        s->copies->has_other_code |= code == PLAIN_NOT;
        if (code != PLAIN_VALUE)
                s->copies->deferred_us = 0;
}

/* Whether the cell has ended well, with an integer: the broker keeps no other values. */
static bool has_value(const struct cell *cell, int64_t *ret)
{
        const struct cell_outcome *o = &cell->outcome;

        return o->status == CELL_OK && !o->interrupted && o->files_total == 0 && o->value &&
               json_int64(yyjson_obj_get(o->value, "json"), ret) >= 0;
}

void copies_end_cell(struct session *s, const struct cell *cell)
{
        struct copies *copies = s->copies;
        struct copy *newest = copies_newest(s);
        int64_t value = 0;
        bool survives = s->profile && s->profile->survives && !s->single;
        bool is_kept = newest ? !newest->name[0] && newest->of == copies->state_of &&
                                        copies->n_files == s->files->last_number
                              : survives && (s->history.n_run == 1 || copies->deferred_us > 0);

        if (!copies->runs_value || copies->has_other_code || !copies->is_current || !is_kept ||
            copies->is_awaited || copies->is_offered || !has_value(cell, &value))
                return;
        if (newest) {
                newest->of = cell->number;
                newest->has_value = true;
                newest->value = value;
        }
        if (!newest && copies->deferred_us == 0)
                copies->deferred_us = clock_us();
        copies->asked_after = cell->number;
}

uint64_t copies_returns_to(struct session *s)
{
        const struct copy *newest = copies_newest(s);
        uint64_t since = s->copies->deferred_us;
        bool is_deferred = since > 0 && clock_us() - since >= SESSION_QUIET_MS * UINT64_C(1000);

        return newest ? newest->of : is_deferred ? s->copies->state_of : 0;
}

bool copies_prepare(struct session *s)
{
        const struct cell *cell = s->queue.first;

        if (s->copies->deferred_us == 0 || cell->request.is_probe || cell->kind == CELL_DUMP ||
            plain_code_in(cell) != PLAIN_NOT)
                return true;
        bool is_due = !copies_newest(s) && copies_returns_to(s) > 0 && !s->copies->is_awaited &&
                      !s->copies->is_offered;
        s->copies->deferred_us = 0;
        if (!is_due)
                return true;
        session_thaw(s);
        copies_keep(s, "");
        return false;
}

/* The copy was to be a checkpoint. */
static void note_no_checkpoint(struct session *s, const char *why)
{
        struct cell *cell = session_current(s);

        if (cell)
                copies_say_no_checkpoint(cell, why);
        else
                snprintf(s->copies->note, sizeof(s->copies->note),
                         "checkpoint \"%s\" cannot be restored again: %s", s->copies->asked.name,
                         why);
        s->copies->asked.name[0] = '\0';
}

void copies_note_refusal(struct session *s, const char *why)
{
        struct copies *copy = s->copies;
        const struct copy *newest = copies_newest(s);

        if (copy->asked.name[0]) {
                note_no_checkpoint(s, why ? why : "a cell came first");
                return;
        }
        if (!why || copy->is_told)
                return;
        if (newest)
                snprintf(copy->note, sizeof(copy->note),
                         "%s: if the interpreter ends, the session returns to the end of cell %llu",
                         why, (unsigned long long)newest->of);
        else
                snprintf(copy->note, sizeof(copy->note),
                         "%s: if the interpreter ends, the session's state is lost", why);
        copy->is_told = true;
}

static void on_taken(struct session *s)
{
        struct cell *cell = session_current(s);

        if (cell && s->copies->asked.name[0])
                cell->outcome.is_checkpoint = true;
}

static void on_given_up(struct session *s)
{
        if (s->copies->asked.name[0] && !s->copies->is_offered)
                note_no_checkpoint(s, "a background task keeps the interpreter busy");
}

void copies_keep(struct session *s, const char *name)
{
        static const struct copy_requester requester = {
                .taken = on_taken, .refused = copies_note_refusal, .given_up = on_given_up};
        bool is_sent = copies_request(s, &requester, name, -1);

        s->copies->asked_after = s->queue.last_number;
        session_enter(s, SESSION_KEEPING);
        if (!is_sent)
                copies_give_up_keeping(s, NULL);
}

void copies_note(struct session *s, struct cell *cell)
{
        struct cell_outcome *o = &cell->outcome;

        memcpy(o->note, s->copies->note, sizeof(o->note));
        s->copies->note[0] = '\0';
        s->copies->n_idle = 0;
        if (s->copies->lost[0] != '\0') {
                o->state = CELL_STATE_RESTORED;
                memcpy(o->restored, s->copies->lost, sizeof(o->restored));
        }
        s->copies->lost[0] = '\0';
}

/* The worker's reason is a word of a list. NULL: a cell came first. */
static const char *refusal_text(const char *why)
{
        static const struct {
                const char *why, *text;
        } list[] = {
                {"threads",
                 "no copy of the state can be made while a library has threads of its own"},
                {"processes",
                 "no copy of the state can be made: limits.pids allows no more processes"},
                {"failed", COPIES_NOT_MADE},
                {"names", "/workspace has more than 20,000 files and directories"},
                {"bytes", "the files in /workspace are larger than what a copy of them may take"},
                {"depth", "directories in /workspace are nested more than 64 deep"},
                {"time", "copying /workspace took too long"},
                {"memory", "the sandbox has no memory for a copy of /workspace"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                if (strcmp(why, list[i].why) == 0)
                        return list[i].text;
        }
        return NULL;
}

/* Offers the monitor the copy that was requested, which replaces the one without a name, and that with
 * its name. That of a block replaces none. */
static void offer(struct session *s)
{
        const struct sandbox_requests *requests = &s->context->requests;
        struct copies *copies = s->copies;

        memset(copies->instead, 0, sizeof(copies->instead));
        copies->is_offered = true;
        if (copies->asked.of_block) {
                sandbox_request(requests, MONITOR_SESSION_KEEP_ASIDE, s->target, copies->asked.pid);
                return;
        }
        for (size_t i = 0; i < copies->n; i++) {
                if (copies->list[i].of_block)
                        continue;
                if (copies->list[i].name[0] == '\0')
                        copies->instead[0] = copies->list[i].pid;
                else if (strcmp(copies->list[i].name, copies->asked.name) == 0)
                        copies->instead[1] = copies->list[i].pid;
        }
        struct monitor_request request = {
                .verb = MONITOR_SESSION_KEEP, .target = s->target, .number = copies->asked.pid};
        memcpy(request.instead, copies->instead, sizeof(request.instead));
        requests->send(requests->data, &request, NULL);
}

static void add(struct session *s)
{
        struct copies *copies = s->copies;

        for (size_t i = 0; i < ARRAY_SIZE(copies->instead); i++) {
                struct copy *replaced = copies_find_pid(s, copies->instead[i]);
                if (replaced)
                        copies_forget(s, replaced);
        }
        copies->asked.made_us = clock_us();
        copies->n_files = s->files->last_number;
        if (copies->n < ARRAY_SIZE(copies->list))
                copies->list[copies->n++] = copies->asked;
        copies->asked.has_writer_socket = false; /* it belongs to the list */
        if (copies->asked.of_block)
                return;
        /* The note about the previous one is obsolete. */
        if (copies->is_told)
                copies->note[0] = '\0';
        copies->is_told = false;
}

static void tell(struct session *s, bool is_taken, const char *why)
{
        const struct copy_requester *requester = s->copies->requester;

        if (is_taken)
                requester->taken(s);
        else
                requester->refused(s, why);
        if (!requester->of_block)
                session_dispatch(s, EVENT_COPY, NULL);
}

static void refuse(struct session *s, yyjson_val *root, const char *why)
{
        const char *thread = json_string(root, "thread", NULL);
        char shown[100], text[200];

        if (!thread || strcmp(why, "threads") != 0) {
                tell(s, false, refusal_text(why));
                return;
        }
        printable_escape(shown, sizeof(shown), thread);
        snprintf(text, sizeof(text), "no copy of the state can be made: thread %s cannot be held",
                 shown);
        tell(s, false, text);
}

int copies_on_kept(struct session *s, const struct frame_header *header, struct frame_body *body,
                   struct error *err)
{
        int64_t pid = 0;
        yyjson_val *root;

        if (!s->copies->is_awaited || header->id != s->copies->asked.id)
                return error_set(err, EPROTO, "KEPT %llu, which no KEEP asked for",
                                 (unsigned long long)header->id);
        int r = frame_body_parse(body, header, &root, err);
        if (r < 0)
                return r;
        const char *why = json_string(root, "why", NULL);
        if (!why && (json_int64(yyjson_obj_get(root, "pid"), &pid) < 0 || pid < 2 || pid > PID_MAX))
                return error_set(err, EBADMSG, "KEPT without a pid");
        s->copies->is_awaited = false;
        s->copies->asked.pid = (uint32_t)pid;
        if (why)
                refuse(s, root, why);
        else
                offer(s);
        return 0;
}

void copies_kept(struct session *s, const struct error *error)
{
        if (!s->copies->is_offered)
                return;
        s->copies->is_offered = false;
        if (!error)
                add(s);
        tell(s, !error,
             error && error->code == EDQUOT
                     ? "no copy of the state is kept: it may not fit into memory_total beside all other sessions"
             : error && error->code == ENOMEM
                     ? "no copy of the state is kept: all copies together are larger than limits.memory"
                     : COPIES_NOT_MADE);
}

/* Code of the session has ended a copy. */
void copies_gone(struct session *s, uint32_t pid)
{
        struct copy *copy = copies_find_pid(s, pid);

        if (!copy)
                return;
        bool is_wanted = copy->id == s->copies->wanted;
        if (copy->name[0] && s->copies->note[0] == '\0')
                snprintf(s->copies->note, sizeof(s->copies->note),
                         "checkpoint \"%s\" is gone: its process has ended", copy->name);
        copies_forget(s, copy);
        if (is_wanted)
                session_dispatch(s, EVENT_GONE, NULL);
}

void copies_say_no_checkpoint(struct cell *cell, const char *why)
{
        snprintf(cell->outcome.note, sizeof(cell->outcome.note),
                 "checkpoint \"%s\" was not made: %s", cell->checkpoint, why);
}

/* A late answer of the worker still makes a copy, but no checkpoint. */
void copies_give_up_keeping(struct session *s, const struct session_details *details)
{
        s->copies->requester->given_up(s);
        session_become_idle(s, details);
}

/* ---- using one ---- */

bool copies_go_back(struct session *s, const struct copy *copy, enum copies_back back,
                    uint64_t query)
{
        struct copies *copies = s->copies;
        const uint64_t wanted = copies->wanted, query_before = copies->query;
        const enum copies_back back_before = copies->back;

        copies->wanted = copy->id;
        copies->back = back;
        copies->query = query;
        if (session_dispatch(s, EVENT_BACK, NULL))
                return true;
        copies->wanted = wanted;
        copies->back = back_before;
        copies->query = query_before;
        return false;
}

bool copies_is_rolling_block_back(const struct session *s)
{
        return s->copies->back == BACK_BLOCK && s->copies->woken.id == s->copies->wanted;
}

/* ---- what a restore or a rollback has changed ---- */

/* A count of the worker's; 0: none that is possible. */
static int64_t count_of(yyjson_val *value)
{
        int64_t n = 0;

        json_int64(value, &n);
        return n < 0 || n > COUNT_MAX ? 0 : n;
}

void rollback_append_counts(yyjson_val *const *values, size_t n, char *to, size_t size)
{
        static const char *const names[][2] = {{"thread", "threads"},
                                               {"process", "processes"},
                                               {"open descriptor", "open descriptors"}};
        size_t left = 0;
        const char *before = "";

        for (size_t i = 0; i < n; i++)
                left += count_of(values[i]) > 0;
        for (size_t i = 0; i < n; i++) {
                int64_t count = count_of(values[i]);
                if (count == 0)
                        continue;
                text_append(to, size, "%s%lld %s", before, (long long)count, names[i][count != 1]);
                before = --left == 1 ? " and " : ", ";
        }
}

void rollback_append_gone(yyjson_val *root, char *to, size_t size)
{
        yyjson_val *values[] = {yyjson_obj_get(root, "threads"), yyjson_obj_get(root, "processes")};
        int64_t sum = count_of(values[0]) + count_of(values[1]);

        if (sum == 0)
                return;
        text_append(to, size, "; ");
        rollback_append_counts(values, ARRAY_SIZE(values), to, size);
        text_append(to, size, " %s gone", sum == 1 ? "is" : "are");
}

/* A name of the worker's, fit for one line. */
static bool is_name(yyjson_val *name)
{
        const char *text = yyjson_get_str(name);
        size_t n = yyjson_get_len(name);

        if (!text || n == 0 || n > CELL_PATH_MAX)
                return false;
        for (size_t i = 0; i < n; i++) {
                if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
                        return false;
        }
        return true;
}

static void append_names(yyjson_val *names, int64_t total, char *to, size_t size)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(names);
        size_t shown = 0;
        yyjson_val *name;

        while (shown < NAMES_SHOWN && (name = yyjson_arr_iter_next(&iter))) {
                if (!is_name(name) || strlen(to) + yyjson_get_len(name) + REST_SIZE > size)
                        continue;
                text_append(to, size, "%s%s", shown++ == 0 ? ": " : ", ", yyjson_get_str(name));
        }
        if (total > (int64_t)shown)
                text_append(to, size, shown == 0 ? ": %lld" : " and %lld more",
                            (long long)total - (long long)shown);
}

void rollback_append_changed(yyjson_val *names, yyjson_val *total, char *to, size_t size)
{
        if (count_of(total) == 0)
                return;
        append_names(names, count_of(total), to, size);
        text_append(to, size, " changed");
}

static int64_t count(yyjson_val *object, const char *name)
{
        int64_t n = 0;

        json_int64(yyjson_obj_get(object, name), &n);
        return n < 0 ? 0 : n;
}

static void append_count(char *to, int64_t n, const char *what, bool *is_first)
{
        if (n == 0)
                return;
        text_append(to, CELL_WHY_MAX, "%s%lld %s", *is_first ? " (" : ", ", (long long)n, what);
        *is_first = false;
}

/* "rolled back: variables and /workspace are as before the call (1 changed, 2 new: a.csv, b.csv)" */
void rollback_describe(const char *what, bool has_calls, yyjson_val *root, char to[CELL_WHY_MAX])
{
        yyjson_val *done = yyjson_obj_get(root, "rolled_back");
        int64_t changed = count(done, "changed"), returned = count(done, "returned");
        int64_t removed = count(done, "removed"), failed = count(done, "failed");
        int64_t elsewhere = count(root, "elsewhere"), total = changed + returned + removed;
        bool is_first = true;

        snprintf(to, CELL_WHY_MAX, "rolled back: variables and /workspace are as before the %s",
                 what);
        append_count(to, changed, "changed", &is_first);
        append_count(to, returned, "deleted or renamed", &is_first);
        append_count(to, removed, "new", &is_first);
        if (!is_first) {
                append_names(yyjson_obj_get(done, "files"), total, to, CELL_WHY_MAX);
                text_append(to, CELL_WHY_MAX, ")");
        }
        if (!done || failed > 0) {
                text_append(to, CELL_WHY_MAX, "; but not all files");
                append_names(yyjson_obj_get(done, "failed_files"), failed, to, CELL_WHY_MAX);
        }
        rollback_append_gone(root, to, CELL_WHY_MAX);
        if (elsewhere > 0)
                text_append(to, CELL_WHY_MAX, "; files in /tmp and /dev/shm stay changed");
        if (has_calls)
                text_append(to, CELL_WHY_MAX, "; tool calls that were sent stay: see sent");
}
