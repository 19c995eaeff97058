#include "bench/child.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include "base/cleanup.h"

static pid_t spawn(char **command, int reads, int writes)
{
        posix_spawn_file_actions_t actions;
        pid_t pid;

        int r = posix_spawn_file_actions_init(&actions);
        if (r != 0)
                return -r;
        r = posix_spawn_file_actions_adddup2(&actions, reads, STDIN_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, writes, STDOUT_FILENO);
        if (r == 0)
                r = posix_spawnp(&pid, command[0], &actions, NULL, command, environ);
        posix_spawn_file_actions_destroy(&actions);
        return r == 0 ? pid : -r;
}

pid_t child_start(char **command, int *ret_in, int *ret_out)
{
        int to[2], from[2];

        if (pipe2(to, O_CLOEXEC) < 0)
                return -errno;
        _cleanup_close_ int reads = to[0];
        _cleanup_close_ int in = to[1];
        if (pipe2(from, O_CLOEXEC) < 0)
                return -errno;
        _cleanup_close_ int out = from[0];
        _cleanup_close_ int writes = from[1];
        pid_t pid = spawn(command, reads, writes);
        if (pid > 0) {
                *ret_in = take_fd(in);
                *ret_out = take_fd(out);
        }
        return pid;
}
