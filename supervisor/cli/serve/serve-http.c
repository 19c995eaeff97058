/* `cloister serve`: opens the sockets and the file of tokens, which the broker cannot. */
#include "supervisor/cli/serve/serve-http.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/cli/serve/attest.h"
#include "supervisor/cli/serve/listen.h"
#include "supervisor/cli/serve/serve-helper.h"

struct listeners {
        struct listener all[LISTEN_MAX];
        size_t n;
};

static int open_listeners(const struct options *o, struct listeners *l, struct error *err)
{
        int r = 0;

        static_assert((int)LISTEN_MAX == (int)OPTION_LISTEN_MAX, "one limit");
        for (size_t i = 0; i < o->n_listen && r >= 0; i++) {
                r = listen_open(o->listen[i], &l->all[l->n], err);
                l->n += r >= 0;
        }
        if (o->n_listen == 0) {
                r = listen_inherit(l->all, err);
                l->n = r > 0 ? (size_t)r : 0;
        }
        if (r >= 0 && l->n == 0) {
                r = listen_open(LISTEN_DEFAULT, &l->all[0], err);
                l->n = r >= 0;
        }
        for (size_t i = 0; i < l->n && r >= 0; i++) {
                if (!l->all[i].guarded && !o->tokens)
                        r = error_set(
                                err, EPERM,
                                "%s can be reached by others: --tokens FILE is needed (see 'cloister serve --help')",
                                l->all[i].text);
        }
        return r;
}

/* The descriptors that the broker gets; -1: none. The first ones listen. */
enum { TOKENS = LISTEN_MAX, HELPER, ATTESTATION, FDS };

/* Tokens name the clients. Without tokens, clients of unix sockets are distinguished by their uids, and all
 * other clients share one name. */
static int start_helper(const struct options *o, struct listeners *l, int fds[FDS],
                        struct error *err)
{
        int local[LISTEN_MAX];
        struct serve_helper work = {.listeners = local};
        _cleanup_free_ char *path = NULL;

        for (size_t i = 0; i < l->n; i++) {
                if (l->all[i].is_unix && !o->tokens)
                        local[work.n_listeners++] = l->all[i].fd;
                else
                        fds[i] = l->all[i].fd;
        }
        if (o->tokens && monitor_command_absolute(o->tokens, &path, err) < 0)
                return error_context(err, "--tokens");
        work.tokens = path;
        if (!work.tokens && work.n_listeners == 0)
                return 0;
        fds[HELPER] = serve_helper_start(&work, err);
        return fds[HELPER] < 0 ? fds[HELPER] : 0;
}

static int pass_fds(struct options *o, int fds[FDS], struct error *err)
{
        for (size_t i = 0; i < FDS; i++) {
                if (fds[i] < 0)
                        continue;
                fds[i] = monitor_command_fd(fds[i], err);
                if (fds[i] < 0)
                        return fds[i];
                if (i < LISTEN_MAX)
                        o->listen_fds[o->n_listen_fds++] = fds[i];
        }
        o->tokens_fd = fds[TOKENS];
        o->helper_fd = fds[HELPER];
        o->attestation_fd = fds[ATTESTATION];
        return 0;
}

/* As they are in the headers Host and Origin: what can match nothing is refused. */
static int check_names(const struct options *o, struct error *err)
{
        for (size_t i = 0; i < o->n_hosts; i++) {
                const char *host = o->hosts[i];
                if (!*host || strpbrk(host, "/*@, ") || (*host != '[' && strchr(host, ':')) ||
                    (*host == '[' && host[strlen(host) - 1] != ']'))
                        return error_set(
                                err, EINVAL,
                                "--allow-host %s: a name or an address is needed, without https:// and port: mcp.example.org or [2001:db8::1]",
                                host);
        }
        for (size_t i = 0; i < o->n_origins; i++) {
                const char *host = strstr(o->origins[i], "://");
                if (!host || host == o->origins[i] || !host[3] || strpbrk(host + 3, "/*@, "))
                        return error_set(
                                err, EINVAL,
                                "--allow-origin %s: SCHEME://HOST or SCHEME://HOST:PORT is needed, without a path: https://app.example.org",
                                o->origins[i]);
        }
        return 0;
}

static int open_all(const struct options *o, struct listeners *l, int fds[FDS], int *status,
                    struct error *err)
{
        int r = check_names(o, err);

        for (size_t i = 0; i < FDS; i++)
                fds[i] = -1;
        if (r >= 0 && o->tokens)
                r = fds[TOKENS] = serve_tokens_open(o->tokens, err);
        if (r >= 0 && o->attest)
                r = fds[ATTESTATION] = attest_run(o, status, err);
        if (r >= 0)
                r = open_listeners(o, l, err);
        return r < 0 ? r : start_helper(o, l, fds, err);
}

int cli_serve(const struct options *o, const char *const *words, size_t n)
{
        int fds[FDS], status = 1;
        struct monitor_command command;
        struct listeners listeners = {};
        struct error error = {};

        if (open_all(o, &listeners, fds, &status, &error) < 0)
                return cli_fail(status, &error);
        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        if (pass_fds(&command.options, fds, &error) < 0)
                return cli_fail(1, &error);
        for (size_t i = 0; i < listeners.n; i++)
                fprintf(stderr, "cloister: serving MCP at %s\n", listeners.all[i].text);
        monitor_command_exec(&command, PROGRAM_MONITOR, "serve", &error);
        monitor_command_done(&command);
        return cli_fail(1, &error);
}
