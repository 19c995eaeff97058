/*
 * The descendants of this process, and how to end them. The caller must be a child subreaper:
 * orphans become its own children, so that a process can leave the tree only by ending.
 */
#pragma once

/* Sends SIGTERM to every descendant, and SIGCONT to stopped ones. */
void process_tree_terminate(void);

/* Kills every descendant. Stops them all first, so that none can fork while the others are
 * killed. Processes that were missed are found by the next call: repeat until waitpid() fails
 * with ECHILD. */
void process_tree_kill(void);
