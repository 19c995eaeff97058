/* The command lines of the internal programs. */
#include "supervisor/options/options.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "tests/unit/test.h"

static struct error err;

static int parse(const char *words, enum option_program program, struct options *o)
{
        static char text[4096];
        char *argv[128], *save = NULL;
        int argc = 0;

        snprintf(text, sizeof(text), "%s", words);
        for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
                argv[argc++] = word;
        argv[argc] = NULL;
        err = (struct error){};
        options_init(o);
        return options_parse(argv, program, o, &err);
}

static void test_accepted(void)
{
        struct options o;

        check_ok(parse("--uid 4242 --filter-fd 4 --state-path /var/x --log-level debug",
                       PROGRAM_BROKER, &o));
        check_eq_int(o.uid, 4242);
        check_eq_int(o.filter_fd, 4);
        check_eq_str(o.state_path, "/var/x");
        check_eq_int(o.log_level, LOG_LEVEL_DEBUG);
        check_eq_int(o.code_fd, -1);
        check_eq_int(o.log_fd, -1);

        check_ok(
                parse("--code-fd 65 --code-name x.py --timeout 1.5 --profile lab --log-format json",
                      PROGRAM_BROKER, &o));
        check_eq_int(o.uid, -1);
        check_eq_int(o.code_fd, 65);
        check_eq_str(o.code_name, "x.py");
        check_eq_int(o.timeout_ms, 1500);
        check_eq_str(o.profile, "lab");
        check_eq_int(o.log_format, LOG_FORMAT_JSON);

        check_ok(parse("--json", PROGRAM_BROKER, &o));
        check(o.json);
        check_eq_int(o.timeout_ms, 0);
        check_ok(parse("--filter-fd 2147483647 --uid 4294967294", PROGRAM_BROKER, &o));
        check_eq_int(o.filter_fd, 2147483647);
        check_eq_int(o.uid, 4294967294);
}

static void test_refused(void)
{
        static const struct {
                const char *words;
                enum option_program program;
        } cases[] = {
                {"--what", PROGRAM_BROKER},
                {"--tex", PROGRAM_BROKER},
                {"word", PROGRAM_BROKER},
                {"--filter-fd", PROGRAM_BROKER},
                {"--filter-fd x", PROGRAM_BROKER},
                {"--filter-fd 1x", PROGRAM_BROKER},
                {"--filter-fd -1", PROGRAM_BROKER},
                {"--filter-fd 2147483648", PROGRAM_BROKER},
                {"--uid -1", PROGRAM_BROKER},
                {"--uid 4294967295", PROGRAM_BROKER},
                {"--state-path x/y", PROGRAM_BROKER},
                {"--log-level loud", PROGRAM_BROKER},
                {"--log-format xml", PROGRAM_BROKER},
                {"--timeout 0", PROGRAM_BROKER},
                {"--timeout soon", PROGRAM_BROKER},
                {"--code-fd 63", PROGRAM_BROKER},
                {"--code-fd 1000", PROGRAM_MONITOR},
                {"--listen-fd 3", PROGRAM_MONITOR},
                /* Each program accepts only its own options. */
                {"--uid 0", PROGRAM_MONITOR},
                {"--filter-fd 4", PROGRAM_MONITOR},
                {"--log-fd 4", PROGRAM_MONITOR},
                {"--state-path /x", PROGRAM_MONITOR},
                {"--http", PROGRAM_MONITOR},
                {"--config x", PROGRAM_BROKER},
                {"--mounts []", PROGRAM_BROKER},
                {"--image x", PROGRAM_BROKER},
                {"--mount a:b", PROGRAM_MONITOR},
                {"--env A=b", PROGRAM_MONITOR},
                {"--code-fd 64", PROGRAM_DOCTOR},
                {"--attack", PROGRAM_OAUTH},
        };
        struct options o;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                check_eq_int(parse(cases[i].words, cases[i].program, &o), -EINVAL);
                check(error_is_set(&err));
        }
        check_eq_int(
                parse("--listen-fd 64 --listen-fd 65 --listen-fd 66 --listen-fd 67 --listen-fd 68",
                      PROGRAM_BROKER, &o),
                -E2BIG);
        check_eq_str(err.text, "--listen-fd is given too often");
}

/* Finds "name value" in the words; value may be NULL. */
static bool has(const struct command_line *line, const char *name, const char *value)
{
        for (size_t i = 0; i < line->n; i++)
                if (strcmp(line->words[i], name) == 0 &&
                    (!value || (i + 1 < line->n && strcmp(line->words[i + 1], value) == 0)))
                        return true;
        return false;
}

/* The next program reads the options that one writes; neither gets more than its own options. */
static void test_command_line(void)
{
        struct command_line line;
        struct options o, read;
        int fds[OPTION_FDS_MAX];

        options_init(&o);
        o.configs[o.n_configs++] = "/a";
        o.configs[o.n_configs++] = "/b";
        o.set.with[o.set.n_with++] = "numpy";
        o.set.offline = o.json = o.attack = true;
        o.env[o.n_env++] = "SECRET=1";
        o.hosts[o.n_hosts++] = "h";
        o.timeout_ms = 2500;
        o.log_level = LOG_LEVEL_INFO;
        o.code_fd = 64;
        o.tokens_fd = 70;
        o.listen_fds[o.n_listen_fds++] = 66;
        o.listen_fds[o.n_listen_fds++] = 67;
        o.uid = 7;
        o.filter_fd = 4;
        command_line_init(&line, "cloister-monitor", "serve", &o, PROGRAM_MONITOR);
        check_eq_str(line.words[0], "cloister-monitor");
        check_eq_str(line.words[1], "serve");
        check(!line.words[line.n]);
        check(has(&line, "--config", "/b") && has(&line, "--offline", NULL));
        check(!has(&line, "--env", NULL) && !has(&line, "--uid", NULL) &&
              !has(&line, "--filter-fd", NULL) && !has(&line, "--attack", NULL));

        options_init(&read);
        check_ok(options_parse((char *const *)line.words + 2, PROGRAM_MONITOR, &read, &err));
        check_eq_int((int)read.n_configs, 2);
        check_eq_str(read.set.with[0], "numpy");
        check(read.set.offline && read.json && !read.attack);
        check_eq_int(read.timeout_ms, 2500);
        check_eq_int(read.log_level, LOG_LEVEL_INFO);
        check_eq_int((int)options_fds(&read, PROGRAM_BROKER, fds), 4);
        check_eq_int(fds[0], 64);
        check_eq_int(fds[3], 67);
        check_eq_int(read.uid, -1);

        read.uid = 7;
        command_line_init(&line, "cloister-broker", "serve", &read, PROGRAM_BROKER);
        check(has(&line, "--uid", "7") && has(&line, "--allow-host", "h") &&
              has(&line, "--timeout", "2500ms") && has(&line, "--listen-fd", "67"));
        check(!has(&line, "--config", NULL) && !has(&line, "--with", NULL) &&
              !has(&line, "--offline", NULL));
        options_init(&o);
        check_ok(options_parse((char *const *)line.words + 2, PROGRAM_BROKER, &o, &err));
        check_eq_int((int)o.n_listen_fds, 2);
}

/* Everything that can be given fits into a command line. */
static void test_longest(void)
{
        struct command_line line;
        struct options o;

        options_init(&o);
        for (size_t i = 0; i < OPTION_IDS; i++) {
                const struct option *option = &option_rows[i];
                const char *value = option->kind == OPTION_LOG_LEVEL    ? "info"
                                    : option->kind == OPTION_LOG_FORMAT ? "json"
                                    : option->kind == OPTION_PATH       ? "/x"
                                                                        : "99";
                int r = 0;
                for (size_t k = 0; k < 1000 && r == 0; k++) {
                        r = option_set(option, value, &o);
                        if (option->kind != OPTION_LIST && option->kind != OPTION_FDS)
                                break;
                }
                check(r == 0 || r == -E2BIG);
        }
        check_eq_int((int)o.n_configs, CONFIG_PATHS_MAX);
        command_line_init(&line, "cloister-monitor", "serve", &o, PROGRAM_MONITOR);
        check(line.n > 100);
        command_line_init(&line, "cloister-broker", "serve", &o, PROGRAM_BROKER);
        int fds[OPTION_FDS_MAX];
        check_eq_int((int)options_fds(&o, PROGRAM_MONITOR, fds), OPTION_FDS_MAX);
}

static void test_modes(void)
{
        for (int i = 0; i < MODE_MAX; i++)
                check_eq_int((int)options_mode(options_mode_name((enum mode)i)), i);
        check_eq_int((int)options_mode("shell"), MODE_MAX);
        check_eq_int((int)options_mode(NULL), MODE_MAX);
}

int main(void)
{
        run(test_accepted);
        run(test_refused);
        run(test_command_line);
        run(test_longest);
        run(test_modes);
        return 0;
}
