/* How many descriptors are open: what is not closed after a run has leaked. */
#pragma once

#include <poll.h>

enum { DESCRIPTORS_SEEN = 512 }; /* the lowest ones are looked at */

static inline int count_descriptors(void)
{
        struct pollfd all[DESCRIPTORS_SEEN];
        int n = 0;

        for (int i = 0; i < DESCRIPTORS_SEEN; i++)
                all[i] = (struct pollfd){.fd = i};
        poll(all, DESCRIPTORS_SEEN, 0);
        for (int i = 0; i < DESCRIPTORS_SEEN; i++)
                n += !(all[i].revents & POLLNVAL);
        return n;
}
