/* The monitor's sums. The test has stand-ins for control groups, samples and sandboxes. */
#include "supervisor/monitor/monitor-sums.h"

#include <errno.h>
#include <event2/event.h>

#include "supervisor/monitor/cgroup/cgroup-total.h"
#include "supervisor/monitor/memory-watch.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

#define MIB (UINT64_C(1) << 20)

enum { SESSIONS = 4, PRINCIPALS = 8 };

struct sandbox {
        uint32_t principal;
        uint64_t used;
        bool is_killed, is_made;
};

static struct sandbox sandboxes[SESSIONS];
static enum cgroup_version version;
static struct {
        int n; /* times that it was set */
        struct cgroup_total total;
        int error; /* that the next times return */
        enum cgroup_part part;
        int weighed, looks; /* times */
        uint64_t cpu_us;
        uint64_t hits; /* of its limit of memory */
} groups[PRINCIPALS];

enum cgroup_version cgroups_version(const struct cgroups *cgroups)
{
        return version;
}

struct cgroup_total cgroup_total_here(void)
{
        return (struct cgroup_total){4096 * MIB, 4000};
}

int cgroups_set_total(struct cgroups *cgroups, uint32_t principal, const struct cgroup_total *total,
                      struct error *err)
{
        groups[principal].n++;
        groups[principal].total = *total;
        return groups[principal].error ? error_errno(err, groups[principal].error, "group") : 0;
}

int cgroups_set_servers(struct cgroups *cgroups, uint64_t memory, struct error *err)
{
        return 0;
}

uint64_t cgroups_used(struct cgroups *cgroups, uint32_t principal, uint64_t most)
{
        uint64_t used = 0;

        for (int i = 0; i < SESSIONS; i++)
                used += principal == 0 || sandboxes[i].principal == principal ? sandboxes[i].used
                                                                              : 0;
        return used;
}

void cgroups_weigh(struct cgroups *cgroups, uint32_t principal, enum cgroup_part before,
                   enum cgroup_part part)
{
        check_eq_int(before, groups[principal].part);
        groups[principal].part = part;
        groups[principal].weighed++;
}

uint64_t cgroups_cpu_usec(struct cgroups *cgroups, uint32_t principal)
{
        groups[principal].looks++;
        return groups[principal].cpu_us;
}

bool cgroups_principal_has_reached_limit(struct cgroups *cgroups, uint32_t principal,
                                         uint64_t *seen)
{
        uint64_t before = *seen;

        *seen = groups[principal].hits;
        return *seen > before;
}

void cgroups_forget_principal(struct cgroups *cgroups, uint32_t principal)
{
        groups[principal].hits = 0;
}

uint64_t memory_watch_sum(const struct memory_watch *watch)
{
        return cgroups_used(NULL, 0, 0);
}

uint64_t memory_watch_part(const struct memory_watch *watch, uint32_t slot)
{
        return sandboxes[slot].used;
}

const struct limits *profiles_early_limits(const struct profiles *profiles)
{
        static const struct limits limits = {.memory = 512 * MIB};

        return &limits;
}

uint32_t sandbox_handle(const struct sandbox *sandbox)
{
        return (uint32_t)(sandbox - sandboxes) + 1;
}

uint32_t sandbox_principal(const struct sandbox *sandbox)
{
        return sandbox->principal;
}

bool sandbox_is_up(const struct sandbox *sandbox)
{
        return !sandbox->is_made;
}

void monitor_send_done(struct monitor *m, uint32_t serial)
{
        check_eq_int(serial, 3);
}

uint64_t sandbox_memory_now(const struct sandbox *sandbox)
{
        return sandbox->used;
}

bool sandbox_is_out_of_memory(const struct sandbox *sandbox)
{
        return sandbox->is_killed;
}

void sandbox_kill_for_memory(struct sandbox *sandbox, enum monitor_limit limit)
{
        check(!sandbox->is_killed);
        sandbox->is_killed = true;
}

/* There is no installer. */
uint64_t cgroup_memory_now(const struct cgroup *cgroup)
{
        check(cgroup);
        return 0;
}

void upstream_kill(struct upstream *upstream)
{
        check(upstream);
}

/* ---- the monitor ---- */

struct world {
        struct monitor m;
        struct sandbox *slots[SESSIONS];
};

static void open_world(struct world *w, enum cgroup_version v)
{
        struct error err = {};

        memset(sandboxes, 0, sizeof(sandboxes));
        memset(groups, 0, sizeof(groups));
        version = v;
        *w = (struct world){.m = {.base = event_base_new(),
                                  .config = config_new(),
                                  .sandboxes = w->slots,
                                  .sessions_max = SESSIONS}};
        w->m.config->memory_total = 1024 * MIB;
        w->m.config->cpu_total_milli = 2000;
        check_ok(monitor_sums_set(&w->m, &err));
}

static void close_world(struct world *w)
{
        monitor_sums_done(&w->m);
        config_free(w->m.config);
        event_base_free(w->m.base);
}

static void admit(struct world *w, const struct monitor_principal principal)
{
        struct error err = {};
        uint32_t first;

        check_ok(monitor_sums_admit(&w->m, &principal, &first, &err));
}

/* A session for each principal. */
static void fill(struct world *w, uint64_t used)
{
        for (uint32_t i = 0; i < SESSIONS; i++) {
                admit(w, (struct monitor_principal){.id = i + 1, .of = SESSIONS});
                sandboxes[i] = (struct sandbox){.principal = i + 1};
                w->slots[i] = &sandboxes[i];
        }
        for (uint32_t i = 0; i < SESSIONS; i++)
                sandboxes[i].used = used + i;
}

static int n_killed(void)
{
        int n = 0;

        for (int i = 0; i < SESSIONS; i++)
                n += sandboxes[i].is_killed;
        return n;
}

/* A principal asks before systemd has answered whether there are groups. */
static void test_groups_come_later(void)
{
        struct error err = {};
        struct world w;

        open_world(&w, CGROUP_NONE);
        admit(&w, (struct monitor_principal){.id = 1, .of = 2, .memory_mib = 600});
        check_eq_int(groups[1].n, 0);
        version = CGROUP_V2;
        check_ok(monitor_sums_set(&w.m, &err));
        check_eq_int(groups[0].n, 1);
        check_eq_int(groups[1].n, 1);
        check_eq_int(groups[1].total.memory, 600 * MIB);
        admit(&w, (struct monitor_principal){.id = 1, .of = 2, .memory_mib = 600});
        check_eq_int(groups[1].n, 1);
        close_world(&w);
}

/* Without groups: the shares of many principals, one session each at least, are more than the sum. */
static void test_nobody_is_above_its_share(void)
{
        for (uint64_t mib = 200; mib <= 400; mib += 200) {
                struct world w;

                open_world(&w, CGROUP_NONE);
                fill(&w, mib * MIB);
                monitor_sums_changed(&w.m);
                check_eq_int(n_killed(), mib == 400);
                check(mib == 200 || sandboxes[SESSIONS - 1].is_killed); /* the largest */
                monitor_sums_changed(&w.m);
                check_eq_int(n_killed(), mib == 400);
                close_world(&w);
        }
}

/* One that was killed stays, in a system call that does not end: others are killed in its place. */
static void test_killed_one_stays(void)
{
        struct world w;

        open_world(&w, CGROUP_NONE);
        fill(&w, 400 * MIB);
        monitor_sums_changed(&w.m);
        fake_clock_advance_ms(1000);
        monitor_sums_changed(&w.m);
        check_eq_int(n_killed(), 1);
        fake_clock_advance_ms(5000);
        monitor_sums_changed(&w.m);
        monitor_sums_changed(&w.m);
        check_eq_int(n_killed(), 2);
        check(sandboxes[SESSIONS - 2].is_killed);
        close_world(&w);
}

/* Version 1 refuses a limit while groups below have more, or if the group above has less. */
static void test_refused_limits(void)
{
        struct monitor_principal one = {.id = 1, .of = 2, .memory_mib = 600, .cpu_milli = 1000};
        struct error err = {};
        struct world w;

        open_world(&w, CGROUP_V1);
        admit(&w, one);
        check_eq_int(groups[1].total.cpu_milli, 1000);
        one.cpu_milli = 500;
        groups[1].error = EINVAL;
        for (int i = 2; i < 5; i++) {
                admit(&w, one);
                check_eq_int(groups[1].n, i); /* tried again */
        }
        groups[1].error = 0;
        check_ok(monitor_sums_set(&w.m, &err));
        check_eq_int(groups[1].n, 5);
        check_eq_int(groups[1].total.cpu_milli, 500);
        admit(&w, one);
        check_eq_int(groups[1].n, 5);
        /* As much as all may have, or more. */
        one.cpu_milli = 3000;
        admit(&w, one);
        check_eq_int(groups[1].total.cpu_milli, 0);
        w.m.config->cpu_total_milli = 5000;
        check_ok(monitor_sums_set(&w.m, &err));
        check_eq_int(groups[0].total.cpu_milli, 0);
        check_eq_int(groups[1].total.cpu_milli, 3000);
        one.cpu_milli = 5000;
        admit(&w, one);
        check_eq_int(groups[1].total.cpu_milli, 0);
        /* A lower value for all is an error, and a new principal starts with what the kernel gives. */
        groups[0].error = EINVAL;
        check_eq_int(monitor_sums_set(&w.m, &err), -EINVAL);
        groups[2].error = EINVAL;
        one.id = 2;
        admit(&w, one);
        groups[3].error = EBUSY;
        one.id = 3;
        check_eq_int(monitor_sums_admit(&w.m, &one, &(uint32_t){0}, &err), -EBUSY);
        close_world(&w);
}

static void rest(struct world *w, uint32_t id, bool rests)
{
        const struct monitor_request request = {
                .verb = MONITOR_PRINCIPAL_REST, .serial = 3, .target = id, .number = rests};

        monitor_sums_rest(&w->m, &request);
}

/* For longer than a principal without a session is known. */
static void pass_ten_minutes(struct world *w)
{
        for (int i = 0; i < 700; i++) {
                fake_clock_advance_ms(1000);
                event_base_loop(w->m.base, EVLOOP_NONBLOCK);
        }
}

/* One that was forgotten begins anew, and no other one has its place with its state. */
static void test_forgotten(void)
{
        struct world w;

        open_world(&w, CGROUP_V2);
        fill(&w, MIB);
        groups[4].hits = 5;
        check(monitor_sums_has_reached(&w.m, 4));
        rest(&w, 4, true);
        check((groups[4].part == CGROUP_PART_REST));
        w.slots[0] = NULL;
        pass_ten_minutes(&w);
        admit(&w, (struct monitor_principal){.id = 5, .of = SESSIONS});
        sandboxes[0] = (struct sandbox){.principal = 5, .is_made = true};
        w.slots[0] = &sandboxes[0];
        monitor_sums_weigh(&w.m, 5);
        sandboxes[0].is_made = false;
        monitor_sums_weigh(&w.m, 5);
        check(!(groups[5].part == CGROUP_PART_REST));
        groups[5].hits = 1;
        check(monitor_sums_has_reached(&w.m, 5));
        w.slots[3] = NULL;
        pass_ten_minutes(&w);
        check_eq_int((long)groups[4].hits, 0);
        admit(&w, (struct monitor_principal){.id = 4, .of = SESSIONS});
        groups[4].hits = 1;
        check(monitor_sums_has_reached(&w.m, 4));
        close_world(&w);
}

/* Reported once, of this principal only. */
static void test_which_sum(void)
{
        struct world w;

        open_world(&w, CGROUP_V2);
        fill(&w, MIB);
        check(!monitor_sums_has_reached(&w.m, 1));
        groups[1].hits = 5;
        check(monitor_sums_has_reached(&w.m, 1));
        check(!monitor_sums_has_reached(&w.m, 1));
        check(!monitor_sums_has_reached(&w.m, 2));
        check(!monitor_sums_has_reached(&w.m, 6)); /* not known */
        close_world(&w);
}

/* Each principal uses ms[id - 1] milliseconds of processor time in each of these seconds. */
static void pass(struct world *w, int seconds, const unsigned int ms[SESSIONS])
{
        for (int i = 0; i < seconds; i++) {
                for (int k = 0; k < SESSIONS; k++)
                        groups[k + 1].cpu_us += ms[k] * UINT64_C(1000);
                fake_clock_advance_ms(1000);
                event_base_loop(w->m.base, EVLOOP_NONBLOCK);
        }
}

static bool is_busy(uint32_t id)
{
        return groups[id].part == CGROUP_PART_BUSY;
}

/* Half of an even part of what the four use is the bound. */
static void test_busy(void)
{
        struct world w;

        open_world(&w, CGROUP_V2);
        fill(&w, MIB);
        pass(&w, 4, (unsigned int[SESSIONS]){900, 800, 220, 0}); /* 240 */
        check(is_busy(1) && is_busy(2) && !is_busy(3) && !is_busy(4));
        check_eq_int(groups[1].weighed, 1);
        /* It stays busy until it uses half of that. */
        pass(&w, 4, (unsigned int[SESSIONS]){900, 100, 120, 0}); /* 140 */
        check(is_busy(2) && !is_busy(3));
        pass(&w, 4, (unsigned int[SESSIONS]){900, 60, 120, 0});
        check(is_busy(1) && !is_busy(2));
        /* Some short calls are not much, beside one that computes and alone. */
        pass(&w, 4, (unsigned int[SESSIONS]){900, 0, 19, 19});
        check(!is_busy(3) && !is_busy(4));
        pass(&w, 4, (unsigned int[SESSIONS]){0, 0, 19, 0});
        check(!is_busy(3) && !is_busy(1));
        pass(&w, 4, (unsigned int[SESSIONS]){900, 0, 0, 0});
        check(is_busy(1));
        /* Others wait for a sandbox that is made for it. */
        sandboxes[0].is_made = true;
        monitor_sums_weigh(&w.m, 1);
        check(groups[1].part == CGROUP_PART_USUAL);
        pass(&w, 2, (unsigned int[SESSIONS]){900, 0, 0, 0});
        check(groups[1].part == CGROUP_PART_USUAL);
        sandboxes[0].is_made = false;
        monitor_sums_weigh(&w.m, 1);
        check(is_busy(1));
        /* The time of a principal at rest does not count. */
        rest(&w, 1, true);
        rest(&w, 2, true);
        int looks = groups[1].looks;
        pass(&w, 4, (unsigned int[SESSIONS]){900, 0, 110, 200}); /* 77 */
        check(groups[1].part == CGROUP_PART_REST && is_busy(3) && is_busy(4));
        check_eq_int(groups[1].looks, looks);
        rest(&w, 1, false);
        check(groups[1].part == CGROUP_PART_USUAL);
        pass(&w, 4, (unsigned int[SESSIONS]){900, 0, 21, 60});
        check(is_busy(1) && !is_busy(3) && !is_busy(4));
        /* Where little memory is left, the monitor looks at that each 10 ms. */
        sandboxes[0].used = 950 * MIB;
        pass(&w, 1, (unsigned int[SESSIONS]){});
        looks = groups[1].looks;
        for (int i = 0; i < 90; i++) {
                fake_clock_advance_ms(10);
                event_base_loop(w.m.base, EVLOOP_NONBLOCK);
        }
        check_eq_int(groups[1].looks, looks);
        close_world(&w);
}

/* A principal without others is not busy. */
static void test_busy_alone(void)
{
        struct world w;

        open_world(&w, CGROUP_V2);
        admit(&w, (struct monitor_principal){.id = 1, .of = 1});
        pass(&w, 5, (unsigned int[SESSIONS]){1900, 0, 0, 0});
        check_eq_int(groups[1].weighed + groups[1].looks, 0);
        close_world(&w);
}

/* A sandbox that is made for it has the usual weight: its template waits for it. */
static void test_rest(void)
{
        struct world w;

        open_world(&w, CGROUP_V2);
        fill(&w, MIB);
        rest(&w, 1, false);
        monitor_sums_weigh(&w.m, 1);
        check_eq_int(groups[1].weighed, 0);
        rest(&w, 1, true);
        rest(&w, 1, true);
        check((groups[1].part == CGROUP_PART_REST) && !(groups[2].part == CGROUP_PART_REST));
        check_eq_int(groups[1].weighed, 1);
        sandboxes[1] = (struct sandbox){.principal = 1, .is_made = true};
        monitor_sums_weigh(&w.m, 1);
        check(!(groups[1].part == CGROUP_PART_REST));
        sandboxes[2] = (struct sandbox){.principal = 1, .is_made = true};
        monitor_sums_weigh(&w.m, 1);
        sandboxes[1].is_made = false;
        monitor_sums_weigh(&w.m, 1);
        check(!(groups[1].part == CGROUP_PART_REST));
        w.slots[2] = NULL; /* it could not be made */
        monitor_sums_weigh(&w.m, 1);
        check((groups[1].part == CGROUP_PART_REST));
        check_eq_int(groups[1].weighed, 3);
        sandboxes[1].is_made = true;
        rest(&w, 1, false);
        check(!(groups[1].part == CGROUP_PART_REST));
        sandboxes[1].is_made = false;
        monitor_sums_weigh(&w.m, 1);
        check_eq_int(groups[1].weighed, 4);
        /* The group of all sandboxes, and a principal that is not known. */
        rest(&w, 0, true);
        rest(&w, 6, true);
        monitor_sums_weigh(&w.m, 0);
        check_eq_int(groups[0].weighed + groups[6].weighed, 0);
        close_world(&w);
}

int main(void)
{
        run(test_groups_come_later);
        run(test_nobody_is_above_its_share);
        run(test_killed_one_stays);
        run(test_refused_limits);
        run(test_which_sum);
        run(test_forgotten);
        run(test_rest);
        run(test_busy);
        run(test_busy_alone);
        return 0;
}
