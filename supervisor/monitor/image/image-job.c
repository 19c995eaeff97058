/* Builds an image in a separate process. */
#include "supervisor/monitor/image/image-job.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "policy/seccomp/filter.h"
#include "supervisor/monitor/upstream/upstream.h"
#include "supervisor/pythons/uv.h"

/* The builder's own steps have deadlines that are shorter in all. This one covers a file system that
 * hangs, and the lock of a build that hangs. */
enum { HELD_LINE_MAX = 700, ARGUMENTS_MAX = 240, VARIABLE_MAX = 4096, BUILD_SECONDS = 3600 };

struct image_job {
        struct children *children;
        struct upstream *upstream;
        struct cgroup *cgroup; /* NULL: none */
        pid_t pid;
        int fds[3];
        struct event *output, *exec, *end, *deadline, *tick;
        uint64_t told_ms;     /* when told was called last */
        bool is_new;          /* the line, since then */
        unsigned int seconds; /* until the deadline */
        bool is_late;
        char held[HELD_LINE_MAX]; /* the last line of the builder's output */
        size_t length;
        bool line_done;
        bool quiet; /* its output goes to `told`, and is not printed */
        void (*done)(void *data, const struct error *error);
        void (*told)(void *data, const char *line);
        void *data;
};

/* A failed write is ignored. */
static void pass_on_held(struct image_job *job)
{
        if (job->length == 0 || job->quiet)
                return;
        job->held[job->length] = '\n';
        ssize_t written = write(STDERR_FILENO, job->held, job->length + 1);
        (void)written;
        job->held[job->length] = '\0';
}

/* A line that is incomplete yet follows later. */
static void tell(struct image_job *job)
{
        uint64_t passed = clock_ms() - job->told_ms;

        if (!job->told || !job->line_done || passed < IMAGE_JOB_TOLD_MS ||
            (!job->is_new && passed < IMAGE_JOB_TOLD_AGAIN_MS))
                return;
        job->told_ms = clock_ms();
        job->is_new = false;
        job->told(job->data, job->held);
}

static void on_tick(evutil_socket_t fd, short what, void *data)
{
        tell(data);
}

/* Progress is printed line by line, each when the next one begins. The last line is not printed if
 * the build fails: it is the text of the error then. */
static void take_output(struct image_job *job, const char *text, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (text[i] == '\n') {
                        job->held[job->length] = '\0';
                        job->line_done = job->is_new = true;
                        tell(job);
                        continue;
                }
                if (job->line_done) {
                        pass_on_held(job);
                        job->length = 0;
                }
                job->line_done = false;
                if (job->length < sizeof(job->held) - 2)
                        job->held[job->length++] = text[i];
        }
        job->held[job->length] = '\0';
}

static void relay(struct image_job *job)
{
        char text[4096];

        ssize_t n = read(job->fds[2], text, sizeof(text));
        if (n <= 0)
                event_del(job->output);
        else
                take_output(job, text, (size_t)n);
}

static void on_output(evutil_socket_t fd, short what, void *data)
{
        relay(data);
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct image_job *job = data;
        struct error error = {};

        fd_set_nonblocking(job->fds[2], 1);
        while (event_pending(job->output, EV_READ, NULL))
                relay(job);
        int status = upstream_reap(job->upstream);
        children_remove(job->children, job->pid);
        if (status == 0) {
                pass_on_held(job);
                if (job->told)
                        job->told(job->data, "ready");
        }
        if (job->is_late) {
                error_set(
                        &error, ETIMEDOUT,
                        "build the image: it did not end within %u s; set CLOISTER_IMAGE_BUILD_SECONDS to give it longer, or look for another build that hangs and for a file system that does not answer%s%s",
                        job->seconds, job->length > 0 ? "; its last line: " : "", job->held);
        } else if (upstream_exec_result(job->upstream, &error) < 0) {
                error_context(&error, "build the image");
        } else if (status != 0 && job->cgroup && cgroup_oom_kills(job->cgroup) > 0) {
                error_set(
                        &error, ENOMEM,
                        "build the image: a process was killed: what fetches and installs packages reached %d MiB of memory",
                        PACKAGES_MEMORY >> 20);
        } else if (status != 0) {
                const char *why = job->length > 0 ? job->held : "the builder printed no error";
                if (strncmp(why, "cloister: ", 10) == 0)
                        why += 10;
                error_set(&error, EIO, "build the image: %s", why);
        }
        job->done(job->data, error_is_set(&error) ? &error : NULL);
}

static void on_exec(evutil_socket_t fd, short what, void *data)
{
        struct image_job *job = data;

        /* on_end() reports it. */
        if (upstream_exec_result(job->upstream, NULL) < 0)
                upstream_kill(job->upstream);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct image_job *job = data;

        job->is_late = true;
        upstream_kill(job->upstream);
}

static unsigned int build_seconds(void)
{
        const char *text = getenv("CLOISTER_IMAGE_BUILD_SECONDS");
        char *end = NULL;
        unsigned long n = text ? strtoul(text, &end, 10) : 0;

        return n > 0 && n <= INT_MAX && *end == '\0' ? (unsigned int)n : BUILD_SECONDS;
}

static int watch(struct image_job *job, struct event_base *base, struct error *err)
{
        const struct timeval deadline = {.tv_sec = UPSTREAM_EXEC_SECONDS};
        const struct timeval latest = {.tv_sec = job->seconds};
        const struct timeval often = clock_timeval_ms(IMAGE_JOB_TOLD_MS);

        job->output = event_new(base, job->fds[2], EV_READ | EV_PERSIST, on_output, job);
        job->exec = event_new(base, upstream_exec_fd(job->upstream), EV_READ, on_exec, job);
        job->end = event_new(base, upstream_pidfd(job->upstream), EV_READ, on_end, job);
        job->deadline = evtimer_new(base, on_deadline, job);
        job->tick = event_new(base, -1, EV_PERSIST, on_tick, job);
        if (!job->output || !job->exec || !job->end || !job->deadline || !job->tick ||
            event_add(job->output, NULL) < 0 || event_add(job->exec, &deadline) < 0 ||
            event_add(job->end, NULL) < 0 || event_add(job->deadline, &latest) < 0 ||
            event_add(job->tick, &often) < 0)
                return error_errno(err, ENOMEM, "watch the builder");
        return 0;
}

static void add_argument(const char **arguments, size_t *n, const char *option, const char *value)
{
        if (!value || *n + 2 >= ARGUMENTS_MAX)
                return;
        arguments[(*n)++] = option;
        arguments[(*n)++] = value;
}

/* The builder's command line. */
static size_t describe_job(const struct image_choice *choice, bool quiet, const char **arguments)
{
        const struct package_set *set = choice->set;
        size_t n = 0;

        arguments[n++] = "image-builder";
        add_argument(arguments, &n, "--store", choice->store);
        add_argument(arguments, &n, "--python", choice->python);
        add_argument(arguments, &n, "--node", *choice->node ? choice->node : NULL);
        add_argument(arguments, &n, "--pyodide", *choice->pyodide ? choice->pyodide : NULL);
        add_argument(arguments, &n, "--name", choice->is_default ? NULL : choice->name);
        add_argument(arguments, &n, "--link", choice->link);
        add_argument(arguments, &n, "--rootfs", choice->rootfs);
        add_argument(arguments, &n, "--oci", choice->oci);
        add_argument(arguments, &n, "--python-from", choice->python_from);
        if (choice->with_private)
                arguments[n++] = "--private";
        for (size_t i = 0; set && i < set->n_with; i++)
                add_argument(arguments, &n, "--with", set->with[i]);
        for (size_t i = 0; set && i < set->n_files; i++)
                add_argument(arguments, &n, "--requirements", set->files[i]);
        for (size_t i = 0; set && i < set->n_npm; i++)
                add_argument(arguments, &n, "--npm", set->npm[i]);
        add_argument(arguments, &n, "--files-key", set ? set->files_key : NULL);
        add_argument(arguments, &n, "--installer", set ? set->installer : NULL);
        add_argument(arguments, &n, "--find-links", set ? set->find_links : NULL);
        if (set && set->offline)
                arguments[n++] = "--offline";
        if (set && set->upgrade)
                arguments[n++] = "--upgrade";
        if (quiet)
                arguments[n++] = "--quiet";
        return n;
}

/* Variables of this process that the builder gets, besides those that every server gets. */
static const char *const variables[] = {
        "LD_LIBRARY_PATH", /* some interpreters find their libraries only with it */
        "CLOISTER_IMAGE_MAX", "REGISTRY_AUTH_FILE", /* of skopeo: a path */
};

/* Returns the number of all: the first is there already. */
static size_t add_variables(char *environment[], char values[][VARIABLE_MAX])
{
        size_t n = 1;

        for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
                const char *value = getenv(variables[i]);
                if (value &&
                    snprintf(values[i], VARIABLE_MAX, "%s=%s", variables[i], value) < VARIABLE_MAX)
                        environment[n++] = values[i];
        }
        return n;
}

/* A build with packages, which runs what an index sends, gets a group. */
static int bound(struct image_job *job, struct cgroups *cgroups, const struct package_set *set,
                 struct error *err)
{
        const struct limits limits = {.memory = PACKAGES_MEMORY, .pids = PACKAGES_PIDS};

        if (!cgroups || cgroups_version(cgroups) == CGROUP_NONE || !set)
                return 0;
        int r = cgroup_new(cgroups, 0, &limits, &job->cgroup, err);
        return r < 0 ? r : cgroup_add(job->cgroup, job->pid, err);
}

int image_job_start(struct event_base *base, struct children *children, struct cgroups *cgroups,
                    const char *program, const struct image_choice *choice,
                    const struct upstream_user *user, bool quiet,
                    void (*done)(void *data, const struct error *error),
                    void (*told)(void *data, const char *line), void *data, struct image_job **ret,
                    struct error *err)
{
        const char *arguments[ARGUMENTS_MAX + 8] = {};
        char place[48], *environment[2 + ARRAY_SIZE(variables)] = {place};
        char values[ARRAY_SIZE(variables)][VARIABLE_MAX];
        struct config_server builder = {
                .name = (char *)"image builder",
                .command = (char *)program,
                .args = (char **)arguments,
                .n_args = describe_job(choice, quiet && !told, arguments),
                .env = environment,
                .n_env = 1,
        };

        /* For the sandbox of the program that fetches packages, or that unpacks a container image. */
        _cleanup_close_ int filter = filter_compile(
                choice->oci ? FILTER_UNPACKER : FILTER_INSTALLER, err);
        if (filter < 0)
                return filter;
        snprintf(place, sizeof(place), PACKAGES_FILTER_VARIABLE "=%d", filter);
        builder.n_env = add_variables(environment, values);
        if (choice->python_downloads)
                environment[builder.n_env++] = (char *)PYTHON_DOWNLOADS_VARIABLE "=1";
        struct image_job *job = calloc(1, sizeof(*job));
        if (!job)
                return error_errno(err, ENOMEM, "image builder");
        *job = (struct image_job){.children = children,
                                  .fds = {-1, -1, -1},
                                  .seconds = build_seconds(),
                                  .quiet = quiet && told,
                                  .told = told,
                                  .done = done,
                                  .data = data};
        int r = upstream_start(&builder, user, filter, &job->upstream, job->fds, err);
        if (r >= 0) {
                job->pid = upstream_pid(job->upstream);
                r = children_add(children, job->pid);
        }
        if (r >= 0)
                r = watch(job, base, err);
        if (r >= 0)
                r = bound(job, cgroups, choice->set, err);
        if (r >= 0)
                upstream_release(job->upstream);
        if (r < 0) {
                image_job_free(job);
                return error_context(err, "build the image");
        }
        *ret = job;
        return 0;
}

struct image_job *image_job_free(struct image_job *job)
{
        if (!job)
                return NULL;
        loop_free_events(
                (struct event *[]){job->output, job->exec, job->end, job->deadline, job->tick}, 5);
        if (job->pid > 0)
                children_remove(job->children, job->pid);
        upstream_free(job->upstream);
        cgroup_free(job->cgroup);
        fd_close_many(job->fds, ARRAY_SIZE(job->fds));
        free(job);
        return NULL;
}
