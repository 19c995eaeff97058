/* cloister-doctor: started by cloister, not by people. */
#include <getopt.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/log.h"
#include "supervisor/doctor/doctor.h"

enum { CONFIGS_MAX = 16 };
enum { CONFIG = 1, JSON, LOG_LEVEL, LOG_FILE, LOG_FORMAT };

struct options {
        const char *configs[CONFIGS_MAX];
        size_t n_configs;
        bool json;
        int log_level; /* negative: the default */
        const char *log_file;
        int log_format; /* enum log_format */
};

static int parse(int argc, char **argv, struct options *o)
{
        static const struct option options[] = {
                {"config", required_argument, NULL, CONFIG},
                {"json", no_argument, NULL, JSON},
                {"log-level", required_argument, NULL, LOG_LEVEL},
                {"log-file", required_argument, NULL, LOG_FILE},
                {"log-format", required_argument, NULL, LOG_FORMAT},
                {},
        };

        for (int c; (c = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
                if (c == CONFIG && o->n_configs < CONFIGS_MAX)
                        o->configs[o->n_configs++] = optarg;
                else if (c == JSON)
                        o->json = true;
                else if (c == LOG_LEVEL && (o->log_level = log_level_from_name(optarg)) >= 0)
                        continue;
                else if (c == LOG_FILE)
                        o->log_file = optarg;
                else if (c == LOG_FORMAT && (o->log_format = log_format_from_name(optarg)) >= 0)
                        continue;
                else
                        return -1;
        }
        return optind == argc ? 0 : -1;
}

int main(int argc, char **argv)
{
        struct options o = {.log_level = -1, .log_format = LOG_FORMAT_TEXT};
        struct error error = {};

        if (fd_open_standard_streams() < 0)
                return 1;
        if (parse(argc, argv, &o) < 0) {
                fputs("cloister-doctor is started by cloister; see 'cloister doctor --help'.\n",
                      stderr);
                return 2;
        }
        if (o.log_level >= 0)
                log_set_level((enum log_level)o.log_level);
        if (log_open(o.log_file, (enum log_format)o.log_format, &error) < 0) {
                log_error("%s", error.text);
                return 1;
        }
        return doctor_main(o.json, o.configs, o.n_configs);
}
