/*
 * A server that is reached by HTTP: the process that the monitor starts for it is cloister-access,
 * which tells the broker the url, the headers and the token. They are in the environment of that
 * process, because its arguments could be read by every process of the machine.
 */
#include "supervisor/monitor/upstream/upstream-access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json-out.h"

/* execve() takes no longer string (MAX_ARG_STRLEN). */
enum { ENTRY_MAX = 120 * 1024 };

static void write_list(struct json_out *out, const char *key, char *const *list)
{
        if (!list)
                return;
        json_out_begin(out, key, '[');
        for (; *list; list++)
                json_out_text(out, NULL, *list);
        json_out_end(out, ']');
}

static int write_entry(struct buffer *b, const struct config_server *server)
{
        struct json_out out = {.to = b};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", server->name);
        json_out_text(&out, "url", server->url);
        write_list(&out, "headers", server->headers);
        if (server->token_file)
                json_out_text(&out, "token_file", server->token_file);
        write_list(&out, "token_command", server->token_command);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(b, "", 1);
}

int upstream_access_prepare(struct config_server *server, const char *program, struct error *err)
{
        _cleanup_buffer_ struct buffer entry = BUFFER_INIT(ENTRY_MAX);
        char **env = reallocarray(server->env, server->n_env + 2, sizeof(char *));
        char *variable = NULL;

        if (!env)
                return error_errno(err, ENOMEM, "start");
        server->env = env;
        env[server->n_env] = NULL;
        int r = write_entry(&entry, server);
        if (r == -EMSGSIZE)
                return error_set(err, EMSGSIZE, "its url, headers and token are longer than %d KiB",
                                 ENTRY_MAX / 1024);
        if (r < 0 || asprintf(&variable, UPSTREAM_ACCESS_VARIABLE "=%s", buffer_bytes(&entry)) < 0)
                return error_errno(err, ENOMEM, "start");
        env[server->n_env++] = variable;
        env[server->n_env] = NULL;
        server->command = strdup(program);
        return server->command ? 0 : error_errno(err, ENOMEM, "start");
}
