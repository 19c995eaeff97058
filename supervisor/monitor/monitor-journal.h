/*
 * The process that has the journal's key: cloister-journal, started when the broker asks for it, at its start if a profile has a
 * journal.
 *
 * It runs as the monitor's own user and confines itself (supervisor/journal/main.c). Its only descriptors are a socket to the
 * broker and a filter. It ends after the broker, and is not killed with it: it signs what the broker wrote last.
 */
#pragma once

#include "rpc/monitor-messages.h"

struct monitor;

/* Handles MONITOR_JOURNAL_START. */
void monitor_journal_start(struct monitor *m, const struct monitor_request *request);
/* Waits a moment for its end. The broker must have ended. */
void monitor_journal_done(struct monitor *m);
