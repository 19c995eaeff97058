/* Runs "rule_tests" in a child of the monitor. */
#include "supervisor/monitor/monitor-rule-tests.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/program.h"
#include "policy/config/rule-test-keys.h"
#include "supervisor/monitor/process/child.h"

enum { URL_MAX = 8192, ANSWER_MAX = 512, RUN_MS = 20000 };

static void note_fault(void *data, const struct rule_test *test, const struct rules_decision *found,
                       bool passed)
{
        bool *needed = data;

        *needed = *needed || found->fault;
}

bool monitor_rule_tests_need_urls(const struct config *config)
{
        bool needed = false;
        struct error ignored = {};

        return config_run_rule_tests(config, NULL, note_fault, &needed, &ignored) >= 0 && needed;
}

/* ---- in the child ---- */

static int reader = -1; /* a socket of cloister-oauth; -1: not started */
static struct error reader_error;

static _Noreturn void exec_reader(const char *path, int socket)
{
        char *const words[] = {(char *)"cloister-oauth", (char *)"url", NULL};
        char *const environment[] = {NULL};

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (child_place_fd(socket, STDIN_FILENO) >= 0 &&
            child_place_fd(STDIN_FILENO, STDOUT_FILENO) >= 0)
                execve(path, words, environment);
        _exit(1);
}

static int start_reader(struct error *err)
{
        char path[PATH_MAX];
        int pair[2];

        int r = program_path("cloister-oauth", path, sizeof(path), err);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_errno(err, errno, "socketpair");
        pid_t pid = fork();
        if (pid == 0)
                exec_reader(path, pair[1]);
        close(pair[1]);
        reader = pair[0];
        return pid < 0 ? error_errno(err, errno, "fork") : 0;
}

/* Each answer is one line: "HOST PORT", or nothing for what is not a URL. */
static int read_answer(char answer[ANSWER_MAX], struct error *err)
{
        for (size_t n = 0; n < ANSWER_MAX; n++) {
                ssize_t got = read(reader, &answer[n], 1);
                if (got <= 0)
                        return error_set(err, EIO, "cloister-oauth ended without an answer");
                if (answer[n] == '\n') {
                        answer[n] = '\0';
                        return 0;
                }
        }
        return error_set(err, EPROTO, "cloister-oauth sent a line that is too long");
}

static int ask_reader(const char *url, size_t n, char answer[ANSWER_MAX], struct error *err)
{
        char line[URL_MAX + 1];

        int r = reader < 0 ? start_reader(err) : 0;
        if (r < 0)
                return r;
        memcpy(line, url, n);
        line[n] = '\n';
        r = fd_write_all(reader, line, n + 1);
        return r < 0 ? error_errno(err, -r, "cloister-oauth") : read_answer(answer, err);
}

static bool read_url(const char *url, size_t n, struct rules_url *ret)
{
        char answer[ANSWER_MAX];

        if (n == 0 || n > URL_MAX || memchr(url, '\n', n) || error_is_set(&reader_error) ||
            ask_reader(url, n, answer, &reader_error) < 0)
                return false;
        return sscanf(answer, "%255s %hu", ret->host, &ret->port) == 2;
}

static size_t run(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        struct error *err = reply;

        signal(SIGPIPE, SIG_IGN);
        config_check_rule_tests(argument, read_url, err);
        if (error_is_set(&reader_error)) {
                *err = reader_error;
                error_context(err, "rule_tests: the URLs cannot be read");
        }
        return 0;
}

/* ---- in the monitor ---- */

static void on_answer(void *data, const struct error *error, void *reply, int fds[CHILD_TASK_FDS],
                      size_t n_fds)
{
        struct monitor_rule_tests *tests = data;
        struct error failed = {};

        tests->task = NULL;
        if (!error) {
                memcpy(&failed, reply, sizeof(failed));
                error_sanitize(&failed);
                error = error_is_set(&failed) ? &failed : NULL;
        }
        tests->done(tests->data, error);
}

int monitor_rule_tests_start(struct monitor_rule_tests *tests, struct child_tasks *tasks,
                             struct config *config, struct error *err)
{
        const struct child_task_spec spec = {.name = "cloister-rules",
                                             .reply_size = sizeof(struct error),
                                             .timeout_ms = RUN_MS,
                                             .run = run,
                                             .argument = config};

        return child_task_start(tasks, &spec, on_answer, tests, &tests->task, err);
}
