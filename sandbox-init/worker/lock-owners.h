/*
 * Locks of glibc that have the id of the thread that holds them: recursive and error-checking mutexes, and read-write locks that
 * are held for writing. Their layout is part of glibc's ABI, because a program can be linked with one that is initialized.
 *
 * Ids are small numbers, so that data of the guest may look like such a lock. A lock is searched for only where its holder must have it: in the
 * page of an address that is on a holder's stack or in its registers, in the page behind that one, and in the static variables of libraries.
 */
#pragma once

#include <stdint.h>
#include <ucontext.h>

struct lock_holder {
        int32_t id;
        const greg_t *registers;
};

/* Notes the locks that are held by these threads, at most the first 1,024. All signals must be blocked. Waits for nothing, and uses the memory of
 * scratch_map(). */
void lock_owners_find(const struct lock_holder *holders, unsigned n);

/* Writes the new id of a holder, by its index, into its locks that were noted. */
void lock_owners_renew(unsigned holder, int32_t id);
