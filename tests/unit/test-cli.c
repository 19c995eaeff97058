/* Options, commands and sources of the command line. */
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "supervisor/cli/command/script.h"
#include "supervisor/cli/commands.h"

#include "tests/unit/test.h"

static struct error err;

/* Parses arguments up to a NULL, then finds and checks the command. */
static int parse(struct options *o, const struct cli_command **command, const char *const *words)
{
        size_t n = 0, used = 0;

        while (words[n])
                n++;
        err = (struct error){};
        int r = cli_options_parse((int)n, (char **)words, o, &err);
        if (r < 0 || !command)
                return r;
        *command = cli_find_command(&cli_commands, o->words, o->n_words, &used, &err);
        return *command ? cli_check_command(*command, o, o->n_words - used, &err) : -err.code;
}

#define WORDS(...)                                                                                 \
        (const char *const[])                                                                      \
        {                                                                                          \
                __VA_ARGS__, NULL                                                                  \
        }

static void test_options(void)
{
        const struct cli_command *command = NULL;
        struct options o;

        check_ok(parse(&o, &command,
                       WORDS("--config", "a", "run", "--timeout=2.5", "--config=b", "-v", "f.py")));
        check_eq_str(command->name, "run");
        check_eq_int(o.n_configs, 2);
        check_eq_str(o.configs[0], "a");
        check_eq_str(o.configs[1], "b");
        check_eq_int(o.timeout_ms, 2500);
        check_eq_int(o.log_level, LOG_LEVEL_INFO);
        check_eq_int(o.n_words, 2);
        check_eq_str(o.words[1], "f.py");

        check_ok(parse(&o, &command, WORDS("run", "-c", "-x", "-v", "-v")));
        check_eq_str(o.code, "-x");
        check_eq_int(o.log_level, LOG_LEVEL_DEBUG);
        check_ok(parse(&o, &command, WORDS("run", "-cprint(1)")));
        check_eq_str(o.code, "print(1)");
        check_ok(parse(&o, &command, WORDS("run", "-c", "")));
        check_eq_str(o.code, "");
        check_ok(parse(&o, &command, WORDS("run", "-")));
        check_eq_str(o.words[1], "-");
        const char *const *words = WORDS("run", "--", "--json", "a", "--out"); /* o.rest is in it */
        check_ok(parse(&o, &command, words));
        check_eq_str(o.words[1], "--json");
        check_eq_int(o.n_rest, 2);
        check_eq_str(o.rest[1], "--out");
        check(!o.out);
        check_ok(parse(&o, &command, WORDS("run", "f.py", "--mount", "/:/host", "--", "-c")));
        check_eq_int(o.n_rest, 4);
        check_eq_int(o.n_mounts, 0);
        check_ok(parse(&o, &command, WORDS("run", "-c", "1", "--timeout", "2", "a", "--env", "X")));
        check_eq_int(o.timeout_ms, 2000);
        check_eq_int(o.n_rest, 3);
        check_eq_int(o.n_env, 0);
        check_ok(parse(&o, &command, WORDS("run", "-c", "1", "--", "--timeout")));
        check_eq_int(o.n_rest, 1);
        check_ok(parse(&o, &command, WORDS("image", "build", "-q", "--name", "a.b")));
        check_eq_str(command->name, "image build");
        check(o.quiet);
}

static void refuse(const char *part, const char *const *words)
{
        const struct cli_command *command = NULL;
        struct options o;

        check(parse(&o, &command, words) < 0);
        check_has(err.text, part);
}

static void test_refusals(void)
{
        refuse("did you mean 'run'?", WORDS("rnu"));
        refuse("did you mean 'image list'?", WORDS("image", "lsit"));
        refuse("did you mean 'sessions undo'?", WORDS("undo"));
        refuse("image needs a command", WORDS("image"));
        refuse("unknown command 'image xxxxxx'", WORDS("image", "xxxxxx"));
        refuse("unknown command 'frobnicate'", WORDS("frobnicate"));
        refuse("did you mean --timeout?", WORDS("run", "--timeot", "3"));
        refuse("did you mean --config?", WORDS("mcp", "--confg=x"));
        refuse("unknown option -z", WORDS("run", "-z"));
        refuse("--json is not an option of 'mcp'", WORDS("mcp", "--json"));
        refuse("-c is not an option of 'tools'", WORDS("tools", "-c", "x"));
        refuse("'mcp' takes no arguments", WORDS("mcp", "x"));
        refuse("-c needs a CODE", WORDS("run", "-c"));
        refuse("-c is given twice", WORDS("run", "-c", "1", "-c", "2"));
        refuse("--image needs a NAME", WORDS("run", "--image="));
        refuse("--json takes no value", WORDS("tools", "--json=yes"));
        refuse("--name ../x", WORDS("image", "build", "--name", "../x"));
        refuse("--log-level loud", WORDS("mcp", "--log-level", "loud"));
        refuse("too many arguments", WORDS("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k",
                                           "l", "m", "n", "o", "p", "q"));
}

static void test_timeouts(void)
{
        static const char *const good[] = {"1", "0.5", "600", "86400", "2m", "500ms", "24h"};
        static const char *const bad[] = {"-1", "x", "inf", "nan", "1e9", " 1", "0x10", "2 weeks"};
        static const char *const too_much[] = {"0",      "0.0001", "86401",
                                               "100000", "25h",    "99999999999"};
        struct options o;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                check_ok(parse(&o, NULL, WORDS("run", "--timeout", good[i])));
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                refuse("a time is needed", WORDS("run", "--timeout", bad[i]));
        for (size_t i = 0; i < ARRAY_SIZE(too_much); i++)
                refuse("from 1ms to 24h", WORDS("run", "--timeout", too_much[i]));
}

static void test_many_configs(void)
{
        const char *words[2 * (CONFIG_PATHS_MAX + 1) + 1] = {};
        struct options o;

        for (size_t i = 0; i < CONFIG_PATHS_MAX; i++) {
                words[2 * i] = "--config";
                words[2 * i + 1] = "x";
        }
        check_ok(parse(&o, NULL, words));
        check_eq_int(o.n_configs, CONFIG_PATHS_MAX);
        words[2 * CONFIG_PATHS_MAX] = "--config";
        words[2 * CONFIG_PATHS_MAX + 1] = "x";
        refuse("--config x: at most 16 can be given; put the files into one directory", words);
}

/* Each public command has help with an example, and all its options are explained. */
static void test_help(void)
{
        check(cli_commands.n <= CLI_COMMANDS_MAX);
        for (size_t i = 0; i < cli_commands.n; i++) {
                check(cli_commands.rows[i].help && cli_commands.rows[i].run);
                if (cli_commands.rows[i].summary)
                        check_has(cli_commands.rows[i].help, "Examples:\n  ");
        }
}

static void check_text(const char *text, size_t n, const char *part)
{
        err = (struct error){};
        int r = script_check("f.py", text, n, &err);

        if (!part) {
                check_ok(r);
                return;
        }
        check_eq_int(r, -EILSEQ);
        check_has(err.text, part);
}

static void test_utf8(void)
{
        check_text("", 0, NULL);
        check_text("a\0b", 3, NULL);
        check_text("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf", 18, NULL);
        check_text("a\nb\n\xff", 5, "f.py: line 3: byte 0xff");
        check_text("\xc0\x80", 2, "0xc0");                  /* overlong */
        check_text("\xe0\x80\x80", 3, "0xe0");              /* overlong */
        check_text("\xed\xa0\x80", 3, "0xed");              /* surrogate */
        check_text("\xf4\x90\x80\x80", 4, "0xf4");          /* beyond U+10FFFF */
        check_text("\xf0\x9f\x98", 3, "0xf0");              /* cut */
        check_text("\xe2\x82\xac", 2, "0xe2");              /* cut */
        check_text("\xe2\x28\xac", 3, "line 1: byte 0xe2"); /* broken */
}

static void test_source(void)
{
        static char large[SCRIPT_SIZE_MAX + 1];
        char path[] = "/tmp/cloister-test-XXXXXX";
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        _cleanup_close_ int fd = mkstemp(path);
        check(fd >= 0);
        check_eq_int(write(fd, "\xef\xbb\xbfprint(1)\n", 12), 12);
        check_ok(script_read(path, &text, &n, &err));
        check_eq_bytes(text, n, "print(1)\n");
        free(take_ptr(text));

        memset(large, '#', sizeof(large));
        check_eq_int(pwrite(fd, large, SCRIPT_SIZE_MAX, 0), SCRIPT_SIZE_MAX);
        check_ok(script_read(path, &text, &n, &err));
        check_eq_int(n, SCRIPT_SIZE_MAX);
        check_eq_int(pwrite(fd, large, sizeof(large), 0), sizeof(large));
        err = (struct error){};
        char *other = NULL;
        check_eq_int(script_read(path, &other, &n, &err), -EFBIG);
        check_has(err.text, "16 MiB");
        unlink(path);

        check_eq_int(script_read("/no/such/file.py", &other, &n, &err), -ENOENT);
        check_has(err.text, "/no/such/file.py: No such file");
        check_eq_int(script_read("/tmp", &other, &n, &err), -EISDIR);
}

int main(void)
{
        run(test_options);
        run(test_refusals);
        run(test_timeouts);
        run(test_many_configs);
        run(test_help);
        run(test_utf8);
        run(test_source);
        return 0;
}
