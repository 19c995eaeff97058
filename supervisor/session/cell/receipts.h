/*
 * Receipts: usage and traffic of the last cells of a session, which can be read after the result was sent. The numbers are
 * those of the kernel and the broker; code chooses only the names of tools and files.
 *
 * A cell writes some numbers into a ring; JSON is written on request. The ring ends with the session.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json-out.h"
#include "rpc/file-changes.h"
#include "supervisor/session/cell/cell.h"

enum {
        RECEIPTS_MAX = 32,               /* cells of a session */
        RECEIPTS_LISTED = 8,             /* of these, in the list of sessions */
        RECEIPTS_BYTES_MAX = 128 * 1024, /* of the lists together */
        RECEIPT_CALLS_MAX = 48 * 1024,   /* of one list, which has at most CELL_CALLS_KEPT calls */
        RECEIPT_FILES_MAX = 48 * 1024,   /* of the list of files that have changed */
        RECEIPT_HOSTS_MAX = 48 * 1024,   /* of the list of hosts */
};

/* Changes in /workspace. */
struct receipt_files {
        const char *unknown; /* why nothing is known, or NULL. A constant */
        uint32_t number[FILE_CHANGE_MAX], unreadable; /* rpc/file-changes.h */
        struct buffer list;                           /* a JSON array of the first ones, or empty */
};

struct receipt {
        uint64_t cell; /* 0: none */
        enum cell_status status;
        enum cell_state state;
        enum cell_peak peak_of;
        enum config_network network;
        uint64_t duration_us, queued_us, cpu_us, memory_peak;
        uint64_t output_bytes[CELL_STREAMS], sent_bytes, received_bytes, calls_total;
        bool has_tasks, tasks_wrapped;
        uint64_t tasks, tasks_from; /* processes and threads made, from this cell on */
        struct buffer calls;        /* a JSON array, or empty */
        struct buffer hosts;        /* a JSON array of requests to the network, or empty */
        uint64_t network_in, network_out, network_denied; /* their sums */
        bool has_files;
        uint64_t files_from,
                files_to; /* what has changed in these cells; files: in the last of them */
        struct receipt_files files;
};

struct receipts {
        struct receipt ring[RECEIPTS_MAX];
        size_t newest, bytes;
};

void receipts_done(struct receipts *receipts);

/* Takes the numbers of a cell that has ended. Without memory, the tool calls are left out. */
void receipts_add(struct receipts *receipts, uint64_t cell, const struct cell_outcome *outcome);

/* `tasks` processes and threads were created in the cells up to this one that have no number yet. from: the first of them if
 * it is not in the ring any more, otherwise 0; wrapped: at least that number. Returns false if no such cell exists. */
bool receipts_count(struct receipts *receipts, uint64_t from, uint64_t to, uint64_t tasks,
                    bool wrapped);

/* Files were looked at: for the cells up to this one that have no such numbers yet. Takes the list. */
void receipts_note_files(struct receipts *receipts, uint64_t to, struct receipt_files *files);
/* Whether the newest cell has no such numbers. */
bool receipts_lack_files(const struct receipts *receipts);

/* The first cell that has no such number; 0: none. */
uint64_t receipts_uncounted(const struct receipts *receipts, uint64_t to);

/* NULL: it never was, or made room for newer ones. */
const struct receipt *receipts_find(const struct receipts *receipts, uint64_t cell);

/* A receipt as an object; whole: with its tool calls, the names of files, and hosts. */
void receipts_put(struct json_out *out, const struct receipt *receipt, bool whole);
/* An array, the newest first, without these lists. */
void receipts_put_all(struct json_out *out, const char *key, const struct receipts *receipts);

/* The hosts that a cell has asked for, and what was moved from and to each. */
void receipt_put_hosts(struct json_out *out, const char *key, const struct cell_outcome *outcome);

const char *cell_peak_name(enum cell_peak peak);
const char *cell_network_name(enum config_network network);
