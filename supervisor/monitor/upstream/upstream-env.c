/*
 * The environment of a stdio server.
 *
 * A server is a third-party program, and the user's environment contains credentials. Other clients
 * pass a short list and the entry's own variables (the official SDKs: HOME, LOGNAME, PATH, SHELL,
 * TERM, USER). We pass these and what programs need to run as in the user's shell: language and
 * time zone, temporary and XDG directories, the display, proxies and certificates, and the
 * directories of the usual launchers (node, npm, uv, pip, docker). All others must be in the entry:
 * "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}.
 */
#include "supervisor/monitor/upstream/upstream-env.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const passed[] = {
        "HOME",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "USER", /* the SDKs' list */
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "http_proxy",
        "https_proxy",
        "ftp_proxy",
        "all_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "FTP_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "NVM_DIR",
        "NVM_BIN",
        "VOLTA_HOME",
        "PNPM_HOME",
        "BUN_INSTALL",
        "DENO_DIR",
        "PYENV_ROOT",
        "ASDF_DIR",
        "ASDF_DATA_DIR",
        "JAVA_HOME",
        "GOPATH",
        "CARGO_HOME",
        "DOCKER_HOST",
        "DOCKER_CONFIG",
        "DOCKER_CONTEXT",
        "CONTAINER_HOST",
};

static const char *const passed_prefixes[] = {
        "LC_", "XDG_", "NODE_", "npm_config_", "NPM_CONFIG_", "UV_", "PIP_",
};

/* Variables of these families that hold a credential. */
static const char *const secret_parts[] = {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "_AUTH",
                                           "token", "secret", "password", "_auth"};

static const char default_path[] =
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct env_list {
        char **items; /* NULL-terminated */
        size_t count, room;
};

static size_t name_length(const char *variable)
{
        return strcspn(variable, "=");
}

static bool has_prefix_of_families(const char *variable, size_t n)
{
        bool member = false;

        for (size_t i = 0; i < ARRAY_SIZE(passed_prefixes); i++) {
                size_t length = strlen(passed_prefixes[i]);
                member |= n >= length && strncmp(variable, passed_prefixes[i], length) == 0;
        }
        for (size_t i = 0; member && i < ARRAY_SIZE(secret_parts); i++) {
                const char *found = strstr(variable, secret_parts[i]);
                if (found && found < variable + n)
                        return false;
        }
        return member;
}

static bool is_passed(const char *variable, bool other_home)
{
        size_t n = name_length(variable);

        /* A function exported by an old bash is code; the SDKs leave it out as well. */
        if (variable[n] != '=' || strncmp(variable + n, "=()", 3) == 0)
                return false;
        /* The server runs as another user: our directories are not for it. */
        if (other_home &&
            (strncmp(variable, "XDG_", 4) == 0 || strncmp(variable, "TMPDIR=", 7) == 0))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
                if (strlen(passed[i]) == n && strncmp(variable, passed[i], n) == 0)
                        return true;
        }
        return has_prefix_of_families(variable, n);
}

/* Sets NAME=value, replacing an earlier value. Takes ownership of `variable`; NULL means that
 * there was no memory. */
static int env_put(struct env_list *list, char *variable)
{
        if (!variable)
                return -1;
        size_t n = name_length(variable);
        for (size_t i = 0; i < list->count; i++) {
                if (name_length(list->items[i]) != n || strncmp(list->items[i], variable, n) != 0)
                        continue;
                free(list->items[i]);
                list->items[i] = variable;
                return 0;
        }
        if (list->count + 1 >= list->room) {
                free(variable);
                return -1;
        }
        list->items[list->count++] = variable;
        return 0;
}

static int env_put_pair(struct env_list *list, const char *name, const char *value)
{
        char *variable = NULL;

        if (!value)
                return 0;
        return asprintf(&variable, "%s=%s", name, value) < 0 ? -1 : env_put(list, variable);
}

static int env_fill(struct env_list *list, char *const *parent, const struct upstream_user *user,
                    char *const *own, size_t n_own)
{
        int r = env_put(list, strdup(default_path));

        for (size_t i = 0; r == 0 && parent[i]; i++) {
                if (is_passed(parent[i], user->home != NULL))
                        r = env_put(list, strdup(parent[i]));
        }
        if (r == 0)
                r = env_put_pair(list, "HOME", user->home);
        if (r == 0)
                r = env_put_pair(list, "USER", user->name);
        if (r == 0)
                r = env_put_pair(list, "LOGNAME", user->name);
        for (size_t i = 0; r == 0 && i < n_own; i++)
                r = env_put(list, strdup(own[i]));
        return r;
}

char **upstream_env_new(char *const *parent, const struct upstream_user *user, char *const *own,
                        size_t n_own)
{
        struct env_list list = {.room = n_own + 5};

        for (size_t i = 0; parent[i]; i++)
                list.room++;
        list.items = calloc(list.room, sizeof(char *));
        if (!list.items)
                return NULL;
        if (env_fill(&list, parent, user, own, n_own) < 0) {
                upstream_env_free(list.items);
                return NULL;
        }
        return list.items;
}

void upstream_env_free(char **env)
{
        if (!env)
                return;
        for (size_t i = 0; env[i]; i++)
                free(env[i]);
        free(env);
}
