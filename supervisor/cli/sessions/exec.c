/* `cloister exec`: code in a session of a running server. */
#include "supervisor/cli/sessions/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "supervisor/cli/command/fail.h"
#include "supervisor/cli/command/script.h"
#include "supervisor/cli/sessions/owner-cell.h"
#include "supervisor/cli/sessions/prompt.h"

static int check(const struct options *o, const char *const *words, size_t n, struct error *err)
{
        if (n == 0 || !session_name_is_plain(words[0]))
                return error_set(err, EINVAL,
                                 "the name of a SESSION is needed (see 'cloister sessions')");
        if (o->code && n > 1)
                return error_set(err, EINVAL, "exec takes a file or -c CODE, not both");
        if (o->prompt && o->json)
                return error_set(err, EINVAL, "-i and --json do not go together");
        if (!o->code && n == 1 && !o->prompt)
                return error_set(
                        err, EINVAL,
                        "exec needs a FILE, -c CODE, or - for standard input (see 'cloister exec --help')");
        if ((o->given & CLI_OUT) && o->json)
                return error_set(err, EINVAL,
                                 "--out and --json do not go together: the JSON has the displays");
        return 0;
}

static int read_code(const struct options *o, const char *path, char **ret, size_t *length,
                     struct error *err)
{
        if (!o->code)
                return script_read(path, ret, length, err);
        *length = strlen(o->code);
        int r = script_check("-c", o->code, *length, err);
        if (r < 0)
                return r;
        *ret = strdup(o->code);
        return *ret ? 0 : error_errno(err, ENOMEM, "-c");
}

static int run(const struct options *o, const char *const *words, const char *code, size_t length,
               struct error *err)
{
        struct file_writer out = {.fd = -1};
        struct owner_cells cells = {
                .session = words[0], .json = o->json, .show_value = o->code != NULL};
        struct server_link link = {.fd = -1};
        struct error written = {};

        cells.timeout_ms = o->timeout_ms;
        cells.wait_ms = o->wait_ms;
        if (o->out && file_writer_open(&out, o->out, false, err) < 0)
                return cli_fail(EXIT_CLOISTER, err);
        cells.out = o->out ? &out : NULL;
        owner_cells_hold_signals();
        int r = server_link_open_session(&link, words[0], o->server, err);
        if (r >= 0 && code)
                r = owner_cell_run(&cells, &link, code, length, o->code ? NULL : words[1], err);
        cells.show_value |= o->prompt;
        if (r >= 0 && o->prompt)
                r = prompt_run(&cells, &link);
        server_link_close(&link);
        if (file_writer_close(&out, true, NULL, &written) < 0)
                r = cli_fail(EXIT_CLOISTER, (error_context(&written, "--out"), &written));
        return r < 0 ? cli_fail(EXIT_CLOISTER, err) : r;
}

int cli_exec(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_free_ char *code = NULL;
        size_t length = 0;
        struct error error = {};

        if (check(o, words, n, &error) < 0)
                return cli_fail(2, &error);
        if ((o->code || n > 1) && read_code(o, n > 1 ? words[1] : NULL, &code, &length, &error) < 0)
                return cli_fail(EXIT_CLOISTER, &error);
        return run(o, words, code, length, &error);
}
