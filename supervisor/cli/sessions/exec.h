/* `cloister exec`. */
#pragma once

#include "supervisor/cli/command/command.h"
#include "supervisor/cli/sessions/receiver.h"
#include "supervisor/cli/sessions/servers.h"

int cli_exec(const struct options *o, const char *const *words, size_t n);

struct line_editor;

/* How cells are run; one for all cells of a prompt. */
struct owner_cells {
        const char *session;
        uint32_t timeout_ms;     /* 0: the config's */
        uint32_t wait_ms;        /* for a session that runs other code */
        bool create;             /* the session, if there is none */
        const char *script;      /* what such a session gets: JSON of the SCRIPT frame, or NULL */
        bool json;               /* print the result as MCP has it, and no output */
        bool show_value;         /* of the last expression */
        struct file_writer *out; /* for displays, or NULL */
        struct line_editor *editor; /* reads what the code of a prompt reads, or NULL */
        size_t n_displays;          /* that were written */
        int last_status;            /* of sys.exit() in the last cell, else 0 */
        bool is_busy, has_exited;   /* the last cell was not run; it has called sys.exit() */
};

/* Returns the exit status of the code. Negative errno: the server did not answer, or refused; the error says why.
 * SIGINT interrupts the cell; call owner_cells_hold_signals() before. */
int owner_cell_run(struct owner_cells *cells, struct server_link *link, const char *code, size_t n,
                   const char *filename, struct error *err);

/* From now on SIGINT ends no program, and arrives only while a cell runs. */
void owner_cells_hold_signals(void);

/* The prompt of -i: reads lines and runs them until the end of input or exit(). Returns the exit status. */
int prompt_run(struct owner_cells *cells, struct server_link *link);
