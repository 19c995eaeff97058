/* A command of `cloister`, and the table of all of them. */
#pragma once

#include "base/error.h"
#include "base/json-out.h"
#include "supervisor/options/options.h"

struct cli_command {
        const char *name;      /* one word, or two: "image build" */
        const char *arguments; /* for the usage line */
        const char *summary;   /* NULL: hidden */
        const uint8_t *options; /* CLI_OPTIONS(CLI_…) that it accepts, besides --help; NULL: none */
        size_t words_max;       /* arguments that are not options */
        /* Returns the exit status. */
        int (*run)(const struct options *options, const char *const *words, size_t n_words);
        const char *help; /* paragraphs and examples below the usage line */
};

/* A list of options. */
#define CLI_OPTIONS(...) ((const uint8_t[]){__VA_ARGS__, OPTION_IDS})

enum { CLI_COMMANDS_MAX = 64 };

struct cli_commands {
        const struct cli_command *rows;
        size_t n; /* at most CLI_COMMANDS_MAX */
};

/* Finds the command that the words start with; *used is how many of them are its name. NULL: not
 * found; the error names the nearest command. */
const struct cli_command *cli_find_command(const struct cli_commands *commands,
                                           const char *const *words, size_t n, size_t *used,
                                           struct error *err);

/* Returns whether the word is the first one of commands with two words. */
bool cli_is_group(const struct cli_commands *commands, const char *word);

/* Checks that the command accepts these options and this many words. */
int cli_check_command(const struct cli_command *command, const struct options *options,
                      size_t n_words, struct error *err);

/* Prints one line on standard error, "cloister: …", with control characters made visible. Returns
 * status. */
int cli_fail(int status, const struct error *err);
int cli_fail_text(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints JSON that was written, and a line break. what: for the error. Returns the exit status. */
int cli_print_json(const struct json_out *out, const char *what);

/* argv without the program's name; all strings are borrowed. The error is one line with the correct form. */
int cli_options_parse(int argc, char **argv, struct options *ret, struct error *err);

/* Returns the name, "--json", of the first of these options (CLI_OPTIONS()) that was given, or NULL. */
const char *cli_option_given(const struct options *options, const uint8_t *of);

/* Returns the next option after `option` (NULL: the first one) that --help of the command shows; command NULL: of any command.
 * NULL: there are no more. */
const struct option *cli_option_next(const struct option *option,
                                     const struct cli_command *command);

enum { OPTION_SPELLING_SIZE = 64 };

/* Writes "-q, --quiet" or "--image NAME". */
void cli_option_spell(const struct option *option, char ret[OPTION_SPELLING_SIZE]);
