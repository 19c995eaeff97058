/* Declarations that the parts of the config's reader share. */
#pragma once

#include <yyjson.h>

#include "policy/config/config-lines.h"
#include "policy/config/config.h"

enum {
        CONFIG_WARNINGS_MAX = 16, /* a file; more are counted only */
        CONFIG_KEYS_MAX = 4096,   /* of an object */
        CONFIG_NAME_MAX = 256,    /* bytes of a pattern, a client's name */
};

/* One file while it is read. All of it goes into `into`, and from there to the config once the
 * whole file has proved good. */
struct config_reader {
        const struct config *before; /* what earlier files gave */
        struct config *into;
        const char *file;
        struct config_lines lines;
        size_t n_warnings_left_out;
        struct error *err;
};

/* "FILE: line 3: …". at: the key or value that it is about, or NULL. Returns 0 or -ENOMEM. */
int config_warn(struct config_reader *reader, yyjson_val *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* The same as an error. Returns -EINVAL, or 0 when mistakes are collected: the value is left out.
 */
int config_wrong(struct config_reader *reader, yyjson_val *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

int config_no_memory(struct config_reader *reader);

/* Warns of a key that is none of names (NULL-terminated), with the one that may be meant. where: ""
 * or what it stands in. */
int config_warn_unknown(struct config_reader *reader, const char *where, yyjson_val *key,
                        const char *const *names);

/* A warning once no file is read any more. Takes text, allocated; NULL is -ENOMEM. */
int config_add_warning(struct config *config, char *text);

/* Says how many warnings were left out. */
int config_count_warnings(struct config_reader *reader);

/* Warns of a key that stands in an object before: the last counts. where as above. -EINVAL when the
 * object is larger than CONFIG_KEYS_MAX. */
int config_check_twice(struct config_reader *reader, const char *where, yyjson_val *object,
                       yyjson_val *name);

/* "FILE: line 3", allocated; NULL without memory. */
char *config_place(struct config_reader *reader, yyjson_val *at);

/* --- values (config-values.c) --- */

enum config_kind {
        CONFIG_BYTES,
        CONFIG_COUNT,
        CONFIG_TIME,
        CONFIG_CORES,
        CONFIG_IMAGE,
        CONFIG_PATH,
        CONFIG_USER,
};

/* A key with a value of one kind, and where it goes. */
struct config_key {
        const char *name;
        enum config_kind kind;
        size_t offset; /* in what it goes into */
        uint64_t least, most;
};

int config_read_value(struct config_reader *reader, const struct config_key *key, const char *where,
                      yyjson_val *value, void *into);

/* --- what stands where --- */

int config_read_root(struct config_reader *reader, yyjson_val *root);

/* The value of mcpServers. */
int config_read_servers(struct config_reader *reader, yyjson_val *servers);

/* A key of a profile. top: at the top level, where only some of them may stand. Returns 1 when it
 * is none of them. */
int config_read_profile_member(struct config_reader *reader, struct config_profile *profile,
                               bool top, const char *where, yyjson_val *name, yyjson_val *value);
int config_read_profiles(struct config_reader *reader, yyjson_val *profiles);
int config_read_profile(struct config_reader *reader, yyjson_val *profile); /* "profile": NAME */
int config_read_clients(struct config_reader *reader, yyjson_val *clients);
int config_read_publish(struct config_reader *reader, yyjson_val *publish);
void config_published_done(struct config_published *published);

/* The values of "tools". what: why they are wrong, in a text of that size, "" when they are not.
 * Returns 0 or -ENOMEM; *bad is what is wrong. */
struct config_complaint {
        char text[160];
        yyjson_val *at;
};
int config_read_rules(struct config_reader *reader, const char *where, yyjson_val *tools,
                      struct config_tool_rules *ret, struct config_complaint *bad);
/* The value of "oauth"; where as above. */
int config_read_oauth(struct config_reader *reader, const char *where, yyjson_val *value,
                      struct config_oauth *ret, struct config_complaint *bad);
/* The value of "packages"; where: the profile. */
int config_read_packages(struct config_reader *reader, const char *where, yyjson_val *object,
                         struct config_packages *ret);
void config_packages_init(struct config_packages *packages); /* to the defaults */
void config_packages_done(struct config_packages *packages);
int config_packages_copy(const struct config_packages *from, struct config_packages *to);
/* A list of strings, as allow and deny are. */
int config_read_names(yyjson_val *list, const char *what, size_t most, char ***ret,
                      struct config_complaint *bad);

/* --- profiles in memory (config-profile.c) --- */

/* Moves what `from` says into `to`. */
void config_profile_overlay(struct config_profile *to, struct config_profile *from);
int config_profile_copy(const struct config_profile *from, struct config_profile *ret);
void config_profile_done(struct config_profile *profile);
/* The profile of a name, made when there is none; NULL without memory or beyond the most. */
struct config_profile *config_profile_named(struct config *config, const char *name);
size_t config_profile_index(const struct config *config, const char *name); /* SIZE_MAX: none */
void config_rules_done(struct config_tool_rules *rules);

/* What names another part of the config, resolved after the last file. */
enum config_reference_kind {
        CONFIG_PROFILE_OF_ALL, /* "profile" */
        CONFIG_PROFILE_OF_CLIENT,
        CONFIG_PROFILE_OF_PUBLISHED, /* it only has to be there */
        CONFIG_SERVER_OF_PROFILE,
};

struct config_reference {
        enum config_reference_kind kind;
        char *from; /* the client, the profile; NULL for CONFIG_PROFILE_OF_ALL */
        char *to;   /* the name that it names */
        char *place;
};

struct config_pending {
        struct config_reference *references;
        size_t n;
};

int config_refer(struct config_reader *reader, enum config_reference_kind kind, const char *from,
                 const char *to, yyjson_val *at);
int config_pending_merge(struct config *config, struct config *file);
struct config_pending *config_pending_free(struct config_pending *pending);

/* --- texts --- */

/* A string without NUL; NULL for anything else. */
const char *config_text(yyjson_val *value);

/* strdup() into *to, freeing what was there. */
int config_set_text(char **to, const char *text);

/* Lists end with NULL, and may be NULL. */
char **config_list_free(char **list);
int config_list_copy(char ***to, char *const *from);

/* Grows *array (*count items of size) by n items of more, which are moved: *n becomes 0. */
int config_append_items(void *array, size_t *count, void *more, size_t *n, size_t size);

/* The value of config_server.key. */
uint64_t config_server_key(const struct config_server *server);

/* True when the command of a server would start Cloister as an MCP server, directly or through env,
 * sh -c, npx and the like. */
bool config_server_is_ourselves(const struct config_server *server);
