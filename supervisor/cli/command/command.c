/* Finds a command in the table, and checks what it is given. */
#include "supervisor/cli/command/command.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "policy/did-you-mean.h"
#include "policy/image.h"

int cli_fail(int status, const struct error *err)
{
        bool red = isatty(STDERR_FILENO) == 1;

        fprintf(stderr, "%scloister:%s ", red ? "\033[31m" : "", red ? "\033[0m" : "");
        /* The text may contain names that others chose: none controls the terminal or forges a line. */
        printable_print(stderr, err->text);
        fputc('\n', stderr);
        return status;
}

int cli_fail_text(int status, const char *format, ...)
{
        struct error error = {};
        va_list args;

        va_start(args, format);
        vsnprintf(error.text, sizeof(error.text), format, args);
        va_end(args);
        return cli_fail(status, &error);
}

int cli_print_json(const struct json_out *out, const char *what)
{
        if (out->error < 0)
                return cli_fail_text(1, "%s: %s", what, strerror(-out->error));
        return printf("%.*s\n", (int)out->to->length, buffer_bytes(out->to)) < 0;
}

enum { TIMEOUT_MAX_MS = 24 * 3600 * 1000, ROUNDS_MAX = 10000 };

static const char *name_of(const struct option *option)
{
        return option->name ? option->name : "-c";
}

const char *cli_option_given(const struct options *options, const uint8_t *of)
{
        for (; *of != OPTION_IDS; of++)
                if (options->given[*of])
                        return name_of(&option_rows[*of]);
        return NULL;
}

static bool accepts(const struct cli_command *command, size_t id)
{
        for (const uint8_t *of = command->options; of && *of != OPTION_IDS; of++)
                if (*of == id)
                        return true;
        return id == CLI_HELP;
}

const struct option *cli_option_next(const struct option *option, const struct cli_command *command)
{
        for (size_t i = option ? (size_t)(option - option_rows) + 1 : 0; i < OPTION_IDS; i++)
                if (option_rows[i].text && (!command || accepts(command, i)))
                        return &option_rows[i];
        return NULL;
}

void cli_option_spell(const struct option *option, char ret[OPTION_SPELLING_SIZE])
{
        const char letter[] = {'-', option->letter, '\0'};

        snprintf(ret, OPTION_SPELLING_SIZE, "%s%s%s%s%s", option->letter ? letter : "",
                 option->letter && option->name ? ", " : "", option->name ? option->name : "",
                 option->argument ? " " : "", option->argument ? option->argument : "");
}

static int unknown(const char *word, size_t length, struct error *err)
{
        const char *names[OPTION_IDS + 1] = {};
        char name[64] = "";

        for (size_t i = 0, n = 0; i < OPTION_IDS; i++)
                if (option_rows[i].is_user && option_rows[i].name)
                        names[n++] = option_rows[i].name + 2;
        if (length < sizeof(name) + 2 && length > 2)
                memcpy(name, word + 2, length - 2);
        const char *nearest = did_you_mean(name, names);
        if (nearest && word[1] == '-')
                return error_set(err, EINVAL, "unknown option %.*s: did you mean --%s?",
                                 (int)length, word, nearest);
        return error_set(err, EINVAL, "unknown option %.*s (see 'cloister --help')", (int)length,
                         word);
}

/* An argument is needed: without the part in [] that may be left out. */
static int incomplete(const struct option *option, struct error *err)
{
        return error_set(err, EINVAL, "%s needs a %.*s", name_of(option),
                         (int)strcspn(option->argument, "["), option->argument);
}

static bool is_one_of(const char *value, const char *a, const char *b)
{
        return strcmp(value, a) == 0 || strcmp(value, b) == 0;
}

/* Checks a value that is only for some commands. */
static int check(enum option_id id, const char *name, const char *value, struct error *err)
{
        const char *needed = NULL;

        switch (id) {
        case OPTION_ID_IMAGE:
        case OPTION_ID_NAME:
                if (!image_name_valid(value))
                        needed = "an image's name has letters, digits, _ . and -, 64 at most";
                break;
        case OPTION_ID_ANSWER:
                if (!options_have_word(OPTION_ANSWERS, value))
                        needed = "once, cell, session, always or no is needed";
                break;
        case OPTION_ID_LABEL:
                if (!options_have_word(OPTION_LABELS, value))
                        needed = "private or untrusted is needed";
                break;
        case OPTION_ID_ROWS:
                if (strspn(value, "0123456789-,") != strlen(value))
                        needed = "numbers such as 1-12,15 are needed";
                break;
        case OPTION_ID_INSTALLER:
                if (!is_one_of(value, "pip", "uv"))
                        needed = "pip or uv is needed";
                break;
        case OPTION_ID_LINK:
                if (image_link_parse(value) < 0)
                        needed = "embed or module is needed";
                break;
        case OPTION_ID_ROUNDS:
                if (strspn(value, "0123456789") != strlen(value) || strlen(value) > 5 ||
                    atoi(value) < 1 || atoi(value) > ROUNDS_MAX)
                        needed = "a number from 1 to 10000 is needed";
                break;
        case OPTION_ID_SECRETS:
                if (!is_one_of(value, "copy", "reference"))
                        needed = "copy or reference is needed";
                break;
        case OPTION_ID_WITH:
                return package_check(value, err) < 0 ? error_context(err, "--with") : 0;
        case OPTION_ID_NPM:
                return npm_check(value, err) < 0 ? error_context(err, "--npm") : 0;
        default:
                break;
        }
        return needed ? error_set(err, EINVAL, "%s %s: %s", name, value, needed) : 0;
}

/* r: what option_set() returned. */
static int check_time(const struct option *option, const char *value, uint32_t ms, int r,
                      struct error *err)
{
        bool may_be_none = strcmp(option->name, "--wait") == 0;

        if (r == -EINVAL)
                return error_set(err, EINVAL, "%s %s: a time is needed: seconds, or 500ms, 2m, 1h",
                                 option->name, value);
        if (r < 0 || (ms == 0 && !may_be_none) || ms > TIMEOUT_MAX_MS)
                return error_set(err, EINVAL, "%s %s: from %s to 24h is possible", option->name,
                                 value, may_be_none ? "0" : "1ms");
        return 0;
}

static int take(struct options *o, const struct option *option, const char *value,
                struct error *err)
{
        enum option_id id = (enum option_id)(option - option_rows);

        assert(value || !option->argument);
        o->given[id] = true;
        if (option->argument && value[0] == '\0' && id != OPTION_ID_CODE)
                return incomplete(option, err);
        int r = option_set(option, value, o);
        if (option->kind == OPTION_TIME)
                return check_time(option, value,
                                  *(const uint32_t *)((const char *)o + option->offset), r, err);
        if (r == -EEXIST)
                return error_set(err, EINVAL, "%s is given twice", name_of(option));
        if (r == -E2BIG)
                return error_set(err, EINVAL, "%s %s: at most %zu can be given%s", option->name,
                                 value, option->most, option->advice);
        if (r < 0)
                return error_set(
                        err, EINVAL, "%s %s: %.*s is needed", option->name, value,
                        (int)(strcspn(option->text, "(") - (strchr(option->text, '(') != NULL)),
                        option->text);
        return check(id, option->name, value, err);
}

/* -r has another meaning after `cp`. */
static bool has_letter(const struct option *option, char letter, bool is_cp)
{
        if (option == &option_rows[OPTION_ID_RECURSIVE] ||
            option == &option_rows[OPTION_ID_REQUIREMENTS])
                return letter == 'r' && is_cp == (option == &option_rows[OPTION_ID_RECURSIVE]);
        return option->letter == letter;
}

/* Finds the option of "--name", "--name=value", "-c" or "-cvalue". *value is the value in the same
 * word, or NULL. */
static const struct option *find(const struct options *given, const char *word, size_t *length,
                                 const char **value)
{
        bool is_cp = given->n_words > 0 && strcmp(given->words[0], "cp") == 0;
        bool is_long = word[1] == '-';

        *length = is_long ? strcspn(word, "=") : 2;
        *value = word[*length] == '\0' ? NULL : word + *length + is_long;
        for (size_t i = 0; i < OPTION_IDS; i++) {
                const struct option *o = &option_rows[i];
                if (!o->is_user)
                        continue;
                if (is_long && o->name && strlen(o->name) == *length &&
                    strncmp(word, o->name, *length) == 0)
                        return o;
                if (!is_long && has_letter(o, word[1], is_cp))
                        return o;
        }
        return NULL;
}

/* Returns how many words the option consumed. */
static int take_option(int argc, char **argv, struct options *o, struct error *err)
{
        const char *value = NULL;
        size_t length = 0;
        const struct option *option = find(o, argv[0], &length, &value);

        if (!option)
                return unknown(argv[0], length, err);
        if (!option->argument && value)
                return error_set(err, EINVAL, "%s takes no value", name_of(option));
        int used = 1;
        if (option->argument && !value) {
                if (argc < 2)
                        return incomplete(option, err);
                value = argv[1];
                used = 2;
        }
        int r = take(o, option, value, err);
        return r < 0 ? r : used;
}

/* The words that follow the script of `cloister run` are the script's, as for python and env. With -c, that
 * is the first word that is not an option, and all words after it. */
static bool ends_options(const struct options *o)
{
        size_t n = o->code ? 1 : 2;

        return o->n_words == n && strcmp(o->words[0], "run") == 0;
}

int cli_options_parse(int argc, char **argv, struct options *ret, struct error *err)
{
        struct options o;
        bool only_words = false;

        options_init(&o);
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
                        if (o.n_words == OPTION_WORDS_MAX)
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

/* Returns how many of the words are the command's name: 0, 1 or 2. */
static size_t matches(const struct cli_command *command, const char *const *words, size_t n)
{
        const char *space = strchr(command->name, ' ');

        if (!space)
                return n > 0 && strcmp(words[0], command->name) == 0;
        size_t first = (size_t)(space - command->name);
        return n > 1 && strlen(words[0]) == first && strncmp(words[0], command->name, first) == 0 &&
                               strcmp(words[1], space + 1) == 0
                       ? 2
                       : 0;
}

bool cli_is_group(const struct cli_commands *all, const char *word)
{
        size_t n = strlen(word);

        for (size_t i = 0; i < all->n; i++)
                if (strncmp(all->rows[i].name, word, n) == 0 && all->rows[i].name[n] == ' ')
                        return true;
        return false;
}

static int not_found_in_group(const struct cli_commands *all, const char *const *words, size_t n,
                              struct error *err)
{
        const char *names[CLI_COMMANDS_MAX + 1] = {};
        size_t length = strlen(words[0]);

        for (size_t i = 0, k = 0; i < all->n; i++)
                if (strncmp(all->rows[i].name, words[0], length) == 0 &&
                    all->rows[i].name[length] == ' ')
                        names[k++] = all->rows[i].name + length + 1;
        if (n < 2)
                return error_set(err, EINVAL, "%s needs a command (see 'cloister %s --help')",
                                 words[0], words[0]);
        const char *nearest = did_you_mean(words[1], names);
        if (nearest)
                return error_set(err, EINVAL, "unknown command '%s %s': did you mean '%s %s'?",
                                 words[0], words[1], words[0], nearest);
        return error_set(err, EINVAL, "unknown command '%s %s' (see 'cloister %s --help')",
                         words[0], words[1], words[0]);
}

/* The command of a group that has this name, or NULL. */
static const char *in_some_group(const struct cli_commands *all, const char *word)
{
        for (size_t i = 0; i < all->n; i++) {
                const char *name = strchr(all->rows[i].name, ' ');
                if (name && strcmp(name + 1, word) == 0 && all->rows[i].summary)
                        return all->rows[i].name;
        }
        return NULL;
}

static int not_found(const struct cli_commands *all, const char *const *words, size_t n,
                     struct error *err)
{
        const char *names[CLI_COMMANDS_MAX + 3] = {"image", "config"};

        if (cli_is_group(all, words[0]))
                return not_found_in_group(all, words, n, err);
        if (access(words[0], R_OK) == 0 && strchr(words[0], '.'))
                return error_set(err, EINVAL,
                                 "'%s' is not a command: to run the file, use 'cloister run %s'",
                                 words[0], words[0]);
        for (size_t i = 0, k = 2; i < all->n; i++)
                if (all->rows[i].summary)
                        names[k++] = all->rows[i].name;
        const char *nearest = in_some_group(all, words[0]);
        if (!nearest)
                nearest = did_you_mean(words[0], names);
        if (nearest)
                return error_set(err, EINVAL, "unknown command '%s': did you mean '%s'?", words[0],
                                 nearest);
        return error_set(err, EINVAL, "unknown command '%s' (see 'cloister --help')", words[0]);
}

const struct cli_command *cli_find_command(const struct cli_commands *all, const char *const *words,
                                           size_t n, size_t *used, struct error *err)
{
        for (size_t i = 0; i < all->n; i++) {
                *used = matches(&all->rows[i], words, n);
                if (*used > 0)
                        return &all->rows[i];
        }
        not_found(all, words, n, err);
        return NULL;
}

int cli_check_command(const struct cli_command *command, const struct options *options,
                      size_t n_words, struct error *err)
{
        for (size_t i = 0; i < OPTION_IDS; i++)
                if (options->given[i] && !accepts(command, i) && i != CLI_VERSION)
                        return error_set(err, EINVAL,
                                         "%s is not an option of '%s' (see 'cloister %s --help')",
                                         name_of(&option_rows[i]), command->name, command->name);
        if (n_words > command->words_max)
                return error_set(
                        err, E2BIG, "'%s' takes %s (see 'cloister %s --help')", command->name,
                        *command->arguments ? command->arguments : "no arguments", command->name);
        return 0;
}
