/*
 * All sessions, by key: name, or principal and name (session-name.h).
 *
 * A name comes into being when it is first used. The number of sandboxes is limited
 * (monitor_hello.sessions_max) and idle ones are ended; the reason why a sandbox was lost is kept
 * for a limited number of names.
 *
 * Principals share the places (machine/principal.h). Without a place, a new session gets that of one that no call has named
 * and that has been idle for SESSION_UNNAMED_MS: first of the principal that has most sessions, the oldest first.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "policy/config/config.h"
#include "rpc/monitor-messages.h"
#include "supervisor/session/cell/cell.h"
#include "supervisor/session/cell/session-name.h"
#include "supervisor/session/machine/picture-provider.h"
#include "supervisor/session/machine/sandbox-requests.h"
#include "supervisor/session/machine/tool-provider.h"
#include "supervisor/session/sandbox-check.h"

struct session;
struct sessions;

int sessions_new(struct sessions **ret, struct event_base *base, struct config *config,
                 const struct monitor_hello *hello, const struct tool_provider *tools,
                 const struct sandbox_requests *requests, struct error *err);
/* Before the first cell. Without it no picture is shown. */
void sessions_set_pictures(struct sessions *sessions, const struct picture_provider *pictures);
/* Frees waiting cells without calling their done(). */
struct sessions *sessions_free(struct sessions *sessions);

/* Queues a cell in the session of this key, which is made if there is none. *ret is valid until
 * done(). */
int sessions_run(struct sessions *sessions, const char *name, const struct cell_request *request,
                 struct cell **ret, struct error *err);

/* Whether n sessions, NAME-1 to NAME-n, may be made for a principal (its key). quota: how many it may have, or 0. */
int sessions_check_branches(struct sessions *sessions, const char *principal, const char *name,
                            unsigned n, size_t quota, struct error *err);

/* The session of this key, or NULL. */
struct session *sessions_find(struct sessions *sessions, const char *name);

/* The newest config. */
const struct config *sessions_config(const struct sessions *sessions);

bool sessions_is_live(struct sessions *sessions, const char *key);
/* Whether one more session of this principal (its key) may live, if it may have `most`. Otherwise one of its own sessions
 * gives up its place, if one may (SESSION_UNNAMED_MS). */
bool sessions_quota(struct sessions *sessions, const char *principal, size_t most);
/* How many principals have access, and what all sessions of each may use. Each has a right to a few places
 * (machine/principal.h). */
void sessions_set_principals(struct sessions *sessions, size_t n,
                             void (*sums)(const void *data, const char *key,
                                          struct monitor_principal *ret),
                             const void *data);
/* No session is of a client without a name. */
void sessions_require_names(struct sessions *sessions);
/* A call names the session of this key, which from now on keeps its place until it is idle for long. */
void sessions_note_named(struct sessions *sessions, const char *key);

/* Handles an answer of the monitor or another of its events about sessions and installers. A failure with ESTALE
 * means that the config was reloaded meanwhile: the sandbox is requested again. Takes ownership of the descriptors.
 * Returns -ENOENT if nothing waits for it: no session has this serial or target. */
int sessions_event(struct sessions *sessions, const struct monitor_message *message);

/* Another config is valid from now on. Sessions that have a sandbox keep theirs. */
void sessions_reload(struct sessions *sessions, struct config *config,
                     const struct monitor_hello *hello);
/* The monitor has found out which kernel counters it can pass. */
void sessions_set_usage(struct sessions *sessions, enum monitor_usage kind);

/* Sessions with this profile of the newest config are expected (NULL: the config has none): from
 * the first such call on, sandboxes are kept ready. */
void sessions_expect(struct sessions *sessions, const struct config_profile *profile);

/* The process that had the network of sessions has ended: their networks are opened again. */
void sessions_network_lost(struct sessions *sessions);
/* The catalogue of tools has changed. */
void sessions_catalogue_changed(struct sessions *sessions);

/* ---- for the checks of balancers ---- */

/* Whether sandboxes can be made. Unless they can, another attempt begins (sandbox-check.h). */
enum sandbox_ability sessions_can_start(struct sessions *sessions);
/* Calls visit(), which frees and ends none, with each session that has a sandbox or waits for one. */
void sessions_visit(const struct sessions *sessions,
                    void (*visit)(void *data, struct session *session), void *data);
/* Whether a session of one more client would get a place. */
bool sessions_have_place(const struct sessions *sessions);

/* For the owner of the server (`cloister sessions`). */

struct sessions_count {
        size_t names;
        size_t live; /* have a sandbox, or wait for one */
        size_t max;  /* the limit of live sessions */
        size_t spares_coming, spares_ready, spares_ending;
};
void sessions_count(const struct sessions *sessions, struct sessions_count *ret);

/*
 * Appends an array of the live sessions in the order in which they were made:
 *
 *     {"name", "profile"?, "state": "idle" | "frozen" | …, "age_ms", "idle_ms"?, "memory_bytes",
 *      "memory_peak_bytes", "cells", "waiting", "cpu_ms", "tool_calls", "sent_bytes", "received_bytes", "output_bytes", "tasks_made"?,
 *      "copy_of_cell"?, "last"?: {"code", "status"?, "duration_ms", and of a cell that has ended the same figures},
 *      "receipts": [of the last cells, the newest first (receipts.h)]}
 *
 * copy_of_cell: to whose end the session returns if a cell ends its interpreter (docs/cells.md). idle_ms is present while no cell runs. Memory is as the kernel counts it, 0 if unknown. code is
 * the first line of the last cell, truncated; status is absent while that cell runs, and line is the last that it has printed.
 */
int sessions_append_list(const struct sessions *sessions, struct buffer *to);

/* Ends a session's sandbox at once, also while a cell runs; the result of the next call reports it. restart: a new
 * sandbox is created at once. -ENOENT: no live session has this name. */
int sessions_end(struct sessions *sessions, const char *name, bool restart, struct error *err);

/* Ends the sessions of a principal under a profile that it may not use, and refuses the code that waits for one. A name whose last sandbox had such a profile gets the
 * profile of its next call. */
void sessions_restrict(struct sessions *sessions, const char *principal,
                       bool (*may_use)(const void *data, const char *profile), const void *data);

/* Ends all sessions of a principal, and refuses the code that waits in them. */
void sessions_end_of(struct sessions *sessions, const char *principal);

/* Goes back to a checkpoint, or with NULL to the state before the call that runs or to the newest
 * checkpoint (checkpoint_undo()). */
int sessions_undo(struct sessions *sessions, const char *name, const char *checkpoint,
                  struct error *err);
