#include <stdio.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/rules/glob.h"
#include "policy/rules/named-call.h"
#include "tests/unit/test.h"

DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(cleanup_config_free)

#define FILES                                                                                      \
        "\"mcpServers\":{\"files\":{\"command\":\"true\"},\"files.old\":{\"command\":\"true\"}}"

static struct config *read_config(const char *text)
{
        struct config *config = config_new();
        struct error err = {};

        check(config);
        check_ok(config_add(config, "a.json", text, strlen(text), &err));
        check_ok(config_finish(config, &err));
        return config;
}

static void the_longest_server_is_meant(void)
{
        const struct rules_server servers[] = {
                {"files", false,
                 "{\"sends\":\"closed\",\"tools\":{\"put*\":{\"sends\":\"open\"}}}"},
                {"files.old", true}};
        struct named_call named;
        struct error err = {};

        check_ok(named_call_init(&named, "files.old.read", NULL, NULL, servers, 2, &err));
        check_eq_str(named.call.server, "files.old");
        check_eq_str(named.call.tool, "read");
        check(named.call.trusts_hints && named.call.is_open && !named.call.is_method);
        check_ok(named_call_init(&named, "files.resources/read", NULL, NULL, servers, 2, &err));
        check_eq_str(named.call.server, "files");
        check(named.call.is_method);
        check_ok(named_call_init(&named, "@network.connect", NULL, NULL, servers, 2, &err));
        check(named.call.is_network && named.call.is_open);
        check_ok(named_call_init(&named, "files.get", NULL, NULL, servers, 2, &err));
        check(!named.call.is_open);
        check_ok(named_call_init(&named, "files.put_all", NULL, NULL, servers, 2, &err));
        check(named.call.is_open);
        check_eq_int(named_call_init(&named, "flies.x", NULL, NULL, servers, 2, &err), -EINVAL);
        check_eq_int(named_call_init(&named, "files.*", NULL, NULL, servers, 2, &err), -EINVAL);
        check_ok(named_call_init(&named, "flies.x", NULL, NULL, NULL, 0, &err));
        check_eq_int(named_call_init(&named, "files.", NULL, NULL, servers, 2, &err), -EINVAL);
}

/* The effects that calls of a tool can have, as bits. */
static unsigned effects(const struct config *config, const char *tool, const char *annotations)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        check_ok(json_parse(annotations, strlen(annotations), &doc, &err));
        const struct rules_call call = {
                .server = "files", .tool = tool, .annotations = yyjson_doc_get_root(doc)};
        return rules_effects(config->profiles[0].compiled_rules, &call);
}

static void effects_of_a_tool(void)
{
        enum { ALLOW = 1u << RULES_ALLOW, ASK = 1u << RULES_ASK, DENY = 1u << RULES_DENY };
        _cleanup_config_ struct config *config = read_config(
                "{" FILES ",\"rules\":["
                "{\"allow\":\"files.write\",\"when\":{\"/path\":{\"prefix\":\"/tmp/\"}}},"
                "{\"ask\":\"files.write\"},{\"deny\":\"files.delete_*\"},"
                "{\"deny\":\"files.send\",\"after\":{\"cell\":3}},"
                "{\"ask\":\"*\",\"hints\":{\"destructive\":true}}]}");

        check_eq_int(effects(config, "write", "{}"), ALLOW | ASK);
        check_eq_int(effects(config, "delete_x", "{}"), DENY);
        check_eq_int(effects(config, "send", "{\"destructiveHint\":false}"), ALLOW | DENY);
        check_eq_int(effects(config, "send", "{}"), ASK | DENY);
        check_eq_int(effects(config, "read", "{\"readOnlyHint\":true}"), ALLOW);
        check_eq_int(effects(config, "move", "{}"), ASK);
}

static bool matches(const char *pattern, const char *text)
{
        struct rules_work work = {.left = RULES_WORK};

        return glob_matches(pattern, text, strlen(text), &work);
}

/* Between two slashes ** matches whole names only. */
static void stars_match_whole_names(void)
{
        check(matches("/home/**/notes.txt", "/home/notes.txt"));
        check(matches("/home/**/notes.txt", "/home/a/b/notes.txt"));
        check(!matches("/home/**/notes.txt", "/home/my-notes.txt"));
        check(!matches("/home/**/notes.txt", "/home/a/my-notes.txt"));
        check(matches("/home/**/**/x", "/home/x"));
        check(!matches("/home/**/**/x", "/home/ax"));
}

int main(void)
{
        run(the_longest_server_is_meant);
        run(effects_of_a_tool);
        run(stars_match_whole_names);
        return 0;
}
