/* What the parts of the config's reader share. */
#pragma once

#include <yyjson.h>

#include "policy/config.h"

enum {
        CONFIG_WARNINGS_MAX = 16, /* a file; more are counted only */
        CONFIG_KEYS_MAX = 4096,   /* of an object */
};

/* One file while it is read. All of it goes into `into`, and from there to the config once the
 * whole file has proved good. */
struct config_reader {
        const struct config *before; /* what earlier files gave */
        struct config *into;
        const char *file;
        const char *data;
        size_t n;
        size_t n_warnings_left_out;
        struct error *err;
};

/* The line of a key, where the file has only one such; else 0. */
size_t config_line_of(const struct config_reader *reader, const char *key);

/* "FILE: line 3: …". key may be NULL. Returns 0 or -ENOMEM. */
int config_warn(struct config_reader *reader, const char *key, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* The same as an error. Returns -EINVAL. */
int config_wrong(struct config_reader *reader, const char *key, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Warns of a key that is none of names (NULL-terminated), with the one that may be meant. where: ""
 * or what it stands in. */
int config_warn_unknown(struct config_reader *reader, const char *where, const char *key,
                        const char *const *names);

/* Says how many warnings were left out. */
int config_count_warnings(struct config_reader *reader);

/* Warns of a key that stands in an object before: the last counts. where as above. -EINVAL when the
 * object is larger than CONFIG_KEYS_MAX. */
int config_check_twice(struct config_reader *reader, const char *where, yyjson_val *object,
                       yyjson_val *name);

int config_read_root(struct config_reader *reader, yyjson_val *root);

/* The value of mcpServers. */
int config_read_servers(struct config_reader *reader, yyjson_val *servers);

/* A string without NUL; NULL for anything else. */
const char *config_text(yyjson_val *value);

/* strdup() into *to, freeing what was there. */
int config_set_text(char **to, const char *text);

/* True when the command of a server would start Cloister as an MCP server, directly or through env,
 * sh -c, npx and the like. */
bool config_server_is_ourselves(const struct config_server *server);
