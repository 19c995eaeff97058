/* Placeholders, by getrandom(2). */
#include "supervisor/secrets/placeholder.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "policy/config/secret-keys.h"

static const char usual[] = "cloister-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/* One of n characters; without a bias, 256 is divided by n. */
static int pick(unsigned n)
{
        unsigned char byte;

        do {
                if (getrandom(&byte, 1, 0) != 1)
                        return -errno;
        } while (byte >= 256 / n * n);
        return byte % (int)n;
}

int placeholder_make(const char *like, char *to, size_t size)
{
        const char *shape = like ? like : usual;
        size_t n = strlen(shape);

        assert(n < size);
        memcpy(to, shape, n + 1);
        for (size_t i = config_like_prefix(shape); i < n; i++) {
                char first = shape[i] >= 'a' && shape[i] <= 'z'   ? 'a'
                             : shape[i] >= 'A' && shape[i] <= 'Z' ? 'A'
                                                                  : '0';
                bool varies = first != '0' || (shape[i] >= '0' && shape[i] <= '9');
                int r = varies ? pick(first == '0' ? 10 : 26) : 0;
                if (r < 0)
                        return r;
                if (varies)
                        to[i] = (char)(first + r);
        }
        return 0;
}
