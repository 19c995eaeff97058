/* Images of the store, by the version of their Python. */
#include "supervisor/pythons/version-image.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { IMAGES_MAX = 1024 };

static int read_info(int store, const char *name, struct image_info *info)
{
        char path[IMAGE_NAME_SIZE + 16];
        _cleanup_free_ char *data = NULL;
        struct stat st;
        size_t n = 0;

        snprintf(path, sizeof(path), "%s/image.json", name);
        _cleanup_close_ int fd = openat(store, path,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
            fd_read_whole(fd, IMAGE_JSON_MAX, &data, &n, NULL) < 0)
                return -1;
        return image_info_parse(data, n, info, NULL);
}

struct choice {
        struct python_version version;
        uint64_t packages;
        char name[IMAGE_NAME_SIZE];
};

static bool is_better(const struct choice *a, const struct choice *b)
{
        if (python_version_is_newer(&a->version, &b->version) ||
            python_version_is_newer(&b->version, &a->version))
                return python_version_is_newer(&a->version, &b->version);
        return a->packages != b->packages ? a->packages < b->packages
                                          : strcmp(a->name, b->name) < 0;
}

static void consider(int store, const char *name, const struct python_version *wanted,
                     struct choice *best)
{
        struct image_info info = {};
        struct choice choice = {};

        if (!image_name_valid(name) || read_info(store, name, &info) < 0 || *info.set ||
            !python_version_fits(wanted, info.version) ||
            python_version_parse(info.version, &choice.version, NULL) < 0)
                return;
        choice.packages = info.n_packages;
        snprintf(choice.name, sizeof(choice.name), "%s", name);
        if (!*best->name || is_better(&choice, best))
                *best = choice;
}

int version_image_find(int store, const struct python_version *wanted, char ret[IMAGE_NAME_SIZE])
{
        /* Not readdir(): it asks for the flags of the descriptor, which the filter refuses. */
        _Alignas(struct dirent64) char entries[8192];
        struct choice best = {};
        ssize_t n;
        size_t seen = 0;

        _cleanup_close_ int folder = store < 0 ? -1
                                               : openat(store, ".",
                                                        O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        while (folder >= 0 && seen < IMAGES_MAX &&
               (n = getdents64(folder, entries, sizeof(entries))) > 0)
                for (ssize_t at = 0; at < n && seen < IMAGES_MAX; seen++) {
                        const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
                        consider(store, entry->d_name, wanted, &best);
                        at += entry->d_reclen;
                }
        if (!*best.name)
                return 0;
        memcpy(ret, best.name, IMAGE_NAME_SIZE);
        return 1;
}
