/* `cloister sessions`: asks the running servers of this user over their control sockets. */
#include "supervisor/cli/sessions/sessions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/printable.h"
#include "supervisor/cli/command/fail.h"
#include "supervisor/cli/sessions/servers.h"
#include "supervisor/cli/sessions/session-list.h"
#include "supervisor/cli/sessions/watch.h"

enum {
        STATE_WIDTH = 17,
        PROFILE_WIDTH = 8,
};

static void print_session(const struct server *server, yyjson_val *session, int width, bool colour)
{
        char age[16], idle[16] = "-", took[16], name[128], profile[128], state[32], end[32];
        yyjson_val *last = yyjson_obj_get(session, "last");
        const char *status = json_text(last, "status"), *code = json_text(last, "code");
        bool bad = *status && strcmp(status, "ok") != 0;

        /* The words of a broker, which may be broken. */
        printable_escape(name, sizeof(name), json_text(session, "name"));
        printable_escape(profile, sizeof(profile), json_text(session, "profile"));
        printable_escape(state, sizeof(state), json_text(session, "state"));
        printable_escape(end, sizeof(end), status);

        if (yyjson_obj_get(session, "idle_ms"))
                session_list_time(json_number(session, "idle_ms"), idle);
        printf("%-*s %-*s %7d %6s %6s %6" PRId64 "M %5" PRId64 "  %-*s", width, name, PROFILE_WIDTH,
               profile, (int)server->pid, session_list_time(json_number(session, "age_ms"), age),
               idle, json_number(session, "memory_bytes") / (1024 * 1024),
               json_number(session, "cells"), STATE_WIDTH, state);
        if (last) {
                printf("  %s%s%s %s: ", bad && colour ? "\033[31m" : "", *status ? end : "since",
                       bad && colour ? "\033[0m" : "",
                       session_list_time(json_number(last, "duration_ms"), took));
                printable_print(stdout, code); /* of an agent */
        }
        putchar('\n');
}

static void print_checkpoints(yyjson_val *session)
{
        yyjson_val *list = yyjson_obj_get(session, "checkpoints"), *checkpoint;
        char name[128], age[16];
        size_t i, n;

        yyjson_arr_foreach (list, i, n, checkpoint) {
                printable_escape(name, sizeof(name), json_text(checkpoint, "name"));
                printf("%s%s (call %" PRId64 ", %s)", i > 0 ? ", " : "  checkpoints: ", name,
                       json_number(checkpoint, "cell"),
                       session_list_time(json_number(checkpoint, "age_ms"), age));
        }
        if (yyjson_arr_size(list) > 0)
                putchar('\n');
}

static void print_table(const struct servers *servers)
{
        bool colour = isatty(STDOUT_FILENO) == 1 && !getenv("NO_COLOR");
        int width = 7;
        size_t i, n;
        yyjson_val *session;

        for (size_t k = 0; k < servers->n; k++)
                yyjson_arr_foreach (server_sessions(&servers->list[k]), i, n, session) {
                        int length = (int)strlen(json_text(session, "name"));
                        width = length > width ? length : width;
                }
        printf("%-*s %-*s %7s %6s %6s %7s %5s  %-*s  %s\n", width, "SESSION", PROFILE_WIDTH,
               "PROFILE", "SERVER", "AGE", "IDLE", "MEMORY", "CALLS", STATE_WIDTH, "STATE", "LAST");
        for (size_t k = 0; k < servers->n; k++)
                yyjson_arr_foreach (server_sessions(&servers->list[k]), i, n, session) {
                        print_session(&servers->list[k], session, width, colour);
                        print_checkpoints(session);
                }
}

static size_t count(const struct servers *servers)
{
        size_t n = 0;

        for (size_t i = 0; i < servers->n; i++)
                n += yyjson_arr_size(server_sessions(&servers->list[i]));
        return n;
}

int cli_sessions(const struct options *o, const char *const *words, size_t n)
{
        struct servers servers = {};
        struct error err = {};
        int status = 0;

        if (o->watch)
                return watch_sessions(o);
        servers_find(o->server, &servers);
        servers_ask(&servers);
        if (o->server && servers.n == 0) {
                error_set(&err, ENOENT, "no server of yours has the process id %s", o->server);
                status = cli_fail(1, &err);
        } else if (o->json) {
                int r = session_list_print_json(&servers);
                if (r < 0)
                        status = cli_fail(1, (error_errno(&err, -r, "list sessions"), &err));
        } else if (count(&servers) > 0) {
                print_table(&servers);
        } else {
                fprintf(stderr, "No live sessions (%zu %s running).\n", servers.n,
                        servers.n == 1 ? "server is" : "servers are");
        }
        servers_done(&servers);
        return status;
}

int cli_session_names(void)
{
        struct servers servers = {};
        size_t i, n;
        yyjson_val *session;

        servers_find(NULL, &servers);
        servers_ask(&servers);
        for (size_t k = 0; k < servers.n; k++)
                yyjson_arr_foreach (server_sessions(&servers.list[k]), i, n, session) {
                        printable_print(stdout, json_text(session, "name"));
                        putchar('\n');
                }
        servers_done(&servers);
        return 0;
}

static int command(const struct options *o, const char *const *words, size_t n, const char *method)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(1024);
        struct server_link link;
        _cleanup_json_ yyjson_doc *answer = NULL;
        yyjson_val *result;
        struct error err = {};

        if (n == 0 || !session_name_is_plain(words[0])) {
                error_set(&err, EINVAL,
                          "the NAME of a session is needed (see 'cloister sessions')");
                return cli_fail(2, &err);
        }
        if (n > 1 && !session_name_is_plain(words[1])) {
                error_set(&err, EINVAL, "no checkpoint can be called that");
                return cli_fail(2, &err);
        }
        int r = server_link_open_session(&link, words[0], o->server, &err);
        if (r < 0)
                return cli_fail(1, &err);
        struct json_out out = {.to = &params};
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", words[0]);
        if (n > 1)
                json_out_text(&out, "checkpoint", words[1]);
        json_out_end(&out, '}');
        r = server_link_ask(&link, method, &params, &answer, &result, &err);
        server_link_close(&link);
        return r < 0 ? cli_fail(1, &err) : 0;
}

int cli_sessions_end(const struct options *o, const char *const *words, size_t n)
{
        return command(o, words, n, "sessions/end");
}

int cli_sessions_undo(const struct options *o, const char *const *words, size_t n)
{
        return command(o, words, n, "sessions/undo");
}

int cli_sessions_reset(const struct options *o, const char *const *words, size_t n)
{
        return command(o, words, n, "sessions/reset");
}
