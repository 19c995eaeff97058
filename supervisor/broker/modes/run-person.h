/*
 * Questions about calls of the code of `cloister run`, at the terminal that it was started from (docs/questions.md).
 *
 * The terminal's descriptor was opened by `cloister` for this only: what the code reads from its standard input is read by
 * another process.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"

struct run_person;

/* fd: of the terminal, ownership is taken. */
int run_person_new(struct run_person **ret, struct event_base *base, int fd, struct error *err);
struct run_person *run_person_free(struct run_person *person);

/* Shows the question of this id and reads the answer; NULL: it is over. */
bool run_person_ask(struct run_person *person, const char *id);
