/* The template of a profile with JavaScript. */
#include "sandbox-init/javascript/node-template.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/language.h"
#include "rpc/frame.h"
#include "rpc/sandbox-messages.h"
#include "sandbox-init/javascript/modules.h"
#include "sandbox-init/setup/layout.h"
#include "sandbox-init/setup/template.h"

enum {
        CHANNEL_FD = 3, /* README.md says why it is this one */
        MIB = 1024 * 1024,
        POOL_MAX = 4, /* threads of V8 for its own work: the usual number of Node */
        HEAP_PART_OF_4 =
                3, /* quarters of the memory that the heap may have: a collection comes before the end */
};

/* In the order of PATH (LAYOUT_VARIABLES). */
static const char *const places[] = {"/usr/local/bin/node", "/usr/bin/node", "/bin/node"};

extern char **environ;

int node_template_write_modules(int directory, struct error *err)
{
        for (size_t i = 0; i < javascript_modules_count; i++) {
                const struct javascript_module *m = &javascript_modules[i];
                _cleanup_close_ int fd = openat(directory, m->name,
                                                O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
                if (fd < 0)
                        return error_errno(err, errno, "make %s", m->name);
                int r = fd_write_all(fd, m->bytes, m->length);
                if (r < 0)
                        return error_errno(err, -r, "write %s", m->name);
        }
        return 0;
}

/* A static program has nothing to do around a fork. */
static void no_hook(void)
{
}

static const char *find_node(void)
{
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                if (access(places[i], X_OK) == 0)
                        return places[i];
        }
        return NULL;
}

/* How many processors the session may use. */
static unsigned int count_processors(const struct limits *limits)
{
        unsigned int most = (limits->cpu_milli + 999) / 1000, n = 1;
        cpu_set_t set;

        if (sched_getaffinity(0, sizeof(set), &set) == 0)
                n = (unsigned int)CPU_COUNT(&set);
        return most > 0 && most < n ? most : n;
}

static _Noreturn void leave(int status, const char *why)
{
        dprintf(STDERR_FILENO, "cloister: %s\n", why);
        _exit(status);
}

/* Until init is not dumpable and has its filter, and has taken the listener. */
static void await_release(const struct template_session *session)
{
        char byte;
        ssize_t n;

        do
                n = read(session->release_fd, &byte, 1);
        while (n < 0 && errno == EINTR);
        if (n != 1)
                leave(FRAME_EXIT_LOST, "init has ended");
}

/* In the worker: the channel gets its number, and no other descriptor but 0, 1 and 2 stays open. */
static void place_channel(const struct template_session *session)
{
        if (session->listener_fd >= 0)
                close(session->listener_fd);
        if (dup2(session->rpc_fd, CHANNEL_FD) < 0 || fd_close_range(CHANNEL_FD + 1, ~0U) < 0)
                leave(FRAME_EXIT_LOST, "the channel cannot be placed");
}

/* fetch() and http of Node 22.21 and 24.5 then use the proxy that the environment names. */
static char use_proxy[] = "NODE_USE_ENV_PROXY=1";

static _Noreturn void become_node(const struct template_session *session, const char *node)
{
        const struct limits *limits = &session->limits;
        unsigned int cpus = count_processors(limits);
        char heap[48], threads[32], settings[160];
        const char *const arguments[] = {node,    "--no-force-async-hooks-checks",     heap,
                                         threads, ("/dev/" LAYOUT_MODULES "/main.js"), settings,
                                         NULL};
        sigset_t none;

        await_release(session);
        place_channel(session);
        snprintf(heap, sizeof(heap), "--max-old-space-size=%" PRIu64,
                 limits->memory / MIB * HEAP_PART_OF_4 / 4);
        snprintf(threads, sizeof(threads), "--v8-pool-size=%u", cpus < POOL_MAX ? cpus : POOL_MAX);
        snprintf(settings, sizeof(settings),
                 "{\"channel\":%d,\"memory\":%" PRIu64 ",\"cpus\":%u,\"isolates\":%d}", CHANNEL_FD,
                 limits->memory, cpus, session->rlimits ? LANGUAGE_ISOLATES_MAX : 0);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (template_plan()->proxy)
                putenv(use_proxy);
        execve(node, (char *const *)arguments, environ);
        dprintf(STDERR_FILENO, "cloister: exec %s: %s\n", node, strerror(errno));
        _exit(SANDBOX_EXIT_SETUP);
}

static int refuse(const struct error *error)
{
        template_failed(error);
        return EXIT_FAILURE;
}

int node_template_main(void)
{
        static const struct template_hooks hooks = {no_hook, no_hook, no_hook, NULL};
        struct template_session session;
        struct error error = {};
        const char *node = find_node();

        if (!node) {
                error_set(
                        &error, ENOENT,
                        "the image has no Node (looked for %s, %s and %s): build it with 'cloister image build --node'",
                        places[0], places[1], places[2]);
                return refuse(&error);
        }
        if (template_ready(&error) < 0)
                return EXIT_FAILURE;
        int r = template_serve(&hooks, &session, &error);
        if (r == 1)
                become_node(&session, node);
        if (r < 0)
                leave(EXIT_FAILURE, error.text);
        return EXIT_SUCCESS;
}
