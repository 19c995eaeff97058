/* A command of `cloister`, and the table of all of them. */
#pragma once

#include "supervisor/cli/command/options.h"

struct cli_command {
        const char *name;      /* one word, or two: "image build" */
        const char *arguments; /* for the usage line */
        const char *summary;   /* NULL: hidden */
        uint64_t options;      /* CLI_… that it accepts, besides --help */
        size_t words_max;      /* arguments that are not options */
        /* Returns the exit status. */
        int (*run)(const struct options *options, const char *const *words, size_t n_words);
        const char *help; /* paragraphs and examples below the usage line */
};

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
