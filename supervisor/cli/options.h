/* The options and commands of `cloister`, as tables; options may stand anywhere on the line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/package-set.h"
#include "supervisor/config/config-files.h"

enum { CLI_WORDS_MAX = 16, CLI_INS_MAX = 64 };

enum cli_option {
        CLI_CODE = 1 << 0,
        CLI_CONFIG = 1 << 1,
        CLI_HELP = 1 << 2,
        CLI_IMAGE = 1 << 3,
        CLI_JSON = 1 << 4,
        CLI_LOG_LEVEL = 1 << 5,
        CLI_NAME = 1 << 6,
        CLI_PYTHON = 1 << 7,
        CLI_QUIET = 1 << 8,
        CLI_STORE = 1 << 9,
        CLI_TIMEOUT = 1 << 10,
        CLI_VERBOSE = 1 << 11,
        CLI_VERSION = 1 << 12,
        CLI_SERVER = 1 << 13,
        CLI_LOG_FILE = 1 << 14,
        CLI_LOG_FORMAT = 1 << 15,
        CLI_PROFILE = 1 << 16,
        CLI_DRY_RUN = 1 << 20,
        CLI_SECRETS = 1 << 21,
        CLI_WITH = 1 << 22,
        CLI_REQUIREMENTS = 1 << 23,
        CLI_INSTALLER = 1 << 24,
        CLI_FIND_LINKS = 1 << 25,
        CLI_OFFLINE = 1 << 26,
        CLI_UPGRADE = 1 << 27,
        CLI_ROOTFS = 1 << 28,
        CLI_IN = 1 << 18,
        CLI_OUT = 1 << 19,
        CLI_LINK = 1 << 29,
        CLI_ROUNDS = 1 << 17,
        CLI_QUICK = 1 << 30,
        CLI_ATTACK = 1U << 31,
};
/* The bits that an int does not have. */
#define CLI_OUT_HIDDEN (UINT64_C(1) << 32)
#define CLI_ATTEST     (UINT64_C(1) << 33)
#define CLI_LISTEN     (UINT64_C(1) << 34)
#define CLI_TOKENS     (UINT64_C(1) << 35)
#define CLI_HOST       (UINT64_C(1) << 36)
#define CLI_ORIGIN     (UINT64_C(1) << 37)
#define CLI_NO_BROWSER (UINT64_C(1) << 38)
#define CLI_SCOPE      (UINT64_C(1) << 39)
#define CLI_YES        (UINT64_C(1) << 40)
#define CLI_REMOVE     (UINT64_C(1) << 41)
#define CLI_STRICT     (UINT64_C(1) << 42)
#define CLI_WAIT       (UINT64_C(1) << 52)
#define CLI_WATCH      (UINT64_C(1) << 53)
#define CLI_PROMPT     (UINT64_C(1) << 54)
#define CLI_RECURSIVE  (UINT64_C(1) << 55)

#define CLI_ENV       (UINT64_C(1) << 43)
#define CLI_MOUNT     (UINT64_C(1) << 44)
#define CLI_FILES_KEY (UINT64_C(1) << 45)

enum { CLI_LISTEN_MAX = 4, CLI_NAMES_MAX = 8, CLI_ENV_MAX = 256, CLI_MOUNTS_MAX = 16 };

/* The parsed command line; all strings are borrowed from argv. */
struct cli_options {
        uint64_t given;                   /* CLI_… */
        const char *words[CLI_WORDS_MAX]; /* the command and its arguments */
        size_t n_words;
        char *const *rest; /* of 'run': what is the code's own, from argv */
        size_t n_rest;
        const char *listen[CLI_LISTEN_MAX], *hosts[CLI_NAMES_MAX], *origins[CLI_NAMES_MAX];
        size_t n_listen, n_hosts, n_origins;
        const char *tokens;
        const char *configs[CONFIG_PATHS_MAX];
        size_t n_configs;
        const char *code;
        const char *image;
        const char *log_level;             /* by --log-level or --verbose; NULL: the default */
        const char *log_file, *log_format; /* or NULL */
        const char *name;
        const char *profile;
        const char *ins[CLI_INS_MAX]; /* FILE or FILE=NAME */
        size_t n_ins;
        const char *env[CLI_ENV_MAX]; /* NAME or NAME=VALUE */
        size_t n_env;
        const char *mounts[CLI_MOUNTS_MAX]; /* SOURCE:TARGET, and :ro or :rw */
        size_t n_mounts;
        const char *out; /* a directory */
        const char *python;
        const char *secrets; /* "copy" or "reference"; NULL: not given */
        const char *server;  /* a pid */
        const char *store;
        const char *rootfs;
        const char *link;       /* embed or module; NULL: chosen by the builder */
        struct package_set set; /* file names as given */
        const char *timeout;    /* seconds, or with a unit (policy/quantity.h); 1 ms to 24 h */
        const char *wait;       /* the same, also 0 */
        const char *rounds;     /* a number from 1 to 10000 */
        const char *scope;      /* of OAuth */
};

/* argv without the program's name. The error is one line with the correct form. */
int cli_options_parse(int argc, char **argv, struct cli_options *ret, struct error *err);

/* The name of one option, "--json". */
const char *cli_option_name(uint64_t option);
