/* `cloister serve`: the MCP server over HTTP. */
#include "supervisor/broker/modes/mode-serve.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cloister-config.h"
#include "supervisor/broker/modes/mode-server.h"

#if HAVE_SERVE

#include "supervisor/http/server.h"
#include "supervisor/mcp/subscriptions.h"

static_assert((int)OPTION_LISTEN_MAX == (int)HTTP_LISTENERS_MAX, "one limit");
static_assert((int)OPTION_NAMES_MAX <= (int)ACCESS_NAMES_MAX, "all names have room");

struct mode_serve {
        struct mode_server server;
        struct http_server *http;
};
static_assert(offsetof(struct mode_serve, server) == 0, "mode-server.h");

static void on_failed(void *data)
{
        broker_end(data, 1);
}

static int open_http(struct broker *broker, struct mode_serve *mode, struct error *err)
{
        const struct options *o = &broker->options;
        _cleanup_free_ char *tokens = NULL;
        struct http_options options = {
                .n_fds = o->n_listen_fds,
                .hosts = o->hosts,
                .n_hosts = o->n_hosts,
                .origins = o->origins,
                .n_origins = o->n_origins,
                .profile = o->profile,
                .helper = o->helper_fd,
                .failed = on_failed,
                .data = broker,
        };
        int r = 0;

        for (size_t i = 0; i < o->n_listen_fds; i++)
                options.fds[i] = o->listen_fds[i];
        if (o->tokens_fd >= 0) {
                r = fd_read_whole(o->tokens_fd, ACCESS_FILE_MAX, &tokens, &options.tokens_length,
                                  err);
                close(o->tokens_fd);
        }
        options.tokens = tokens;
        if (r >= 0)
                r = http_server_new(&mode->http, broker->base, mode->server.mcp, &options, err);
        if (tokens)
                explicit_bzero(tokens, options.tokens_length);
        return r < 0 && o->tokens_fd >= 0 ? error_context(err, "the file of tokens") : r;
}

static int start(struct broker *broker, struct error *err)
{
        struct mode_serve *mode = calloc(1, sizeof(*mode));

        if (!mode)
                return error_errno(err, ENOMEM, "serve");
        broker->data = mode;
        int r = mode_server_start(broker, err);
        return r < 0 ? r : open_http(broker, mode, err);
}

static void stop(struct broker *broker)
{
        struct mode_serve *mode = broker->data;

        subscriptions_close(mode->server.mcp);
}

static void mode_free(struct broker *broker)
{
        struct mode_serve *mode = broker->data;

        if (!mode)
                return;
        mode_server_drop_calls(&mode->server);
        http_server_free(mode->http);
        mode_server_done(&mode->server);
        free(mode);
}

#else

static int start(struct broker *broker, struct error *err)
{
        return error_set(err, ENOSYS,
                         "serve: this Cloister was built without it (-Dhttp=disabled)");
}

static void stop(struct broker *broker)
{
}

static void mode_free(struct broker *broker)
{
}

#endif

const struct broker_mode broker_mode_serve = {
        .start = start,
        .stop = stop,
        .catalogue_changed = mode_server_catalogue_changed,
        .config_changed = mode_server_config_changed,
        .page_done = mode_server_page_done,
        .free = mode_free,
};
