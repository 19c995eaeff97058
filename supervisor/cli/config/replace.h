/* `cloister setup CLIENT --replace NAME`: the entry of another system starts Cloister in its place. */
#pragma once

#include "supervisor/cli/config/entry-text.h"

/* The file of a client, and where its servers are. */
struct replace_place {
        const char *word, *title; /* "claude", "Claude Code" */
        char path[PATH_MAX];
        const char *const *keys; /* of the object of servers */
        const char *projects;    /* an object of projects, each of which has one too; or NULL */
        bool is_toml;
};

/*
 * Replaces the command of each entry that starts the system o->replace, or brings the old ones back (o->remove). All other bytes
 * of the file stay. confirm: asks the person. self: the path of cloister. Returns 0, or negative errno with one line.
 */
int replace_entries(const struct options *o, const struct replace_place *place, const char *self,
                    int (*confirm)(const struct options *o, struct error *err), struct error *err);
