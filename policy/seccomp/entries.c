/* A table with its names resolved, and its answer to one call. */
#include "policy/seccomp/entries.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

static int entries_add(struct filter_entries *entries, size_t *room, int number,
                       const struct filter_rule *rule)
{
        if (entries->n_all == *room) {
                size_t more = *room ? *room * 2 : 512;
                void *grown = reallocarray(entries->entries, more, sizeof(struct filter_entry));
                if (!grown)
                        return -ENOMEM;
                entries->entries = grown;
                *room = more;
        }
        entries->entries[entries->n_all++] = (struct filter_entry){number, *rule};
        return 0;
}

/* Adds the rule, or one rule for each of its values. */
static int entries_add_values(struct filter_entries *entries, size_t *room, int number,
                              const struct filter_rule *rule)
{
        struct filter_rule one = *rule;
        size_t last = 0;
        int r = 0;

        if (!rule->values)
                return entries_add(entries, room, number, rule);
        while (last + 1 < FILTER_COMPARES_MAX && rule->compares[last + 1].mask != 0)
                last++;
        one.values = NULL;
        for (const uint32_t *value = rule->values; *value && r >= 0; value++) {
                one.compares[last].value = *value;
                r = entries_add(entries, room, number, &one);
        }
        return r;
}

static int entries_add_rule(struct filter_entries *entries, size_t *room,
                            const struct filter_rule *rule, int (*number)(const char *name))
{
        char name[FILTER_NAME_MAX];
        const char *calls = rule->calls;

        while (filter_next_call(&calls, name) > 0) {
                int n = number(name);
                if (n < 0)
                        n = filter_recent_number(name);
                if (n < 0)
                        continue; /* not on this architecture */
                int r = entries_add_values(entries, room, n, rule);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int compare_entries(const void *a, const void *b)
{
        const struct filter_entry *x = a, *y = b;
        return (x->number > y->number) - (x->number < y->number);
}

/* only_compared: leaves out rules without comparisons. */
static int entries_add_part(struct filter_entries *entries, size_t *room,
                            const struct filter_rule *part, bool only_compared,
                            int (*number)(const char *name))
{
        int r = 0;

        for (const struct filter_rule *rule = part; rule->calls && r >= 0; rule++)
                if (!only_compared || rule->compares[0].mask != 0)
                        r = entries_add_rule(entries, room, rule, number);
        return r;
}

static bool has_part(const struct filter_table *table, const struct filter_rule *part)
{
        for (const struct filter_rule *const *p = table->parts; *p; p++)
                if (*p == part)
                        return true;
        return false;
}

/* Adds the rules with comparisons of all tables, each once. The check covers the others by trying
 * every call. */
static int entries_add_others(struct filter_entries *entries, size_t *room, enum filter_kind kind,
                              int (*number)(const char *name))
{
        int r = 0;

        for (enum filter_kind other = 0; other < FILTER_KIND_MAX; other++)
                for (const struct filter_rule *const *part =
                             filter_table((enum filter_kind)other)->parts;
                     *part && r >= 0; part++) {
                        bool seen = has_part(filter_table(kind), *part);
                        for (enum filter_kind before = 0; before < other; before++)
                                seen |= has_part(filter_table(before), *part);
                        if (!seen)
                                r = entries_add_part(entries, room, *part, true, number);
                }
        return r;
}

int filter_entries_init(struct filter_entries *entries, enum filter_kind kind,
                        int (*number)(const char *name), struct error *err)
{
        const struct filter_table *table = filter_table(kind);
        size_t room = 0;
        int r = 0;

        *entries = (struct filter_entries){.otherwise = table->otherwise};
        for (const struct filter_rule *const *part = table->parts; *part && r >= 0; part++)
                r = entries_add_part(entries, &room, *part, false, number);
        entries->n_entries = entries->n_all;
        if (r >= 0)
                r = entries_add_others(entries, &room, kind, number);
        if (r < 0) {
                filter_entries_done(entries);
                return error_errno(err, -r, "filter %s", filter_kind_name(kind));
        }
        qsort(entries->entries, entries->n_entries, sizeof(*entries->entries), compare_entries);
        return 0;
}

void filter_entries_done(struct filter_entries *entries)
{
        free(entries->entries);
        *entries = (struct filter_entries){};
}

static bool rule_holds(const struct filter_rule *rule, const struct seccomp_data *data)
{
        for (size_t i = 0; i < FILTER_COMPARES_MAX && rule->compares[i].mask != 0; i++) {
                const struct filter_compare *c = &rule->compares[i];
                if (((data->args[c->argument] & c->mask) == c->value) == c->unequal)
                        return false;
        }
        return true;
}

/* The index of the first entry of a number, or of its place in the order. */
static size_t entries_find(const struct filter_entries *entries, int number)
{
        size_t low = 0, high = entries->n_entries;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (entries->entries[middle].number < number)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

uint32_t filter_decide(const struct filter_entries *entries, const struct seccomp_data *data)
{
        for (size_t i = entries_find(entries, data->nr);
             i < entries->n_entries && entries->entries[i].number == data->nr; i++)
                if (rule_holds(&entries->entries[i].rule, data))
                        return entries->entries[i].rule.action;
        return entries->otherwise;
}
