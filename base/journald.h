/*
 * systemd's journald, which takes entries with fields as datagrams (systemd, "Native Journal Protocol").
 *
 * It sends no answer. An entry that its socket does not take at once is lost, so that no loop waits for it, and so is an
 * entry above the rate: what code does must not fill the journal. Both are counted (log_errors()).
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Whether standard error is a stream to journald: JOURNAL_STREAM names its device and inode (systemd.exec(5)). */
bool journald_has_stderr(void);

/* Returns a non-blocking socket that is connected to journald, for LOG_FORMAT_JOURNAL. */
int journald_open(struct error *err);

/* Whether one more entry of this process may be written now. Events have another rate than the other lines, which
 * therefore do not use it up. */
bool journald_allows(bool is_event);
