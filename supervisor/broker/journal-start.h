/* Has the journal of the server started if a profile has one (supervisor/trust/records/journal.h). */
#pragma once

#include "policy/config/config.h"
#include "supervisor/broker/link.h"

/* After each config. Without a profile that has a journal there is no process and no state. */
int journal_use(const struct config *config, struct event_base *base, struct link *link,
                struct error *err);
/* The answer to JOURNAL_START. */
void journal_take_start(const struct monitor_message *message);
/* Records the end of the server. */
void journal_finish(void);
