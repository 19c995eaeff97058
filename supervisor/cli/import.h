/*
 * `cloister config import`: copies servers from the configs of other clients to Cloister's.
 *
 * Sources (import-source.c) are files of clients, each a JSON or TOML document with an object of
 * servers somewhere in it. Each entry is translated by itself (import-entry.c): keys under other
 * names, units, the clients' own references to variables. The result is written into the text of an
 * existing config and leaves its other bytes unchanged (import-write.c).
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

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
        char *text; /* left out: the reason; taken: notes, or NULL */
        yyjson_mut_val *entry;
};

/* A value that the new entry refers to by a variable. */
struct import_secret {
        char *variable; /* ${variable} replaces it */
        char *server, *what, *file;
        char *value; /* NULL: the file did not contain it */
};

struct import {
        yyjson_mut_doc *doc; /* of the entries */
        bool copy;           /* copy secrets */
        struct import_item *taken, *left_out;
        size_t n_taken, n_left_out;
        struct import_secret *secrets;
        size_t n_secrets;
        char *existing; /* the config that is there, or NULL */
        size_t existing_length;
        yyjson_doc *existing_doc;
};

/* All return 0, or negative errno with an error; -ENOMEM anywhere ends the import. */

/* Reads the config at path, if there is one. */
int import_open(struct import *import, const char *path, bool copy, struct error *err);
void import_done(struct import *import);

/* Reads the named sources (clients, or paths of files); n == 0: all clients. A named file that
 * cannot be read is an error. */
int import_read(struct import *import, const char *const *words, size_t n, struct error *err);

/* One entry of a source. */
int import_take(struct import *import, const struct import_origin *origin, const char *name,
                yyjson_val *entry, struct error *err);
int import_leave_out(struct import *import, const struct import_origin *origin, const char *name,
                     const char *why, struct error *err);

/* Translates a server's entry. notes gets what was lost; *why, if set, is why it cannot be
 * taken. */
int import_translate(struct import *import, const struct import_origin *origin, const char *name,
                     yyjson_val *entry, yyjson_mut_val **ret, struct buffer *notes,
                     const char **why, struct error *err);

/* The content of a TOML file as JSON text. */
int import_toml(const char *path, char **ret, size_t *length, struct error *err);

/* The existing text with the new entries inserted. */
int import_text(const struct import *import, struct buffer *to, struct error *err);
