/*
 * A cell: one piece of code for a session, from its request to its outcome.
 *
 * The worker is trusted only for the value, the error and how the code ended, displays and files.
 * Every other field comes from the broker and the kernel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/config/config.h"
#include "policy/image.h"
#include "policy/language.h"
#include "rpc/client-request.h"
#include "rpc/egress-messages.h"
#include "rpc/memory-account.h"
#include "rpc/trace-context.h"
#include "supervisor/session/cell/branch.h"
#include "supervisor/session/cell/cell-picture.h"
#include "supervisor/session/cell/output.h"
#include "supervisor/session/cell/session-name.h"

struct cell_input;
struct plan;
struct session;

enum cell_status {
        CELL_OK,
        CELL_ERROR,
        CELL_EXIT,
        CELL_TIMEOUT,
        CELL_CANCELLED,
        CELL_OOM,
        CELL_KILLED,
        CELL_RUNNING, /* it has not ended: the call is answered meanwhile */
        CELL_BUSY,    /* it was not run, because another one runs */
        CELL_PLANNED, /* it was run in a copy of its session only */
        CELL_STATUS_MAX,
};
const char *cell_status_name(enum cell_status status);

/* The variables of the session at the end of the call. */
enum cell_state {
        CELL_STATE_NONE, /* there are none: no sandbox could be made */
        CELL_STATE_NEW,
        CELL_STATE_KEPT,
        CELL_STATE_LOST,
        CELL_STATE_RESTORED,    /* to the end of an earlier cell (docs/cells.md) */
        CELL_STATE_ROLLED_BACK, /* with the files of /workspace, to the begin of this cell */
        CELL_STATE_MAX,
};
const char *cell_state_name(enum cell_state state);

enum {
        CELL_CODE_MAX = 16 * 1024 * 1024,
        CELL_ATTEMPTS_MAX = 3, /* sandboxes that get it, if none has read it */
        CELL_CALLS_KEPT = 100,
        CELL_WHY_MAX = 640, /* bytes of a reason; the text of an error of the monitor fits */
        CELL_NOTE_MAX = 240,
        CELL_NAME_MAX = 128,   /* bytes of a server's or tool's name in the record */
        CELL_EXCERPT_MAX = 72, /* bytes */
        CELL_CLIENT_MAX = 63,  /* bytes of the name of a client */
        CELL_REQUEST_MAX =
                95, /* bytes of a client's request id in the log; a longer one is left out */
        CELL_MIME_MAX = 127,
        CELL_DISPLAYS_MAX = 32,                    /* of one cell; more are only counted */
        CELL_DISPLAY_BYTES_MAX = 16 * 1024 * 1024, /* of all displays of one cell; less if all
                                                      sessions keep much */
        CELL_FILES_MAX = 100,                      /* named in one result */
        CELL_PATH_MAX = 255,
};

/* The kind of work: code, or the two halves of a branch (branch.h). */
enum cell_kind { CELL_CODE, CELL_DUMP, CELL_LOAD };

enum cell_stream { CELL_STDOUT, CELL_STDERR, CELL_STREAMS };

/* A tool call of the cell. */
struct cell_call {
        char server[CELL_NAME_MAX + 1], tool[CELL_NAME_MAX + 1];
        bool used;     /* false: it was never sent and is not reported */
        bool pending;  /* not answered at the end of the cell */
        bool in_block; /* that was rolled back */
        bool ok;
        uint64_t started_us, duration_us;
        uint64_t sent_bytes, received_bytes; /* of the call, of its result */
};

/* The processes and the time that outcome.memory_peak covers. */
enum cell_peak {
        CELL_PEAK_SESSION, /* all of the session since it began, in a control group */
        CELL_PEAK_CELL, /* all of the session while the cell ran: the kernel's counter was reset */
        CELL_PEAK_PROCESS, /* the interpreter's process since it began: there is no control group */
        CELL_PEAK_SAMPLED, /* all of the session while the cell ran, as the monitor has sampled it */
        CELL_PEAK_MAX,
};

/* An argument of display(): an image, HTML, text. From the worker; its format is checked. */
struct cell_display {
        char mime_type[CELL_MIME_MAX + 1]; /* type/subtype, lower case */
        struct buffer data;                /* text as UTF-8; else base64, without line breaks */
        uint64_t id;                       /* a later one with it replaces this one; 0: none does */
        bool is_text;
        bool is_block;               /* data is a content block of MCP, as JSON (cell-result.h) */
        bool is_picture;             /* an image, also as a block */
        struct cell_picture picture; /* then */
        bool is_linked;              /* for people: not part of the result, but a resource */
};

/* A content block, or a resource, in a RESULT. */
struct cell_image {
        yyjson_val *block;
        struct cell_picture picture;
};

/* A file below /workspace/out that this cell made or changed, according to the worker. */
struct cell_file {
        char path[CELL_PATH_MAX + 1]; /* below out/; UTF-8, no component "." or ".." */
        char mime_type[CELL_MIME_MAX + 1];
        uint64_t size;
};

/* Traffic of a session with a host, or the reason for which it was refused. */
struct cell_host {
        char name[256]; /* "": others, or a host that could not be read */
        uint16_t port;
        enum egress_reason why; /* of the last refusal or failure */
        struct egress_sums sums;
};

enum cell_network {
        CELL_NETWORK_SAME,
        CELL_NETWORK_AGAIN, /* the proxy has ended, with all connections, and another one serves */
        CELL_NETWORK_RULES, /* the profile's hosts are others, and connections have ended */
        CELL_NETWORK_OVER,  /* the last one has ended */
};

struct cell_outcome {
        enum cell_status status;
        enum cell_state state;
        bool interrupted;                     /* the worker reports that SIGINT ended it */
        struct capture streams[CELL_STREAMS]; /* empty if output() got the output */
        struct charge kept;                   /* for all that is owned */
        yyjson_doc *result;                   /* payload of RESULT, or NULL */
        yyjson_val *value, *error;            /* in it, of the documented form, or NULL */
        yyjson_val *
                output; /* in it, of a published cell: an object whose members are not checked, or NULL */
        yyjson_val *requests;   /* what it asks the client instead of ending: the same */
        const char *error_type; /* of Cloister's own error, which replaces the code's; or NULL */
        bool has_exit_code;
        int exit_code;
        int signal;                /* 0: none */
        char why[CELL_WHY_MAX];    /* why the cell did not end normally, in one line, or "" */
        char before[CELL_WHY_MAX]; /* why an earlier state was lost, when this call made a new one,
                                      or "" */
        char restored[CELL_WHY_MAX]; /* state RESTORED or ROLLED_BACK: to what; otherwise "" */
        char note
                [CELL_NOTE_MAX]; /* why there is no copy of an earlier cell, or no checkpoint, or "" */
        char block[CELL_WHY_MAX]; /* what was rolled back with the last of them, or "" */
        uint64_t n_blocks;        /* transactions that were rolled back while the cell continued */
        bool is_checkpoint;       /* its end was kept under the requested name */
        struct buffer plan;       /* JSON of the result's "plan", or empty */
        struct buffer plan_lines; /* its text for a person, or empty */
        char planned[CELL_NOTE_MAX]; /* in one line, or "" */
        char owner[CELL_WHY_MAX]; /* what the server's owner has done in the session since the last
                                     call (outcome.c), or "" */
        struct cell_call *calls;  /* CELL_CALLS_KEPT of them, or NULL */
        size_t n_calls;           /* used slots, including calls that were not sent */
        uint64_t calls_total;     /* sent */
        struct cell_display *displays;
        size_t n_displays, displays_total;
        struct cell_image *images; /* in `output` and `requests`, the first n_images of them */
        size_t n_images;
        struct cell_file *files;
        size_t n_files, files_total;
        uint64_t queued_us, duration_us, cpu_us;
        uint64_t memory_peak; /* bytes, 0: unknown */
        enum cell_peak peak_of;
        enum config_network network;
        struct cell_host *hosts; /* or NULL */
        size_t n_hosts;
        enum cell_network network_change;
        char network_profile[IMAGE_NAME_SIZE]; /* whose network.allow it is */
        uint64_t sent_bytes, received_bytes;   /* of all tool calls that were sent */
};

/* Appends to a text in an array of this size, as much as fits. */
void text_append(char *to, size_t size, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Drops output and displays: those that come later are all that the result has. */
void cell_outcome_clear(struct cell_outcome *outcome);
/* Charges what the outcome owns now. */
void cell_outcome_charge(struct cell_outcome *outcome);
/* Moves what is owned; the numbers stay in `from` too. */
void cell_outcome_move(struct cell_outcome *to, struct cell_outcome *from);
void cell_outcome_done(struct cell_outcome *outcome);
/* Frees what is owned: how the cell ended stays. */
void cell_outcome_strip(struct cell_outcome *outcome);

/* The client for which a cell runs, as its tool calls see it. A cell of `cloister run` has none. */
struct cell_client {
        unsigned can;          /* what it can be asked for: bits of client_can */
        const char *log_level; /* of the messages of servers that it wants, or NULL */
};

/* How far a call is, as its server says. */
struct cell_progress {
        double value, total; /* total 0: not known */
        const char *message; /* or NULL; not cleaned */
        size_t length;
};

/* data: the cell's. */
struct cell_client_calls {
        void (*describe)(void *data, struct cell_client *ret);
        /* Passes a request on; returns 0, or negative errno and it is not taken. Does not answer it before
         * it returns. */
        int (*ask)(void *data, struct client_ask *ask, struct error *err);
        /* The page of this elicitationId, which the client got a request to open, is not needed any more. */
        void (*page_done)(void *data, const char *page);
        void (*progress)(void *data, const char *server, const struct cell_progress *progress);
        /* A step of the work before the code can run, or continue: `what` is the name of the thing ("image"), text a
         * line about it, not checked; "": that is over. */
        void (*step)(void *data, const char *what, const char *text);
        /* params of notifications/message, not checked. */
        void (*log)(void *data, const char *server, yyjson_val *params);
};

/* The arguments of a cell. */
struct cell_request {
        /* Texts and values of the caller, valid until cell_new() returns. */
        const char *code; /* UTF-8 */
        size_t code_length;
        const char *filename; /* NULL: "<cell N>" */
        const char *input;    /* JSON of the INPUT frame of published code, or NULL */
        size_t input_length;
        const char *script; /* JSON of the SCRIPT frame, or NULL */
        size_t script_length;
        yyjson_val *needs; /* packages that the code needs: an array of strings, or NULL */
        const char *restore, *checkpoint; /* names of checkpoints, or NULL */
        const char *profile;              /* for a new sandbox; NULL: the config's default */
        const char *from; /* key of the session that the new one is to be a branch of, or NULL */
        const char *from_checkpoint; /* of it; NULL: as it is now */
        struct branch *
                *shared; /* the state that several cells begin as: NULL at the first; or NULL */
        yyjson_val *request_id;            /* the client's, or NULL */
        const char *client_name;           /* that the client gives itself, or NULL */
        const struct trace_context *trace; /* or NULL */

        const struct cell_input *standard_input; /* or NULL: the code has none (calls.h) */
        enum language language; /* of the code; LANGUAGE_MAX: that of the session */
        uint32_t branch;        /* its number, for the variable `branch`; 0: none */
        uint32_t timeout_ms;    /* 0: none */
        bool reset;
        bool rolls_back;    /* if it fails, variables and files are as before (transaction.h) */
        bool check_only;    /* checks the calls of tools in the code, runs nothing */
        bool is_unnamed;    /* the server chose the session: the call named none */
        bool profile_asked; /* named by the call: a session with another one refuses the cell */
        bool is_owners; /* of `cloister exec`, no call of the client's: the client's next result mentions it */
        bool is_single;    /* the session is its own: the sandbox ends with it */
        bool merges_needs; /* `needs` comes after what the code itself declares, by name */
        bool is_bound;     /* refused if the sandbox of the session ends before the cell begins */
        bool is_probe;     /* code is the PROBE of docs/rpc.md, which leaves no trace */
        bool is_planning;  /* it runs in a copy of its session, to fill the plan */
        bool is_postponed; /* it waits in the queue until cell_begin_postponed() */
        struct plan *plan; /* of its calls (supervisor/trust/plans/plan.h), borrowed; or NULL */
        /* Called exactly once, at the end; the cell is freed after it. */
        void (*done)(void *data, struct cell *cell);
        /* Gets the output instead of the capture, or NULL. */
        void (*output)(void *data, enum cell_stream stream, const char *bytes, size_t n);
        /* Gets the output besides the capture, or NULL. */
        void (*watch)(void *data, enum cell_stream stream, const char *bytes, size_t n);
        const struct cell_client_calls *client; /* or NULL: it has no client */
        /* A person can answer a question about calls of this cell; NULL: that is over. Returns false if no person can see the way. NULL: none
         * can. */
        bool (*waits)(void *data, const struct person_way *way);
        /* Gets a PROGRESS or LOG frame of published code, an object whose members are not checked, or NULL. */
        void (*told)(void *data, uint8_t frame, yyjson_val *object);
        void *data;
};

struct cell {
        struct cell_request request; /* without the caller's texts */
        struct session *session;
        struct cell *next;
        struct buffer payload; /* of EXEC; empty once sent, if it cannot be sent again */
        size_t code_length;    /* bytes of it that are the code */
        struct buffer input;   /* of INPUT; empty: the cell is not published code */
        struct buffer script;  /* of SCRIPT; empty: none is sent */
        struct buffer needs;   /* of NEED, or empty */
        bool cancelled;
        bool is_postponed;                  /* as in the request, until it may begin */
        const char *interrupted_by;         /* why: cell_interrupt(); or NULL */
        char restore[SESSION_NAME_MAX + 1]; /* checkpoint to return to before it is sent, or "" */
        char checkpoint[SESSION_NAME_MAX + 1]; /* name under which its end is kept, or "" */
        char profile[IMAGE_NAME_SIZE];         /* name; "": the config's default */
        char excerpt[CELL_EXCERPT_MAX + 1];    /* the first line of the code, cut */
        char request_id[CELL_REQUEST_MAX + 1]; /* JSON text of the client's id, or "" */
        char client_name[CELL_CLIENT_MAX + 1]; /* or "" */
        struct trace_context trace;            /* of the call */
        uint64_t number;                       /* the id of its frames */
        uint64_t sent_as;                      /* EXEC was this frame of the channel, from 1 */
        unsigned attempts;                     /* how often it was sent */
        enum cell_kind kind;
        struct branch *
                branch; /* a reference, of DUMP, LOAD, and of code that waits for LOAD; else NULL */
        struct branch_load load; /* of LOAD */
        bool has_result;         /* and waits for the end of a restore */
        bool is_reading;         /* its READ, of this id, waits for the answer */
        uint64_t read_id;
        uint64_t asked_us, started_us, cpu_before_us;
        struct cell_outcome outcome;

        unsigned held; /* its time stands still */
        uint64_t held_since_us, held_us;
        uint64_t stopped_since_us,
                stopped_us; /* its time stands still while blocks are rolled back */
};

/* Whether the code is a published tool, prompt or resource: its sandbox is its own, and ends
 * with it. */
static inline bool cell_is_published(const struct cell *cell)
{
        return cell->input.length > 0;
}

int cell_new(struct cell **ret, const struct cell_request *request, struct error *err);
struct cell *cell_free(struct cell *cell);

/* Records the start of a call; NULL if the record is full. */
struct cell_call *cell_call_begin(struct cell *cell, const char *server, const char *tool);
struct cell_bytes {
        uint64_t sent, received;
};

/* Records the end of a call. slot may be NULL. */
void cell_call_end(struct cell *cell, struct cell_call *slot, bool sent, bool ok,
                   uint64_t duration_us, struct cell_bytes bytes);

/* Tells the cell's client what the cell waits for (struct cell_client_calls). */
void cell_tell_step(const struct cell *cell, const char *what, const char *text);
