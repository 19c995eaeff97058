/* The options of `cloister`. */
#include "supervisor/cli/options.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "policy/did-you-mean.h"
#include "policy/image.h"
#include "policy/quantity.h"

enum { TIMEOUT_MAX_MS = 24 * 3600 * 1000 };

static const struct option {
        uint64_t id;
        char letter;          /* 0: none */
        const char *name;     /* NULL: only the letter */
        const char *argument; /* NULL: takes none */
        const char *command;  /* NULL: any; else the letter means this after this command's name */
} options[] = {
        {CLI_RECURSIVE, 'r', "--recursive", NULL, "cp"},
        {CLI_CODE, 'c', NULL, "CODE"},
        {CLI_CONFIG, 0, "--config", "FILE"},
        {CLI_HELP, 'h', "--help", NULL},
        {CLI_IMAGE, 0, "--image", "NAME"},
        {CLI_JSON, 0, "--json", NULL},
        {CLI_LOG_LEVEL, 0, "--log-level", "LEVEL"},
        {CLI_NAME, 0, "--name", "NAME"},
        {CLI_PROFILE, 0, "--profile", "NAME"},
        {CLI_PYTHON, 0, "--python", "PATH"},
        {CLI_QUIET, 'q', "--quiet", NULL},
        {CLI_STORE, 0, "--store", "DIRECTORY"},
        {CLI_TIMEOUT, 0, "--timeout", "TIME"},
        {CLI_VERBOSE, 'v', "--verbose", NULL},
        {CLI_VERSION, 'V', "--version", NULL},
        {CLI_SERVER, 0, "--server", "PID"},
        {CLI_LOG_FILE, 0, "--log-file", "FILE"},
        {CLI_LOG_FORMAT, 0, "--log-format", "FORMAT"},
        {CLI_DRY_RUN, 0, "--dry-run", NULL},
        {CLI_SECRETS, 0, "--secrets", "HOW"},
        {CLI_WITH, 0, "--with", "PACKAGES"},
        {CLI_REQUIREMENTS, 'r', "--requirements", "FILE"},
        {CLI_INSTALLER, 0, "--installer", "NAME"},
        {CLI_FILES_KEY, 0, "--files-key", "KEY"},
        {CLI_FIND_LINKS, 0, "--find-links", "DIRECTORY"},
        {CLI_OFFLINE, 0, "--offline", NULL},
        {CLI_UPGRADE, 0, "--upgrade", NULL},
        {CLI_ROOTFS, 0, "--rootfs", "DIRECTORY"},
        {CLI_IN, 0, "--in", "FILE"},
        {CLI_OUT, 0, "--out", "DIRECTORY"},
        {CLI_OUT_HIDDEN, 0, "--out-hidden", NULL},
        {CLI_LINK, 0, "--link", "WAY"},
        {CLI_ROUNDS, 0, "--rounds", "N"},
        {CLI_QUICK, 0, "--quick", NULL},
        {CLI_ATTACK, 0, "--attack", NULL},
        {CLI_ATTEST, 0, "--attest", NULL},
        {CLI_LISTEN, 0, "--listen", "ADDRESS"},
        {CLI_TOKENS, 0, "--tokens", "FILE"},
        {CLI_HOST, 0, "--allow-host", "NAME"},
        {CLI_ORIGIN, 0, "--allow-origin", "ORIGIN"},
        {CLI_NO_BROWSER, 0, "--no-browser", NULL},
        {CLI_SCOPE, 0, "--scope", "SCOPES"},
        {CLI_YES, 'y', "--yes", NULL},
        {CLI_REMOVE, 0, "--remove", NULL},
        {CLI_STRICT, 0, "--strict", NULL},
        {CLI_ENV, 0, "--env", "NAME"},
        {CLI_MOUNT, 0, "--mount", "SOURCE:TARGET"},
        {CLI_WAIT, 0, "--wait", "TIME"},
        {CLI_WATCH, 0, "--watch", NULL},
        {CLI_PROMPT, 'i', "--interactive", NULL},
};

const char *cli_option_name(uint64_t option)
{
        for (size_t i = 0; i < ARRAY_SIZE(options); i++)
                if (options[i].id == option)
                        return options[i].name ? options[i].name : "-c";
        return "";
}

static int unknown(const char *word, size_t length, struct error *err)
{
        const char *names[ARRAY_SIZE(options) + 1] = {};
        char name[64] = "";

        for (size_t i = 0, n = 0; i < ARRAY_SIZE(options); i++)
                if (options[i].name)
                        names[n++] = options[i].name + 2;
        if (length < sizeof(name) + 2 && length > 2)
                memcpy(name, word + 2, length - 2);
        const char *nearest = did_you_mean(name, names);
        if (nearest && word[1] == '-')
                return error_set(err, EINVAL, "unknown option %.*s: did you mean --%s?",
                                 (int)length, word, nearest);
        return error_set(err, EINVAL, "unknown option %.*s (see 'cloister --help')", (int)length,
                         word);
}

static int check_timeout(const char *text, struct error *err)
{
        uint32_t ms = 0;
        int r = quantity_milliseconds_of(text, &ms);

        if (r == -EINVAL)
                return error_set(err, EINVAL,
                                 "--timeout %s: a time is needed: seconds, or 500ms, 2m, 1h", text);
        if (r < 0 || ms == 0 || ms > TIMEOUT_MAX_MS)
                return error_set(err, EINVAL, "--timeout %s: from 1ms to 24h is possible", text);
        return 0;
}

static int check_wait(const char *text, struct error *err)
{
        uint32_t ms = 0;

        if (quantity_milliseconds_of(text, &ms) < 0 || ms > TIMEOUT_MAX_MS)
                return error_set(
                        err, EINVAL,
                        "--wait %s: a time of at most 24h is needed: seconds, or 500ms, 2m, 1h",
                        text);
        return 0;
}

static int check_rounds(const char *text, struct error *err)
{
        if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 5 || atoi(text) < 1 ||
            atoi(text) > 10000)
                return error_set(err, EINVAL, "--rounds %s: a number from 1 to 10000 is needed",
                                 text);
        return 0;
}

static int check_level(const char *text, struct error *err)
{
        if (log_level_from_name(text) < 0)
                return error_set(err, EINVAL,
                                 "--log-level %s: error, warning, info or debug is needed", text);
        return 0;
}

static int check_format(const char *text, struct error *err)
{
        if (log_format_from_name(text) < 0)
                return error_set(err, EINVAL, "--log-format %s: text or json is needed", text);
        return 0;
}

static int check_name(const char *option, const char *text, struct error *err)
{
        if (!image_name_valid(text))
                return error_set(
                        err, EINVAL,
                        "%s %s: an image's name has letters, digits, _ . and -, 64 at most", option,
                        text);
        return 0;
}

static int add_config(struct cli_options *o, const char *value, struct error *err)
{
        if (o->n_configs == CONFIG_PATHS_MAX)
                return error_set(
                        err, EINVAL,
                        "--config %s: at most %d can be named; put the files into one directory and name that",
                        value, CONFIG_PATHS_MAX);
        o->configs[o->n_configs++] = value;
        return 0;
}

static int add_packages(struct package_set *set, const char *value, struct error *err)
{
        if (set->n_with == PACKAGE_WITH_MAX)
                return error_set(err, EINVAL,
                                 "--with %s: at most %d; several packages fit into one, --with a,b",
                                 value, PACKAGE_WITH_MAX);
        set->with[set->n_with++] = value;
        int r = package_check(value, err);
        return r < 0 ? error_context(err, "--with") : 0;
}

static int add_requirements(struct package_set *set, const char *value, struct error *err)
{
        if (set->n_files == PACKAGE_FILES_MAX)
                return error_set(
                        err, EINVAL,
                        "--requirements %s: at most %d files; one file can include others with a line '-r FILE'",
                        value, PACKAGE_FILES_MAX);
        set->files[set->n_files++] = value;
        return 0;
}

static int check_installer(const char *text, struct error *err)
{
        if (strcmp(text, "pip") != 0 && strcmp(text, "uv") != 0)
                return error_set(err, EINVAL, "--installer %s: pip or uv is needed", text);
        return 0;
}

/* Options about packages. */
static int add_name(const char *option, const char *value, const char **list, size_t *n,
                    size_t most, struct error *err)
{
        if (*n == most)
                return error_set(err, EINVAL, "%s %s: at most %zu are taken", option, value, most);
        list[(*n)++] = value;
        return 0;
}

static int take_http(struct cli_options *o, uint64_t option, const char *value, struct error *err)
{
        switch (option) {
        case CLI_LISTEN:
                return add_name("--listen", value, o->listen, &o->n_listen, CLI_LISTEN_MAX, err);
        case CLI_HOST:
                return add_name("--allow-host", value, o->hosts, &o->n_hosts, CLI_NAMES_MAX, err);
        case CLI_ORIGIN:
                return add_name("--allow-origin", value, o->origins, &o->n_origins, CLI_NAMES_MAX,
                                err);
        case CLI_TOKENS:
                o->tokens = value;
                return 0;
        case CLI_ENV:
                return add_name("--env", value, o->env, &o->n_env, CLI_ENV_MAX, err);
        case CLI_MOUNT:
                return add_name("--mount", value, o->mounts, &o->n_mounts, CLI_MOUNTS_MAX, err);
        case CLI_SCOPE:
                o->scope = value;
                return 0;
        case CLI_WAIT:
                o->wait = value;
                return check_wait(value, err);
        default:
                return 0;
        }
}

static int take_package(struct cli_options *o, uint64_t option, const char *value,
                        struct error *err)
{
        switch (option) {
        case CLI_WITH:
                return add_packages(&o->set, value, err);
        case CLI_REQUIREMENTS:
                return add_requirements(&o->set, value, err);
        case CLI_INSTALLER:
                o->set.installer = value;
                return check_installer(value, err);
        case CLI_FILES_KEY:
                o->set.files_key = value;
                return 0;
        case CLI_FIND_LINKS:
                o->set.find_links = value;
                return 0;
        case CLI_OFFLINE:
                o->set.offline = true;
                return 0;
        case CLI_UPGRADE:
                o->set.upgrade = true;
                return 0;
        case CLI_LINK:
                o->link = value;
                if (image_link_parse(value) < 0)
                        return error_set(err, EINVAL, "--link %s: embed or module is needed",
                                         value);
                return 0;
        case CLI_ROOTFS:
                o->rootfs = value;
                return 0;
        default:
                return take_http(o, option, value, err);
        }
}

static int take(struct cli_options *o, const struct option *option, const char *value,
                struct error *err)
{
        bool again = o->given & option->id;

        assert(value || !option->argument);

        o->given |= option->id;
        if (option->argument && value[0] == '\0' && option->id != CLI_CODE)
                return error_set(err, EINVAL, "%s needs a %s", cli_option_name(option->id),
                                 option->argument);
        switch (option->id) {
        case CLI_CODE:
                o->code = value;
                return again ? error_set(err, EINVAL, "-c is given twice") : 0;
        case CLI_CONFIG:
                return add_config(o, value, err);
        case CLI_PROFILE:
                o->profile = value;
                return 0;
        case CLI_IMAGE:
                o->image = value;
                return check_name("--image", value, err);
        case CLI_LOG_LEVEL:
                o->log_level = value;
                return check_level(value, err);
        case CLI_LOG_FILE:
                o->log_file = value;
                return 0;
        case CLI_LOG_FORMAT:
                o->log_format = value;
                return check_format(value, err);
        case CLI_NAME:
                o->name = value;
                return check_name("--name", value, err);
        case CLI_PYTHON:
                o->python = value;
                return 0;
        case CLI_SECRETS:
                o->secrets = value;
                if (strcmp(value, "copy") != 0 && strcmp(value, "reference") != 0)
                        return error_set(err, EINVAL, "--secrets %s: copy or reference is needed",
                                         value);
                return 0;
        case CLI_IN:
                if (o->n_ins == CLI_INS_MAX)
                        return error_set(err, EINVAL,
                                         "--in %s: at most %d files; pack them into one archive",
                                         value, CLI_INS_MAX);
                o->ins[o->n_ins++] = value;
                return 0;
        case CLI_OUT:
                o->out = value;
                return again ? error_set(err, EINVAL, "--out is given twice") : 0;
        case CLI_SERVER:
                o->server = value;
                return 0;
        case CLI_STORE:
                o->store = value;
                return 0;
        case CLI_TIMEOUT:
                o->timeout = value;
                return check_timeout(value, err);
        case CLI_ROUNDS:
                o->rounds = value;
                return check_rounds(value, err);
        case CLI_VERBOSE:
                o->log_level = again ? "debug" : "info";
                return 0;
        default:
                return take_package(o, option->id, value, err);
        }
}

/* Finds the option of "--name", "--name=value", "-c" or "-cvalue". *value is the value in the same
 * word, or NULL. */
static const struct option *find(const struct cli_options *given, const char *word, size_t *length,
                                 const char **value)
{
        const char *command = given->n_words > 0 ? given->words[0] : "";
        bool is_long = word[1] == '-';
        *length = is_long ? strcspn(word, "=") : 2;
        *value = word[*length] == '\0' ? NULL : word + *length + is_long;
        for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
                const struct option *o = &options[i];
                if (is_long && o->name && strlen(o->name) == *length &&
                    strncmp(word, o->name, *length) == 0)
                        return o;
                if (!is_long && o->letter == word[1] &&
                    (!o->command || strcmp(o->command, command) == 0))
                        return o;
        }
        return NULL;
}

/* Returns how many words the option consumed. */
static int take_option(int argc, char **argv, struct cli_options *o, struct error *err)
{
        const char *value = NULL;
        size_t length = 0;
        const struct option *option = find(o, argv[0], &length, &value);

        if (!option)
                return unknown(argv[0], length, err);
        if (!option->argument && value)
                return error_set(err, EINVAL, "%s takes no value", cli_option_name(option->id));
        int used = 1;
        if (option->argument && !value) {
                if (argc < 2)
                        return error_set(err, EINVAL, "%s needs a %s", cli_option_name(option->id),
                                         option->argument);
                value = argv[1];
                used = 2;
        }
        int r = take(o, option, value, err);
        return r < 0 ? r : used;
}

/* Of `cloister run`, what follows the script is the script's, as for python and env. With -c, that is
 * the first word that is no option, and all after it. */
static bool ends_options(const struct cli_options *o)
{
        size_t n = o->code ? 1 : 2;

        return o->n_words == n && strcmp(o->words[0], "run") == 0;
}

int cli_options_parse(int argc, char **argv, struct cli_options *ret, struct error *err)
{
        struct cli_options o = {};
        bool only_words = false;

        for (int i = 0; i < argc;) {
                bool is_word = only_words || argv[i][0] != '-' || argv[i][1] == '\0';
                if (ends_options(&o) && (is_word || !o.code)) {
                        o.rest = argv + i;
                        o.n_rest = (size_t)(argc - i);
                        break;
                }
                if (!only_words && strcmp(argv[i], "--") == 0) {
                        only_words = true;
                        i++;
                } else if (is_word) {
                        if (o.n_words == CLI_WORDS_MAX)
                                return error_set(err, E2BIG, "too many arguments: %s", argv[i]);
                        o.words[o.n_words++] = argv[i++];
                } else {
                        int used = take_option(argc - i, argv + i, &o, err);
                        if (used < 0)
                                return used;
                        i += used;
                }
        }
        *ret = o;
        return 0;
}
