#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/config/keys.h"
#include "policy/config/node-keys.h"
#include "policy/config/server.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "policy/did-you-mean.h"
#include "tests/unit/test.h"

DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(cleanup_config_free)

static int add(struct config *config, const char *text, struct error *err)
{
        return config_add(config, "a.json", text, strlen(text), err);
}

static struct config *good(const char *text)
{
        struct error err = {};
        struct config *config = config_new();

        check(config);
        check_ok(add(config, text, &err));
        return config;
}

static void refused(const char *text, const char *part)
{
        struct error err = {};
        _cleanup_config_ struct config *config = config_new();

        check(add(config, text, &err) < 0);
        check_has(err.text, "a.json: ");
        check_has(err.text, part);
        check_eq_int(config->n_servers, 0);
        check_eq_int(config->n_warnings, 0);
        check_eq_int(config->cell_timeout_ms, 120000);
        check(!config->top.image);
}

static void has_problem(const char *entry, const char *part)
{
        char text[4096];

        snprintf(text, sizeof(text), "{\"mcpServers\": {\"x\": %s}}", entry);
        _cleanup_config_ struct config *config = good(text);
        check_eq_int(config->n_servers, 1);
        check_eq_str(config->servers[0].name, "x");
        check_has(config->servers[0].problem, part);
        check(!strchr(config->servers[0].problem, '\n'));
}

static void is_fine(const char *entry)
{
        char text[4096];

        snprintf(text, sizeof(text), "{\"mcpServers\": {\"x\": %s}}", entry);
        _cleanup_config_ struct config *config = good(text);
        check_eq_str(config->servers[0].problem, NULL);
        for (size_t i = 0; i < config->n_warnings; i++)
                check_eq_str(config->warnings[i], NULL);
}

/* A part of the file: a later file that does not name it leaves it as it is. */
static void test_metrics(void)
{
        static const char on[] = "{\"metrics\": {\"principals\": true}}", other[] = "{\"idle\": 5}";
        struct error err = {};

        for (int i = 0; i < 2; i++) {
                _cleanup_config_ struct config *config = config_new();
                check(!config->metrics_principals);
                check_ok(
                        config_add(config, "a.json", i ? other : on, strlen(i ? other : on), &err));
                check_ok(
                        config_add(config, "b.json", i ? on : other, strlen(i ? on : other), &err));
                check_ok(config_finish(config, &err));
                check(config->metrics_principals);
                check_eq_int(config->session_idle_ms, 5000);
        }
        refused("{\"metrics\": true}", "metrics must be an object: {\"principals\": …}");
        refused("{\"metrics\": {\"principals\": 1}}", "principals");
}

static void test_defaults(void)
{
        _cleanup_config_ struct config *config = good("{}");

        check_eq_int(config->n_servers, 0);
        check_eq_int(config->top.limits.memory, 512 << 20);
        check_eq_int(config->top.limits.pids, 128);
        check_eq_int(config->cell_timeout_ms, 120000);
        check_eq_int(config->cell_timeout_max_ms, 600000);
        check_eq_int(config->session_idle_ms, 1800000);
        check_eq_int(config->drain_timeout_ms, 30000);
        check_eq_int(config->reload_by_signal, false);
        check_eq_int(config->sessions_max, 0);
        check_eq_int(config->output_characters, 10000);
        check_eq_int(config->id_count, 0);
        check_eq_int(config->log_code, CONFIG_LOG_HASH);
        check_eq_int(config->memory_total, 0);
        check_eq_int(config->cpu_total_milli, 0);
}

/* A sum is compared with the profiles of all files. */
static void too_small(const char *text, const char *expected)
{
        struct error err = {};
        _cleanup_config_ struct config *config = config_new();

        check_ok(add(config, text, &err));
        check(config_finish(config, &err) < 0);
        check_eq_str(err.text, expected);
}

static void test_sums(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"memory_total\": \"8G\", \"cpu_total\": 1.5}");

        check_eq_int(config->memory_total, 8ll << 30);
        check_eq_int(config->cpu_total_milli, 1500);
        refused("{\"memory_total\": \"lots\"}", "memory_total must be a size such as");
        too_small(
                "{\n\"memory_total\": \"256M\"}",
                "a.json: line 2: memory_total is below what one session of profile \"default\" may use (limits.memory)");
        too_small(
                "{\"cpu_total\": 2, \"profiles\": {\"fast\": {\"limits\": {\"cpu\": 3}}}}",
                "a.json: line 1: cpu_total is below what one session of profile \"fast\" may use (limits.cpu)");
        _cleanup_config_ struct config *small = good(
                "{\"memory_total\": \"256M\", \"limits\": {\"memory\": \"256M\"}}");
        check_eq_int(small->memory_total, 256 << 20);
}

static void test_own_keys(void)
{
        _cleanup_config_ struct config *config = good(
                "\xef\xbb\xbf// a comment\n"
                "{\"limits\": {\"memory\": \"1.5G\", \"pids\": 64, \"cpu\": 0.5, \"tmp\": \"1MiB\", \"workspace\": 1048576, \"shm\": \"64k\",},"
                "\"timeout\": \"5m\", \"timeout_max\": \"1h\", \"idle\": 90.5, \"sessions\": 7,"
                "\"drain_timeout\": 0, \"reload\": \"signal\", \"output\": 500, \"log_code\": \"none\", \"image\": \"py-3.12_a\", \"python\": \"/opt/py/bin/python3\","
                "\"user\": \"mcp\", \"control_group\": \"games\", \"id_range\": [200000, 512], \"$schema\": \"x\"}");

        check_eq_int(config->top.limits.memory, 1536ll << 20);
        check_eq_int(config->top.limits.pids, 64);
        check_eq_int(config->top.limits.cpu_milli, 500);
        check_eq_int(config->top.limits.tmp, 1 << 20);
        check_eq_int(config->top.limits.workspace, 1 << 20);
        check_eq_int(config->top.limits.shm, 64 << 10);
        check_eq_int(config->cell_timeout_ms, 300000);
        check_eq_int(config->cell_timeout_max_ms, 3600000);
        check_eq_int(config->session_idle_ms, 90500);
        check_eq_int(config->sessions_max, 7);
        check_eq_int(config->drain_timeout_ms, 0);
        check_eq_int(config->reload_by_signal, true);
        check_eq_int(config->output_characters, 500);
        check_eq_int(config->log_code, CONFIG_LOG_NONE);
        check_eq_str(config->top.image, "py-3.12_a");
        check_eq_str(config->top.python, "/opt/py/bin/python3");
        check_eq_str(config->user, "mcp");
        check_eq_str(config->control_group, "games");
        check_eq_int(config->id_first, 200000);
        check_eq_int(config->id_count, 512);
        check_eq_int(config->n_warnings, 0);
}

static void test_wrong_types_name_file_line_and_key(void)
{
        refused("{\n\"image\": \"i\",\n\"timeout\": true}",
                "a.json: line 3: timeout must be a number of");
        refused("{\"mcpServers\": {\"x\": {\"command\": \"c\"}}, \"limits\": []}",
                "limits must be");
        refused("{\"limits\": {\"memory\": \"lots\"}}", "limits.memory must be a size such as");
        refused("{\"limits\": {\"memory\": 1}}", "limits.memory must be from 64M to 64T");
        refused("{\"limits\": {\"tmp\": 0}}", "limits.tmp must be from 64K to 64T");
        refused("{\"limits\": {\"memory\": -5}}", "limits.memory must be from");
        refused("{\"limits\": {\"memory\": 1e400}}", "limits.memory must be from");
        refused("{\"limits\": {\"memory\": 100000000.5}}", "limits.memory must be a size");
        refused("{\"limits\": {\"pids\": 1.5}}", "limits.pids must be a whole number");
        refused("{\"limits\": {\"pids\": 99999999999999999999}}", "limits.pids must be from 8");
        refused("{\"limits\": {\"cpu\": \"2\"}}", "limits.cpu must be");
        refused("{\"timeout\": 0}", "timeout must be from 0.1 s to 86400 s");
        refused("{\"timeout\": \"1e3\"}", "timeout must be a number of seconds");
        refused("{\"timeout\": \"-1\"}", "timeout must be");
        refused("{\"timeout\": \"5 m\\u0000\"}", "timeout must be");
        refused("{\"timeout\": 601}", "above timeout_max");
        refused("{\"sessions\": 0}", "sessions must be from 1");
        refused("{\"image\": \"../x\"}", "image must be");
        refused("{\"image\": null}", "image must be");
        refused("{\"python\": \"~/bin/python\"}", "python must be an absolute path");
        refused("{\"user\": \"a b\"}", "user must be");
        refused("{\"id_range\": [0, 5]}", "id_range must lie");
        refused("{\"id_range\": [4294967295, 1]}", "id_range must lie");
        refused("{\"id_range\": [4294967000, 1000]}", "id_range must lie");
        refused("{\"id_range\": [1]}", "id_range must be");
        refused("{\"mcpServers\": []}", "mcpServers must be an object");
        refused("[]", "must be an object");
        refused("{\n\"a\": 1\n\"b\": 2}", "line 3");
        refused("", "a.json: ");
}

static const char *lookup_node(const char *name)
{
        return strcmp(name, "ORDINAL") == 0 ? "2" : strcmp(name, "BAD") == 0 ? "N-2" : NULL;
}

static int node_name_of(const char *text, char ret[NODE_NAME_MAX + 1], struct error *err)
{
        _cleanup_config_ struct config *config = good(text);

        return config_node_name(config, lookup_node, ret, err);
}

static void test_node(void)
{
        char name[NODE_NAME_MAX + 1];
        struct error err = {};
        _cleanup_config_ struct config *config = good(
                "{\"node\": {\"name\": \"n2\", \"lease\": \"2m\", \"balancers\": [\"10.0.0.5\", \"10.1.0.0/16\", \"[fd00::5]\"]}}");

        check_eq_str(config->node.name, "n2");
        check_eq_int(config->node.lease_ms, 120000);
        check_eq_str(config->node.balancers[1], "10.1.0.0/16");
        check_eq_int(node_name_of("{}", name, &err), 0);
        check_eq_str(name, "");
        check_eq_int(node_name_of("{\"node\": \"n2\"}", name, &err), 0);
        check_eq_str(name, "n2");
        check_eq_int(node_name_of("{\"node\": \"n${ORDINAL}\"}", name, &err), 0);
        check_eq_str(name, "n2");
        check_eq_int(node_name_of("{\"node\": \"${NONE:-a}${ORDINAL}\"}", name, &err), 0);
        check_eq_str(name, "a2");
        check(node_name_of("{\"node\": \"n${NONE}\"}", name, &err) < 0);
        check_has(err.text, "node: ${NONE}: the variable is not set");
        err = (struct error){};
        check_eq_int(node_name_of("{\"node\": \"${BAD}\"}", name, &err), -EINVAL);
        check_has(err.text, "node: \"N-2\" is not a name of a node: it has 1 to 16");
}

static void test_wrong_nodes(void)
{
        refused("{\"node\": 2}", "node must be \"n2\" or {");
        refused("{\"node\": \"N2\"}", "node must be 1 to 16 lower-case letters and digits");
        refused("{\"node\": \"n-2\"}", "node must be 1 to 16");
        refused("{\"node\": \"n2\\r\\nX: y\"}", "node must be 1 to 16");
        refused("{\"node\": \"\"}", "node must be 1 to 16");
        refused("{\"node\": \"n${\"}", "node must be 1 to 16");
        refused("{\"node\": \"abcdefghijklmnopq\"}", "node must be 1 to 16");
        refused("{\"node\": {\"balancers\": [\"10.0.0.5\"]}}", "node needs a name");
        refused("{\"node\": {\"name\": \"n2\", \"lease\": 5}}", "lease needs node.balancers");
        refused("{\"node\": {\"name\": \"n2\", \"lease\": 0.5, \"balancers\": [\"10.0.0.5\"]}}",
                "node.lease must be from 1 s");
        refused("{\"node\": {\"name\": \"n2\", \"balancers\": [\"lb.example.org\"]}}",
                "node.balancers: \"lb.example.org\" is not an address");
        refused("{\"node\": {\"name\": \"n2\", \"balancers\": [\"10.0.0.5:80\"]}}",
                "node.balancers: \"10.0.0.5:80\" is not");
        refused("{\"node\": {\"name\": \"n2\", \"balancers\": [\"0.0.0.0/0\"]}}",
                "node.balancers: \"0.0.0.0/0\" is not");
        refused("{\"node\": {\"name\": \"n2\", \"balancers\": []}}", "node.balancers");
}

static void test_unknown_keys_give_warnings(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"mcpservers\": {},\n\"timeuot\": 5, \"servers\": {}, \"zzzzzz\": 1,\n"
                "\"limits\": {\"memroy\": 5}, \"mcpServers\": {\"s\": {\"comand\": \"x\"}}}");

        check_eq_int(config->n_warnings, 6);
        check_eq_str(config->warnings[0],
                     "a.json: line 1: unknown key \"mcpservers\"; did you mean \"mcpServers\"?");
        check_eq_str(config->warnings[1],
                     "a.json: line 2: unknown key \"timeuot\"; did you mean \"timeout\"?");
        check_has(config->warnings[2], "unknown key \"servers\"; did you mean \"mcpServers\"?");
        check_eq_str(config->warnings[3], "a.json: line 2: unknown key \"zzzzzz\", ignored");
        check_has(config->warnings[4], "limits: unknown key \"memroy\"; did you mean \"memory\"?");
        check_has(config->warnings[5],
                  "server \"s\": unknown key \"comand\"; did you mean \"command\"?");
        check_eq_str(config->servers[0].problem, "has no command");
}

static void test_warnings_are_bounded(void)
{
        char text[8192] = "{";
        for (int i = 0; i < 100; i++)
                sprintf(text + strlen(text), "%s\"qqqqqqqq%d\": 1", i ? "," : "", i);
        strcat(text, "}");
        _cleanup_config_ struct config *config = good(text);

        check_eq_int(config->n_warnings, 17);
        check_eq_str(config->warnings[16], "a.json: 84 more warnings left out");
}

static void test_line_of_each_of_several(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"a\": {\"zzzzzz\": 1},\n\"zzzzzz\": \"zzzzzz\",\n"
                "\"mcpServers\": {\"x\": {\"command\": \"zzzzzz\",\n\"zzzzzz\": 1},\n"
                "\"y\": {\"args\": [1,\n\n{}]}}}");

        check_eq_str(config->warnings[1], "a.json: line 2: unknown key \"zzzzzz\", ignored");
        check_eq_str(config->warnings[2],
                     "a.json: line 4: server \"x\": unknown key \"zzzzzz\", ignored");
        check_eq_str(config->servers[0].place, "a.json: line 3");
        check_has(config->servers[1].problem, "item 2");
        check_eq_str(config->servers[1].place, "a.json: line 7");
}

static void test_keys_twice(void)
{
        _cleanup_config_ struct config *config = good("{\"timeout\": 5, \"timeout\": 6}");

        check_eq_int(config->cell_timeout_ms, 6000);
        check_eq_int(config->n_warnings, 1);
        check_has(config->warnings[0], "\"timeout\" occurs twice");
}

static void test_server(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"Kal ender\u00e9\": {\"command\": \"npx\", \"args\": [\"-y\", \"a b\", 5, true],"
                "\"env\": {\"K\": \"v=w\", \"N\": 1.50, \"B\": false, \"E\": \"\"}, \"cwd\": \"~/x\","
                "\"description\": \"d\\nd\", \"disabled\": true, \"timeout\": 2.5, \"trust\": true,"
                "\"alwaysAllow\": [\"x\"]}, \"b\": {\"command\": \"c\", \"enabled\": false}}}");
        const struct config_server *s = &config->servers[0];

        check_eq_int(config->n_servers, 2);
        check_eq_int(config->n_warnings, 0);
        check_eq_str(s->name, "Kal ender\u00e9");
        check_eq_str(s->command, "npx");
        check_eq_int(s->n_args, 4);
        check_eq_str(s->args[1], "a b");
        check_eq_str(s->args[2], "5");
        check_eq_str(s->args[3], "true");
        check_eq_str(s->args[4], NULL);
        check_eq_int(s->n_env, 4);
        check_eq_str(s->env[0], "K=v=w");
        check_eq_str(s->env[1], "N=1.50");
        check_eq_str(s->env[2], "B=false");
        check_eq_str(s->env[3], "E=");
        check_eq_str(s->env[4], NULL);
        check_eq_str(s->cwd, "~/x");
        check_eq_str(s->description, "d\nd");
        check(s->disabled);
        check(config->servers[1].disabled);
        check_eq_int(s->timeout_ms, 2500);
        check_eq_str(s->problem, NULL);
}

static void test_server_problems(void)
{
        has_problem("[]", "must be an object");
        has_problem("{}", "has no command");
        has_problem("{\"command\": 5}", "command must be a string");
        has_problem("{\"command\": \"\"}", "command must be a string");
        has_problem("{\"command\": \"a\\u0000b\"}", "command must be a string");
        has_problem("{\"command\": [\"a\", \"b\"]}", "arguments go into \"args\"");
        has_problem("{\"command\": \"c\", \"args\": \"x\"}", "args must be an array");
        has_problem("{\"command\": \"c\", \"args\": [\"x\", null]}", "item 2 must be a string");
        has_problem("{\"command\": \"c\", \"env\": []}", "env must be an object");
        has_problem("{\"command\": \"c\", \"env\": {\"A=B\": \"\"}}", "variable's name");
        has_problem("{\"command\": \"c\", \"env\": {\"\": \"\"}}", "variable's name");
        has_problem("{\"command\": \"c\", \"env\": {\"A\": {}}}", "A must be a string");
        has_problem("{\"command\": \"c\", \"env\": {\"A\": \"\\u0000\"}}", "A must be a string");
        has_problem("{\"command\": \"c\", \"timeout\": 0}", "from 0.1 s to 86400 s");
        has_problem("{\"command\": \"c\", \"timeout\": \"soon\"}", "number of seconds");
        has_problem("{\"command\": \"c\", \"disabled\": \"yes\"}", "true or false");
        has_problem("{\"command\": \"c\", \"url\": \"https://x\"}", "both");
        has_problem("{\"command\": \"c\", \"type\": \"carrier pigeon\"}", "is not known");
        has_problem("{\"type\": \"ws\", \"url\": \"https://x\"}", "is not supported");
        has_problem("{\"type\": \"http\"}", "has no url");
        has_problem("{\"type\": \"http\", \"command\": \"c\"}", "needs a url");
        has_problem("{\"type\": \"stdio\", \"url\": \"https://x\"}", "needs a command");
        has_problem("{\"command\": \"c\", \"headers\": {\"A\": \"b\"}}", "but no url");
        has_problem("{\"url\": \"ftp://x/mcp\"}", "https:// or http://");
        has_problem("{\"url\": \"file:///etc/passwd\"}", "https:// or http://");
        has_problem("{\"url\": \"https:///mcp\"}", "has no host");
        has_problem("{\"url\": \"https://x/mcp#a\"}", "fragment");
        has_problem("{\"url\": \"https://x/a b\"}", "blank");
        has_problem("{\"url\": \"https://x\", \"headers\": []}", "object of strings");
        has_problem("{\"url\": \"https://x\", \"headers\": {\"A B\": \"c\"}}", "header's name");
        has_problem("{\"url\": \"https://x\", \"headers\": {\"Host\": \"c\"}}", "set by Cloister");
        has_problem("{\"url\": \"https://x\", \"headers\": {\"Mcp-Session-Id\": \"c\"}}",
                    "set by Cloister");
        has_problem("{\"url\": \"https://x\", \"headers\": {\"A\": \"b\\r\\nC: d\"}}",
                    "in one line");
        has_problem("{\"url\": \"https://x\", \"token\": \"abc\"}", "token must be");
        has_problem("{\"url\": \"https://x\", \"token\": {\"command\": []}}", "must be an array");
        has_problem("{\"url\": \"https://x\", \"token\": {\"file\": \"\"}}", "not empty");
        is_fine("{\"url\": \"https://x/mcp\"}");
        is_fine("{\"type\": \"sse\", \"url\": \"http://x/sse\", \"token\": {\"file\": \"~/t\"}}");
        is_fine("{\"httpUrl\": \"https://x/mcp\", \"headers\": {\"A\": \"${B}\"}}");
        is_fine("{\"url\": \"https://x\", \"env_http_headers\": {\"A\": \"B\"}}");
        is_fine("{\"url\": \"${BASE}/mcp\", \"token\": {\"command\": [\"pass\", \"x\"]}}");
        is_fine("{\"command\": \"c\", \"type\": \"stdio\", \"env\": {}, \"args\": []}");
}

static void test_instances(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"a\": {\"command\": \"c\"}, \"b\": {\"command\": \"c\", \"instances\": \"shared\"},"
                "\"c\": {\"command\": \"c\", \"instances\": \"principal\"}}}");
        const struct config_server *s = config->servers;
        struct config_server copy = {};

        check(!s[0].per_principal && !s[1].per_principal && s[2].per_principal);
        /* Another kind of process: a reload replaces it. */
        check(s[0].key == s[1].key && s[0].key != s[2].key);
        check_eq_int(config_copy(CONFIG_SERVER, &s[2], &copy), 0);
        check(copy.per_principal);
        config_done(CONFIG_SERVER, &copy);
        has_problem("{\"command\": \"c\", \"instances\": \"each\"}", "instances must be");
        refused("{\"mcpServers\": {\"u\": {\"url\": \"https://x\",\n\"instances\": \"principal\"}}}",
                "a.json: line 2: server \"u\": instances is for servers with a command, not for a url");
}

/* Codex's keys, pasted as JSON. */
static void test_keys_of_codex(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"a\": {\"command\": \"c\", \"env\": {\"X\": \"1\"}, \"env_vars\": [\"Y\", {\"name\": \"Z\"}], \"tool_timeout_sec\": 7,"
                "\"startup_timeout_ms\": 2500, \"enabled\": false},"
                "\"b\": {\"url\": \"https://x\", \"headers\": {\"A\": \"b\"}, \"bearer_token_env_var\": \"TOKEN\"}}}");
        const struct config_server *a = &config->servers[0], *b = &config->servers[1];

        check_eq_int(config->n_warnings, 0);
        check_eq_int(a->n_env, 3);
        check_eq_str(a->env[0], "X=1");
        check_eq_str(a->env[1], "Y=${Y:-}");
        check_eq_str(a->env[2], "Z=${Z:-}");
        check_eq_int(a->timeout_ms, 7000);
        check_eq_int(a->start_timeout_ms, 2500);
        check(a->disabled);
        check_eq_str(b->headers[1], "Authorization: Bearer ${TOKEN}");
        check(!b->headers[2]);
        has_problem("{\"url\": \"https://x\", \"bearer_token_env_var\": \"\"}",
                    "name of a variable");
        has_problem("{\"url\": \"https://x\", \"bearer_token_env_var\": \"A}\"}",
                    "name of a variable");
        has_problem("{\"command\": \"c\", \"env_vars\": [1]}", "item 1 must be a variable's name");
        has_problem("{\"command\": \"c\", \"startup_timeout_ms\": 1}", "from 0.1 s");
}

static void test_server_names(void)
{
        struct error err = {};
        _cleanup_config_ struct config *config = config_new();
        char name[200] = "";

        for (int i = 0; i < 65; i++)
                strcat(name, "\u00fc");
        char text[1024];
        snprintf(
                text, sizeof(text),
                "{\"mcpServers\": {\"\": {\"command\": \"c\"}, \"a\\u001bb\": {\"command\": \"c\"},"
                "\"a\\u202eb\": {\"command\": \"c\"}, \"%s\": {\"command\": \"c\"}, \"%s\": {\"command\": \"c\"}}}",
                name, name + 2);
        check_ok(add(config, text, &err));
        check_eq_int(config->n_servers, 5);
        check_has(config->servers[0].problem, "empty");
        check_has(config->servers[1].problem, "cannot be seen");
        check_has(config->servers[2].problem, "cannot be seen");
        check_has(config->servers[3].problem, "longer than 64");
        check_eq_int(strlen(config->servers[3].name), 128);
        check_has(config->servers[4].problem, "a server of this name before it");
}

static void test_duplicate_name(void)
{
        struct error err = {};
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"a\": {\"command\": \"1\"}, \"a\": {\"command\": \"2\"}}}");

        check_ok(add(config,
                     "{\"mcpServers\": {\"a\": {\"command\": \"3\"}, \"b\": {\"command\": \"4\"}}}",
                     &err));
        check_eq_int(config->n_servers, 4);
        check_eq_str(config->servers[0].problem, NULL);
        check_has(config->servers[1].problem, "before it");
        check_has(config->servers[2].problem, "before it");
        check_eq_str(config->servers[3].problem, NULL);
}

static void test_invalid_file_does_not_change_config(void)
{
        struct error err = {};
        _cleanup_config_ struct config *config = good(
                "{\"timeout\": 9, \"image\": \"one\", \"mcpServers\": {\"a\": {\"command\": \"1\"}}}");

        check(add(config,
                  "{\"timeout\": 8, \"image\": \"two\", \"zzzz\": 1, \"mcpServers\": {\"b\": {\"command\": \"1\"}},"
                  "\"sessions\": \"x\"}",
                  &err) < 0);
        check_eq_int(config->n_servers, 1);
        check_eq_int(config->n_warnings, 0);
        check_eq_int(config->cell_timeout_ms, 9000);
        check_eq_str(config->top.image, "one");
        check_ok(add(config, "{\"image\": \"two\"}", &err));
        check_eq_int(config->cell_timeout_ms, 9000);
        check_eq_str(config->top.image, "two");
}

static void test_bounds(void)
{
        struct error err = {};
        _cleanup_config_ struct config *config = config_new();
        size_t room = 2 * 1024 * 1024;
        _cleanup_free_ char *text = calloc(1, room);

        memset(text, ' ', CONFIG_FILE_SIZE_MAX + 1);
        memcpy(text, "{}", 2);
        check_eq_int(config_add(config, "f", text, CONFIG_FILE_SIZE_MAX, &err), 0);
        check_eq_int(config_add(config, "f", text, CONFIG_FILE_SIZE_MAX + 1, &err), -EFBIG);

        for (int round = 0; round < 2; round++) {
                char *p = text + sprintf(text, "{\"mcpServers\": {");
                for (int i = 0; i < 128 + round; i++)
                        p += sprintf(p, "%s\"s%d.%d\": {\"command\": \"c\"}", i ? "," : "", round,
                                     i);
                sprintf(p, "}}");
                check_eq_int(add(config, text, &err), round ? -EINVAL : 0);
        }
        check_has(err.text, "more than 256 servers");
        check_eq_int(config->n_servers, 128);

        char *p = text + sprintf(text, "{");
        for (int i = 0; i < 4097; i++)
                p += sprintf(p, "%s\"%d\": 1", i ? "," : "", i);
        sprintf(p, "}");
        check_eq_int(add(config, text, &err), -EINVAL);
        check_has(err.text, "more than 4096 keys");

        memset(text, '[', 100000);
        text[100000] = '\0';
        check(add(config, text, &err) < 0);
}

static void test_long_lists_are_problems(void)
{
        _cleanup_free_ char *text = calloc(1, 100000);
        char *p = text + sprintf(text, "{\"command\": \"c\", \"args\": [");

        for (int i = 0; i < 1025; i++)
                p += sprintf(p, "%s\"\"", i ? "," : "");
        sprintf(p, "]}");

        _cleanup_free_ char *file = NULL;
        check(asprintf(&file, "{\"mcpServers\": {\"x\": %s}}", text) > 0);
        _cleanup_config_ struct config *config = good(file);
        check_has(config->servers[0].problem, "more than 1024 items");
}

static void test_cloister_itself(void)
{
        const char *self = "start Cloister inside Cloister";

        has_problem("{\"command\": \"cloister\", \"args\": [\"mcp\"]}", self);
        has_problem("{\"command\": \"/opt/build/cloister\"}", self);
        has_problem("{\"command\": \"cloister-monitor\", \"args\": [\"serve\"]}", self);
        has_problem(
                "{\"command\": \"env\", \"args\": [\"A=b\", \"cloister\", \"--config\", \"x\", \"mcp\"]}",
                self);
        has_problem("{\"command\": \"env\", \"args\": [\"-S\", \"cloister mcp\"]}", self);
        has_problem(
                "{\"command\": \"sh\", \"args\": [\"-c\", \"cd /x && exec '/usr/bin/cloister' mcp\"]}",
                self);
        has_problem("{\"command\": \"npx\", \"args\": [\"-y\", \"cloister@latest\", \"mcp\"]}",
                    self);
        has_problem(
                "{\"command\": \"uvx\", \"args\": [\"--from\", \"x\", \"cloister==0.1\", \"mcp\"]}",
                self);
        is_fine("{\"command\": \"cloisterfs\", \"args\": [\"mcp\"]}");
        is_fine("{\"command\": \"mcp\", \"args\": [\"/src/cloister\"]}");
        is_fine("{\"command\": \"npx\", \"args\": [\"server-filesystem\", \"/home/u/cloister/docs\", \"mcp\"]}");
        is_fine("{\"command\": \"git-mcp\", \"args\": [\"--repository\", \"/home/u/cloister\"]}");
}

static void test_timeout_in_milliseconds_is_suspect(void)
{
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"a\": {\"command\": \"c\", \"timeout\": 30000}}}");

        check_eq_int(config->servers[0].timeout_ms, 30000 * 1000);
        check_has(config->warnings[0],
                  "taken as 30000 seconds; for milliseconds write \"30000ms\"");
}

static void test_key_depends_on_the_program_only(void)
{
        static const char *const different[] = {
                "{\"command\": \"c\"}",
                "{\"command\": \"d\"}",
                "{\"command\": \"c\", \"args\": [\"ab\"]}",
                "{\"command\": \"c\", \"args\": [\"a\", \"b\"]}",
                "{\"command\": \"c\", \"env\": {\"a\": \"b\"}}",
                "{\"command\": \"c\", \"args\": [\"a=b\"]}",
                "{\"command\": \"c\", \"cwd\": \"/\"}",
                "{\"url\": \"c\"}",
        };
        uint64_t seen[ARRAY_SIZE(different)];
        char text[200];

        for (size_t i = 0; i < ARRAY_SIZE(different); i++) {
                snprintf(text, sizeof(text), "{\"mcpServers\": {\"x\": %s}}", different[i]);
                _cleanup_config_ struct config *config = good(text);
                seen[i] = config->servers[0].key;
                for (size_t j = 0; j < i; j++)
                        check(seen[j] != seen[i]);
        }
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"y\": {\"timeout\": 5, \"description\": \"z\", \"command\": \"c\"}}}");
        check(config->servers[0].key == seen[0]);
}

static const char *lookup(const char *name)
{
        if (strcmp(name, "HOME") == 0)
                return "/home/u";
        if (strcmp(name, "TOKEN") == 0)
                return "s3${HOME}";
        if (strcmp(name, "EMPTY") == 0)
                return "";
        if (strcmp(name, "SELF") == 0)
                return "/usr/bin/cloister";
        return NULL;
}

static int credential(const char *name, char **ret, struct error *err)
{
        if (strcmp(name, "key.txt") != 0)
                return error_set(err, ENOENT, "no credential <%s>", name);
        *ret = strdup("${TOKEN} \\");
        return 0;
}

static const struct config_values values = {lookup, credential};

static const char *none(const char *name)
{
        return NULL;
}

static void test_expand(void)
{
        struct error err = {};
        struct config_server s = {};
        _cleanup_config_ struct config *config = good(
                "{\"mcpServers\": {\"a\": {\"command\": \"~/bin/x\", \"cwd\": \"~\", \"args\":"
                "[\"${TOKEN}\", \"a${HOME}b${HOME}\", \"${NOPE:-d}${NOPE:-}\", \"${EMPTY:-e}\", \"[${EMPTY}]\","
                "\"$HOME $$ ${ ${} ${a b} ${1} $\", \"~user a~\", \"${HOME\", \"--dir=~/x\"],"
                "\"env\": {\"T\": \"~/t\", \"${HOME}\": \"k\", \"C\": \"<${credential:key.txt}>\"}}}}");

        check_eq_int(config_copy(CONFIG_SERVER, &config->servers[0], &s), 0);
        check_ok(config_server_expand(&s, &values, &err));
        check_eq_str(s.command, "/home/u/bin/x");
        check_eq_str(s.cwd, "/home/u");
        check_eq_str(s.args[0], "s3${HOME}");
        check_eq_str(s.args[1], "a/home/ub/home/u");
        check_eq_str(s.args[2], "d");
        check_eq_str(s.args[3], "e");
        check_eq_str(s.args[4], "[]");
        check_eq_str(s.args[5], "$HOME $$ ${ ${} ${a b} ${1} $");
        check_eq_str(s.args[6], "~user a~");
        check_eq_str(s.args[7], "${HOME");
        check_eq_str(s.args[8], "--dir=~/x");
        check_eq_str(s.env[0], "T=/home/u/t");
        check_eq_str(s.env[1], "${HOME}=k");
        check_eq_str(s.env[2], "C=<${TOKEN} \\>");
        check(s.key == config->servers[0].key);
        config_done(CONFIG_SERVER, &s);
}

static void expand_fails(const char *entry, const struct config_values *with, int code,
                         const char *part)
{
        struct error err = {};
        struct config_server s = {};
        char text[512];

        snprintf(text, sizeof(text), "{\"mcpServers\": {\"a\": %s}}", entry);
        _cleanup_config_ struct config *config = good(text);
        check_eq_int(config_copy(CONFIG_SERVER, &config->servers[0], &s), 0);
        check_eq_int(config_server_expand(&s, with, &err), -code);
        check_has(err.text, "server \"a\": ");
        check_has(err.text, part);
        config_done(CONFIG_SERVER, &s);
}

static const char *huge(const char *name)
{
        static char text[64 * 1024];
        memset(text, 'x', sizeof(text) - 1);
        return text;
}

static void test_expand_refuses(void)
{
        expand_fails("{\"command\": \"c\", \"env\": {\"K\": \"${NOPE}\"}}", &values, ENOKEY,
                     "${NOPE}: the variable is not set");
        expand_fails("{\"command\": \"~/c\"}", &(struct config_values){.variable = none}, ENOKEY,
                     "HOME is not set");
        expand_fails("{\"command\": \"${A}${B}${C}\"}", &(struct config_values){.variable = huge},
                     EMSGSIZE, "longer than 128 KiB");
        expand_fails("{\"command\": \"${SELF}\", \"args\": [\"mcp\"]}", &values, ELOOP,
                     "Cloister inside Cloister");
        expand_fails("{\"command\": \"${credential:other}\"}", &values, ENOENT,
                     "no credential <other>");
        expand_fails("{\"command\": \"${credential:}\"}", &values, ENOENT, "no credential <>");
        expand_fails("{\"command\": \"${credential:a:-b}\"}", &values, ENOENT, "<a:-b>");
        expand_fails("{\"command\": \"${credential:a}\"}",
                     &(struct config_values){.variable = none}, EINVAL, "not here");
}

static void test_did_you_mean(void)
{
        static const char *const names[] = {"timeout", "timeout_max", "image", NULL};

        check_eq_str(did_you_mean("timeuot", names), "timeout");
        check_eq_str(did_you_mean("TIMEOUT", names), "timeout");
        check_eq_str(did_you_mean("timeoutmax", names), "timeout_max");
        check_eq_str(did_you_mean("imag", names), "image");
        check_eq_str(did_you_mean("x", names), NULL);
        check_eq_str(did_you_mean("", names), NULL);
        check_eq_str(did_you_mean("entirely", names), NULL);
}

int main(void)
{
        run(test_metrics);
        run(test_defaults);
        run(test_sums);
        run(test_own_keys);
        run(test_node);
        run(test_wrong_nodes);
        run(test_wrong_types_name_file_line_and_key);
        run(test_unknown_keys_give_warnings);
        run(test_warnings_are_bounded);
        run(test_line_of_each_of_several);
        run(test_keys_twice);
        run(test_server);
        run(test_server_problems);
        run(test_instances);
        run(test_keys_of_codex);
        run(test_server_names);
        run(test_duplicate_name);
        run(test_invalid_file_does_not_change_config);
        run(test_bounds);
        run(test_long_lists_are_problems);
        run(test_cloister_itself);
        run(test_timeout_in_milliseconds_is_suspect);
        run(test_key_depends_on_the_program_only);
        run(test_expand);
        run(test_expand_refuses);
        run(test_did_you_mean);
        return 0;
}
