/* Finds the image of sessions, or has it built. */
#include "supervisor/monitor/image/image-job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

enum { HELD_LINE_MAX = 700, LOCKS_MAX = 64, ARGUMENTS_MAX = 160 };

struct image_job {
        struct children *children;
        struct upstream *upstream;
        pid_t pid;
        int fds[3];
        struct event *output, *exec, *end;
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

/* One of the store's small files; NULL when there is none. */
static char *read_note(const struct image_choice *choice, const char *kind, const char *key)
{
        char path[sizeof(choice->store) + 64];
        char *text = NULL;
        size_t n = 0;

        snprintf(path, sizeof(path), "%s/.%s-%s", choice->store, kind, key);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        return fd < 0 || fd_read_whole(fd, IMAGE_PARTS_MAX, &text, &n, NULL) < 0 ? NULL : text;
}

static int default_name(struct image_choice *choice, struct error *err)
{
        char key[IMAGE_KEY_SIZE];

        image_parts_key(choice->python, key);
        _cleanup_free_ char *parts = read_note(choice, "parts", key);
        return image_default_name(choice->python, parts, look, choice->name, err);
}

/* One of packages that nobody made yet has a name that there is not. */
int image_refresh(struct image_choice *choice, struct error *err)
{
        char key[IMAGE_KEY_SIZE];

        if (!choice->is_default)
                return 0;
        int r = default_name(choice, err);
        if (r < 0 || !choice->set)
                return r;
        snprintf(key, sizeof(key), "%016" PRIx64, package_set_key(choice->set, choice->name));
        _cleanup_free_ char *name = read_note(choice, "set", key);
        if (name && image_name_valid(name))
                snprintf(choice->name, sizeof(choice->name), "%s", name);
        else
                snprintf(choice->name, sizeof(choice->name), "set-%s", key);
        return 0;
}

static int choose_place(const char *python, struct image_choice *ret, struct error *err)
{
        struct image_store_env env = {
                .store = getenv("CLOISTER_IMAGE_STORE"),
                .data_home = getenv("XDG_DATA_HOME"),
                .home = home_directory(),
        };

        int r = image_store_path(geteuid(), &env, ret->store, sizeof(ret->store), err);
        if (r < 0)
                return r;
        if (!python)
                python = IMAGE_PYTHON_DEFAULT;
        if ((size_t)snprintf(ret->python, sizeof(ret->python), "%s", python) >= sizeof(ret->python))
                return error_set(err, ENAMETOOLONG, "the path of the interpreter is too long");
        return 0;
}

int image_choose(const char *name, const char *python, struct image_choice *ret, struct error *err)
{
        *ret = (struct image_choice){.is_default = !name};
        int r = choose_place(python, ret, err);
        if (r < 0 || !name)
                return r;
        if (!image_name_valid(name))
                return error_set(err, EINVAL,
                                 "'%s' is no name for an image ([A-Za-z0-9_.-], 1 to 64)", name);
        snprintf(ret->name, sizeof(ret->name), "%s", name);
        return 0;
}

int image_choose_set(const struct package_set *set, const char *python, struct image_choice *ret,
                     struct error *err)
{
        *ret = (struct image_choice){.is_default = true, .set = set};
        return choose_place(python, ret, err);
}

/* Images in use stay locked, shared, while we live: sessions of a template that is gone may still
 * run in them. */
static int keep(int dir)
{
        static struct {
                dev_t device;
                ino_t inode;
        } held[LOCKS_MAX];
        static size_t n;
        struct stat st;

        if (fstat(dir, &st) < 0)
                return -errno;
        for (size_t i = 0; i < n; i++)
                if (held[i].device == st.st_dev && held[i].inode == st.st_ino)
                        return 0;
        if (n == LOCKS_MAX)
                return -EMFILE;
        int fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_SH | LOCK_NB) < 0) {
                close(fd);
                return -ENOENT; /* it is being removed */
        }
        held[n].device = st.st_dev;
        held[n++].inode = st.st_ino;
        /* It may have been removed between our opening and our locking it. */
        return fstat(dir, &st) < 0 || st.st_nlink == 0 ? -ENOENT : 0;
}

static int read_info(int dir, struct image_info *info, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        size_t length = 0;

        _cleanup_close_ int fd = openat(dir, "image.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return error_errno(err, errno, "image.json");
        /* When it was last used. Who does not own it leaves that to the reading. */
        futimens(fd, (struct timespec[]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}});
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
        int r = keep(dir);
        if (r < 0)
                return error_errno(err, -r, "image %s", choice->name);
        r = read_info(dir, info, err);
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
        if (upstream_exec_result(job->upstream, &error) < 0) {
                error_context(&error, "build the image");
        } else if (status != 0) {
                const char *why = job->length > 0 ? job->held : "it ended without a word";
                if (strncmp(why, "cloister: ", 10) == 0)
                        why += 10;
                error_set(&error, EIO, "build the image: %s", why);
        }
        job->done(job->data, error_is_set(&error) ? &error : NULL);
}

static void on_exec(evutil_socket_t fd, short what, void *data)
{
        struct image_job *job = data;

        (void)fd;
        (void)what;
        /* on_end() reports it. */
        if (upstream_exec_result(job->upstream, NULL) < 0)
                upstream_kill(job->upstream);
}

static int watch(struct image_job *job, struct event_base *base, struct error *err)
{
        const struct timeval deadline = {.tv_sec = UPSTREAM_EXEC_SECONDS};

        job->output = event_new(base, job->fds[2], EV_READ | EV_PERSIST, on_output, job);
        job->exec = event_new(base, upstream_exec_fd(job->upstream), EV_READ, on_exec, job);
        job->end = event_new(base, upstream_pidfd(job->upstream), EV_READ, on_end, job);
        if (!job->output || !job->exec || !job->end || event_add(job->output, NULL) < 0 ||
            event_add(job->exec, &deadline) < 0 || event_add(job->end, NULL) < 0)
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
        add_argument(arguments, &n, "--name", choice->is_default ? NULL : choice->name);
        add_argument(arguments, &n, "--link", choice->link);
        add_argument(arguments, &n, "--rootfs", choice->rootfs);
        for (size_t i = 0; set && i < set->n_with; i++)
                add_argument(arguments, &n, "--with", set->with[i]);
        for (size_t i = 0; set && i < set->n_files; i++)
                add_argument(arguments, &n, "--requirements", set->files[i]);
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

int image_job_start(struct event_base *base, struct children *children, const char *program,
                    const struct image_choice *choice, const struct upstream_user *user, bool quiet,
                    void (*done)(void *data, const struct error *error), void *data,
                    struct image_job **ret, struct error *err)
{
        const char *arguments[ARGUMENTS_MAX + 8] = {};
        const char *libraries = getenv("LD_LIBRARY_PATH");
        char variable[4096];
        char *environment[] = {NULL, NULL};
        struct config_server builder = {
                .name = (char *)"image builder",
                .command = (char *)program,
                .args = (char **)arguments,
                .n_args = describe_job(choice, quiet, arguments),
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
        if (job->exec)
                event_free(job->exec);
        if (job->end)
                event_free(job->end);
        if (job->pid > 0)
                children_remove(job->children, job->pid);
        upstream_free(job->upstream);
        fd_close_many(job->fds, ARRAY_SIZE(job->fds));
        free(job);
        return NULL;
}
