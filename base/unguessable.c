#include "base/unguessable.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void unguessable(char name[UNGUESSABLE_LENGTH + 1])
{
        unsigned char random[UNGUESSABLE_LENGTH / 2];

        if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
                abort();
        for (size_t i = 0; i < sizeof(random); i++)
                snprintf(name + 2 * i, 3, "%02x", random[i]);
}

bool unguessable_equal(const char *a, const char *b, size_t n)
{
        volatile unsigned char differ = 0;

        for (size_t i = 0; i < n; i++)
                differ |= (unsigned char)a[i] ^ (unsigned char)b[i];
        return differ == 0;
}
