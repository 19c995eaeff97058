/*
 * The sleeping copies of a session's worker: each is made at the end of a cell or where a block begins, and can take the
 * place of the worker (docs/cells.md).
 *
 * Theory of operation. A module that needs a copy requests it: KEEP goes to the worker, which forks, and answers with
 * KEPT; then the monitor and init register the new process. The module learns how that ended by its functions
 * in struct copy_requester. One copy is made at a time.
 *
 * A checkpoint has a writer socket, on which the broker asks its sleeping process to write itself for a branch
 * (docs/branches.md). The broker has one end, the process the other; the broker never reads. A request that is not read
 * is a descriptor in flight, which counts for the broker: a socket at which a branch has waited too long is closed, so
 * that no more than BRANCHES_MAX wait there.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

struct copy {
        uint32_t pid; /* in the sandbox */
        uint64_t id;  /* of the KEEP that it answers */
        uint64_t of;  /* the cell at whose end it was made */
        uint64_t made_us;
        char name[SESSION_NAME_MAX + 1]; /* of the checkpoint, or "" */
        bool of_block;                   /* takes the worker's place only if it is named */
        bool has_value;                  /* a cell of plain code has set the name "_" since, to: */
        int64_t value;
        bool has_writer_socket;
        int writer_socket;
};

/* Who has requested a copy. None of the functions is called from inside copies_request(). */
struct copy_requester {
        bool of_block;
        /* The copy is in the list. */
        void (*taken)(struct session *session);
        /* It cannot be made. why: of the worker or the monitor; NULL: a cell came first. */
        void (*refused)(struct session *session, const char *why);
        /* The worker has not answered in time. A late copy is still taken. */
        void (*given_up)(struct session *session);
};

/* Why a session returns to a copy although its worker has not ended. */
enum copies_back {
        BACK_NOT,
        BACK_CELL,  /* the next cell asks for it */
        BACK_UNDO,  /* the code has called undo() */
        BACK_OWNER, /* the server's owner asks for it */
        BACK_BLOCK, /* a block of the cell has failed; the cell continues where the block began */
};

#define COPIES_NOT_MADE       "no copy of the state could be made"
#define COPIES_NOT_TAKEN_BACK "the state could not be taken back: code has ended the copy of it"

enum { COPIES_MAX = CONFIG_CHECKPOINTS_MAX + 3 };

/* At most one copy of a cell's end has no name, and one is of a block. */
struct copies {
        struct copy list[COPIES_MAX]; /* the newest last */
        size_t n;
        struct copy asked; /* by the last KEEP: its id is 0 if there was none */
        const struct copy_requester *requester;
        uint32_t instead[INIT_INSTEAD_MAX]; /* pids of those that it replaces; 0: none */
        uint64_t state_of;    /* the cell at whose end the variables are what they are */
        uint64_t asked_after; /* number of the last cell as KEEP was sent */
        bool is_awaited;      /* the worker's answer */
        bool is_offered;      /* the monitor's answer is awaited */
        bool is_told;         /* a result has said that no copy of its cell exists */
        bool has_other_code;  /* code has run that is not plain (plain-code.h) */
        bool runs_value;      /* the cell that runs can change only the name "_", and … */
        bool is_current;      /* … as it began, no copy was due */
        uint64_t n_files;     /* requests about files when the newest copy was made */
        /* There is no copy, because no cell has changed anything. End of the first of them; 0: not so. */
        uint64_t deferred_us;
        char note[CELL_NOTE_MAX]; /* for the next result: why there is none */

        /* restore.c, except for what copies_go_back() sets */
        enum copies_back back;
        uint64_t query;    /* of BACK_UNDO and BACK_BLOCK: it is answered if the copy has ended */
        uint64_t wanted;   /* id of the copy to return to; 0: the newest, after the worker ended */
        struct copy woken; /* takes the worker's place */
        bool is_restoring; /* the worker has ended; the outcome of its cell is known */
        bool rolls_back;   /* it rolls files back */
        unsigned n_idle;   /* restores without a call, since the last one */
        char lost[CELL_WHY_MAX]; /* between two cells: why the session was restored, and to what */
};

/* ---- the list ---- */

/* Each returns a copy in the list, or NULL. */
struct copy *copies_newest(struct session *session);
struct copy *copies_find(struct session *session, uint64_t id);
struct copy *copies_find_pid(struct session *session, uint32_t pid);
struct copy *copies_find_name(struct session *session, const char *name);
/* "there are a, b", or "there is none". Returns their number. */
size_t copies_list_names(const struct session *session, char *to, size_t size);
void copies_forget(struct session *session, struct copy *copy);
void copies_forget_all(struct session *session);

/* ---- making one ---- */

/* Requests a copy of the present state, with the name of a checkpoint or "". files: -1, or how many bytes of files the
 * copy may hold. Returns false if the worker does not read. */
bool copies_request(struct session *session, const struct copy_requester *requester,
                    const char *name, int64_t files);
/* Of contents of files that a copy may hold now. */
int64_t copies_snapshot_bytes(const struct session *session);

/* Whether the session, which rests, has no copy of its last cell's end yet. */
bool copies_is_due(const struct session *session);
/* A cell starts, before its code is sent. was_due: a copy of the state before it. */
void copies_begin_cell(struct session *session, const struct cell *cell, bool was_due);
/* It has ended with a RESULT. If it certainly changed nothing, the newest copy is that of its end too. */
void copies_end_cell(struct session *session, const struct cell *cell);
/* The cell to whose end the session returns if the next cell ends the interpreter: that of the newest copy, or of one that is
 * made before that cell. 0: none. */
uint64_t copies_returns_to(struct session *session);
/* Whether the first cell can be sent now. If not, a copy that was deferred is made first. */
bool copies_prepare(struct session *session);
/* Requests it; with the name of a checkpoint or "". The state is KEEPING then. */
void copies_keep(struct session *session, const char *name);
/* The time of KEEPING is over. */
void copies_give_up_keeping(struct session *session, const struct session_details *details);
/* There is no copy of the last cell: the next result says why, or nothing if a cell came first: the next copy is tried
 * after it. */
void copies_note_refusal(struct session *session, const char *why);
void copies_say_no_checkpoint(struct cell *cell, const char *why);
/* A cell starts: says once why there is no copy, and what was restored. */
void copies_note(struct session *session, struct cell *cell);

/* Handler of KEPT frames. */
int copies_on_kept(struct session *session, const struct frame_header *header,
                   struct frame_body *body, struct error *err);
/* The monitor has taken the copy, or not. */
void copies_kept(struct session *session, const struct error *error);
/* Code of the session has ended a copy. */
void copies_gone(struct session *session, uint32_t pid);

/* ---- using one ---- */

/* Has the copy take the worker's place (EVENT_BACK). Returns false if the state does not allow it. */
bool copies_go_back(struct session *session, const struct copy *copy, enum copies_back back,
                    uint64_t query);
/* Whether the cell continues where its block began, with the copy that was woken. */
bool copies_is_rolling_block_back(const struct session *session);

/* Has the process write itself to fd, which stays the caller's. */
int copy_ask_to_write(const struct copy *copy, int fd, struct error *err);
void copy_close_writer_socket(struct copy *copy);

/* ---- text of results about a state that was restored or rolled back; counts and names are the worker's ---- */

/* Appends "2 threads, 1 process and 3 open descriptors": of these kinds the first n, without those whose count is 0. */
void rollback_append_counts(yyjson_val *const *values, size_t n, char *to, size_t size);
/* Appends how many threads and processes do not exist any more since the copy was made. */
void rollback_append_gone(yyjson_val *root, char *to, size_t size);
/* Appends ": a, b and 3 more changed"; total: of these names. */
void rollback_append_changed(yyjson_val *names, yyjson_val *total, char *to, size_t size);
/* "rolled back: …" what: is as before it. has_calls: tool calls were sent, which stay. root: of RESTORED. */
void rollback_describe(const char *what, bool has_calls, yyjson_val *root, char to[CELL_WHY_MAX]);
