/* Parsing the broker's arguments. */
#include "supervisor/broker/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

static int parse_number(const char *text, int64_t most, int64_t *ret)
{
        char *end;

        errno = 0;
        long long n = strtoll(text, &end, 10);
        if (end == text || *end || errno || n < 0 || n > most)
                return -EINVAL;
        *ret = n;
        return 0;
}

static int take_fd_number(int *to, const char *value)
{
        int64_t n = -1;
        int r = parse_number(value, INT32_MAX, &n);

        *to = (int)n;
        return r;
}

static int take_filter_fd(struct broker_options *o, const char *value)
{
        return take_fd_number(&o->filter_fd, value);
}

static int take_code_fd(struct broker_options *o, const char *value)
{
        return take_fd_number(&o->code_fd, value);
}

static int take_control_fd(struct broker_options *o, const char *value)
{
        return take_fd_number(&o->control_fd, value);
}

static int take_log_fd(struct broker_options *o, const char *value)
{
        return take_fd_number(&o->log_fd, value);
}

static int take_in_fd(struct broker_options *o, const char *value)
{
        return take_fd_number(&o->in_fd, value);
}

static int take_out_fd(struct broker_options *o, const char *value)
{
        return take_fd_number(&o->out_fd, value);
}

static int take_uid(struct broker_options *o, const char *value)
{
        int64_t n = 0;
        int r = parse_number(value, UINT32_MAX - 1, &n);

        o->has_uid = true;
        o->uid = (uid_t)n;
        return r;
}

static int take_state_path(struct broker_options *o, const char *value)
{
        o->state_path = value;
        return value[0] == '/' ? 0 : -EINVAL;
}

static int take_log_level(struct broker_options *o, const char *value)
{
        o->log_level = log_level_from_name(value);
        return o->log_level < 0 ? -EINVAL : 0;
}

static int take_log_format(struct broker_options *o, const char *value)
{
        o->log_format = log_format_from_name(value);
        return o->log_format < 0 ? -EINVAL : 0;
}

static int take_name(struct broker_options *o, const char *value)
{
        o->name = value;
        return 0;
}

static int take_profile(struct broker_options *o, const char *value)
{
        o->profile = value;
        return 0;
}

static int take_timeout(struct broker_options *o, const char *value)
{
        char *end;
        double seconds = strtod(value, &end);

        if (end == value || *end || !(seconds > 0) || seconds * 1000 > UINT32_MAX)
                return -EINVAL;
        o->has_timeout = true;
        o->timeout_ms = (uint32_t)ceil(seconds * 1000);
        return 0;
}

static int take_json(struct broker_options *o, const char *value)
{
        o->json = true;
        return 0;
}

static const struct {
        const char *name;
        int (*take)(struct broker_options *o, const char *value);
        bool flag; /* without a value */
} options_known[] = {
        {"--filter-fd", take_filter_fd, false},
        {"--uid", take_uid, false},
        {"--state-path", take_state_path, false},
        {"--log-level", take_log_level, false},
        {"--code-fd", take_code_fd, false},
        {"--name", take_name, false},
        {"--profile", take_profile, false},
        {"--timeout", take_timeout, false},
        {"--json", take_json, true},
        {"--control-fd", take_control_fd, false},
        {"--log-fd", take_log_fd, false},
        {"--log-format", take_log_format, false},
        {"--in-fd", take_in_fd, false},
        {"--out-fd", take_out_fd, false},
};

static const char *const words[] = {
        [BROKER_MCP] = "mcp", [BROKER_RUN] = "run", [BROKER_TOOLS] = "tools"};

static int take_word(struct broker_options *o, const char *word, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                if (strcmp(words[i], word) == 0) {
                        o->what = (enum broker_what)i;
                        return 0;
                }
        }
        return error_set(err, EINVAL, "broker: unknown word '%s'", word);
}

/* Takes argv[at]. Returns how many arguments that were. */
static int take_option(struct broker_options *o, char **argv, int at, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(options_known); i++) {
                if (strcmp(options_known[i].name, argv[at]) != 0)
                        continue;
                const char *value = options_known[i].flag ? "" : argv[at + 1];
                if (!value || options_known[i].take(o, value) < 0)
                        return error_set(err, EINVAL, "broker: bad value of %s", argv[at]);
                return options_known[i].flag ? 1 : 2;
        }
        return error_set(err, EINVAL, "broker: unknown option '%s'", argv[at]);
}

int broker_options_parse(int argc, char **argv, struct broker_options *ret, struct error *err)
{
        bool has_word = false;

        *ret = (struct broker_options){.filter_fd = -1,
                                       .code_fd = -1,
                                       .in_fd = -1,
                                       .out_fd = -1,
                                       .control_fd = -1,
                                       .log_fd = -1,
                                       .log_level = -1,
                                       .name = "<code>"};
        for (int at = 1; at < argc;) {
                int used = 1;
                if (argv[at][0] == '-') {
                        used = take_option(ret, argv, at, err);
                } else {
                        int r = take_word(ret, argv[at], err);
                        used = r < 0 ? r : 1;
                        has_word = true;
                }
                if (used < 0)
                        return used;
                at += used;
        }
        if (!has_word || (ret->what == BROKER_RUN && ret->code_fd < 0))
                return error_set(err, EINVAL, "broker: mcp, run --code-fd N or tools is needed");
        return 0;
}
