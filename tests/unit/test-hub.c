/* The hub: the start of servers, their catalogue, the cache, and faulty servers. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/hub/server/listing.h"
#include "tests/unit/hub-world.h"
#include "tests/unit/test.h"

static void set_true(void *data)
{
        *(bool *)data = true;
}

static void wait_for_all(struct world *w, uint32_t timeout_ms)
{
        bool done = false;

        check(hub_wait(w->hub, NULL, timeout_ms, set_true, &done));
        check(!done);
        world_until(w, &done);
}

static void test_starts_and_lists(void)
{
        struct world w;
        uint64_t before = 0, after = 0;

        world_init(&w);
        world_add(&w, "one", "--instructions", "use it \u00e9", NULL);
        world_add(&w, "two", "--pages", "3", NULL);
        w.servers[world_add(&w, "off", NULL)].disabled = true;
        w.servers[world_add(&w, "odd", NULL)].problem = (char *)"it is odd";
        world_open(&w);
        check_eq_str(world_member(&w, "one", "state"), "starting");
        check_eq_int(w.n_runs, 0);
        hub_catalogue(w.hub, NULL, &before);
        wait_for_all(&w, 15000);
        check_eq_int(w.n_runs, 2);
        check_eq_str(world_member(&w, "one", "state"), "ready");
        check_eq_str(world_member(&w, "one", "instructions"), "use it \u00e9");
        check_eq_str(world_member(&w, "off", "state"), "disabled");
        check_eq_str(world_member(&w, "odd", "state"), "failed");
        check_eq_str(world_member(&w, "odd", "error"), "it is odd");
        check_eq_int(world_tools(&w, "odd"), 0);
        /* Three pages make the same list as one; numbers stay as written, what is not ours is left
         * out. */
        check(world_tools(&w, "one") > 15);
        check_eq_int(world_tools(&w, "two"), world_tools(&w, "one"));
        check_has(
                world_member(&w, "two", "tools"),
                "{\"name\":\"echo\",\"description\":\"Does echo. \",\"inputSchema\":{\"type\":\"object\","
                "\"properties\":{\"n\":{\"type\":\"number\",\"maximum\":1.5}}},\"annotations\":"
                "{\"readOnlyHint\":true}}");
        hub_catalogue(w.hub, NULL, &after);
        check(after > before);
        /* Two servers have changed several times; the owner is called once. */
        check_eq_int(w.n_changed, 0);
        world_pass_ms(&w, 20);
        check_eq_int(w.n_changed, 1);
        /* Nothing is left to start: the version stays. */
        wait_for_all(&w, 15000);
        check_eq_int(w.n_runs, 2);
        hub_catalogue(w.hub, NULL, &before);
        check_eq_int(before, after);
        world_done(&w);
}

static void test_wait_has_an_end(void)
{
        struct world w;
        bool done = false, never = false;

        world_init(&w);
        world_add(&w, "mute", "--never", NULL);
        world_open(&w);
        check(hub_wait(w.hub, NULL, 100, set_true, &done));
        world_pass_ms(&w, 99);
        check(!done);
        world_pass_ms(&w, 1);
        check(done);
        check_eq_str(world_member(&w, "mute", "state"), "starting");
        hub_wait_cancel(hub_wait(w.hub, NULL, 50, set_true, &never));
        world_pass_ms(&w, 100);
        check(!never);
        world_done(&w);
}

static void test_many_at_once(void)
{
        static char names[20][16];
        struct world w;

        world_init(&w);
        for (int i = 0; i < 20; i++) {
                snprintf(names[i], sizeof(names[i]), "s%d", i);
                world_add(&w, names[i], NULL);
        }
        world_open(&w);
        hub_start(w.hub, NULL, HUB_ALL);
        check_eq_int(w.n_runs, 20);
        wait_for_all(&w, 15000);
        for (int i = 0; i < 20; i++)
                check_eq_str(world_member(&w, names[i], "state"), "ready");
        world_pass_ms(&w, 20);
        check_eq_int(w.n_changed, 1);
        world_done(&w);
}

static void test_garbage_on_stdout(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "noisy", "--garbage", "--burst", "--long-list", NULL);
        world_open(&w);
        wait_for_all(&w, 15000);
        check_eq_str(world_member(&w, "noisy", "state"), "ready");
        check(strlen(world_member(&w, "noisy", "tools")) > 70000);
        const char *log = world_log(&w);
        check_has(log, "skipped a line on stdout that is not a message");
        check_has(log, "Starting the server...");
        check_has(log, "\\x1b[31mred");
        check(!strchr(log, '\x1b'));
        world_done(&w);
}

static void test_failures_are_reported(void)
{
        static const struct {
                const char *name, *option, *value, *error;
        } cases[] = {
                {"dies", "--die", "3",
                 "ended with exit status 3 while it was starting; its stderr says: Error: faulty on purpose"},
                {"refuses", "--refuse", NULL, "refused initialize: not today (-32000)"},
                {"future", "--version", "2099-01-01", "speaks MCP 2099-01-01; Cloister speaks "},
                {"empty", "--bad-initialize", "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}",
                 "answered initialize without a protocolVersion"},
                {"spoilt", "--bad-initialize", "{\"id\":ID,\"result\":{}}",
                 "gave no valid answer to initialize: not a JSON-RPC message"},
                {"unlisted", "--bad-list", NULL, "answered tools/list without a list of tools"},
        };
        struct world w;

        world_init(&w);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                world_add(&w, cases[i].name, cases[i].option, cases[i].value, NULL);
        w.servers[world_add(&w, "missing", NULL)].command = (char *)"/nowhere/no-such-program";
        world_add(&w, "good", NULL);
        world_open(&w);
        wait_for_all(&w, 15000);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                check_eq_str(world_member(&w, cases[i].name, "state"), "failed");
                check_has(world_member(&w, cases[i].name, "error"), cases[i].error);
        }
        check_has(world_member(&w, "missing", "error"), "no-such-program: not found");
        check_eq_str(world_member(&w, "good", "state"), "ready");
        world_done(&w);
}

static void test_old_revisions(void)
{
        static const char *const versions[] = {"2024-11-05", "2025-03-26", "2025-06-18",
                                               "2025-11-25"};
        struct world w;

        world_init(&w);
        for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
                world_add(&w, versions[i], "--version", versions[i], NULL);
        world_add(&w, "none", "--no-tools", NULL);
        world_open(&w);
        wait_for_all(&w, 15000);
        for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
                check_eq_str(world_member(&w, versions[i], "state"), "ready");
        check_eq_str(world_member(&w, "none", "state"), "ready");
        check_eq_int(world_tools(&w, "none"), 0);
        world_done(&w);
}

static void test_lists_have_bounds(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "loop", "--loop-cursor", NULL);
        world_add(&w, "crowd", "--many", "12000", "--pages", "7", NULL);
        world_add(&w, "plain", NULL);
        world_add(&w, "bad", "--bad-tools", NULL);
        world_open(&w);
        wait_for_all(&w, 15000);
        check_eq_int(world_tools(&w, "loop"), world_tools(&w, "plain"));
        /* The bytes of all end before their number does (test-hub-tools.c). */
        check(world_tools(&w, "crowd") > 9000 && world_tools(&w, "crowd") < 10000);
        check_eq_int(world_tools(&w, "bad"), world_tools(&w, "plain") + 1);
        const char *log = world_log(&w);
        check_has(log, "server loop: its list of tools repeats itself");
        check_has(log, "server crowd: 1 tools are left out");
        check_has(log, "server bad: 8 tools are left out; the first is \"?\": it has no name");
        world_done(&w);
}

static void test_tools_that_change(void)
{
        struct world w;
        struct reply *reply;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_open(&w);
        wait_for_all(&w, 15000);
        size_t n = world_tools(&w, "s");
        unsigned changed = w.n_changed;
        reply_free(world_call(&w, "s", "change", "{\"name\":\"added\",\"times\":5}"));
        world_pass_ms(&w, LISTING_AGAIN_MS);
        world_until_tools(&w, "s", n + 1);
        world_pass_ms(&w, 20);
        check(w.n_changed > changed);
        /* Five notifications, one more list. */
        reply = world_call(&w, "s", "lists", "{}");
        check_has(reply->result, "\"lists\":2,");
        reply_free(reply);
        world_done(&w);
}

static void spoil(struct world *w, const char *name, const char *content)
{
        int fd = openat(w->dir_fd, name, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);

        check(fd >= 0);
        check_eq_int(write(fd, content, strlen(content)), (ssize_t)strlen(content));
        close(fd);
}

static void test_cache(void)
{
        static const char file[] = "catalogue/0000000000001000.json";
        static const char *const broken[] = {
                "",
                "{",
                "[]",
                "{\"format\":1,\"tools\":[]}",
                "{\"format\":2,\"key\":\"0000000000001000\",\"tools\":[]}",
                "{\"format\":1,\"key\":\"0000000000001001\",\"tools\":[]}",
                "{\"format\":1,\"key\":\"0000000000001000\",\"tools\":7}"};
        struct world w;
        struct stat about;

        world_init(&w);
        world_add(&w, "s", "--instructions", "how", NULL);
        world_open(&w);
        wait_for_all(&w, 15000);
        size_t n = world_tools(&w, "s");
        char *tools = strdup(world_member(&w, "s", "tools"));
        world_shut(&w);
        check_eq_int(fstatat(w.dir_fd, file, &about, 0), 0);
        check_eq_int(about.st_mode & 0777, 0600);

        /* The cached tools are there at once, and a wait starts no process. */
        world_open(&w);
        check_eq_str(world_member(&w, "s", "state"), "cached");
        check_eq_str(world_member(&w, "s", "instructions"), "how");
        check_eq_str(world_member(&w, "s", "tools"), tools);
        hub_start(w.hub, NULL, HUB_UNKNOWN);
        wait_for_all(&w, 15000);
        check_eq_int(w.n_runs, 1);
        hub_start(w.hub, NULL, HUB_ALL);
        world_until_state(&w, "s", "ready");
        check_eq_int(w.n_runs, 2);
        world_shut(&w);
        free(tools);

        for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
                spoil(&w, file, broken[i]);
                world_open(&w);
                check_eq_str(world_member(&w, "s", "state"), "starting");
                world_shut(&w);
        }
        /* And the file is written again. */
        world_open(&w);
        wait_for_all(&w, 15000);
        world_shut(&w);
        world_open(&w);
        check_eq_int(world_tools(&w, "s"), n);
        world_done(&w);
}

static void test_cache_cannot_be_written(void)
{
        struct world w;

        world_init(&w);
        world_add(&w, "s", NULL);
        spoil(&w, "catalogue", "a file where the folder should be");
        world_open(&w);
        wait_for_all(&w, 15000);
        check_eq_str(world_member(&w, "s", "state"), "ready");
        world_done(&w);
}

static void test_stderr_is_drained(void)
{
        struct world w;
        struct reply *reply;

        world_init(&w);
        world_add(&w, "flood", "--stderr-flood", NULL);
        world_add(&w, "talk", NULL);
        world_open(&w);
        wait_for_all(&w, 15000);
        reply = world_call(&w, "flood", "echo", "{}");
        check_eq_int(reply->outcome, HUB_OK);
        reply_free(reply);
        world_log(&w);
        reply = world_call(&w, "talk", "stderr", "{\"lines\":1000}");
        check_eq_int(reply->outcome, HUB_OK);
        reply_free(reply);
        world_turn(&w);
        const char *log = world_log(&w);
        check_has(log, "talk: line 0 \\x1b[31m");
        check(!strstr(log, "talk: line 999"));
        check(strlen(log) < 300 * 1024);
        world_done(&w);
}

static void test_late_answer_of_the_monitor(void)
{
        int fds[3], ends[3][2];
        struct world w;

        world_init(&w);
        world_add(&w, "s", NULL);
        world_open(&w);
        for (int i = 0; i < 3; i++) {
                check_eq_int(pipe2(ends[i], O_CLOEXEC), 0);
                fds[i] = ends[i][i == 0];
        }
        /* The hub did not ask for it: it is stopped, and its pipes are closed. */
        w.n_runs = 1;
        hub_upstream_started(w.hub, 0, 1, fds);
        check_eq_int(w.n_stops, 1);
        for (int i = 0; i < 3; i++) {
                check_eq_int(fcntl(fds[i], F_GETFD), -1);
                close(ends[i][i != 0]);
        }
        hub_upstream_ended(w.hub, 1, 0);
        hub_upstream_ended(w.hub, 77, 0);
        hub_upstream_failed(w.hub, 0, &(struct error){.code = EIO});
        hub_upstream_failed(w.hub, 77, &(struct error){.code = EIO});
        check_eq_str(world_member(&w, "s", "state"), "starting");
        world_done(&w);
}

int main(void)
{
        run(test_starts_and_lists);
        run(test_wait_has_an_end);
        run(test_many_at_once);
        run(test_garbage_on_stdout);
        run(test_failures_are_reported);
        run(test_old_revisions);
        run(test_lists_have_bounds);
        run(test_tools_that_change);
        run(test_cache);
        run(test_cache_cannot_be_written);
        run(test_stderr_is_drained);
        run(test_late_answer_of_the_monitor);
        return 0;
}
