/* The journal of a profile. */
#include "policy/config/journal-keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/keys.h"

enum { HOUR_S = 3600, DIGITS_MAX = 5 };

/* `false` in a profile: the journal of the top level is not its own. */
int config_read_journal(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct config_journal *journal = config_member(key, r->into);

        if (yyjson_is_false(value)) {
                config_reset(key, r->into);
                journal->is_set = false;
                return 0;
        }
        int e = config_read_object(r, key, value);
        journal->is_set = yyjson_is_obj(value);
        return e;
}

/* Seconds of "36h", "90d" or "2w"; 0: another text. */
static uint64_t seconds_of(const char *text)
{
        size_t digits = strspn(text, "0123456789");
        static const struct {
                char unit;
                unsigned hours;
        } units[] = {{'h', 1}, {'d', 24}, {'w', 7 * 24}};

        for (size_t i = 0; i < ARRAY_SIZE(units) && digits > 0 && digits <= DIGITS_MAX; i++)
                if (text[digits] == units[i].unit && text[digits + 1] == '\0')
                        return strtoull(text, NULL, 10) * units[i].hours * HOUR_S;
        return 0;
}

int config_check_keep(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (seconds_of(*(char **)config_member(key, r->into)) > 0)
                return 0;
        return config_mistake(r, value, "keep must be a time such as \"36h\", \"90d\" or \"26w\"");
}

bool config_journal_limits(const struct config *config, uint64_t *max, uint64_t *keep_s)
{
        bool is_set = false;

        *max = *keep_s = 0;
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_journal *j = &config->profiles[i].journal;
                uint64_t keep = j->is_set ? seconds_of(j->keep ? j->keep : CONFIG_JOURNAL_KEEP) : 0;

                is_set |= j->is_set;
                if (j->is_set && j->max > *max)
                        *max = j->max;
                if (keep > *keep_s)
                        *keep_s = keep;
        }
        return is_set;
}
