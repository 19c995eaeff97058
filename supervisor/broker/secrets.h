/*
 * The secrets of profiles in the broker: reads their values from the pipes of MONITOR_SECRETS_READ, and keeps what the messages of servers must
 * not contain. Values of arguments only: others are never here.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "policy/config/config.h"
#include "supervisor/secrets/mask.h"
#include "supervisor/secrets/values.h"

struct broker_secrets;

int broker_secrets_new(struct broker_secrets **ret, struct event_base *base, struct error *err);
struct broker_secrets *broker_secrets_free(struct broker_secrets *secrets);

/* The values of this profile are coming. Takes the descriptor. */
void broker_secrets_take(struct broker_secrets *secrets, const char *profile, int fd);
/* The newest values of a profile, by its name; NULL: none were read. */
const struct secret_values *broker_secrets_values(struct broker_secrets *secrets,
                                                  const char *profile);
/* Lives as long as `secrets`. */
struct secret_mask *broker_secrets_mask(const struct broker_secrets *secrets);
