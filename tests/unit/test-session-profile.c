/* Which profile is requested for a session's sandbox, and which clients may use it. */
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/sessions-owner.h"
#include "supervisor/session/sessions.h"

#include <errno.h>

#include "tests/unit/fake-client.h"

static const char two[] = "{\"profile\": \"a\", \"profiles\": {\"a\": {}, \"b\": {}}}";

static void reload(struct fake *f, const char *text)
{
        const struct monitor_hello hello = fake_hello;
        struct config *config = fake_config(text);

        sessions_reload(f->sessions, config, &hello);
        config_free(config);
}

static void ask_for(struct fake *f, struct end *end, const char *profile, bool asked, bool reset)
{
        const struct cell_request request = {.code = "1",
                                             .code_length = 1,
                                             .reset = reset,
                                             .profile = profile,
                                             .profile_asked = asked,
                                             .done = fake_on_done,
                                             .data = end};
        struct error err = {};
        struct cell *cell = NULL;

        memset(end, 0, sizeof(*end));
        check_ok(sessions_run(f->sessions, "s", &request, &cell, &err));
        fake_spin(f);
}

static void run_it(struct fake *f, struct end *end)
{
        fake_send(f, FRAME_RESULT, fake_take_exec(f, NULL, 0), "{\"status\":\"ok\"}");
        check_eq_int(end->count, 1);
        check_eq_int(end->status, CELL_OK);
}

static void test_which_profile(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        reload(&f, two);
        ask_for(&f, &end, NULL, false, false);
        check_eq_int(f.creates, 1);
        check_eq_int(f.profile, 1); /* the config's usual one */
        fake_start(&f);
        run_it(&f, &end);

        /* The client's default profile does not change that of a running session. */
        ask_for(&f, &end, "b", false, false);
        run_it(&f, &end);
        check_eq_int(f.creates, 1);

        ask_for(&f, &end, "b", true, false);
        check_eq_int(end.count, 1);
        check_eq_str(end.type, "ProfileError");
        check_eq_int(end.state, CELL_STATE_KEPT);
        check_has(end.why, "lives under profile \"a\", not \"b\": reset: true");
        fake_done(&f);
}

static void test_reset_changes_the_profile(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        reload(&f, two);
        ask_for(&f, &end, "a", false, false);
        fake_start(&f);
        run_it(&f, &end);
        ask_for(&f, &end, "b", true, true);
        check_eq_int(f.kills, 1);
        fake_end(&f, SIGKILL, 0);
        check_eq_int(f.creates, 2);
        check_eq_int(f.profile, 2);
        fake_start(&f);
        run_it(&f, &end);

        /* It stays there when the sandbox is lost. */
        fake_end(&f, SIGKILL, 0);
        ask_for(&f, &end, "a", false, false);
        check_eq_int(f.creates, 3);
        check_eq_int(f.profile, 2);
        fake_done(&f);
}

static void test_reload(void)
{
        struct fake f;
        struct end end;

        fake_open(&f);
        reload(&f, two);
        ask_for(&f, &end, "b", true, false);
        check_eq_int(f.profile, 2);
        fake_start(&f);
        run_it(&f, &end);
        const struct config_profile *before = sessions_find(f.sessions, "s")->profile;

        /* The sandbox keeps the config that it was made under. */
        reload(&f, "{\"profiles\": {\"a\": {}}}");
        check(sessions_find(f.sessions, "s")->profile == before);
        check_eq_str(before->name, "b");
        ask_for(&f, &end, NULL, false, false);
        run_it(&f, &end);

        /* The next sandbox cannot have a removed profile. */
        fake_end(&f, SIGKILL, 0);
        ask_for(&f, &end, "b", true, false);
        check_eq_int(end.count, 1);
        check_has(end.why, "there is no profile \"b\"");
        ask_for(&f, &end, NULL, false, false);
        check_eq_int(f.profile, 0);

        /* Refused as of an older config: asked for again. */
        struct error stale = {.code = ESTALE};
        check_eq_int(0, sessions_failed(f.sessions, f.serial, &stale));
        fake_spin(&f);
        check_eq_int(f.creates, 3);
        check_eq_int(end.count, 0);
        fake_done(&f);
}

/* A principal has no access any more, while its sandbox is awaited, or runs the first of its cells. */
static void test_end_of(void)
{
        for (int started = 0; started < 2; started++) {
                struct fake f;
                struct end first, second, others;

                fake_open(&f);
                ask_on(&f, &first, "bob:s", "1", 0, false);
                fake_spin(&f);
                if (started)
                        fake_start(&f);
                ask_on(&f, &second, "bob:s", "2", 0, false);
                sessions_end_of(f.sessions, "bob");
                check_eq_int(second.count, 1);
                check_eq_int(second.status, CELL_ERROR);
                check_has(second.why, "has no access any more");
                check_eq_int(first.count, !started);
                if (!started)
                        fake_start(&f);
                check_eq_int(f.kills, 1);
                fake_end(&f, SIGKILL, 0);
                check_eq_int(first.count, 1);
                check_has(first.why, "has no access any more");
                check_eq_int(f.creates, 1);
                /* The control: another principal's. */
                ask_on(&f, &others, "bo:s", "1", 0, false);
                sessions_end_of(f.sessions, "bob");
                fake_spin(&f);
                check_eq_int(others.count, 0);
                check_eq_int(f.creates, 2);
                fake_done(&f);
        }
}

static bool may_use(const void *data, const char *profile)
{
        return strcmp(data, profile) == 0;
}

/* A profile is taken away from a principal. Its waiting code does not get it, and a session does not have it again. */
static void test_restrict(void)
{
        for (int started = 0; started < 3; started++) {
                struct fake f;
                struct end first, second, third;

                fake_open(&f);
                reload(&f, two);
                ask_for(&f, &first, "b", false, false);
                if (started > 0)
                        fake_start(&f);
                ask_for(&f, &second, "b", started == 2, started == 2);
                ask_for(&f, &third, "a", false, false);
                sessions_restrict(f.sessions, "", may_use, "a");
                check_eq_int(second.count, 1);
                check_eq_str(second.type, "ProfileError");
                check_has(second.why, "is not allowed any more");
                if (started == 0)
                        fake_start(&f);
                check_eq_int(f.kills, 1);
                fake_end(&f, SIGKILL, 0);
                check_eq_int(first.count, 1);
                /* The control: code under the other profile runs. */
                check_eq_int(f.creates, 2);
                check_eq_int(f.profile, 1);
                fake_start(&f);
                run_it(&f, &third);
                fake_done(&f);
        }
}

/* The worker has closed its channel without reading the code, which another sandbox would take. */
static void test_restrict_closed(void)
{
        for (int restricted = 0; restricted < 2; restricted++) {
                struct fake f;
                struct end end;

                fake_open(&f);
                reload(&f, two);
                ask_for(&f, &end, "b", false, false);
                fake_start(&f);
                fake_close_worker(&f);
                fake_spin(&f);
                check_eq_int(sessions_find(f.sessions, "s")->state, SESSION_CLOSED);
                if (restricted)
                        sessions_restrict(f.sessions, "", may_use, "a");
                fake_end(&f, SIGKILL, 0);
                check_eq_int(end.count, restricted);
                check_eq_int(f.creates, 2 - restricted);
                fake_done(&f);
        }
}

int main(void)
{
        run(test_which_profile);
        run(test_reset_changes_the_profile);
        run(test_reload);
        run(test_end_of);
        run(test_restrict);
        run(test_restrict_closed);
        return 0;
}
