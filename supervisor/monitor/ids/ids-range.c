/* Ranges of numeric ids. */
#include "supervisor/monitor/ids/ids-range.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* Enough for the passwd file of a large site; a longer file is an error. */
enum { FILE_MAX = 64 * 1024 * 1024, SLOT_MIN = 1024 };

int id_runs_add(struct id_runs *runs, uint32_t first, uint32_t count)
{
        if (count == 0)
                return 0;
        struct id_run *last = runs->count ? &runs->items[runs->count - 1] : NULL;
        /* Ids in passwd files mostly ascend: join adjacent ones. */
        if (last && (uint64_t)last->first + last->count == first &&
            (uint64_t)last->count + count <= UINT32_MAX) {
                last->count += count;
                return 0;
        }
        if (runs->count == runs->allocated) {
                size_t room = runs->allocated ? runs->allocated * 2 : 64;
                struct id_run *more = reallocarray(runs->items, room, sizeof(*more));
                if (!more)
                        return -ENOMEM;
                runs->items = more;
                runs->allocated = room;
        }
        runs->items[runs->count++] = (struct id_run){first, count};
        return 0;
}

void id_runs_done(struct id_runs *runs)
{
        free(runs->items);
        *runs = (struct id_runs){0};
}

typedef int line_parser(const char *line, struct id_run *ret);

static int parse_map(const char *line, struct id_run *ret)
{
        uint32_t outer;

        return sscanf(line, "%u %u %u", &ret->first, &outer, &ret->count) == 3 ? 0 : -EINVAL;
}

static int parse_sub(const char *line, struct id_run *ret)
{
        return sscanf(line, "%*[^:]:%u:%u", &ret->first, &ret->count) == 2 ? 0 : -EINVAL;
}

static int parse_name(const char *line, struct id_run *ret)
{
        const char *second = strchr(line, ':');
        const char *third = second ? strchr(second + 1, ':') : NULL;

        ret->count = 1;
        return third && sscanf(third, ":%u", &ret->first) == 1 ? 0 : -EINVAL;
}

static int add_lines(struct id_runs *runs, char *text, line_parser *parse, struct error *err)
{
        char *rest = text;
        const char *line;

        while ((line = strsep(&rest, "\n"))) {
                struct id_run run;
                /* Comments, NIS entries and malformed lines name no id. */
                if (parse(line, &run) == 0 && id_runs_add(runs, run.first, run.count) < 0)
                        return error_errno(err, ENOMEM, "ids");
        }
        return 0;
}

/* *ret: the text, owned by the caller; NULL when the file does not exist. */
static int read_lines(const char *path, char **ret, struct error *err)
{
        size_t length;

        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return 0;
        if (fd < 0)
                return error_errno(err, errno, "open %s", path);
        int r = fd_read_whole(fd, FILE_MAX, ret, &length, err);
        return r < 0 ? error_context(err, "%s", path) : 0;
}

static int add_file(struct id_runs *runs, const char *path, line_parser *parse, struct error *err)
{
        _cleanup_free_ char *text = NULL;

        int r = read_lines(path, &text, err);
        return r < 0 || !text ? r : add_lines(runs, text, parse, err);
}

int id_runs_add_map(struct id_runs *runs, const char *path, struct error *err)
{
        return add_file(runs, path, parse_map, err);
}

int id_runs_add_sub(struct id_runs *runs, const char *path, struct error *err)
{
        return add_file(runs, path, parse_sub, err);
}

static bool is_owned(const char *line, const char *name, uint32_t uid)
{
        size_t n = strcspn(line, ":");
        char number[16];

        snprintf(number, sizeof(number), "%u", uid);
        return (strlen(name) == n && strncmp(line, name, n) == 0) ||
               (strlen(number) == n && strncmp(line, number, n) == 0);
}

int id_runs_add_sub_of(struct id_runs *runs, const char *path, const char *name, uint32_t uid,
                       struct error *err)
{
        _cleanup_free_ char *text = NULL;

        int r = read_lines(path, &text, err);
        char *rest = text;
        for (const char *line; r >= 0 && (line = strsep(&rest, "\n"));) {
                struct id_run run;
                if (is_owned(line, name, uid) && parse_sub(line, &run) == 0)
                        r = id_runs_add(runs, run.first, run.count);
        }
        return r;
}

int id_runs_add_names(struct id_runs *runs, const char *path, struct error *err)
{
        return add_file(runs, path, parse_name, err);
}

static uint64_t end_of(struct id_run run)
{
        return (uint64_t)run.first + run.count;
}

bool id_runs_cover(const struct id_runs *runs, struct id_run wanted)
{
        for (size_t i = 0; i < runs->count; i++) {
                if (runs->items[i].first <= wanted.first &&
                    end_of(wanted) <= end_of(runs->items[i]))
                        return true;
        }
        return false;
}

bool id_runs_overlap(const struct id_runs *runs, struct id_run wanted)
{
        for (size_t i = 0; i < runs->count; i++) {
                if (runs->items[i].first < end_of(wanted) && wanted.first < end_of(runs->items[i]))
                        return true;
        }
        return false;
}

/* A power of two, so that monitors with different numbers of sessions divide a range into the
 * same slots. */
static uint32_t slot_size(uint32_t needed)
{
        uint32_t size = SLOT_MIN;

        while (size < needed)
                size *= 2;
        return size;
}

int id_runs_choose(struct id_run range, uint32_t needed, uint32_t start,
                   const struct id_runs *uid_map, const struct id_runs *gid_map,
                   const struct id_runs *taken, struct id_run *ret)
{
        uint32_t size = slot_size(needed);
        uint32_t slots = range.count / size;

        if (needed == 0 || needed > range.count)
                return -ENOSPC;
        if (slots == 0)
                slots = 1;
        for (uint32_t i = 0; i < slots; i++) {
                uint32_t slot = (uint32_t)(((uint64_t)start + i) % slots);
                struct id_run run = {range.first + slot * size, needed};
                if (run.first != 0 && end_of(run) <= UINT32_MAX && id_runs_cover(uid_map, run) &&
                    id_runs_cover(gid_map, run) && !id_runs_overlap(taken, run)) {
                        *ret = run;
                        return 0;
                }
        }
        return -ENOSPC;
}
