#include <stdio.h>

#include "base/cleanup.h"
#include "policy/config/add.h"
#include "policy/config/ask-keys.h"
#include "policy/config/config.h"
#include "policy/config/journal-keys.h"
#include "policy/config/keys.h"
#include "policy/config/server.h"
#include "tests/unit/test.h"

DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(cleanup_config_free)

static void add(struct config *config, const char *text)
{
        struct error err = {};

        check_ok(config_add(config, "a.json", text, strlen(text), &err));
}

static struct config *good(const char *text)
{
        struct error err = {};
        struct config *config = config_new();

        check(config);
        add(config, text);
        check_ok(config_finish(config, &err));
        return config;
}

static void refused(const char *text, const char *part)
{
        struct error err = {};
        _cleanup_config_ struct config *config = config_new();

        int r = config_add(config, "a.json", text, strlen(text), &err);
        if (r >= 0)
                r = config_finish(config, &err);
        check_eq_int(r, -EINVAL);
        check_has(err.text, "a.json: ");
        check_has(err.text, part);
}

static const struct config_profile *profile(const struct config *config, const char *name)
{
        struct error err = {};
        int i = config_find_profile(config, name, &err);

        check_ok(i);
        return &config->profiles[i];
}

static void test_default(void)
{
        _cleanup_config_ struct config *config = good("{}");

        check_eq_int(config->n_profiles, 1);
        check_eq_int(config->profile, 0);
        check_eq_str(config->profiles[0].name, "default");
        check_eq_int(config->profiles[0].limits.memory, 512 << 20);
        check_eq_int(config->profiles[0].limits.open_files, 1024);
        check_eq_int(config->profiles[0].network, CONFIG_NETWORK_NONE);
        check(!config->profiles[0].servers && !config->profiles[0].image);
        check(!config->profiles[0].agent);
        check_eq_int(config->profiles[0].pool.min, 2);
        check_eq_int(config->profiles[0].pool.max, 16);
}

static void test_all_keys(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"git\": {\"command\": \"g\"}}, \"profiles\": {\"data\": {"
                "\"image\": \"pandas\", \"limits\": {\"memory\": \"2G\", \"cpu\": 2},"
                "\"network\": \"loopback\", \"mounts\": [{\"source\": \"~/data\", \"target\": \"/data\"}, {\"source\": \"/srv/out\", \"target\": \"/workspace/out2\", \"mode\": \"rw\"}], \"preload\": [\"numpy\", \"xml.etree\"], \"servers\": [\"git\"], \"tools\": {\"allow\": [\"git.*\"], \"deny\": [\"push\"]},"
                "\"ask\": {\"by\": [\"terminal\"], \"wait\": 20, \"timeout\": \"5m\", \"whole\": true},"
                "\"agent\": true}}, \"profile\": \"data\"}");
        const struct config_profile *p = profile(config, "data");

        check_eq_int(config->n_warnings, 0);
        check_eq_int(config->profile, 1);
        check_eq_str(p->image, "pandas");
        check_eq_int(p->limits.memory, 2ll << 30);
        check_eq_int(p->limits.cpu_milli, 2000);
        check_eq_int(p->limits.pids, 128);
        check_eq_int(p->network, CONFIG_NETWORK_LOOPBACK);
        check_eq_int(p->n_mounts, 2);
        check_eq_str(p->mounts[0].source, "~/data");
        check_eq_str(p->mounts[0].target, "/data");
        check(!p->mounts[0].writable && p->mounts[1].writable);
        check_eq_str(p->preload[1], "xml.etree");
        check_eq_str(p->preload[2], NULL);
        check_eq_str(p->servers[0], "git");
        check_eq_str(p->tools.allow[0], "git.*");
        check_eq_str(p->tools.deny[0], "push");
        check_eq_int(config_ask_by(&p->ask), CONFIG_ASK_TERMINAL);
        check_eq_int(config_ask_by(&profile(config, "default")->ask),
                     CONFIG_ASK_CLIENT | CONFIG_ASK_TERMINAL);
        check_eq_int(p->ask.wait_ms, 20000);
        check_eq_int(p->ask.timeout_ms, 300000);
        check_eq_int(p->ask.per_cell, 10);
        check(p->ask.whole && !p->ask.page);
        check(p->agent);
        check(!profile(config, "default")->agent && !profile(config, "default")->servers);
}

/* A page needs the address of the server. */
static void test_ask_page(void)
{
        const char *const pages[] = {"https://a.example", "https://a-b.example:8443",
                                     "http://127.0.0.1:8808", "http://localhost", "http://[::1]:1"};

        for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
                char text[300];
                snprintf(text, sizeof(text),
                         "{\"ask\": {\"page\": \"%s\"}, \"profiles\": {\"p\": {}, \"q\": {\"ask\": "
                         "{\"by\": [\"page\"], \"page\": \"https://q\"}}, \"r\": {\"ask\": {}}}}",
                         pages[i]);
                _cleanup_config_ struct config *config = good(text);
                struct error err = {};
                check_eq_int(config_ask_by(&profile(config, "p")->ask),
                             CONFIG_ASK_CLIENT | CONFIG_ASK_TERMINAL | CONFIG_ASK_PAGE);
                check_eq_int(config_ask_by(&profile(config, "q")->ask), CONFIG_ASK_PAGE);
                check_eq_int(config_ask_by(&profile(config, "r")->ask),
                             CONFIG_ASK_CLIENT | CONFIG_ASK_TERMINAL);
                check(config_has_ask_page(config) && config_is_ask_page(config, pages[i]));
                check(config_is_ask_page(config, "https://q") &&
                      !config_is_ask_page(config, "https://a.exampl") &&
                      !config_is_ask_page(config, ""));
                check(config_check_asks(config, &err) == 0);
                config_drop_ask_pages(config);
                check_eq_int(config_check_asks(config, &err), -EINVAL);
                check(strstr(err.text, "profile \"q\": ask.by names \"page\": ask.page must be"));
                check(!config_has_ask_page(config) && !config_is_ask_page(config, pages[i]));
                check_eq_int(config_ask_by(&profile(config, "q")->ask), 0);
        }
}

static void test_inherits_absent_keys(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"profiles\": {\"a\": {\"limits\": {\"pids\": 9}}, \"b\": {\"image\": \"other\","
                "\"mounts\": [], \"network\": \"none\"}, \"c\": {\"python\": \"/p\"},"
                "\"default\": {\"servers\": [], \"limits\": {\"pids\": 10}}},"
                "\"image\": \"base\", \"limits\": {\"memory\": \"1G\", \"pids\": 64},"
                "\"network\": \"loopback\", \"preload\": [\"json\"],"
                "\"mounts\": [{\"source\": \"/s\", \"target\": \"/s\"}]}");
        const struct config_profile *a = profile(config, "a"), *b = profile(config, "b");
        const struct config_profile *c = profile(config, "c"), *d = &config->profiles[0];

        check_eq_int(config->n_profiles, 4);
        check_eq_str(d->name, "default");
        check_eq_int(d->limits.pids, 10);
        check(d->servers && !d->servers[0]);
        check_eq_str(a->image, "base");
        check_eq_int(a->limits.memory, 1 << 30);
        check_eq_int(a->limits.pids, 9);
        check_eq_int(a->network, CONFIG_NETWORK_LOOPBACK);
        check_eq_str(a->preload[0], "json");
        check_eq_str(a->mounts[0].target, "/s");
        check(!a->servers); /* "default" under "profiles" has its own keys */
        check_eq_str(b->image, "other");
        check_eq_int(b->n_mounts, 0);
        check_eq_int(b->network, CONFIG_NETWORK_NONE);
        check_eq_int(b->limits.pids, 64);
        check_eq_str(c->image, NULL); /* its own interpreter has its own image */
        check_eq_str(c->python, "/p");
        check_eq_str(config->top.image, "base");
        check_eq_int(config->top.limits.memory, 1 << 30);
}

static void test_later_file_overrides_keys(void)
{
        struct error err = {};
        _cleanup_config_ struct config *config = config_new();

        add(config, "{\"limits\": {\"pids\": 20, \"memory\": \"1G\"}, \"profile\": \"a\","
                    "\"profiles\": {\"a\": {\"image\": \"one\", \"agent\": true}},"
                    "\"clients\": {\"x\": \"a\", \"y\": \"a\"}}");
        add(config, "{\"limits\": {\"pids\": 30}, \"profiles\": {\"a\": {\"image\": \"two\"},"
                    "\"b\": {}}, \"clients\": {\"x\": \"b\"}}");
        check_ok(config_finish(config, &err));
        check_eq_int(config->n_profiles, 3);
        check_eq_str(profile(config, "a")->image, "two");
        check(profile(config, "a")->agent);
        check_eq_int(profile(config, "a")->limits.pids, 30);
        check_eq_int(profile(config, "b")->limits.memory, 1 << 30);
        check_eq_str(config->profiles[config->profile].name, "a");
        check_eq_int(config->n_clients, 2);
        check_eq_str(config->profiles[config_profile_of_client(config, "x")].name, "b");
        check_eq_str(config->profiles[config_profile_of_client(config, "y")].name, "a");
        check_eq_str(config->profiles[config_profile_of_client(config, "z")].name, "a");
        check_eq_str(config->profiles[config_profile_of_client(config, NULL)].name, "a");
}

static void test_unknown_names(void)
{
        struct error err = {};

        refused("{\"profiles\": {\"data\": {}},\n\"profile\": \"dta\"}",
                "line 2: there is no profile \"dta\"; did you mean \"data\"?");
        refused("{\"clients\": {\n\"claude\": \"zzz\"}}",
                "line 2: there is no profile \"zzz\" in the config");
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"git\": {\"command\": \"g\"}, \"k\": {\"command\": \"c\", \"rename\": \"calendar\"}},\n\"profiles\": {\"x\": {\"servers\": [\"git\",\n"
                "\"gti\", \"calendar\", \"nothing\"]}}}");
        check_eq_int(config->n_warnings, 2);
        check_eq_str(
                config->warnings[0],
                "a.json: line 3: profile \"x\": there is no server \"gti\"; did you mean \"git\"?");
        check_eq_str(config->warnings[1],
                     "a.json: line 3: profile \"x\": there is no server \"nothing\"");
        check_eq_int(config_find_profile(config, "y", &err), -ENOENT);
        check_eq_str(err.text, "there is no profile \"y\" in the config");
        check_eq_int(config_find_profile(config, "X", NULL), -ENOENT);
}

static void wrong(const char *profile, const char *part)
{
        char text[1024];

        snprintf(text, sizeof(text), "{\"profiles\": {\n\"p\": {%s}}}", profile);
        refused(text, "line 2: profile \"p\": ");
        refused(text, part);
}

static void mount_wrong(const char *mounts, const char *part)
{
        char text[1024];

        snprintf(text, sizeof(text), "\"mounts\": [%s]", mounts);
        wrong(text, part);
}

static void target_wrong(const char *target, const char *part)
{
        char text[512];

        snprintf(text, sizeof(text), "{\"source\": \"/s\", \"target\": \"%s\"}", target);
        mount_wrong(text, part);
}

static void test_pool(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"pool\": {\"max\": 3}, \"profiles\": {\"a\": {\"pool\": 0}, \"b\": {\"pool\": {\"min\": 20}}, \"c\": {\"pool\": {\"max\": 0}}, \"d\": {}, \"e\": {\"pool\": 5}}}");
        static const struct {
                const char *name;
                uint32_t min, max;
        } cases[] = {{"default", 2, 3}, {"a", 0, 0}, {"b", 20, 20},
                     {"c", 0, 0},       {"d", 2, 3}, {"e", 5, 5}};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                check_eq_int(profile(config, cases[i].name)->pool.min, cases[i].min);
                check_eq_int(profile(config, cases[i].name)->pool.max, cases[i].max);
        }
        wrong("\"pool\": \"many\"", "pool must be a whole number");
        wrong("\"pool\": -1", "pool must be from 0 to 256");
        wrong("\"pool\": 257", "pool must be from 0 to 256");
        wrong("\"pool\": {\"min\": []}", "pool.min must be a whole number");
        wrong("\"pool\": {\"min\": 3, \"max\": 2}", "pool.min must not be above pool.max");
}

static void test_freeze(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"freeze\": \"10m\", \"profiles\": {\"a\": {\"freeze\": 0}, \"b\": {\"freeze\": 0.5}, \"c\": {}}}");
        _cleanup_config_ struct config *none = good("{}");

        check_eq_int(none->profiles[0].freeze_ms, 0);
        check_eq_int(profile(config, "default")->freeze_ms, 600000);
        check_eq_int(profile(config, "a")->freeze_ms, 0);
        check_eq_int(profile(config, "b")->freeze_ms, 500);
        check_eq_int(profile(config, "c")->freeze_ms, 600000);
        wrong("\"freeze\": \"soon\"", "freeze must be a number of seconds");
        wrong("\"freeze\": -1", "freeze must be from 0 s to");
        wrong("\"freeze\": 0.05", "freeze must be 0, for never, or from 0.1 s");
        wrong("\"freeze\": \"31d\"", "freeze must be");
}

static void test_background(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"background\": {\"cpu\": \"1m\"}, \"profiles\": {\"a\": {\"background\": {\"cpu\": \"unlimited\"}},"
                " \"b\": {\"background\": {\"cpu\": 0.1}}, \"c\": {}}}");
        _cleanup_config_ struct config *none = good("{}");

        check_eq_int(none->profiles[0].background_ms, 30000);
        check_eq_int(profile(config, "default")->background_ms, 60000);
        check_eq_int(profile(config, "a")->background_ms, CONFIG_UNLIMITED);
        check_eq_int(profile(config, "b")->background_ms, 100);
        check_eq_int(profile(config, "c")->background_ms, 60000);
        wrong("\"background\": \"30s\"", "background must be an object");
        wrong("\"background\": {\"cpu\": \"much\"}", "background.cpu must be a number of seconds");
        wrong("\"background\": {\"cpu\": 0}", "background.cpu must be from 0.1 s to 86400 s");
        wrong("\"background\": {\"cpu\": \"25h\"}", "background.cpu must be from 0.1 s to 86400 s");
        /* Only of this key. */
        wrong("\"freeze\": \"unlimited\"", "freeze must be a number of seconds");
}

static void test_state(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"state\": {\"survives\": false}, \"profiles\": {\"a\": {\"state\": {\"survives\": true}}, \"b\": {\"state\": {}}, \"c\": {}}}");
        _cleanup_config_ struct config *none = good("{}");

        check(none->profiles[0].survives);
        check(!profile(config, "default")->survives);
        check(profile(config, "a")->survives && profile(config, "b")->survives);
        check(!profile(config, "c")->survives);
        wrong("\"state\": true", "state must be an object: {\"survives\": …");
        wrong("\"state\": {\"survives\": 1}", "state.survives must be true or false");
}

static void test_speculation(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"speculation\": \"disabled\", \"profiles\": {\"a\": {\"speculation\": \"shared\"}, \"b\": {}}}");
        _cleanup_config_ struct config *none = good("{}");

        check(!none->profiles[0].speculation_disabled);
        check(profile(config, "default")->speculation_disabled);
        check(!profile(config, "a")->speculation_disabled);
        check(profile(config, "b")->speculation_disabled);
        wrong("\"speculation\": \"off\"", "speculation must be \"shared\" or \"disabled\"");
}

static void test_recycle(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"recycle\": false, \"profiles\": {\"a\": {\"recycle\": true}, \"b\": {}}}");
        _cleanup_config_ struct config *none = good("{}");

        check(none->profiles[0].recycle);
        check(!profile(config, "default")->recycle);
        check(profile(config, "a")->recycle);
        check(!profile(config, "b")->recycle);
        wrong("\"recycle\": 1", "recycle must be true or false");
}

static void test_checkpoints(void)
{
        static const char *const wrongs[] = {"-1", "17", "true", "\"4\"", "1.5"};
        _cleanup_config_ struct config *config = good(
                "{\"state\": {\"checkpoints\": 16}, \"profiles\": {\"a\": {\"state\": {\"checkpoints\": 0}}, \"b\": {\"state\": {}}, \"c\": {}}}");
        char text[64];

        check_eq_int(profile(config, "default")->checkpoints, 16);
        check_eq_int(profile(config, "a")->checkpoints, 0);
        check(profile(config, "a")->survives);
        check_eq_int(profile(config, "b")->checkpoints, 4);
        check_eq_int(profile(config, "c")->checkpoints, 16);
        for (size_t i = 0; i < ARRAY_SIZE(wrongs); i++) {
                snprintf(text, sizeof(text), "\"state\": {\"checkpoints\": %s}", wrongs[i]);
                wrong(text, "state.checkpoints must be");
        }
}

static void test_pictures(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"pictures\": {\"side\": 8000}, \"profiles\": {\"a\": {\"pictures\": {\"bytes\": 10000}}, \"b\": {}}}");

        check_eq_int(profile(config, "default")->picture_side, 8000);
        check_eq_int(profile(config, "default")->picture_bytes, 3932160);
        check_eq_int(profile(config, "a")->picture_side, 2000);
        check_eq_int(profile(config, "a")->picture_bytes, 10000);
        check_eq_int(profile(config, "b")->picture_side, 8000);
        wrong("\"pictures\": {\"side\": 0}", "pictures.side must be");
        wrong("\"pictures\": {\"side\": 8001}", "pictures.side must be");
        wrong("\"pictures\": {\"bytes\": 9999}", "pictures.bytes must be");
        wrong("\"pictures\": {\"bytes\": 3932161}", "pictures.bytes must be");
}

static void test_journal(void)
{
        _cleanup_config_ struct config *none = good("{}");
        _cleanup_config_ struct config *config = good(
                "{\"journal\": {\"max\": \"2M\"}, \"profiles\": {\"a\": {\"journal\": {\"sync\": \"group\", \"arguments\": \"hash\", \"keep\": \"2w\"}}, \"b\": {}, \"c\": {\"journal\": false}}}");
        uint64_t max, keep_s;

        check(!config_journal_limits(none, &max, &keep_s));
        check(config_journal_limits(config, &max, &keep_s));
        check(max == 1 << 30);
        check_eq_int((int)keep_s, 90 * 24 * 3600);
        check_eq_int(profile(config, "a")->journal.sync, CONFIG_SYNC_GROUP);
        check_eq_int(profile(config, "a")->journal.arguments, CONFIG_ARGUMENTS_HASH);
        check(profile(config, "b")->journal.is_set && profile(config, "b")->journal.max == 2 << 20);
        check(!profile(config, "c")->journal.is_set);
        wrong("\"journal\": {\"sync\": \"all\"}", "journal.sync must be");
        wrong("\"journal\": {\"keep\": \"90\"}", "keep must be");
        wrong("\"journal\": {\"keep\": \"0d\"}", "keep must be");
        wrong("\"journal\": {\"max\": \"512K\"}", "journal.max must be");
        wrong("\"journal\": true", "journal must be");
}

static void test_packages(void)
{
        _cleanup_config_ struct config *none = good("{}");
        _cleanup_config_ struct config *config = good(
                "{\"packages\": {\"install\": \"allow\", \"allow\": [\"a\", \"b>=2,<3\"], \"max_size\": \"1M\"}, \"profiles\": {\"a\": {}, \"b\": {\"packages\": {\"index\": \"https://x/simple\", \"exclude_newer\": \"2026-01-31\", \"timeout\": \"5m\"}}}}");
        const struct config_packages *a = &profile(config, "a")->packages;
        const struct config_packages *b = &profile(config, "b")->packages;

        check(!none->profiles[0].packages.install);
        check_eq_int((int)(none->profiles[0].packages.max_bytes >> 20), 500);
        check(a->install && !a->index);
        check_eq_str(a->allow[1], "b>=2,<3");
        check(!a->allow[2]);
        check_eq_int((int)a->max_bytes, 1024 * 1024);
        check(!b->install && !b->allow);
        check_eq_str(b->index, "https://x/simple");
        check_eq_str(b->exclude_newer, "2026-01-31");
        check_eq_int((int)b->timeout_ms, 300000);
        wrong("\"packages\": true", "packages must be an object");
        wrong("\"packages\": {\"install\": true}", "packages.install must be \"never\" or");
        wrong("\"packages\": {\"allow\": []}", "packages.allow names no package");
        wrong("\"packages\": {\"allow\": [\"a\", \"-e .\"]}", "packages.allow: item 2 must be");
        wrong("\"packages\": {\"allow\": [\"a,b\"]}", "names two packages");
        wrong("\"packages\": {\"allow\": [\"a[x]\"]}", "packages.allow: item 1 must be");
        wrong("\"packages\": {\"allow\": [\"a @ https://x/a.whl\"]}", "packages.allow: item 1");
        wrong("\"packages\": {\"index\": \"pypi.org\"}", "packages.index must be the url");
        wrong("\"packages\": {\"allow_npm\": []}", "packages.allow_npm names no package");
        wrong("\"packages\": {\"allow_npm\": [\"a\", \"./b\"]}",
              "packages.allow_npm: item 2 must be");
        wrong("\"packages\": {\"allow_npm\": [\"a,b\"]}", "packages.allow_npm: item 1 must be");
        wrong("\"packages\": {\"registry\": \"file:///x\"}", "packages.registry must be the url");
        wrong("\"libraries\": {\"npm\": [\"a b\"]}", "libraries.npm: item 1 must be");
        wrong("\"libraries\": {\"python\": [\"-e .\"]}", "libraries.python: item 1");
        wrong("\"libraries\": [\"a\"]", "libraries must be an object");
        wrong("\"packages\": {\"exclude_newer\": \"14\"}", "packages.exclude_newer must be");
        wrong("\"packages\": {\"max_size\": 1}", "packages.max_size must be from 1M");
        wrong("\"packages\": {\"timeout\": \"2h\"}", "packages.timeout must be from");
}

static void test_python(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"python\": \"3.13\", \"python_downloads\": \"allow\", \"profiles\": {\"a\": {}, \"b\": {\"python\": \"/b\", \"python_downloads\": \"never\"}}}");

        check_eq_str(profile(config, "a")->python, "3.13");
        check(profile(config, "a")->python_downloads);
        check_eq_str(profile(config, "b")->python, "/b");
        check(!profile(config, "b")->python_downloads);
        wrong("\"python\": \"3\"", "python must be an absolute path, or a version such as");
        wrong("\"python\": \"../3\"", "python must be an absolute path");
        wrong("\"python\": 3.10", "python must be an absolute path");
        wrong("\"python_downloads\": true", "python_downloads must be \"never\" or \"allow\"");
}

static void test_program(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"profiles\": {\"a\": {\"program\": {\"language\": \"c++\", \"file\": \"a.cpp\", \"commands\": [\"g++ a.cpp\", \"./a.out 'a b'\"], \"source\": \"docker://gcc\"}}, \"b\": {}}}");
        const struct config_program *program = &profile(config, "a")->program;

        check_eq_str(program->language, "c++");
        check_eq_str(program->file, "a.cpp");
        check_eq_str(program->commands[1], "./a.out 'a b'");
        check(!program->commands[2]);
        check_eq_str(program->source, "docker://gcc");
        check(!profile(config, "b")->program.language);
        wrong("\"program\": {\"language\": \"c\"}",
              "program needs \"language\", \"file\" and \"commands\"");
        wrong("\"program\": {\"language\": \"c\", \"file\": \"a/b\", \"commands\": [\"x\"]}",
              "program.file must be the name of a file");
}

static void test_wrong_values(void)
{
        refused("{\"profiles\": []}", "profiles must be an object");
        refused("{\"profiles\": {\"a b\": {}}}", "a profile's name is");
        refused("{\"profiles\": {\"a\": 1}}", "profile \"a\": must be an object");
        refused("{\"profile\": 1}", "profile must be the name");
        refused("{\"clients\": []}", "clients must be an object");
        refused("{\"clients\": {\"x\": {}}}", "clients: x must be the name");
        refused("{\"clients\": {\"\": \"x\"}}", "a client's name");
        refused("{\n\"network\": \"all\"}", "line 2: network must be \"none\", \"loopback\" or {");
        wrong("\"network\": false", "network must be");
        wrong("\"limits\": 1", "limits must be an object");
        wrong("\"limits\": {\"memory\": 1}", "limits.memory must be from");
        wrong("\"image\": \"a/b\"", "image must be");
        wrong("\"agent\": \"yes\"", "agent must be true or false");
        wrong("\"preload\": \"x\"", "preload must be an array of at most 32");
        wrong("\"preload\": [\"a-b\"]", "preload: item 1 must be a module's name");
        wrong("\"preload\": [\"a\", \"a..b\"]", "preload: item 2 must be");
        wrong("\"preload\": [\"1a\"]", "module's name");
        wrong("\"preload\": [\"a\\nb\"]", "module's name");
        wrong("\"ask\": []", "ask must be an object");
        wrong("\"ask\": {\"by\": []}",
              "ask.by: name \"client\", \"terminal\", \"page\" or several");
        wrong("\"ask\": {\"by\": [\"client\", \"mail\"]}",
              "ask.by: item 2 must be \"client\", \"terminal\" or \"page\"");
        const char *const no_pages[] = {
                "cloister.example",    "ftp://a",           "https://",
                "https://a/b",         "https://A.example", "https://a:443",
                "http://localhost:80", "http://a.example",  "http://127.0.0.1.example",
                "https://a:0",         "https://a:65536",   "https://a:1x",
                "https://u@a",         "https://[::1",      "https://a\\u0000",
        };
        for (size_t i = 0; i < ARRAY_SIZE(no_pages); i++) {
                char text[200];
                snprintf(text, sizeof(text), "\"ask\": {\"page\": \"%s\"}", no_pages[i]);
                wrong(text,
                      i + 1 < ARRAY_SIZE(no_pages) ? "ask.page must be an address" : "ask.page");
        }
        wrong("\"ask\": {\"timeout\": \"2h\"}", "ask.timeout");
        wrong("\"ask\": {\"per_cell\": 0}", "ask.per_cell");
        wrong("\"servers\": [1]", "servers: item 1 must be a string");
        wrong("\"tools\": []", "tools must be an object");
        wrong("\"tools\": {\"allow\": \"x\"}", "tools.allow must be an array");
        wrong("\"tools\": {\"deny\": [\"\"]}", "tools.deny: item 1 must be a string");
}

static void test_wrong_mounts(void)
{
        mount_wrong("1", "item 1 must be an object");
        mount_wrong("{\"target\": \"/x\"}", "source must be a string");
        mount_wrong("{\"source\": \"/x\"}", "target must be a string");
        mount_wrong("{\"source\": \"x\", \"target\": \"/x\"}", "source must be an absolute path");
        mount_wrong("{\"source\": \"~u/x\", \"target\": \"/x\"}", "source must be an absolute");
        mount_wrong("{\"source\": \"/x\", \"target\": \"/x\", \"mode\": \"rx\"}", "\"ro\" or");
        mount_wrong("{\"source\": \"/x\", \"target\": \"/x\", \"mode\": \"rw\", \"locks\": 1}",
                    "item 1: locks must be true or false");
        mount_wrong("{\"source\": \"/x\", \"target\": \"/x\", \"mode\": \"ro\", \"locks\": true}",
                    "item 1: locks needs \"mode\": \"rw\"");
        mount_wrong("{\"source\": \"/x\", \"target\": \"/x\", \"locks\": true}", "locks needs");
        target_wrong("x", "absolute path");
        target_wrong("/", "not / itself");
        target_wrong("/a//b", "without //");
        target_wrong("/a/", "absolute path");
        target_wrong("/a/../b", "absolute path");
        target_wrong("/a/.", "absolute path");
        target_wrong("/a\\nb", "cannot be seen");
        target_wrong("/proc", "/proc or /dev");
        target_wrong("/dev/shm/x", "/proc or /dev");
        target_wrong("/tmp", "a directory below is fine");
        target_wrong("/workspace", "a directory below is fine");
        target_wrong("/a\"}, {\"source\": \"/t\", \"target\": \"/a", "are the same, or one");
        target_wrong("/a\"}, {\"source\": \"/t\", \"target\": \"/a/b", "are the same, or one");
        target_wrong("/a/b\"}, {\"source\": \"/t\", \"target\": \"/a", "are the same, or one");
        _cleanup_config_ struct config *config = good(
                "{\"mounts\": [{\"source\": \"/\", \"target\": \"/a\"}, {\"source\": \"~\", \"target\": \"/ab\"}, {\"source\": \"/s\", \"target\": \"/workspace/x\", \"mode\": \"rw\", \"locks\": true},"
                "{\"source\": \"/s\", \"target\": \"/tmp/x\"}, {\"source\": \"/s\", \"target\": \"/process\"}, {\"source\": \"/s\", \"target\": \"/...\"}]}");
        check_eq_int(config->profiles[0].n_mounts, 6);
        check(config->profiles[0].mounts[2].locks && !config->profiles[0].mounts[3].locks);
}

static void test_unknown_keys(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"profils\": {},\n\"profiles\": {\"p\": {\n\"imag\": 1, \"limits\": {\n\"mem\": 1}, \"tools\": {\n\"alow\": []}, \"mounts\": [{\"source\": \"/a\", \"target\": \"/a\",\n\"modes\": 1}]}},\n\"servers\": []}");

        check_eq_int(config->n_warnings, 6);
        check_eq_str(config->warnings[0],
                     "a.json: line 1: unknown key \"profils\"; did you mean \"profiles\"?");
        check_eq_str(
                config->warnings[1],
                "a.json: line 3: profile \"p\": unknown key \"imag\"; did you mean \"image\"?");
        check_eq_str(config->warnings[2],
                     "a.json: line 4: profile \"p\": limits: unknown key \"mem\", ignored");
        check_eq_str(
                config->warnings[3],
                "a.json: line 5: profile \"p\": tools: unknown key \"alow\"; did you mean \"allow\"?");
        check_eq_str(
                config->warnings[4],
                "a.json: line 6: profile \"p\": mounts: item 1: unknown key \"modes\"; did you mean \"mode\"?");
        check_has(config->warnings[5], "a.json: line 7: unknown key \"servers\"");
}

static void test_libraries(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"libraries\": {\"python\": [\"a>=1\"], \"npm\": [\"@s/b@^1\"], \"optional\": true}, \"packages\": {\"allow_npm\": [\"c\"], \"registry\": \"http://x/\"},"
                "\"profiles\": {\"js\": {\"language\": \"javascript\"}, \"none\": {\"libraries\": {\"python\": []}}}}");
        const struct config_profile *js = profile(config, "js");

        check_eq_str(js->libraries.python[0], "a>=1");
        check_eq_str(js->libraries.npm[0], "@s/b@^1");
        check(js->libraries.optional);
        check_eq_str(js->packages.allow_npm[0], "c");
        check_eq_str(js->packages.registry, "http://x/");
        check(!profile(config, "none")->libraries.python[0]);
}

static void test_language(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"image\": \"x\", \"packages\": {\"install\": \"allow\"}, \"profiles\": {"
                "\"js\": {\"language\": \"javascript\", \"nodejs\": \"/n/node\", \"state\": {\"survives\": true, \"checkpoints\": 3}},"
                "\"own\": {\"language\": \"javascript\", \"image\": \"y\"}}}");
        const struct config_profile *js = profile(config, "js");

        check_eq_int(config->profiles[0].language, LANGUAGE_PYTHON);
        check(config->profiles[0].survives && config->profiles[0].packages.install);
        /* It has no copies, and not the image of the other language. */
        check_eq_int(js->language, LANGUAGE_JAVASCRIPT);
        check_eq_str(js->nodejs, "/n/node");
        check_eq_str(js->image, NULL);
        check(!js->survives && js->checkpoints == 0 && js->packages.install);
        check_eq_str(profile(config, "own")->image, "y");
        /* That of an option. */
        config_set_language(config, "js", LANGUAGE_JAVASCRIPT);
        config_set_language(config, "none", LANGUAGE_JAVASCRIPT);
        config_set_language(config, NULL, LANGUAGE_JAVASCRIPT);
        check_eq_int(config->profiles[0].language, LANGUAGE_JAVASCRIPT);
        check_eq_str(config->profiles[0].image, NULL);
        check(!config->profiles[0].survives);

        refused("{\"language\": \"ruby\"}", "language must be");
        refused("{\"nodejs\": \"node\"}", "absolute path");
        refused("{\"profiles\": {\"js\": {\"language\": \"javascript\"}}, \"publish\": {\"tools\": {\"t\": {\"description\": \"d\", \"code\": \"1\", \"profile\": \"js\"}}}}",
                "this code is python, and profile");
}

static void test_too_many_profiles(void)
{
        struct error err = {};
        _cleanup_config_ struct config *config = config_new();
        char text[64];

        for (int i = 0; i < CONFIG_PROFILES_MAX - 1; i++) {
                snprintf(text, sizeof(text), "{\"profiles\": {\"p%d\": {}}}", i);
                add(config, text);
        }
        check_eq_int(config_add(config, "b", "{\"profiles\": {\"q\": {}}}", 23, &err), -E2BIG);
        check_has(err.text, "more than 16 profiles");
        add(config, "{\"profiles\": {\"default\": {}}}");
        check_ok(config_finish(config, &err));
        check_eq_int(config->n_profiles, CONFIG_PROFILES_MAX);
        check_eq_str(config->profiles[0].name, "default");
}

static void test_server_keys(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"a\": {\"command\": \"c\", \"rename\": \"b\", \"start_timeout\": \"20s\", \"tools\": {\"deny\": [\"x\"]}},"
                "\"b\": {\"command\": \"c\"}, \"c\": {\"command\": \"c\", \"rename\": 5},"
                "\"d\": {\"command\": \"c\", \"tools\": {\"allow\": [\"x\",\n7]}},"
                "\"e\": {\"command\": \"c\", \"includeTools\": [\"i\"], \"disabled_tools\": [\"j\"], \"startup_timeout_sec\": 3}}}");
        const struct config_server *s = config->servers;
        struct config_server copy = {};

        check_eq_str(s[0].name, "b");
        check_eq_int(s[0].start_timeout_ms, 20000);
        check(!config_tool_allowed(&s[0].tools, NULL, "x"));
        check(config_tool_allowed(&s[0].tools, NULL, "y"));
        check_has(s[1].problem, "a server of this name before it");
        check_has(s[2].problem, "\"rename\" must be a string");
        check_has(s[3].problem, "tools.allow: item 2 must be a string");
        check_eq_str(s[3].place, "a.json: line 2");
        check(config_tool_allowed(&s[4].tools, NULL, "i"));
        check(!config_tool_allowed(&s[4].tools, NULL, "k"));
        check_eq_str(s[4].tools.deny[0], "j");
        check_eq_int(s[4].start_timeout_ms, 3000);
        check(s[0].key == s[4].key);
        check_eq_int(config_copy(CONFIG_SERVER, &s[0], &copy), 0);
        check_eq_str(copy.tools.deny[0], "x");
        check_eq_int(copy.start_timeout_ms, 20000);
        config_done(CONFIG_SERVER, &copy);
}

static void test_all_problems_are_collected(void)
{
        struct config_findings findings = {};
        struct error err = {};
        _cleanup_config_ struct config *config = config_new();
        static const char text[] =
                "{\"timeout\": true,\n\"sessions\": 0, \"image\": \"i\",\n\"mcpServers\": {\"a\": {\"command\": 5},\n\"u\": {\"url\": \"x\"}}, \"profile\": \"p\",\n\"mounts\": [{}]}";

        config->findings = &findings;
        check_ok(config_add(config, "a.json", text, strlen(text), &err));
        check_ok(config_add(config, "b.json", "{", 1, &err));
        check_ok(config_finish(config, &err));
        check_eq_int(findings.n, 7);
        check_eq_int(findings.n_errors, 7);
        check_has(findings.items[0].text, "a.json: line 1: timeout must be");
        check_has(findings.items[1].text, "a.json: line 2: sessions must be from");
        check_has(findings.items[2].text, "a.json: line 3: server \"a\": command must be");
        check_has(findings.items[3].text, "a.json: line 4: server \"u\": its url must");
        check(findings.items[3].is_error && findings.items[2].is_error);
        check_has(findings.items[4].text, "a.json: line 5: mounts: item 1: source must be");
        check_has(findings.items[5].text, "b.json: line 1");
        check_has(findings.items[6].text, "a.json: line 4: there is no profile \"p\"");
        check_eq_str(config->top.image, "i"); /* valid values are used */
        check_eq_int(config->cell_timeout_ms, 120000);
        config_findings_done(&findings);
}

static void test_references(void)
{
        struct config *config = good("{\"image\": \"x\"}");
        struct config *other = config_ref(config);

        check(other == config);
        config_free(config);
        check_eq_str(other->top.image, "x");
        config_free(other);
}

int main(void)
{
        run(test_default);
        run(test_pool);
        run(test_freeze);
        run(test_background);
        run(test_state);
        run(test_speculation);
        run(test_recycle);
        run(test_checkpoints);
        run(test_pictures);
        run(test_journal);
        run(test_packages);
        run(test_libraries);
        run(test_python);
        run(test_program);
        run(test_all_keys);
        run(test_ask_page);
        run(test_inherits_absent_keys);
        run(test_later_file_overrides_keys);
        run(test_unknown_names);
        run(test_wrong_values);
        run(test_wrong_mounts);
        run(test_unknown_keys);
        run(test_language);
        run(test_too_many_profiles);
        run(test_server_keys);
        run(test_all_problems_are_collected);
        run(test_references);
        return 0;
}
