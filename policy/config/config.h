/*
 * The config: config.json, or a file of another client in the mcpServers format (docs/config.md).
 * Monitor and broker parse the same sealed bytes and get the same indices: the broker asks for a
 * server by index, the monitor starts it. No system calls here: the monitor opens the files, and a
 * function looks environment variables up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/config/config-oauth.h"
#include "policy/config/config-packages.h"
#include "policy/limits.h"

enum {
        CONFIG_FILES_MAX = 64,
        CONFIG_FILE_SIZE_MAX = 1024 * 1024,
        CONFIG_SERVERS_MAX = 256,
        CONFIG_PROFILES_MAX = 16,
        CONFIG_CLIENTS_MAX = 64,
        CONFIG_MOUNTS_MAX = 16,      /* of a profile */
        CONFIG_PRELOAD_MAX = 32,     /* modules of a profile */
        CONFIG_RULES_MAX = 256,      /* patterns of one list */
        CONFIG_POOL_MIN_DEFAULT = 1, /* default number of ready sandboxes of a profile */
        CONFIG_POOL_MAX_DEFAULT = 8,
        CONFIG_POOL_MAX = 256, /* largest value in a config */
        CONFIG_FREEZE_MIN_MS = 100,
        CONFIG_PUBLISHED_MAX = 256,
        CONFIG_CODE_MAX = 256 * 1024, /* bytes of the code of one published entry */
        CONFIG_CODE_PATH_MAX = 400,
        CONFIG_CHECKPOINTS = 4, /* of a session, by default */
        CONFIG_CHECKPOINTS_MAX = 16,
        CONFIG_SNAPSHOT_MAX = CONFIG_FILES_MAX + CONFIG_PUBLISHED_MAX, /* with files of code */
};

/* The tools that may be used: patterns of names, in which * matches any characters. NULL-terminated
 * lists; NULL: all (allow), none (deny). deny takes precedence. A profile's patterns are "tool" or
 * "server.tool", a server's patterns are names of its tools. */
struct config_tool_rules {
        char **allow, **deny;
};

/* Whether the rules allow a tool of a server. server: NULL if the rules are a server's. */
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
        CONFIG_NETWORK_ALLOW,    /* lo is up and has the proxy; egress says what it reaches */
        CONFIG_NETWORK_MAX,
};

/* The number of sandboxes that are kept ready for new sessions. */
struct config_pool {
        uint32_t min; /* always for the default profile; for others while they are used */
        uint32_t max; /* if sessions are requested faster than sandboxes are made */
};

/* A named kind of sandbox. The first is "default", made of the config's top-level keys; the others
 * inherit the keys that they do not set. */
/* What a session of a profile with CONFIG_NETWORK_ALLOW may reach. */
struct config_egress {
        char **allow;       /* network_rule_parse(), NULL-terminated; NULL unless ALLOW */
        uint64_t max_bytes; /* of a session, both directions together */
        uint64_t rate;      /* bytes a second; 0: no limit */
};
enum { CONFIG_EGRESS_BYTES = 1 << 30 }; /* the default of max_bytes */

/* Frees the list; nothing is allowed then. */
void config_egress_done(struct config_egress *egress);

struct config_profile {
        char *name;   /* image_name_valid() */
        char *image;  /* name, or NULL: the default image of python */
        char *python; /* for the default image, or NULL */
        struct limits limits;
        enum config_network network;
        struct config_egress egress;
        struct config_mount *mounts;
        size_t n_mounts;
        char **preload; /* dotted names of modules, NULL-terminated, or NULL */
        char **servers; /* servers that it may use, NULL-terminated; NULL: all */
        struct config_tool_rules tools;
        struct config_packages packages; /* that its sessions may have installed */
        struct config_pool pool;
        uint32_t freeze_ms;        /* idle time after which a session is frozen; 0: never */
        uint32_t checkpoints;      /* of a session, at most */
        bool speculation_disabled; /* of the processor, in its sessions (PR_SPEC_FORCE_DISABLE) */
        bool survives; /* a copy of the interpreter takes its place when it ends (docs/cells.md) */
        bool agent;    /* run_python's argument `profile` may select it */
        uint32_t said; /* of the reader: bits of the keys that the config sets */
};

/* The profile of a client, by the client's name in MCP (clientInfo.name). */
struct config_client {
        char *name;
        size_t profile; /* index */
};

/* How a server is reached. */
enum config_transport {
        CONFIG_STDIO, /* a process */
        CONFIG_HTTP,  /* Streamable HTTP; HTTP+SSE if the server does not know that */
        CONFIG_SSE,   /* HTTP+SSE of MCP 2024-11-05 */
};

struct config_server {
        char *name;    /* in Python: "rename", else the key of the entry */
        char *command; /* NULL for a server reached by url */
        enum config_transport transport;
        char *url;            /* NULL for a stdio server */
        char **headers;       /* "NAME: value", NULL-terminated, or NULL */
        char *token_file;     /* has a bearer token; or NULL */
        char **token_command; /* prints one; NULL-terminated, or NULL */
        struct config_oauth oauth;
        char **args; /* n_args, NULL-terminated */
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
        uint64_t
                key; /* hash of all that decides what the server is (command, args, env, cwd, url…),
                         not of how it is used (name, timeouts, rules): for the cached catalogue */
};

enum config_published_kind {
        PUBLISHED_TOOL,
        PUBLISHED_PROMPT,
        PUBLISHED_RESOURCE,
        PUBLISHED_TEMPLATE,
        PUBLISHED_KINDS
};

/* Whether a call of a tool can be a task (supervisor/mcp/tasks.h), or must be one. */
enum config_task_support { TASK_SUPPORT_OPTIONAL, TASK_SUPPORT_REQUIRED, TASK_SUPPORT_FORBIDDEN };

/* "tool", "prompt", … */
const char *config_published_kind_name(enum config_published_kind kind);

/* A tool, prompt, resource or template that Python in a sandbox implements (docs/publish.md). Texts
 * of JSON are in one line. */
struct config_published {
        enum config_published_kind kind;
        char *name;  /* of a tool or prompt; a URI; a URI template (policy/published-name.h) */
        char *entry; /* JSON object: as clients see it in the list of its kind */
        char *code;  /* Python source; NULL until config_set_code() */
        char *file;  /* the path of the code, as written, or NULL */
        char *input_schema, *output_schema;    /* JSON, or NULL */
        char *arguments;                       /* of a prompt: JSON array, or NULL */
        char *completions;                     /* JSON: {"argument": ["value", …]}, or NULL */
        bool completes;                        /* the code defines complete() */
        char *mime_type;                       /* or NULL */
        char *profile;                         /* NULL: that of the client */
        uint32_t timeout_ms;                   /* 0: the config's */
        bool hidden;                           /* not offered until code shows it */
        enum config_task_support task_support; /* of a tool */
};

/* Errors and warnings, one line each: "FILE: line 3: …". */
struct config_findings {
        struct config_finding {
                bool is_error; /* else a warning */
                char *text;
        } * items;
        size_t n, n_errors;
};
void config_findings_done(struct config_findings *findings);

struct config_pending; /* of the reader: references that config_finish() resolves */

struct config {
        unsigned int references;
        struct config_pending *pending;
        struct config_findings *findings; /* borrowed, or NULL */
        struct config_profile top;     /* the reader's: the top level's network, mounts, preload */
        struct config_server *servers; /* in the order of files and of entries */
        size_t n_servers;
        struct config_profile *profiles; /* at least one once config_finish() was called */
        size_t n_profiles;
        size_t profile;                     /* index of the default profile of sessions */
        struct config_published *published; /* in the order of files and of entries */
        size_t n_published;
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
        char *user;                   /* the user of upstream servers (root mode), or NULL */
        int log_level;                /* enum log_level; negative: not set */
        uint32_t id_first, id_count;  /* id_range; count 0: the default range */
        char **warnings;              /* one line each: "FILE: …" */
        size_t n_warnings;
};

struct config *config_new(void);

/* From now on errors are collected in findings (borrowed) instead of being returned, and wrong keys
 * are ignored. For a config that is only checked. */
void config_collect(struct config *config, struct config_findings *findings);
/* Adds an error that the caller found. Returns false when errors are not collected. */
bool config_report(struct config *config, bool is_error, const char *text);

/* Drops one reference. */
struct config *config_free(struct config *config);

/*
 * Adds one file. name is for messages. A syntax error or a wrong type is an error, and nothing of
 * the file is used. A server entry that cannot be used is kept with its problem, so that an error
 * can name it. A second server of the same name does not replace the first: it gets a problem, and
 * so does an entry that would start Cloister itself.
 */
int config_add(struct config *config, const char *name, const char *data, size_t n,
               struct error *err);

/* The code of a published entry that has a file, read by the caller. Returns 0, -EINVAL, -EPROTO (the
 * entry has none) or -ENOMEM. */
int config_set_code(struct config *config, size_t index, const char *code, size_t n,
                    struct error *err);

/* Call once, after the last file: completes the profiles. Returns 0, -EINVAL (a missing profile is
 * referred to; the message has file and line) or -ENOMEM. May add warnings. */
int config_finish(struct config *config, struct error *err);

/* After config_finish(): adds the mounts of an object with the key "mounts" (JSON) to a profile; NULL: the
 * usual one. They are checked as those of a file. name is for messages. */
int config_add_mounts(struct config *config, const char *profile, const char *name,
                      const char *text, struct error *err);

/* Index of a profile, or -ENOENT with a suggestion in the message. */
int config_find_profile(const struct config *config, const char *name, struct error *err);
/* Index of the profile of a client; config->profile for a client without an entry, or NULL. */
size_t config_profile_of_client(const struct config *config, const char *client);

/* The profile that sessions get unless told otherwise. NULL: a config without any, as tests make.
 */
static inline const struct config_profile *config_usual_profile(const struct config *config)
{
        return config->n_profiles > 0 ? &config->profiles[config->profile] : NULL;
}

/* Takes a reference: after a reload, living sessions keep the config that they were made with. */
struct config *config_ref(const struct config *config);

/* Masks the secrets of a server in the log (base/mask.h). */
void config_server_mask(const struct config_server *server);

/* Copies a server, to be expanded; free it with config_server_done(). Returns 0 or -ENOMEM. */
int config_server_copy(const struct config_server *server, struct config_server *ret);
void config_server_done(struct config_server *server);

/* Expands ${VAR} in the index of packages, or returns 0 and NULL if there is none. *ret is the caller's. */
int config_packages_index(const struct config_packages *packages,
                          const char *(*lookup)(const char *name), char **ret, struct error *err);

/* Expands ${VAR}, ${VAR:-default} and a leading ~ in command, args, env values and cwd of a server,
 * in url, values of headers, and the token's file and command.
 * lookup returns NULL for a variable that is not set, which is an error. Called by the monitor before
 * a start, on a copy, because values must not be expanded twice and an error leaves some expanded.
 * -ELOOP: the command is Cloister itself. */
int config_server_expand(struct config_server *server, const char *(*lookup)(const char *name),
                         struct error *err);
