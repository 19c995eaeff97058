/* Resources: their names, which are kept, and how they are read. */
#include "supervisor/mcp/resources/resource-read.h"
#include "supervisor/mcp/resources/resource-store.h"
#include "tests/unit/fake-mcp.h"

static int parse(const char *text, struct resource_uri *uri)
{
        return resource_uri_parse(text, strlen(text), uri, NULL);
}

static void test_names(void)
{
        static const char *const good[] = {
                "cloister://sessions/default/cells/1/stdout",
                "cloister://sessions/a.b_c-9/cells/18446744073709551615/stderr",
                "cloister://sessions/s/cells/3/stdout?offset=1048576",
                "cloister://sessions/default/cells/12/displays/32",
                "cloister://sessions/s/cells/1/displays/18446744073709551615?offset=7",
                "cloister://sessions/s/files/a/b.txt",
                "cloister://sessions/s/files/%E6%BC%A2%20%25%3F.txt",
                "cloister://tools",
                "cloister://tools?offset=1048576",
                "cloister://tools/my%20server",
                "cloister://tools/s?offset=7",
        };
        struct resource_uri uri;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                _cleanup_buffer_ struct buffer again = BUFFER_INIT(4096);
                check_eq_int(parse(good[i], &uri), 0);
                check_eq_int(resource_uri_append(&uri, &again), 0);
                check_eq_bytes(buffer_bytes(&again), again.length, good[i]);
        }
        check_eq_int(parse("cloister://sessions/s/files/%e6%BC%a2", &uri), 0);
        check_eq_str(uri.path, "\xe6\xbc\xa2");
}

static void test_invalid_names(void)
{
        static const char *const bad[] = {
                "",
                "cloister://",
                "file:///etc/passwd",
                "cloister://sessions//cells/1/stdout",
                "cloister://sessions/a b/cells/1/stdout",
                "cloister://sessions/s/cells/0/stdout",
                "cloister://sessions/s/cells/01/stdout",
                "cloister://sessions/s/cells/-1/stdout",
                "cloister://sessions/s/cells/18446744073709551616/stdout",
                "cloister://sessions/s/cells/1/stdin",
                "cloister://sessions/s/cells/1/displays/0",
                "cloister://sessions/s/cells/1/displays/01",
                "cloister://sessions/s/cells/1/displays/",
                "cloister://sessions/s/cells/0/displays/1",
                "cloister://sessions/s/cells/1/displays/99999999999999999999",
                "cloister://sessions/s/cells/1/stdout/",
                "cloister://sessions/s/cells/1/stdout?offset=",
                "cloister://sessions/s/cells/1/stdout?offset=1x",
                "cloister://sessions/s/cells/1/stdout?length=1",
                "cloister://sessions/s/files/",
                "cloister://sessions/s/files//etc/passwd",
                "cloister://sessions/s/files/../x",
                "cloister://sessions/s/files/a/..",
                "cloister://sessions/s/files/a/./b",
                "cloister://sessions/s/files/%2e%2e/x",
                "cloister://sessions/s/files/%2Fetc",
                "cloister://sessions/s/files/a%00b",
                "cloister://sessions/s/files/a%0Ab",
                "cloister://sessions/s/files/a%",
                "cloister://sessions/s/files/a%2",
                "cloister://sessions/s/files/a%zz",
                "cloister://sessions/s/files/%ff",
                "cloister://sessions/s/files/a?offset=1",
                "cloister://toolsx",
                "cloister://tools/",
                "cloister://tools/..",
                "cloister://tools/s/../t",
                "cloister://tools?limit=1",
        };
        struct resource_uri uri;
        char name[400] = "cloister://sessions/s/files/";

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                if (parse(bad[i], &uri) == 0)
                        printf("taken: %s\n", bad[i]);
                check_eq_int(parse(bad[i], &uri), -EINVAL);
        }
        size_t n = strlen(name);
        memset(name + n, 'a', RESOURCE_PATH_MAX);
        check_eq_int(parse(name, &uri), 0);
        name[n + RESOURCE_PATH_MAX] = 'a';
        check_eq_int(parse(name, &uri), -EINVAL);
}

static struct resource_uri output_uri(uint64_t cell)
{
        return (struct resource_uri){.kind = RESOURCE_OUTPUT, .session = "s", .cell = cell};
}

static void keep(struct resource_store *store, uint64_t cell, const char *byte, size_t n)
{
        struct resource_uri uri = output_uri(cell);
        struct capture capture;
        char *text = malloc(n);

        memset(text, *byte, n);
        capture_init(&capture);
        check_eq_int(capture_append(&capture, text, n), 0);
        check_eq_int(resource_store_keep(store, &uri, &capture), 0);
        capture_done(&capture);
        free(text);
}

static void test_oldest_are_removed(void)
{
        struct resource_store store = {};
        const size_t each = 8 * 1024 * 1024;
        struct resource_uri uri;

        for (uint64_t i = 1; i <= 12; i++)
                keep(&store, i, "x", each);
        check(store.bytes <= STORE_BYTES_MAX);
        uri = output_uri(12);
        check(!resource_store_find(&store, &uri)->dropped);
        check_eq_int(resource_size(resource_store_find(&store, &uri)), each);
        uri = output_uri(1);
        check(resource_store_find(&store, &uri)->dropped);
        uri = output_uri(13);
        check(!resource_store_find(&store, &uri));
        /* Removed ones are not listed. */
        size_t listed = 0;
        for (const struct resource *r = resource_store_before(&store, UINT64_MAX); r;
             r = resource_store_before(&store, r->serial))
                listed++;
        check_eq_int(listed, store.n_live);
        resource_store_done(&store);
        check_eq_int(store.bytes + store.n_live + store.n_dropped, 0);
}

static void keep_display(struct resource_store *store, uint64_t cell, size_t n)
{
        struct resource_uri uri = {
                .kind = RESOURCE_DISPLAY, .session = "s", .cell = cell, .display = 2};
        struct cell_display display = {.mime_type = "text/html", .is_text = true};

        buffer_init(&display.data, n);
        char *text = malloc(n);
        memset(text, 'x', n);
        check_eq_int(buffer_append(&display.data, text, n), 0);
        check_eq_int(resource_store_keep_display(store, &uri, &display), 0);
        check_eq_int(display.data.length, 0);
        free(text);
}

/* They share the limits of outputs. */
static void test_displays(void)
{
        struct resource_store store = {};
        struct resource_uri uri = {
                .kind = RESOURCE_DISPLAY, .session = "s", .cell = 7, .display = 2};

        keep(&store, 7, "x", 100);
        for (uint64_t i = 1; i <= 12; i++)
                keep_display(&store, i, 8 * 1024 * 1024);
        check(store.bytes <= STORE_BYTES_MAX);
        const struct resource *kept = resource_store_find(&store, &uri);
        check(kept && !kept->dropped);
        check_eq_str(kept->mime_type, "text/html");
        uri.display = 1;
        check(!resource_store_find(&store, &uri));
        uri.display = 2;
        uri.cell = 1;
        check(resource_store_find(&store, &uri)->dropped);
        uri = output_uri(7);
        check(resource_store_find(&store, &uri)->dropped);
        for (uint64_t i = 100; i < 100 + 2 * STORE_DROPPED_MAX; i++)
                keep_display(&store, i, 10);
        check_eq_int(store.n_live, STORE_LIVE_MAX);
        check_eq_int(store.n_dropped, STORE_DROPPED_MAX);
        resource_store_done(&store);
        check_eq_int(store.bytes + store.n_live + store.n_dropped, 0);
}

static void test_many_small_ones(void)
{
        struct resource_store store = {};

        for (uint64_t i = 1; i <= 2000; i++)
                keep(&store, i, "x", 10);
        check_eq_int(store.n_live, STORE_LIVE_MAX);
        check_eq_int(store.n_dropped, STORE_DROPPED_MAX);
        /* A name that is used again has the new text. */
        keep(&store, 2000, "y", 3);
        struct resource_uri uri = output_uri(2000);
        check_eq_int(resource_size(resource_store_find(&store, &uri)), 3);
        check_eq_int(store.n_live, STORE_LIVE_MAX);
        resource_store_done(&store);
}

static void test_files_are_bounded(void)
{
        struct resource_store store = {};
        struct resource_uri uri = {.kind = RESOURCE_FILE, .session = "s"};
        struct cell_file file = {.mime_type = "text/plain", .size = 5};

        for (int i = 0; i < STORE_FILES_MAX + 50; i++) {
                snprintf(uri.path, sizeof(uri.path), "f%d", i);
                check_eq_int(resource_store_name_file(&store, &uri, &file), 1);
                check_eq_int(resource_store_name_file(&store, &uri, &file), 0);
        }
        check_eq_int(store.n_files, STORE_FILES_MAX);
        keep(&store, 1, "x", 10);
        check(!resource_store_forget_files(&store, "other"));
        check(resource_store_forget_files(&store, "s"));
        check_eq_int(store.n_files, 0);
        check_eq_int(store.n_live, 1);
        resource_store_done(&store);
}

/* Whole characters, wherever a part begins or ends, also across the two pieces. */
static void test_parts(void)
{
        struct resource_store store = {};
        struct resource_uri uri = output_uri(1);
        struct capture capture;
        uint64_t end;

        capture_init(&capture);
        /* One byte short of the bound, so that the next character opens the second piece. */
        char *text = malloc(CAPTURE_KEEP - 1);
        memset(text, 'a', CAPTURE_KEEP - 1);
        check_eq_int(capture_append(&capture, text, CAPTURE_KEEP - 1), 0);
        free(text);
        check_eq_int(capture_append(&capture, "\xc3\xa9\xe6\xbc\xa2z", 6), 0);
        check_eq_int(resource_store_keep(&store, &uri, &capture), 0);
        const struct resource *r = resource_store_find(&store, &uri);
        check_eq_int(resource_size(r), CAPTURE_KEEP + 5);

        static const struct {
                size_t offset, most;
                const char *text;
        } parts[] = {
                {CAPTURE_KEEP - 2, 1, "a"},
                {CAPTURE_KEEP - 2, 2, "a"},
                {CAPTURE_KEEP - 2, 3, "a\xc3\xa9"},
                {CAPTURE_KEEP - 1, 4, "\xc3\xa9"},
                {CAPTURE_KEEP, 100, "\xe6\xbc\xa2z"},
                {CAPTURE_KEEP + 5, 9, ""},
                {SIZE_MAX, 9, ""},
        };
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024);
                check_eq_int(resource_append_text(r, parts[i].offset, parts[i].most, &b, &end), 0);
                check_eq_bytes(b.length ? buffer_bytes(&b) : "", b.length, parts[i].text);
        }
        resource_store_done(&store);
}

/* More than is kept: the text reports the gap. */
static void test_a_gap_is_reported(void)
{
        struct resource_store store = {};
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024 * 1024);
        uint64_t end;

        keep(&store, 1, "x", 4 * CAPTURE_KEEP);
        struct resource_uri uri = output_uri(1);
        const struct resource *r = resource_store_find(&store, &uri);
        check_eq_int(resource_append_text(r, 0, SIZE_MAX, &b, &end), 0);
        check_eq_int(buffer_append(&b, "", 1), 0);
        check_has(buffer_bytes(&b) + CAPTURE_KEEP, "bytes in between were not kept");
        resource_store_done(&store);
}

static void read_uri(int id, bool modern, const char *uri)
{
        char line[800];

        snprintf(line, sizeof(line),
                 "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"resources/read\",\"params\":{%s"
                 "\"uri\":\"%s\"}}",
                 id,
                 modern ? "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                          "\"io.modelcontextprotocol/clientCapabilities\":{}},"
                        : "",
                 uri);
        send_line(line);
}

static yyjson_val *at(yyjson_doc *doc, const char *pointer)
{
        return yyjson_ptr_get(yyjson_doc_get_root(doc), pointer);
}

/* Runs a cell that prints n bytes; returns its answer. */
static yyjson_doc *print_much(size_t n, bool first)
{
        static const char row[] =
                "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd\n";
        size_t sent_bytes = 0;

        send_line(CALL("9", "{\"code\":\"1\",\"max_output\":1000}"));
        fake_spin(&f);
        if (first)
                fake_start(&f);
        uint64_t cell = fake_take_exec(&f, NULL, 0);
        while (sent_bytes < n) {
                check_eq_int(write(f.out, row, sizeof(row) - 1), (ssize_t)sizeof(row) - 1);
                sent_bytes += sizeof(row) - 1;
                event_base_loop(f.base, EVLOOP_NONBLOCK);
        }
        fake_send(&f, FRAME_RESULT, cell, "{\"status\":\"ok\"}");
        return take_message();
}

static void test_cut_output_can_be_read(void)
{
        static const char uri[] = "cloister://sessions/default/cells/1/stdout";
        const size_t n = 63 * 40000; /* two and a half answers */

        open_server();
        _cleanup_json_ yyjson_doc *result = print_much(n, true);
        check_eq_str(yyjson_get_str(at(result, "/result/structuredContent/truncated/resource")),
                     uri);
        check_has(yyjson_get_str(at(result, "/result/content/0/text")), uri);
        check_has(yyjson_get_str(at(result, "/result/structuredContent/notice")), uri);

        size_t got = 0;
        char next[200];
        snprintf(next, sizeof(next), "%s", uri);
        for (int i = 0; i < 3; i++) {
                read_uri(1, i % 2 == 0, next);
                _cleanup_json_ yyjson_doc *doc = take_message();
                check_eq_str(yyjson_get_str(at(doc, "/result/contents/0/mimeType")), "text/plain");
                got += yyjson_get_len(at(doc, "/result/contents/0/text"));
                yyjson_val *more = at(doc, "/result/contents/1/uri");
                check((more == NULL) == (i == 2));
                if (more)
                        snprintf(next, sizeof(next), "%s", yyjson_get_str(more));
        }
        check_eq_int(got, n);
        close_server();
}

static void test_not_found(void)
{
        open_server();
        read_uri(1, false, "cloister://sessions/default/cells/1/stdout");
        check_error(-32002, "1", "no such output is kept");
        read_uri(2, true, "cloister://sessions/default/cells/1/stdout");
        check_error(-32602, "2", "no such output is kept");
        read_uri(3, false, "file:///etc/passwd");
        check_error(-32002, "3", "no such resource");
        read_uri(4, true, "cloister://sessions/nobody/files/a.txt");
        check_error(-32602, "4", "no session");
        send_line(
                "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"resources/read\",\"params\":{\"uri\":7}}");
        check_error(-32602, "5", "uri");
        send_line(
                "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"resources/list\",\"params\":{\"cursor\":"
                "\"x\"}}");
        check_error(-32602, "6", "cursor");
        /* A short output is complete in its result, and not kept. */
        _cleanup_json_ yyjson_doc *result = print_much(63, true);
        check(!at(result, "/result/structuredContent/truncated"));
        read_uri(7, false, "cloister://sessions/default/cells/1/stdout");
        check_error(-32002, "7", "no such output is kept");
        close_server();
}

/* Pages of a hundred, newest first, each once. */
static void test_pages(void)
{
        char line[200], cursor[32] = "";
        int64_t last = 0;
        size_t seen = 0, pages = 0;

        open_server();
        for (int i = 0; i < 250; i++)
                yyjson_doc_free(print_much(2000, i == 0));
        do {
                snprintf(line, sizeof(line),
                         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\",\"params\":{"
                         "\"cursor\":\"%s\"}}",
                         cursor);
                send_line(line);
                _cleanup_json_ yyjson_doc *doc = take_message();
                yyjson_val *entry;
                size_t i, n;
                yyjson_arr_foreach (at(doc, "/result/resources"), i, n, entry) {
                        struct resource_uri uri;
                        check_eq_int(parse(json_string(entry, "uri", NULL), &uri), 0);
                        check(last == 0 || (int64_t)uri.cell == last - 1);
                        last = (int64_t)uri.cell;
                        seen++;
                }
                const char *more = json_string(at(doc, "/result"), "nextCursor", NULL);
                snprintf(cursor, sizeof(cursor), "%s", more ? more : "");
                pages++;
        } while (cursor[0]);
        check_eq_int(seen, 250);
        check_eq_int(pages, 3);
        close_server();
}

static void test_subscribers_are_notified(void)
{
        open_server();
        yyjson_doc_free(print_much(2000, true));
        check_no_message(); /* no client has listed */
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}");
        yyjson_doc_free(take_message());
        send_line(
                "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{\"uri\":"
                "\"cloister://sessions/default/cells/2/stdout\"}}");
        check_message("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
        yyjson_doc_free(print_much(2000, false));
        check_message("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\"}");
        check_message("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\","
                      "\"params\":{\"uri\":\"cloister://sessions/default/cells/2/stdout\"}}");
        send_line("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/unsubscribe\",\"params\":{"
                  "\"uri\":\"cloister://sessions/default/cells/2/stdout\"}}");
        yyjson_doc_free(take_message());
        check_no_message();
        close_server();
}

/* Takes the message of what was rendered in the background. */
static yyjson_doc *take_later(void)
{
        for (int i = 0; i < 1000 && sent.length == 0; i++)
                event_base_loop(f.base, EVLOOP_ONCE);
        return take_message();
}

static const char two_servers[] =
        "{\"servers\":[{\"name\":\"my server\",\"state\":\"ready\",\"tools\":[{\"name\":\"find\",\"description\":"
        "\"Finds\\nthings.\",\"inputSchema\":{\"properties\":{\"q\":{},\"n\":{}},\"required\":[\"q\"]}}]},"
        "{\"name\":\"off\",\"state\":\"disabled\",\"tools\":[]},"
        "{\"name\":\"bad\",\"state\":\"failed\",\"error\":\"no such command\",\"tools\":[]}]}";

static void test_catalogue(void)
{
        open_server();
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}");
        check_message(
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resources\":[]}}"); /* no servers */
        fake_tools_change(two_servers);
        send_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}");
        _cleanup_json_ yyjson_doc *list = take_message();
        check_eq_str(yyjson_get_str(at(list, "/result/resources/0/uri")), "cloister://tools");
        for (int modern = 0; modern < 2; modern++) {
                read_uri(2, modern, "cloister://tools");
                _cleanup_json_ yyjson_doc *doc = take_later();
                const char *text = yyjson_get_str(at(doc, "/result/contents/0/text"));
                check_has(text, "\n## my server (ready; 1 tools)\n- find(q, n?): Finds things.\n");
                check_has(text, "\n## bad (failed: no such command; 0 tools)\n");
                check(!strstr(text, "off"));
                check(!at(doc, "/result/contents/1"));
        }
        read_uri(3, true, "cloister://tools/my%20server");
        _cleanup_json_ yyjson_doc *one = take_later();
        check_eq_str(yyjson_get_str(at(one, "/result/contents/0/mimeType")), "application/json");
        check_has(yyjson_get_str(at(one, "/result/contents/0/text")), "\"required\":[\"q\"]");
        read_uri(4, true, "cloister://tools/nobody");
        while (sent.length == 0)
                event_base_loop(f.base, EVLOOP_ONCE);
        check_error(-32602, "4", "no such server");
        close_server();
}

/* A large one comes in parts, which together are the whole. */
static void test_catalogue_in_parts(void)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(1024 * 1024), all = BUFFER_INIT(1 << 23);
        char next[200] = "cloister://tools";

        open_server();
        buffer_done(&fake_tools.catalogue);
        buffer_init(&fake_tools.catalogue, 8 * 1024 * 1024);
        buffer_init(&text, 8 * 1024 * 1024);
        check_eq_int(buffer_printf(&text,
                                   "{\"servers\":[{\"name\":\"s\",\"state\":\"ready\",\"tools\":["),
                     0);
        for (int i = 0; i < 10000; i++)
                check_eq_int(
                        buffer_printf(
                                &text,
                                "%s{\"name\":\"tool_%05d\",\"description\":\"%0110d \xc3\xa9\"}",
                                i ? "," : "", i, i),
                        0);
        check_eq_int(buffer_append(&text, "]}]}", 5), 0);
        fake_tools_change(buffer_bytes(&text));
        for (int i = 0; i < 10 && next[0]; i++) {
                read_uri(1, true, next);
                _cleanup_json_ yyjson_doc *doc = take_later();
                yyjson_val *part = at(doc, "/result/contents/0/text"),
                           *more = at(doc, "/result/contents/1/uri");
                check(yyjson_get_len(part) <= RESOURCE_READ_MAX + 4);
                check_eq_int(buffer_append(&all, yyjson_get_str(part), yyjson_get_len(part)), 0);
                snprintf(next, sizeof(next), "%s", more ? yyjson_get_str(more) : "");
        }
        check_eq_str(next, "");
        check(all.length > RESOURCE_READ_MAX);
        check_eq_int(buffer_append(&all, "", 1), 0);
        check_has(buffer_bytes(&all), "- tool_00000(): 0000");
        check_has(buffer_bytes(&all), "- tool_09999(): 0000");
        close_server();
}

/* Cancelled, or its peer has ended: no answer. */
static void test_catalogue_cancelled(void)
{
        open_server();
        fake_tools_change(two_servers);
        read_uri(1, false, "cloister://tools");
        read_uri(1, false, "cloister://tools");
        check_error(-32600, "1", "in use");
        send_line(
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
        read_uri(2, false, "cloister://tools");
        yyjson_doc_free(take_later());
        check_no_message();
        read_uri(3, false, "cloister://tools");
        close_server();
}

static void test_catalogue_watched(void)
{
        static const char subscribe[] =
                "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{\"uri\":"
                "\"cloister://tools\"}}";

        open_server();
        fake_tools_change(two_servers);
        send_line(subscribe);
        check_message("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
        mcp_server_catalogue_changed(server);
        check_no_message(); /* it is the same */
        fake_tools_change("{\"servers\":[]}");
        mcp_server_catalogue_changed(server);
        check_message("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\","
                      "\"params\":{\"uri\":\"cloister://tools\"}}");
        mcp_server_catalogue_changed(server);
        check_no_message();
        close_server();
}

int main(void)
{
        run(test_catalogue);
        run(test_catalogue_in_parts);
        run(test_catalogue_cancelled);
        run(test_catalogue_watched);
        run(test_names);
        run(test_invalid_names);
        run(test_oldest_are_removed);
        run(test_many_small_ones);
        run(test_displays);
        run(test_files_are_bounded);
        run(test_parts);
        run(test_a_gap_is_reported);
        run(test_cut_output_can_be_read);
        run(test_not_found);
        run(test_pages);
        run(test_subscribers_are_notified);
        return 0;
}
