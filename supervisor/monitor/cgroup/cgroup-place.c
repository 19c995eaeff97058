/*
 * Where this process is in each cgroup hierarchy.
 *
 * A mount may show only a part of its hierarchy (field "root" of mountinfo, in a container without
 * a cgroup namespace), and the path in /proc/self/cgroup is relative to the root of the cgroup
 * namespace. Our directory is the mount point plus the part of the path below the mount's root. If
 * the path is not below it, the mount does not show our group.
 */
#include "supervisor/monitor/cgroup/cgroup-place.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { PROC_FILE_MAX = 16 * 1024 * 1024 };

static const struct {
        const char *name;
        enum cgroup_controller bit;
} controller_names[] = {
        {"memory", CGROUP_MEMORY},
        {"pids", CGROUP_PIDS},
        {"cpu", CGROUP_CPU},
        {"cpuacct", CGROUP_CPUACCT},
};

static unsigned controllers_of(const char *list, size_t n)
{
        unsigned bits = 0;

        for (const char *end = list + n; list < end;) {
                size_t length = 0;
                while (list + length < end && list[length] != ',')
                        length++;
                for (size_t i = 0; i < ARRAY_SIZE(controller_names); i++) {
                        const char *name = controller_names[i].name;
                        if (strlen(name) == length && strncmp(name, list, length) == 0)
                                bits |= controller_names[i].bit;
                }
                list += length + 1;
        }
        return bits;
}

static bool has_option(const char *options, const char *name)
{
        size_t n = strlen(name);

        for (const char *at = options; *at; at += *at == ',') {
                size_t length = strcspn(at, ",");
                if (length == n && strncmp(at, name, n) == 0)
                        return true;
                at += length;
        }
        return false;
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static void unescape(char *text)
{
        char *to = text;

        for (const char *from = text; *from; to++) {
                if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
                        *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
                        from += 4;
                } else {
                        *to = *from++;
                }
        }
        *to = '\0';
}

/* The path of "N:controllers:path" for a hierarchy (bits; CGROUP_UNIFIED: the line "0::"). Not
 * terminated. */
static const char *own_path(const char *self, unsigned bits, size_t *ret_length)
{
        for (const char *line = self; *line;) {
                size_t length = strcspn(line, "\n");
                const char *first = memchr(line, ':', length);
                const char *second = first ? strchr(first + 1, ':') : NULL;
                if (second && second < line + length) {
                        size_t n = (size_t)(second - first) - 1;
                        bool unified = n == 0 && strncmp(line, "0:", 2) == 0;
                        if (bits == CGROUP_UNIFIED ? unified
                                                   : (controllers_of(first + 1, n) & bits) != 0) {
                                *ret_length = (size_t)(line + length - second) - 1;
                                return second + 1;
                        }
                }
                line += length + (line[length] == '\n');
        }
        return NULL;
}

/* Removes the mount's root from the path. Returns NULL when the path is not below it. */
static const char *below_root(const char *root, const char *path, size_t *length)
{
        size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

        if (*length < n || strncmp(path, root, n) != 0 || (*length > n && path[n] != '/'))
                return NULL;
        path += n;
        *length -= n;
        if (*length == 1)
                *length = 0;
        /* "/../x": outside the namespace's root. */
        return *length >= 3 && strncmp(path, "/..", 3) == 0 ? NULL : path;
}

struct mount_line {
        char root[PATH_MAX], point[PATH_MAX];
        char type[32];
        char options[1024]; /* of the super block: version 1 has its controllers there */
};

static bool parse_mount(const char *line, struct mount_line *ret)
{
        char text[3 * PATH_MAX];
        size_t n = strcspn(line, "\n");

        if (n >= sizeof(text))
                return false;
        memcpy(text, line, n);
        text[n] = '\0';
        static_assert(PATH_MAX == 4096, "the widths below");
        if (sscanf(text, "%*s %*s %*s %4095s %4095s", ret->root, ret->point) != 2)
                return false;
        /* It was cut. */
        if (strlen(ret->root) == PATH_MAX - 1 || strlen(ret->point) == PATH_MAX - 1)
                return false;
        const char *rest = strstr(text, " - ");
        if (!rest || sscanf(rest, " - %31s %*s %1023s", ret->type, ret->options) != 2)
                return false;
        unescape(ret->root);
        unescape(ret->point);
        return true;
}

static void add_place(struct cgroup_places *ret, const struct mount_line *mount, const char *self)
{
        unsigned bits = 0;
        size_t length = 0;

        if (strcmp(mount->type, "cgroup2") == 0)
                bits = CGROUP_UNIFIED;
        else if (strcmp(mount->type, "cgroup") == 0)
                bits = controllers_of(mount->options, strlen(mount->options));
        if (!bits || ret->count == CGROUP_PLACES_MAX || cgroup_place_of(ret, bits))
                return;
        const char *path = own_path(self, bits, &length);
        path = path ? below_root(mount->root, path, &length) : NULL;
        if (!path)
                return;
        struct cgroup_place *place = &ret->items[ret->count];
        place->controllers = bits;
        place->nsdelegate = bits == CGROUP_UNIFIED && has_option(mount->options, "nsdelegate");
        snprintf(place->mount, sizeof(place->mount), "%s", mount->point);
        int n = snprintf(place->own, sizeof(place->own), "%s%.*s", mount->point, (int)length, path);
        if (n > 0 && (size_t)n < sizeof(place->own))
                ret->count++;
}

void cgroup_places_parse(const char *mountinfo, const char *self, struct cgroup_places *ret)
{
        struct mount_line mount;

        ret->count = 0;
        for (const char *line = mountinfo; *line;) {
                size_t n = strcspn(line, "\n");
                if (parse_mount(line, &mount))
                        add_place(ret, &mount, self);
                line += n + (line[n] == '\n');
        }
}

static int read_file(const char *path, char **ret, struct error *err)
{
        size_t length;
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return error_errno(err, errno, "open %s", path);
        return fd_read_whole(fd, PROC_FILE_MAX, ret, &length, err);
}

int cgroup_places_read(struct cgroup_places **ret, struct error *err)
{
        _cleanup_free_ char *mountinfo = NULL, *self = NULL;

        int r = read_file("/proc/self/mountinfo", &mountinfo, err);
        if (r >= 0)
                r = read_file("/proc/self/cgroup", &self, err);
        if (r < 0)
                return r;
        struct cgroup_places *places = calloc(1, sizeof(*places));
        if (!places)
                return error_errno(err, ENOMEM, "cgroup");
        cgroup_places_parse(mountinfo, self, places);
        *ret = places;
        return 0;
}

const struct cgroup_place *cgroup_place_of(const struct cgroup_places *places,
                                           enum cgroup_controller controller)
{
        for (size_t i = 0; i < places->count; i++) {
                if (places->items[i].controllers & controller)
                        return &places->items[i];
        }
        return NULL;
}
