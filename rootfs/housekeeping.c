/* Finds and removes stale images. */
#include "rootfs/housekeeping.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "policy/package-set.h"
#include "rootfs/store.h"

enum { YOUNG_SECONDS = 24 * 3600, NOTE_MAX = 1024 * 1024 };

static bool has_prefix(const char *text, const char *prefix)
{
        return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool housekeeping_is_stale(int store, const struct image_info *info)
{
        char now[IMAGE_NAME_SIZE];

        if (!has_prefix(info->name, "default-") && !has_prefix(info->name, "packages-"))
                return false;
        if (info->source[0] != '/')
                return false;
        const char *made_on = has_prefix(info->name, "default-") ? info->name : info->base;
        return store_default_name(store, info->source, now, NULL) < 0 || strcmp(now, made_on) != 0;
}

void housekeeping_remove_older(int store, const struct image_info *made)
{
        struct image_info *images = NULL;
        int n = store_list(store, &images, NULL);

        for (int i = 0; i < n; i++) {
                if (has_prefix(images[i].name, "default-") &&
                    strcmp(images[i].source, made->source) == 0 &&
                    strcmp(images[i].name, made->name) != 0)
                        store_remove(store, images[i].name, NULL);
        }
        free(images);
}

/* Whether image.json contains this text. A hash can be found without parsing. */
static bool mentions(int store, const char *image, const char *text)
{
        char path[IMAGE_NAME_SIZE + 16];
        _cleanup_free_ char *data = NULL;
        size_t n = 0;

        snprintf(path, sizeof(path), "%s/image.json", image);
        _cleanup_close_ int fd = openat(store, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        return fd >= 0 && fd_read_whole(fd, IMAGE_JSON_MAX, &data, &n, NULL) >= 0 &&
               strstr(data, text);
}

static void add_size(int folder, const char *name, uint64_t *bytes)
{
        DIR *stream = fd_open_directory(folder, name);
        struct stat st;

        if (!stream)
                return;
        for (struct dirent *d; (d = readdir(stream));)
                if (fstatat(dirfd(stream), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    S_ISREG(st.st_mode))
                        *bytes += (uint64_t)st.st_size;
        closedir(stream);
}

static void prune_wheels(int store, const struct image_info *images, int n, uint64_t *bytes)
{
        DIR *stream = fd_open_directory(store, ".cache/wheels");

        if (!stream)
                return;
        for (struct dirent *d; (d = readdir(stream));) {
                bool used = d->d_name[0] == '.';
                for (int i = 0; i < n && !used; i++)
                        used = *images[i].set && mentions(store, images[i].name, d->d_name);
                if (used)
                        continue;
                add_size(dirfd(stream), d->d_name, bytes);
                store_clear(dirfd(stream), d->d_name);
        }
        closedir(stream);
}

/* Removes .set files whose image was removed. */
static void prune_notes(int store)
{
        DIR *stream = fd_open_directory(store, ".");

        if (!stream)
                return;
        for (struct dirent *d; (d = readdir(stream));) {
                if (!has_prefix(d->d_name, ".set-"))
                        continue;
                _cleanup_free_ char *name = store_read_note(store, "set", d->d_name + 5);
                if (!name || !image_name_valid(name) || faccessat(store, name, F_OK, 0) < 0)
                        unlinkat(store, d->d_name, 0);
        }
        closedir(stream);
}

/* ---- packages that were installed for sessions ---- */

static uint64_t size_of(int index, const char *note)
{
        _cleanup_close_ int fd = openat(index, note,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t bytes = 0;
        size_t n = 0;

        if (fd < 0 || fd_read_whole(fd, NOTE_MAX, &text, &n, NULL) < 0 ||
            json_parse(text, n, &doc, NULL) < 0)
                return 0;
        json_int64(yyjson_obj_get(yyjson_doc_get_root(doc), "bytes"), &bytes);
        return bytes > 0 ? (uint64_t)bytes : 0;
}

/* Its directory can be entered, not listed. */
static void prune_set(int profile, int index, const char *note, size_t n, uint64_t *bytes)
{
        _cleanup_close_ int sets = openat(profile, PACKAGES_SETS,
                                          O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char name[IMAGE_NAME_SIZE];

        if (sets < 0 || n >= sizeof(name))
                return;
        snprintf(name, sizeof(name), "%.*s", (int)n, note);
        *bytes += size_of(index, note);
        unlinkat(index, note, 0);
        store_clear(sets, name);
}

/* Whether a server runs that had started when the set was last asked for (PACKAGES_USE). Where that cannot be
 * told, one does. */
static bool is_used(int use, time_t asked)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = asked + 1};

        return use >= 0 && (fcntl(use, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK);
}

static void prune_profile(int profile, uint64_t *bytes)
{
        DIR *stream = fd_open_directory(profile, "index");
        /* Servers of earlier versions made none. */
        _cleanup_close_ int use = openat(profile, PACKAGES_USE,
                                         O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat st;

        if (!stream)
                return;
        for (struct dirent *d; (d = readdir(stream));) {
                size_t n = strlen(d->d_name);
                if (n <= 5 || strcmp(d->d_name + n - 5, ".json") != 0 || d->d_name[0] == '.' ||
                    fstatat(dirfd(stream), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                    time(NULL) - st.st_mtime < YOUNG_SECONDS || is_used(use, st.st_mtime))
                        continue;
                prune_set(profile, dirfd(stream), d->d_name, n - 5, bytes);
        }
        closedir(stream);
}

/* Removes the sets that no session has asked for for a day, and no session of a server that runs has. Adds to
 * *bytes what they took. */
static void prune_sets(int store, uint64_t *bytes)
{
        DIR *stream = fd_open_directory(store, PACKAGES_INSTALLED);

        if (!stream)
                return;
        for (struct dirent *d; (d = readdir(stream));) {
                _cleanup_close_ int profile = -1;
                if (d->d_name[0] != '.')
                        profile = openat(dirfd(stream), d->d_name,
                                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (profile >= 0)
                        prune_profile(profile, bytes);
        }
        closedir(stream);
}

int housekeeping_prune(int store, void (*report)(const struct image_info *info, bool busy),
                       uint64_t *bytes, struct error *err)
{
        _cleanup_free_ struct image_info *images = NULL;
        int removed = 0, kept = 0;

        int n = store_list(store, &images, err);
        if (n < 0)
                return n;
        store_sweep(store);
        for (int i = 0; i < n; i++) {
                int r = 0;
                if (housekeeping_is_stale(store, &images[i])) {
                        r = store_remove(store, images[i].name, err);
                        if (r < 0 && r != -EBUSY)
                                return r;
                        report(&images[i], r == -EBUSY);
                }
                if (r == 1)
                        removed++;
                else
                        images[kept++] = images[i];
        }
        prune_notes(store);
        prune_wheels(store, images, kept, bytes);
        prune_sets(store, bytes);
        return removed;
}
