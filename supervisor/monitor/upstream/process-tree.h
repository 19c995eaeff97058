/*
 * The processes below this one, and how to end them. For a child subreaper, so that whoever loses
 * its parent becomes our own child: nothing leaves the tree but by dying.
 */
#pragma once

/* Asks every descendant to end: SIGTERM, and SIGCONT for those that were stopped. */
void process_tree_terminate(void);

/* Kills every descendant: stops them all first, so that none forks away from under the signal. What
 * was missed is found by the next call; call until waitpid() says ECHILD. */
void process_tree_kill(void);
