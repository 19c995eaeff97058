/*
 * Stands in for sandbox-init/setup/template.c: the real cloister-worker, outside of any sandbox.
 * Each message on TEMPLATE_CONTROL_FD brings the descriptors of a session: channel, stdout, stderr;
 * the answer is the worker's pid. Only for code that the tests wrote themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "rpc/sandbox-messages.h"
#include "sandbox-init/setup/template.h"

enum { CHANNEL_FD = 900 };

static int say(const char *text)
{
        int r = fd_send(TEMPLATE_CONTROL_FD, text, strlen(text), NULL, 0, 0);
        return r < 0 ? r : 0;
}

const struct template_plan *template_plan(void)
{
        static const struct template_plan plan = {.preload = ""};

        return &plan;
}

int template_end_others(struct error *err)
{
        return 0;
}

int template_ready(struct error *err)
{
        return say("ready");
}

void template_failed(const struct error *error)
{
        char text[600];

        snprintf(text, sizeof(text), "failed %s", error->text);
        say(text);
}

static int become_worker(const int fds[3], struct template_session *ret)
{
        ret->rpc_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, CHANNEL_FD);
        if (ret->rpc_fd < 0 || dup2(fds[1], 1) < 0 || dup2(fds[2], 2) < 0)
                return -errno;
        for (int i = 0; i < 3; i++)
                close(fds[i]);
        close(TEMPLATE_CONTROL_FD);
        return 1;
}

int template_serve(const struct template_hooks *hooks, struct template_session *ret,
                   struct error *err)
{
        /* Its first sessions, or later ones. */
        while (!getenv("CLOISTER_STUB_COLD") && hooks->idle()) {
        }
        for (;;) {
                char message[16], answer[32];
                int fds[3];
                size_t count = 3;
                ssize_t n = fd_receive(TEMPLATE_CONTROL_FD, message, sizeof(message), fds, &count,
                                       NULL, 0);
                if (n <= 0 || count != 3)
                        return (int)n;

                hooks->before_fork();
                pid_t pid = fork();
                if (pid == 0) {
                        hooks->after_fork_child();
                        return become_worker(fds, ret);
                }
                hooks->after_fork_parent();
                fd_close_many(fds, count);
                snprintf(answer, sizeof(answer), "%d", (int)pid);
                if (pid < 0 || say(answer) < 0)
                        return error_errno(err, errno, "fork");
        }
}
