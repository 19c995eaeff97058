/* Paths of a rollback. */
#include "sandbox-init/worker/rollback/rollback-paths.h"

#include <string.h>

int rollback_directory(struct rollback *r, uint32_t directory)
{
        if (r->opened == directory)
                return r->open_fd;
        if (r->opened != SNAPSHOT_NONE)
                snapshot_close(r->open_fd);
        int fd = snapshot_open_directory(r->s, directory);
        r->opened = fd < 0 ? SNAPSHOT_NONE : directory;
        r->open_fd = fd;
        return fd;
}

/* Writes the path before `end`. Returns its begin, or NULL: it is longer than `room`. */
static char *put_before(char *end, size_t room, const char *text)
{
        size_t n = strlen(text);

        if (n > room)
                return NULL;
        char *begin = end - n;
        for (size_t i = 0; i < n; i++)
                begin[i] = text[i];
        return begin;
}

void rollback_note_path(const struct rollback *r, struct rollback_names *to, uint32_t directory,
                        const char *text)
{
        char path[ROLLBACK_NAME_SIZE];
        char *at = path + sizeof(path) - 1;

        to->total++;
        if (to->n == ROLLBACK_NAMED_MAX)
                return;
        *at = '\0';
        at = put_before(at, (size_t)(at - path), text);
        while (at && directory != 0) {
                const struct snapshot_name *name = snapshot_name(
                        r->s, snapshot_inode(r->s, directory)->name);
                at = put_before(at, (size_t)(at - path), "/");
                if (at)
                        at = put_before(at, (size_t)(at - path), snapshot_text(r->s, name->text));
                directory = name->directory;
        }
        if (at)
                memcpy(to->names[to->n++], at, (size_t)(path + sizeof(path) - at));
}

void rollback_note_inode(const struct rollback *r, struct rollback_names *to, uint32_t i)
{
        uint32_t name = snapshot_inode(r->s, i)->name;

        if (name == SNAPSHOT_NONE)
                to->total++;
        else
                rollback_note_path(r, to, snapshot_name(r->s, name)->directory,
                                   snapshot_text(r->s, snapshot_name(r->s, name)->text));
}
