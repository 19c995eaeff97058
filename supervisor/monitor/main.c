/* cloister-monitor: started by `cloister`, not by people. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arguments.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log-file.h"
#include "supervisor/monitor/monitor.h"
#include "supervisor/monitor/process/child.h"

static int usage(void)
{
        fputs("cloister-monitor is started by cloister; see 'cloister --help'.\n", stderr);
        return 2;
}

static int take_pass_fd(void *to, const char *value)
{
        struct monitor_options *o = to;
        char *end = NULL;
        long fd = strtol(value, &end, 10);

        if (*end != '\0' || fd < 64 || fd >= 1000)
                return -EINVAL;
        if (o->n_pass_fds == BROKER_PASS_FDS_MAX)
                return -E2BIG;
        o->pass_fds[o->n_pass_fds++] = (int)fd;
        return 0;
}

static int take_store(void *to, const char *value)
{
        return setenv("CLOISTER_IMAGE_STORE", value, 1) < 0 ? -EINVAL : 0;
}

#define AT(member)        .offset = offsetof(struct monitor_options, member)
#define LIST_AT(array, n) ARGUMENT_LIST_IN(struct monitor_options, array, n)
static const struct argument arguments[] = {
        {"--config", ARGUMENT_LIST, LIST_AT(configs, n_configs)},
        {"--files-key", ARGUMENT_TEXT, AT(set.files_key)},
        {"--find-links", ARGUMENT_TEXT, AT(set.find_links)},
        {"--image", ARGUMENT_TEXT, AT(image)},
        {"--installer", ARGUMENT_TEXT, AT(set.installer)},
        {"--link", ARGUMENT_TEXT, AT(link)},
        {"--log-file", ARGUMENT_TEXT, AT(log_file)},
        {"--log-format", ARGUMENT_LOG_FORMAT, AT(log_format)},
        {"--log-level", ARGUMENT_LOG_LEVEL, AT(log_level)},
        {"--mounts", ARGUMENT_TEXT, AT(mounts)},
        {"--name", ARGUMENT_TEXT, AT(image)},
        {"--offline", ARGUMENT_FLAG, AT(set.offline)},
        {"--pass-fd", ARGUMENT_CALL, .take = take_pass_fd},
        {"--profile", ARGUMENT_TEXT, AT(profile)},
        {"--python", ARGUMENT_TEXT, AT(python)},
        {"--quiet", ARGUMENT_FLAG, AT(quiet)},
        {"--requirements", ARGUMENT_LIST, LIST_AT(set.files, set.n_files)},
        {"--rootfs", ARGUMENT_TEXT, AT(rootfs)},
        {"--store", ARGUMENT_CALL, .take = take_store},
        {"--upgrade", ARGUMENT_FLAG, AT(set.upgrade)},
        {"--with", ARGUMENT_LIST, LIST_AT(set.with, set.n_with)},
};

/* The options of the monitor end at "--"; what follows is the broker's command line. */
static int parse(char **argv, struct monitor_options *o, struct error *err)
{
        while (*argv && strcmp(*argv, "--") != 0) {
                int used = argument_take(arguments, ARRAY_SIZE(arguments), argv, o, err);
                if (used < 0)
                        return used;
                argv += used;
        }
        o->broker = *argv ? argv + 1 : argv;
        return 0;
}

/* Nothing that our caller left open reaches a server or a sandbox. */
static void close_others(const struct monitor_options *o)
{
        int keep[3 + BROKER_PASS_FDS_MAX] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};

        for (size_t i = 0; i < o->n_pass_fds; i++) {
                keep[3 + i] = o->pass_fds[i];
                fd_set_cloexec(o->pass_fds[i], 1);
        }
        child_close_all_but(keep, 3 + o->n_pass_fds);
}

/* A server's log is for programs, unless somebody looks at it. */
static enum log_format choose_format(const struct monitor_options *o)
{
        if (o->log_format >= 0)
                return (enum log_format)o->log_format;
        bool server = monitor_is_server(o);
        return o->log_file || (server && isatty(STDERR_FILENO) != 1) ? LOG_FORMAT_JSON
                                                                     : LOG_FORMAT_TEXT;
}

int main(int argc, char **argv)
{
        struct monitor_options options = {.log_level = -1, .log_format = -1};
        struct error error = {};

        if (argc < 2)
                return usage();
        if (parse(argv + 2, &options, &error) < 0) {
                log_error("%s", error.text);
                return 2;
        }
        close_others(&options);
        if (options.log_level >= 0)
                log_set_level((enum log_level)options.log_level);
        if (log_file_open(options.log_file, choose_format(&options), &error) < 0) {
                log_error("%s", error.text);
                return monitor_failure(&options);
        }
        if (strcmp(argv[1], "serve") == 0 && options.broker[0])
                return monitor_serve(&options);
        if (strcmp(argv[1], "image-build") == 0)
                return monitor_build_image(&options);
        return usage();
}
