/* The command that prints a token: what it may print, and how long it may take. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "supervisor/access/command.h"
#include "tests/unit/test.h"

/* SHORT_MS for a command that does not end; the others have all the time of a busy machine. */
enum { SHORT_MS = 300, LONG_MS = 60000 };

struct ran {
        char token[ACCESS_TOKEN_MAX + 1];
        struct error err;
        uint64_t ms;
        bool left; /* processes of it still run */
};

/* Each process of the command has the write end of a pipe. */
static int sh(const char *script, unsigned ms, struct ran *ran)
{
        char shell[] = "/bin/sh", option[] = "-c", *text = strdup(script);
        char *const argv[] = {shell, option, text, NULL};
        int alive[2];

        *ran = (struct ran){};
        check_eq_int(pipe(alive), 0);
        check_eq_int(fcntl(alive[0], F_SETFD, FD_CLOEXEC), 0);
        uint64_t before = clock_ms();
        const struct access_command command = {"token", argv, "the input", ms};
        int r = access_run(&command, ran->token, sizeof(ran->token), &ran->err);
        free(text);
        ran->ms = clock_ms() - before;
        close(alive[1]);
        struct pollfd p = {.fd = alive[0], .events = POLLIN};
        ran->left = poll(&p, 1, r < 0 ? 10000 : 0) == 0;
        close(alive[0]);
        return r;
}

static void test_output(void)
{
        struct ran ran;

        check_eq_int(sh("cat; echo; echo more", LONG_MS, &ran), 0);
        check_eq_str(ran.token, "the input");
        check(!ran.left);
        check_eq_int(sh("echo token; exit 3", LONG_MS, &ran), -EIO);
        check_eq_str(ran.err.text, "token: /bin/sh ended with exit status 3");
        check_eq_int(sh("yes", LONG_MS, &ran), -EMSGSIZE);
        check_has(ran.err.text, "printed more than 16 KiB");
        check(!ran.left);
}

static void test_open_output(void)
{
        struct ran ran;

        check_eq_int(sh("echo token; sleep 60", SHORT_MS, &ran), -ETIMEDOUT);
        check_eq_str(ran.err.text, "token: /bin/sh did not end within 0.3 s");
        check(ran.ms < 20000 && !ran.left);
}

/* The output is complete, but the program continues to run: its whole process group is killed. */
static void test_closed_output(void)
{
        struct ran ran;

        check_eq_int(sh("echo token; exec >&-; sleep 60 & sleep 60", SHORT_MS, &ran), -ETIMEDOUT);
        check_eq_str(ran.err.text, "token: /bin/sh did not end within 0.3 s");
        check(ran.ms < 20000 && !ran.left);
}

static void test_control_closed_output(void)
{
        struct ran ran;

        check_eq_int(sh("echo token; exec >&-; sleep 0.1", LONG_MS, &ran), 0);
        check_eq_str(ran.token, "token");
        check_eq_int(sh("echo token; exec >&-; sleep 0.1; exit 4", LONG_MS, &ran), -EIO);
        check_eq_str(ran.err.text, "token: /bin/sh ended with exit status 4");
}

int main(void)
{
        run(test_output);
        run(test_open_output);
        run(test_closed_output);
        run(test_control_closed_output);
        return 0;
}
