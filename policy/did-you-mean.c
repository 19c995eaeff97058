#include "policy/did-you-mean.h"

#include <ctype.h>
#include <string.h>

enum { WORD_MAX = 64 };

static size_t least(size_t a, size_t b, size_t c)
{
        size_t m = a < b ? a : b;
        return m < c ? m : c;
}

static int differ(char a, char b)
{
        return tolower((unsigned char)a) != tolower((unsigned char)b);
}

/* Letters to insert, remove, replace or swap with their neighbour (optimal string alignment). */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
        size_t rows[3][WORD_MAX + 1];
        size_t *before = rows[0], *above = rows[1], *row = rows[2];

        for (size_t j = 0; j <= m; j++)
                above[j] = before[j] = j;
        for (size_t i = 1; i <= n; i++) {
                row[0] = i;
                for (size_t j = 1; j <= m; j++) {
                        row[j] = least(above[j] + 1, row[j - 1] + 1,
                                       above[j - 1] + (size_t)differ(a[i - 1], b[j - 1]));
                        if (i > 1 && j > 1 && !differ(a[i - 1], b[j - 2]) &&
                            !differ(a[i - 2], b[j - 1]) && before[j - 2] + 1 < row[j])
                                row[j] = before[j - 2] + 1;
                }
                size_t *oldest = before;
                before = above;
                above = row;
                row = oldest;
        }
        return above[m];
}

const char *did_you_mean(const char *word, const char *const *names)
{
        const char *nearest = NULL;
        size_t length = strlen(word);
        size_t most = length / 3 > 0 ? length / 3 : 1;

        if (length == 0 || length > WORD_MAX)
                return NULL;
        for (; *names; names++) {
                size_t n = strlen(*names);
                if (n > WORD_MAX)
                        continue;
                size_t d = distance(word, length, *names, n);
                if (d <= most && d < length) {
                        nearest = *names;
                        if (d == 0)
                                break;
                        most = d - 1;
                }
        }
        return nearest;
}
