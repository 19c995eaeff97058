/* The steps of a call in which it is recorded, before it is sent or denied (docs/journal.md). */
#pragma once

#include "supervisor/trust/trust.h"

/* Without a journal of the profile it does nothing. trust->record: the number of the record, for the answer. */
enum trust_result trust_journal(struct trust_call *trust);
/* The step of a call that is refused: it is recorded if it was denied. A failure is in the log: the call stays denied. */
enum trust_result trust_journal_denial(struct trust_call *trust);
