/* Whole files of a session, in pieces. */
#include "supervisor/session/file-read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file-path.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/sessions.h"
#include "supervisor/session/status.h"

struct file_read {
        struct session *session;
        char path[CELL_PATH_MAX + 8]; /* from /workspace on */
        char version[FILES_VERSION_MAX + 1];
        size_t most;
        struct buffer content;
        session_file_fn *done;
        void *data;
};

static void read_end(struct file_read *read, const struct error *error)
{
        read->done(read->data, error ? NULL : &read->content, error);
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

int session_file_read(struct sessions *sessions, const char *name, const char *path, size_t most,
                      session_file_fn *done, void *data, struct error *err)
{
        struct session *session = sessions_find(sessions, name);

        if (!session || session_state(session) == SESSION_NONE)
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
        int r = files_fetch(session, read->path, 0, FILES_CHUNK, on_piece, read, err);
        if (r < 0)
                free(read);
        return r;
}
