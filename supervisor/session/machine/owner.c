/* Records what the owner does. */
#include "supervisor/session/machine/owner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static const char *plural(uint64_t n)
{
        return n == 1 ? "" : "s";
}

/* Adds as much as fits. */
static void describe(const struct session_owners *o, char to[CELL_WHY_MAX])
{
        size_t n = 0;

        to[0] = '\0';
        if (o->cells > 0)
                n = (size_t)snprintf(to, CELL_WHY_MAX,
                                     "since the last call a person has run %" PRIu64
                                     " cell%s in this session%s: %s",
                                     o->cells, plural(o->cells),
                                     o->cells > 1 ? ", the last one" : "", o->code);
        if (o->end[0] && n < CELL_WHY_MAX)
                n += (size_t)snprintf(to + n, CELL_WHY_MAX - n, "; it %s", o->end);
        if (o->files > 0 && n < CELL_WHY_MAX)
                snprintf(to + n, CELL_WHY_MAX - n,
                         "%sa person has copied %" PRIu64 " file%s to /workspace%s: %s",
                         n > 0 ? "; " : "since the last call ", o->files, plural(o->files),
                         o->files > 1 ? ", the last one" : "", o->file);
        utf8_trim(to);
}

bool session_note_owner(struct session *s, struct cell *cell)
{
        struct session_owners *o = &s->owners;
        bool fresh = session_is_fresh(s);

        if (cell->is_probe)
                return fresh;
        if (cell->is_owners) {
                o->is_first |= fresh;
                return fresh;
        }
        if (o->cells + o->files > 0)
                describe(o, cell->outcome.owner);
        return fresh || o->is_first;
}

static void describe_end(const struct cell_outcome *outcome, char to[CELL_WHY_MAX])
{
        bool has_why = outcome->why[0] && !outcome->error_type;

        to[0] = '\0';
        if (outcome->status != CELL_OK || outcome->state >= CELL_STATE_LOST)
                snprintf(to, CELL_WHY_MAX, "ended as %s%s%s%s%s", cell_status_name(outcome->status),
                         has_why ? ": " : "", has_why ? outcome->why : "",
                         outcome->restored[0] ? "; " : "", outcome->restored);
        utf8_trim(to);
}

void session_note_owners_end(struct session *s, const struct cell *cell)
{
        struct session_owners *o = &s->owners;
        bool is_restored = cell->outcome.state == CELL_STATE_RESTORED;

        if (!cell->is_owners) {
                /* The result of a cancelled call is not read: the next one says it again. */
                if (!cell->cancelled && cell->kind == CELL_CODE)
                        *o = (struct session_owners){};
                return;
        }
        if (cell->is_probe && !is_restored)
                return;
        o->cells++;
        memcpy(o->code, cell->excerpt, sizeof(o->code));
        describe_end(&cell->outcome, o->end);
        /* The next sandbox is new for the client because of s->lost. */
        if (cell->outcome.state == CELL_STATE_LOST)
                o->is_first = false;
}

void session_note_file(struct session *s, const char *path)
{
        s->owners.files++;
        snprintf(s->owners.file, sizeof(s->owners.file), "%s", path);
        utf8_trim(s->owners.file);
}
