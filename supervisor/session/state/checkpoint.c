/* Makes checkpoints and returns to them. */
#include "supervisor/session/state/checkpoint.h"

#include <errno.h>
#include <stdio.h>

#include "supervisor/session/machine/queue.h"
#include "supervisor/session/state/copies.h"

#define ERROR_TYPE "CheckpointError"

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
        if (copies_find_name(s, name) || copies_list_names(s, names, sizeof(names)) < most)
                return false;
        snprintf(
                why, CELL_WHY_MAX,
                "a session has %u checkpoints at most, and %s: use the name of one of them, which is "
                "replaced; nothing was run",
                most, names);
        return true;
}

static void refuse_unknown(struct session *s, const char *name)
{
        char why[CELL_WHY_MAX], names[CELL_WHY_MAX / 3];

        copies_list_names(s, names, sizeof(names));
        int n = snprintf(why, sizeof(why), "no checkpoint is called \"%s\": %s", name, names);
        if (s->lost[0])
                n += snprintf(why + n, sizeof(why) - (size_t)n,
                              ", since the state was lost (%.200s)", s->lost);
        snprintf(why + n, sizeof(why) - (size_t)n, "; nothing was run");
        session_refuse_first(s, ERROR_TYPE, why);
}

bool checkpoint_prepare(struct session *s)
{
        struct cell *cell = s->queue.first;
        const struct copy *copy;
        char why[CELL_WHY_MAX];

        if (cell->checkpoint[0] && s->state >= SESSION_IDLE &&
            is_refused(s, cell->checkpoint, why)) {
                session_refuse_first(s, ERROR_TYPE, why);
                return false;
        }
        if (!cell->restore[0])
                return true;
        copy = copies_find_name(s, cell->restore);
        if (!copy) {
                refuse_unknown(s, cell->restore);
                return false;
        }
        copies_go_back(s, copy, BACK_CELL, 0);
        return false;
}

bool checkpoint_make(struct session *s, struct cell *cell)
{
        const char *why = cell->outcome.status != CELL_OK ? "the code did not end well"
                          : s->copies->is_awaited || s->copies->is_offered
                                  ? "an earlier copy is still being made"
                                  : NULL;

        if (why) {
                copies_say_no_checkpoint(cell, why);
                return false;
        }
        cell->has_result = true;
        copies_keep(s, cell->checkpoint);
        return true;
}

/* ---- undo() ---- */

/* The copy of the state before the cell that runs, or NULL. */
static const struct copy *copy_before(struct session *s)
{
        const struct copy *newest = copies_newest(s);

        return newest && newest->of == s->copies->state_of ? newest : NULL;
}

int checkpoint_on_undo(struct session *s, uint64_t query, yyjson_val *root, struct error *err)
{
        const struct copy *before = copy_before(s);

        if (before && s->state == SESSION_RUNNING) {
                copies_go_back(s, before, BACK_UNDO, query);
                return 0;
        }
        answer_refuse(
                &s->channel, query,
                s->state != SESSION_RUNNING
                        ? "undo() works while a cell runs"
                        : "there is no copy of the state before this cell: it is the first one, it began "
                          "too soon after the previous one, or no copy could be made");
        return 0;
}

int checkpoint_undo(struct session *s, const char *checkpoint, struct error *err)
{
        const struct copy *copy = checkpoint           ? copies_find_name(s, checkpoint)
                                  : session_current(s) ? copy_before(s)
                                                       : NULL;
        char names[CELL_WHY_MAX / 3];

        for (size_t i = s->copies->n; i > 0 && !copy && !checkpoint && !session_current(s); i--) {
                if (s->copies->list[i - 1].name[0])
                        copy = &s->copies->list[i - 1];
        }
        copies_list_names(s, names, sizeof(names));
        if (!copy && checkpoint)
                return error_set(err, ENOENT, "no checkpoint is called \"%s\": %s", checkpoint,
                                 names);
        if (!copy && session_current(s))
                return error_set(err, ENOENT,
                                 "there is no copy of the state before this call; checkpoints: %s",
                                 names);
        if (!copy)
                return error_set(err, ENOENT, "no call runs, and the session has no checkpoint");
        if (copies_go_back(s, copy, BACK_OWNER, 0))
                return 0;
        return error_set(err, EBUSY, "the session is %s: try again", session_state_name(s->state));
}
