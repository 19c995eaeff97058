/* The values of a config in memory; policy/config/config.h has what is done with them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/language.h"
#include "policy/limits.h"

struct rules;

enum {
        CONFIG_FILES_MAX = 64,
        CONFIG_FILE_SIZE_MAX = 1024 * 1024,
        CONFIG_SERVERS_MAX = 256,
        CONFIG_INSTANCES_MAX = 256, /* processes of servers of which each principal has its own */
        CONFIG_PROFILES_MAX = 16,
        CONFIG_CLIENTS_MAX = 64,
        CONFIG_MOUNTS_MAX = 16,      /* of a profile */
        CONFIG_PRELOAD_MAX = 32,     /* modules of a profile */
        CONFIG_RULES_MAX = 256,      /* patterns of one list */
        CONFIG_POOL_MIN_DEFAULT = 2, /* default number of ready sandboxes of a profile */
        CONFIG_POOL_MAX_DEFAULT = 16,
        CONFIG_POOL_MAX = 256, /* largest value in a config */
        CONFIG_FREEZE_MIN_MS = 100,
        CONFIG_UNLIMITED = INT32_MAX, /* of a time that may be "unlimited" */
        CONFIG_PUBLISHED_MAX = 256,
        CONFIG_CODE_MAX = 256 * 1024, /* bytes of the code of one published entry */
        CONFIG_CODE_PATH_MAX = 400,
        CONFIG_SETTINGS_MAX = 64, /* options, or variables, of a table */
        CONFIG_CHECKPOINTS = 4,   /* of a session, by default */
        CONFIG_CHECKPOINTS_MAX = 16,
        CONFIG_SNAPSHOT_MAX = CONFIG_FILES_MAX + CONFIG_PUBLISHED_MAX, /* with files of code */
};

/* The tools that may be used: patterns of names, in which * matches any characters. NULL-terminated
 * lists; NULL: all (allow), none (deny). deny takes precedence. A profile's patterns are "tool" or
 * "server.tool", a server's patterns are names of its tools. */
struct config_tool_rules {
        char **allow, **deny;
};

/* A host directory in the sandbox. */
struct config_mount {
        char *source; /* absolute or with a leading ~, as written; the monitor opens it */
        char *target; /* absolute, normal (no "..", no "//"), not /, nor in /proc or /dev */
        bool writable;
        bool locks;      /* that code takes on its files exclude programs of the host */
        bool is_private; /* a session has the label "private" from its start */
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

/* What a session of a profile with CONFIG_NETWORK_ALLOW may reach. */
struct config_egress {
        char **allow;   /* network_rule_parse(), NULL-terminated; NULL unless ALLOW */
        char **inspect; /* "host:port" of those whose requests are read, NULL-terminated, or NULL */
        uint64_t max_bytes; /* of a session, both directions together */
        uint64_t rate;      /* bytes a second; 0: no limit */
};
enum { CONFIG_EGRESS_BYTES = 1 << 30 }; /* the default of max_bytes */

/* "packages" of a profile: the packages that a session may have installed (docs/packages.md). */
struct config_packages {
        bool install;
        char **allow; /* names with specifiers, NULL-terminated; NULL: every package of the index */
        char *index;  /* http, https or file; ${VAR} is not expanded. NULL: the installer's own */
        uint64_t max_bytes;  /* of one installation: the wheels, and what they are unpacked to */
        uint32_t timeout_ms; /* of one installation */
        char *exclude_newer; /* "14d", or a date; NULL: nothing is excluded */
        char **allow_npm;    /* NAME or NAME@VERSIONS, NULL-terminated; NULL: as `allow` says */
        char *registry;      /* of npm, http or https; ${VAR} is not expanded. NULL: npm's own */
};
enum {
        CONFIG_PACKAGES_ALLOW_MAX = 256,
        CONFIG_PACKAGES_INDEX_MAX = 2000,
};

/* "ask" of a profile: who decides about calls that a rule does not decide (docs/questions.md). */
struct config_ask {
        char **by; /* "client", "terminal", "page"; NULL-terminated, or NULL: all */
        char *page; /* "https://cloister.example.org": below it are the pages of questions; or NULL */
        uint32_t wait_ms, timeout_ms, per_cell;
        bool whole; /* the client is asked only what three lines show whole */
};

/* "libraries" of a profile: the packages that its default image gets besides (docs/images.md). */
struct config_libraries {
        char **python, **npm; /* NULL-terminated, or NULL */
        bool optional;        /* where they cannot be had, the image without them is used */
};
enum { CONFIG_LIBRARIES_MAX = 32 };

/* "secrets" of a profile (docs/secrets.md). One member of `from` is set. */
struct config_secret {
        char *name;
        struct config_secret_from {
                char *env, *file, *credential; /* file: absolute, or with a leading ~ */
                char **command;                /* NULL-terminated */
        } from;
        struct config_secret_argument {
                char *tool;      /* "server.tool" */
                char **pointers; /* RFC 6901, NULL-terminated */
        } * arguments;
        size_t n_arguments;
        char **to; /* "host:port" of HTTPS requests that get it, NULL-terminated; NULL: it is for arguments */
        char **in;  /* "header", "query", "body": where; NULL: in the header */
        char *like; /* the shape of its placeholders, or NULL */
};
enum {
        CONFIG_SECRET_HOSTS_MAX = 32, /* of a profile */
        CONFIG_LIKE_MAX = 120,
        CONFIG_SECRETS_MAX = 16,
        CONFIG_SECRET_TOOLS_MAX = 16,
        CONFIG_SECRET_POINTERS_MAX = 16,
};

/* "program" of a profile: a language whose code programs of the image run (docs/publish.md, "Other languages"). */
struct config_program {
        char *language;  /* its name; NULL: there is none */
        char *file;      /* the code is written to this file of /workspace */
        char **commands; /* NULL-terminated; one after another, in /workspace, until one fails */
        char *source;    /* a container image that has the programs, for messages; or NULL */
};
enum { CONFIG_COMMANDS_MAX = 8, CONFIG_COMMAND_BYTES_MAX = 1000 };

/* "journal" of a profile: the record of what its code has called (docs/journal.md). */
enum config_journal_sync { CONFIG_SYNC_NONE, CONFIG_SYNC_GROUP, CONFIG_SYNC_EACH };
enum config_journal_arguments {
        CONFIG_ARGUMENTS_MASKED,
        CONFIG_ARGUMENTS_HASH,
        CONFIG_ARGUMENTS_FULL
};
struct config_journal {
        bool is_set; /* it has one */
        enum config_journal_sync sync;
        enum config_journal_arguments arguments;
        char *keep; /* "90d"; NULL: CONFIG_JOURNAL_KEEP */
        uint64_t max;
};
#define CONFIG_JOURNAL_KEEP "90d"

/* A named kind of sandbox. The first is "default", made of the config's top-level keys; the others
 * inherit the keys that they do not set. */
struct config_profile {
        char *name;            /* image_name_valid() */
        char *image;           /* name, or NULL: the default image of python */
        char *python;          /* for the default image: a path or a version; or NULL */
        bool python_downloads; /* uv may download a version that this machine lacks */
        enum language language;
        char *nodejs;  /* for the default image of JavaScript; NULL: the first in PATH */
        char *pyodide; /* the directory of npm's package, for the same image; NULL: none */
        struct config_libraries libraries; /* of the default image */
        struct config_program program;
        struct limits limits;
        enum config_network network;
        struct config_egress egress;
        struct config_mount *mounts;
        size_t n_mounts;
        char **preload; /* dotted names of modules, NULL-terminated, or NULL */
        char **servers; /* servers that it may use, NULL-terminated; NULL: all */
        struct config_tool_rules tools;
        char **rules; /* texts of "rules", NULL-terminated (policy/rules/rules.h), or NULL: own ones, then the top level's */
        char **rule_tests; /* texts of "rule_tests", NULL-terminated (policy/config/rule-test-keys.h), or NULL */
        const struct rules *compiled_rules; /* of the config, from config_finish(); NULL: none */
        const struct config_profile
                *also; /* servers and tools must be allowed by this one too; or NULL */
        struct config_packages packages; /* that its sessions may have installed */
        struct config_ask ask;
        struct config_secret *secrets;
        size_t n_secrets;
        struct config_pool pool;
        uint32_t freeze_ms;     /* idle time after which a session is frozen; 0: never */
        uint32_t background_ms; /* processor time between two calls, or CONFIG_UNLIMITED */
        uint32_t picture_side;  /* pixels of a picture that a result shows, at most */
        uint64_t picture_bytes; /* the same in bytes */
        uint32_t checkpoints;   /* of a session, at most */
        bool survives; /* a copy of the interpreter takes its place when it ends (docs/cells.md) */
        bool speculation_disabled; /* of the processor, in its sessions (PR_SPEC_FORCE_DISABLE) */
        bool recycle; /* network namespaces, where there is no network (supervisor/monitor/template/networks.h) */
        struct config_journal journal;
        bool agent;    /* run_python's argument `profile` may select it */
        uint64_t said; /* of the reader: bits of the keys that the config sets (config_key_bit()) */
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

/* The part of the code of a cell that the log has, at level info. */
enum config_log_code { CONFIG_LOG_HASH, CONFIG_LOG_FULL, CONFIG_LOG_NONE };

/* The key "oauth" of a server that is reached by HTTP: what `cloister login` has to know (docs/oauth.md). */
struct config_oauth {
        bool is_set;
        char *client_id;           /* registered by hand, or NULL */
        char *client_secret;       /* "${NAME}" until it is expanded; NULL: none */
        char *client_secret_file;  /* may begin with ~ until it is expanded */
        char *private_key_file;    /* in PEM, in place of a secret; the same */
        char *key_id;              /* the key's name at the authorization server, or NULL */
        bool client_credentials;   /* the client logs in for itself, without a person */
        char *client_metadata_url; /* a document that describes the client (CIMD), or NULL */
        char *issuer;              /* the only authorization server to use, or NULL */
        char *scopes;           /* to request, separated by spaces; NULL: what the server names */
        uint16_t redirect_port; /* 0: any */
        bool private;           /* servers of private networks may be contacted */
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
        bool per_principal;        /* each principal has its own process */
        bool apart;                /* in a pid and mount namespace of its own */
        uint32_t timeout_ms;       /* of a call; 0: the default, 60,000 */
        uint32_t start_timeout_ms; /* until its tools are known; 0: the default */
        bool trust_hints;          /* rules may allow calls by the annotations of its tools */
        struct config_tool_rules tools;
        char *labels;  /* JSON (policy/rules/labels.h), or NULL */
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

/* The language and names that the code of a published tool has in its sandbox. */
enum config_guest {
        GUEST_CLOISTER, /* the names that run_python has */
        GUEST_CODEMODE, /* those of codemode-lite */
        GUEST_PYODIDE, /* Python in Pyodide, in a profile of JavaScript, with the names of codemode-lite */
};

/* The code of a published tool comes from its caller (docs/publish.md): the names of the arguments, and how it runs. */
struct config_run {
        char *code;     /* the argument that is the code; NULL: the tool has code of its own */
        char *language; /* "python" or "javascript", if no argument gives one; NULL: "python" */
        char *language_argument; /* or NULL */
        bool is_script;          /* runs as `python3 FILE` runs it, and not as a cell */
        char *session;           /* its name; NULL: a new one for each call */
        char *name;              /* of the code, __name__; NULL: "__main__" */
        struct config_run_timeout {
                char *argument;             /* in seconds; or NULL */
                uint32_t initial_ms;        /* without it; 0: the config's */
                uint32_t least_ms, most_ms; /* to which the argument is clamped; 0: no bound */
        } timeout;
        enum config_guest guest;
        char **env;     /* NAME=value, NULL-terminated, or NULL */
        char *packages; /* the argument that is a list of requirements, or NULL */
        char *servers;  /* the argument that is a list of names of servers, or NULL */
};

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
        bool listed;                           /* in the list of its kind */
        bool below;    /* of a table: an entry of the same name in a later file takes its place */
        bool replaced; /* such an entry exists: this one is never offered */
        struct config_run
                run;  /* of a tool whose code comes from the caller: code and file are NULL */
        char *result; /* JSON: the form of its result (policy/result-form.h), or NULL */
        bool result_structured; /* the form has structuredContent */
};

/* How the text of a setting from outside is read. */
enum config_setting_type {
        SETTING_TEXT,
        SETTING_INTEGER,
        SETTING_NUMBER,
        SETTING_BOOLEAN,
        SETTING_FLAG,      /* an option without a value: true */
        SETTING_NAMES,     /* separated by commas */
        SETTING_VARIABLES, /* names of variables: an object with their values */
        SETTING_BYTES,     /* 512m, 1g */
        SETTING_SERVERS,   /* a JSON array of MCP servers with names: an object by name */
        SETTING_PATH,      /* may begin with ~ */
};

/* An option or a variable of another system (docs/as.md). */
struct config_setting {
        char *name;    /* "--flag", or the name of a variable */
        char *same_as; /* the name of the setting that it gives; the rest is unset then. Or NULL */
        enum config_setting_type type;
        char **keys; /* NULL-terminated, or NULL: JSON Pointers, or options of Cloister */
        uint32_t least, most;
        char *at_most, *unless;                          /* names of other settings, or NULL */
        char **choices;                                  /* NULL-terminated, or NULL */
        char *initial, *values, *merge, *notes, *refuse; /* JSON, or NULL */
        bool always, secret;
        uint8_t exit, exit_range;
};

/* "as": of a table, and what became of its settings. */
struct config_as {
        char *name, *server_name, *instructions; /* or NULL */
        struct config_setting *settings;         /* options first, then variables */
        size_t n_settings;
        char *values;  /* JSON object, or NULL */
        char *refusal; /* why no tool runs code, or NULL */
        char **notes;  /* NULL-terminated, or NULL */
        bool also;     /* run_python is listed */
};

/* The layers of a config, which are read in this order. */
enum config_layer {
        CONFIG_LAYER_TABLE,   /* of another system: below the user's files */
        CONFIG_LAYER_USER,    /* the user's files */
        CONFIG_LAYER_SERVERS, /* a directory of the other system: only its servers count */
        CONFIG_LAYER_SETTINGS, /* options and variables; widen no limit and no network of the user's files */
        CONFIG_LAYERS
};

/* Whether an entry can be called: it has code, or its caller gives it. */
static inline bool config_published_has_code(const struct config_published *entry)
{
        return !entry->replaced && (entry->code || entry->run.code);
}

/* Errors and warnings, one line each: "FILE: line 3: …". */
struct config_findings {
        struct config_finding {
                bool is_error; /* else a warning */
                char *text;
        } * items;
        size_t n, n_errors;
};

/* A name of another part of the config, resolved after the last file. */
enum config_reference_kind {
        CONFIG_PROFILE_OF_ALL, /* "profile" */
        CONFIG_PROFILE_OF_CLIENT,
        CONFIG_PROFILE_OF_PUBLISHED, /* the profile has to exist, and to have the language `from` */
        CONFIG_SERVER_OF_PROFILE,
        CONFIG_SUM_OF_SESSIONS, /* a key; no profile's limit may be above its value */
};

struct config_reference {
        enum config_reference_kind kind;
        char *from; /* the client, the profile, the language; NULL for CONFIG_PROFILE_OF_ALL, and for any language */
        char *to; /* the name that it names */
        char *place;
};

/* "node": one server among several (docs/service.md). */
struct config_node {
        char *name; /* NULL: none; ${VAR} is not expanded (node-keys.h) */
        uint32_t
                lease_ms; /* without a check for this time, other servers may have sessions of chosen names */
        char **balancers; /* addresses whose checks count, NULL-terminated; NULL: there is no lease */
};
enum { CONFIG_BALANCERS_MAX = 16, CONFIG_LEASE_MS = 5000 };

struct config {
        unsigned int references;
        struct config_reference *pending; /* until config_finish() */
        size_t n_pending;
        /* Borrowed, or NULL. If set, errors are collected instead of being returned, and wrong keys are ignored. */
        struct config_findings *findings;
        struct config_profile top;     /* the reader's: the top level's network, mounts, preload */
        struct config_server *servers; /* in the order of files and of entries */
        size_t n_servers;
        struct config_profile *profiles; /* at least one once config_finish() was called */
        size_t n_profiles;
        struct rules *compiled_rules[CONFIG_PROFILES_MAX]; /* of each profile, or NULL */
        struct config_as as;                               /* name: NULL without a table */
        uint64_t said,
                said_profile; /* what the user's files have: keys of the top level, and of its profile (policy/config/bound.h) */
        size_t profile;                     /* index of the default profile of sessions */
        struct config_published *published; /* in the order of files and of entries */
        size_t n_published;
        struct config_client *clients;
        size_t n_clients;
        uint32_t cell_timeout_ms;     /* default 120,000 */
        uint32_t cell_timeout_max_ms; /* default 600,000 */
        uint32_t session_idle_ms;     /* default 30 min */
        uint32_t drain_timeout_ms;    /* default 30,000 */
        bool reload_by_signal;        /* files that change are not read by themselves */
        uint32_t sessions_max;        /* 0: by the machine's memory */
        uint64_t memory_total;        /* of all sandboxes; 0: by the machine */
        uint32_t cpu_total_milli;     /* the same */
        bool metrics_principals;      /* /metrics has figures of each principal */
        uint32_t output_characters;   /* of a stream in a reply: 10,000 */
        struct config_node node;
        char *user;          /* the user of upstream servers (root mode), or NULL */
        char *control_group; /* the group that may use the control socket, or NULL */
        int log_level;       /* enum log_level; negative: not set */
        enum config_log_code log_code;
        uint32_t id_first, id_count; /* id_range; count 0: the default range */
        char **warnings;             /* one line each: "FILE: …" */
        size_t n_warnings;
};
