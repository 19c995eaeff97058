/* The commands that the monitor and the broker carry out: run, mcp, tools, doctor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/cli/commands.h"
#include "supervisor/cli/handover.h"
#include "supervisor/cli/inputs.h"
#include "supervisor/cli/receiver.h"
#include "supervisor/cli/source.h"

static int leave(struct handover *handover, int status)
{
        struct error error = {};

        handover_exec(handover, &error);
        handover_done(handover);
        return cli_fail(status, &error);
}

int cli_mcp(const struct cli_options *o, const char *const *words, size_t n)
{
        struct handover handover;
        struct error error = {};

        if (handover_init(&handover, "serve", o, &error) < 0)
                return cli_fail(1, &error);
        handover_add(&handover, "--");
        handover_add(&handover, "mcp");
        handover_add_option(&handover, "--profile", o->profile);
        return leave(&handover, 1);
}

int cli_tools(const struct cli_options *o, const char *const *words, size_t n)
{
        struct handover handover;
        struct error error = {};

        if (handover_init(&handover, "serve", o, &error) < 0)
                return cli_fail(1, &error);
        handover_add(&handover, "--");
        handover_add(&handover, "tools");
        handover_add_option(&handover, "--profile", o->profile);
        if (o->given & CLI_JSON)
                handover_add(&handover, "--json");
        return leave(&handover, 1);
}

int cli_doctor(const struct cli_options *o, const char *const *words, size_t n)
{
        struct handover handover;
        struct error error = {};

        if (handover_init(&handover, "doctor", o, &error) < 0)
                return cli_fail(1, &error);
        if (o->given & CLI_JSON)
                handover_add(&handover, "--json");
        return leave(&handover, 1);
}

enum {
        HANDOVER_FD_FIRST = 64,
        STATUS_FAILED = 125, /* of run: Cloister failed, not the code */
};

/* A copy that survives the exec. The low numbers are the monitor's and the broker's own. */
static int prepare_fd(int fd, struct error *err)
{
        if (fd < 0)
                return fd;
        int high = fcntl(fd, F_DUPFD, HANDOVER_FD_FIRST);
        close(fd);
        return high < 0 ? error_errno(err, errno, "pass a descriptor on") : high;
}

/* The code as a sealed memfd that survives the exec, and the name that tracebacks show. */
static int prepare_code(const struct cli_options *o, const char *path, const char **name,
                        struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t length = 0;
        int r = 0;

        if (o->code) {
                *name = "<string>";
                length = strlen(o->code);
                r = source_check("-c", o->code, length, err);
        } else {
                *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
                r = source_read(path, &text, &length, err);
        }
        if (r < 0)
                return r;
        return prepare_fd(fd_sealed("code", o->code ? o->code : text, length, err), err);
}

/* What crosses to the broker. */
struct run_fds {
        int code, in, out; /* -1: none */
};

/* "--pass-fd N" for the monitor. */
static void pass(struct handover *handover, int fd, char number[16])
{
        snprintf(number, 16, "%d", fd);
        if (fd >= 0)
                handover_add_option(handover, "--pass-fd", number);
}

static int run_code(const struct cli_options *o, const struct run_fds *fds, const char *name)
{
        struct handover handover;
        struct error error = {};
        char code[16], in[16], out[16];

        if (handover_init(&handover, "serve", o, &error) < 0)
                return cli_fail(STATUS_FAILED, &error);
        pass(&handover, fds->code, code);
        pass(&handover, fds->in, in);
        pass(&handover, fds->out, out);
        handover_add(&handover, "--");
        handover_add(&handover, "run");
        handover_add_option(&handover, "--code-fd", code);
        handover_add_option(&handover, "--in-fd", fds->in >= 0 ? in : NULL);
        handover_add_option(&handover, "--out-fd", fds->out >= 0 ? out : NULL);
        handover_add_option(&handover, "--name", name);
        handover_add_option(&handover, "--profile", o->profile);
        handover_add_option(&handover, "--timeout", o->timeout);
        return leave(&handover, STATUS_FAILED);
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
                error_set(&error, EINVAL,
                          "run needs a FILE, -c CODE, or - for standard input (see 'cloister run "
                          "--help')");
                return cli_fail(2, &error);
        }
        if ((o->given & CLI_IMAGE) && (o->given & CLI_WITH)) {
                error_set(&error, EINVAL,
                          "--image and --with do not go together: 'cloister image build --with …' "
                          "makes an image");
                return cli_fail(2, &error);
        }
        _cleanup_close_ int fd = prepare_code(o, n > 0 ? words[0] : NULL, &name, &error);
        if (fd < 0)
                return cli_fail(STATUS_FAILED, &error);
        _cleanup_close_ int in = o->n_ins ? prepare_fd(inputs_collect(o->ins, o->n_ins, &error),
                                                       &error)
                                          : -1;
        if (o->n_ins && in < 0)
                return cli_fail(STATUS_FAILED, &error);
        _cleanup_close_ int out = o->out ? prepare_fd(receiver_start(o->out, &error), &error) : -1;
        if (o->out && out < 0)
                return cli_fail(STATUS_FAILED, &error);
        const struct run_fds fds = {fd, in, out};
        return run_code(o, &fds, name);
}
