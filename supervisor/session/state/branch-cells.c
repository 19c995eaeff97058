/* Queues and sends the cells of a branch. */
#include "supervisor/session/state/branch-cells.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "policy/rules/rule.h"
#include "supervisor/session/cell/branch.h"
#include "supervisor/session/machine/injected.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/state/copies.h"

enum {
        TIME_MS = BRANCH_TURN_MS + BRANCH_MS +
                  10000, /* the branch has failed by then, and the worker can say why */
        LOST_KINDS = 3,
};

/* ---- asking for it ---- */

/* Also while the sandbox of a branch that has failed is being ended: the cells wait until it has. */
static bool is_free(const struct session *s)
{
        return !s->queue.first &&
               (s->state == SESSION_NONE || (s->state == SESSION_KILLING && s->end == END_RESET));
}

/* Or waits for code. Other branches of it are made one after the other. */
static bool has_code(const struct session *s)
{
        for (const struct cell *cell = s->queue.first; cell; cell = cell->next) {
                if (cell->kind != CELL_DUMP)
                        return true;
        }
        return false;
}

/* checkpoint: NULL, the session as it is now. */
static int check(const struct session *to, const struct session *from, const struct cell *cell,
                 const char *name, const char *checkpoint, struct error *err)
{
        if (!from || from->state == SESSION_NONE)
                return error_set(err, ENOENT, "from: no live session is called \"%s\"", name);
        if (session_is_javascript(from))
                return error_set(err, EINVAL,
                                 "session \"%s\" runs JavaScript, and cannot be copied", name);
        if (from == to)
                return error_set(err, EINVAL,
                                 "a session cannot be a branch of itself: name a new session");
        if (!is_free(to))
                return error_set(
                        err, EEXIST,
                        "session \"%s\" is live already: a branch is a new session, so use another name",
                        session_key_name(to->name));
        if (checkpoint && (!session_is_usable(from) || from->stands_still))
                return error_set(err, EBUSY, "session \"%s\" is %s: try again", name,
                                 session_shown_state(from));
        if (!checkpoint && (has_code(from) || from->single || !session_is_usable(from)))
                return error_set(
                        err, EBUSY,
                        "session \"%s\" is busy: it can be branched when its calls have ended, and its "
                        "checkpoints can be branched now",
                        name);
        const char *profile = from->profile ? from->profile->name : "";
        if (cell->request.profile_asked && strcmp(cell->profile, profile) != 0)
                return error_set(
                        err, EINVAL,
                        "session \"%s\" lives under profile \"%s\", and so must its branch", name,
                        profile);
        return 0;
}

static int find_checkpoint(struct session *from, const char *name, const char *checkpoint,
                           const struct copy **ret, struct error *err)
{
        char names[CELL_WHY_MAX / 3];

        *ret = copies_find_name(from, checkpoint);
        if (*ret)
                return 0;
        copies_list_names(from, names, sizeof(names));
        return error_set(err, ENOENT,
                         "no checkpoint of session \"%s\" is called \"%s\": %s; nothing was run",
                         name, checkpoint, names);
}

static int own_cell(struct cell **ret, enum cell_kind kind, struct branch *branch,
                    void (*done)(void *data, struct cell *cell), const char *profile,
                    struct error *err)
{
        const struct cell_request request = {
                .code = "(branch)",
                .code_length = strlen("(branch)"),
                .timeout_ms = TIME_MS,
                .profile = profile,
                .profile_asked = profile != NULL,
                .done = done,
                .data = branch,
        };

        int r = cell_new(ret, &request, err);
        if (r < 0)
                return r;
        (*ret)->kind = kind;
        (*ret)->branch = branch_ref(branch);
        return 0;
}

static bool waits_for(const void *branch, const struct cell *cell)
{
        return cell->kind == CELL_CODE && cell->branch == branch;
}

static bool is_good(const struct cell *cell)
{
        return cell->outcome.status == CELL_OK && !cell->outcome.error;
}

/* Of a cell that is not good. */
static const char *reason(const struct cell *cell)
{
        const struct cell_outcome *o = &cell->outcome;
        const char *message = json_string(o->error, "message", NULL);

        if (!message || *message == '\0')
                message = o->has_exit_code ? "its memory could not be read" : o->why;
        return *message ? message : "it failed";
}

/* The code that waits for the branch runs nowhere. */
static void refuse_waiting(struct session *s, const struct branch *branch, const struct cell *load)
{
        char why[CELL_WHY_MAX];

        snprintf(why, sizeof(why), "session \"%s\" could not be branched: %.500s",
                 session_key_name(branch->from),
                 branch->phase == BRANCH_FAILED ? branch->why : reason(load));
        session_refuse_unbegun(s, waits_for, branch, "BranchError", why);
        s->lost[0] = '\0';
}

/* "branched from session "main"; not in it: …" list: of the worker (docs/branches.md). */
static void describe(const struct branch *branch, yyjson_val *list, char *to, size_t size)
{
        yyjson_val *lost[LOST_KINDS];
        char of[SESSION_NAME_MAX + 32] = "", text[128] = "";

        if (*branch->checkpoint)
                snprintf(of, sizeof(of), "checkpoint \"%s\" of ", branch->checkpoint);
        for (size_t i = 0; i < LOST_KINDS; i++)
                lost[i] = yyjson_arr_get(list, i);
        rollback_append_counts(lost, LOST_KINDS, text, sizeof(text));
        snprintf(to, size, "branched from %ssession \"%s\"%s%s", of, session_key_name(branch->from),
                 *text ? "; not in it: " : "", text);
        if (!*branch->checkpoint)
                return;
        text_append(to, size, "; files are those of now");
        rollback_append_changed(yyjson_arr_get(list, LOST_KINDS),
                                yyjson_arr_get(list, LOST_KINDS + 1), to, size);
}

static struct session *find_from(const struct session *s, const struct branch *branch)
{
        const struct session_owner *owner = &s->context->owner;

        return owner->find(owner->data, branch->from);
}

/* Of a checkpoint. */
static void note_end(struct session *from, const struct branch *branch)
{
        struct copy *copy = copies_find(from, branch->copy);

        from->branched_until_us = 0;
        if (copy && branch->was_late)
                copy_close_writer_socket(copy);
}

static void on_load_done(void *data, struct cell *cell)
{
        struct branch *branch = data;
        struct session *s = cell->session, *from = find_from(s, branch);

        if (from && branch->copy)
                note_end(from, branch);
        if (!is_good(cell)) {
                refuse_waiting(s, branch, cell);
                if (s->state == SESSION_IDLE || s->state == SESSION_SWEEPING ||
                    s->state == SESSION_SETTLING)
                        session_kill_sandbox(s, END_RESET, "");
                return;
        }
        describe(branch, yyjson_obj_get(cell->outcome.value, "json"), s->copies->note,
                 sizeof(s->copies->note));
}

/* Labels of results that came while the branch was made. */
static void inherit_late(struct session *to, const struct branch *branch)
{
        const struct session *from = find_from(to, branch);

        if (from)
                session_labels_merge(&to->labels, &from->labels);
        else
                session_labels_add(&to->labels, RULES_PRIVATE | RULES_UNTRUSTED,
                                   "a session that has ended", 0, 0);
}

static void on_dump_done(void *data, struct cell *cell)
{
        if (!is_good(cell))
                branch_fail(data, reason(cell));
        else
                branch_dumped(data);
}

/* Sends the frame. If the file is not whole, with a descriptor that has nothing to read: the worker refuses that. */
static int send_load(struct branch *branch, struct session *s, struct cell *cell)
{
        int fds[2] = {-1, -1}, fd = branch->fd, r = 0;

        if (branch->phase != BRANCH_WHOLE) {
                r = pipe2(fds, O_CLOEXEC) < 0 ? -errno : 0;
                fd = fds[0];
        } else if (!s->branch_file) {
                s->branch_file = branch_file_ref(branch->file);
        }
        inherit_late(s, branch);
        if (r >= 0)
                r = channel_send_fd(&s->channel, FRAME_LOAD, cell->number, fd);
        fd_close_many(fds, 2);
        branch_forget(branch, &cell->load);
        return r;
}

static void on_settled(struct branch *branch)
{
        struct error err = {};

        while (branch->waiting) {
                struct cell *cell = branch->waiting->cell;
                struct session *s = cell->session;
                int r = send_load(branch, s, cell);
                if (r < 0) {
                        error_errno(&err, -r, "send the request");
                        branch_load_failed(s, cell, &err);
                }
        }
}

int branch_begin(struct session *to, struct session *from, const char *name, const char *checkpoint,
                 struct branch **shared, struct cell *cell, struct error *err)
{
        const struct copy *copy = NULL;
        struct branch *branch;
        struct cell *load;

        int r = check(to, from, cell, name, checkpoint, err);
        if (r >= 0 && checkpoint)
                r = find_checkpoint(from, name, checkpoint, &copy, err);
        if (r >= 0 && shared && *shared)
                branch = branch_ref(*shared);
        else if (r >= 0)
                r = branch_new(&branch, to->context->base, from->name, copy ? copy->id : 0,
                               checkpoint ? checkpoint : "", err);
        if (r >= 0 && call_counts_copy(&to->sent, &from->sent) < 0) {
                branch_unref(branch);
                return error_errno(err, ENOMEM, "branch");
        }
        if (r < 0)
                return r;
        session_labels_merge(&to->inherited, &from->labels);
        injected_inherit(to, from);
        branch->settled = on_settled;
        if (shared)
                *shared = branch;
        r = own_cell(&load, CELL_LOAD, branch, on_load_done,
                     from->profile ? from->profile->name : NULL, err);
        if (r >= 0) {
                load->load.cell = load;
                branch_expect(branch, &load->load);
                load->attempts = CELL_ATTEMPTS_MAX - 1; /* half a branch is not begun again */
                cell->branch = branch_ref(branch);
                to->queue.last_number = copy ? copy->of : from->queue.last_number;
                session_push(to, load);
        }
        branch_unref(branch);
        return r;
}

/* ---- doing it ---- */

static int ask_session(struct session *from, struct branch *branch, struct error *err)
{
        struct cell *dump;

        int r = own_cell(&dump, CELL_DUMP, branch, on_dump_done, NULL, err);
        if (r >= 0)
                session_push(from, dump);
        return r;
}

/* It may be frozen: then its copies are. */
static int ask_checkpoint(struct session *from, struct branch *branch, struct error *err)
{
        struct copy *copy = copies_find(from, branch->copy);

        if (!copy)
                return error_set(err, ESRCH, "the checkpoint was replaced, or is being restored");
        session_thaw(from);
        from->history.used_us = clock_us();
        from->branched_until_us = from->history.used_us + BRANCH_MS * UINT64_C(1000);
        int r = copy_ask_to_write(copy, branch->writer, err);
        branch_writer_sent(branch);
        return r;
}

static void drop_file(void *data, uint32_t handle)
{
        sandbox_request(data, MONITOR_BRANCH_DROP, handle, 0);
}

static int ask_monitor(struct session *from, struct branch *branch, struct error *err)
{
        const struct sandbox_requests *requests = &from->context->requests;
        const struct monitor_principal principal = principal_sums(from->principal->all,
                                                                  from->principal);
        int profile = from->profile
                              ? config_find_profile(from->context->config, from->profile->name, err)
                              : 0;
        uint32_t serial;

        if (profile < 0)
                return profile;
        int r = sandbox_request_new(requests, MONITOR_BRANCH_START, (size_t)profile, &principal,
                                    &serial);
        return r < 0 ? error_errno(err, -r, "ask the monitor") : branch_asked(branch, serial, err);
}

bool branch_take_answer(const struct session_context *context,
                        const struct monitor_message *message)
{
        const struct monitor_event *event = &message->event;
        struct branch *branch = branch_find_asked(message->asked.serial);
        struct error err = {};

        if (event->kind == MONITOR_FAILED) {
                if (branch)
                        branch_fail(branch, event->error.text);
                return true;
        }
        struct branch_file *file = branch_file_new(event->target, drop_file,
                                                   (void *)(uintptr_t)&context->requests);
        if (!branch || !file) { /* its cells have ended */
                branch_file_unref(file);
                return false;
        }
        struct session *from = context->owner.find(context->owner.data, branch->from);
        int r = branch_started(branch, file, message->fds, &err);
        if (r >= 0 && (!from || !session_is_usable(from)))
                r = error_set(&err, ESRCH, "it has ended");
        if (r >= 0)
                r = branch->copy ? ask_checkpoint(from, branch, &err)
                                 : ask_session(from, branch, &err);
        if (r < 0)
                branch_fail(branch, err.text);
        return true;
}

static int begin(struct branch *branch, const struct session *s, struct error *err)
{
        struct session *from = find_from(s, branch);

        if (!from || !session_is_usable(from))
                return error_set(err, ESRCH, "it has ended");
        return ask_monitor(from, branch, err);
}

static void on_placed(struct branch *branch)
{
        struct error err = {};

        if (begin(branch, branch->waiting->cell->session, &err) < 0)
                branch_fail(branch, err.text);
}

/* The frame follows when the file is whole, or it is known that it will not be. */
int branch_send_load(struct session *s, struct cell *cell, struct error *err)
{
        struct branch *branch = cell->branch;

        if (branch->phase >= BRANCH_WHOLE)
                return send_load(branch, s, cell);
        if (branch->phase == BRANCH_NEW && branch_has_place(branch)) {
                int r = begin(branch, s, err);
                if (r < 0)
                        return r;
        }
        branch->placed = on_placed;
        branch_wait(branch, &cell->load);
        return 0;
}

int branch_send_dump(struct session *s, struct cell *cell, struct error *err)
{
        int fd = cell->branch->writer;

        if (fd < 0)
                return error_set(err, ECANCELED, "it was given up");
        int r = channel_send_fd(&s->channel, FRAME_DUMP, cell->number, fd);
        branch_writer_sent(cell->branch);
        return r;
}

void branch_load_failed(struct session *s, struct cell *cell, const struct error *err)
{
        session_kill_sandbox(s, END_PROTOCOL, err->text);
}

void branch_dump_failed(struct session *s, struct cell *cell, const struct error *err)
{
        branch_fail(cell->branch, err->text);
        session_enter(s, SESSION_IDLE);
        session_refuse_first(s, "BranchError", err->text);
}
