/* Jobs in the thread, and in the loop where no descriptor is left. */
#include "rpc/background.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/test.h"

struct counted {
        struct background_job job; /* first */
        int ran, done, freed;
};

static void run_job(struct background_job *job)
{
        ((struct counted *)(void *)job)->ran++;
}

static void job_done(struct background_job *job)
{
        ((struct counted *)(void *)job)->done++;
}

static void job_free(struct background_job *job)
{
        ((struct counted *)(void *)job)->freed++;
}

static const struct background_kind kind = {run_job, job_done, job_free};

/* done() comes from the loop, never from background_start(): a caller keeps the job. */
static void check_job(struct event_base *base)
{
        struct counted c = {};

        background_start(&c.job, &kind, base);
        check_eq_int(c.done, 0);
        while (c.done == 0)
                event_base_loop(base, EVLOOP_ONCE);
        check_eq_int(c.ran, 1);
        check_eq_int(c.done, 1);
        check_eq_int(c.freed, 0);
}

static void use_all_descriptors(struct rlimit *before)
{
        int next = dup(STDIN_FILENO);

        check(next >= 0);
        close(next);
        check_eq_int(getrlimit(RLIMIT_NOFILE, before), 0);
        const struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = before->rlim_max};
        check_eq_int(setrlimit(RLIMIT_NOFILE, &none), 0);
        check(dup(STDIN_FILENO) < 0);
}

static void test_jobs(void)
{
        struct event_base *base = event_base_new();
        struct rlimit before;

        check_job(base);
        use_all_descriptors(&before);
        check_job(base);
        setrlimit(RLIMIT_NOFILE, &before);
        check_job(base);
        event_base_free(base);
}

static void test_cancel_without_descriptors(void)
{
        struct event_base *base = event_base_new();
        struct rlimit before;
        struct counted c = {};

        use_all_descriptors(&before);
        background_start(&c.job, &kind, base);
        background_cancel(&c.job);
        event_base_loop(base, EVLOOP_NONBLOCK);
        check_eq_int(c.done, 0);
        check_eq_int(c.freed, 1);
        setrlimit(RLIMIT_NOFILE, &before);
        event_base_free(base);
}

int main(void)
{
        run(test_jobs);
        run(test_cancel_without_descriptors);
        return 0;
}
