#include "base/json.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/rules/decimal.h"
#include "policy/rules/rules.h"
#include "tests/unit/test.h"

static const struct rules_server servers[] = {
        {"s", false}, {"t", true}, {"fi", false}, {"files", false}};

/* The rules of a JSON array. Returns 0, or negative errno and the error's text. */
static int make(const char *array, struct rules **ret, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        char *texts[600] = {};
        size_t i, n;
        yyjson_val *item;

        check_eq_int(json_parse(array, strlen(array), &doc, err), 0);
        yyjson_arr_foreach (yyjson_doc_get_root(doc), i, n, item) {
                _cleanup_free_ char *rule = NULL;
                size_t length;
                check_eq_int(json_write(item, &rule, &length), 0);
                check(asprintf(&texts[i],
                               "{\"file\":\"/x/c.json\",\"line\":%zu,\"number\":%zu,\"rule\":%s}",
                               i + 10, i + 1, rule) > 0);
        }
        int r = rules_new(texts, servers, ARRAY_SIZE(servers), ret, err);
        for (i = 0; texts[i]; i++)
                free(texts[i]);
        return r;
}

static bool url_of(const char *url, size_t n, struct rules_url *ret)
{
        if (n < 8 || memcmp(url, "https://", 8) != 0)
                return false;
        snprintf(ret->host, sizeof(ret->host), "%.*s", (int)(n - 8), url + 8);
        ret->host[strcspn(ret->host, "/:")] = '\0';
        ret->port = strchr(url + 8, ':') ? 8080 : 443;
        return true;
}

static uint64_t n_sent;

static uint64_t sent(void *data, const struct rule *rule, enum rules_span span)
{
        return n_sent;
}

/* "allow", "ask" or "deny"; of a fault, its text. */
static const char *decide_call(const char *array, struct rules_call *call, const char *arguments)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct rules_decision decision;
        struct rules *rules = NULL;
        struct error err = {};

        if (make(array, &rules, &err) < 0)
                test_fail_("%s", err.text);
        check_eq_int(json_parse(arguments, strlen(arguments), &doc, &err), 0);
        call->arguments = yyjson_doc_get_root(doc);
        call->url = url_of;
        call->sent = sent;
        rules_decide(rules, call, &decision);
        rules_free(rules);
        return decision.fault ? decision.fault : rules_effect_names[decision.effect];
}

static const char *decide(const char *array, const char *arguments)
{
        struct rules_call call = {.server = "s", .tool = "f"};

        return decide_call(array, &call, arguments);
}

/* A condition for /x in a rule that allows, and in one that denies. The last rule decides what does not match. */
static void check_condition(const char *condition, const char *value, bool allows, bool denies)
{
        char rules[4096], arguments[4096];

        snprintf(arguments, sizeof(arguments), "{\"x\":%s}", value);
        snprintf(rules, sizeof(rules),
                 "[{\"allow\":\"s.f\",\"when\":{\"/x\":%s}},{\"deny\":\"*\"}]", condition);
        if ((strcmp(decide(rules, arguments), "allow") == 0) != allows)
                test_fail_("allow %s of %s: not %d", condition, value, allows);
        snprintf(rules, sizeof(rules), "[{\"deny\":\"s.f\",\"when\":{\"/x\":%s}}]", condition);
        if ((strcmp(decide(rules, arguments), "deny") == 0) != denies)
                test_fail_("deny %s of %s: not %d", condition, value, denies);
}

static void test_conditions(void)
{
        static const struct {
                const char *condition, *value;
                bool allows, denies;
        } rows[] = {
                {"{\"equals\":\"a\"}", "\"a\"", true, true},
                {"{\"equals\":\"a\"}", "\"b\"", false, false},
                {"{\"equals\":\"a\"}", "[\"a\"]", false, true},
                {"{\"equals\":\"a\"}", "null", false, true},
                {"{\"equals\":1}", "1.0e0", true, true},
                {"{\"equals\":1}", "\"1\"", false, true},
                {"{\"equals\":{\"a\":[1,true]}}", "{\"a\":[1.0,true]}", true, true},
                {"{\"equals\":{\"a\":[1,true]}}", "{\"a\":[1,false]}", false, false},
                {"{\"one_of\":[\"a\",2]}", "2", true, true},
                {"{\"one_of\":[\"a\",2]}", "\"c\"", false, false},
                {"{\"one_of\":[\"a\",2]}", "false", false, true},
                {"{\"prefix\":\"/tmp/\"}", "\"/tmp/x\"", true, true},
                {"{\"prefix\":\"/tmp/\"}", "\"/tmp\"", false, false},
                {"{\"prefix\":\"/tmp/\"}", "{}", false, true},
                {"{\"glob\":\"a*c\"}", "\"abbc\"", true, true},
                {"{\"glob\":\"a*c\"}", "\"a/c\"", false, false},
                {"{\"glob\":\"a**c\"}", "\"a/b/c\"", true, true},
                {"{\"path\":\"/n/**\"}", "\"/n/a/b.txt\"", true, true},
                {"{\"path\":\"/n/*\"}", "\"/n/a/b\"", false, false},
                {"{\"path\":\"/n/**/b\"}", "\"/n/b\"", true, true},
                {"{\"path\":\"/n/**/b\"}", "\"/n/c/d/b\"", true, true},
                {"{\"path\":\"/n/**/b\"}", "\"/nb\"", false, false},
                {"{\"path\":\"/n/**\"}", "\"/n/../etc/passwd\"", false, true},
                {"{\"path\":\"/n/**\"}", "\"/n/..\"", false, true},
                {"{\"path\":\"/n/**\"}", "\"/n/./a\"", false, true},
                {"{\"path\":\"/n/**\"}", "\"/n//a\"", false, true},
                {"{\"path\":\"/n/**\"}", "\"/n/a\\\\b\"", false, true},
                {"{\"path\":\"/n/**\"}", "\"/n/a\\u0000b\"", false, true},
                {"{\"path\":\"/n/**\"}", "\"n/a\"", false, true},
                {"{\"path\":\"/n/**\"}", "\"/n/..a\"", true, true},
                {"{\"path\":\"/n/**\"}", "\"/etc/passwd\"", false, false},
                {"{\"host\":\"a.example\"}", "\"https://a.example/x\"", true, true},
                {"{\"host\":\"a.example\"}", "\"https://a.example:8080/x\"", true, true},
                {"{\"host\":\"a.example:443\"}", "\"https://a.example:8080/x\"", false, false},
                {"{\"host\":[\"*.c.example\",\"b.test\"]}", "\"https://x.c.example\"", true, true},
                {"{\"host\":\"a.example\"}", "\"https://a.example.evil.test/\"", false, false},
                {"{\"host\":\"a.example\"}", "\"ftp://a.example\"", false, true},
                {"{\"min\":1,\"max\":10}", "10.0", true, true},
                {"{\"min\":1,\"max\":10}", "10.0000000000000000001", false, true},
                {"{\"min\":1,\"max\":10}", "10.001", false, false},
                {"{\"min\":1}", "0.99999999999999999999", false, true},
                {"{\"equals\":5}", "5.00000000000000000001", false, true},
                {"{\"equals\":5}", "5.000001", false, false},
                {"{\"equals\":5}", "1e400", false, false},
                {"{\"equals\":[5,6]}", "[5,6.00000000000000000001]", false, true},
                {"{\"equals\":[5,6]}", "[5,6.1]", false, false},
                {"{\"one_of\":[4,5]}", "5.00000000000000000001", false, true},
                {"{\"one_of\":[5,5.00000000000000000001]}", "5.00000000000000000001", true, true},
                {"{\"one_of\":[4,5]}", "6", false, false},
                {"{\"not\":{\"equals\":5}}", "5.00000000000000000001", false, true},
                {"{\"min\":1,\"max\":10}", "1e400", false, false},
                {"{\"min\":-5}", "-5.00", true, true},
                {"{\"max\":9007199254740992}", "9007199254740993", false, true},
                {"{\"max\":9007199254740992}", "9007199254740995", false, false},
                {"{\"max\":10}", "\"5\"", false, true},
                {"{\"max_length\":3}", "\"äöü\"", true, true},
                {"{\"max_length\":3}", "\"abcd\"", false, false},
                {"{\"max_length\":3}", "[1,2,3,4]", false, false},
                {"{\"max_length\":3}", "7", false, true},
                {"{\"regex\":\"^[a-z]+@acme\\\\.example$\"}", "\"bob@acme.example\"", true, true},
                {"{\"regex\":\"^[a-z]+@acme\\\\.example$\"}", "\"bob@acme.example\\n\"", false,
                 false},
                {"{\"regex\":\"^[a-z]+@acme\\\\.example$\"}", "[\"bob@acme.example\"]", false,
                 true},
                {"{\"type\":\"integer\"}", "3", true, true},
                {"{\"type\":\"integer\"}", "3.0", false, false},
                {"{\"type\":\"string\"}", "null", false, false},
                {"{\"absent\":true}", "null", false, false},
                {"{\"absent\":false}", "null", true, true},
                {"{\"not\":{\"prefix\":\"/etc/\"}}", "\"/tmp/x\"", true, true},
                {"{\"not\":{\"prefix\":\"/etc/\"}}", "\"/etc/x\"", false, false},
                {"{\"not\":{\"prefix\":\"/etc/\"}}", "[\"/tmp/x\"]", false, true},
                {"{\"not\":{\"not\":{\"equals\":true}}}", "true", true, true},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                check_condition(rows[i].condition, rows[i].value, rows[i].allows, rows[i].denies);
}

static void test_elements(void)
{
        static const char allow[] =
                "[{\"allow\":\"s.f\",\"when\":{\"/to/*\":{\"prefix\":\"a\"},\"/cc\":{\"absent\":true}}},{\"deny\":\"*\"}]";
        static const char deny[] = "[{\"deny\":\"s.f\",\"when\":{\"/to/*\":{\"prefix\":\"a\"}}}]";
        static const char inner[] =
                "[{\"deny\":\"s.f\",\"when\":{\"/a/*/b~1c/1\":{\"equals\":\"x\"}}}]";

        check_eq_str(decide(allow, "{\"to\":[\"a1\",\"a2\"]}"), "allow");
        check_eq_str(decide(allow, "{\"to\":\"a1\"}"), "allow");
        check_eq_str(decide(allow, "{\"to\":[\"a1\",\"b\"]}"), "deny");
        check_eq_str(decide(allow, "{\"to\":[[\"a1\"]]}"), "deny");
        check_eq_str(decide(allow, "{\"to\":[]}"), "deny");
        check_eq_str(decide(allow, "{\"to\":[\"a1\"],\"cc\":null}"), "deny");
        check_eq_str(decide(deny, "{\"to\":[\"b\",\"a1\"]}"), "deny");
        check_eq_str(decide(deny, "{\"to\":[\"b\",[\"c\"]]}"), "deny");
        check_eq_str(decide(deny, "{\"to\":[\"b\"]}"), "allow");
        check_eq_str(decide(deny, "{\"to\":[]}"), "allow");
        check_eq_str(decide(deny, "{}"), "allow");
        check_eq_str(decide(inner, "{\"a\":[{},{\"b/c\":[0,\"x\"]}]}"), "deny");
        check_eq_str(decide(inner, "{\"a\":[{\"b/c\":[\"x\",\"y\"]}]}"), "allow");
        check_eq_str(decide(inner, "{\"a\":{\"b/c\":{\"1\":\"x\"}}}"), "deny");
        check_eq_str(decide(inner, "{\"a\":[{\"b/c\":[\"x\"]}]}"), "allow");
}

/* A number that is longer than any of use: servers may read another number in it. */
static void test_long_number(void)
{
        static const char rules[] = "[{\"deny\":\"s.f\",\"when\":{\"/n\":{\"equals\":5}}}]";
        char arguments[1200];

        for (int n = 1000; n <= 1100; n += 100) {
                snprintf(arguments, sizeof(arguments), "{\"n\":1%0*d}", n, 0);
                check_eq_str(decide(rules, arguments), n == 1000 ? "allow" : "deny");
        }
}

/* A value on the way that has another type than its step is for. */
static void test_steps_of_another_type(void)
{
        static const char deny[] =
                "[{\"deny\":\"s.f\",\"when\":{\"/to/address\":{\"prefix\":\"a\"}}}]";
        static const char each[] = "[{\"deny\":\"s.f\",\"when\":{\"/to/*\":{\"prefix\":\"a\"}}}]";
        static const char absent[] =
                "[{\"allow\":\"s.f\",\"when\":{\"/o/cc\":{\"absent\":true}}},{\"deny\":\"*\"}]";
        static const struct {
                const char *rules, *arguments, *effect;
        } rows[] = {
                {deny, "{\"to\":{\"address\":\"b\"}}", "allow"},
                {deny, "{\"to\":{}}", "allow"},
                {deny, "{\"to\":null}", "allow"},
                {deny, "{\"to\":[{\"address\":\"a\"}]}", "deny"},
                {deny, "{\"to\":\"{\\\"address\\\":\\\"a\\\"}\"}", "deny"},
                {deny, "{\"to\":7}", "deny"},
                {each, "{\"to\":\"b\"}", "allow"},
                {each, "{\"to\":\" [\\\"a\\\"]\"}", "deny"},
                {each, "{\"to\":\"{}\"}", "deny"},
                {absent, "{\"o\":{}}", "allow"},
                {absent, "{}", "allow"},
                {absent, "{\"o\":null}", "allow"},
                {absent, "{\"o\":{\"cc\":1}}", "deny"},
                {absent, "{\"o\":[{\"cc\":1}]}", "deny"},
                {absent, "{\"o\":\"{\\\"cc\\\":1}\"}", "deny"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                check_eq_str(decide(rows[i].rules, rows[i].arguments), rows[i].effect);
}

static void test_first_match(void)
{
        static const char rules[] =
                "[{\"allow\":\"files.write\",\"when\":{\"/p\":{\"prefix\":\"/n/\"}}},{\"ask\":\"files.write\",\"why\":\"outside\"},{\"deny\":[\"t.*\",\"*.delete_*\"]}]";
        struct rules_call call = {.server = "files", .tool = "write"};
        struct rules_call other = {.server = "t", .tool = "x"};
        struct rules_call third = {.server = "s", .tool = "bulk.delete_all"};
        struct rules_call fourth = {.server = "s", .tool = "resources/read"};
        char *name = calloc(1, 3000);

        check_eq_str(decide_call(rules, &call, "{\"p\":\"/n/a\"}"), "allow");
        check_eq_str(decide_call(rules, &call, "{\"p\":\"/a\"}"), "ask");
        check_eq_str(decide_call(rules, &other, "{}"), "deny");
        check_eq_str(decide_call(rules, &third, "{}"), "deny");
        check_eq_str(decide_call(rules, &fourth, "{}"), "allow");
        check_eq_str(decide_call("[{\"deny\":\"s.resources/*\"}]", &fourth, "{}"), "deny");
        check(name);
        memset(name, 'x', 2999);
        third.tool = name;
        check_eq_str(decide_call(rules, &third, "{}"), "the name of the tool is too long");
        free(name);
}

static void test_hints(void)
{
        static const char ask[] = "[{\"ask\":\"*\",\"hints\":{\"destructive\":true}}]";
        static const char allow[] =
                "[{\"allow\":\"t.*\",\"hints\":{\"read_only\":true}},{\"deny\":\"*\"}]";
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct rules_call call = {.server = "t", .tool = "f", .trusts_hints = true};
        static const char text[] = "{\"readOnlyHint\":true,\"destructiveHint\":true}";
        struct error err = {};

        check_eq_str(decide_call(ask, &call, "{}"), "ask");
        check_eq_str(decide_call(allow, &call, "{}"), "deny");
        check_eq_int(json_parse(text, strlen(text), &doc, &err), 0);
        call.annotations = yyjson_doc_get_root(doc);
        check_eq_str(decide_call(ask, &call, "{}"), "allow");
        check_eq_str(decide_call(allow, &call, "{}"), "allow");
        call.trusts_hints = false;
        check_eq_str(decide_call(allow, &call, "{}"), "deny");
        call = (struct rules_call){.server = "s", .tool = "resources/read", .is_method = true};
        check_eq_str(decide_call(ask, &call, "{}"), "allow");
        call = (struct rules_call){.server = "@network", .tool = "connect", .is_network = true};
        check_eq_str(decide_call(ask, &call, "{}"), "allow");
}

static void test_labels(void)
{
        static const char rules[] =
                "[{\"ask\":\"*\",\"sends\":\"open\",\"seen\":[\"private\",\"untrusted\"]}]";
        struct rules_call call = {
                .server = "s", .tool = "f", .is_open = true, .seen = RULES_PRIVATE};

        check_eq_str(decide_call(rules, &call, "{}"), "allow");
        call.seen |= RULES_UNTRUSTED;
        check_eq_str(decide_call(rules, &call, "{}"), "ask");
        call.is_open = false;
        check_eq_str(decide_call(rules, &call, "{}"), "allow");
}

static void test_after(void)
{
        static const char rules[] =
                "[{\"deny\":\"s.f\",\"after\":{\"session\":3,\"cell\":9},\"when\":{\"/x\":{\"equals\":1}}}]";
        struct rules_call call = {.server = "s", .tool = "f"};

        n_sent = 2;
        check_eq_str(decide_call(rules, &call, "{\"x\":1}"), "allow");
        n_sent = 3;
        check_eq_str(decide_call(rules, &call, "{\"x\":1}"), "deny");
        check_eq_str(decide_call(rules, &call, "{\"x\":2}"), "allow");
        n_sent = 0;
}

static void test_what_counts(void)
{
        static const char text[] =
                "[{\"allow\":\"s.f\",\"when\":{\"/x\":{\"equals\":1}}},{\"deny\":\"*\",\"after\":{\"session\":3}}]";
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct rules_call call = {.server = "s", .tool = "f"};
        struct rules_decision decision;
        struct rules *rules = NULL;
        struct error err = {};

        check_eq_int(make(text, &rules, &err), 0);
        check_eq_int(json_parse("{\"x\":1}", 7, &doc, &err), 0);
        call.arguments = yyjson_doc_get_root(doc);
        rules_decide(rules, &call, &decision);
        check_eq_int(decision.effect, RULES_ALLOW);
        check_eq_int(decision.rule->line, 10);
        check(decision.is_counted);
        check_eq_int(decision.counted[0], 2);
        rules_free(rules);
}

static void test_bounds(void)
{
        enum { N = 300 * 1024 };
        char *long_text = malloc(N);
        static const char regex[] =
                "[{\"allow\":\"s.f\",\"when\":{\"/x\":{\"regex\":\"^(a+)+$\"}}}]";
        static const char heap[] =
                "[{\"deny\":\"s.f\",\"when\":{\"/x\":{\"regex\":\"^(a|b)*a$\"}}}]";
        static const char each[] = "[{\"allow\":\"s.f\",\"when\":{\"/x/*\":{\"regex\":\"^1$\"}}}]";
        static const char stars[] =
                "[{\"allow\":\"s.f\",\"when\":{\"/x\":{\"glob\":\"**a**a**a**a**a**a**a**a**a**b\"}}}]";

        check(long_text);
        size_t n = (size_t)sprintf(long_text, "{\"x\":\"");
        memset(long_text + n, 'a', 40);
        sprintf(long_text + n + 40, "!\"}");
        check_eq_str(decide(regex, long_text), "a regex was not decided within its bound");
        memset(long_text + n, 'a', 70 * 1024);
        sprintf(long_text + n + 70 * 1024, "\"}");
        check_eq_str(decide(regex, long_text),
                     "a value that a condition reads is longer than 64 KiB");
        sprintf(long_text + n + 60 * 1024, "\"}");
        check_eq_str(decide(heap, long_text), "a regex was not decided within its bound");
        check_eq_str(decide(stars, long_text), "the arguments have too many values to check");
        n = (size_t)sprintf(long_text, "{\"x\":[\"1\"");
        for (int i = 0; i < 20000; i++)
                n += (size_t)sprintf(long_text + n, ",\"1\"");
        sprintf(long_text + n, "]}");
        check_eq_str(decide(each, long_text), "the arguments have too many values to check");
        free(long_text);
}

static void test_refused(void)
{
        static const char *const rows[][2] = {
                {"[{\"alow\":\"s.f\"}]", "unknown key \"alow\"; did you mean \"allow\"?"},
                {"[{\"deny\":\"s.f\",\"why\":\"a\",\"why\":\"b\"}]", "\"why\" occurs twice"},
                {"[{\"deny\":\"s.f\",\"ask\":\"s.g\"}]", "one of \"allow\", \"ask\" and \"deny\""},
                {"[{\"why\":\"x\"}]", "one of \"allow\", \"ask\" and \"deny\""},
                {"[{\"deny\":\"sf\"}]", "must be SERVER.TOOL"},
                {"[{\"deny\":[]}]", "array of 1 to 64"},
                {"[{\"deny\":\"s.f\",\"when\":{\"x\":{\"equals\":1}}}]", "must begin with /"},
                {"[{\"deny\":\"s.f\",\"when\":{\"/a~2\":{\"equals\":1}}}]", "~ must be written ~0"},
                {"[{\"deny\":\"s.f\",\"when\":{\"/x\":{\"prefx\":\"a\"}}}]",
                 "did you mean \"prefix\"?"},
                {"[{\"deny\":\"s.f\",\"when\":{\"/x\":{\"regex\":\"(\"}}}]", "regex: "},
                {"[{\"deny\":\"s.f\",\"when\":{\"/x\":{\"type\":\"text\"}}}]", "type must be"},
                {"[{\"deny\":\"s.f\",\"when\":{\"/x\":{\"min\":\"1\"}}}]", "min must be a number"},
                {"[{\"deny\":\"s.f\",\"when\":{\"/x\":{\"min\":2,\"max\":1.5}}}]",
                 "can never match: min is above max"},
                {"[{\"deny\":\"s.f\",\"when\":{\"/x\":{\"host\":\"0x7f.1\"}}}]", "host: "},
                {"[{\"deny\":\"s.f\",\"when\":{\"/x\":{\"path\":\"n/*\"}}}]", "path must begin"},
                {"[{\"deny\":\"s.f\",\"when\":{}}]", "when must be an object of 1"},
                {"[{\"deny\":\"s.f\",\"after\":{\"day\":1}}]", "after: unknown key \"day\""},
                {"[{\"deny\":\"s.f\",\"after\":{\"cell\":0}}]", "after: cell must be from 1"},
                {"[{\"deny\":\"s.f\",\"hints\":{\"read_only\":true,\"destructive\":true}}]",
                 "can never match"},
                {"[{\"deny\":\"s.*\"},{\"ask\":\"s.f\",\"when\":{\"/x\":{\"equals\":1}}}]",
                 "/x/c.json: line 11: rule 2: the rule can never match: rule 1 (c.json line 10) comes first"},
                {"[{\"ask\":\"s.f\",\"when\":{\"/x\":{\"equals\":1}}},{\"deny\":\"s.f\",\"when\":{\"/x\":{\"equals\":1}}}]",
                 "can never match"},
                {"[{\"deny\":\"@network.other\"}]",
                 "there are \"@network.connect\" and \"@network.request\""},
                {"[{\"deny\":\"@network.connect\",\"after\":{\"cell\":1}}]",
                 "has neither \"hints\" nor \"after\""},
                {"[{\"deny\":\"filse.f\"}]", "no server \"filse\"; did you mean \"files\"?"},
                {"[{\"allow\":\"s.*\",\"hints\":{\"read_only\":true}}]",
                 "takes the word of server \"s\""},
                {"[{\"allow\":\"*\",\"hints\":{\"read_only\":true}}]", "takes the word of server"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct rules *rules = NULL;
                struct error err = {};
                if (make(rows[i][0], &rules, &err) >= 0)
                        test_fail_("%s was accepted", rows[i][0]);
                if (!strstr(err.text, rows[i][1]))
                        test_fail_("%s: \"%s\" is not in \"%s\"", rows[i][0], rows[i][1], err.text);
        }
}

static void test_accepted(void)
{
        static const char *const rows[] = {
                "[]",
                "[{\"allow\":\"s.f\",\"when\":{\"/x\":{\"equals\":1}}},{\"deny\":\"s.f\",\"when\":{\"/x\":{\"equals\":1}}}]",
                "[{\"deny\":\"s.f\"},{\"ask\":\"*\"}]",
                "[{\"allow\":\"files.x\"}]", /* there is a server "fi", too */
                "[{\"allow\":\"t.*\",\"hints\":{\"read_only\":true}}]",
                "[{\"ask\":\"s.f\",\"plan\":\"run\",\"planned\":{\"x\":1},\"vary\":[\"/id\"]}]",
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct rules *rules = NULL;
                struct error err = {};
                if (make(rows[i], &rules, &err) < 0)
                        test_fail_("%s: %s", rows[i], err.text);
                rules_free(rules);
        }
}

static int names(const char *arguments, const char *schema)
{
        static const char text[] =
                "[{\"deny\":\"s.f\",\"when\":{\"/path/*/name\":{\"equals\":1}}},{\"deny\":\"s.g\"}]";
        _cleanup_json_ yyjson_doc *doc = NULL, *of = NULL;
        struct rules *rules = NULL;
        struct error err = {};

        check_eq_int(make(text, &rules, &err), 0);
        check_eq_int(json_parse(arguments, strlen(arguments), &doc, &err), 0);
        check_eq_int(json_parse(schema, strlen(schema), &of, &err), 0);
        int r = rules_check_names(rules, "s", "f", yyjson_doc_get_root(doc),
                                  yyjson_doc_get_root(of), &err);
        check_eq_int(rules_check_names(rules, "s", "g", yyjson_doc_get_root(doc),
                                       yyjson_doc_get_root(of), &err),
                     0);
        rules_free(rules);
        return r;
}

static void test_names(void)
{
        static const char schema[] =
                "{\"properties\":{\"mode\":{},\"deep\":{\"properties\":{\"kind\":{}}},\"list\":{\"items\":{\"properties\":{\"sum\":{}}}}}}";

        check_eq_int(names("{\"path\":[{\"name\":1}],\"mode\":2,\"other\":3}", schema), 0);
        check_eq_int(names("{\"Path\":1}", schema), -ENOTUNIQ);
        check_eq_int(names("{\"path\":[{\"NAME\":1}]}", schema), -ENOTUNIQ);
        check_eq_int(names("{\"a\":{\"b\":1,\"B\":2}}", schema), -ENOTUNIQ);
        check_eq_int(names("{\"a\":{\"\\u00e9\":1,\"\\u00c9\":2}}", schema), -ENOTUNIQ);
        check_eq_int(names("{\"mo\\u0064E\":1}", schema), -ENOTUNIQ);
        check_eq_int(names("{\"deep\":{\"\\u212aind\":1}}", schema), -ENOTUNIQ);
        check_eq_int(names("{\"list\":[{},{\"\\u017fum\":1}]}", schema), -ENOTUNIQ);
        check_eq_int(names("{\"path\\u0000\":1}", schema), -ENOTUNIQ);
        check_eq_int(names("{\"list\":[{\"a\\u0000b\":1}]}", schema), -ENOTUNIQ);
        check_eq_int(names("{\"MODE\":1}", "{}"), 0);
}

static int decimal(const char *a, const char *b)
{
        int r = decimal_compare(a, strlen(a), b, strlen(b));

        check_eq_int(r, -decimal_compare(b, strlen(b), a, strlen(a)));
        return r;
}

static void test_decimals(void)
{
        check_eq_int(decimal("0", "-0.0e9"), 0);
        check_eq_int(decimal("100", "1e2"), 0);
        check_eq_int(decimal("0.01", "1E-2"), 0);
        check_eq_int(decimal("10.10", "10.1"), 0);
        check(decimal("0.1", "0.01") > 0);
        check(decimal("-2", "-1") < 0);
        check(decimal("-1", "0") < 0);
        check(decimal("1e99999999999999999999", "9e9") > 0);
        check(decimal("1e-99999999999999999999", "0") > 0);
        check(decimal("0.30000000000000000001", "0.3") > 0);
        check(decimal("99.9", "100") < 0);
        check(decimal("105", "10.5") > 0);
        check_eq_int(decimal("10500e-3", "10.5"), 0);
}

static const struct config *load(const char *const *files, struct error *err)
{
        struct config *config = config_new();
        int r = 0;

        for (size_t i = 0; r >= 0 && files[i]; i++)
                r = config_add(config, i ? "b.json" : "a.json", files[i], strlen(files[i]), err);
        if (r >= 0)
                r = config_finish(config, err);
        return r < 0 ? config_free(config) : config;
}

/* A profile's rules come first, then those of the files in their order; each has its place. */
static void test_config(void)
{
        static const char *const files[] = {
                "{\"mcpServers\":{\"s\":{\"command\":\"x\"}},\n\"rules\":[{\"deny\":\"s.a\"},\n{\"ask\":\"s.b\"}],\n\"profiles\":{\"p\":{\"rules\":[\n{\"allow\":\"s.a\"}]}}}",
                "{\"rules\":[{\"deny\":\"s.c\"}]}", NULL};
        struct error err = {};
        const struct config *config = load(files, &err);
        char place[64];

        check_eq_str(err.text, "");
        check_eq_int(rules_count(config->profiles[0].compiled_rules), 3);
        const struct rules *rules =
                config->profiles[config_profile_index(config, "p")].compiled_rules;
        check_eq_int(rules_count(rules), 4);
        rule_place(rules_at(rules, 0), place, sizeof(place));
        check_eq_str(place, "a.json line 5");
        rule_place(rules_at(rules, 2), place, sizeof(place));
        check_eq_str(place, "a.json line 3");
        rule_place(rules_at(rules, 3), place, sizeof(place));
        check_eq_str(place, "b.json line 1");
        check(rules_always_deny(config->profiles[0].compiled_rules, "s", "a"));
        check(!rules_always_deny(rules, "s", "a"));
        check(!rules_can_match(rules, "s", "z"));
        config_free((struct config *)(uintptr_t)config);
}

static void test_config_refused(void)
{
        static const char *const wrong[] = {
                "{\"mcpServers\":{\"s\":{\"command\":\"x\"}},\"rules\":[\n{\"deny\":\"s.a\",\n\"wen\":{}}]}",
                NULL};
        static const char *const late[] = {"{\"rules\":[{\"deny\":\"s.a\"}]}", NULL};
        struct error err = {};

        check(!load(wrong, &err));
        check_eq_str(err.text,
                     "a.json: line 3: rules: rule 1: unknown key \"wen\"; did you mean \"when\"?");
        err = (struct error){};
        check(!load(late, &err));
        check_eq_str(err.text,
                     "a.json: line 1: rule 1: \"s.a\" can never match: there is no server \"s\"");
}

int main(void)
{
        run(test_conditions);
        run(test_elements);
        run(test_long_number);
        run(test_steps_of_another_type);
        run(test_first_match);
        run(test_hints);
        run(test_labels);
        run(test_after);
        run(test_what_counts);
        run(test_bounds);
        run(test_refused);
        run(test_accepted);
        run(test_names);
        run(test_decimals);
        run(test_config);
        run(test_config_refused);
        return 0;
}
