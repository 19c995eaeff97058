/* The sums of all sandboxes and of those of a principal. */
#include "supervisor/monitor/monitor-sums.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "supervisor/monitor/cgroup/cgroup-total.h"
#include "supervisor/monitor/memory-watch.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"

#define MIB (UINT64_C(1) << 20)

enum {
        NEW_MIB = 24,    /* of a new session, at least */
        SPARE_MIB = 4,   /* of a ready sandbox, at most */
        SPARES_PART = 4, /* of what is left: of all ready sandboxes */
        MARGIN_MIB_MAX = 64,
        MARGIN_PART = 16,     /* of the sum */
        SUPERVISOR_PART = 16, /* of what there is: of Cloister's own processes */
        SERVERS_PART = 8,     /* of what there is: of servers, at least */
        TICK_MIN_MS = 10,
        FREEING_MS = 5000,  /* a killed session that has not ended by then may never end */
        FORGET_MS = 600000, /* longer than a template and its image take */
        TICK_MAX_MS = 1000, /* nothing can take 1 GiB in that time */
        LOOK_MS = 1000,
        LOOKS_MAX = 32,  /* principals in each look, which take less than a millisecond */
        BUSY_MILLI = 20, /* of a processor, at least: some short calls each second */
};

/* A principal that has had a sandbox. */
struct sums_principal {
        struct monitor_principal is; /* id 0: a free place */
        uint64_t seen_ms;            /* when it last asked for a sandbox, or had one */
        bool is_refused;             /* the kernel has not taken its newest limits */
        bool rests;                  /* PRINCIPAL_REST */
        bool is_busy;                /* look_at_use() */
        enum cgroup_part part;       /* of its group */
        uint64_t cpu_us, cpu_ms;     /* what it had used, and when; 0: unknown */
        uint64_t milli;     /* thousandths of a processor that it used between the last two looks */
        uint64_t hits_seen; /* of the limit of its group */
};

enum { SUMS_PRINCIPALS_MAX = 256 };

struct sums {
        struct cgroup_total here;  /* of the machine, or of the group of Cloister */
        struct cgroup_total total; /* of all sandboxes */
        struct sums_principal principals[SUMS_PRINCIPALS_MAX];
        size_t n_principals;
        uint64_t freeing_ms; /* since when is_freeing(); 0: not freeing */
        uint64_t looked_ms;  /* look_at_use() */
        size_t next_look;
        struct event *timer; /* while there are several principals */
};

static bool has_groups(const struct monitor *m)
{
        return cgroups_version(m->cgroups) != CGROUP_NONE;
}

/* The installers of a principal, or of all (0): the next one after `u`, or the first one. NULL: there is no other. */
static struct monitor_upstream *next_installer(struct monitor *m, struct monitor_upstream *u,
                                               uint32_t id)
{
        for (u = u ? u + 1 : m->upstreams + MONITOR_UPSTREAMS_MAX;
             u < m->upstreams + ARRAY_SIZE(m->upstreams); u++) {
                if (u->upstream && (id == 0 || u->principal == id))
                        return u;
        }
        return NULL;
}

static uint64_t used_by_branches(const struct monitor *m, uint32_t id)
{
        uint64_t used = 0;
        struct stat st;

        for (const struct monitor_branch *b = m->branches; b; b = b->next) {
                if ((id == 0 || b->principal == id) && fstat(b->fd, &st) == 0)
                        used += (uint64_t)st.st_blocks * 512;
        }
        return used;
}

/* Bytes of all (0) or of a principal, exactly if it is more than `most`. */
static uint64_t used_by(struct monitor *m, uint32_t id, uint64_t most)
{
        if (has_groups(m))
                return cgroups_used(m->cgroups, id, most);
        uint64_t used = used_by_branches(m, id);
        for (struct monitor_upstream *u = NULL; (u = next_installer(m, u, id));)
                used += u->memory;
        if (id == 0)
                return used + memory_watch_sum(m->memory);
        for (uint32_t i = 0; i < m->sessions_max; i++) {
                if (m->sandboxes[i] && sandbox_principal(m->sandboxes[i]) == id)
                        used += memory_watch_part(m->memory, i);
        }
        return used;
}

/* ---- the limits ---- */

static int set_group(struct monitor *m, const struct monitor_principal *p, struct error *err)
{
        /* Version 1 refuses more than the group above has. */
        bool has_cpu = p->cpu_milli < (m->sums->total.cpu_milli ?: m->sums->here.cpu_milli);
        const struct cgroup_total total = {p->memory_mib ? p->memory_mib * MIB
                                                         : (uint64_t)INT64_MAX / MIB * MIB,
                                           has_cpu ? p->cpu_milli : 0};

        return has_groups(m) ? cgroups_set_total(m->cgroups, p->id, &total, err) : 0;
}

/* Sets the limits of one that is known. Limits that the kernel refuses are logged once and tried again. */
static void set_again(struct monitor *m, struct sums_principal *p, bool differs)
{
        struct error err = {};
        bool is_refused = set_group(m, &p->is, &err) < 0;

        if (is_refused && (differs || !p->is_refused))
                log_warning("%s; the principal's earlier limits hold", err.text);
        p->is_refused = is_refused;
}

static void set_principals(struct monitor *m)
{
        for (size_t i = 0; i < m->sums->n_principals; i++)
                set_again(m, &m->sums->principals[i], false);
}

/* Three quarters of what there is, unless the config sets the sum. */
int monitor_sums_set(struct monitor *m, struct error *err)
{
        struct sums *s = m->sums;
        bool is_first = !s;
        uint32_t before = s ? s->total.cpu_milli : 0;

        if (!s) {
                s = m->sums = calloc(1, sizeof(*s));
                if (!s)
                        return error_errno(err, ENOMEM, "sums");
                s->here = cgroup_total_here();
        }
        s->total.memory = m->config->memory_total ? m->config->memory_total
                                                  : s->here.memory / 4 * 3;
        s->total.cpu_milli = m->config->cpu_total_milli ? m->config->cpu_total_milli
                                                        : s->here.cpu_milli / 4 * 3;
        if (s->total.cpu_milli >= s->here.cpu_milli)
                s->total.cpu_milli = 0;
        /* Version 1 refuses less than a group in it has: those that are above it have no limit of their own then. */
        bool is_lower = s->total.cpu_milli > 0 && (before == 0 || s->total.cpu_milli < before);
        if (is_lower)
                set_principals(m);
        int r = has_groups(m) ? cgroups_set_total(m->cgroups, 0, &s->total, err) : 0;
        if (r == -EINVAL && is_first) {
                log_warning("cpu_total: %s; the limit of a group above holds", err->text);
                *err = (struct error){};
                r = 0;
        }
        if (r < 0 && is_lower && !is_first) {
                s->total.cpu_milli = before;
                set_principals(m);
        }
        if (r >= 0 && has_groups(m) && m->config->n_servers > 0)
                r = cgroups_set_servers(m->cgroups, monitor_sums_servers(m), err);
        if (r < 0)
                return error_context(err, "memory_total, cpu_total"), r;
        /* Those that were noted before systemd gave us groups have none. */
        set_principals(m);
        return 0;
}

/* The memory that sandboxes and Cloister's own processes leave, in whole MiB. */
uint64_t monitor_sums_servers(const struct monitor *m)
{
        uint64_t here = m->sums->here.memory, least = here / SERVERS_PART,
                 others = m->sums->total.memory + here / SUPERVISOR_PART,
                 left = here > others ? here - others : 0;

        return (left > least ? left : least) / MIB * MIB;
}

uint64_t monitor_sums_memory(const struct monitor *m)
{
        return m->sums->total.memory;
}

/* ---- principals ---- */

static uint64_t share_of(const struct monitor *m, const struct monitor_principal *p)
{
        uint64_t even = m->sums->total.memory / (p->of > 0 ? p->of : 1),
                 one = profiles_early_limits(m->profiles)->memory;

        return even > one ? even : one;
}

static struct sums_principal *find(struct sums *s, uint32_t id)
{
        for (size_t i = 0; i < s->n_principals; i++) {
                if (s->principals[i].is.id == id)
                        return &s->principals[i];
        }
        return NULL;
}

/* Removes those that have had no sandbox for long. */
static void sweep(struct monitor *m)
{
        struct sums *s = m->sums;
        uint64_t now = clock_ms();

        for (uint32_t i = 0; i < m->sessions_max; i++) {
                struct sums_principal *p = m->sandboxes[i]
                                                   ? find(s, sandbox_principal(m->sandboxes[i]))
                                                   : NULL;
                if (p)
                        p->seen_ms = now;
        }
        for (struct monitor_upstream *u = NULL; (u = next_installer(m, u, 0));) {
                struct sums_principal *p = find(s, u->principal);
                if (p)
                        p->seen_ms = now;
        }
        for (size_t i = s->n_principals; i-- > 0;) {
                struct sums_principal *p = &s->principals[i];
                if (now < p->seen_ms + FORGET_MS)
                        continue;
                if (has_groups(m))
                        cgroups_forget_principal(m->cgroups, p->is.id);
                *p = s->principals[--s->n_principals];
        }
}

uint64_t monitor_sums_limit(const struct monitor *m, uint32_t principal, enum monitor_limit limit)
{
        if (limit == MONITOR_LIMIT_TOTAL)
                return m->sums->total.memory;
        const struct sums_principal *p = limit == MONITOR_LIMIT_PRINCIPAL ? find(m->sums, principal)
                                                                          : NULL;
        return p ? p->is.memory_mib * MIB : 0;
}

/* The principal that is most above its even share; 0: none is. */
static uint32_t most_above(struct monitor *m)
{
        uint32_t found = 0;
        uint64_t most = 0;

        for (size_t i = 0; i < m->sums->n_principals; i++) {
                const struct monitor_principal *p = &m->sums->principals[i].is;
                uint64_t share = share_of(m, p), used = used_by(m, p->id, share);
                if (used < share + most)
                        continue;
                found = p->id;
                most = used - share;
        }
        return found;
}

/* Notes a principal, and makes its group. */
static int note(struct monitor *m, const struct monitor_principal *p, struct error *err)
{
        struct sums *s = m->sums;
        struct sums_principal *known = find(s, p->id);
        bool is_new = !known;

        if (is_new && s->n_principals == SUMS_PRINCIPALS_MAX)
                sweep(m);
        if (is_new && s->n_principals == SUMS_PRINCIPALS_MAX)
                return error_set(err, EDQUOT, "%d principals have sessions", SUMS_PRINCIPALS_MAX);
        /* The memory is set first: only the processor time is refused so. */
        int r = is_new ? set_group(m, p, err) : 0;
        if (r < 0 && r != -EINVAL)
                return r;
        bool differs = !is_new && (known->is.memory_mib != p->memory_mib ||
                                   known->is.cpu_milli != p->cpu_milli);
        if (is_new) {
                known = &s->principals[s->n_principals++];
                *known = (struct sums_principal){.is_refused = r < 0};
        }
        known->is = *p;
        known->seen_ms = clock_ms();
        if (differs || known->is_refused)
                set_again(m, known, differs || is_new);
        return 0;
}

/* ---- rest ---- */

void monitor_sums_weigh(struct monitor *m, uint32_t id)
{
        struct sums_principal *p = find(m->sums, id);
        enum cgroup_part part = !p           ? CGROUP_PART_USUAL
                                : p->rests   ? CGROUP_PART_REST
                                : p->is_busy ? CGROUP_PART_BUSY
                                             : CGROUP_PART_USUAL;

        /* Others wait for the template, which makes a sandbox in a bounded time, and for the memory of a killed one. */
        for (uint32_t i = 0; part != CGROUP_PART_USUAL && i < m->sessions_max; i++) {
                if (m->sandboxes[i] && sandbox_principal(m->sandboxes[i]) == id &&
                    !sandbox_is_up(m->sandboxes[i]))
                        part = CGROUP_PART_USUAL;
        }
        if (!p || part == p->part)
                return;
        if (has_groups(m))
                cgroups_weigh(m->cgroups, id, p->part, part);
        p->part = part;
}

/* Half of an even part of what those that are not at rest have used lately: where other programs compute, that is less than
 * cpu_total. */
static uint64_t busy_milli(const struct sums *s)
{
        uint64_t all = 0, n = 0;

        for (size_t i = 0; i < s->n_principals; i++) {
                if (s->principals[i].rests)
                        continue;
                all += s->principals[i].milli;
                n++;
        }
        all = n > 0 ? all / n / 2 : 0;
        return all > BUSY_MILLI ? all : BUSY_MILLI;
}

static void look_at_one(struct monitor *m, struct sums_principal *p, uint64_t now)
{
        uint64_t used = cgroups_cpu_usec(m->cgroups, p->is.id);

        if (p->cpu_ms > 0 && now > p->cpu_ms && used >= p->cpu_us) {
                p->milli = (used - p->cpu_us) / (now - p->cpu_ms);
                uint64_t most = busy_milli(m->sums);
                p->is_busy = p->milli > (p->is_busy ? most / 2 : most);
        }
        p->cpu_us = used;
        p->cpu_ms = now;
        monitor_sums_weigh(m, p->is.id);
}

/* With equal weights a principal that uses up its part for long would have each short call of another one wait as long as its own
 * code: the kernel gives no credit to those that use less. */
static void look_at_use(struct monitor *m)
{
        struct sums *s = m->sums;
        uint64_t now = clock_ms();

        if (now < s->looked_ms + LOOK_MS)
                return;
        s->looked_ms = now;
        for (size_t i = 0, looks = 0; i < s->n_principals && looks < LOOKS_MAX; i++) {
                struct sums_principal *p = &s->principals[s->next_look++ % s->n_principals];
                if (p->rests || s->n_principals == 1) {
                        p->is_busy = false;
                        p->cpu_ms = 0;
                } else {
                        looks++;
                        look_at_one(m, p, now);
                }
        }
}

void monitor_sums_rest(struct monitor *m, const struct monitor_request *request)
{
        struct sums_principal *p = find(m->sums, request->target);

        if (p)
                p->rests = request->number > 0;
        monitor_sums_weigh(m, request->target);
        monitor_send_done(m, request->serial);
}

/* ---- when a sum is reached ---- */

bool monitor_sums_has_reached(void *data, uint32_t id)
{
        struct monitor *m = data;
        struct sums_principal *p = find(m->sums, id);

        return p && cgroups_principal_has_reached_limit(m->cgroups, id, &p->hits_seen);
}

/* Above `most`. id 0: of all. */
static struct sandbox *largest_of(struct monitor *m, uint32_t id, uint64_t most)
{
        struct sandbox *found = NULL;

        for (uint32_t i = 0; i < m->sessions_max; i++) {
                struct sandbox *sandbox = m->sandboxes[i];
                if (!sandbox || sandbox_is_out_of_memory(sandbox) ||
                    (id > 0 && sandbox_principal(sandbox) != id))
                        continue;
                uint64_t used = has_groups(m) ? sandbox_memory_now(sandbox)
                                              : memory_watch_part(m->memory, i);
                if (used > most) {
                        found = sandbox;
                        most = used;
                }
        }
        return found;
}

static struct monitor_upstream *largest_installer(struct monitor *m, uint32_t id, uint64_t *most)
{
        struct monitor_upstream *found = NULL;

        for (struct monitor_upstream *u = NULL; (u = next_installer(m, u, id));) {
                uint64_t used = u->cgroup ? cgroup_memory_now(u->cgroup) : u->memory;
                if (u->is_over || used <= *most)
                        continue;
                found = u;
                *most = used;
        }
        return found;
}

/* One was killed, and what it had is not free yet. */
static bool is_freeing(struct monitor *m)
{
        uint64_t now = clock_ms(), since = 0;

        for (uint32_t i = 0; i < m->sessions_max; i++) {
                if (m->sandboxes[i] && sandbox_is_out_of_memory(m->sandboxes[i]))
                        since = m->sums->freeing_ms ?: now;
        }
        for (struct monitor_upstream *u = NULL; (u = next_installer(m, u, 0));) {
                if (u->is_over)
                        since = m->sums->freeing_ms ?: now;
        }
        m->sums->freeing_ms = since;
        return since > 0 && now < since + FREEING_MS;
}

static void kill_one_of(struct monitor *m, uint32_t id, enum monitor_limit limit)
{
        const char *sum = limit == MONITOR_LIMIT_TOTAL ? "memory_total"
                                                       : "memory= of its principal";
        uint64_t most = 0;

        if (is_freeing(m))
                return;
        struct monitor_upstream *installer = largest_installer(m, id, &most);
        struct sandbox *sandbox = largest_of(m, id, most);
        if (!sandbox && !installer)
                return;
        m->sums->freeing_ms = clock_ms();
        if (sandbox) {
                log_info("session %u is killed: %s is reached", sandbox_handle(sandbox), sum);
                sandbox_kill_for_memory(sandbox, limit);
                monitor_sums_weigh(m, sandbox_principal(sandbox));
                return;
        }
        log_warning("an installation of %llu MiB was ended: %s is reached",
                    (unsigned long long)(most / MIB), sum);
        installer->is_over = true;
        upstream_kill(installer->upstream);
}

/* The sum less what is kept free while there are several principals, for sessions that grow before the next look. */
static uint64_t most_of_all(const struct monitor *m)
{
        uint64_t total = m->sums->total.memory, margin = total / MARGIN_PART;

        if (!has_groups(m) || m->sums->n_principals == 0)
                return total;
        return total - (margin < MARGIN_MIB_MAX * MIB ? margin : MARGIN_MIB_MAX * MIB);
}

/* Returns how many bytes may still be taken. */
static uint64_t check_total(struct monitor *m)
{
        uint64_t most = most_of_all(m), used = used_by(m, 0, most);

        if (used <= most)
                return most - used;
        uint32_t above = most_above(m);
        if (above > 0 || !has_groups(m))
                kill_one_of(m, above, MONITOR_LIMIT_TOTAL);
        return 0;
}

void monitor_sums_changed(struct monitor *m)
{
        check_total(m);
        for (size_t i = 0; i < m->sums->n_principals; i++) {
                const struct monitor_principal *p = &m->sums->principals[i].is;
                if (p->memory_mib > 0 && used_by(m, p->id, 0) > p->memory_mib * MIB)
                        kill_one_of(m, p->id, MONITOR_LIMIT_PRINCIPAL);
        }
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;
        uint64_t ms = check_total(m) / MIB;

        sweep(m);
        look_at_use(m);
        ms = ms < TICK_MIN_MS ? TICK_MIN_MS : ms > TICK_MAX_MS ? TICK_MAX_MS : ms;
        struct timeval after = clock_timeval_ms(ms);
        if (m->sums->n_principals > 0)
                event_add(m->sums->timer, &after);
}

static int watch(struct monitor *m, struct error *err)
{
        struct sums *s = m->sums;

        if (!has_groups(m) || (s->timer && event_pending(s->timer, EV_TIMEOUT, NULL)))
                return 0;
        if (!s->timer)
                s->timer = evtimer_new(m->base, on_timer, m);
        struct timeval after = clock_timeval_ms(TICK_MIN_MS);
        return s->timer && event_add(s->timer, &after) == 0 ? 0 : error_errno(err, ENOMEM, "sums");
}

/* ---- new sessions ---- */

static uint64_t less_one(uint64_t sum)
{
        return sum > NEW_MIB * MIB ? sum - NEW_MIB * MIB : 0;
}

static int refuse(uint64_t used, uint64_t most_mib, const char *of, const char *name,
                  struct error *err)
{
        return error_set(
                err, EDQUOT,
                "the sessions %s use %llu of %llu MiB (%s): end one with 'cloister sessions end NAME', or raise %s",
                of, (unsigned long long)(used / MIB), (unsigned long long)most_mib, name, name);
}

int monitor_sums_admit(struct monitor *m, const struct monitor_principal *p, uint32_t *first,
                       struct error *err)
{
        *first = 0;
        int r = p->id > 0 ? note(m, p, err) : 0;
        if (r >= 0 && p->id > 0)
                r = watch(m, err);
        if (r < 0)
                return r;
        uint64_t bound = p->memory_mib > 0 ? less_one(p->memory_mib * MIB) : UINT64_MAX,
                 share = share_of(m, p),
                 own = p->id > 0 ? used_by(m, p->id, bound < share ? bound : share) : share;
        if (p->id > 0 && own > bound)
                return refuse(own, p->memory_mib, "of this principal", "\"memory=\"", err);
        bound = less_one(most_of_all(m));
        uint64_t used = used_by(m, 0, bound);
        if (used <= bound)
                return 0;
        if (own < share)
                *first = most_above(m);
        return refuse(used, m->sums->total.memory / MIB, "of all clients", "\"memory_total\"", err);
}

/* For all (0), or for a principal. */
static uint64_t left_for(struct monitor *m, uint32_t id, uint64_t most)
{
        uint64_t used = used_by(m, id, 0);

        return most > used ? most - used : 0;
}

static uint64_t left_for_principal(struct monitor *m, const struct monitor_principal *p)
{
        return p->id == 0 || p->memory_mib == 0 ? UINT64_MAX
                                                : left_for(m, p->id, p->memory_mib * MIB);
}

uint64_t monitor_sums_left(struct monitor *m, const struct monitor_principal *p)
{
        uint64_t left = left_for(m, 0, most_of_all(m)), own = left_for_principal(m, p);

        return own < left ? own : left;
}

int monitor_sums_admit_spare(struct monitor *m, const struct monitor_principal *p, uint32_t spares,
                             struct error *err)
{
        const struct {
                uint64_t n, left;
                const char *sum;
        } bounds[] = {
                {spares >> MONITOR_SPARES_BITS, left_for(m, 0, most_of_all(m)), "\"memory_total\""},
                {spares & ((1U << MONITOR_SPARES_BITS) - 1), left_for_principal(m, p),
                 "\"memory=\" of a principal"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
                if (bounds[i].n * SPARE_MIB * MIB > bounds[i].left / SPARES_PART)
                        return error_set(
                                err, EDQUOT,
                                "%llu would take more than a quarter of the %llu MiB that %s leaves",
                                (unsigned long long)bounds[i].n,
                                (unsigned long long)(bounds[i].left / MIB), bounds[i].sum);
        }
        return 0;
}

bool monitor_sums_allow_copy(struct monitor *m, uint32_t slot)
{
        uint64_t own = has_groups(m) ? sandbox_memory_now(m->sandboxes[slot])
                                     : memory_watch_part(m->memory, slot),
                 most = m->sums->total.memory / 4 * 3;

        return own <= most && used_by(m, 0, most - own) <= most - own;
}

void monitor_sums_done(struct monitor *m)
{
        if (m->sums && m->sums->timer)
                event_free(m->sums->timer);
        free(m->sums);
}
