/* Packages that were installed for sessions. */
#include "rootfs/sets.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "policy/image.h"
#include "policy/package-set.h"
#include "rootfs/store.h"

enum { YOUNG_SECONDS = 24 * 3600, NOTE_MAX = 1024 * 1024 };

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
static void prune_one(int profile, int index, const char *note, size_t n, uint64_t *bytes)
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
                prune_one(profile, dirfd(stream), d->d_name, n - 5, bytes);
        }
        closedir(stream);
}

void sets_prune(int store, uint64_t *bytes)
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
