/*
 * The servers of `cloister config import`, which copies them from the configs of other clients to Cloister's: taken, or left out.
 *
 * Sources (config-import.c) are files of clients, each a JSON or TOML document with an object of
 * servers somewhere in it. Each entry is translated by itself: keys under other
 * names, units, the clients' own references to variables. The result is written into the text of an
 * existing config and leaves its other bytes unchanged (entry-text.c).
 */
#pragma once

#include "supervisor/cli/config/entry-text.h"

/* The syntax of a client. */
enum {
        IMPORT_DOLLAR = 1,       /* $NAME is a reference to a variable */
        IMPORT_BRACES = 2,       /* so is {env:NAME} */
        IMPORT_MILLISECONDS = 4, /* "timeout" is in milliseconds */
        IMPORT_START = 8,        /* "timeout" is that of the start */
};

/* The origin of an entry. */
struct import_origin {
        const char *client; /* "Cursor" */
        const char *file;
        const char *folder; /* its project, or NULL */
        unsigned syntax;
};

struct import_item {
        char *name, *client, *file;
        char *text;  /* left out: the reason; taken: notes, or NULL */
        char *entry; /* taken: the new entry as JSON in one line; or NULL */
};

/* A value that the new entry refers to by a variable. */
struct import_secret {
        char *variable; /* ${variable} replaces it */
        char *server, *what, *file;
        char *value; /* NULL: the file did not contain it */
};

struct import {
        bool copy; /* copy secrets */
        struct import_item *taken, *left_out;
        size_t n_taken, n_left_out;
        struct import_secret *secrets;
        size_t n_secrets;
        struct entry_text existing; /* the config that they are added to */
};

/* Frees the members. */
void import_done(struct import *import);

/* One entry of a source is taken, or left out. Both return 0, or negative errno with an error; -ENOMEM anywhere ends the import. */
int import_take(struct import *import, const struct import_origin *origin, const char *name,
                yyjson_val *entry, struct error *err);
int import_leave_out(struct import *import, const struct import_origin *origin, const char *name,
                     const char *why, struct error *err);
