/* The hub: reload of the config, and profiles. */
#include "supervisor/hub/server/listing.h"
#include "tests/unit/hub-world.h"
#include "tests/unit/test.h"

static void set_true(void *data)
{
        *(bool *)data = true;
}

static void wait_for_all(struct world *w)
{
        bool done = false;

        check(hub_wait(w->hub, w->profile, 15000, set_true, &done));
        world_until(w, &done);
}

static void check_call(struct world *w, const char *server, const char *tool,
                       enum hub_outcome outcome, const char *part)
{
        struct reply *reply = world_call(w, server, tool, "{\"n\":1}");

        check_eq_int(reply->outcome, outcome);
        check_has(outcome == HUB_OK ? reply->result : reply->message, part);
        if (outcome != HUB_OK)
                check(!reply->sent);
        reply_free(reply);
}

/* A server that is kept runs on with its calls, under another index, name, rules and timeouts. */
static void test_reload_keeps(void)
{
        struct config_server servers[2];
        struct config config = {.servers = servers, .n_servers = 2};
        struct reply slow;
        struct world w;

        world_init(&w);
        world_add(&w, "a", NULL);
        world_add(&w, "b", NULL);
        world_open(&w);
        wait_for_all(&w);
        check_eq_int(w.n_runs, 2);
        world_begin(&w, &slow, "b", "hold", "{}", 0);
        world_turn(&w);
        world_add(&w, "c", NULL);
        servers[0] = w.servers[1];
        servers[0].name = (char *)"renamed";
        servers[0].timeout_ms = 300;
        servers[1] = w.servers[2];
        w.config.n_servers = 2;
        unsigned changed = w.n_changed;
        world_reload(&w, &config);
        check_eq_int(w.n_stops, 1);
        check_eq_str(world_member(&w, "a", "state"), "");
        check_eq_str(world_member(&w, "renamed", "state"), "ready");
        reply_free(world_call(&w, "renamed", "release", "{}"));
        world_until(&w, &slow.done);
        check_eq_int(slow.outcome, HUB_OK);
        free(slow.result);
        world_pass_ms(&w, 20);
        check(w.n_changed > changed);
        /* A new server gets a request for its tools. */
        world_until_state(&w, "c", "ready");
        check_eq_int(w.n_runs, 3);
        check_call(&w, "c", "echo", HUB_OK, "\"n\":1");
        check_call(&w, "a", "echo", HUB_NOT_FOUND, "there is no server \"a\"");
        /* Its new timeout. */
        world_begin(&w, &slow, "renamed", "hang", "{}", 0);
        world_pass_ms(&w, 300);
        check_eq_int(slow.outcome, HUB_TIMEOUT);
        world_done(&w);
}

static void test_reload_ends(void)
{
        struct config_server servers[1];
        struct config config = {.servers = servers, .n_servers = 1};
        struct reply hangs, waits;
        struct world w;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_add(&w, "mute", "--never", NULL);
        world_open(&w);
        check_call(&w, "s", "echo", HUB_OK, "\"n\":1");
        world_begin(&w, &hangs, "s", "hang", "{}", 0);
        world_begin(&w, &waits, "mute", "echo", "{}", 0);
        world_turn(&w);
        /* Another program under the same name; the other one is disabled. */
        servers[0] = w.servers[0];
        servers[0].key += 0x100;
        world_reload(&w, &config);
        world_until(&w, &hangs.done);
        world_until(&w, &waits.done);
        check_eq_int(hangs.outcome, HUB_UNAVAILABLE);
        check_has(hangs.message, "server \"s\" was removed from the config, or changed in it");
        check_eq_int(waits.outcome, HUB_UNAVAILABLE);
        check_eq_int(w.n_stops, 2);
        check_call(&w, "s", "echo", HUB_OK, "\"n\":1");
        check_eq_int(w.n_runs, 3);
        servers[0].disabled = true;
        struct config again = config;
        world_reload(&w, &again);
        check_call(&w, "s", "echo", HUB_UNAVAILABLE, "disabled in the config");
        world_done(&w);
}

/* A start that the monitor has not answered is requested again, with the new index. */
static void test_reload_while_starting(void)
{
        struct config_server servers[2];
        struct config config = {.servers = servers, .n_servers = 2};
        struct reply reply;
        struct world w;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_open(&w);
        w.is_silent = true;
        world_begin(&w, &reply, "s", "echo", "{\"n\":1}", 0);
        check_eq_int(w.n_runs, 1);
        w.is_silent = false;
        world_add(&w, "other", NULL);
        w.config.n_servers = 1;
        servers[0] = w.servers[1];
        servers[1] = w.servers[0];
        world_reload(&w, &config);
        world_until(&w, &reply.done);
        check_eq_int(reply.outcome, HUB_OK);
        free(reply.result);
        world_done(&w);
}

static void check_names(struct world *w, const struct config_profile *profile, const char *server,
                        const char *has, const char *has_not)
{
        w->profile = profile;
        const char *tools = world_member(w, server, "tools");
        check_has(tools, has);
        if (strstr(tools, has_not))
                test_fail_("%s holds %s", tools, has_not);
}

static void test_rules(void)
{
        char *allow[] = {(char *)"e*", (char *)"slow", NULL}, *deny[] = {(char *)"error", NULL};
        char *full[] = {(char *)"s.slow", NULL}, *none[] = {NULL}, *names[] = {(char *)"s", NULL};
        const struct config_profile narrow = {.name = (char *)"narrow", .tools.deny = full},
                                    closed = {.name = (char *)"closed", .servers = none},
                                    one = {.name = (char *)"one", .servers = names},
                                    same = {.name = (char *)"same", .servers = names};
        uint64_t versions[3];
        struct world w;

        world_init(&w);
        w.servers[world_add(&w, "s", NULL)].tools = (struct config_tool_rules){.allow = allow,
                                                                               .deny = deny};
        world_add(&w, "t", NULL);
        world_open(&w);
        wait_for_all(&w);
        check_names(&w, NULL, "s", "\"name\":\"slow\"", "\"name\":\"raw\"");
        check_names(&w, NULL, "s", "\"name\":\"echo\"", "\"name\":\"error\"");
        check_eq_int(world_tools(&w, "s"), 2);
        check(world_tools(&w, "t") > 15);
        check_call(&w, "s", "echo", HUB_OK, "\"n\":1");
        check_call(
                &w, "s", "raw", HUB_NOT_FOUND,
                "\"tools\" of server \"s\" in the config does not allow tool \"raw\" of server \"s\"");
        check_call(&w, "t", "error", HUB_OK, "went wrong");

        check_names(&w, &narrow, "s", "\"name\":\"echo\"", "\"name\":\"slow\"");
        check_names(&w, &narrow, "t", "\"name\":\"slow\"", "\"name\":\"none\"");
        check_call(&w, "s", "slow", HUB_NOT_FOUND,
                   "profile \"narrow\" does not allow tool \"slow\" of server \"s\"");

        w.profile = &one;
        check_eq_str(world_member(&w, "t", "state"), "");
        check_call(&w, "t", "echo", HUB_NOT_FOUND, "profile \"one\" does not allow server \"t\"");
        w.profile = &closed;
        check_eq_str(world_member(&w, "s", "state"), "");
        /* Profiles with the same rules share a view; two views never have the same version. */
        hub_catalogue(w.hub, &one, &versions[0]);
        const struct buffer *b = hub_catalogue(w.hub, &same, &versions[1]);
        check_eq_int(versions[0], versions[1]);
        check(b == hub_catalogue(w.hub, &one, NULL));
        hub_catalogue(w.hub, &closed, &versions[2]);
        check(versions[2] != versions[1]);
        w.profile = NULL;
        world_done(&w);
}

/* The catalogue of a profile changes only with the servers and tools that the profile allows. */
static void test_versions_of_views(void)
{
        char *names[] = {(char *)"s", NULL};
        const struct config_profile one = {.name = (char *)"one", .servers = names};
        uint64_t whole, before, after;
        struct world w;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_add(&w, "t", NULL);
        world_open(&w);
        wait_for_all(&w);
        hub_catalogue(w.hub, NULL, &whole);
        hub_catalogue(w.hub, &one, &before);
        reply_free(world_call(&w, "t", "change", "{\"name\":\"added\",\"times\":1}"));
        world_pass_ms(&w, LISTING_AGAIN_MS);
        world_settle(&w, "t");
        hub_catalogue(w.hub, NULL, &after);
        check(after > whole);
        hub_catalogue(w.hub, &one, &after);
        check_eq_int(after, before);
        reply_free(world_call(&w, "s", "change", "{\"name\":\"added\",\"times\":1}"));
        world_pass_ms(&w, LISTING_AGAIN_MS);
        world_settle(&w, "s");
        hub_catalogue(w.hub, &one, &after);
        check(after > before);
        world_done(&w);
}

/* A profile starts and waits for its own servers only. */
static void test_a_profile_starts_its_own(void)
{
        char *names[] = {(char *)"s", NULL};
        const struct config_profile one = {.name = (char *)"one", .servers = names};
        struct world w;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_add(&w, "mute", "--never", NULL);
        world_open(&w);
        w.profile = &one;
        hub_start(w.hub, &one, HUB_ALL);
        wait_for_all(&w);
        check_eq_str(world_member(&w, "s", "state"), "ready");
        check_eq_int(w.n_runs, 1);
        world_done(&w);
}

int main(void)
{
        run(test_reload_keeps);
        run(test_reload_ends);
        run(test_reload_while_starting);
        run(test_rules);
        run(test_versions_of_views);
        run(test_a_profile_starts_its_own);
        return 0;
}
