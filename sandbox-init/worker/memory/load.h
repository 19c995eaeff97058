/* Replaces the memory of this process by a dump (dump.h). */
#pragma once

#include <stdint.h>

/* Where the dump is: the descriptor of a file, which is closed before anything of the dump is run, and an offset. */
struct load_source {
        long fd;
        uint64_t at;
};

/*
 * Replaces this process. On success does not return: the caller of dump_write() continues instead, with
 * `argument` in *number. Returns negative errno if nothing was replaced yet: -ESTALE (not of this template),
 * -EBADMSG (no dump that fits); ends the process with LOAD_EXIT_FAILED if something was.
 * Or what the writer has passed to dump_refuse(). template_id, channel: those of this process.
 */
long load_replace(const struct load_source *from, const uint8_t template_id[16], uint64_t channel,
                  int64_t argument);

enum { LOAD_EXIT_FAILED = 114 };

/* Frees the scratch memory, in a process that was loaded. */
void load_done(void);
