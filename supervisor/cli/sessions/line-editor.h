/*
 * Lines that a person edits on the terminal, with a history and completion: by libedit if this machine has it, else as the
 * terminal itself edits them.
 *
 * libedit (BSD licence) is opened when a prompt begins, so that no other command needs it. Only its documented functions
 * (editline(3)) are used.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { LINE_COMPLETIONS_MAX = 500, LINE_WORD_MAX = 1024 };

struct line_editor;

struct line_editor_owner {
        void *data;
        /* Calls add() with each text that the word may become. */
        void (*complete)(void *data, const char *word, void (*add)(void *list, const char *text),
                         void *list);
        /* Whether SIGINT has come since the last call. It must be blocked, with a handler. */
        bool (*was_interrupted)(void *data);
};

/* history: the path of a file, which is created with mode 0600, or NULL. */
int line_editor_new(struct line_editor **ret, const char *history,
                    const struct line_editor_owner *owner, struct error *err);
/* Saves the history. */
struct line_editor *line_editor_free(struct line_editor *editor);

/* A descriptor that is watched while a person types. */
struct line_editor_beside {
        void *data;
        int fd;
        /* Called when fd can be read. Returns 0, or what line_editor_read() returns then: a negative errno. */
        int (*readable)(void *data);
};

/*
 * beside: NULL for none. *line is owned by the caller, without its newline. Returns 1, 0 at the end of input, -EINTR after
 * SIGINT, or another negative errno.
 */
int line_editor_read(struct line_editor *editor, const char *prompt,
                     const struct line_editor_beside *beside, char **line);
