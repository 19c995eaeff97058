/* The search of tools: which come first, what is a word, the bounds. */
#include "base/json.h"
#include "supervisor/hub/tools/tool-search.h"
#include "tests/unit/test.h"

#define TOOL(name, description, properties)                                                        \
        "{\"name\":\"" name "\",\"description\":\"" description                                    \
        "\",\"inputSchema\":{\"type\":\"object\",\"properties\":{" properties "}}}"

static const char catalogue[] =
        "{\"servers\":[{\"name\":\"calendar\",\"state\":\"ready\",\"instructions\":\"{\\\"\",\"tools\":[" TOOL("list-events", "Lists the events of a calendar.", "\"calendarId\":{\"type\":\"string\"}") "," TOOL(
                "deleteEvent", "Removes one; see {list-events}.",
                "\"event_id\":{}") "," TOOL("events", "All of them.",
                                            "") "," TOOL("eventful", "Whether much happens.",
                                                         "") "]},"
                                                             "{\"name\":\"not there\",\"state\":\"starting\",\"tools\":[]},"
                                                             "{\"name\":\"Other \\\"Server\\\"\",\"state\":\"ready\",\"tools\":[" TOOL(
                                                                     "echo",
                                                                     "Says it again, about events too.",
                                                                     "\"text\":{}") "," TOOL("a.b",
                                                                                             "",
                                                                                             "") "," TOOL("\xc3\x9c"
                                                                                                          "bersetzen",
                                                                                                          "\xd0\x9f\xd0\xb5\xd1\x80\xd0\xb5\xd0\xb2\xd0\xbe\xd0\xb4",
                                                                                                          "") "]}]}";

/* The names of what is found, as "a b c". */
static const char *find(const char *payload, const char *query, size_t limit)
{
        const struct buffer text = {
                .data = (char *)(uintptr_t)payload, .length = strlen(payload), .limit = 1};
        _cleanup_buffer_ struct buffer found = BUFFER_INIT(TOOL_SEARCH_ANSWER_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        static char names[4096];
        struct error err = {};
        yyjson_val *hit;
        size_t i, n;

        check_eq_int(tool_search(&text, query, strlen(query), limit, &found), 0);
        check_ok(json_parse(buffer_bytes(&found), found.length, &doc, &err));
        names[0] = '\0';
        yyjson_arr_foreach (yyjson_obj_get(yyjson_doc_get_root(doc), "tools"), i, n, hit) {
                check(yyjson_is_str(yyjson_obj_get(hit, "server")));
                snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? " " : "",
                         json_string(yyjson_obj_get(hit, "tool"), "name", NULL));
        }
        return names;
}

static void test_ranks(void)
{
        /* The name, then a name that begins with it, then words of names, then of descriptions. */
        check_eq_str(find(catalogue, "events", 10), "events deleteEvent list-events eventful echo");
        check_eq_str(find(catalogue, "EVENTS", 1), "events");
        check_eq_str(find(catalogue, "event", 2), "events eventful");
        check_eq_str(find(catalogue, "list", 1), "list-events");
        check_eq_str(find(catalogue, "calendar.deleteevent", 1), "deleteEvent");
        check_eq_str(find(catalogue, "delete event", 1), "deleteEvent");
        check_eq_str(find(catalogue, "listing event", 1), "list-events");
        check_eq_str(find(catalogue, "says", 10), "echo");
        check_eq_str(find(catalogue, "happ", 10),
                     "eventful"); /* four bytes are looked for inside words */
        check_eq_str(find(catalogue, "hap", 10), "");
        check_eq_str(find(catalogue, "text", 10), "echo"); /* a parameter */
        check_eq_str(find(catalogue, "zzzz", 10), "");
}

static void test_words(void)
{
        char query[4000];

        check_eq_str(find(catalogue,
                          "\xc3\xbc"
                          "bersetzen",
                          1),
                     "\xc3\x9c"
                     "bersetzen");
        check_eq_str(find(catalogue, "\xd0\xbf\xd0\xb5\xd1\x80\xd0\xb5\xd0\xb2\xd0\xbe\xd0\xb4", 1),
                     "\xc3\x9c"
                     "bersetzen");
        check_eq_str(find(catalogue, "a.b", 1), "a.b");
        check_eq_str(find(catalogue, "server", 1), "echo"); /* the first of that server */
        /* Without words: all, in their order. */
        check_eq_str(find(catalogue, "", 100),
                     "list-events deleteEvent events eventful echo a.b \xc3\x9c"
                     "bersetzen");
        check_eq_str(find(catalogue, " ,. ", 2), "list-events deleteEvent");
        check_eq_str(find(catalogue, "echo", 0), "");
        /* Bytes that are not UTF-8 separate words; long queries are cut. */
        check_eq_str(find(catalogue,
                          "\xff"
                          "echo\xc3",
                          1),
                     "echo");
        memset(query, 'x', sizeof(query) - 1);
        query[sizeof(query) - 1] = '\0';
        check_eq_str(find(catalogue, query, 10), "");
        for (size_t i = 0; i + 1 < sizeof(query); i++)
                query[i] = i % 2 ? ' ' : 'q';
        memcpy(query + 2 * TOOL_SEARCH_WORDS_MAX, "echo", 4); /* one word too many */
        check_eq_str(find(catalogue, query, 10), "");
        memcpy(query, "echo ", 5);
        check_eq_str(find(catalogue, query, 10), "echo");
}

static void check_words(const char *text, bool stems, const char *expected)
{
        _cleanup_buffer_ struct buffer words = BUFFER_INIT(4096);

        check(tool_words_append(&words, text, strlen(text), stems, 100) >= 0);
        check_eq_bytes(buffer_bytes(&words), words.length, expected);
}

static void test_splitting(void)
{
        check_words("", false, " ");
        check_words("listEvents", false, " list events ");
        check_words("list-events_2x", false, " list events 2x ");
        check_words("HTTPServer v2Beta", false, " httpserver v2 beta ");
        check_words("listing boxes tested dogs is string", true, " list box test dog is str ");
        check_words("one\xe2\x80\x94two\xc2\xa0three", false, " one two three ");
        check_words("\xe6\xbc\xa2\xe5\xad\x97\xe3\x80\x82", false, " \xe6\xbc\xa2\xe5\xad\x97 ");
}

static void test_empty(void)
{
        static const char empty[] = "{\"servers\":[]}";

        check_eq_str(find(empty, "x", 10), "");
        check_eq_str(find(empty, "", 10), "");
        check_eq_str(find("{\"servers\":[{\"name\":\"x\",\"tools\":[]}]}", "x", 10), "");
}

/* 10,000 tools; a description that would be slow to search for its parts. */
static void test_many(void)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(16 * 1024 * 1024);

        check_eq_int(buffer_printf(&text, "{\"servers\":[{\"name\":\"s\",\"tools\":["), 0);
        for (int i = 0; i < 10000; i++)
                check_eq_int(
                        buffer_printf(&text,
                                      "%s" TOOL("tool_%d",
                                                "Does the thing number %d with aaaaaaaa%0200d.",
                                                "\"x\":{}"),
                                      i ? "," : "", i, i, 0),
                        0);
        check_eq_int(buffer_append(&text, "]}]}", 5), 0);
        const char *many = buffer_bytes(&text);
        check_eq_str(find(many, "tool_4711", 1), "tool_4711");
        check_eq_str(find(many, "thing number 17", 1), "tool_17");
        check_eq_str(find(many, "tool", 2), "tool_0 tool_1");
        check_eq_str(find(many, "a aaaa 0000 aaaaaaaa0000", 1), "tool_0");
}

int main(void)
{
        run(test_ranks);
        run(test_words);
        run(test_splitting);
        run(test_empty);
        run(test_many);
        return 0;
}
