/* Ready sandboxes and places of several principals. */
#include "tests/unit/pool-world.h"

/* Each principal has a right to four places, or an even part of all. */
static void test_rights_of_principals(void)
{
        static const struct {
                size_t places, n, right,
                        left; /* left: for one principal, if the others have none */
        } cases[] = {{12, 1, 4, 12}, {12, 2, 4, 8}, {12, 3, 4, 4}, {12, 4, 3, 3}, {2, 64, 1, 1}};
        char name[16];

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct world w;
                open_world(&w, "{\"pool\": 0}", (uint32_t)cases[i].places);
                sessions_set_principals(w.sessions, cases[i].n, NULL, NULL);
                for (size_t k = 0; k < cases[i].left; k++) {
                        snprintf(name, sizeof(name), "alice:%zu", k);
                        run_one(&w, name, false);
                }
                if (cases[i].n == 1)
                        check_refused(&w, "alice:more", "12 sessions are live");
                else
                        check_refused(&w, "alice:more",
                                      "sessions are live, or places of other clients");
                for (size_t k = 0; k < cases[i].right && cases[i].n > 1; k++) {
                        snprintf(name, sizeof(name), "bob:%zu", k);
                        run_one(&w, name, false);
                }
                close_world(&w);
        }
}

static void sums(const void *data, const char *key, struct monitor_principal *ret)
{
        *ret = (struct monitor_principal){(uint32_t)(*key - 'a' + 1), 9, 300, 1500};
}

/* The monitor refuses bob's session until one of alice's has ended: idle ones first, the oldest first. */
static void test_memory_of_another(void)
{
        struct monitor_message refused = {
                .asked = {.verb = MONITOR_SESSION_CREATE},
                .event = {.kind = MONITOR_FAILED, .target = 1, .error = {EDQUOT, "the sum"}}};
        struct world w;
        struct end busy, bob;

        open_world(&w, "{\"pool\": 0}", 12);
        sessions_set_principals(w.sessions, 2, sums, NULL);
        begin(&w, &busy, "alice:busy", NULL);
        start(&w, 1);
        run_one(&w, "alice:old", false);
        check_eq_int(w.principal.id, 1);
        check_eq_int(w.principal.of, 2);
        check_eq_int(w.principal.memory_mib, 300);
        run_one(&w, "alice:new", false);
        begin(&w, &bob, "bob:1", NULL);
        check_eq_int(w.principal.id, 2);
        for (int i = 0; i < 2; i++) {
                refused.asked.serial = (uint32_t)w.creates;
                check_eq_int(sessions_event(w.sessions, &refused), 0);
                spin(&w, 1);
                check_eq_int(w.kills, i + 1);
                check(w.sandbox[2 + i].killed);
                /* It asks again when that one has ended, or does not end. */
                check_eq_int(w.creates, 4 + i);
                if (i == 0)
                        spin(&w, 6000);
                else
                        end(&w, (uint32_t)(2 + i));
                check_eq_int(w.creates, 5 + i);
        }
        start(&w, 6);
        check(has_cell(&w, 6));
        check_eq_int(busy.count, 0);
        end(&w, 2);
        /* The control: the refusal has no name. */
        refused.event.target = 0;
        struct end alice;
        begin(&w, &alice, "alice:old", NULL);
        refused.asked.serial = 7;
        check_eq_int(sessions_event(w.sessions, &refused), 0);
        spin(&w, 1);
        check_has(alice.why, "the sum");
        check_eq_int(w.kills, 2);
        close_world(&w);
}

/* A spare is for one principal. Each that has called in the last minute has one, as far as the maximum allows. */
static void test_spares_of_principals(void)
{
        struct world w;
        struct end done;

        open_world(&w, "{\"pool\": {\"min\": 1, \"max\": 2}}", 20);
        sessions_set_principals(w.sessions, 2, sums, NULL);
        run_one(&w, "alice:1", false);
        expect(&w, "default");
        spin(&w, POOL_EARLY_MS);
        until(&w, w.creates == 2);
        check_eq_int(w.principal.id, 1);
        start(&w, 2);
        run_one(&w, "bob:1", false); /* bob does not get alice's */
        check(!has_cell(&w, 2));
        until(&w, w.creates == 4);
        check_eq_int(w.principal.id, 2);
        start(&w, 4);
        spin(&w, LONG_MS);
        check_eq_int(w.creates, 4);
        begin(&w, &done, "bob:2", NULL);
        check(has_cell(&w, 4));
        check(!has_cell(&w, 2));
        begin(&w, &done, "alice:2", NULL);
        check(has_cell(&w, 2));
        close_world(&w);
}

/* Who calls next is not known: at the start, and after a reload. */
static void test_no_spare_of_nobody(void)
{
        for (int n = 0; n < 2; n++) {
                struct world w;

                open_world(&w, "{\"pool\": 1}", 20);
                sessions_set_principals(w.sessions, 2, sums, NULL);
                if (n)
                        sessions_require_names(w.sessions);
                expect(&w, "default");
                spin(&w, LONG_MS);
                check_eq_int(w.creates, !n);
                if (n) {
                        run_one(&w, "alice:1", false);
                        until(&w, w.creates == 2);
                        check_eq_int(w.principal.id, 1);
                        start(&w, 2);
                        reload(&w, "{\"pool\": 1}");
                        expect(&w, "default");
                        spin(&w, LONG_MS);
                        check_eq_int(w.creates, 2);
                }
                close_world(&w);
        }
}

/* Principals that call in sessions that they have keep the spares that they do not take. */
static void test_spares_stay(void)
{
        static const char *const names[] = {"alice:1", "bob:1", "carol:1"};
        struct world w;

        open_world(&w, "{\"pool\": {\"min\": 1, \"max\": 4}}", 20);
        sessions_set_principals(w.sessions, 3, sums, NULL);
        expect(&w, "default");
        for (uint32_t i = 0; i < 3; i++) {
                run_one(&w, names[i], false);
                spin(&w, POOL_EARLY_MS + LONG_MS);
                check_eq_int(w.creates, 2 * i + 2);
                check_eq_int(w.principal.id, i + 1);
                start(&w, 2 * i + 2);
        }
        for (int periods = 0; periods < 4; periods++) {
                for (uint32_t i = 0; i < 3; i++) {
                        struct end done;
                        begin(&w, &done, names[i], NULL);
                        spin(&w, POOL_PERIOD_MS / 4);
                        answer(&w, 2 * i + 1, (uint64_t)periods + 2, &done);
                }
                check_eq_int(count(&w).spares_ready, 3);
                check_eq_int(w.creates, 6);
        }
        /* The control: none of them calls any more. */
        spin(&w, 3 * POOL_PERIOD_MS);
        for (uint32_t i = 0; i < 3; i++)
                check(w.sandbox[2 * i + 2].killed);
        close_world(&w);
}

static void test_what_others_do_not_need(void)
{
        struct world w;

        /* A place above bob's right is for the first principal that requests it; one that he leaves is his again. */
        open_world(&w, "{\"pool\": 0}", 4);
        sessions_set_principals(w.sessions, 2, NULL, NULL);
        run_one(&w, "bob:1", false);
        run_one(&w, "alice:1", false);
        run_one(&w, "alice:2", false);
        check_refused(&w, "alice:3", "4 sessions are live, or places of other clients");
        run_one(&w, "bob:2", false);
        check_refused(&w, "bob:3", "4 sessions are live, or places of other clients");
        end(&w, 1);
        check_refused(&w, "alice:3", "4 sessions are live, or places of other clients");
        run_one(&w, "bob:3", false);
        close_world(&w);
}

/* The principal that has most loses its oldest; a call that names a session, also without code, keeps it. */
static void test_order_of_giving_way(void)
{
        struct world w;
        struct end done;

        open_world(&w, "{\"pool\": 0}", 6);
        sessions_set_principals(w.sessions, 3, NULL, NULL);
        run_one(&w, "bob:1", true);
        run_one(&w, "alice:1", true);
        run_one(&w, "alice:2", true);
        run_one(&w, "carol:1", true);
        sessions_set_principals(w.sessions, 1, NULL, NULL);
        run_one(&w, "alice:3", true);
        run_one(&w, "alice:4", true);
        sessions_set_principals(w.sessions, 3, NULL, NULL);
        spin(&w, SESSION_UNNAMED_MS + 100);
        sessions_note_named(w.sessions, "alice:1");
        begin(&w, &done, "carol:2", NULL);
        check(w.sandbox[3].killed);
        check_eq_int(w.kills, 1);
        end(&w, 3);
        check_eq_int(w.creates, 7);
        close_world(&w);
}

/* A principal's own number of sessions. */
static void test_quota(void)
{
        struct world w;

        open_world(&w, "{\"pool\": 0}", 8);
        run_one(&w, "alice:1", true);
        run_one(&w, "bob:1", true);
        check(sessions_quota(w.sessions, "alice", 2));
        check(sessions_quota(w.sessions, "carol", 1));
        check(!sessions_quota(w.sessions, "alice", 1));
        spin(&w, SESSION_UNNAMED_MS + 100);
        check(sessions_quota(w.sessions, "alice", 1));
        check(w.sandbox[1].killed && !w.sandbox[2].killed);
        close_world(&w);
}

/* Sixteen sandboxes of a principal are made at once; those of another one do not wait for the rest. */
static void test_many_at_once(void)
{
        struct world w;
        struct end ends[20], other;
        char name[16];

        open_world(&w, "{\"pool\": 0}", 30);
        sessions_set_principals(w.sessions, 2, NULL, NULL);
        for (int i = 0; i < 20; i++) {
                snprintf(name, sizeof(name), "alice:%d", i);
                begin(&w, &ends[i], name, NULL);
        }
        check_eq_int(w.creates, 16);
        begin(&w, &other, "bob:1", NULL);
        check_eq_int(w.creates, 17);
        for (uint32_t i = 1; i <= 4; i++)
                start(&w, i);
        check_eq_int(w.creates, 21);
        close_world(&w);
}

int main(void)
{
        run(test_rights_of_principals);
        run(test_memory_of_another);
        run(test_spares_of_principals);
        run(test_no_spare_of_nobody);
        run(test_spares_stay);
        run(test_what_others_do_not_need);
        run(test_order_of_giving_way);
        run(test_quota);
        run(test_many_at_once);
        return 0;
}
