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
};

struct config_server {
        char *name;    /* as written */
        char *command; /* NULL for a server reached by url */
        char *url;     /* NULL for a stdio server */
        char **args;   /* n_args, NULL-terminated */
        size_t n_args;
        char **env; /* NAME=value, NULL-terminated */
        size_t n_env;
        char *cwd;         /* or NULL */
        char *description; /* or NULL; any Unicode */
        bool disabled;
        uint32_t timeout_ms; /* of a call; 0: the default, 60,000 */
        char *problem;       /* why it cannot be used (one line), or NULL */
        uint64_t key; /* hash of all that decides what the server is: for the cached catalogue */
};

struct config {
        struct config_server *servers; /* in the order of files and of entries */
        size_t n_servers;
        struct limits limits;
        uint32_t cell_timeout_ms;     /* default 120,000 */
        uint32_t cell_timeout_max_ms; /* default 600,000 */
        uint32_t session_idle_ms;     /* default 30 min */
        uint32_t sessions_max;        /* 0: by the machine's memory */
        uint32_t output_characters;   /* of a stream in a reply: 10,000 */
        char *image;                  /* name, or NULL: the default image */
        char *python;                 /* for the default image, or NULL: /usr/bin/python3 */
        char *user;                   /* whom upstream servers run as (root mode), or NULL */
        uint32_t id_first, id_count;  /* id_range; count 0: the default range */
        char **warnings;              /* one line each: "FILE: …" */
        size_t n_warnings;
};

struct config *config_new(void);
struct config *config_free(struct config *config);

/*
 * Adds one file. name is for messages. A file with a syntax error or wrong types is an error
 * (nothing of it is taken); a server entry that cannot be used stays, with its problem, so that it
 * can be named. A second server of the same name replaces none: it gets a problem. An entry that
 * would start Cloister itself is one too.
 */
int config_add(struct config *config, const char *name, const char *data, size_t n,
               struct error *err);

/* A server of one's own to expand, ended with config_server_done(). Returns 0 or -ENOMEM. */
int config_server_copy(const struct config_server *server, struct config_server *ret);
void config_server_done(struct config_server *server);

/* Expands ${VAR}, ${VAR:-default} and a leading ~ in command, args, env values and cwd of a server.
 * lookup returns NULL for a variable that is not set: an error that names it. Called by the monitor
 * before a start, on a copy: values are not to be expanded twice, and after an error some are.
 * -ELOOP: it turns out to be Cloister itself. */
int config_server_expand(struct config_server *server, const char *(*lookup)(const char *name),
                         struct error *err);
