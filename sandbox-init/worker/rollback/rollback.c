/* Runs the steps of a rollback. */
#include "sandbox-init/worker/rollback/rollback.h"

#include "sandbox-init/worker/rollback/rollback-contents.h"
#include "sandbox-init/worker/rollback/rollback-names.h"

/* Only if the process is in a directory that was deleted: it was made again. */
static void enter_directory(const struct snapshot *s)
{
        struct stat about;

        if (s->directory != 0 && snapshot_stat(AT_FDCWD, ".", &about) >= 0 && about.st_nlink == 0)
                raw_call(SYS_chdir, raw_pointer(snapshot_text(s, s->directory)), 0, 0, 0, 0, 0);
}

void rollback_run(struct snapshot *s, struct rollback_report *ret)
{
        struct rollback r = {.s = s, .report = ret, .staging = -1, .opened = SNAPSHOT_NONE};

        *ret = (struct rollback_report){0};
        rollback_names(&r);
        rollback_contents(&r);
        rollback_attributes(&r);
        enter_directory(s);
        if (r.opened != SNAPSHOT_NONE)
                snapshot_close(r.open_fd);
        arena_free(&r.moved);
}
