/* Knuth, Morris and Pratt's automaton for each form of each value, which keeps its state between the pieces, behind a filter. */
#include "supervisor/inject/mask.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/inject/mask-filter.h"
#include "supervisor/secrets/forms.h"

enum {
        NEEDLES_MAX = INJECT_SECRETS_MAX * SECRET_FORMS_MAX,
        PIECE_MAX = 256, /* that the automata read until the filter is used again */
};

struct needle {
        const char *text;
        size_t n, secret;
        uint32_t *next; /* the failure function */
};

struct value_mask {
        struct secret_forms forms[INJECT_SECRETS_MAX];
        struct needle needles[NEEDLES_MAX];
        size_t n;
        struct mask_filter *filter;
};

struct found {
        size_t start, end; /* end 0: the needle is not in the rest of the text */
        size_t state;      /* bytes of the needle with which the text ends */
};

struct mask_stream {
        const struct value_mask *mask;
        char (*placeholders)[INJECT_PLACEHOLDER_SIZE];
        struct buffer text;
        struct found found[];
};

static int add_needle(struct value_mask *mask, const struct secret_form *form, size_t secret)
{
        struct needle *needle = &mask->needles[mask->n];
        uint32_t *next = calloc(form->n + 1, sizeof(*next));

        if (!next)
                return -ENOMEM;
        for (size_t i = 1, k = 0; i < form->n; i++) {
                while (k > 0 && form->text[i] != form->text[k])
                        k = next[k];
                k += form->text[i] == form->text[k];
                next[i + 1] = (uint32_t)k;
        }
        *needle = (struct needle){form->text, form->n, secret, next};
        mask->n++;
        return 0;
}

int value_mask_new(struct value_mask **ret, const struct inject_settings *settings,
                   struct error *err)
{
        struct value_mask *mask = calloc(1, sizeof(*mask));
        struct secret_form all[NEEDLES_MAX];
        int r = mask ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < settings->n_secrets; i++) {
                const struct inject_secret *secret = &settings->secrets[i];
                r = secret_forms_make(&mask->forms[i], secret->value, secret->n_value);
                for (size_t k = 0; r >= 0 && k < mask->forms[i].n; k++) {
                        all[mask->n] = mask->forms[i].items[k];
                        r = add_needle(mask, &mask->forms[i].items[k], i);
                }
        }
        if (r >= 0)
                mask->filter = mask_filter_new(all, mask->n);
        if (r >= 0 && !mask->filter)
                r = -ENOMEM;
        if (r < 0)
                return error_errno(err, -r, "forms of values");
        *ret = mask;
        return 0;
}

struct mask_stream *mask_stream_new(const struct value_mask *mask,
                                    char (*placeholders)[INJECT_PLACEHOLDER_SIZE])
{
        struct mask_stream *s = calloc(1, sizeof(*s) + mask->n * sizeof(s->found[0]));

        if (!s)
                return NULL;
        s->mask = mask;
        s->placeholders = placeholders;
        buffer_init(&s->text, 2 * PIECE_MAX + INJECT_VALUE_MAX * 4);
        return s;
}

struct mask_stream *mask_stream_free(struct mask_stream *s)
{
        if (s) {
                if (s->text.length > 0)
                        explicit_bzero(buffer_bytes(&s->text), s->text.length);
                buffer_done(&s->text);
        }
        free(s);
        return NULL;
}

/* Continues with the state in *found. */
static void find(const struct needle *needle, const char *text, size_t from, size_t n,
                 struct found *found)
{
        size_t k = found->state;

        found->end = 0;
        for (size_t i = from; i < n; i++) {
                if (k == 0) {
                        const char *first = memchr(text + i, needle->text[0], n - i);
                        if (!first)
                                break;
                        i = (size_t)(first - text);
                }
                while (k > 0 && text[i] != needle->text[k])
                        k = needle->next[k];
                k += text[i] == needle->text[k];
                if (k == needle->n) {
                        *found = (struct found){.start = i + 1 - k, .end = i + 1};
                        return;
                }
        }
        found->state = k;
}

/* The index of the value that begins first, and is the longest of those; -1: none. */
static ssize_t first_of(const struct mask_stream *s)
{
        ssize_t best = -1;

        for (size_t i = 0; i < s->mask->n; i++) {
                const struct found *a = &s->found[i], *b = best < 0 ? NULL : &s->found[best];
                if (a->end > 0 &&
                    (!b || a->start < b->start || (a->start == b->start && a->end > b->end)))
                        best = (ssize_t)i;
        }
        return best;
}

/* Values that overlap with the replaced text are searched for again behind it. */
static void skip(struct mask_stream *s, size_t end)
{
        const char *text = buffer_bytes(&s->text);

        for (size_t i = 0; i < s->mask->n; i++) {
                struct found *found = &s->found[i];
                size_t start = found->end > 0 ? found->start : s->text.length - found->state;
                if (start >= end)
                        continue;
                *found = (struct found){};
                find(&s->mask->needles[i], text, end, s->text.length, found);
        }
}

static int feed_piece(struct mask_stream *s, const char *data, size_t n, struct buffer *to)
{
        size_t at = 0, held = 0;
        ssize_t which;

        int r = buffer_append(&s->text, data, n);
        if (r < 0)
                return r;
        const char *text = buffer_bytes(&s->text);
        for (size_t i = 0; i < s->mask->n; i++)
                find(&s->mask->needles[i], text, s->text.length - n, s->text.length, &s->found[i]);
        while (r >= 0 && (which = first_of(s)) >= 0) {
                const struct found found = s->found[which];
                r = buffer_append(to, text + at, found.start - at);
                if (r >= 0)
                        r = buffer_append_text(to, s->placeholders[s->mask->needles[which].secret]);
                at = found.end;
                skip(s, at);
        }
        for (size_t i = 0; i < s->mask->n; i++)
                held = s->found[i].state > held ? s->found[i].state : held;
        size_t certain = s->text.length - held;
        if (r >= 0 && certain > at)
                r = buffer_append(to, text + at, certain - at);
        buffer_consume(&s->text, certain);
        return r;
}

/* Without the beginning of a value in s->text, none of the automata has a state. */
int mask_stream_feed(struct mask_stream *s, const char *data, size_t n, struct buffer *to)
{
        int r = 0;

        while (r >= 0 && n > 0) {
                size_t piece = s->text.length == 0 ? mask_filter_skip(s->mask->filter, data, n) : 0;
                if (piece > 0) {
                        r = buffer_append(to, data, piece);
                } else {
                        piece = n < PIECE_MAX ? n : PIECE_MAX;
                        r = feed_piece(s, data, piece, to);
                }
                data += piece;
                n -= piece;
        }
        return r;
}

int mask_stream_finish(struct mask_stream *s, struct buffer *to)
{
        int r = buffer_append(to, buffer_bytes(&s->text), s->text.length);

        buffer_consume(&s->text, s->text.length);
        for (size_t i = 0; i < s->mask->n; i++)
                s->found[i] = (struct found){};
        return r;
}
