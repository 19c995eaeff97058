/*
 * The processes that read requests of profiles with "to" or "inspect" (supervisor/inject/), as the broker has them: it has their sockets, opens
 * sessions in them, and decides about each request. It has neither values nor keys.
 *
 * The process of a profile that the monitor has started last is for new sessions. An earlier one ends after its last session.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/session/machine/inject-requests.h"

struct injects;

/* lost: the process for new sessions of a profile has ended. */
int injects_new(struct injects **ret, struct event_base *base,
                void (*lost)(void *data, const char *profile), void *data, struct error *err);
struct injects *injects_free(struct injects *injects);

/* INJECT_STARTED: takes ownership of the socket, which has the first message. */
void injects_take(struct injects *injects, const char *profile, int socket);
/* After a reload: those of profiles that have no such secrets any more end after their sessions. */
void injects_reload(struct injects *injects, const struct config *config);

/* For struct sandbox_requests. */
int injects_seat(struct injects *injects, const char *profile, const struct inject_user *user,
                 struct inject_seat **ret, struct error *err);
int inject_seat_open(const struct inject_seat *seat, const struct inject_request *placeholders,
                     struct error *err);
const char *inject_seat_certificate(const struct inject_seat *seat);
void inject_seat_leave(struct inject_seat *seat);
void inject_seat_answer(const struct inject_seat *seat, const struct injected_answer *answer);
