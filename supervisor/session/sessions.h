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
/* Whether the session of this key, which has no sandbox, may have a place for one now. Returns -EBUSY otherwise. */
int sessions_admit(struct sessions *sessions, const char *key, struct error *err);
/* About how long until a place is free, of a principal (its key) or with NULL of all: an estimate. */
uint64_t sessions_free_ms(const struct sessions *sessions, const char *principal);
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
/* The process that reads requests of this profile has ended: a new one starts with the next request for a sandbox. */
void sessions_inject_lost(struct sessions *sessions, const char *profile);
/* The catalogue of tools has changed. */
void sessions_catalogue_changed(struct sessions *sessions);

/* ---- for the checks of balancers, and for metrics ---- */

/* Whether sandboxes can be made. Unless they can, another attempt begins (sandbox-check.h). */
enum sandbox_ability sessions_can_start(struct sessions *sessions);
/* The same while the server itself tries a sandbox: no attempt begins, and YES is never returned. */
enum sandbox_ability sessions_starting(const struct sessions *sessions);
/* Calls visit(), which frees and ends none, with each session that has a sandbox or waits for one. */
void sessions_visit(const struct sessions *sessions,
                    void (*visit)(void *data, struct session *session), void *data);
/* Whether a session of one more client would get a place. */
bool sessions_have_place(const struct sessions *sessions);
