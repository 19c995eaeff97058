/* Spare leaves of sessions. */
#include "supervisor/monitor/cgroup/cgroup-spare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum { TRIES_MAX = 4, SWEPT_AT_ONCE = 4 /* a millisecond */ };

/* ---- the list ---- */

static void remove_leaf(struct cgroup *cgroup)
{
        fd_close_many(cgroup->fds, CGROUP_PLACES_MAX);
        for (size_t i = 0; i < cgroup->owner->count; i++)
                (void)cgroup_tree_remove(cgroup->owner->items[i].fd, cgroup->name, 0);
        free(cgroup);
}

static struct cgroup *unlink_leaf(struct cgroups *cgroups, size_t i)
{
        struct cgroup *found = cgroups->spares[i];

        cgroups->n_spares--;
        memmove(&cgroups->spares[i], &cgroups->spares[i + 1],
                (cgroups->n_spares - i) * sizeof(struct cgroup *));
        return found;
}

/* The list is in the order of time: the first one is due first. */
static void plan_sweep(struct cgroups *cgroups)
{
        if (cgroups->n_spares == 0)
                return;
        uint64_t due = cgroups->spares[0]->spare_since_ms + SPARE_MS, now = clock_ms();
        struct timeval after = clock_timeval_ms(due > now ? due - now : 0);
        event_add(cgroups->sweep, &after);
}

static void on_sweep(evutil_socket_t fd, short what, void *data)
{
        struct cgroups *cgroups = data;
        uint64_t now = clock_ms();

        for (int n = 0; n < SWEPT_AT_ONCE && cgroups->n_spares > 0 &&
                        cgroups->spares[0]->spare_since_ms + SPARE_MS <= now;
             n++)
                remove_leaf(unlink_leaf(cgroups, 0));
        plan_sweep(cgroups);
}

int cgroup_spares_init(struct cgroups *cgroups, struct event_base *base)
{
        cgroups->spares = calloc(SPARES_MAX, sizeof(struct cgroup *));
        cgroups->sweep = cgroups->spares ? evtimer_new(base, on_sweep, cgroups) : NULL;
        return cgroups->sweep ? 0 : -ENOMEM;
}

void cgroup_spares_done(struct cgroups *cgroups)
{
        if (cgroups->sweep)
                event_free(cgroups->sweep);
        cgroups->sweep = NULL;
        free(cgroups->spares);
        cgroups->spares = NULL;
}

static size_t drop(struct cgroups *cgroups, bool all, uint32_t principal)
{
        size_t n = 0;

        for (size_t i = cgroups->n_spares; i-- > 0;) {
                if (!all && cgroups->spares[i]->principal != principal)
                        continue;
                remove_leaf(unlink_leaf(cgroups, i));
                n++;
        }
        return n;
}

size_t cgroup_spares_drop(struct cgroups *cgroups)
{
        return drop(cgroups, true, 0);
}

size_t cgroup_spares_drop_of(struct cgroups *cgroups, uint32_t principal)
{
        return drop(cgroups, false, principal);
}

/* ---- what a leaf still has of its session ---- */

/* An attribute that is missing, or cannot be read, is not zero. */
static bool is_zero(int dir, const char *file, const char *key)
{
        char text[1024];

        if (cgroup_read(dir, file, text, sizeof(text)) < 0)
                return false;
        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, key, strlen(key)) == 0)
                        return strncmp(line + strlen(key), "0\n", 2) == 0;
        }
        return false;
}

static bool is_empty(const struct cgroup *c)
{
        return is_zero(cgroup_leaf_fd(c, CGROUP_UNIFIED), "cgroup.events", "populated ") &&
               is_zero(cgroup_leaf_fd(c, CGROUP_PIDS), "pids.current", "");
}

static bool has_counted_nothing(const struct cgroup *c)
{
        return is_zero(cgroup_leaf_fd(c, CGROUP_MEMORY), "memory.oom_control", "oom_kill ") &&
               is_zero(cgroup_leaf_fd(c, CGROUP_PIDS), "pids.events", "max ");
}

bool cgroup_spare_keep(struct cgroup *c)
{
        struct cgroups *owner = c->owner;
        size_t same = 0;

        for (size_t i = 0; i < owner->n_spares; i++)
                same += owner->spares[i]->principal == c->principal;
        if (!c->is_reusable || c->is_frozen || !owner->sweep || owner->n_spares == SPARES_MAX ||
            same == SPARES_OF_ONE || !is_empty(c) || !has_counted_nothing(c))
                return false;
        c->spare_since_ms = clock_ms();
        owner->spares[owner->n_spares++] = c;
        if (owner->n_spares == 1)
                plan_sweep(owner);
        return true;
}

/* The charge of memory and swap includes that of memory. Sockets count apart. */
static bool is_light(const struct cgroup *c)
{
        int fd = cgroup_leaf_fd(c, CGROUP_MEMORY);
        char text[32];

        if (cgroup_read(fd, "memory.memsw.usage_in_bytes", text, sizeof(text)) < 0 &&
            cgroup_read(fd, "memory.usage_in_bytes", text, sizeof(text)) < 0)
                return false;
        return strtoull(text, NULL, 10) < SPARE_BYTES &&
               (c->limits.socket_buffers == 0 || is_zero(fd, "memory.kmem.tcp.usage_in_bytes", ""));
}

static bool begin_again(struct cgroup *c, const struct limits *limits)
{
        const struct cgroup_operations *o = c->owner->operations;
        struct error ignored = {};

        if (cgroup_write(cgroup_leaf_fd(c, o->memory_controller), o->memory_file, "0") < 0 ||
            cgroup_write(cgroup_leaf_fd(c, o->cpu_controller), o->cpu_file, "0") < 0)
                return false;
        /* Also gives back the processor time of the period in which the last session ended. */
        if ((c->limits.cpu_milli > 0 || limits->cpu_milli > 0) &&
            o->set_cpu(c, limits->cpu_milli, CGROUP_PERIOD_US, &ignored) < 0)
                return false;
        if (c->limits.memory != limits->memory && o->set_memory(c, limits->memory, &ignored) < 0)
                return false;
        if (c->limits.pids != limits->pids &&
            cgroup_set_number(c, CGROUP_PIDS, "pids.max", limits->pids, &ignored) < 0)
                return false;
        c->limits = *limits;
        return true;
}

struct cgroup *cgroup_spare_take(struct cgroups *cgroups, uint32_t principal,
                                 const struct limits *limits)
{
        int tries = 0;

        for (size_t i = cgroups->n_spares; i-- > 0 && tries < TRIES_MAX;) {
                struct cgroup *c = cgroups->spares[i];
                if (c->principal != principal || c->limits.socket_buffers != limits->socket_buffers)
                        continue;
                tries++;
                if (!is_light(c))
                        continue;
                unlink_leaf(cgroups, i);
                if (begin_again(c, limits))
                        return c;
                remove_leaf(c);
        }
        return NULL;
}
