/* cloister-monitor: started by `cloister`, not by people. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/doctor.h"
#include "supervisor/monitor/monitor.h"

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

static int parse(int argc, char **argv, struct monitor_options *o, bool *json)
{
        enum { CONFIG = 1, IMAGE, PYTHON, LOG_LEVEL, PASS_FD, STORE, QUIET, JSON };
        static const struct option options[] = {
                {"config", required_argument, NULL, CONFIG},
                {"image", required_argument, NULL, IMAGE},
                {"name", required_argument, NULL, IMAGE},
                {"python", required_argument, NULL, PYTHON},
                {"log-level", required_argument, NULL, LOG_LEVEL},
                {"pass-fd", required_argument, NULL, PASS_FD},
                {"store", required_argument, NULL, STORE},
                {"quiet", no_argument, NULL, QUIET},
                {"json", no_argument, NULL, JSON},
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
                else if (c == LOG_LEVEL && (level = log_level_from_name(optarg)) >= 0)
                        log_set_level((enum log_level)level);
                else if (c == PASS_FD && o->n_pass_fds < MONITOR_PASS_FDS_MAX &&
                         (fd = parse_fd(optarg)) >= 0)
                        o->pass_fds[o->n_pass_fds++] = fd;
                else if (c == STORE)
                        setenv("CLOISTER_IMAGE_STORE", optarg, 1);
                else if (c == QUIET)
                        o->quiet = true;
                else if (c == JSON)
                        *json = true;
                else
                        return -1;
        }
        o->broker = argv + optind;
        return 0;
}

/* Nothing that our caller left open reaches a server or a sandbox. */
static void close_others(const struct monitor_options *o)
{
        for (int fd = 3; fd < 1000; fd++) {
                bool passed = false;

                for (size_t i = 0; i < o->n_pass_fds; i++)
                        passed = passed || o->pass_fds[i] == fd;
                if (passed)
                        fd_set_cloexec(fd, 1);
                else
                        close(fd);
        }
        syscall(SYS_close_range, 1000, ~0U, 0);
}

int main(int argc, char **argv)
{
        struct monitor_options options = {};
        bool json = false;

        if (argc < 2 || parse(argc - 1, argv + 1, &options, &json) < 0)
                return usage();
        close_others(&options);
        if (strcmp(argv[1], "serve") == 0 && options.broker[0])
                return monitor_serve(&options);
        if (strcmp(argv[1], "image-build") == 0)
                return monitor_build_image(&options);
        if (strcmp(argv[1], "doctor") == 0)
                return doctor_main(json, options.configs, options.n_configs);
        return usage();
}
