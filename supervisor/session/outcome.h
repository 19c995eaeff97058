/*
 * How a cell ended, decided in one place for each of two cases: the worker lives, or it does not.
 */
#pragma once

#include "supervisor/session/session-internal.h"

#define OUTCOME_CLOSED "the code closed Cloister's channel"

/* Seconds for a person: "120 s", "0.5 s". Returns to. */
const char *outcome_seconds(uint64_t ms, char to[32]);

/* Why a cell was told to stop. */
void outcome_describe_stop(const struct session *s, const struct cell *cell, char to[CELL_WHY_MAX]);

/* A cell whose worker answered: its own word, unless it was told to stop. */
void outcome_alive(const struct session *s, struct cell *cell);

/* A sandbox that has ended. outcome: of the cell that ran in it, else any other one. */
void outcome_dead(const struct session *s, const struct monitor_ended *ended,
                  struct cell_outcome *outcome);

/* The facts of a cell at its end; ended: the sandbox is gone, and the monitor has read them; else
 * NULL. */
void outcome_take_usage(struct session *s, struct cell *cell, const struct monitor_ended *ended);
