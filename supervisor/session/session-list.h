/* The sessions as their owner sees and commands them (`cloister sessions`). */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "supervisor/session/sessions.h"

/*
 * Appends an array, in the order of their making, of the sessions that have a sandbox or wait for
 * one:
 *
 *     {"name", "profile"?, "state": "idle" | "frozen" | …, "age_ms", "idle_ms"?, "memory_bytes",
 *      "memory_peak_bytes", "cells", "waiting", "last"?: {"code", "status"?, "duration_ms"}}
 *
 * idle_ms only while no cell runs; memory as the kernel counts it, 0 where unknown; code is the
 * first line of the last cell, cut; its status is absent while it runs.
 */
int sessions_append_list(const struct sessions *sessions, struct buffer *to);

/* Ends a session's sandbox at once, whatever it does; its next caller is told. -ENOENT: no live
 * session has this name. */
int sessions_end(struct sessions *sessions, const char *name, struct error *err);

/* The same, and a new sandbox takes its place. */
int sessions_reset(struct sessions *sessions, const char *name, struct error *err);
