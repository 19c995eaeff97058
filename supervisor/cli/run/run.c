/* `cloister run`: collects what the code gets, and becomes the monitor. */
#include "supervisor/cli/run/run.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/file-path.h"
#include "base/json-out.h"
#include "base/utf8.h"
#include "policy/language.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/cli/command/script.h"
#include "supervisor/cli/run/feeder.h"
#include "supervisor/cli/run/inputs.h"
#include "supervisor/cli/run/script-needs.h"
#include "supervisor/cli/sessions/cp.h"
#include "supervisor/cli/sessions/exec.h"
#include "supervisor/cli/sessions/receiver.h"

/* The request that begins a session of a server has at most CONTROL_LINE_MAX bytes. */
enum { PROMPT_SCRIPT_MAX = 512 * 1024 };

/* Any /workspace has room for such a script (the least limits.workspace is 64 KiB). */
enum { ALONE_MAX = 32 * 1024 };

/* The code and its inputs. Descriptors are the broker's; -1: none. */
struct run {
        struct options *options; /* with what the script needs */
        struct script_needs needs;
        char files_key[REQUIREMENTS_KEY_SIZE];
        const char *path;  /* of the script, "-" for standard input, or NULL: -c */
        const char *name;  /* of the code in tracebacks */
        const char *first; /* sys.argv[0] */
        char *text;        /* owned */
        size_t length;
        char file[FILE_PATH_MAX + 16]; /* __file__, or "" */
        bool is_alone;                 /* the script is the only file of the code */
        char *mounts, *variables;
        int code, script, in, out, standard_input;
        int status; /* if it fails */
};

/* ---- what is passed on as JSON: arguments and environment of the code, mounts ---- */

/* The longest arguments and environment that are passed on. */
enum { RUN_SCRIPT_MAX = 8 * 1024 * 1024 };

/* The target is an absolute path: it begins after the last colon before a slash. */
static const char *find_target(const char *given)
{
        const char *target = NULL;

        for (const char *p = given; (p = strstr(p, ":/")); p++)
                target = p + 1;
        return target;
}

static int add(struct json_out *out, const char *given, struct error *err)
{
        char source[PATH_MAX], real[PATH_MAX];
        const char *target = find_target(given);
        const char *mode = target ? strrchr(target, ':') : NULL;
        size_t n = target ? (size_t)(target - given) - 1 : 0;

        if (n == 0 || n >= sizeof(source) ||
            (mode && strcmp(mode, ":ro") != 0 && strcmp(mode, ":rw") != 0))
                return error_set(
                        err, EINVAL,
                        "--mount %.200s: SOURCE:TARGET is needed, with an absolute TARGET, and :ro (the default) or :rw after it",
                        given);
        snprintf(source, sizeof(source), "%.*s", (int)n, given);
        if (!realpath(source, real))
                return error_errno(err, errno, "--mount %s", source);
        n = mode ? (size_t)(mode - target) : strlen(target);
        if (!utf8_is_valid(real, strlen(real)) || !utf8_is_valid(target, n))
                return error_set(err, EILSEQ, "--mount: a path is not UTF-8");
        json_out_begin(out, NULL, '{');
        json_out_text(out, "source", real);
        json_out_string(out, "target", target, n);
        json_out_text(out, "mode", mode ? mode + 1 : "ro");
        json_out_end(out, '}');
        return 0;
}

/* *ret: JSON of an object with the key "mounts" (docs/config.md), which the monitor checks; owned by the
 * caller. NULL without --mount. */
static int mounts_text(const struct options *o, char **ret, struct error *err)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(OPTION_MOUNTS_MAX * 4 * PATH_MAX);
        struct json_out out = {.to = &b};
        int r = 0;

        *ret = NULL;
        if (o->n_mounts == 0)
                return 0;
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "mounts", '[');
        for (size_t i = 0; i < o->n_mounts && r >= 0; i++)
                r = add(&out, o->mounts[i], err);
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        if (r < 0)
                return r;
        *ret = out.error ? NULL : strndup(buffer_bytes(&b), b.length);
        return *ret ? 0 : error_errno(err, out.error ? -out.error : ENOMEM, "--mount");
}

/* NAME=VALUE, or NAME, whose value is that in Cloister's own environment. Returns the length of the
 * name. */
static int take_variable(const char *given, const char **value, struct error *err)
{
        size_t n = strcspn(given, "=");
        bool named = n > 0 && !isdigit((unsigned char)given[0]);

        for (size_t i = 0; i < n; i++)
                named = named && (isalnum((unsigned char)given[i]) || given[i] == '_');
        if (!named || n > 255)
                return error_set(
                        err, EINVAL,
                        "--env %.100s: the name of a variable has letters, digits and _, and no digit first",
                        given);
        *value = given[n] == '=' ? given + n + 1 : getenv(given);
        if (!*value)
                return error_set(
                        err, ENOENT,
                        "--env %s: this variable is not set; give its value: --env %s=VALUE", given,
                        given);
        return (int)n;
}

/* Checks the values of --env, and finds those that Cloister's own environment has. */
static int check_environment(const struct options *o, struct error *err)
{
        const char *value;
        int r = 0;

        for (size_t i = 0; i < o->n_env && r >= 0; i++)
                r = take_variable(o->env[i], &value, err);
        return r < 0 ? r : 0;
}

/* The names without the values, for the monitor: it refuses those that secrets come from. */
static int list_variables(const struct options *o, char **ret, struct error *err)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(RUN_SCRIPT_MAX);
        int r = 0;

        for (size_t i = 0; i < o->n_env && r >= 0; i++)
                r = buffer_printf(&b, "%.*s,", (int)strcspn(o->env[i], "="), o->env[i]);
        if (r >= 0 && b.length > 0)
                *ret = strndup(buffer_bytes(&b), b.length);
        return r < 0 || (b.length > 0 && !*ret) ? error_errno(err, ENOMEM, "--env") : 0;
}

static void append_environment(struct json_out *out, const struct options *o)
{
        const char *value;

        json_out_begin(out, "environment", '{');
        for (size_t i = 0; i < o->n_env; i++) {
                int n = take_variable(o->env[i], &value, NULL);
                if (n < 0)
                        continue; /* check_environment() has refused it */
                json_out_key(out, o->env[i], (size_t)n);
                json_out_bytes(out, NULL, value, strlen(value));
        }
        json_out_end(out, '}');
}

/* first: sys.argv[0]; file: __file__, or NULL; write: the worker must write the code there. Returns a
 * sealed memfd. */
static int collect_script(const struct options *o, const char *first, const char *file, bool write,
                          enum feeder_input input, struct error *err)
{
        static const char *const names[] = {
                [FEEDER_NONE] = "none", [FEEDER_PIPE] = "pipe", [FEEDER_TERMINAL] = "terminal"};
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(RUN_SCRIPT_MAX);

        struct json_out out = {.to = &b};

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "arguments", '[');
        json_out_bytes(&out, NULL, first, strlen(first));
        for (size_t i = 0; i < o->n_rest; i++)
                json_out_bytes(&out, NULL, o->rest[i], strlen(o->rest[i]));
        json_out_end(&out, ']');
        append_environment(&out, o);
        if (file)
                json_out_bytes(&out, "file", file, strlen(file));
        if (write)
                json_out_bool(&out, "write", true);
        json_out_text(&out, "input", names[input]);
        json_out_end(&out, '}');
        if (out.error == -EMSGSIZE)
                return error_set(err, E2BIG,
                                 "the arguments of the code, and --env, are longer than %d MiB",
                                 RUN_SCRIPT_MAX >> 20);
        if (out.error < 0)
                return error_errno(err, -out.error, "arguments of the code");
        return fd_sealed("script", buffer_bytes(&b), b.length, err);
}

/* ---- run -i: a prompt, and a server for it, which ends with the prompt ---- */

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
static _Noreturn void become_server(const struct run *run, int in, int out)
{
        struct monitor_command command;
        struct error err = {};

        setpgid(0, 0);
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        if (monitor_command_init(&command, run->options, &err) >= 0) {
                command.options.mounts_text = run->mounts;
                command.options.variables = run->variables;
                monitor_command_exec(&command, PROGRAM_MONITOR, "mcp", &err);
        }
        _exit(cli_fail(EXIT_CLOISTER, &err));
}

static int start_server(const struct run *run, struct child *ret, struct error *err)
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
                become_server(run, in[0], out[1]);
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
        struct servers servers = {};
        char pid[16];

        snprintf(pid, sizeof(pid), "%d", (int)child->pid);
        servers_find(pid, &servers);
        if (servers.n == 0)
                return error_set(err, ENOENT, "the server has no control socket: XDG_RUNTIME_DIR");
        return server_link_open(ret, servers.list[0].path, err);
}

/* ---- the conversation ---- */

struct talk {
        const struct run *run;
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

        if (t->run->in < 0)
                return 0;
        int r = owner_cell_run(&t->cells, &t->link, "", 0, NULL, err);
        if (r != 0)
                return r;
        r = copy_in_stream(&copy, t->run->in, err);
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
        copy.hidden = t->run->options->out_hidden;
        snprintf(copy.path, sizeof(copy.path), "out");
        int r = copy_out_all(&copy, t->cells.out, &err);
        t->link = copy.link;
        if (r == -ENOENT)
                return cli_fail_text(status,
                                     "the files in /workspace/out are lost with the sandbox");
        if (r < 0)
                error_context(&err, "--out");
        if (r < 0 && r != -ECANCELED)
                return cli_fail(status == 0 ? EXIT_CLOISTER : status, &err);
        return status == 0 && copy.failed > 0 ? EXIT_CLOISTER : status;
}

/* Returns the exit status, or negative errno. */
static int begin(struct talk *t, const struct child *child, struct error *err)
{
        const struct run *run = t->run;
        const struct options *o = run->options;
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
                r = owner_cell_run(&t->cells, &t->link, run->text ? run->text : "", run->length,
                                   run->name, err);
        return r;
}

static int talk(const struct run *run, const char *script, const struct child *child,
                struct error *err)
{
        struct talk t = {
                .run = run,
                .cells = {.session = "default", .create = true, .script = script},
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

/* A server of its own, with one session. Returns the exit status. */
static int prompt_with_server(const struct run *run, const char *script)
{
        struct child child = {.in = -1, .out = -1};
        struct error err = {};

        int r = start_server(run, &child, &err);
        if (r < 0)
                return cli_fail(EXIT_CLOISTER, &err);
        if (greet(&child) < 0)
                return stop(&child);
        owner_cells_hold_signals();
        r = talk(run, script, &child, &err);
        stop(&child);
        return r < 0 ? cli_fail(EXIT_CLOISTER, &err) : r;
}

/* ---- the command ---- */

static void run_done(struct run *run)
{
        int fds[] = {run->code, run->script, run->in, run->out, run->standard_input};

        fd_close_many(fds, ARRAY_SIZE(fds));
        free(run->mounts);
        script_needs_done(&run->needs);
        free(run->text);
}

static bool is_javascript(const struct options *o)
{
        return o->language && language_parse(o->language) == LANGUAGE_JAVASCRIPT;
}

/* The language by the name of a file; NULL: that of the profile. */
static const char *language_of(const char *path)
{
        static const struct {
                const char *suffix;
                enum language language;
        } known[] = {
                {".py", LANGUAGE_PYTHON},      {".js", LANGUAGE_JAVASCRIPT},
                {".mjs", LANGUAGE_JAVASCRIPT}, {".cjs", LANGUAGE_JAVASCRIPT},
                {".ts", LANGUAGE_JAVASCRIPT},  {".mts", LANGUAGE_JAVASCRIPT},
                {".cts", LANGUAGE_JAVASCRIPT},
        };
        const char *suffix = path ? strrchr(path, '.') : NULL;

        for (size_t i = 0; suffix && i < ARRAY_SIZE(known); i++)
                if (strcmp(suffix, known[i].suffix) == 0)
                        return language_names[known[i].language];
        return NULL;
}

/* Puts the code into a sealed memfd that survives the exec. */
static int prepare_code(struct run *run, struct error *err)
{
        const char *code = run->options->code;

        if (code) {
                run->name = "<string>";
                run->first = "-c";
        } else if (!run->path) {
                run->first = ""; /* as `python -i` has it */
                return 0;
        } else {
                run->name = strcmp(run->path, "-") == 0 ? "<stdin>" : run->path;
                run->first = run->path;
        }
        int r = script_take(code, run->path, &run->text, &run->length, err);
        if (r < 0)
                return r;
        /* The first memfd; a sandbox needs others. */
        int fd = fd_sealed("code", run->text, run->length, err);
        if (fd < 0)
                run->status = EXIT_NO_SANDBOX;
        run->code = monitor_command_fd(fd, err);
        return run->code < 0 || is_javascript(run->options)
                       ? run->code
                       : script_needs_add(run->name, run->text, run->length, run->code,
                                          run->options, &run->needs, err);
}

/* The script and its modules are in /workspace, so that files of --in are beside it. A small script that is
 * the only file is written by the worker, which has it as code: no sandbox is waited for before that is sent. */
static int add_script(struct run *run, struct inputs *inputs, struct error *err)
{
        const char *slash = strrchr(run->path, '/'), *name = slash ? slash + 1 : run->path;

        if (!file_path_valid(name, strlen(name)) || strcmp(name, "out") == 0)
                return 0;
        int r = is_javascript(run->options)
                        ? 0
                        : inputs_add_modules(inputs, run->path, run->text, run->length, err);
        if (r < 0)
                return r;
        run->is_alone = r == 0 && run->options->n_ins == 0 && run->length <= ALONE_MAX &&
                        !run->options->prompt;
        if (!run->is_alone)
                r = inputs_add_text(inputs, name, run->text, run->length, err);
        snprintf(run->file, sizeof(run->file), "/workspace/%s", name);
        return r;
}

static int prepare_inputs(struct run *run, struct error *err)
{
        const struct options *o = run->options;
        struct inputs inputs;

        if (o->n_ins == 0 && (!run->path || strcmp(run->path, "-") == 0))
                return 0;
        int r = inputs_begin(&inputs, err);
        if (r >= 0 && run->path && strcmp(run->path, "-") != 0)
                r = add_script(run, &inputs, err);
        for (size_t i = 0; i < o->n_ins && r >= 0; i++)
                r = inputs_add(&inputs, o->ins[i], err);
        if (r >= 0 && inputs.skipped > 0)
                fprintf(stderr,
                        "cloister: --in: %zu symbolic links and special files were left out\n",
                        inputs.skipped);
        if (r >= 0)
                run->in = monitor_command_fd(inputs_end(&inputs, err), err);
        inputs_done(&inputs);
        return r < 0 ? r : run->in < 0 && error_is_set(err) ? -EIO : 0;
}

static int prepare_script(struct run *run, struct error *err)
{
        /* The script was the input, or the lines of the prompt are. */
        bool is_read = run->options->prompt || (run->path && strcmp(run->path, "-") == 0);
        enum feeder_input kind = is_read ? FEEDER_NONE : feeder_kind();

        int fd = collect_script(run->options, run->first, *run->file ? run->file : NULL,
                                run->is_alone, kind, err);
        run->script = monitor_command_fd(fd, err);
        if (run->script < 0)
                return run->script;
        if (kind == FEEDER_NONE)
                return 0;
        run->standard_input = monitor_command_fd(feeder_start(err), err);
        return run->standard_input;
}

static int prepare(struct run *run, struct error *err)
{
        struct options *o = run->options;

        int r = requirements_key(&o->set, run->files_key, err);
        o->set.files_key = *run->files_key ? run->files_key : NULL;
        if (r >= 0)
                r = mounts_text(o, &run->mounts, err);
        if (r >= 0)
                r = list_variables(o, &run->variables, err);
        if (r >= 0)
                r = prepare_code(run, err);
        if (r >= 0)
                r = prepare_inputs(run, err);
        if (r >= 0 && o->out && !o->prompt)
                r = run->out = monitor_command_fd(receiver_start(o->out, o->out_hidden, err), err);
        return r < 0 ? r : prepare_script(run, err);
}

/* The terminal, for questions about calls of tools. In the background no person could be asked. */
static int open_terminal(void)
{
        _cleanup_close_ int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
        struct error ignored = {};

        if (fd < 0 || tcgetpgrp(fd) != getpgrp())
                return -1;
        return monitor_command_fd(take_fd(fd), &ignored);
}

static int start(const struct run *run)
{
        struct options *o = run->options;

        o->code_fd = run->code;
        o->code_name = run->name;
        o->script_fd = run->script;
        o->in_fd = run->in;
        o->out_fd = run->out;
        o->stdin_fd = run->standard_input;
        o->terminal_fd = open_terminal();
        o->mounts_text = run->mounts;
        o->variables = run->variables;
        return monitor_command_leave(o, PROGRAM_MONITOR, "run", EXIT_CLOISTER);
}

static int check_prompt(const struct options *o, const char *path, struct error *err)
{
        if (o->json)
                return error_set(err, EINVAL,
                                 "-i and --json do not go together: a prompt has no single result");
        if (path && strcmp(path, "-") == 0)
                return error_set(
                        err, EINVAL,
                        "-i reads its lines from standard input: give the script as a FILE");
        return 0;
}

static int check(const struct options *o, const char *path, struct error *err)
{
        const char *python_packages = cli_option_given(o, CLI_OPTIONS(CLI_WITH, CLI_REQUIREMENTS));
        const char *packages = cli_option_given(o,
                                                CLI_OPTIONS(CLI_WITH, CLI_REQUIREMENTS, CLI_NPM));

        if (o->prompt) {
                int r = check_prompt(o, path, err);
                if (r < 0)
                        return r;
        } else if (!o->code && !path)
                return error_set(
                        err, EINVAL,
                        "run needs a FILE, -c CODE, or - for standard input (see 'cloister run --help')");
        if (o->given[CLI_IMAGE] && packages)
                return error_set(
                        err, EINVAL,
                        "--image and %s do not go together: 'cloister image build %s …' makes an image",
                        packages, packages);
        if (o->language && language_parse(o->language) < 0)
                return error_set(err, EINVAL, "--language %.60s: python or javascript",
                                 o->language);
        if (is_javascript(o) && python_packages)
                return error_set(err, EINVAL, "%s adds packages of Python: not with JavaScript",
                                 python_packages);
        if (!is_javascript(o) && o->given[CLI_NPM])
                return error_set(
                        err, EINVAL,
                        "--npm adds packages of JavaScript: the code is Python (--language javascript)");
        if (o->label && o->n_ins == 0)
                return error_set(err, EINVAL, "--label needs --in FILE");
        if (o->out_hidden && !o->out)
                return error_set(err, EINVAL, "--out-hidden needs --out DIRECTORY");
        return check_environment(o, err);
}

/* The prompt is this process, and the server another one, which gets none of the descriptors. */
static int run_prompt(struct run *run, struct error *err)
{
        _cleanup_free_ char *script = NULL;
        size_t n = 0;

        int r = fd_read_whole(run->script, PROMPT_SCRIPT_MAX, &script, &n, err);
        if (r == -EFBIG)
                error_set(
                        err, E2BIG,
                        "the arguments of the code, and --env, are longer than %d KiB: too long for -i",
                        PROMPT_SCRIPT_MAX >> 10);
        const int fds[] = {run->code, run->script, run->in};
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                if (fds[i] >= 0)
                        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        }
        return r < 0 ? r : prompt_with_server(run, script);
}

int cli_run(const struct options *o, const char *const *words, size_t n)
{
        struct options own = *o;
        struct run run = {
                .options = &own,
                .path = !o->code && n > 0 ? words[0] : NULL,
                .code = -1,
                .script = -1,
                .in = -1,
                .out = -1,
                .standard_input = -1,
                .status = EXIT_CLOISTER,
        };
        struct error error = {};

        if (!own.language)
                own.language = language_of(run.path);
        if (check(&own, run.path, &error) < 0)
                return cli_fail(2, &error);
        int status = prepare(&run, &error);
        if (status >= 0)
                status = o->prompt ? run_prompt(&run, &error) : start(&run);
        if (status < 0)
                status = cli_fail(run.status, &error);
        run_done(&run);
        return status;
}
