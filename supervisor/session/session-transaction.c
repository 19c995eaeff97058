/*
 * A cell that is taken back if it fails: variables and files in /workspace are as before (docs/cells.md).
 *
 * Before the cell starts, a copy of the worker is made that holds a snapshot of /workspace. If the cell
 * ends with anything but ok, or its interpreter ends, the copy takes the worker's place and rolls files
 * back. Calls that were sent to servers are not taken back: the result lists them.
 */
#include <stdio.h>
#include <string.h>

#include "policy/config.h"
#include "supervisor/session/session-internal.h"

/* Of limits.memory: what a snapshot may take. */
enum { SHARE_OF_MEMORY = 4, SHARE_OF_FREE = 2 };

/* The copy holds it beside the worker, and the worker is to have room for the cell too. */
int64_t session_snapshot_bytes(const struct session *s)
{
        uint64_t memory = s->profile->limits.memory, most = memory / SHARE_OF_MEMORY;
        uint64_t used = usage_memory(session_usage_kind(s), s->memory_fd);
        uint64_t left = used < memory ? (memory - used) / SHARE_OF_FREE : 0;

        return (int64_t)(left < most ? left : most);
}

static void refuse(struct session *s, const char *why)
{
        char text[CELL_WHY_MAX];

        snprintf(text, sizeof(text), "the cell was not run: it could not be rolled back: %s", why);
        s->transaction.state = TRANSACTION_NONE;
        session_refuse_cell(s, s->cells, CELL_ERROR, "TransactionError", text);
        session_wake(s);
}

static void ask(struct session *s)
{
        session_thaw(s);
        if (!session_send_keep(s, "", session_snapshot_bytes(s))) {
                refuse(s, "the interpreter does not read what it is sent");
                return;
        }
        s->transaction.state = TRANSACTION_ASKED;
        session_enter(s, SESSION_KEEPING);
}

bool session_begin_transaction(struct session *s)
{
        if (!s->cells->rolls_back || s->transaction.state == TRANSACTION_READY)
                return true;
        if (s->transaction.state == TRANSACTION_REFUSED)
                refuse(s, s->transaction.why);
        else if (!s->profile || !s->profile->survives)
                refuse(s, "the profile keeps no copies of the state (state.survives)");
        else if (s->copy.is_awaited || s->copy.is_offered)
                refuse(s, "the interpreter is busy with a background task");
        else
                ask(s);
        return false;
}

void session_end_asking(struct session *s, const char *why)
{
        s->transaction.state = why ? TRANSACTION_REFUSED : TRANSACTION_READY;
        s->transaction.copy = s->copy.asked.id;
        snprintf(s->transaction.why, sizeof(s->transaction.why), "%s", why ? why : "");
}

/* Code has ended the copy: the cell ends as it would without a transaction. */
static void say_gone(struct session *s, struct cell *cell)
{
        s->transaction.state = TRANSACTION_NONE;
        snprintf(cell->outcome.note, sizeof(cell->outcome.note), "%s",
                 SESSION_NOT_TAKEN_BACK "; nothing was rolled back");
}

bool session_roll_back(struct session *s, struct cell *cell)
{
        const struct session_copy *copy = session_find_copy(s, s->transaction.copy);

        if (s->transaction.state != TRANSACTION_RUNNING || cell->outcome.status == CELL_OK) {
                s->transaction.state = TRANSACTION_NONE;
                return false;
        }
        if (!copy) {
                say_gone(s, cell);
                return false;
        }
        cell->has_result = true;
        s->copy.wanted = copy->id;
        /* Answers that come now are for nobody: the calls count as in doubt. */
        calls_drop_all(&s->calls);
        session_enter(s, SESSION_RESTORING);
        s->context->requests.restore(s->context->requests.data, s->target, copy->pid);
        return true;
}

/* init has ignored the request, and the worker lives. */
bool session_cannot_roll_back(struct session *s)
{
        struct cell *cell = session_current(s);

        if (!session_is_failing(s))
                return false;
        say_gone(s, cell);
        s->copy.wanted = 0;
        session_enter(s, SESSION_IDLE);
        session_end_cell(s, cell);
        session_wake(s);
        return true;
}

/* A cell that has ended well before its interpreter ended has kept what it did. */
bool session_is_rolling_back(const struct session *s)
{
        const struct cell *cell = session_current(s);

        if (session_is_rolling_block_back(s))
                return true;
        return cell && s->transaction.state == TRANSACTION_RUNNING &&
               s->copy.woken.id == s->transaction.copy &&
               !(cell->has_result && cell->outcome.status == CELL_OK);
}

/* ---- what is said ---- */

static int64_t count(yyjson_val *object, const char *name)
{
        int64_t n = 0;

        json_int64(yyjson_obj_get(object, name), &n);
        return n < 0 ? 0 : n;
}

static void append_count(char *to, int64_t n, const char *what, bool *is_first)
{
        size_t used = strlen(to);

        if (n == 0)
                return;
        snprintf(to + used, CELL_WHY_MAX - used, "%s%lld %s", *is_first ? " (" : ", ", (long long)n,
                 what);
        *is_first = false;
}

static void append(char *to, const char *text)
{
        size_t used = strlen(to);

        snprintf(to + used, CELL_WHY_MAX - used, "%s", text);
}

/* "rolled back: variables and /workspace are as before the call (1 changed, 2 new: a.csv, b.csv)" */
void session_describe_rollback(const char *what, bool has_calls, yyjson_val *root,
                               char to[CELL_WHY_MAX])
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
                session_append_names(yyjson_obj_get(done, "files"), total, to, CELL_WHY_MAX);
                append(to, ")");
        }
        if (!done || failed > 0) {
                append(to, "; but not all files");
                session_append_names(yyjson_obj_get(done, "failed_files"), failed, to,
                                     CELL_WHY_MAX);
        }
        session_append_gone(root, to, CELL_WHY_MAX);
        if (elsewhere > 0)
                append(to, "; files in /tmp and /dev/shm stay changed");
        if (has_calls)
                append(to, "; tool calls that were sent stay: see sent");
}
