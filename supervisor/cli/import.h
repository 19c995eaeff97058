/*
 * `cloister config import`: servers of other clients, put into the words of a config of Cloister's.
 *
 * Sources (import-source.c) are files of clients, each a JSON or TOML document with an object of
 * servers somewhere in it. Each entry is translated by itself (import-entry.c): keys under other
 * names, units, the clients' own references to variables. The result is written into the text of an
 * existing config without touching a byte of it (import-write.c).
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

/* How a client writes. */
enum {
        IMPORT_DOLLAR = 1,       /* $NAME is a variable */
        IMPORT_BRACES = 2,       /* {env:NAME} is one */
        IMPORT_MILLISECONDS = 4, /* its "timeout" */
        IMPORT_START = 8,        /* its "timeout" is of the start */
};

/* Where an entry comes from. */
struct import_origin {
        const char *client; /* "Cursor" */
        const char *file;
        const char *folder; /* the project that it is for, or NULL */
        unsigned syntax;
};

struct import_item {
        char *name, *client, *file;
        char *text; /* of left out: why; of taken: notes, or NULL */
        yyjson_mut_val *entry;
};

/* A value that is not in the new entry as it was. */
struct import_secret {
        char *variable; /* its place is ${variable} */
        char *server, *what, *file;
        char *value; /* NULL: it was not in the file either */
};

struct import {
        yyjson_mut_doc *doc; /* of the entries */
        bool copy;           /* secrets, too */
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

/* The sources that words name (clients, or paths of files); n is 0: every client's. A file that is
 * named and cannot be read is an error. */
int import_read(struct import *import, const char *const *words, size_t n, struct error *err);

/* One entry of a source. */
int import_take(struct import *import, const struct import_origin *origin, const char *name,
                yyjson_val *entry, struct error *err);
int import_leave_out(struct import *import, const struct import_origin *origin, const char *name,
                     const char *why, struct error *err);

/* A new entry of what a source says of a server. *notes, allocated, is what was lost. *why: it
 * cannot be taken. */
int import_translate(struct import *import, const struct import_origin *origin, const char *name,
                     yyjson_val *entry, yyjson_mut_val **ret, struct buffer *notes,
                     const char **why, struct error *err);

/* The document of a TOML file as JSON text, by a Python that has a parser for it. */
int import_toml(const char *path, char **ret, size_t *length, struct error *err);

/* The existing text with the new entries in it; mcpServers is made where there is none. */
int import_text(const struct import *import, struct buffer *to, struct error *err);

/* Writes it in the place of the file at path, whole or not at all. private: 0600 in any case. */
int import_write(const char *path, const struct buffer *text, bool private, struct error *err);
