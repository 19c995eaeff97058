/*
 * All sessions at one look, for those who operate the server: metrics, and the live view.
 *
 * Memory and processor time of a session are read from the kernel, which takes some microseconds: each call of one of these functions reads
 * those of OVERVIEW_READ_MAX sessions, in turn, and shows what was read last of the others.
 */
#pragma once

#include "base/buffer.h"

struct sessions;

enum { OVERVIEW_READ_MAX = 200 };

/* Sets the gauges of sessions, places, ready sandboxes and memory. */
void sessions_collect(struct sessions *sessions);

/*
 * Appends an array of the live sessions:
 *
 *     {"principal", "name", "profile"?, "state", "age_ms", "idle_ms"?, "memory", "cpu_ms", "cells", "waiting", "tool_calls",
 *      "code"?, "line"?, "running_ms"?, "calls"?: ["SERVER.TOOL"]}
 *
 * code is the first line of the cell that runs, else of the last one; line is the last that the running cell has printed; calls are its
 * calls of tools that have no answer yet, OVERVIEW_CALLS_MAX at most.
 */
int sessions_append_view(struct sessions *sessions, struct buffer *to);
enum { OVERVIEW_CALLS_MAX = 3 };
