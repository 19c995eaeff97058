/* Events: their forms in JSON and for journald, and that no text of a peer begins another line or field. */
#include "supervisor/service/event.h"

#include <endian.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"
#include "supervisor/service/sha256.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

static int ends[2] = {-1, -1};
static char text[64 * 1024];
static size_t length;

static void begin(enum log_format format)
{
        check_eq_int(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
        log_set_level(LOG_LEVEL_INFO);
        log_to(ends[1], format);
}

/* One more line or entry that was written, or NULL. */
static const char *next(void)
{
        ssize_t n = recv(ends[0], text, sizeof(text) - 1, 0);

        length = n < 0 ? 0 : (size_t)n;
        text[length] = '\0';
        return n < 0 ? NULL : text;
}

static void end(void)
{
        check(!next());
        log_to(STDERR_FILENO, LOG_FORMAT_TEXT);
        log_set_level(LOG_LEVEL_WARNING);
        close(ends[0]);
        close(ends[1]);
}

/* The value of a field of the entry, and its length; NULL if the entry has none. Reads it as journald does. */
static const char *field(const char *name, size_t *n)
{
        for (const char *at = text; at < text + length;) {
                size_t named = strcspn(at, "=\n");
                const char *value = at + named + 1;
                bool is_this = strlen(name) == named && memcmp(at, name, named) == 0;
                if (at[named] == '=') {
                        *n = strcspn(value, "\n");
                } else {
                        uint64_t size;
                        memcpy(&size, value, sizeof(size));
                        *n = le64toh(size);
                        value += sizeof(size);
                }
                if (is_this)
                        return value;
                check_eq_int(value[*n], '\n');
                at = value + *n + 1;
        }
        return NULL;
}

static void check_field(const char *name, const char *expected)
{
        size_t n = 0;
        const char *value = field(name, &n);

        check(value);
        check_eq_int(n, strlen(expected));
        check(memcmp(value, expected, n) == 0);
}

static yyjson_doc *parse(void)
{
        yyjson_doc *doc = NULL;
        struct error err = {};

        check(next());
        check_ok(json_parse(text, length, &doc, &err));
        check(memchr(text, '\n', length) == text + length - 1);
        return doc;
}

static void check_member(yyjson_doc *doc, const char *key, const char *expected)
{
        check_eq_str(json_string(yyjson_doc_get_root(doc), key, NULL), expected);
}

static void check_number(yyjson_doc *doc, const char *key, int64_t expected)
{
        int64_t number = -1;

        check_eq_int(json_int64(yyjson_obj_get(yyjson_doc_get_root(doc), key), &number), 0);
        check_eq_int(number, expected);
}

static bool has(yyjson_doc *doc, const char *key)
{
        return yyjson_obj_get(yyjson_doc_get_root(doc), key) != NULL;
}

/* FIPS 180-4's own examples, and lengths around a block. */
static void test_sha256(void)
{
        static const struct {
                size_t n;
                const char *digest;
        } of_a[] = {
                {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
                {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
                {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
                {1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
        };
        static char a[1000000];
        char digest[SHA256_TEXT_SIZE];

        memset(a, 'a', sizeof(a));
        for (size_t i = 0; i < ARRAY_SIZE(of_a); i++) {
                sha256_text(a, of_a[i].n, digest);
                check_eq_str(digest, of_a[i].digest);
        }
        sha256_text("abc", 3, digest);
        check_eq_str(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static const struct log_ids ids = {.session = "alice:work",
                                   .client = "ide",
                                   .request = "7",
                                   .cell = 3,
                                   .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"};

static void test_cell_in_json(void)
{
        const struct event_tool tools[] = {{"fix", "echo", true, 12000}, {"fix", "add", false, 5}};

        begin(LOG_FORMAT_JSON);
        log_set_node("n2");
        event_cell_begin(&(struct event_cell_begin){
                .ids = ids, .code = "abc", .code_length = 3, .profile = "", .attempt = 1});
        yyjson_doc *doc = parse();
        check_member(doc, "event", "cell.begin");
        check_member(doc, "level", "info");
        check_member(doc, "node", "n2");
        check_member(doc, "principal", "alice");
        check_member(doc, "session", "work");
        check_member(doc, "client", "ide");
        check_number(doc, "request", 7);
        check_number(doc, "cell", 3);
        check_member(doc, "trace_id", ids.trace_id);
        check_member(doc, "code_sha256",
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check_number(doc, "code_bytes", 3);
        check(!has(doc, "code") && !has(doc, "attempt"));
        yyjson_doc_free(doc);
        log_set_node("");
        event_cell_end(&(struct event_cell_end){.ids = ids,
                                                .status = "ok",
                                                .state = "kept",
                                                .why = "",
                                                .duration_us = 3000,
                                                .cpu_us = 2000,
                                                .memory_peak = 4096,
                                                .tools = tools,
                                                .n_tools = 2,
                                                .tools_total = 2});
        doc = parse();
        check(!has(doc, "node"));
        check_member(doc, "event", "cell.end");
        check_member(doc, "status", "ok");
        check_member(doc, "state", "kept");
        check_number(doc, "ms", 3);
        check_number(doc, "cpu_ms", 2);
        check_number(doc, "memory_peak_bytes", 4096);
        check_number(doc, "tools_total", 2);
        check_member(doc, "message", "cell ended: ok in 3 ms");
        yyjson_val *list = yyjson_obj_get(yyjson_doc_get_root(doc), "tools");
        check_eq_int(yyjson_arr_size(list), 2);
        check_eq_str(json_string(yyjson_arr_get(list, 1), "tool", NULL), "add");
        check(yyjson_is_false(yyjson_obj_get(yyjson_arr_get(list, 1), "ok")));
        yyjson_doc_free(doc);
        end();
}

/* All of the code that fits, with secrets masked; or none. */
static void test_code(void)
{
        static char code[100000];
        static const char secret[] = "API_KEY=abcdef0123456789\nprint(\"é\\\x1b\")";
        yyjson_doc *doc;

        begin(LOG_FORMAT_JSON);
        event_set_code(CONFIG_LOG_FULL);
        event_cell_begin(&(struct event_cell_begin){
                .ids = ids, .code = secret, .code_length = strlen(secret), .profile = "x"});
        doc = parse();
        check_member(doc, "code", "API_KEY=***\nprint(\"é\\\x1b\")");
        check(yyjson_is_false(yyjson_obj_get(yyjson_doc_get_root(doc), "code_cut")));
        check_member(doc, "profile", "x");
        yyjson_doc_free(doc);
        for (size_t i = 0; i < sizeof(code); i++)
                code[i] = "\"\x01\xc3\xa9\n"[i % 5];
        event_cell_begin(&(struct event_cell_begin){
                .ids = ids, .code = code, .code_length = sizeof(code), .profile = ""});
        doc = parse();
        check(length <= 8192);
        check(strlen(json_string(yyjson_doc_get_root(doc), "code", NULL)) > 2000);
        check(yyjson_is_true(yyjson_obj_get(yyjson_doc_get_root(doc), "code_cut")));
        check_member(doc, "message", "cell begins");
        yyjson_doc_free(doc);
        event_set_code(CONFIG_LOG_NONE);
        event_cell_begin(&(struct event_cell_begin){
                .ids = ids, .code = "abc", .code_length = 3, .profile = ""});
        doc = parse();
        check(!has(doc, "code") && !has(doc, "code_sha256") && !has(doc, "code_bytes"));
        yyjson_doc_free(doc);
        event_set_code(CONFIG_LOG_HASH);
        end();
}

static void test_journal(void)
{
        static const char code[] = "x = 1\nMESSAGE=forged\n\nCLOISTER_EVENT=forged\n";

        begin(LOG_FORMAT_JOURNAL);
        event_set_code(CONFIG_LOG_FULL);
        event_cell_begin(&(struct event_cell_begin){.ids = ids,
                                                    .code = code,
                                                    .code_length = strlen(code),
                                                    .profile = "p",
                                                    .attempt = 2});
        event_set_code(CONFIG_LOG_HASH);
        check(next());
        check_field("MESSAGE", "cell begins");
        check_field("PRIORITY", "6");
        check_field("SYSLOG_IDENTIFIER", "cloister");
        check_field("MESSAGE_ID", "a6760d4a33164be69a3ad54783e0303f");
        check_field("CLOISTER_EVENT", "cell.begin");
        check_field("CLOISTER_PRINCIPAL", "alice");
        check_field("CLOISTER_SESSION", "work");
        check_field("CLOISTER_REQUEST", "7");
        check_field("CLOISTER_CELL", "3");
        check_field("CLOISTER_TRACE_ID", ids.trace_id);
        check_field("CLOISTER_ATTEMPT", "2");
        check_field("CLOISTER_CODE", code);
        check_field("CLOISTER_CODE_CUT", "false");
        log_error("no disk");
        check(next());
        check_field("PRIORITY", "3");
        check_field("MESSAGE", "no disk");
        end();
}

/* Names with newlines, quotes and terminal controls, in each kind of event. */
static void test_hostile_names(void)
{
        static const char evil[] = "a\"}\n{\"event\":\"reload\"}\nCLOISTER_EVENT=reload\n\x1b[2J";
        const struct log_ids bad = {.session = evil, .client = evil, .server = evil, .tool = evil};
        struct event_tool tools[100];
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
                tools[i] = (struct event_tool){evil, evil, true, UINT64_MAX};
        for (int format = LOG_FORMAT_JSON; format <= LOG_FORMAT_JOURNAL; format++) {
                begin((enum log_format)format);
                event_cell_end(&(struct event_cell_end){.ids = bad,
                                                        .status = "error",
                                                        .state = "lost",
                                                        .why = evil,
                                                        .tools = tools,
                                                        .n_tools = ARRAY_SIZE(tools),
                                                        .tools_total = 1000});
                if (format == LOG_FORMAT_JSON) {
                        yyjson_doc *doc = parse();
                        check_member(doc, "event", "cell.end");
                        check(has(doc, "tools"));
                        check_number(doc, "tools_total", 1000);
                        yyjson_doc_free(doc);
                } else {
                        check(next());
                        check(!strchr(text, 0x1b));
                }
                if (format == LOG_FORMAT_JOURNAL) {
                        check_field("CLOISTER_EVENT", "cell.end");
                        check(field("CLOISTER_TOOLS", &n) && n > 1000);
                } else {
                        check(memchr(text, '\n', length) == text + length - 1);
                }
                check(length <= 8192);
                event_owner(&(struct event_owner){.ids = bad, .command = evil, .why = evil});
                check(next() && length <= 8192);
                if (format == LOG_FORMAT_JOURNAL) {
                        check_field("CLOISTER_EVENT", "owner");
                        check_field("CLOISTER_COMMAND", evil);
                }
                end();
        }
}

static void test_the_others(void)
{
        begin(LOG_FORMAT_JSON);
        event_session_start(&(struct event_session){.ids = ids, .sandbox = 9, .profile = "p"});
        yyjson_doc *doc = parse();
        check_member(doc, "event", "session.start");
        check_number(doc, "sandbox", 9);
        check_member(doc, "profile", "p");
        yyjson_doc_free(doc);
        event_session_end(&(struct event_session){
                .ids = ids, .sandbox = 9, .profile = "", .reason = "idle", .why = "unused"});
        doc = parse();
        check_member(doc, "event", "session.end");
        check_member(doc, "reason", "idle");
        check_member(doc, "message", "sandbox 9 ended: unused");
        yyjson_doc_free(doc);
        event_reload(&(struct event_reload){"tokens", false, "line 3"});
        doc = parse();
        check_member(doc, "event", "reload");
        check_member(doc, "what", "tokens");
        check(yyjson_is_false(yyjson_obj_get(yyjson_doc_get_root(doc), "ok")));
        yyjson_doc_free(doc);
        event_drain(&(struct event_drain){"begin", 30000, 4, 1, "SIGTERM"});
        doc = parse();
        check_member(doc, "event", "drain");
        check_member(doc, "phase", "begin");
        check_number(doc, "deadline_ms", 30000);
        check_number(doc, "cells", 1);
        yyjson_doc_free(doc);
        event_owner(&(struct event_owner){.ids = ids, .command = "sessions/end", .ok = true});
        doc = parse();
        check_member(doc, "event", "owner");
        check_member(doc, "command", "sessions/end");
        yyjson_doc_free(doc);
        end();
}

/* A flood of bad tokens: a few become events, and the next one has the number of the others. */
static void test_refusals(void)
{
        int n = 0;

        begin(LOG_FORMAT_JSON);
        fake_clock_stop(true);
        for (int i = 0; i < 1000; i++) {
                event_token_refused(&(struct event_token_refused){.status = 401});
                if (!next())
                        continue;
                n++;
                check(strstr(text, "\"token.refused\"") && strstr(text, "\"reason\":\"unknown\""));
        }
        check_eq_int(n, EVENT_REFUSED_BURST);
        fake_clock_advance_ms(EVENT_REFUSED_MS);
        event_token_refused(&(struct event_token_refused){.is_missing = true, .status = 401});
        yyjson_doc *doc = parse();
        check_number(doc, "left_out", 1000 - n);
        check_member(doc, "reason", "missing");
        yyjson_doc_free(doc);
        end();
}

/* The rate of entries is limited; calls of code do not use up the rate of events. The journal gets the number of lost ones. */
static void test_rate_of_the_journal(void)
{
        const struct event_session event = {.ids = ids, .sandbox = 1, .profile = ""};
        uint64_t before = log_errors();
        int lines = 0, events = 0;

        begin(LOG_FORMAT_JOURNAL);
        fake_clock_stop(true);
        fake_clock_advance_ms(60000);
        for (int i = 0; i < 6000; i++) {
                log_info("call succeeded");
                while (next())
                        lines += strstr(text, "call succeeded") != NULL;
        }
        check_eq_int(lines, 5000);
        check_eq_int(log_errors() - before, 1000);
        for (int i = 0; i < 6000; i++) {
                event_session_start(&event);
                while (next())
                        events += strstr(text, "session.start") != NULL;
        }
        check_eq_int(events, 5000);
        check_eq_int(log_errors() - before, 2000);
        fake_clock_advance_ms(2000);
        log_info("one more");
        check(next());
        check_field("MESSAGE", "1000 lines of the log could not be written");
        check_field("PRIORITY", "4");
        check(next());
        check_field("MESSAGE", "one more");
        fake_clock_stop(false);
        end();
}

/* Without the level nothing is written. */
static void test_off(void)
{
        begin(LOG_FORMAT_JSON);
        log_set_level(LOG_LEVEL_WARNING);
        check(!event_is_on(true));
        event_session_start(&(struct event_session){.ids = ids});
        event_cell_begin(&(struct event_cell_begin){.ids = ids, .code = "1", .code_length = 1});
        event_token_refused(&(struct event_token_refused){.status = 401});
        end();
}

static void note_later(void *data)
{
        ++*(int *)data;
}

/* The end of a cell waits for the next line. A begin does not: after a crash it says that the cell ran. */
static void test_what_waits(void)
{
        int n = 0;

        begin(LOG_FORMAT_JOURNAL);
        log_set_later(note_later, &n);
        event_cell_begin(&(struct event_cell_begin){.ids = ids, .code = "1", .code_length = 1});
        check(next());
        event_cell_end(
                &(struct event_cell_end){.ids = ids, .status = "ok", .state = "kept", .why = ""});
        check(!next());
        check_eq_int(n, 1);
        event_cell_begin(&(struct event_cell_begin){.ids = ids, .code = "1", .code_length = 1});
        check(next());
        check_field("CLOISTER_EVENT", "cell.end");
        check(next());
        check_field("CLOISTER_EVENT", "cell.begin");
        log_set_later(NULL, NULL);
        end();
}

int main(void)
{
        run(test_sha256);
        run(test_cell_in_json);
        run(test_code);
        run(test_journal);
        run(test_hostile_names);
        run(test_the_others);
        run(test_refusals);
        run(test_rate_of_the_journal);
        run(test_what_waits);
        run(test_off);
        return 0;
}
