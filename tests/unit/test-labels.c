/* Labels of tools and sessions. */
#include "policy/rules/labels.h"

#include <errno.h>
#include <string.h>

#include "policy/rules/rule.h"
#include "supervisor/session/machine/session-labels.h"
#include "tests/unit/test.h"

static yyjson_doc *document(const char *text)
{
        yyjson_doc *doc = yyjson_read(text, strlen(text), 0);

        check(doc);
        return doc;
}

static void refused(const char *text, const char *why)
{
        yyjson_doc *doc = document(text);
        struct error err = {};
        yyjson_val *at;

        check_eq_int(labels_check(yyjson_doc_get_root(doc), &at, &err), -EINVAL);
        check_has(err.text, why);
        yyjson_doc_free(doc);
}

static void test_check(void)
{
        static const char good[] =
                "{\"returns\": [], \"sends\": \"open\", \"tools\": {\"a*\": {\"sends\": \"closed\"}, \"b\": {}}}";
        yyjson_doc *doc = document(good);
        struct error err = {};
        yyjson_val *at;

        check_ok(labels_check(yyjson_doc_get_root(doc), &at, &err));
        yyjson_doc_free(doc);
        refused("[]", "must be an object");
        refused("{\"return\": []}", "unknown key \"return\"; there are returns, sends and tools");
        refused("{\"returns\": \"private\"}", "must be an array");
        refused("{\"returns\": [\"secret\"]}", "a label is \"private\" or \"untrusted\"");
        refused("{\"returns\": [1]}", "a label is");
        refused("{\"sends\": true}", "\"open\" or \"closed\"");
        refused("{\"tools\": {\"\": {}}}", "1 to 256 bytes");
        refused("{\"tools\": {\"a\": {\"tools\": {}}}}",
                "unknown key \"tools\"; there are returns, sends");
        refused("{\"tools\": {\"a\": 1}}", "must be an object");
}

static void check_labels(const char *text, const char *tool, const char *annotations,
                         unsigned returns, bool is_open)
{
        yyjson_doc *doc = annotations ? document(annotations) : NULL;
        struct labels labels = labels_of(text, tool, yyjson_doc_get_root(doc));

        check_eq_int(labels.returns, returns);
        check(labels.is_open == is_open);
        yyjson_doc_free(doc);
}

static void test_labels_of(void)
{
        static const char text[] =
                "{\"returns\": [\"private\"], \"tools\": {\"send_*\": {\"sends\": \"open\"}, "
                "\"send_log\": {\"sends\": \"closed\", \"returns\": []}, \"*\": {\"sends\": \"closed\"}}}";

        check_labels(NULL, "x", NULL, RULES_UNTRUSTED, true);
        check_labels(NULL, "x", "{\"openWorldHint\": true}", RULES_UNTRUSTED, true);
        check_labels(NULL, "x", "{\"openWorldHint\": false}", 0, false);
        check_labels(NULL, "x", "{\"openWorldHint\": 0}", RULES_UNTRUSTED, true);
        check_labels("{\"returns\": []}", "x", NULL, 0, true);
        check_labels("{\"sends\": \"open\"}", "x", "{\"openWorldHint\": false}", 0, true);
        check_labels(text, "read", NULL, RULES_PRIVATE, false);
        /* The first pattern that says it. */
        check_labels(text, "send_mail", "{\"openWorldHint\": false}", RULES_PRIVATE, true);
        check_labels(text, "send_log", NULL, 0, true);
        check_labels("{\"returns\": [\"private\", \"untrusted\"]}", "x", NULL,
                     RULES_PRIVATE | RULES_UNTRUSTED, true);
}

static void test_session(void)
{
        struct session_labels a = {}, b = {};
        char text[600];

        session_labels_describe(&a, 3, text, sizeof(text));
        check_eq_str(text, "");
        for (uint64_t i = 1; i <= 5; i++)
                session_labels_add(&a, RULES_PRIVATE, "files.read", 2, i);
        session_labels_add(&a, 0, "x.nothing", 2, 9);
        session_labels_add(&a, RULES_PRIVATE | RULES_UNTRUSTED, "web.get", 3, 1);
        check_eq_int(a.seen, 3);
        session_labels_describe(&a, 3, text, sizeof(text));
        check_eq_str(text,
                     "private: files.read (cell 2, call 1), web.get (cell 3, call 1) and 4 more; "
                     "untrusted: web.get (cell 3, call 1)");
        session_labels_describe(&a, RULES_UNTRUSTED, text, sizeof(text));
        check_eq_str(text, "untrusted: web.get (cell 3, call 1)");

        /* A branch has both, and what it sees later is its own. */
        session_labels_add(&b, RULES_UNTRUSTED, "mount /data", 0, 0);
        session_labels_merge(&b, &a);
        session_labels_describe(&b, 3, text, sizeof(text));
        check_eq_str(text,
                     "private: files.read (cell 2, call 1), web.get (cell 3, call 1) and 4 more; "
                     "untrusted: mount /data");
        session_labels_done(&a);
        check_eq_int(a.seen, 0);
        check_eq_int(b.seen, 3);

        /* Any number of tools, and names of any length, take no more memory. */
        for (uint64_t i = 1; i <= 10000; i++) {
                char name[300];
                memset(name, 'x', sizeof(name));
                snprintf(name, sizeof(name), "s.%0200llu", (unsigned long long)i);
                session_labels_add(&b, RULES_PRIVATE, name, i, i);
        }
        session_labels_describe(&b, 3, text, sizeof(text));
        check(strlen(text) < sizeof(text) - 1);
        check_has(text, "and 10003 more");
        session_labels_done(&b);
}

int main(void)
{
        run(test_check);
        run(test_labels_of);
        run(test_session);
        return 0;
}
