/* "ask" of a profile. */
#include "policy/config/ask-keys.h"

#include <string.h>

static unsigned bit_of(const char *word)
{
        return strcmp(word, "client") == 0     ? CONFIG_ASK_CLIENT
               : strcmp(word, "terminal") == 0 ? CONFIG_ASK_TERMINAL
                                               : 0;
}

int config_check_ask_by(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);

        if (!list[0])
                return config_mistake(r, value, "ask.by: name \"client\", \"terminal\" or both");
        for (size_t i = 0; list[i]; i++) {
                if (bit_of(list[i]) == 0)
                        return config_mistake(r, yyjson_arr_get(value, i),
                                              "ask.by: item %zu must be \"client\" or \"terminal\"",
                                              i + 1);
        }
        return 0;
}

unsigned config_ask_by(const struct config_ask *ask)
{
        unsigned bits = 0;

        if (!ask->by)
                return CONFIG_ASK_CLIENT | CONFIG_ASK_TERMINAL;
        for (size_t i = 0; ask->by[i]; i++)
                bits |= bit_of(ask->by[i]);
        return bits;
}
