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

/* The code as a sealed memfd that survives the exec, and the name that tracebacks show. */
static int prepare_code(const struct cli_options *o, const char *path, const char **name,
                        struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t length = 0;
        int fd, r = 0;

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
        _cleanup_close_ int sealed = fd_sealed("code", o->code ? o->code : text, length, err);
        if (sealed < 0)
                return sealed;
        /* The low numbers are the monitor's and the broker's own. */
        fd = fcntl(sealed, F_DUPFD, HANDOVER_FD_FIRST);
        return fd < 0 ? error_errno(err, errno, "pass the code on") : fd;
}

static int run_code(const struct cli_options *o, int fd, const char *name)
{
        struct handover handover;
        struct error error = {};
        char number[16];

        snprintf(number, sizeof(number), "%d", fd);
        if (handover_init(&handover, "serve", o, &error) < 0)
                return cli_fail(STATUS_FAILED, &error);
        handover_add_option(&handover, "--pass-fd", number);
        handover_add(&handover, "--");
        handover_add(&handover, "run");
        handover_add_option(&handover, "--code-fd", number);
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
        _cleanup_close_ int fd = prepare_code(o, n > 0 ? words[0] : NULL, &name, &error);
        if (fd < 0)
                return cli_fail(STATUS_FAILED, &error);
        return run_code(o, fd, name);
}
