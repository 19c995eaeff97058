/* Starts cloister-monitor as `cloister run` does. */
#include "supervisor/doctor/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/program.h"
#include "supervisor/monitor/process/child.h"
#include "supervisor/options/options.h"

enum { CODE_FD = OPTION_FD_FIRST, STEP_MS = 20, KILLED_MS = 2000, OUTPUT_SIZE = 4096 };

static const char code[] = "print(1+1)";
static const char expected[] = "2\n";

struct output {
        int fd;
        char text[OUTPUT_SIZE];
        size_t length;
};

_Noreturn static void become_monitor(const char *program, const char *const *configs, size_t n,
                                     const char *profile, int code_fd, int out, int err)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        struct command_line line;
        struct options options;

        options_init(&options);
        for (size_t i = 0; i < n && i < CONFIG_PATHS_MAX; i++)
                options.configs[options.n_configs++] = configs[i];
        options.profile = profile;
        options.log_level = LOG_LEVEL_ERROR;
        options.code_fd = CODE_FD;
        options.code_name = "doctor";
        options.no_tools = !profile;
        command_line_init(&line, "cloister-monitor", options_mode_name(MODE_RUN), &options,
                          PROGRAM_MONITOR);
        child_reset_signals();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (child_place_fd(null, STDIN_FILENO) == 0 && child_place_fd(out, STDOUT_FILENO) == 0 &&
            child_place_fd(err, STDERR_FILENO) == 0 && child_place_fd(code_fd, CODE_FD) == 0)
                execv(program, (char *const *)line.words);
        dprintf(err, "start %s: %s\n", program, strerrordesc_np(errno));
        _exit(EXIT_NO_SANDBOX);
}

/* Bytes that do not fit are read and dropped. */
static void read_some(struct output *o)
{
        char more[OUTPUT_SIZE];

        ssize_t n = read(o->fd, more, sizeof(more));
        if (n <= 0)
                return;
        size_t room = sizeof(o->text) - 1 - o->length;
        size_t taken = (size_t)n < room ? (size_t)n : room;
        memcpy(o->text + o->length, more, taken);
        o->length += taken;
}

/* Returns the wait status, -ETIME after the deadline, or the error of waitpid(), which a filter may
 * refuse. */
static int follow(pid_t pid, struct output outputs[2])
{
        uint64_t end = clock_us() + (uint64_t)ATTEMPT_SECONDS * 1000000;
        int status = -1;
        bool ended = false;

        while (!ended) {
                struct pollfd fds[2] = {{.fd = outputs[0].fd, .events = POLLIN},
                                        {.fd = outputs[1].fd, .events = POLLIN}};
                /* First, so that what the process wrote before it ended is read below. */
                pid_t gone = waitpid(pid, &status, WNOHANG);
                ended = gone == pid;
                if (gone < 0 && errno != EINTR) {
                        int refused = errno;
                        kill(pid, SIGKILL);
                        return -refused;
                }
                if (poll(fds, 2, ended ? 0 : STEP_MS) < 0 && errno != EINTR)
                        usleep(STEP_MS * 1000);
                for (int i = 0; i < 2; i++) {
                        if (fds[i].revents & POLLIN)
                                read_some(&outputs[i]);
                        else if (fds[i].revents)
                                outputs[i].fd = -1; /* the end */
                }
                if (!ended && clock_us() > end) {
                        kill(pid, SIGKILL);
                        for (int i = 0; i < KILLED_MS && waitpid(pid, NULL, WNOHANG) == 0; i++)
                                usleep(1000);
                        return -ETIME;
                }
        }
        return status;
}

/* The last line says most; "cloister: error: " is left out. */
static void take_reason(struct output *err, struct attempt *ret)
{
        char *line = err->text;

        while (err->length > 0 && err->text[err->length - 1] == '\n')
                err->text[--err->length] = '\0';
        if (strrchr(line, '\n'))
                line = strrchr(line, '\n') + 1;
        for (size_t i = 0; i < 2; i++) {
                const char *const before[] = {"cloister: ", "error: "};
                if (strncmp(line, before[i], strlen(before[i])) == 0)
                        line += strlen(before[i]);
        }
        snprintf(ret->why, sizeof(ret->why), "%s", *line ? line : "it gave no reason");
}

static void judge(int status, struct output outputs[2], struct attempt *ret)
{
        ret->done = true;
        if (status < 0 && status != -ETIME) {
                ret->status = EXIT_NO_SANDBOX;
                snprintf(ret->why, sizeof(ret->why), "wait for it: %s", strerrordesc_np(-status));
        } else if (status < 0) {
                ret->status = EXIT_NO_SANDBOX;
                snprintf(ret->why, sizeof(ret->why),
                         "it did not end within %d seconds and was killed", ATTEMPT_SECONDS);
        } else if (WIFSIGNALED(status)) {
                ret->status = EXIT_NO_SANDBOX;
                snprintf(ret->why, sizeof(ret->why), "the monitor was killed by signal %d",
                         WTERMSIG(status));
        } else if (WEXITSTATUS(status) != 0) {
                ret->status = WEXITSTATUS(status);
                take_reason(&outputs[1], ret);
        } else if (strcmp(outputs[0].text, expected) != 0) {
                ret->status = EXIT_NO_SANDBOX;
                snprintf(ret->why, sizeof(ret->why), "the code printed something else than 2");
        }
}

static int start(const char *const *configs, size_t n_configs, const char *profile, int out,
                 int err, struct error *error)
{
        char program[PATH_MAX + 32];

        int r = program_path("cloister-monitor", program, sizeof(program), error);
        if (r < 0)
                return r;
        _cleanup_close_ int sealed = fd_sealed("code", code, strlen(code), error);
        if (sealed < 0)
                return sealed;
        /* The numbers of standard streams and of the code are set in the child; none may be in use
         * by another. */
        _cleanup_close_ int high_code = fcntl(sealed, F_DUPFD_CLOEXEC, CODE_FD + 1);
        _cleanup_close_ int high_out = fcntl(out, F_DUPFD_CLOEXEC, CODE_FD + 1);
        _cleanup_close_ int high_err = fcntl(err, F_DUPFD_CLOEXEC, CODE_FD + 1);
        if (high_code < 0 || high_out < 0 || high_err < 0)
                return error_errno(error, errno, "descriptors");
        pid_t pid = fork();
        if (pid < 0)
                return error_errno(error, errno, "fork");
        if (pid == 0)
                become_monitor(program, configs, n_configs, profile, high_code, high_out, high_err);
        return pid;
}

const char *attempt_fix(const struct attempt *attempt)
{
        static const struct {
                const char *said, *fix;
        } known[] = {
                {"images are made as", "as it says, or CLOISTER_IMAGE_STORE=/another/folder"},
                {"is in use by another", "end the Cloister that uses it (see 'cloister sessions')"},
                {"no space left", "make room, or CLOISTER_IMAGE_STORE=/a/folder/on/another/disk"},
                {"make the image store",
                 "CLOISTER_IMAGE_STORE=/a/folder/that/you/may/write, or a HOME that exists"},
                {"PreloadError",
                 "remove the module from \"preload\", or name an image that has it (cloister image build --help)"},
                {"there is no image", "make it: cloister image build --name NAME"},
                {"mount ", "correct \"mounts\" in the config, or make the directory"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                if (strstr(attempt->why, known[i].said))
                        return known[i].fix;
        return NULL;
}

void attempt_run(const char *const *configs, size_t n_configs, const char *profile,
                 struct attempt *ret)
{
        static struct output outputs[2];
        int out[2], err[2];
        struct error error = {};

        *ret = (struct attempt){.status = EXIT_NO_SANDBOX};
        memset(outputs, 0, sizeof(outputs));
        if (pipe2(out, O_CLOEXEC) < 0)
                return;
        _cleanup_close_ int out_read = out[0], out_write = out[1];
        if (pipe2(err, O_CLOEXEC) < 0)
                return;
        _cleanup_close_ int err_read = err[0], err_write = err[1];
        uint64_t began = clock_us();
        pid_t pid = start(configs, n_configs, profile, out_write, err_write, &error);
        close(take_fd(out_write));
        close(take_fd(err_write));
        if (pid < 0) {
                snprintf(ret->why, sizeof(ret->why), "%s", error.text);
                return;
        }
        outputs[0].fd = out_read;
        outputs[1].fd = err_read;
        ret->status = 0;
        judge(follow(pid, outputs), outputs, ret);
        ret->seconds = (double)(clock_us() - began) / 1e6;
}
