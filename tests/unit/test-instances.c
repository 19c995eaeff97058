/* Processes of servers of which each principal has its own. */
#include "supervisor/hub/instances.h"

#include "base/json-out.h"
#include "supervisor/hub/call/call.h"
#include "tests/unit/hub-world.h"
#include "tests/unit/test.h"

enum { IDLE_MS = 60000 };

static const char *principal = "";

static const char *name_principal(void *data, size_t *n)
{
        *n = strlen(principal);
        return principal;
}

static const struct hub_caller caller = {.done = world_on_result, .principal = name_principal};

static void open_world(struct world *w, unsigned n)
{
        static char names[WORLD_SERVERS][8];

        world_init(w);
        w->caller = &caller;
        w->config.session_idle_ms = IDLE_MS;
        for (unsigned i = 0; i < n; i++) {
                snprintf(names[i], sizeof(names[i]), "s%u", i);
                w->servers[world_add(w, names[i], NULL)].per_principal = true;
        }
        world_open(w);
}

static void begin(struct world *w, struct reply *reply, const char *who, const char *server,
                  const char *tool, uint32_t timeout_ms)
{
        principal = who;
        world_begin(w, reply, server, tool, "{}", timeout_ms);
}

static void call(struct world *w, const char *who, const char *tool)
{
        struct reply reply;

        begin(w, &reply, who, "s0", tool, 0);
        world_until(w, &reply.done);
        check_eq_int(reply.outcome, HUB_OK);
        free(reply.result);
}

static const char *shown(struct world *w)
{
        static char text[8192];
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024);
        struct json_out out = {.to = &b};

        hub_put_servers(w->hub, &out);
        snprintf(text, sizeof(text), "%.*s", (int)b.length, b.length ? buffer_bytes(&b) : "");
        return text;
}

/* Calls of one principal reach its own process only. */
static void test_apart(void)
{
        struct reply alice, bob;
        struct world w;

        open_world(&w, 1);
        /* The process that lists the tools ends when they are known. */
        hub_start(w.hub, NULL, HUB_ALL);
        world_until_tools(&w, "s0", 45);
        world_turn(&w);
        check_eq_int(w.n_stops, 1);
        hub_start(w.hub, NULL, HUB_ALL);
        world_turn(&w);
        check_eq_int(w.n_runs, 1);
        call(&w, "alice", "echo");
        begin(&w, &alice, "alice", "s0", "hold", 0);
        begin(&w, &bob, "bob", "s0", "hold", 0);
        call(&w, "bob", "release");
        world_until(&w, &bob.done);
        check(!alice.done);
        check_eq_int(w.n_runs, 3);
        check_has(shown(&w),
                  "{\"name\":\"s0\",\"principal\":\"alice\",\"state\":\"ready\",\"calls\":1}");
        check_has(shown(&w),
                  "{\"name\":\"s0\",\"principal\":\"bob\",\"state\":\"ready\",\"calls\":0}");
        /* It ends with its principal, and only it. */
        hub_forget(w.hub, "alic");
        hub_forget(w.hub, "alice");
        world_until(&w, &alice.done);
        check_eq_int(alice.outcome, HUB_UNAVAILABLE);
        check_has(alice.message, "server \"s0\" ended with its client");
        check(!strstr(shown(&w), "alice"));
        call(&w, "bob", "echo");
        check_eq_int(w.n_runs, 3);
        free(bob.result);
        world_done(&w);
}

static void test_idle(void)
{
        struct reply hold;
        struct world w;

        open_world(&w, 1);
        call(&w, "alice", "echo");
        begin(&w, &hold, "alice", "s0", "hold", 10 * IDLE_MS);
        call(&w, "bob", "echo");
        world_pass_ms(&w, IDLE_MS / 2);
        call(&w, "bob", "echo");
        world_pass_ms(&w, IDLE_MS / 2);
        check_has(shown(&w), "bob");
        world_pass_ms(&w, IDLE_MS / 2);
        check(!strstr(shown(&w), "bob"));
        /* A call keeps it. */
        world_pass_ms(&w, 2 * IDLE_MS);
        check_has(shown(&w), "alice");
        call(&w, "alice", "release");
        world_until(&w, &hold.done);
        world_pass_ms(&w, IDLE_MS - 1);
        check_has(shown(&w), "alice");
        world_pass_ms(&w, 1);
        check_eq_str(shown(&w), "");
        call(&w, "bob", "echo");
        free(hold.result);
        world_done(&w);
}

/* One principal does not take the processes of all; without a free one, one without calls ends. */
static void test_limits(void)
{
        static struct reply replies[INSTANCES_MAX + 2];
        char name[32], server[8];
        struct world w;
        int n = 0;

        open_world(&w, INSTANCES_OF_ONE + 1);
        w.is_silent = true;
        for (; n <= INSTANCES_OF_ONE; n++) {
                snprintf(server, sizeof(server), "s%d", n);
                begin(&w, &replies[n], "alice", server, "echo", 0);
        }
        world_turn(&w);
        check_has(replies[INSTANCES_OF_ONE].message,
                  "server \"s64\": this client has 64 processes of servers");
        for (; n <= INSTANCES_MAX; n++) {
                snprintf(name, sizeof(name), "p%d", n);
                begin(&w, &replies[n], name, "s0", "echo", 0);
        }
        begin(&w, &replies[n], "last", "s0", "echo", 0);
        world_turn(&w);
        check(!replies[n - 1].done);
        check_has(replies[n].message,
                  "server \"s0\": all clients together use 256 processes of servers");
        /* Their starts fail, and they have no calls. */
        world_pass_ms(&w, 30000);
        check(replies[0].done && replies[n - 1].done);
        check_has(shown(&w), "\"p255\"");
        begin(&w, &replies[n], "last", "s0", "echo", 0);
        world_turn(&w);
        check(!replies[n].done);
        check_has(shown(&w), "\"last\"");
        world_done(&w);
}

static void test_reload(void)
{
        struct config_server servers[2];
        struct config config = {.servers = servers, .n_servers = 2, .session_idle_ms = IDLE_MS};
        struct reply hold, other;
        struct world w;

        open_world(&w, 2);
        begin(&w, &hold, "alice", "s1", "hold", 0);
        begin(&w, &other, "alice", "s0", "hold", 0);
        world_until_runs(&w, 2);
        world_settle(&w, "s1");
        world_settle(&w, "s0");
        servers[0] = w.servers[1];
        servers[1] = w.servers[0];
        servers[1].per_principal = false;
        servers[1].key++;
        world_reload(&w, &config);
        world_until(&w, &other.done);
        check_has(other.message, "server \"s0\" was removed from the config, or changed in it");
        check(!hold.done);
        principal = "alice";
        reply_free(world_call(&w, "s1", "release", "{}"));
        world_until(&w, &hold.done);
        check_eq_int(hold.outcome, HUB_OK);
        free(hold.result);
        world_done(&w);
}

int main(void)
{
        run(test_apart);
        run(test_idle);
        run(test_limits);
        run(test_reload);
        return 0;
}
