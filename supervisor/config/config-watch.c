/* Watches the directories of the config files with inotify. */
#include "supervisor/config/config-watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

enum {
        /* Two sets while one replaces the other, of some six directories a file. */
        PLACES_MAX = 2 * 6 * CONFIG_SNAPSHOT_MAX,
        SETTLE_MS = 150, /* joins an editor's write, rename and chmod to one change */
        SETTLE_MAX = 10, /* waits at most: something may change all the time */
};

enum {
        EVENTS = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |
                 IN_DELETE_SELF | IN_MOVE_SELF | IN_ATTRIB | IN_ONLYDIR,
};

/* A name in a watched directory; NULL: every name. */
struct place {
        int wd;
        char *directory, *name;
};

struct config_watch {
        int fd;
        struct event *readable, *settled;
        char *paths[CONFIG_FILES_MAX];
        size_t n_paths;
        struct place places[PLACES_MAX];
        size_t n_places;
        unsigned int delays;
        void (*changed)(void *data);
        void *data;
};

static void add_place(struct config_watch *w, const char *directory, const char *name)
{
        if (w->n_places == PLACES_MAX)
                return;
        int wd = inotify_add_watch(w->fd, directory, EVENTS);
        if (wd < 0) {
                if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                        log_warning("%s: changes are not noticed: %s", directory, strerror(errno));
                return;
        }
        struct place place = {wd, strdup(directory), name ? strdup(name) : NULL};
        w->places[w->n_places++] = place;
}

/* Splits a path into directory and name. */
static bool split(const char *path, char directory[PATH_MAX], const char **name)
{
        const char *slash = strrchr(path, '/');

        if (!slash || slash[1] == '\0' || strlen(path) >= PATH_MAX)
                return false;
        snprintf(directory, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
        *name = slash + 1;
        return true;
}

/* Watches the path in its directory, and that directory in its own. Where one does not exist,
 * the nearest directory above that exists, because it may be created. */
static void watch_path(struct config_watch *w, const char *path)
{
        char at[PATH_MAX], directory[PATH_MAX];
        const char *name;
        struct stat st;
        int exist = 0;

        snprintf(at, sizeof(at), "%s", path);
        while (exist < 2 && split(at, directory, &name)) {
                add_place(w, directory, name);
                exist += stat(directory, &st) == 0;
                memmove(at, directory, strlen(directory) + 1);
        }
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
                add_place(w, path, NULL);
}

static void watch_target(struct config_watch *w, const char *path)
{
        _cleanup_free_ char *real = realpath(path, NULL);

        if (real && strcmp(real, path) != 0)
                watch_path(w, real);
}

static bool is_watched(const struct config_watch *w, size_t from, int wd)
{
        for (size_t i = from; i < w->n_places; i++)
                if (w->places[i].wd == wd)
                        return true;
        return false;
}

static void forget_first(struct config_watch *w, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (!is_watched(w, n, w->places[i].wd))
                        inotify_rm_watch(w->fd, w->places[i].wd);
                free(w->places[i].directory);
                free(w->places[i].name);
        }
        w->n_places -= n;
        memmove(w->places, w->places + n, w->n_places * sizeof(w->places[0]));
}

void config_watch_files(struct config_watch *w, const struct config_files *files)
{
        size_t before = w->n_places;

        /* Adds before removing, so that a directory in both sets is watched without a gap. */
        for (size_t i = 0; i < w->n_paths; i++) {
                watch_path(w, w->paths[i]);
                watch_target(w, w->paths[i]);
        }
        for (size_t i = 0; files && i < config_files_count(files); i++) {
                /* No path that config_watch_new() got leads to published code or to a table. */
                if (config_files_code(files, i) > 0 ||
                    config_files_layer(files, i) == CONFIG_LAYER_TABLE)
                        watch_path(w, config_files_path(files, i));
                watch_target(w, config_files_path(files, i));
        }
        forget_first(w, before);
}

/* A file that is being written: closing it gives another event. */
static bool is_being_written(const struct place *place, const struct inotify_event *event)
{
        char path[PATH_MAX];
        struct stat st;

        if (event->mask != IN_CREATE)
                return false;
        snprintf(path, sizeof(path), "%s/%s", place->directory, event->name);
        return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1;
}

static bool concerns(const struct config_watch *w, const struct inotify_event *event)
{
        const char *name = event->len ? event->name : NULL;

        if (event->mask & IN_Q_OVERFLOW)
                return true;
        for (size_t i = 0; i < w->n_places; i++) {
                const struct place *place = &w->places[i];
                if (place->wd == event->wd &&
                    (!name || !place->name || strcmp(place->name, name) == 0) &&
                    !(name && is_being_written(place, event)))
                        return true;
        }
        return false;
}

static void settle(struct config_watch *w)
{
        struct timeval in = {.tv_usec = SETTLE_MS * 1000};

        if (w->delays++ < SETTLE_MAX)
                event_add(w->settled, &in);
}

static void on_readable(evutil_socket_t fd, short what, void *data)
{
        struct config_watch *w = data;
        _Alignas(struct inotify_event) char events[16 * 1024];
        bool any = false;
        ssize_t n = read(fd, events, sizeof(events));

        for (ssize_t at = 0; at < n;) {
                const struct inotify_event *event = (const void *)(events + at);
                any = any || concerns(w, event);
                at += (ssize_t)(sizeof(*event) + event->len);
        }
        if (any)
                settle(w);
}

static void on_settled(evutil_socket_t fd, short what, void *data)
{
        struct config_watch *w = data;

        w->delays = 0;
        w->changed(w->data);
}

static int add_paths(struct config_watch *w, const char *const *paths, size_t n)
{
        char own[PATH_MAX];

        if (n == 0) {
                if (config_files_user_path(own, sizeof(own)))
                        w->paths[w->n_paths++] = strdup(own);
                w->paths[w->n_paths++] = strdup(CONFIG_SYSTEM_PATH);
        }
        for (size_t i = 0; i < n && w->n_paths < CONFIG_FILES_MAX; i++) {
                /* Not realpath(): the target of a link may be what changes. */
                if (paths[i][0] == '/')
                        w->paths[w->n_paths++] = strdup(paths[i]);
                else if (getcwd(own, sizeof(own)) &&
                         asprintf(&w->paths[w->n_paths], "%s/%s", own, paths[i]) >= 0)
                        w->n_paths++;
        }
        for (size_t i = 0; i < w->n_paths; i++) {
                size_t length = w->paths[i] ? strlen(w->paths[i]) : 0;
                if (length == 0)
                        return -ENOMEM;
                while (length > 1 && w->paths[i][length - 1] == '/')
                        w->paths[i][--length] = '\0';
        }
        return 0;
}

int config_watch_new(struct config_watch **ret, struct event_base *base, const char *const *paths,
                     size_t n, void (*changed)(void *data), void *data, struct error *err)
{
        struct config_watch *w = calloc(1, sizeof(*w));

        if (!w)
                return error_errno(err, ENOMEM, "watch the config");
        w->changed = changed;
        w->data = data;
        w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (w->fd < 0) {
                int r = errno == EMFILE
                                ? error_set(
                                          err, EMFILE,
                                          "watch files: no inotify instance is left for this user: end programs that watch files, or raise the sysctl fs.inotify.max_user_instances")
                                : error_errno(err, errno, "watch files: inotify_init1");
                free(w);
                return r;
        }
        w->readable = event_new(base, w->fd, EV_READ | EV_PERSIST, on_readable, w);
        w->settled = evtimer_new(base, on_settled, w);
        if (!w->readable || !w->settled || add_paths(w, paths, n) < 0 ||
            event_add(w->readable, NULL) < 0) {
                config_watch_free(w);
                return error_errno(err, ENOMEM, "watch the config");
        }
        config_watch_files(w, NULL);
        settle(w);
        *ret = w;
        return 0;
}

struct config_watch *config_watch_free(struct config_watch *w)
{
        if (!w)
                return NULL;
        if (w->readable)
                event_free(w->readable);
        if (w->settled)
                event_free(w->settled);
        for (size_t i = 0; i < w->n_places; i++) {
                free(w->places[i].directory);
                free(w->places[i].name);
        }
        for (size_t i = 0; i < w->n_paths; i++)
                free(w->paths[i]);
        close(w->fd);
        free(w);
        return NULL;
}
