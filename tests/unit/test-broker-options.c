/* The broker's arguments, and which bytes it writes to a terminal. */
#include "supervisor/broker/options.h"

#include "base/terminal.h"
#include "tests/unit/test.h"

static int parse(const char *words, struct broker_options *o, struct error *err)
{
        static char text[256];
        char *argv[32], *save = NULL;
        int argc = 0;

        snprintf(text, sizeof(text), "broker %s", words);
        for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
                argv[argc++] = word;
        argv[argc] = NULL;
        *err = (struct error){};
        return broker_options_parse(argc, argv, o, err);
}

static void test_accepted(void)
{
        struct broker_options o;
        struct error err;

        check_ok(parse("--uid 4242 --filter-fd 4 --state-path /var/x --log-level debug mcp", &o,
                       &err));
        check(o.has_uid);
        check_eq_int(o.uid, 4242);
        check_eq_int(o.filter_fd, 4);
        check_eq_str(o.state_path, "/var/x");
        check_eq_int(o.what, BROKER_MCP);
        check_eq_int(o.code_fd, -1);

        check_ok(parse("--filter-fd 4 run --code-fd 5 --name x.py --timeout 1.5 --profile lab", &o,
                       &err));
        check(!o.has_uid);
        check_eq_int(o.what, BROKER_RUN);
        check_eq_int(o.code_fd, 5);
        check_eq_str(o.name, "x.py");
        check_eq_int(o.timeout_ms, 1500);
        check_eq_str(o.profile, "lab");

        check_ok(parse("tools --json", &o, &err));
        check(o.json);
        check(!o.has_timeout);
}

static void test_refused(void)
{
        static const char *const cases[] = {
                "",
                "run",
                "serve",
                "mcp --what",
                "mcp --filter-fd",
                "mcp --filter-fd x",
                "mcp --uid -1",
                "mcp --state-path x/y",
                "mcp --log-level loud",
                "run --code-fd 3 --timeout 0",
                "run --code-fd 3 --timeout soon",
        };
        struct broker_options o;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                check_eq_int(parse(cases[i], &o, &err), -EINVAL);
                check_has(err.text, "broker: ");
        }
}

/* The text does not depend on how it is divided. */
static void check_terminal(const char *bytes, size_t n, const char *expected)
{
        for (size_t piece = 1; piece <= n; piece++) {
                struct terminal_stream stream = {};
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);

                for (size_t at = 0; at < n; at += piece)
                        check_eq_int(terminal_escape(&stream, bytes + at,
                                                     at + piece < n ? piece : n - at, &b),
                                     0);
                check_eq_bytes(buffer_bytes(&b), b.length, expected);
        }
}

static void test_terminal(void)
{
        check_terminal("plain\ttext\r\n", 12, "plain\ttext\n");
        check_terminal("safe\revil\r\r\n\rx\r", 15, "safe\nevil\n\n\nx");
        check_terminal("\r\x1b\r", 3, "\n\\x1b");
        check_terminal("\x1b]52;c;QQ==\x07", 12, "\\x1b]52;c;QQ==\\x07");
        check_terminal("a\0b", 3, "a\\x00b");
        check_terminal("\xc2\x9b"
                       "31m",
                       5, "\\x9b31m"); /* C1 CSI as UTF-8 */
        check_terminal("\x9b"
                       "31m",
                       4,
                       "\xef\xbf\xbd"
                       "31m"); /* and as a byte */
        check_terminal("\xe2\x80\xae"
                       "evil",
                       7, "\\u202eevil");
        check_terminal("\xe2\x80\x8b", 3, "\\u200b");
        check_terminal("\xf3\xa0\x81\x81", 4, "\\ue0041"); /* a tag character */
        check_terminal("\xe3\x85\xa4", 3, "\\u3164");      /* a filler */
        check_terminal("gr\xc3\xbc\xc3\x9f", 6, "gr\xc3\xbc\xc3\x9f");
}

static void test_terminal_line(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(4096);

        check_eq_int(terminal_escape_line("a\nb\tc", 5, &b), 0);
        check_eq_bytes(buffer_bytes(&b), b.length, "a\\x0ab\\x09c");
}

int main(void)
{
        run(test_accepted);
        run(test_refused);
        run(test_terminal);
        run(test_terminal_line);
        return 0;
}
