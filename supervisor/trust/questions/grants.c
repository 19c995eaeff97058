/* Answers of a person that cover later calls. */
#include "supervisor/trust/questions/grants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/service/sha256.h"

static void set_name(char to[GRANT_NAME_MAX], const char *text)
{
        if (strlen(text) < GRANT_NAME_MAX)
                memcpy(to, text, strlen(text) + 1);
        else
                sha256_text(text, strlen(text), to);
}

void grant_key_set(struct grant_key *key, const char *rule, const char *server, const char *tool,
                   uint64_t definition)
{
        char name[2 * GRANT_NAME_MAX];

        *key = (struct grant_key){.definition = definition};
        set_name(key->rule, rule);
        set_name(name, server);
        /* A dot in either name must not make two pairs equal: the length of the first tells them apart. */
        size_t n = strlen(name);
        set_name(name + n + 1, tool);
        name[n] = '.';
        if (snprintf(key->tool, sizeof(key->tool), "%zu %s", n, name) >= (int)sizeof(key->tool))
                sha256_text(name, strlen(name), key->tool);
}

static bool is_same(const struct grant_key *a, const struct grant_key *b)
{
        return a->definition == b->definition && strcmp(a->rule, b->rule) == 0 &&
               strcmp(a->tool, b->tool) == 0;
}

void grants_add(struct grants *grants, const struct grant_key *key, uint64_t cell)
{
        if (!grants->list)
                grants->list = calloc(GRANTS_MAX, sizeof(*grants->list));
        if (!grants->list)
                return;
        for (size_t i = 0; i < grants->n; i++) {
                if (is_same(&grants->list[i].key, key) && grants->list[i].cell == cell)
                        return;
        }
        if (grants->n == GRANTS_MAX)
                memmove(grants->list, grants->list + 1, --grants->n * sizeof(*grants->list));
        grants->list[grants->n++] = (struct grant){*key, cell};
}

bool grants_have(const struct grants *grants, const struct grant_key *key, uint64_t cell)
{
        for (size_t i = 0; i < grants->n; i++) {
                const struct grant *g = &grants->list[i];
                if ((g->cell == 0 || g->cell == cell) && is_same(&g->key, key))
                        return true;
        }
        return false;
}

static struct grant_refusal *find(const struct grants *grants, const char *rule, uint64_t cell)
{
        char name[GRANT_NAME_MAX];

        set_name(name, rule);
        for (size_t i = 0; grants->cell == cell && i < grants->n_refusals; i++) {
                if (strcmp(grants->refusals[i].rule, name) == 0)
                        return &grants->refusals[i];
        }
        return NULL;
}

void grants_refuse(struct grants *grants, const char *rule, uint64_t cell)
{
        struct grant_refusal *refusal;

        if (grants->cell != cell) {
                grants->n_refusals = 0;
                grants->cell = cell;
        }
        refusal = find(grants, rule, cell);
        if (refusal) {
                refusal->n++;
                return;
        }
        if (!grants->refusals)
                grants->refusals = calloc(GRANTS_REFUSALS, sizeof(*grants->refusals));
        if (!grants->refusals || grants->n_refusals == GRANTS_REFUSALS)
                return;
        refusal = &grants->refusals[grants->n_refusals++];
        *refusal = (struct grant_refusal){.n = 1};
        set_name(refusal->rule, rule);
}

bool grants_are_refused(const struct grants *grants, const char *rule, uint64_t cell)
{
        const struct grant_refusal *refusal = find(grants, rule, cell);

        return refusal && refusal->n >= GRANTS_REFUSED_AT;
}

void grants_end_cell(struct grants *grants, uint64_t cell)
{
        size_t kept = 0;

        for (size_t i = 0; i < grants->n; i++) {
                if (grants->list[i].cell != cell)
                        grants->list[kept++] = grants->list[i];
        }
        grants->n = kept;
        if (grants->cell == cell)
                grants->n_refusals = 0;
}

void grants_done(struct grants *grants)
{
        free(grants->list);
        free(grants->refusals);
        *grants = (struct grants){};
}
