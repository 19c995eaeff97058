/* cloister-monitor: started by `cloister`, not by people. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/monitor.h"
#include "supervisor/monitor/process/child.h"

static int usage(void)
{
        fputs("cloister-monitor is started by cloister; see 'cloister --help'.\n", stderr);
        return 2;
}

static int parse_fd(const char *text)
{
        char *end;
        long fd = strtol(text, &end, 10);

        return *end == '\0' && fd >= 64 && fd < 1000 ? (int)fd : -1;
}

enum {
        CONFIG = 1,
        IMAGE,
        PYTHON,
        LOG_LEVEL,
        LOG_FILE,
        LOG_FORMAT,
        PASS_FD,
        STORE,
        QUIET,
        ROOTFS,
        WITH,
        REQUIREMENTS,
        INSTALLER,
        FIND_LINKS,
        OFFLINE,
        UPGRADE,
        PROFILE,
        LINK,
};

/* What the builder is to add to an image. */
static int take_package(struct package_set *set, int option, const char *value)
{
        if (option == WITH && set->n_with < PACKAGE_WITH_MAX)
                set->with[set->n_with++] = value;
        else if (option == REQUIREMENTS && set->n_files < PACKAGE_FILES_MAX)
                set->files[set->n_files++] = value;
        else if (option == INSTALLER)
                set->installer = value;
        else if (option == FIND_LINKS)
                set->find_links = value;
        else if (option == OFFLINE)
                set->offline = true;
        else if (option == UPGRADE)
                set->upgrade = true;
        else
                return -1;
        return 0;
}

static int parse(int argc, char **argv, struct monitor_options *o)
{
        static const struct option options[] = {
                {"config", required_argument, NULL, CONFIG},
                {"image", required_argument, NULL, IMAGE},
                {"name", required_argument, NULL, IMAGE},
                {"python", required_argument, NULL, PYTHON},
                {"profile", required_argument, NULL, PROFILE},
                {"log-level", required_argument, NULL, LOG_LEVEL},
                {"log-file", required_argument, NULL, LOG_FILE},
                {"log-format", required_argument, NULL, LOG_FORMAT},
                {"pass-fd", required_argument, NULL, PASS_FD},
                {"store", required_argument, NULL, STORE},
                {"quiet", no_argument, NULL, QUIET},
                {"rootfs", required_argument, NULL, ROOTFS},
                {"with", required_argument, NULL, WITH},
                {"requirements", required_argument, NULL, REQUIREMENTS},
                {"installer", required_argument, NULL, INSTALLER},
                {"find-links", required_argument, NULL, FIND_LINKS},
                {"offline", no_argument, NULL, OFFLINE},
                {"upgrade", no_argument, NULL, UPGRADE},
                {"link", required_argument, NULL, LINK},
                {},
        };

        for (int c; (c = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
                int level = 0, fd;

                if (c == CONFIG && o->n_configs < MONITOR_CONFIGS_MAX)
                        o->configs[o->n_configs++] = optarg;
                else if (c == IMAGE)
                        o->image = optarg;
                else if (c == PYTHON)
                        o->python = optarg;
                else if (c == PROFILE)
                        o->profile = optarg;
                else if (c == LINK)
                        o->link = optarg;
                else if (c == LOG_LEVEL && (level = log_level_from_name(optarg)) >= 0)
                        o->log_level = level;
                else if (c == LOG_FILE)
                        o->log_file = optarg;
                else if (c == LOG_FORMAT && (level = log_format_from_name(optarg)) >= 0)
                        o->log_format = level;
                else if (c == PASS_FD && o->n_pass_fds < MONITOR_PASS_FDS_MAX &&
                         (fd = parse_fd(optarg)) >= 0)
                        o->pass_fds[o->n_pass_fds++] = fd;
                else if (c == STORE)
                        setenv("CLOISTER_IMAGE_STORE", optarg, 1);
                else if (c == QUIET)
                        o->quiet = true;
                else if (c == ROOTFS)
                        o->rootfs = optarg;
                else if (take_package(&o->set, c, optarg) < 0)
                        return -1;
        }
        o->broker = argv + optind;
        return 0;
}

/* Nothing that our caller left open reaches a server or a sandbox. */
static void close_others(const struct monitor_options *o)
{
        int keep[3 + MONITOR_PASS_FDS_MAX] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};

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
        bool server = o->broker[0] && strcmp(o->broker[0], "mcp") == 0;
        return o->log_file || (server && isatty(STDERR_FILENO) != 1) ? LOG_FORMAT_JSON
                                                                     : LOG_FORMAT_TEXT;
}

int main(int argc, char **argv)
{
        struct monitor_options options = {.log_level = -1, .log_format = -1};
        struct error error = {};

        if (argc < 2 || parse(argc - 1, argv + 1, &options) < 0)
                return usage();
        close_others(&options);
        if (options.log_level >= 0)
                log_set_level((enum log_level)options.log_level);
        if (log_open(options.log_file, choose_format(&options), &error) < 0) {
                log_error("%s", error.text);
                return 1;
        }
        if (strcmp(argv[1], "serve") == 0 && options.broker[0])
                return monitor_serve(&options);
        if (strcmp(argv[1], "image-build") == 0)
                return monitor_build_image(&options);
        return usage();
}
