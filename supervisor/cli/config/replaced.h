/*
 * The bytes that `cloister setup --replace` has replaced, which --remove brings back. A file of the user's state directory
 * (cloister/replaced.json, mode 0600), because a command line may have a secret.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/json.h"

enum { REPLACED_MAX = 256, REPLACED_KEYS_MAX = 4 };

struct replaced {
        const char *file;                        /* of the client, absolute */
        const char *as;                          /* the system */
        const char *keys[REPLACED_KEYS_MAX + 1]; /* of the entry in the document, NULL-terminated */
        /* Texts of the values of "command" and "args", as they were; args NULL: the entry had none. */
        const char *command, *args;
        /* The values that took their place, as JSON; put_args NULL: the entry has one list of words in "command". */
        const char *put_command, *put_args;
};

/* All strings are the document's, or those that replaced_add() got: they are borrowed. */
struct replaced_list {
        char path[PATH_MAX];
        yyjson_doc *doc;
        struct replaced items[REPLACED_MAX];
        size_t n;
};

/* Reads the file; a missing one is an empty list. Call replaced_done() in any case. */
int replaced_read(struct replaced_list *list, struct error *err);
void replaced_done(struct replaced_list *list);

/* Adds one; it replaces one of the same file and keys. */
int replaced_add(struct replaced_list *list, const struct replaced *item, struct error *err);
void replaced_drop(struct replaced_list *list, size_t i);

int replaced_write(const struct replaced_list *list, struct error *err);
