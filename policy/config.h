/*
 * The config: what people write in config.json, or have already in the ecosystem's mcpServers shape
 * (docs/config.md). Parsed twice from the same sealed bytes, by the monitor, which starts servers
 * by index, and by the broker, which names them; both get the same indices. No syscalls here: files
 * are opened by the monitor, and variables are looked up through a function.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/limits.h"

enum {
        CONFIG_FILES_MAX = 64,
        CONFIG_FILE_SIZE_MAX = 1024 * 1024,
        CONFIG_SERVERS_MAX = 256,
        CONFIG_PROFILES_MAX = 16,
        CONFIG_CLIENTS_MAX = 64,
        CONFIG_MOUNTS_MAX = 16,  /* of a profile */
        CONFIG_PRELOAD_MAX = 32, /* modules of a profile */
        CONFIG_RULES_MAX = 256,  /* patterns of one list */
        CONFIG_POOL_MIN = 1,     /* ready sandboxes of a profile, unless told otherwise */
        CONFIG_POOL_MAX = 8,
        CONFIG_POOL_MOST = 256, /* that may be asked for */
        CONFIG_FREEZE_LEAST_MS = 100,
};

/* Which tools are in reach: patterns of names, * for any run of characters. NULL-terminated lists;
 * NULL: everything (allow), nothing (deny). deny wins. A profile's patterns are "tool" or
 * "server.tool", a server's are its tools' own names. */
struct config_tool_rules {
        char **allow, **deny;
};

/* Whether the rules let a tool of a server through. server: NULL where the rules are a server's. */
bool config_tool_allowed(const struct config_tool_rules *rules, const char *server,
                         const char *tool);

/* A host directory in the sandbox. */
struct config_mount {
        char *source; /* absolute or with a leading ~, as written; the monitor opens it */
        char *target; /* absolute, normal (no "..", no "//"), not /, nor in /proc or /dev */
        bool writable;
};

enum config_network {
        CONFIG_NETWORK_NONE,     /* lo is down, no socket but AF_UNIX */
        CONFIG_NETWORK_LOOPBACK, /* lo is up */
        CONFIG_NETWORK_MAX,
};

/* How many sandboxes are kept ready for sessions to come. */
struct config_pool {
        uint32_t min; /* always, of the profile that sessions get; of others while they are used */
        uint32_t max; /* when sessions come faster than sandboxes are made */
};

/* A named kind of sandbox. The first is "default", made of the config's top-level keys; the others
 * take from it what they do not say. */
struct config_profile {
        char *name;   /* image_name_valid() */
        char *image;  /* name, or NULL: the default image of python */
        char *python; /* for the default image, or NULL */
        struct limits limits;
        enum config_network network;
        struct config_mount *mounts;
        size_t n_mounts;
        char **preload; /* dotted names of modules, NULL-terminated, or NULL */
        char **servers; /* names that it may use, NULL-terminated; NULL: all */
        struct config_tool_rules tools;
        struct config_pool pool;
        uint32_t freeze_ms; /* a session unused for so long is frozen; 0: none is */
        bool agent;    /* run_python's argument profile may choose it; others only people choose */
        uint32_t said; /* the reader's: bits of the keys that the config says of it itself */
};

/* Whom a profile is for, by the name that a client gives itself in MCP (clientInfo.name). */
struct config_client {
        char *name;
        size_t profile; /* index */
};

struct config_server {
        char *name;    /* as code sees it: "rename", else the key of the entry */
        char *command; /* NULL for a server reached by url */
        char *url;     /* NULL for a stdio server */
        char **args;   /* n_args, NULL-terminated */
        size_t n_args;
        char **env; /* NAME=value, NULL-terminated */
        size_t n_env;
        char *cwd;         /* or NULL */
        char *description; /* or NULL; any Unicode */
        bool disabled;
        uint32_t timeout_ms;       /* of a call; 0: the default, 60,000 */
        uint32_t start_timeout_ms; /* until its tools are known; 0: the default */
        struct config_tool_rules tools;
        char *place;   /* "FILE: line 3": its entry, or what is wrong in it */
        char *problem; /* why it cannot be used (one line), or NULL */
        uint64_t key; /* hash of all that decides what the server is (command, args, env, cwd, url),
                         not of how it is used (name, timeouts, rules): for the cached catalogue */
};

/* All that is wrong or doubtful, one line each: "FILE: line 3: …". */
struct config_findings {
        struct config_finding {
                bool is_error; /* else a warning */
                char *text;
        } * items;
        size_t n, n_errors;
};
void config_findings_done(struct config_findings *findings);

struct config_pending; /* the reader's: what config_finish() is to resolve */

struct config {
        unsigned int references;
        struct config_pending *pending;
        struct config_findings *findings; /* borrowed, or NULL */
        struct config_profile top;     /* the reader's: the top level's network, mounts, preload */
        struct config_server *servers; /* in the order of files and of entries */
        size_t n_servers;
        struct config_profile *profiles; /* at least one once config_finish() was called */
        size_t n_profiles;
        size_t profile; /* index of the one that sessions get unless told otherwise */
        struct config_client *clients;
        size_t n_clients;
        struct limits limits; /* what the top level says of the profile "default", as do image and
                                 python */
        uint32_t cell_timeout_ms;     /* default 120,000 */
        uint32_t cell_timeout_max_ms; /* default 600,000 */
        uint32_t session_idle_ms;     /* default 30 min */
        uint32_t sessions_max;        /* 0: by the machine's memory */
        uint32_t output_characters;   /* of a stream in a reply: 10,000 */
        char *image;                  /* name, or NULL: the default image */
        char *python;                 /* for the default image, or NULL: /usr/bin/python3 */
        char *user;                   /* whom upstream servers run as (root mode), or NULL */
        int log_level;                /* enum log_level; negative: not said */
        uint32_t id_first, id_count;  /* id_range; count 0: the default range */
        char **warnings;              /* one line each: "FILE: …" */
        size_t n_warnings;
};

struct config *config_new(void);

/* From now on mistakes are collected, all of them, and are no errors any more: what is wrong is
 * left out. findings is borrowed. For a config that is only looked at. */
void config_collect(struct config *config, struct config_findings *findings);
/* Adds a mistake of another's finding. False when none are collected. */
bool config_report(struct config *config, bool is_error, const char *text);

/* Gives back one reference. */
struct config *config_free(struct config *config);

/*
 * Adds one file. name is for messages. A file with a syntax error or wrong types is an error
 * (nothing of it is taken); a server entry that cannot be used stays, with its problem, so that it
 * can be named. A second server of the same name replaces none: it gets a problem. An entry that
 * would start Cloister itself is one too.
 */
int config_add(struct config *config, const char *name, const char *data, size_t n,
               struct error *err);

/* Once, after the last file: makes the profiles whole. Returns 0, -EINVAL (a profile that is not
 * there is named, with file and line) or -ENOMEM. May add warnings. */
int config_finish(struct config *config, struct error *err);

/* Index of a profile, or -ENOENT with what may have been meant. */
int config_find_profile(const struct config *config, const char *name, struct error *err);
/* Index of the profile of a client: config->profile for one that is not named, or NULL. */
size_t config_profile_of_client(const struct config *config, const char *client);

/* The profile that sessions get unless told otherwise. NULL: a config without any, as tests make.
 */
static inline const struct config_profile *config_usual_profile(const struct config *config)
{
        return config->n_profiles > 0 ? &config->profiles[config->profile] : NULL;
}

/* A config is shared by what was made under it: a reload leaves the old one to living sessions. */
struct config *config_ref(struct config *config);

/* Has the log leave out what of a server is secret (base/mask.h). */
void config_server_mask(const struct config_server *server);

/* A server of one's own to expand, ended with config_server_done(). Returns 0 or -ENOMEM. */
int config_server_copy(const struct config_server *server, struct config_server *ret);
void config_server_done(struct config_server *server);

/* Expands ${VAR}, ${VAR:-default} and a leading ~ in command, args, env values and cwd of a server.
 * lookup returns NULL for a variable that is not set: an error that names it. Called by the monitor
 * before a start, on a copy: values are not to be expanded twice, and after an error some are.
 * -ELOOP: it turns out to be Cloister itself. */
int config_server_expand(struct config_server *server, const char *(*lookup)(const char *name),
                         struct error *err);
