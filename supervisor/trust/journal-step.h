/* The step of a call in which it is recorded, before it is sent (docs/journal.md). */
#pragma once

#include "supervisor/trust/trust.h"

/* Without a journal of the profile it does nothing. trust->record: the number of the record, for the answer. */
enum trust_result trust_journal(struct trust_call *trust);
