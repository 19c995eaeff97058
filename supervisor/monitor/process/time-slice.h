/* How long a thread computes before it is another's turn. */
#pragma once

/*
 * Gives the calling thread turns of half a millisecond, where the kernel has them (Linux 6.12). Its share of the processors stays
 * the same; but who waits for most of the time, and works for less than that then, need not wait until those that compute
 * have had their turns of several milliseconds. Its children and threads get usual turns.
 */
void time_slice_shorten(void);
