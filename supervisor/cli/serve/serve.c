/* The commands that other executables carry out: mcp and tools (monitor, broker), doctor, login and logout (oauth), bench. */
#include "supervisor/cli/serve/serve.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/program.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/cli/command/process.h"

/* ---- --attest ---- */

enum { REPORT_MAX = 4 * 1024 * 1024, NAMES_MAX = 300 };

static void exec_doctor(const void *options, int output)
{
        struct monitor_command command;
        struct error error = {};

        if (monitor_command_init(&command, options, &error) >= 0) {
                command.options.attack = command.options.json = true;
                int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
                if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0)
                        monitor_command_exec(&command, PROGRAM_DOCTOR, NULL, &error);
        }
        fprintf(stderr, "cloister: %s\n", error.text);
        _exit(127);
}

/* "group: item" of the first rows with this verdict. */
static void name_rows(yyjson_val *report, const char *verdict, struct buffer *to)
{
        yyjson_arr_iter rows = yyjson_arr_iter_with(yyjson_obj_get(report, "rows"));
        yyjson_val *row;

        while ((row = yyjson_arr_iter_next(&rows))) {
                const char *found = json_string(row, "verdict", NULL);
                const char *group = json_string(row, "group", NULL);
                const char *item = json_string(row, "item", NULL);
                if (!found || strcmp(found, verdict) != 0 || !group || !item)
                        continue;
                if (buffer_printf(to, "%s%s: %s", to->length > 0 ? ", " : "", group, item) < 0)
                        break; /* enough */
        }
}

static int judge_report(yyjson_val *report, bool failed, struct error *err)
{
        _cleanup_buffer_ struct buffer names = BUFFER_INIT(NAMES_MAX);
        int64_t open = 0, known = 0;

        json_int64(yyjson_obj_get(report, "open"), &open);
        json_int64(yyjson_obj_get(report, "known"), &known);
        name_rows(report, failed ? "open" : "known", &names);
        const char *text = names.length > 0 ? buffer_bytes(&names) : "";
        int n = (int)names.length;
        if (failed)
                return error_set(
                        err, EPERM,
                        "--attest: not serving, because %lld attacks succeed (%.*s); see 'cloister doctor --attack'",
                        (long long)open, n, text);
        if (known == 0)
                return 0;
        if (!yyjson_get_bool(yyjson_obj_get(report, "known_are_allowed")))
                return error_set(
                        err, EPERM,
                        "--attest: not serving, because the processor's speculation is shared (%.*s): set \"speculation\" in the config to \"disabled\", or to \"shared\" to serve like this",
                        n, text);
        fprintf(stderr,
                "cloister: --attest: not mitigated, as \"speculation\": \"shared\" in the config allows: %.*s\n",
                n, text);
        return 0;
}

static int judge(const char *text, size_t n, int status, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        /* The doctor has said on standard error why there is no report. */
        if (json_parse(text, n, &doc, NULL) < 0)
                return error_set(
                        err, EPERM,
                        "--attest: not serving, because no sandbox could be attacked (see 'cloister doctor --attack')");
        return judge_report(yyjson_doc_get_root(doc), status != 0, err);
}

int attest_run(const struct options *options, int *status, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        *status = 1;
        int r = process_read(exec_doctor, options, "--attest", REPORT_MAX, &text, &n, err);
        int wait_status = r;
        if (r >= 0 && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == EXIT_NO_SANDBOX)
                *status = EXIT_NO_SANDBOX;
        if (r >= 0)
                r = judge(text, n, wait_status, err);
        return r < 0 ? r : fd_sealed("attestation", text, n, err);
}

int cli_bench(const struct options *o, const char *const *words, size_t n)
{
        static const char *const pythons[] = {"python3", "/usr/bin/python3"};
        char script[PATH_MAX + 32], self[PATH_MAX];
        const char *arguments[OPTION_WORDS_MAX + 12] = {"python3", "-I", script, "--cloister",
                                                        self};
        size_t count = 5;
        struct error error = {};
        ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (program_path("bench/run.py", script, sizeof(script), &error) < 0)
                return cli_fail(1, &error);
        self[length > 0 ? length : 0] = '\0';
        if (o->json)
                arguments[count++] = "--json";
        if (o->quick)
                arguments[count++] = "--quick";
        if (o->rounds) {
                arguments[count++] = "--rounds";
                arguments[count++] = o->rounds;
        }
        arguments[count++] = "--";
        assert(n <= OPTION_WORDS_MAX);
        for (size_t i = 0; i < n; i++)
                arguments[count++] = words[i];
        if (n == 0)
                arguments[count++] = "here";
        for (size_t i = 0; i < ARRAY_SIZE(pythons); i++)
                execvp(pythons[i], (char *const *)arguments);
        error_errno(&error, errno, "bench needs a python3 in PATH: install one");
        return cli_fail(1, &error);
}

/* ---- the commands ---- */

static int log_in_or_out(const char *verb, const struct options *o, const char *const *words,
                         size_t n)
{
        struct monitor_command command;
        struct error error = {};

        if (n == 0) {
                error_set(&error, EINVAL, "%s needs the NAME of a server (see 'cloister tools')",
                          verb);
                return cli_fail(2, &error);
        }
        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        command.options.name = words[0];
        monitor_command_exec(&command, PROGRAM_OAUTH, verb, &error);
        monitor_command_done(&command);
        return cli_fail(1, &error);
}

int cli_login(const struct options *o, const char *const *words, size_t n)
{
        return log_in_or_out("login", o, words, n);
}

int cli_logout(const struct options *o, const char *const *words, size_t n)
{
        return log_in_or_out("logout", o, words, n);
}

int cli_mcp(const struct options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};
        int status = 1, report = -1;

        if (o->attest) {
                report = monitor_command_fd(attest_run(o, &status, &error), &error);
                if (report < 0)
                        return cli_fail(status, &error);
        }
        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        command.options.attestation_fd = report;
        return monitor_command_leave(&command, PROGRAM_MONITOR, "mcp", 1);
}

int cli_tools(const struct options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        return monitor_command_leave(&command, PROGRAM_MONITOR, "tools", 1);
}

int cli_doctor(const struct options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        uint64_t only = o->given & (CLI_PROFILE | CLI_IMAGE | CLI_PYTHON | CLI_STORE);
        if (only && !o->attack) {
                error_set(&error, EINVAL, "%s needs --attack (see 'cloister doctor --help')",
                          cli_option_name(only & -only));
                return cli_fail(2, &error);
        }
        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        return monitor_command_leave(&command, PROGRAM_DOCTOR, NULL, 1);
}
