/* Copies of `cloister cp`, a piece at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file-path.h"
#include "policy/control-path.h"
#include "supervisor/cli/sessions/servers.h"

enum { COPY_NAME_SIZE = 132, COPY_PIECE = 512 * 1024 };

/* A path in a session. */
struct copy_end {
        char socket[CONTROL_PATH_SIZE];
        char session[COPY_NAME_SIZE];
        char path[FILE_PATH_MAX + 1]; /* below /workspace, "": that itself */
        bool is_directory;            /* it was written with a slash at its end */
};

struct copy {
        struct server_link link;
        struct copy_end end;
        bool recursive, quiet;
        bool hidden;   /* names with a leading dot in a directory that is copied out */
        size_t failed; /* files that were left out, each with a line on standard error */
        uint64_t files, bytes, told_ms, begun_ms;
        bool has_told;
};

/* "x", "/workspace/x" and "" -> path. Anything else is an error. */
int copy_take_path(const char *text, struct copy_end *ret, struct error *err);

/* Asks for the kind of a path in the session: "directory", "file", "other" or "absent". The caller owns the
 * document, which lists the files below it. */
int copy_list(struct copy *copy, const char *path, yyjson_doc **ret, yyjson_val **result,
              struct error *err);
/* Counts a copied piece, and prints the progress of a long copy. */
void copy_progress(struct copy *copy, size_t n);
void copy_end_progress(struct copy *copy);
/* One file was left out. */
void copy_skip(struct copy *copy, const char *path, const char *why);
/* directory/name, or name. Returns 0 or -ENAMETOOLONG. */
int copy_join(const char *directory, const char *name, char ret[FILE_PATH_MAX + 1]);
const char *copy_last_name(const char *path);
