/* `cloister cp`. */
#pragma once

#include "base/file-path.h"
#include "supervisor/cli/command/command.h"
#include "supervisor/cli/sessions/receiver.h"
#include "supervisor/cli/sessions/servers.h"

int cli_cp(const struct options *o, const char *const *words, size_t n);

/* A copy to or from a session, a piece at a time. */
struct copy {
        const char *label; /* of --label, or NULL */
        struct server_link link;
        char session[132];
        char path[FILE_PATH_MAX + 1]; /* in the session, below /workspace; "": that itself */
        bool is_directory;            /* it was written with a slash at its end */
        bool recursive, quiet;
        bool hidden;   /* names with a leading dot in a directory that is copied out */
        size_t failed; /* files that were left out, each with a line on standard error */
        uint64_t files, bytes, told_ms, begun_ms;
        bool has_told;
};

/* The files of a stream (rpc/file-stream.h) in fd, written in place. */
int copy_in_stream(struct copy *copy, int fd, struct error *err);
/* Copies all files below a directory of the session. -ENOENT: that does not exist. */
int copy_out_all(struct copy *copy, struct file_writer *writer, struct error *err);
