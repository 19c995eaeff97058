/* The files that `cloister run` puts into /workspace, as one sealed stream of records
 * (rpc/file-stream.h): those of --in, and before them the script and its modules. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
        INPUTS_FILES_MAX = 10000, /* of the directories of --in */
        INPUTS_DEPTH_MAX = 32,
};

struct inputs {
        int fd;
        size_t n;       /* files so far */
        uint64_t bytes; /* of them */
        size_t skipped; /* links and special files in directories */
};

int inputs_begin(struct inputs *inputs, struct error *err);
void inputs_done(struct inputs *inputs);

int inputs_add_text(struct inputs *inputs, const char *name, const char *text, size_t n,
                    struct error *err);
/*
 * Adds the modules beside the script of `cloister run`, which it may import. Of the folder that the script is in, these files are
 * given to the code, and nothing else: the script, each NAME.py whose NAME is a word of the script or of another given file, and
 * the *.py files of each package NAME. Symbolic links are not followed, except the script itself.
 *
 * path is the script's, text what it has. A folder that cannot be read has no modules. Returns how many were added.
 */
int inputs_add_modules(struct inputs *inputs, const char *path, const char *text, size_t n,
                       struct error *err);
/* FILE, or FILE=NAME, where NAME is a path below /workspace. A directory is copied with all below it;
 * symbolic links in it are left out. */
int inputs_add(struct inputs *inputs, const char *given, struct error *err);

/* Returns a sealed memfd, or -1 if there are no files. */
int inputs_end(struct inputs *inputs, struct error *err);
