/* `cloister reload` and `cloister drain`. */
#include "supervisor/cli/sessions/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/printable.h"
#include "supervisor/cli/command/command.h"
#include "supervisor/cli/sessions/servers.h"

enum { PARAMS_MAX = 256, TEXT_MAX = 600 };

static bool is_service(const struct server *server)
{
        yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(server->answer), "result");

        return strcmp(json_text(result, "mode"), "serve") == 0;
}

/* The only `cloister serve` of this user, or the one with this process id. */
static int find_service(const char *only, struct servers *servers, const struct server **ret,
                        struct error *err)
{
        size_t n = 0;

        servers_find(only, servers);
        servers_ask(servers);
        for (size_t i = 0; i < servers->n; i++) {
                if (!is_service(&servers->list[i]))
                        continue;
                *ret = &servers->list[i];
                n++;
        }
        if (n == 1)
                return 0;
        if (n > 1)
                return error_set(
                        err, E2BIG,
                        "%zu servers are running: name one with --server PID (see 'cloister sessions')",
                        n);
        return only ? error_set(err, ESRCH, "no 'cloister serve' of yours has the process id %s",
                                only)
                    : error_set(err, ESRCH, "no 'cloister serve' of yours is running");
}

/* Sends the request and hands the answer to print(). Returns the exit status. */
static int ask(const struct options *o, const char *method, const struct buffer *params,
               void (*print)(const struct server *server, yyjson_val *result))
{
        static struct servers servers;
        _cleanup_json_ yyjson_doc *answer = NULL;
        const struct server *server = NULL;
        struct server_link link = {.fd = -1};
        yyjson_val *result = NULL;
        struct error err = {};
        char text[TEXT_MAX];

        int r = find_service(o->server, &servers, &server, &err);
        if (r >= 0)
                r = server_link_open(&link, server->path, &err);
        if (r >= 0)
                r = server_link_ask(&link, method, params, &answer, &result, &err);
        if (r >= 0)
                print(server, result);
        server_link_close(&link);
        servers_done(&servers);
        if (r >= 0)
                return 0;
        /* The server parses what sandboxes send: its text may have any bytes. */
        printable_escape(text, sizeof(text), err.text);
        return cli_fail_text(1, "%s", text);
}

static void print_reload(const struct server *server, yyjson_val *result)
{
        const char *names = json_text(result, "at_restart");
        char text[TEXT_MAX];

        printable_escape(text, sizeof(text), names);
        printf("server %d: the config and the tokens were read again\n", (int)server->pid);
        if (*names)
                printf("at the next start: %s\n", text);
}

int cli_reload(const struct options *o, const char *const *words, size_t n)
{
        return ask(o, "server/reload", NULL, print_reload);
}

static void print_drain(const struct server *server, yyjson_val *result)
{
        bool drains = strcmp(json_text(result, "phase"), "draining") == 0;

        printf("server %d: %s, sessions: %" PRId64 "\n", (int)server->pid,
               drains ? "draining, it takes no new sessions" : "it takes new sessions again",
               json_number(result, "sessions"));
}

int cli_drain(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(PARAMS_MAX);
        struct json_out out = {.to = &params};

        if (o->cancel && o->deadline_ms > 0)
                return cli_fail_text(2, "--cancel and --deadline exclude each other");
        json_out_begin(&out, NULL, '{');
        if (o->cancel)
                json_out_bool(&out, "cancel", true);
        if (o->deadline_ms > 0)
                json_out_int(&out, "deadline_ms", o->deadline_ms);
        json_out_end(&out, '}');
        return ask(o, "server/drain", &params, print_drain);
}
