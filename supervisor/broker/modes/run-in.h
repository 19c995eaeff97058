/* The files of `cloister run --in`, put into /workspace before the code runs. */
#pragma once

#include "base/error.h"

struct run_in;
struct session;

/* Reads the stream in fd (borrowed) and has the session's worker write its files. done is called
 * once, never from inside this function; error is NULL if all of them were written. */
int run_in_start(struct run_in **ret, struct session *session, int fd,
                 void (*done)(void *data, const struct error *error), void *data,
                 struct error *err);

/* Call after sessions_free(). */
struct run_in *run_in_free(struct run_in *in);
