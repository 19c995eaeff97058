/* The commands that other executables carry out: run, mcp and tools (monitor, broker), doctor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "supervisor/cli/attest.h"
#include "supervisor/cli/commands.h"
#include "supervisor/cli/inputs.h"
#include "supervisor/cli/monitor-command.h"
#include "supervisor/cli/receiver.h"
#include "supervisor/cli/script.h"

static int leave(struct monitor_command *command, int status)
{
        struct error error = {};

        monitor_command_exec(command, &error);
        monitor_command_done(command);
        /* A call is refused, by what surrounds Cloister: the program itself would name it. */
        if (error.code == EPERM || error.code == ENOSYS || error.code == EINVAL)
                status = EXIT_NO_SANDBOX;
        return cli_fail(status, &error);
}

enum { STATUS_FAILED = 125 /* of run: Cloister failed, not the code */ };

int cli_mcp(const struct cli_options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        char number[16];
        int status = 1;

        _cleanup_close_ int report = o->given & CLI_ATTEST
                                             ? monitor_command_fd(attest_run(o, &status, &error),
                                                                  &error)
                                             : -1;
        if ((o->given & CLI_ATTEST) && report < 0)
                return cli_fail(status, &error);
        if (monitor_command_init(&command, "cloister-monitor", "serve", o, &error) < 0)
                return cli_fail(1, &error);
        monitor_command_pass(&command, report, number);
        monitor_command_add(&command, "--");
        monitor_command_add(&command, "mcp");
        monitor_command_add_option(&command, "--attestation-fd", report >= 0 ? number : NULL);
        monitor_command_add_option(&command, "--profile", o->profile);
        return leave(&command, 1);
}

int cli_tools(const struct cli_options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        if (monitor_command_init(&command, "cloister-monitor", "serve", o, &error) < 0)
                return cli_fail(1, &error);
        monitor_command_add(&command, "--");
        monitor_command_add(&command, "tools");
        monitor_command_add_option(&command, "--profile", o->profile);
        if (o->given & CLI_JSON)
                monitor_command_add(&command, "--json");
        return leave(&command, 1);
}

int cli_doctor(const struct cli_options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        uint64_t only = o->given & (CLI_PROFILE | CLI_IMAGE | CLI_PYTHON | CLI_STORE);
        if (only && !(o->given & CLI_ATTACK)) {
                error_set(&error, EINVAL, "%s needs --attack (see 'cloister doctor --help')",
                          cli_option_name(only & -only));
                return cli_fail(2, &error);
        }
        if (monitor_command_init(&command, "cloister-doctor", NULL, o, &error) < 0)
                return cli_fail(1, &error);
        if (o->given & CLI_ATTACK)
                monitor_command_add(&command, "--attack");
        if (o->given & CLI_JSON)
                monitor_command_add(&command, "--json");
        return leave(&command, 1);
}

/* Puts the code into a sealed memfd that survives the exec. *name is its name in tracebacks. */
static int prepare_code(const struct cli_options *o, const char *path, const char **name,
                        int *status, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t length = 0;
        int r = 0;

        if (o->code) {
                *name = "<string>";
                length = strlen(o->code);
                r = script_check("-c", o->code, length, err);
        } else {
                *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
                r = script_read(path, &text, &length, err);
        }
        if (r < 0)
                return r;
        /* The first memfd; a sandbox needs others. */
        int fd = fd_sealed("code", o->code ? o->code : text, length, err);
        if (fd < 0)
                *status = EXIT_NO_SANDBOX;
        return monitor_command_fd(fd, err);
}

/* The descriptors that the broker gets. */
struct run_fds {
        int code, in, out; /* -1: none */
};

static int run_code(const struct cli_options *o, const struct run_fds *fds, const char *name)
{
        struct monitor_command command;
        struct error error = {};
        char code[16], in[16], out[16];

        if (monitor_command_init(&command, "cloister-monitor", "serve", o, &error) < 0)
                return cli_fail(STATUS_FAILED, &error);
        monitor_command_pass(&command, fds->code, code);
        monitor_command_pass(&command, fds->in, in);
        monitor_command_pass(&command, fds->out, out);
        monitor_command_add(&command, "--");
        monitor_command_add(&command, "run");
        monitor_command_add_option(&command, "--code-fd", code);
        monitor_command_add_option(&command, "--in-fd", fds->in >= 0 ? in : NULL);
        monitor_command_add_option(&command, "--out-fd", fds->out >= 0 ? out : NULL);
        if (o->given & CLI_OUT_HIDDEN)
                monitor_command_add(&command, "--out-hidden");
        monitor_command_add_option(&command, "--name", name);
        monitor_command_add_option(&command, "--profile", o->profile);
        monitor_command_add_option(&command, "--timeout", o->timeout);
        return leave(&command, STATUS_FAILED);
}

int cli_run(const struct cli_options *o, const char *const *words, size_t n)
{
        struct error error = {};
        const char *name = NULL;

        if (o->code && n > 0) {
                error_set(&error, EINVAL, "run takes a file or -c CODE, not both");
                return cli_fail(2, &error);
        }
        if (!o->code && n == 0) {
                error_set(
                        &error, EINVAL,
                        "run needs a FILE, -c CODE, or - for standard input (see 'cloister run --help')");
                return cli_fail(2, &error);
        }
        if ((o->given & CLI_IMAGE) && (o->given & CLI_WITH)) {
                error_set(
                        &error, EINVAL,
                        "--image and --with do not go together: 'cloister image build --with …' makes an image");
                return cli_fail(2, &error);
        }
        if ((o->given & CLI_OUT_HIDDEN) && !o->out) {
                error_set(&error, EINVAL, "--out-hidden needs --out DIRECTORY");
                return cli_fail(2, &error);
        }
        int status = STATUS_FAILED;
        _cleanup_close_ int fd = prepare_code(o, n > 0 ? words[0] : NULL, &name, &status, &error);
        if (fd < 0)
                return cli_fail(status, &error);
        _cleanup_close_ int in = o->n_ins
                                         ? monitor_command_fd(
                                                   inputs_collect(o->ins, o->n_ins, &error), &error)
                                         : -1;
        if (o->n_ins && in < 0)
                return cli_fail(STATUS_FAILED, &error);
        bool hidden = o->given & CLI_OUT_HIDDEN;
        _cleanup_close_ int out = o->out ? monitor_command_fd(
                                                   receiver_start(o->out, hidden, &error), &error)
                                         : -1;
        if (o->out && out < 0)
                return cli_fail(STATUS_FAILED, &error);
        const struct run_fds fds = {fd, in, out};
        return run_code(o, &fds, name);
}
