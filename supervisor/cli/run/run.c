/* `cloister run`: collects what the code gets, and becomes the monitor. */
#include "supervisor/cli/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/file-path.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/cli/command/script.h"
#include "supervisor/cli/run/feeder.h"
#include "supervisor/cli/run/inputs.h"
#include "supervisor/cli/run/prompt-server.h"
#include "supervisor/cli/run/run-script.h"
#include "supervisor/cli/run/script-needs.h"
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
        char *text;        /* owned, unless it is that of -c */
        size_t length;
        char file[FILE_PATH_MAX + 16]; /* __file__, or "" */
        bool is_alone;                 /* the script is the only file of the code */
        char *mounts;
        int code, script, in, out, standard_input;
        int status; /* if it fails */
};

static void run_done(struct run *run)
{
        int fds[] = {run->code, run->script, run->in, run->out, run->standard_input};

        fd_close_many(fds, ARRAY_SIZE(fds));
        free(run->mounts);
        script_needs_done(&run->needs);
        if (run->path)
                free(run->text);
}

/* Puts the code into a sealed memfd that survives the exec. */
static int prepare_code(struct run *run, struct error *err)
{
        const char *code = run->options->code;
        int r;

        if (code) {
                run->name = "<string>";
                run->first = "-c";
                run->text = (char *)code;
                run->length = strlen(code);
                r = script_check("-c", code, run->length, err);
        } else if (!run->path) {
                run->first = ""; /* as `python -i` has it */
                return 0;
        } else {
                run->name = strcmp(run->path, "-") == 0 ? "<stdin>" : run->path;
                run->first = run->path;
                r = script_read(run->path, &run->text, &run->length, err);
        }
        if (r < 0)
                return r;
        /* The first memfd; a sandbox needs others. */
        int fd = fd_sealed("code", run->text, run->length, err);
        if (fd < 0)
                run->status = EXIT_NO_SANDBOX;
        run->code = monitor_command_fd(fd, err);
        return run->code < 0 ? run->code
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
        int r = inputs_add_modules(inputs, run->path, run->text, run->length, err);
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

        int fd = run_script_collect(run->options, run->first, *run->file ? run->file : NULL,
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
                r = run_mounts_text(o, &run->mounts, err);
        if (r >= 0)
                r = prepare_code(run, err);
        if (r >= 0)
                r = prepare_inputs(run, err);
        if (r >= 0 && o->out && !o->prompt)
                r = run->out = monitor_command_fd(receiver_start(o->out, o->out_hidden, err), err);
        return r < 0 ? r : prepare_script(run, err);
}

static int start(const struct run *run)
{
        struct monitor_command command;
        struct error error = {};

        if (monitor_command_init(&command, run->options, &error) < 0)
                return cli_fail(EXIT_CLOISTER, &error);
        struct options *o = &command.options;
        o->code_fd = run->code;
        o->code_name = run->name;
        o->script_fd = run->script;
        o->in_fd = run->in;
        o->out_fd = run->out;
        o->stdin_fd = run->standard_input;
        o->mounts_text = run->mounts;
        return monitor_command_leave(&command, PROGRAM_MONITOR, "run", EXIT_CLOISTER);
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
        uint64_t packages = o->given & (CLI_WITH | CLI_REQUIREMENTS);

        if (o->prompt) {
                int r = check_prompt(o, path, err);
                if (r < 0)
                        return r;
        } else if (!o->code && !path)
                return error_set(
                        err, EINVAL,
                        "run needs a FILE, -c CODE, or - for standard input (see 'cloister run --help')");
        if ((o->given & CLI_IMAGE) && packages)
                return error_set(
                        err, EINVAL,
                        "--image and %s do not go together: 'cloister image build %s …' makes an image",
                        cli_option_name(packages & -packages),
                        cli_option_name(packages & -packages));
        if (o->out_hidden && !o->out)
                return error_set(err, EINVAL, "--out-hidden needs --out DIRECTORY");
        return run_script_check(o, err);
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
        const struct prompt_start start = {
                .options = run->options,
                .name = run->text ? run->name : NULL,
                .code = run->text,
                .length = run->length,
                .script = script,
                .mounts = run->mounts,
                .in = run->in,
        };
        return r < 0 ? r : prompt_with_server(&start);
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

        if (check(o, run.path, &error) < 0)
                return cli_fail(2, &error);
        int status = prepare(&run, &error);
        if (status >= 0)
                status = o->prompt ? run_prompt(&run, &error) : start(&run);
        if (status < 0)
                status = cli_fail(run.status, &error);
        run_done(&run);
        return status;
}
