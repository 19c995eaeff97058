/* Finds values of secrets in what a server sends. */
#include "supervisor/secrets/mask.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "supervisor/secrets/forms.h"

/* A value that a server got. */
struct entry {
        char *server, *name;
        struct secret_forms plain, json; /* as text, and as JSON writes that text inside a string */
};

enum { BUCKETS = 1024, KEY = 4, NODES_MAX = SECRET_MASK_MAX * SECRET_FORMS_MAX };

/* The forms of a server's values, by their first KEY bytes: a text that repeats the beginning of many costs no more than another. */
struct search {
        uint16_t heads[BUCKETS]; /* of a node, from 1; 0: none */
        struct node {
                const struct secret_form *form;
                const char *name;
                uint16_t next;
        } nodes[NODES_MAX + 1];
        size_t n;
};
static_assert(NODES_MAX < UINT16_MAX, "a node has a number");

struct secret_mask {
        struct entry *entries[SECRET_MASK_MAX];
        size_t n;
        struct search *search; /* its memory */
};

static struct entry *entry_free(struct entry *e)
{
        if (!e)
                return NULL;
        secret_forms_done(&e->plain);
        secret_forms_done(&e->json);
        free(e->server);
        free(e->name);
        free(e);
        return NULL;
}

struct secret_mask *secret_mask_new(void)
{
        struct secret_mask *mask = calloc(1, sizeof(*mask));

        if (mask)
                mask->search = malloc(sizeof(*mask->search));
        return mask && mask->search ? mask : secret_mask_free(mask);
}

struct secret_mask *secret_mask_free(struct secret_mask *mask)
{
        for (size_t i = 0; mask && i < mask->n; i++)
                entry_free(mask->entries[i]);
        if (mask)
                free(mask->search);
        free(mask);
        return NULL;
}

static bool is_known(const struct secret_mask *mask, const char *server, const char *name,
                     const char *value, size_t n)
{
        for (size_t i = 0; i < mask->n; i++) {
                const struct entry *e = mask->entries[i];
                if (strcmp(e->server, server) == 0 && strcmp(e->name, name) == 0 &&
                    e->plain.items[0].n == n && memcmp(e->plain.items[0].text, value, n) == 0)
                        return true;
        }
        return false;
}

int secret_mask_add(struct secret_mask *mask, const char *server, const char *name,
                    const char *value, size_t n)
{
        if (is_known(mask, server, name, value, n))
                return 0;
        if (mask->n == SECRET_MASK_MAX)
                return -ENOSPC;
        struct entry *e = calloc(1, sizeof(*e));
        if (!e)
                return -ENOMEM;
        e->server = strdup(server);
        e->name = strdup(name);
        int r = e->server && e->name ? secret_forms_make(&e->plain, value, n) : -ENOMEM;
        if (r >= 0)
                r = secret_forms_as_json(&e->json, &e->plain);
        if (r < 0) {
                entry_free(e);
                return r;
        }
        mask->entries[mask->n++] = e;
        return 0;
}

bool secret_mask_is_for(const struct secret_mask *mask, const char *server)
{
        for (size_t i = 0; mask && i < mask->n; i++)
                if (strcmp(mask->entries[i]->server, server) == 0)
                        return true;
        return false;
}

/* ---- the search ---- */

static size_t bucket_of(const char *text)
{
        uint32_t key;

        memcpy(&key, text, KEY);
        return (key * 2654435761U) >> 22;
}

static struct search *start(const struct secret_mask *mask, const char *server, bool is_json)
{
        struct search *s = mask->search;

        memset(s->heads, 0, sizeof(s->heads));
        s->n = 0;
        for (size_t i = 0; i < mask->n; i++) {
                const struct entry *e = mask->entries[i];
                const struct secret_forms *f = is_json ? &e->json : &e->plain;
                for (size_t k = 0; k < f->n && strcmp(e->server, server) == 0; k++) {
                        if (f->items[k].n < KEY)
                                continue;
                        uint16_t *head = &s->heads[bucket_of(f->items[k].text)];
                        s->nodes[++s->n] = (struct node){&f->items[k], e->name, *head};
                        *head = (uint16_t)s->n;
                }
        }
        return s;
}

/* The longest form at the front of a text. Returns its length, 0: none. */
static size_t find(const struct search *s, const char *text, size_t n, const char **name)
{
        size_t longest = 0;

        if (n < KEY)
                return 0;
        for (size_t i = s->heads[bucket_of(text)]; i > 0; i = s->nodes[i].next) {
                const struct secret_form *f = s->nodes[i].form;
                if (f->n > n || f->n <= longest || memcmp(f->text, text, f->n) != 0)
                        continue;
                longest = f->n;
                *name = s->nodes[i].name;
        }
        return longest;
}

/* Bytes since `from`, which were not changed, are appended before a change. */
struct writer {
        struct buffer *to;
        const char *from;
        int changed, error;
};

static void replace(struct writer *w, const char *at, const char *after, const char *name,
                    bool quoted)
{
        const char *quote = quoted ? "\"" : "";

        if (w->error >= 0)
                w->error = buffer_append(w->to, w->from, (size_t)(at - w->from));
        if (w->error >= 0)
                w->error = buffer_printf(w->to, "%s${secret:%s}%s", quote, name, quote);
        w->from = after;
        w->changed = 1;
}

static int end(struct writer *w, const char *text_end)
{
        if (w->changed && w->error >= 0)
                w->error = buffer_append(w->to, w->from, (size_t)(text_end - w->from));
        return w->error < 0 ? w->error : w->changed;
}

int secret_mask_text(const struct secret_mask *mask, const char *server, const char *text, size_t n,
                     struct buffer *to)
{
        const struct search *s = start(mask, server, false);
        struct writer w = {.to = to, .from = text};
        const char *stop = text + n, *name = NULL;

        for (const char *p = text; p < stop;) {
                size_t found = find(s, p, (size_t)(stop - p), &name);
                if (found > 0)
                        replace(&w, p, p + found, name, false);
                p += found > 0 ? found : 1;
        }
        return end(&w, stop);
}

/* p is inside a string. Returns the byte behind its closing quote. */
static const char *mask_string(const struct search *s, struct writer *w, const char *p,
                               const char *stop)
{
        const char *name = NULL;

        while (p < stop && *p != '"') {
                size_t found = find(s, p, (size_t)(stop - p), &name);
                if (found > 0)
                        replace(w, p, p + found, name, false);
                /* The next one may not begin inside an escape. */
                p += found > 0 ? found : *p != '\\' ? 1 : p[1] == 'u' ? 6 : 2;
        }
        return p < stop ? p + 1 : stop;
}

static const char *mask_number(const struct search *s, struct writer *w, const char *p,
                               const char *stop)
{
        const char *last = p, *name = NULL;
        size_t found = 0;

        while (last < stop && strchr("+-.0123456789eE", *last))
                last++;
        for (const char *at = p; at < last && found == 0; at++)
                found = find(s, at, (size_t)(last - at), &name);
        if (found > 0)
                replace(w, p, last, name, true);
        return last;
}

/* The text is what json_append() makes: each character has one way to be written. */
static int mask_written(const struct search *s, const struct buffer *json, struct buffer *to)
{
        const char *p = buffer_bytes(json), *stop = p + json->length;
        struct writer w = {.to = to, .from = p};

        while (p < stop) {
                if (*p == '"')
                        p = mask_string(s, &w, p + 1, stop);
                else if (*p == '-' || (*p >= '0' && *p <= '9'))
                        p = mask_number(s, &w, p, stop);
                else
                        p++;
        }
        return end(&w, stop);
}

int secret_mask_json(const struct secret_mask *mask, const char *server, yyjson_val *value,
                     struct buffer *to)
{
        _cleanup_buffer_ struct buffer json = BUFFER_INIT(to->limit);

        int r = json_append(&json, value);
        if (r < 0)
                return r;
        return mask_written(start(mask, server, true), &json, to);
}
