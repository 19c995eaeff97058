/* Standard output and error of a sandbox: two pipes, read into the cell that runs, or kept for the next one. */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "rpc/memory-account.h"
#include "supervisor/session/cell/cell.h"

struct stream {
        struct streams *streams;
        int fd; /* read end of the pipe; -1: none */
        struct event *event;
        struct capture stray; /* output while no cell ran */
        struct charge kept;   /* for it */
};

struct streams {
        struct stream list[CELL_STREAMS];
        struct cell *cell; /* the one that runs, or NULL */
        bool is_paused;
        bool has_come;       /* output of this sandbox */
        const char *session; /* its name, for the log */
};

void streams_init(struct streams *streams, const char *session);

/* Takes ownership of both descriptors in any case. */
int streams_open(struct streams *streams, struct event_base *base, struct memory_account *account,
                 int out, int err_fd, struct error *err);
void streams_close(struct streams *streams);

/* Reads what is in the pipes now, at most their capacity, so that a writer that continues cannot
 * block the loop. */
void streams_drain(struct streams *streams);

/* The output belongs to this cell from now on; puts the output since the last cell, with a mark, before it. */
void streams_begin(struct streams *streams, struct cell *cell);
/* The cell that ran has ended, or is queued again. */
void streams_end(struct streams *streams);

/* Stops or resumes reading, for a reader that is slower than the code. */
void streams_pause(struct streams *streams, bool paused);
