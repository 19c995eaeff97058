/*
 * Answers of a child of the monitor other than its one reply: the child really runs and sends other
 * messages. The first byte:
 *
 *     bit 0   the monitor waits without an event loop
 *     bit 1   the child ends without its proper reply, which otherwise is the last message
 *
 * Then messages: two bytes of size, a byte with the number of descriptors, content. Accepted when the
 * monitor took an answer. It keeps no descriptor and no child.
 */
#include "supervisor/monitor/process/child-task.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/fuzz.h"

enum { REPLY_SIZE = 600, TIMEOUT_MS = 2000, MESSAGES_MAX = 8, FDS_SEEN = 64 };

static const uint8_t *input;
static size_t input_length;
static int calls, answers;

/* In the child. The last descriptor that it kept. */
static int find_socket(void)
{
        for (int fd = FDS_SEEN; fd >= 0; fd--) {
                int type = 0;
                socklen_t n = sizeof(type);
                if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_SEQPACKET)
                        return fd;
        }
        _exit(1);
}

static size_t run(void *argument, void *reply, int fds[CHILD_TASK_FDS])
{
        const uint8_t *at = input + 1, *end = input + input_length;
        int socket = find_socket(), some[FD_MESSAGE_MAX];

        for (int i = 0; i < FD_MESSAGE_MAX; i++)
                some[i] = socket;
        for (int i = 0; i < MESSAGES_MAX && end - at >= 3; i++) {
                size_t n = (size_t)(at[0] | at[1] << 8), n_fds = at[2] % (FD_MESSAGE_MAX + 1);
                at += 3;
                if (n > (size_t)(end - at))
                        n = (size_t)(end - at);
                fd_send(socket, at, n, some, n_fds, MSG_DONTWAIT);
                at += n;
        }
        if (input[0] & 2)
                _exit(0);
        fds[0] = socket;
        return input[0] >> 2 & 1;
}

static void check_fds(int *fds, size_t n)
{
        assert(n <= CHILD_TASK_FDS);
        for (size_t i = 0; i < n; i++)
                assert(fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
}

static void done(void *data, const struct error *error, void *reply, int fds[CHILD_TASK_FDS],
                 size_t n)
{
        calls++;
        assert(error ? error_is_set(error) && !reply && n == 0 : reply != NULL);
        if (!error)
                check_fds(fds, n);
        answers += !error;
}

static void run_in_loop(const struct child_task_spec *spec)
{
        struct child_tasks *tasks = NULL;
        struct children *children = NULL;
        struct child_task *task = NULL;
        struct event_base *base = event_base_new();

        assert(children_new(&children, NULL) == 0);
        assert(child_tasks_new(base, children, &tasks, NULL) == 0);
        assert(child_task_start(tasks, spec, done, NULL, &task, NULL) == 0);
        while (calls == 0)
                event_base_loop(base, EVLOOP_ONCE);
        child_tasks_free(tasks);
        assert(calls == 1);
        children_free(children);
        event_base_free(base);
}

static void run_alone(const struct child_task_spec *spec)
{
        uint8_t reply[REPLY_SIZE];
        int fds[CHILD_TASK_FDS];
        size_t n = 0;
        struct error err = {};

        if (child_task_run(spec, reply, fds, &n, &err) < 0) {
                assert(error_is_set(&err));
                return;
        }
        answers++;
        check_fds(fds, n);
        fd_close_many(fds, n);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const struct child_task_spec spec = {
                .name = "fuzz", .reply_size = REPLY_SIZE, .timeout_ms = TIMEOUT_MS, .run = run};

        if (n < 1)
                return false;
        input = data;
        input_length = n;
        calls = answers = 0;
        int before = count_descriptors();
        if (data[0] & 1)
                run_alone(&spec);
        else
                run_in_loop(&spec);
        assert(count_descriptors() == before);
        /* Killed at the end: it may take a moment longer than the monitor waits. */
        while (waitpid(-1, NULL, 0) > 0)
                ;
        return answers > 0;
}

FUZZ_TARGET
