/* One file of a config while it is read: its lines, warnings and mistakes, and objects by the rows of their place. */
#pragma once

#include <stddef.h>
#include <yyjson.h>

#include "policy/config/config.h"
#include "policy/config/keys.h"

enum {
        CONFIG_WARNINGS_MAX = 16, /* a file; more are counted only */
        CONFIG_KEYS_MAX = 4096,   /* of an object */
};

/* Which line of a file a value of its document stands in. Goes through the text once if the values come in the order of the text. */
struct config_lines {
        const char *begin, *end; /* borrowed */
        const yyjson_val *root;
        const char *p;
        size_t line, index; /* of the value at p */
};

/* data and n are what json_parse_config() made the document under root of. */
void config_lines_init(struct config_lines *lines, const char *data, size_t n,
                       const yyjson_val *root);

/* The line, from 1, where a value (or a key) of the document begins; 0 when it is not in it. */
size_t config_line_of(struct config_lines *lines, const yyjson_val *value);

/* All of the file goes into `into`, and from there to the config once the whole file has proved good. */
struct config_reader {
        enum config_layer layer;
        const struct config *before; /* what earlier files gave */
        struct config *into;
        const char *file;
        struct config_lines lines;
        size_t n_warnings_left_out;
        struct error *err;
};

/* "FILE: line 3", allocated; NULL without memory. */
char *config_place_of(struct config_reader *reader, yyjson_val *at);

/* Adds "FILE: line 3: …" to the warnings. at: the key or value that it is about, or NULL. Returns 0 or
 * -ENOMEM. */
int config_warn(struct config_reader *reader, yyjson_val *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/* Reports "FILE: line 3: …" as an error. Returns -EINVAL, or 0 when mistakes are collected: the value is left out. */
int config_wrong(struct config_reader *reader, yyjson_val *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
int config_no_memory(struct config_reader *reader);

/* Warns that a place has no such key, and names the one that may be meant. where: "", or the object. */
int config_warn_unknown(struct config_reader *reader, const char *where, yyjson_val *key,
                        const char *nearest);
/* Warns of a key that occurs in the object before: the last one counts. -EINVAL if the object has more than
 * CONFIG_KEYS_MAX keys. */
int config_check_twice(struct config_reader *reader, const char *where, yyjson_val *object,
                       yyjson_val *name);
/* Adds the number of warnings that were left out. */
int config_count_warnings(struct config_reader *reader);

/* Remembers a name that config_finish() resolves. from: the client or profile; NULL for "profile". */
int config_refer(struct config_reader *reader, enum config_reference_kind kind, const char *from,
                 const char *to, yyjson_val *at);

/* Sets the problem of a server, unless it has one, and the place of the server to that of the mistake. mild:
 * it is not a mistake of the file's author. */
int config_problem(struct config_reader *reader, struct config_server *server, bool mild,
                   yyjson_val *at, const char *text);

/* A string without NUL; NULL for any other value. */
const char *config_text(yyjson_val *value);

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

/* Makes one item of a list. name: NULL in an array; i: from 1; *ret: NULL without memory. */
typedef int config_item_fn(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                           char **ret);
/* Reads the items of an array or the members of an object, which replace *ret unless there is a mistake. */
int config_read_items(struct config_reading *r, yyjson_val *value, config_item_fn *make,
                      char ***ret);
