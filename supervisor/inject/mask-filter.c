/* The search for the beginnings of values. */
#include "supervisor/inject/mask-filter.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
        WINDOW_MAX =
                64, /* bytes of each text that are compared: what a hostile text costs for each byte */
        PAIRS = 1 << 16,
        BUCKETS = 256,
};

struct mask_filter {
        size_t window; /* bytes: not more than the shortest text has */
        /* How far the window may move if these two bytes are its last ones; 0: a text may begin with it. */
        uint8_t shifts[PAIRS];
        struct head {
                const struct head *next; /* of its bucket */
                const char *text;
        } * heads;
        const struct head *buckets[BUCKETS]; /* by the last pair of the window */
};

static unsigned pair_at(const char *text)
{
        return (unsigned)(unsigned char)text[0] << 8 | (unsigned char)text[1];
}

static size_t bucket_of(unsigned pair)
{
        return pair * 40503U >> 8 & (BUCKETS - 1);
}

static void add(struct mask_filter *f, struct head *head, const char *text)
{
        const struct head **bucket = &f->buckets[bucket_of(pair_at(text + f->window - 2))];

        for (size_t end = 2; end <= f->window; end++) {
                uint8_t *shift = &f->shifts[pair_at(text + end - 2)];
                if (f->window - end < *shift)
                        *shift = (uint8_t)(f->window - end);
        }
        *head = (struct head){*bucket, text};
        *bucket = head;
}

struct mask_filter *mask_filter_new(const struct secret_form *texts, size_t n)
{
        struct mask_filter *f = calloc(1, sizeof(*f));

        if (!f)
                return NULL;
        f->window = WINDOW_MAX;
        for (size_t i = 0; i < n; i++)
                f->window = texts[i].n < f->window ? texts[i].n : f->window;
        f->heads = calloc(n + 1, sizeof(*f->heads));
        if (!f->heads)
                return mask_filter_free(f);
        if (f->window < 2)
                return f;
        memset(f->shifts, (int)f->window - 1, sizeof(f->shifts));
        for (size_t i = 0; i < n; i++)
                add(f, &f->heads[i], texts[i].text);
        return f;
}

struct mask_filter *mask_filter_free(struct mask_filter *f)
{
        if (f)
                free(f->heads);
        free(f);
        return NULL;
}

static int begins(const struct mask_filter *f, const char *at, unsigned pair)
{
        for (const struct head *h = f->buckets[bucket_of(pair)]; h; h = h->next)
                if (memcmp(h->text, at, f->window) == 0)
                        return 1;
        return 0;
}

size_t mask_filter_skip(const struct mask_filter *f, const char *text, size_t n)
{
        size_t end = f->window;

        if (f->window < 2)
                return 0;
        while (end <= n) {
                unsigned pair = pair_at(text + end - 2);
                size_t shift = f->shifts[pair];
                if (shift == 0 && begins(f, text + end - f->window, pair))
                        break;
                end += shift > 0 ? shift : 1;
        }
        return end - f->window < n ? end - f->window : n;
}
