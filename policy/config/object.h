/* Reads an object of a config file by the rows of its place. */
#pragma once

#include "policy/config/reader.h"

enum { CONFIG_NAME_MAX = 256 /* bytes of a name in a list, and of a client's name */ };

struct config_reading;

/* The function of a key that needs code. Returns 0 or negative errno; mistakes go to config_mistake(). */
typedef int config_code_fn(struct config_reading *r, const struct config_key *key,
                           yyjson_val *value);

/* An object while it is read. */
struct config_reading {
        struct config_reader *reader;
        config_code_fn *const *codes;   /* by enum config_code */
        void *into;                     /* the struct of the place */
        struct config_profile *profile; /* that the keys belong to, or NULL */
        struct config_server *server;   /* mistakes are problems of this server; NULL: errors */
        const char **server_type;       /* its "type" as written, or NULL */
        struct config_published *entry; /* the published entry that is read, or NULL */
        const char *where;     /* the profile or entry, before messages: `profile "x": `, or "" */
        const char *path;      /* the objects in it: "packages.", or "" */
        const char *name;      /* of the key that is read, as in the file */
        enum config_form form; /* of the value that is read */
        bool wrong;            /* there was a mistake in this object or one in it */
};

/* Reports a mistake at a value. The text begins after `where` and `path`. Returns 0 if mistakes are collected,
 * otherwise negative errno. */
int config_mistake(struct config_reading *r, yyjson_val *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Reads the value of a key, by kind. */
int config_read_value(struct config_reading *r, const struct config_key *key, yyjson_val *value);
/* Reads the members of an object into r->into, and only those. */
int config_read_members(struct config_reading *r, enum config_place place, yyjson_val *object);
/* Reads a key of the kind CONFIG_OBJECT, after setting the object to its defaults. */
int config_read_object(struct config_reading *r, const struct config_key *key, yyjson_val *value);
