/*
 * Settings from outside: the options and the variables of another system, as a table describes them (docs/as.md).
 *
 * The values become parts of the config: what a key below /publish names is written into the table, before it is
 * read; every other key goes into a separate file, which is read last (CONFIG_LAYER_SETTINGS).
 */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "policy/config/types.h"

enum {
        SETTINGS_GIVEN_MAX = 64,         /* options of one command line */
        SETTINGS_VALUE_MAX = 128 * 1024, /* bytes of a value */
        SETTINGS_CLOISTER_MAX = 8,       /* options of Cloister that they set */
        SETTINGS_STATUS_TABLE = 125,     /* exit status: the table is at fault */
};

/* Options and variables as they were given. All is borrowed. */
struct settings_given {
        const char *names[SETTINGS_GIVEN_MAX], *values[SETTINGS_GIVEN_MAX]; /* value NULL: a flag */
        size_t n;
        /* The value of a variable of the environment, or NULL. */
        const char *(*variable)(const char *name);
        const char *home; /* for a leading ~; or NULL */
};

struct settings_result {
        struct json_tree *settings; /* the config file of the layer CONFIG_LAYER_SETTINGS; owned */
        struct {
                const char *name; /* borrowed from the table: "--log-file" */
                char *value;
        } cloister[SETTINGS_CLOISTER_MAX];
        size_t n_cloister;
};

/*
 * Takes the first word of a command line, and the second if that is its value, when it is an option of the
 * system. Returns how many words were taken, 0 if the option is not the system's, -EINVAL without the value that
 * it needs, or -E2BIG.
 */
int settings_take_option(const struct config_as *as, int argc, char *const *argv,
                         struct settings_given *to, struct error *err);

/*
 * Applies all settings: changes the table, and makes the file of the settings. On error *status is the exit status.
 */
int settings_apply(const struct config_as *as, const struct settings_given *given,
                   struct json_tree *table, struct settings_result *ret, int *status,
                   struct error *err);
void settings_done(struct settings_result *result);

/* The nearest option of the system, or NULL. */
const char *settings_nearest(const struct config_as *as, const char *name);
