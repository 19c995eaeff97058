/*
 * Calls of servers that were killed: they were sent, and no answer says whether they happened. The next result of a session of the
 * same name and principal names them.
 */
#pragma once

#include <stddef.h>

/* call: as JOURNAL_DOUBT has it. Above JOURNAL_DOUBTS_MAX calls are left out. */
void doubts_add(const char *call, size_t n);
/* Appends a clause about those of a session to the text, as far as it fits, and marks them as told. */
void doubts_tell(const char *session_key, char *to, size_t size);
/* The result that told them was sent. */
void doubts_forget_told(const char *session_key);
void doubts_free(void);
