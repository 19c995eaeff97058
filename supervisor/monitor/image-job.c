/* Finds the image of sessions, or has it built. */
#include "supervisor/monitor/image-job.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

enum { HELD_LINE_MAX = 400 };

struct image_job {
        struct children *children;
        struct upstream *upstream;
        pid_t pid;
        int fds[3];
        struct event *output, *end;
        char held[HELD_LINE_MAX]; /* the newest line of what the builder says */
        size_t length;
        bool line_done;
        void (*done)(void *data, const struct error *error);
        void *data;
};

static int look(const char *path, struct image_stamp *ret)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return -errno;
        *ret = (struct image_stamp){.inode = st.st_ino,
                                    .size = (uint64_t)st.st_size,
                                    .mtime_ns = st.st_mtim.tv_sec * 1000000000LL +
                                                st.st_mtim.tv_nsec};
        return 0;
}

static const char *home_directory(void)
{
        const char *home = getenv("HOME");
        if (home && *home == '/')
                return home;
        const struct passwd *entry = getpwuid(geteuid());
        return entry ? entry->pw_dir : NULL;
}

int image_choose(const char *name, const char *python, struct image_choice *ret, struct error *err)
{
        struct image_store_env env = {
                .store = getenv("CLOISTER_IMAGE_STORE"),
                .data_home = getenv("XDG_DATA_HOME"),
                .home = home_directory(),
        };

        *ret = (struct image_choice){.is_default = !name};
        int r = image_store_path(geteuid(), &env, ret->store, sizeof(ret->store), err);
        if (r < 0)
                return r;
        if (!python)
                python = IMAGE_PYTHON_DEFAULT;
        if ((size_t)snprintf(ret->python, sizeof(ret->python), "%s", python) >= sizeof(ret->python))
                return error_set(err, ENAMETOOLONG, "the path of the interpreter is too long");
        if (!name)
                return image_default_name(python, look, ret->name, err);
        if (!image_name_valid(name))
                return error_set(err, EINVAL,
                                 "'%s' is no name for an image ([A-Za-z0-9_.-], 1 to 64)", name);
        snprintf(ret->name, sizeof(ret->name), "%s", name);
        return 0;
}

static int read_info(int dir, struct image_info *info, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t length = 0;

        _cleanup_close_ int fd = openat(dir, "image.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return error_errno(err, errno, "image.json");
        int r = fd_read_whole(fd, IMAGE_JSON_MAX, &text, &length, err);
        return r < 0 ? r : image_info_parse(text, length, info, err);
}

int image_open(const struct image_choice *choice, struct image_info *info, int *root_fd,
               struct error *err)
{
        char path[sizeof(choice->store) + IMAGE_NAME_SIZE + 1];

        snprintf(path, sizeof(path), "%s/%s", choice->store, choice->name);
        _cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (dir < 0 && errno == ENOENT)
                return error_set(
                        err, ENOENT,
                        "there is no image '%s' (make it with 'cloister image build --name %s')",
                        choice->name, choice->name);
        if (dir < 0)
                return error_errno(err, errno, "image %s", path);
        int r = read_info(dir, info, err);
        if (r < 0)
                return error_context(err, "image %s", choice->name);
        int root = openat(dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (root < 0)
                return error_errno(err, errno, "image %s: root", choice->name);
        *root_fd = root;
        return 0;
}

static int make_directories(char *path, struct error *err)
{
        for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
                if (slash)
                        *slash = '\0';
                int r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
                if (slash)
                        *slash = '/';
                if (r < 0)
                        return error_errno(err, -r, "create %s", path);
                if (!slash)
                        return 0;
        }
}

int image_store_create(const struct image_choice *choice, const struct upstream_user *user,
                       struct error *err)
{
        char path[sizeof(choice->store)];

        memcpy(path, choice->store, sizeof(path));
        int r = make_directories(path, err);
        if (r < 0)
                return r;
        /* Only what is root's is given away, so that a link put there cannot name another's
         * directory. */
        _cleanup_close_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        struct stat st;
        if (dir < 0 || fstat(dir, &st) < 0)
                return error_errno(err, errno, "image store %s", path);
        if (st.st_uid == geteuid() && user->uid != st.st_uid &&
            fchown(dir, user->uid, user->gid) < 0)
                return error_errno(err, errno, "give image store %s to uid %u", path, user->uid);
        return 0;
}

/* A line that cannot be written is no reason to fail. */
static void pass_on_held(struct image_job *job)
{
        if (job->length == 0)
                return;
        job->held[job->length] = '\n';
        ssize_t written = write(STDERR_FILENO, job->held, job->length + 1);
        (void)written;
        job->held[job->length] = '\0';
}

/* Progress, for a person: a line is passed on when the next one begins. The last is the error, if
 * it is one, which is told once, by whom it concerns. */
static void take_output(struct image_job *job, const char *text, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (text[i] == '\n') {
                        job->line_done = true;
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
        (void)fd;
        (void)what;
        relay(data);
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct image_job *job = data;
        struct error error = {};

        (void)fd;
        (void)what;
        fd_set_nonblocking(job->fds[2], 1);
        while (event_pending(job->output, EV_READ, NULL))
                relay(job);
        int status = upstream_reap(job->upstream);
        children_remove(job->children, job->pid);
        if (status == 0)
                pass_on_held(job);
        if (status != 0) {
                const char *why = job->length > 0 ? job->held : "it ended without a word";
                if (strncmp(why, "cloister: ", 10) == 0)
                        why += 10;
                error_set(&error, EIO, "build the image: %s", why);
        }
        job->done(job->data, status == 0 ? NULL : &error);
}

static int watch(struct image_job *job, struct event_base *base, struct error *err)
{
        job->output = event_new(base, job->fds[2], EV_READ | EV_PERSIST, on_output, job);
        job->end = event_new(base, upstream_pidfd(job->upstream), EV_READ, on_end, job);
        if (!job->output || !job->end || event_add(job->output, NULL) < 0 ||
            event_add(job->end, NULL) < 0)
                return error_errno(err, ENOMEM, "watch the builder");
        return 0;
}

int image_job_start(struct event_base *base, struct children *children, const char *program,
                    const struct image_choice *choice, const struct upstream_user *user, bool quiet,
                    void (*done)(void *data, const struct error *error), void *data,
                    struct image_job **ret, struct error *err)
{
        const char *arguments[] = {"image-builder",
                                   "--store",
                                   choice->store,
                                   "--python",
                                   choice->python,
                                   "--name",
                                   choice->name,
                                   quiet ? "--quiet" : NULL,
                                   NULL};
        const char *libraries = getenv("LD_LIBRARY_PATH");
        char variable[4096];
        char *environment[] = {NULL, NULL};
        struct config_server builder = {
                .name = (char *)"image builder",
                .command = (char *)program,
                .args = (char **)arguments,
                .n_args = ARRAY_SIZE(arguments) - (quiet ? 1 : 2),
                .env = environment,
        };

        /* Some interpreters find their own libraries by it only. */
        if (libraries && (size_t)snprintf(variable, sizeof(variable), "LD_LIBRARY_PATH=%s",
                                          libraries) < sizeof(variable)) {
                environment[0] = variable;
                builder.n_env = 1;
        }
        struct image_job *job = calloc(1, sizeof(*job));
        if (!job)
                return error_errno(err, ENOMEM, "image builder");
        *job = (struct image_job){
                .children = children, .fds = {-1, -1, -1}, .done = done, .data = data};
        int r = upstream_start(&builder, user, &job->upstream, job->fds, err);
        if (r >= 0) {
                job->pid = upstream_pid(job->upstream);
                r = children_add(children, job->pid);
        }
        if (r >= 0)
                r = watch(job, base, err);
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
        if (job->output)
                event_free(job->output);
        if (job->end)
                event_free(job->end);
        if (job->pid > 0)
                children_remove(job->children, job->pid);
        upstream_free(job->upstream);
        fd_close_many(job->fds, ARRAY_SIZE(job->fds));
        free(job);
        return NULL;
}
