/*
 * The text of a config file, to which an entry is added or from which it is taken out again.
 *
 * The entry is inserted behind the innermost brace that is there already, and only its own bytes are
 * removed, so that comments and the layout of the file stay. The new text is parsed and compared
 * before it is returned: it has this change and no other.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "supervisor/cli/command/command.h"

/* The file, or the fact that it does not exist. */
struct entry_text {
        const char *const
                *keys; /* of the objects that the entry is in, from the root; NULL-terminated */
        bool is_toml;  /* otherwise JSON */
        char *text;    /* NULL: there is no file */
        size_t n;
        yyjson_doc *doc; /* what is in the text */
};

/* The path of the config: the file named by --config, name in the directory named by it, or the user's own. */
int entry_text_path(const struct options *o, const char *name, char ret[PATH_MAX],
                    struct error *err);

/* Reads a file of at most `most` bytes. Call entry_text_done() in any case. Returns 1; 0: there is no such
 * file. */
int entry_text_read(struct entry_text *file, const char *path, size_t most, struct error *err);
void entry_text_done(struct entry_text *file);

/* Parses a file of TOML with Python's tomllib. */
int entry_text_parse_toml(const char *path, yyjson_doc **ret, struct error *err);

/* Returns the entry's value, or NULL. */
yyjson_val *entry_text_find(const struct entry_text *file, const char *name);

/* Both append the whole new text to `to`; values of the entry are `value`, JSON that is laid out with two
 * spaces. They return 0, -EINVAL: the file has no object for entries, -EBADMSG: the text is not understood,
 * -EMSGSIZE, -ENOMEM. */
int entry_text_add(const struct entry_text *file, const char *name, const char *value,
                   struct buffer *to, struct error *err);
/* The entry must exist. */
int entry_text_remove(const struct entry_text *file, const char *name, struct buffer *to,
                      struct error *err);

/* Whether two documents differ in the entry alone: `with` has it, with the value `entry` (NULL: any), and
 * `without` lacks it, and may lack objects of `keys` that have nothing else. `without` is NULL without a document. */
bool entry_text_only_adds(yyjson_val *with, yyjson_val *without, const char *const *keys,
                          const char *name, yyjson_val *entry);

/* Where a value or a key of the document of a JSON file begins in its text. */
size_t entry_text_position(const struct entry_text *file, const yyjson_val *value);

/* Checks before a file of another program is read: an error if it, or the link that leads to it, belongs to another user, or if it is
 * not a regular file. A missing file is not an error. */
int entry_text_check_owner(const char *path, struct error *err);

/* Checks before it is replaced that it still is what was read. -EBUSY: another program has changed it. */
int entry_text_unchanged(const struct entry_text *file, const char *path, struct error *err);

/* Replaces the file atomically. private: with mode 0600. */
int entry_text_write(const char *path, const struct buffer *text, bool private, struct error *err);
