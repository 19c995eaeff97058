/* Parsing the broker's arguments. */
#include "supervisor/broker/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/arguments.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "policy/quantity.h"

static int take_uid(void *to, const char *value)
{
        struct broker_options *o = to;
        char *end = NULL;

        errno = 0;
        long long n = strtoll(value, &end, 10);
        if (end == value || *end != '\0' || errno != 0 || n < 0 || n >= UINT32_MAX)
                return -EINVAL;
        o->has_uid = true;
        o->uid = (uid_t)n;
        return 0;
}

static int take_state_path(void *to, const char *value)
{
        struct broker_options *o = to;

        o->state_path = value;
        return value[0] == '/' ? 0 : -EINVAL;
}

static int take_timeout(void *to, const char *value)
{
        struct broker_options *o = to;

        if (quantity_milliseconds_of(value, &o->timeout_ms) < 0 || o->timeout_ms == 0)
                return -EINVAL;
        o->has_timeout = true;
        return 0;
}

static int take_listen_fd(void *to, const char *value)
{
        struct broker_options *o = to;

        if (o->n_listen_fds == BROKER_LISTENERS_MAX)
                return -E2BIG;
        if (strspn(value, "0123456789") != strlen(value) || strlen(value) > 5)
                return -EINVAL;
        o->listen_fds[o->n_listen_fds++] = atoi(value);
        return 0;
}

static const struct argument arguments[] = {
        {"--allow-host", ARGUMENT_LIST, ARGUMENT_LIST_IN(struct broker_options, hosts, n_hosts)},
        {"--allow-origin", ARGUMENT_LIST,
         ARGUMENT_LIST_IN(struct broker_options, origins, n_origins)},
        {"--attestation-fd", ARGUMENT_NUMBER,
         .offset = offsetof(struct broker_options, attestation_fd)},
        {"--code-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, code_fd)},
        {"--control-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, control_fd)},
        {"--egress-filter-fd", ARGUMENT_NUMBER,
         .offset = offsetof(struct broker_options, egress_filter_fd)},
        {"--filter-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, filter_fd)},
        {"--helper-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, helper_fd)},
        {"--http", ARGUMENT_FLAG, .offset = offsetof(struct broker_options, has_http)},
        {"--in-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, in_fd)},
        {"--json", ARGUMENT_FLAG, .offset = offsetof(struct broker_options, json)},
        {"--listen-fd", ARGUMENT_CALL, .take = take_listen_fd},
        {"--log-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, log_fd)},
        {"--log-format", ARGUMENT_LOG_FORMAT,
         .offset = offsetof(struct broker_options, log_format)},
        {"--log-level", ARGUMENT_LOG_LEVEL, .offset = offsetof(struct broker_options, log_level)},
        {"--name", ARGUMENT_TEXT, .offset = offsetof(struct broker_options, name)},
        {"--no-tools", ARGUMENT_FLAG, .offset = offsetof(struct broker_options, no_tools)},
        {"--out-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, out_fd)},
        {"--out-hidden", ARGUMENT_FLAG, .offset = offsetof(struct broker_options, out_hidden)},
        {"--profile", ARGUMENT_TEXT, .offset = offsetof(struct broker_options, profile)},
        {"--script-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, script_fd)},
        {"--state-path", ARGUMENT_CALL, .take = take_state_path},
        {"--stdin-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, stdin_fd)},
        {"--timeout", ARGUMENT_CALL, .take = take_timeout},
        {"--tokens-fd", ARGUMENT_NUMBER, .offset = offsetof(struct broker_options, tokens_fd)},
        {"--uid", ARGUMENT_CALL, .take = take_uid},
};

static const char *const words[] = {[BROKER_MCP] = "mcp",
                                    [BROKER_RUN] = "run",
                                    [BROKER_TOOLS] = "tools",
                                    [BROKER_SERVE] = "serve"};

static int take_word(struct broker_options *o, const char *word, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                if (strcmp(words[i], word) == 0) {
                        o->what = (enum broker_what)i;
                        return 0;
                }
        }
        return error_set(err, EINVAL, "broker: unknown command '%s'", word);
}

int broker_options_parse(int argc, char **argv, struct broker_options *ret, struct error *err)
{
        bool has_word = false;

        *ret = (struct broker_options){.filter_fd = -1,
                                       .egress_filter_fd = -1,
                                       .code_fd = -1,
                                       .attestation_fd = -1,
                                       .in_fd = -1,
                                       .out_fd = -1,
                                       .script_fd = -1,
                                       .stdin_fd = -1,
                                       .control_fd = -1,
                                       .helper_fd = -1,
                                       .tokens_fd = -1,
                                       .log_fd = -1,
                                       .log_level = -1,
                                       .name = "<code>"};
        for (int at = 1; at < argc;) {
                int used = 1;
                if (argv[at][0] == '-') {
                        used = argument_take(arguments, ARRAY_SIZE(arguments), argv + at, ret, err);
                        if (used < 0)
                                return error_context(err, "broker");
                } else {
                        int r = take_word(ret, argv[at], err);
                        used = r < 0 ? r : 1;
                        has_word = true;
                }
                if (used < 0)
                        return used;
                at += used;
        }
        if (!has_word || (ret->what == BROKER_RUN && ret->code_fd < 0) ||
            (ret->what == BROKER_SERVE && ret->n_listen_fds == 0 && ret->helper_fd < 0))
                return error_set(
                        err, EINVAL,
                        "broker: mcp, serve --listen-fd N, run --code-fd N or tools is needed");
        return 0;
}
