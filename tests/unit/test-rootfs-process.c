/* Helper programs: their streams, bounds and deadlines. */
#include "rootfs/process.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "tests/unit/test.h"

static struct error err;

static int shell(const char *script, int timeout_ms, struct buffer *output, struct buffer *errors,
                 int *status)
{
        const char *const argv[] = {"/bin/sh", "-c", script, NULL};
        struct process process;

        err = (struct error){};
        check_ok(process_start(argv, &process, &err));
        return process_finish(&process, timeout_ms, output, errors, status, &err);
}

static void test_streams(void)
{
        _cleanup_buffer_ struct buffer output = BUFFER_INIT(100), errors = BUFFER_INIT(100);
        int status = -1;

        check_ok(shell("cat; echo out; echo err >&2; exit 3", 10000, &output, &errors, &status));
        check_eq_bytes(buffer_bytes(&output), output.length, "out\n");
        check_eq_bytes(buffer_bytes(&errors), errors.length, "err\n");
        check(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void test_no_such_program(void)
{
        _cleanup_buffer_ struct buffer output = BUFFER_INIT(100), errors = BUFFER_INIT(100);
        const char *const argv[] = {"/no/such/program", NULL};
        struct process process;
        int status = -1;

        check_ok(process_start(argv, &process, &err));
        check_ok(process_finish(&process, 10000, &output, &errors, &status, &err));
        check_eq_int(WEXITSTATUS(status), 127);
        check_eq_bytes(buffer_bytes(&errors), errors.length, "No such file or directory\n");
}

static void test_bounds(void)
{
        _cleanup_buffer_ struct buffer output = BUFFER_INIT(1000), errors = BUFFER_INIT(1000);
        int status = -1;

        check_eq_int(shell("yes", 10000, &output, &errors, &status), -EMSGSIZE);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        check_has(err.text, "1000 bytes");
        /* Standard error, which is only shown, is cut, and the program continues. */
        buffer_consume(&output, output.length);
        check_ok(shell("yes | head -c 300000 >&2; echo end", 10000, &output, &errors, &status));
        check_eq_bytes(buffer_bytes(&output), output.length, "end\n");
        check(errors.length <= 1000);
        buffer_consume(&output, output.length);
        check_ok(shell("yes | head -c 300000 >&2; echo end", 10000, &output, NULL, &status));
        check_eq_int(output.length, 4);
}

static void test_deadline(void)
{
        _cleanup_buffer_ struct buffer output = BUFFER_INIT(1000);
        int status = -1;

        uint64_t begin = clock_ms();

        /* Its children, in its group, are killed too: otherwise the pipe stays open for an hour. */
        check_eq_int(shell("sleep 3600 & sleep 3600", 200, &output, NULL, &status), -ETIMEDOUT);
        check(clock_ms() - begin < 10000);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
        run(test_streams);
        run(test_no_such_program);
        run(test_bounds);
        run(test_deadline);
        return 0;
}
