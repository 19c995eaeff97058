/* Restartable sequences: rseq(2). */
#pragma once

/* Registers this thread as glibc does. Without it, glibc keeps the CPU number that the thread had when it was copied. */
void rseq_register(void);
