/* `cloister run -i`: a prompt and a server for it, which ends with the prompt. */
#include "supervisor/cli/run/prompt-server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/cli/sessions/cp.h"
#include "supervisor/cli/sessions/exec.h"

/* The server is one of MCP like any other; this request only shows that it listens. */
static const char hello[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"cloister run -i\","
        "\"version\":\"1\"}}}\n";

struct child {
        pid_t pid;
        int in, out; /* -1: none */
};

/* In the child: a process group of its own, so that Ctrl-C reaches only the prompt. */
static _Noreturn void become_server(const struct prompt_start *what, int in, int out)
{
        struct monitor_command command;
        struct error err = {};

        setpgid(0, 0);
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        if (monitor_command_init(&command, what->options, &err) >= 0) {
                command.options.mounts_text = what->mounts;
                monitor_command_exec(&command, PROGRAM_MONITOR, "mcp", &err);
        }
        _exit(cli_fail(EXIT_CLOISTER, &err));
}

static int start(const struct prompt_start *what, struct child *ret, struct error *err)
{
        int in[2], out[2];

        if (pipe2(in, O_CLOEXEC) < 0)
                return error_errno(err, errno, "start a server");
        if (pipe2(out, O_CLOEXEC) < 0) {
                fd_close_many(in, 2);
                return error_errno(err, errno, "start a server");
        }
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
                become_server(what, in[0], out[1]);
        close(in[0]);
        close(out[1]);
        *ret = (struct child){.pid = pid, .in = in[1], .out = out[0]};
        return pid < 0 ? error_errno(err, errno, "start a server") : 0;
}

/* Returns the exit status of a server that has ended. */
static int stop(struct child *child)
{
        int fds[] = {child->in, child->out}, status = 0;

        fd_close_many(fds, 2);
        while (child->pid > 0 && waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
                ;
        return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_CLOISTER;
}

/* Waits for the server's first answer. -EPIPE: it has ended, and said why. */
static int greet(const struct child *child)
{
        char byte = 0;

        signal(SIGPIPE, SIG_IGN);
        int r = fd_write_all(child->in, hello, sizeof(hello) - 1);
        signal(SIGPIPE, SIG_DFL);
        while (r >= 0 && byte != '\n') {
                ssize_t n = read(child->out, &byte, 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -EPIPE;
        }
        return r;
}

static int open_link(const struct child *child, struct server_link *ret, struct error *err)
{
        _cleanup_free_ struct servers *servers = calloc(1, sizeof(*servers));
        char pid[16];

        if (!servers)
                return error_errno(err, ENOMEM, "find the server");
        snprintf(pid, sizeof(pid), "%d", (int)child->pid);
        servers_find(pid, servers);
        if (servers->n == 0)
                return error_set(err, ENOENT, "the server has no control socket: XDG_RUNTIME_DIR");
        return server_link_open(ret, servers->list[0].path, err);
}

/* ---- the conversation ---- */

struct talk {
        const struct prompt_start *what;
        struct owner_cells cells;
        struct server_link link;
        struct file_writer out;
};

static bool has_failed(int r)
{
        return r < 0 || r == EXIT_CLOISTER || r == EXIT_NO_SANDBOX;
}

static struct copy copy_of(const struct talk *t)
{
        struct copy copy = {.link = t->link, .recursive = true, .quiet = true};

        snprintf(copy.session, sizeof(copy.session), "%s", t->cells.session);
        return copy;
}

/* The session begins with an empty cell, if there are files for it: they are there before the code runs. */
static int put_files(struct talk *t, struct error *err)
{
        struct copy copy = copy_of(t);

        if (t->what->in < 0)
                return 0;
        int r = owner_cell_run(&t->cells, &t->link, "", 0, NULL, err);
        if (r != 0)
                return r;
        r = copy_in_stream(&copy, t->what->in, err);
        t->link = copy.link;
        return r < 0 ? error_context(err, "--in") : 0;
}

/* Copies the files of /workspace/out at the end, as `cloister run` does. Returns the exit status. */
static int collect(struct talk *t, int status)
{
        struct copy copy = copy_of(t);
        struct error err = {};

        if (!t->cells.out || t->link.fd < 0)
                return status;
        copy.hidden = t->what->options->out_hidden;
        snprintf(copy.path, sizeof(copy.path), "out");
        int r = copy_out_all(&copy, t->cells.out, &err);
        t->link = copy.link;
        if (r == -ENOENT) {
                error_set(&err, ENOENT, "the files in /workspace/out are lost with the sandbox");
                return cli_fail(status, &err);
        }
        if (r < 0)
                error_context(&err, "--out");
        if (r < 0 && r != -ECANCELED)
                return cli_fail(status == 0 ? EXIT_CLOISTER : status, &err);
        return status == 0 && copy.failed > 0 ? EXIT_CLOISTER : status;
}

/* Returns the exit status, or negative errno. */
static int begin(struct talk *t, const struct child *child, struct error *err)
{
        const struct prompt_start *what = t->what;
        const struct options *o = what->options;
        int r = 0;

        t->cells.timeout_ms = o->timeout_ms;
        if (o->out)
                r = file_writer_open(&t->out, o->out, o->out_hidden, err);
        t->cells.out = o->out ? &t->out : NULL;
        if (r >= 0)
                r = open_link(child, &t->link, err);
        if (r >= 0)
                r = put_files(t, err);
        if (r == 0)
                r = owner_cell_run(&t->cells, &t->link, what->code ? what->code : "", what->length,
                                   what->name, err);
        return r;
}

static int talk(const struct prompt_start *what, const struct child *child, struct error *err)
{
        struct talk t = {
                .what = what,
                .cells = {.session = "default", .create = true, .script = what->script},
                .link = {.fd = -1},
                .out = {.fd = -1},
        };
        struct error written = {};

        int r = begin(&t, child, err);
        bool failed = has_failed(r);
        t.cells.show_value = true;
        if (!failed && !t.cells.has_exited)
                r = prompt_run(&t.cells, &t.link);
        if (!failed)
                r = collect(&t, r);
        server_link_close(&t.link);
        if (file_writer_close(&t.out, true, &written) < 0)
                r = cli_fail(EXIT_CLOISTER, (error_context(&written, "--out"), &written));
        return r;
}

int prompt_with_server(const struct prompt_start *what)
{
        struct child child = {.in = -1, .out = -1};
        struct error err = {};

        int r = start(what, &child, &err);
        if (r < 0)
                return cli_fail(EXIT_CLOISTER, &err);
        if (greet(&child) < 0)
                return stop(&child);
        owner_cells_hold_signals();
        r = talk(what, &child, &err);
        stop(&child);
        return r < 0 ? cli_fail(EXIT_CLOISTER, &err) : r;
}
