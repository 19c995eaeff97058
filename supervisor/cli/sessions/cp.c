/*
 * `cloister cp`: copies files between this machine and a session's /workspace.
 *
 * Into the session, a file is written under another name, which begins with a dot, and renamed when it is complete. Out of
 * the session, the names and bytes come from code in the sandbox: receiver.h writes them, below the directory that the
 * command names and nowhere else.
 */
#include "supervisor/cli/sessions/cp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "supervisor/cli/command/fail.h"
#include "supervisor/cli/sessions/copy-in.h"
#include "supervisor/cli/sessions/copy-out.h"

/* SESSION:PATH: the longest part before a colon that is the name of a live session. A path with a slash before the first
 * colon is a local one, as with scp. */
static bool is_remote(const char *word)
{
        const char *colon = strchr(word, ':'), *slash = strchr(word, '/');

        return colon && (!slash || colon < slash);
}

static int split(const char *word, const struct servers *servers, struct copy_end *ret,
                 struct error *err)
{
        const struct server *server = NULL;
        char name[COPY_NAME_SIZE];

        for (const char *colon = word + strlen(word); colon > word; colon--) {
                size_t n = (size_t)(colon - word);
                if (*colon != ':' || n >= sizeof(name))
                        continue;
                snprintf(name, sizeof(name), "%.*s", (int)n, word);
                *err = (struct error){};
                if (!session_name_is_plain(name))
                        continue;
                int r = servers_find_session(servers, name, &server, err);
                if (r < 0 && r != -ENOENT)
                        return r;
                if (r < 0)
                        continue;
                snprintf(ret->socket, sizeof(ret->socket), "%s", server->path);
                snprintf(ret->session, sizeof(ret->session), "%s", name);
                return copy_take_path(colon + 1, ret, err);
        }
        size_t first = strcspn(word, ":");
        return error_set(err, ENOENT, "no live session is called '%.*s' (see 'cloister sessions')",
                         (int)(first < 100 ? first : 100), word);
}

static int find(const char *word, const char *only, struct copy_end *ret, struct error *err)
{
        _cleanup_free_ struct servers *servers = calloc(1, sizeof(*servers));

        if (!servers)
                return error_errno(err, ENOMEM, "find the session");
        servers_find(only, servers);
        servers_ask(servers);
        int r = split(word, servers, ret, err);
        servers_done(servers);
        return r;
}

int cli_cp(const struct options *o, const char *const *words, size_t n)
{
        struct copy copy = {.recursive = o->recursive,
                            .hidden = o->out_hidden,
                            .quiet = o->quiet || isatty(STDERR_FILENO) != 1};
        struct error error = {};

        if (n != 2 || is_remote(words[0]) == is_remote(words[1])) {
                error_set(
                        &error, EINVAL,
                        "cp takes two paths, and one of them is SESSION:PATH (see 'cloister cp --help')");
                return cli_fail(2, &error);
        }
        bool out = is_remote(words[0]);
        int r = find(words[!out], o->server, &copy.end, &error);
        if (r >= 0)
                r = server_link_open(&copy.link, copy.end.socket, &error);
        if (r < 0)
                return cli_fail(EXIT_CLOISTER, &error);
        r = out ? copy_out(&copy, words[1], &error) : copy_in(&copy, words[0], &error);
        server_link_close(&copy.link);
        copy_end_progress(&copy);
        if (r < 0)
                return cli_fail(EXIT_CLOISTER, &error);
        return copy.failed > 0 ? 1 : 0;
}
