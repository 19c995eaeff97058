/* The command line of `cloister`. Options may stand anywhere on it, until the arguments of the code of 'run'. */
#pragma once

#include "supervisor/options/options.h"

/* argv without the program's name; all strings are borrowed. The error is one line with the correct form. */
int cli_options_parse(int argc, char **argv, struct options *ret, struct error *err);

/* Returns the name of the first of these options (CLI_…), "--json". */
const char *cli_option_name(uint64_t options);

/* Returns the next option after `option` (NULL: the first one) that --help of a command shows, which
 * accepts the options `given`. NULL: there are no more. */
const struct option *cli_option_next(const struct option *option, uint64_t given);

enum { OPTION_SPELLING_SIZE = 64 };

/* Writes "-q, --quiet" or "--image NAME". */
void cli_option_spell(const struct option *option, char ret[OPTION_SPELLING_SIZE]);
