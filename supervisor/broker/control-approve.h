/*
 * Methods of the control socket for `cloister approve`:
 *
 *     questions/list    {} -> {"questions": [{"id", "session", "principal", "calls", "tool", "why", "rule", "age_ms"}]}
 *     questions/show    {"id", "columns"?} -> the same of one, with "sha256" and "text": all calls, for a person
 *     questions/answer  {"id", "sha256", "answer": "once", "cell", "session", "always", "no" or "1-12,15", "note"?} -> {}
 *
 * The owner may answer questions of all principals; a client answers those of its own calls only.
 */
#pragma once

#include "supervisor/broker/control.h"

int control_list_questions(const struct control_context *context, yyjson_val *params,
                           struct buffer *result, struct error *err);
int control_show_question(const struct control_context *context, yyjson_val *params,
                          struct buffer *result, struct error *err);
int control_answer_question(const struct control_context *context, yyjson_val *params,
                            struct buffer *result, struct error *err);
