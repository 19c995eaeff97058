/* The rest of a principal: what the monitor is sent, and when. */
#include "supervisor/session/machine/principal.h"

#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

struct world {
        struct session_principals all;
        struct sandbox_requests requests;
        struct session_principal *alice, *bob, *nobody;
        uint32_t id;    /* that sums() gives alice */
        uint32_t rests; /* id of the newest PRINCIPAL_REST 1 */
        uint32_t ends;  /* of the newest PRINCIPAL_REST 0 */
        int n_rests, n_ends;
};

static int on_request(void *data, const struct monitor_request *request, uint32_t *serial)
{
        struct world *w = data;
        struct monitor_request sent = *request;

        sent.serial = 1;
        check_eq_int(monitor_request_check(&sent), 0);
        check_eq_int(request->verb, MONITOR_PRINCIPAL_REST);
        *(request->number ? &w->rests : &w->ends) = request->target;
        *(request->number ? &w->n_rests : &w->n_ends) += 1;
        return 0;
}

static void sums(const void *data, const char *key, struct monitor_principal *ret)
{
        const struct world *w = data;

        ret->id = *key == 'a' ? w->id : 9;
}

static void open_world(struct world *w)
{
        fake_clock_skip_idle(true);
        *w = (struct world){.requests = {w, on_request, NULL}, .id = 1};
        w->all = (struct session_principals){.n = 2,
                                             .sums = sums,
                                             .data = w,
                                             .base = event_base_new(),
                                             .requests = &w->requests};
        w->alice = principal_ref(&w->all, "alice:1");
        w->bob = principal_ref(&w->all, "bob:1");
        w->nobody = principal_ref(&w->all, "1");
}

static void close_world(struct world *w)
{
        principal_unref(w->alice);
        principal_unref(w->bob);
        principal_unref(w->nobody);
        event_base_free(w->all.base);
}

static void pass(struct world *w, int ms)
{
        for (int i = 0; i < ms; i++) {
                fake_clock_advance_ms(1);
                event_base_loop(w->all.base, EVLOOP_NONBLOCK);
        }
}

static bool makes_spare(const struct pool *pool)
{
        return pool != NULL;
}

/* Copies of states wait for calls: for own ones, and for as many copies, longer than for those of others. */
static void test_is_quiet_while_no_call_waits(void)
{
        struct world w;

        open_world(&w);
        check(principal_is_quiet(w.alice, 0) && principal_is_quiet(w.bob, 0));
        principal_count(w.alice, 1, 0);
        check(!principal_is_quiet(w.alice, 1999) && principal_is_quiet(w.alice, 2000));
        check(!principal_is_quiet(w.bob, 249) && principal_is_quiet(w.bob, 250));
        principal_count(w.bob, 1, 0);
        principal_count(w.alice, -1, 0);
        check(!principal_is_quiet(w.alice, 249) && principal_is_quiet(w.alice, 250));
        principal_count(w.bob, -1, 0);
        w.alice->n_keeping = PRINCIPAL_KEEPING;
        check(!principal_is_quiet(w.alice, 1999) && principal_is_quiet(w.alice, 2000));
        check(principal_is_quiet(w.bob, 0));
        w.bob->all->makes_spare = makes_spare;
        check(principal_is_quiet(w.bob, 0));
        w.bob->all->pool = (struct pool *)&w;
        check(!principal_is_quiet(w.bob, 249) && principal_is_quiet(w.bob, 250));
        close_world(&w);
}

/* Only without a call, and with a session that computes. */
static void test_rests_without_a_call(void)
{
        struct world w;

        open_world(&w);
        principal_count(w.alice, 1, 0);
        principal_count(w.alice, -1, 0);
        principal_count(w.nobody, 0, 1);
        principal_count(w.bob, 1, 1);
        pass(&w, 10 * PRINCIPAL_QUIET_MS);
        check_eq_int(w.n_rests, 0); /* none of alice's computes, bob calls, and one has no name */
        principal_count(w.alice, 0, 1);
        pass(&w, PRINCIPAL_QUIET_MS + 1);
        check_eq_int(w.n_rests, 1);
        check_eq_int(w.rests, 1);
        principal_count(w.alice, 0, 1);
        pass(&w, 10 * PRINCIPAL_QUIET_MS);
        check_eq_int(w.n_rests, 1);
        check_eq_int(w.n_ends, 0);
        /* At once, and once. */
        principal_count(w.alice, 1, 0);
        check_eq_int(w.n_ends, 1);
        check_eq_int(w.ends, 1);
        principal_count(w.alice, 1, 0);
        principal_count(w.alice, -1, -1);
        pass(&w, 10 * PRINCIPAL_QUIET_MS);
        check_eq_int(w.n_rests, 1);
        principal_count(w.alice, -1, 0);
        pass(&w, PRINCIPAL_QUIET_MS + 1);
        check_eq_int(w.n_rests, 2);
        /* The last one that computed has ended. */
        principal_count(w.alice, 0, -1);
        check_eq_int(w.n_ends, 2);
        pass(&w, 10 * PRINCIPAL_QUIET_MS);
        check_eq_int(w.n_rests, 2);
        close_world(&w);
}

/* A series of calls costs no message each. */
static void test_series(void)
{
        struct world w;

        open_world(&w);
        principal_count(w.alice, 0, 1);
        for (int i = 0; i < 100; i++) {
                principal_count(w.alice, 1, 0);
                pass(&w, 10);
                principal_count(w.alice, -1, 0);
                pass(&w, 10);
        }
        check_eq_int(w.n_rests, 0);
        pass(&w, PRINCIPAL_QUIET_MS + 1);
        check_eq_int(w.n_rests, 1);
        close_world(&w);
}

/* The access of a name has changed: the rest that is ended is that which was sent. */
static void test_other_id(void)
{
        struct world w;

        open_world(&w);
        principal_count(w.alice, 0, 1);
        pass(&w, PRINCIPAL_QUIET_MS + 1);
        w.id = 7;
        principal_count(w.alice, 1, 0);
        check_eq_int(w.ends, 1);
        principal_count(w.alice, -1, 0);
        pass(&w, PRINCIPAL_QUIET_MS + 1);
        check_eq_int(w.rests, 7);
        /* It has none. */
        principal_count(w.alice, 1, 0);
        principal_count(w.alice, -1, 0);
        w.id = 0;
        pass(&w, PRINCIPAL_QUIET_MS + 1);
        check_eq_int(w.n_rests, 2);
        close_world(&w);
}

int main(void)
{
        run(test_is_quiet_while_no_call_waits);
        run(test_rests_without_a_call);
        run(test_series);
        run(test_other_id);
        return 0;
}
