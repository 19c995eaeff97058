/* Calls that wait for the disk of the host. */
#include "sandbox-init/init/syncs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rpc/sandbox-messages.h"
#include "sandbox-init/init/caller.h"
#include "sandbox-init/init/init-clock.h"

enum {
        SYNCS_PER_S = 100,
        SYNCS_AT_ONCE = 16,       /* after a rest */
        SYNCS_OF_ALL_PER_S = 400, /* of all sessions of the template */
};

static int64_t next_own_us;
static _Atomic int64_t *next_of_all_us; /* shared with the other sessions of the template */

int syncs_open(void)
{
        void *shared = mmap(NULL, SYNCS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, INIT_SYNCS_FD, 0);

        if (shared == MAP_FAILED)
                return -errno;
        close(INIT_SYNCS_FD);
        next_of_all_us = shared;
        return 0;
}

/* When the next call after one at this time may continue, or 0: this one may not yet. */
static int64_t next_sync(int64_t next, int64_t now, int64_t each)
{
        if (next < now - each * SYNCS_AT_ONCE)
                next = now - each * SYNCS_AT_ONCE;
        return next > now - each ? 0 : next + each;
}

/* Which file it is about does not matter: another thread may exchange the descriptor, but each call counts. */
int syncs_call(void)
{
        int64_t now = init_clock_ns(CLOCK_MONOTONIC) / 1000, of_all = *next_of_all_us,
                own = next_sync(next_own_us, now, 1000000 / SYNCS_PER_S), next;

        do {
                next = next_sync(of_all, now, 1000000 / SYNCS_OF_ALL_PER_S);
                if (own == 0 || next == 0)
                        return CALL_WAITS;
        } while (!atomic_compare_exchange_weak(next_of_all_us, &of_all, next));
        next_own_us = own;
        return CALL_GOES_ON;
}
