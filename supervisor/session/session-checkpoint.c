/*
 * Checkpoints: copies of the worker that have a name, and are kept until another one takes the name or
 * the session ends (docs/cells.md).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/session/session-internal.h"

#define ERROR_TYPE "CheckpointError"

struct session_copy *session_find_checkpoint(struct session *s, const char *name)
{
        for (size_t i = 0; i < s->copy.n; i++) {
                if (strcmp(s->copy.list[i].name, name) == 0)
                        return &s->copy.list[i];
        }
        return NULL;
}

size_t session_list_checkpoints(const struct session *s, char *to, size_t size)
{
        size_t found = 0, n = 0;

        for (size_t i = 0; i < s->copy.n && n < size; i++) {
                const char *name = s->copy.list[i].name;
                if (*name)
                        n += (size_t)snprintf(to + n, size - n, "%s%s",
                                              found++ > 0 ? ", " : "there are ", name);
        }
        if (found == 0)
                snprintf(to, size, "there is none");
        return found;
}

/* Whether the first cell may not ask for its checkpoint. */
static bool is_refused(struct session *s, const char *name, char why[CELL_WHY_MAX])
{
        uint32_t most = s->profile ? s->profile->checkpoints : 0;
        char names[CELL_WHY_MAX / 2];

        if (!s->profile || !s->profile->survives || most == 0) {
                snprintf(
                        why, CELL_WHY_MAX,
                        "no checkpoints can be made here: the config's state.%s says so; nothing was run",
                        most == 0 ? "checkpoints" : "survives");
                return true;
        }
        if (session_find_checkpoint(s, name) ||
            session_list_checkpoints(s, names, sizeof(names)) < most)
                return false;
        snprintf(
                why, CELL_WHY_MAX,
                "a session has %u checkpoints at most, and %s: use the name of one of them, which is "
                "replaced; nothing was run",
                most, names);
        return true;
}

static void refuse(struct session *s, const char *why)
{
        session_refuse_cell(s, s->cells, CELL_ERROR, ERROR_TYPE, why);
        session_wake(s);
}

static void refuse_unknown(struct session *s, const char *name)
{
        char why[CELL_WHY_MAX], names[CELL_WHY_MAX / 3];

        session_list_checkpoints(s, names, sizeof(names));
        int n = snprintf(why, sizeof(why), "no checkpoint is called \"%s\": %s", name, names);
        if (s->lost[0])
                n += snprintf(why + n, sizeof(why) - (size_t)n,
                              ", since the state was lost (%.200s)", s->lost);
        snprintf(why + n, sizeof(why) - (size_t)n, "; nothing was run");
        refuse(s, why);
}

bool session_is_prepared(struct session *s)
{
        struct cell *cell = s->cells;
        const struct session_copy *copy;
        char why[CELL_WHY_MAX];

        if (cell->checkpoint[0] && s->state >= SESSION_IDLE &&
            is_refused(s, cell->checkpoint, why)) {
                refuse(s, why);
                return false;
        }
        if (!cell->restore[0])
                return true;
        copy = session_find_checkpoint(s, cell->restore);
        if (!copy) {
                refuse_unknown(s, cell->restore);
                return false;
        }
        s->copy.wanted = copy->id;
        s->copy.back = BACK_CELL;
        session_dispatch(s, EVENT_BACK, NULL);
        return false;
}

void session_say_no_checkpoint(struct cell *cell, const char *why)
{
        snprintf(cell->outcome.note, sizeof(cell->outcome.note),
                 "checkpoint \"%s\" was not made: %s", cell->checkpoint, why);
}

bool session_make_checkpoint(struct session *s, struct cell *cell)
{
        const char *why = cell->outcome.status != CELL_OK ? "the code did not end well"
                          : s->copy.is_awaited || s->copy.is_offered
                                  ? "an earlier copy is still being made"
                                  : NULL;

        if (why) {
                session_say_no_checkpoint(cell, why);
                return false;
        }
        cell->has_result = true;
        session_ask_copy(s, cell->checkpoint);
        return true;
}

/* ---- undo() ---- */

/* The copy of the state before the cell that runs, or NULL. */
static const struct session_copy *copy_before(struct session *s)
{
        const struct session_copy *newest = session_newest_copy(s);

        return newest && newest->of == s->state_of ? newest : NULL;
}

void session_on_undo(struct session *s, uint64_t query)
{
        const struct session_copy *before = copy_before(s);

        if (before && s->state == SESSION_RUNNING) {
                s->copy.wanted = before->id;
                s->copy.back = BACK_UNDO;
                s->copy.query = query;
                session_dispatch(s, EVENT_BACK, NULL);
                return;
        }
        calls_refuse(
                s, query,
                s->state != SESSION_RUNNING
                        ? "undo() works while a cell runs"
                        : "there is no copy of the state before this cell: it is the first one, it began "
                          "too soon after the one before, or no copy could be made");
}

int session_undo_by_owner(struct session *s, const char *checkpoint, struct error *err)
{
        const struct session_copy *copy = checkpoint ? session_find_checkpoint(s, checkpoint)
                                          : session_current(s) ? copy_before(s)
                                                               : NULL;
        char names[CELL_WHY_MAX / 3];

        for (size_t i = s->copy.n; i > 0 && !copy && !checkpoint && !session_current(s); i--) {
                if (s->copy.list[i - 1].name[0])
                        copy = &s->copy.list[i - 1];
        }
        session_list_checkpoints(s, names, sizeof(names));
        if (!copy && checkpoint)
                return error_set(err, ENOENT, "no checkpoint is called \"%s\": %s", checkpoint,
                                 names);
        if (!copy && session_current(s))
                return error_set(err, ENOENT,
                                 "there is no copy of the state before this call; checkpoints: %s",
                                 names);
        if (!copy)
                return error_set(err, ENOENT, "no call runs, and the session has no checkpoint");
        const uint64_t wanted = s->copy.wanted;
        const enum session_back back = s->copy.back;
        s->copy.wanted = copy->id;
        s->copy.back = BACK_OWNER;
        if (session_dispatch(s, EVENT_BACK, NULL))
                return 0;
        s->copy.wanted = wanted;
        s->copy.back = back;
        return error_set(err, EBUSY, "the session is %s: try again", session_state_name(s->state));
}
