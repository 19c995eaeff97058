/* `cloister serve`: opens the sockets and the file of tokens, which the broker cannot. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/cli/commands.h"
#include "supervisor/cli/listen.h"
#include "supervisor/cli/monitor-command.h"

struct listeners {
        struct listener all[LISTEN_MAX];
        size_t n;
};

static int open_listeners(const struct cli_options *o, struct listeners *l, struct error *err)
{
        int r = 0;

        static_assert((int)LISTEN_MAX == (int)CLI_LISTEN_MAX, "one limit");
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

static int open_tokens(const char *path, struct error *err)
{
        struct stat st;

        if (!path)
                return -1;
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "--tokens %s", path);
        if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
                return error_set(
                        err, EPERM,
                        "--tokens %s: others can read it: 'chmod 600' it, and use new tokens",
                        path);
        return monitor_command_fd(take_fd(fd), err);
}

static int add_arguments(struct monitor_command *command, const struct cli_options *o,
                         struct listeners *l, int tokens, char numbers[LISTEN_MAX + 1][16],
                         struct error *err)
{
        int fds[LISTEN_MAX];

        for (size_t i = 0; i < l->n; i++) {
                fds[i] = monitor_command_fd(l->all[i].fd, err);
                if (fds[i] < 0)
                        return fds[i];
                monitor_command_pass(command, fds[i], numbers[i]);
        }
        monitor_command_pass(command, tokens, numbers[LISTEN_MAX]);
        monitor_command_add(command, "--");
        monitor_command_add(command, "serve");
        for (size_t i = 0; i < l->n; i++)
                monitor_command_add_option(command, "--listen-fd", numbers[i]);
        monitor_command_add_option(command, "--tokens-fd",
                                   tokens >= 0 ? numbers[LISTEN_MAX] : NULL);
        for (size_t i = 0; i < o->n_hosts; i++)
                monitor_command_add_option(command, "--allow-host", o->hosts[i]);
        for (size_t i = 0; i < o->n_origins; i++)
                monitor_command_add_option(command, "--allow-origin", o->origins[i]);
        monitor_command_add_option(command, "--profile", o->profile);
        return 0;
}

int cli_serve(const struct cli_options *o, const char *const *words, size_t n)
{
        char numbers[LISTEN_MAX + 1][16];
        struct monitor_command command;
        struct listeners listeners = {};
        struct error error = {};

        int tokens = open_tokens(o->tokens, &error);
        if (o->tokens && tokens < 0)
                return cli_fail(1, &error);
        if (open_listeners(o, &listeners, &error) < 0)
                return cli_fail(1, &error);
        if (monitor_command_init(&command, "cloister-monitor", "serve", o, &error) < 0)
                return cli_fail(1, &error);
        if (add_arguments(&command, o, &listeners, tokens, numbers, &error) < 0)
                return cli_fail(1, &error);
        for (size_t i = 0; i < listeners.n; i++)
                fprintf(stderr, "cloister: serving MCP at %s\n", listeners.all[i].text);
        monitor_command_exec(&command, &error);
        monitor_command_done(&command);
        return cli_fail(1, &error);
}
