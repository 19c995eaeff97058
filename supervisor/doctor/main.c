/* cloister-doctor: parses the arguments that `cloister doctor` passes. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arguments.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log-file.h"
#include "supervisor/config/config-files.h"
#include "supervisor/doctor/attack.h"
#include "supervisor/doctor/doctor.h"

struct options {
        const char *configs[CONFIG_PATHS_MAX];
        size_t n_configs;
        bool attack, json;
        const char *profile, *image, *python, *store;
        int log_level; /* negative: the default */
        const char *log_file;
        int log_format; /* enum log_format */
};

static const struct argument arguments[] = {
        {"--attack", ARGUMENT_FLAG, .offset = offsetof(struct options, attack)},
        {"--config", ARGUMENT_LIST, ARGUMENT_LIST_IN(struct options, configs, n_configs)},
        {"--image", ARGUMENT_TEXT, .offset = offsetof(struct options, image)},
        {"--json", ARGUMENT_FLAG, .offset = offsetof(struct options, json)},
        {"--profile", ARGUMENT_TEXT, .offset = offsetof(struct options, profile)},
        {"--python", ARGUMENT_TEXT, .offset = offsetof(struct options, python)},
        {"--store", ARGUMENT_TEXT, .offset = offsetof(struct options, store)},
        {"--log-file", ARGUMENT_TEXT, .offset = offsetof(struct options, log_file)},
        {"--log-format", ARGUMENT_LOG_FORMAT, .offset = offsetof(struct options, log_format)},
        {"--log-level", ARGUMENT_LOG_LEVEL, .offset = offsetof(struct options, log_level)},
};

static int parse(char **argv, struct options *o, struct error *err)
{
        while (*argv) {
                int used = argument_take(arguments, ARRAY_SIZE(arguments), argv, o, err);
                if (used < 0)
                        return used;
                argv += used;
        }
        return 0;
}

int main(int argc, char **argv)
{
        struct options o = {.log_level = -1, .log_format = LOG_FORMAT_TEXT};
        struct error error = {};

        if (fd_open_standard_streams() < 0)
                return 1;
        if (parse(argv + (argc > 0), &o, &error) < 0) {
                log_error("%s (see 'cloister doctor --help')", error.text);
                return 2;
        }
        if (o.log_level >= 0)
                log_set_level((enum log_level)o.log_level);
        if (log_file_open(o.log_file, (enum log_format)o.log_format, &error) < 0) {
                log_error("%s", error.text);
                return 1;
        }
        if (o.attack) {
                const struct attack_options attack = {o.configs, o.n_configs, o.profile, o.image,
                                                      o.python,  o.store,     o.json};
                return attack_main(&attack);
        }
        return doctor_main(o.json, o.configs, o.n_configs);
}
