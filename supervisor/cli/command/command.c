/* Finds a command in the table, and checks what it is given. */
#include "supervisor/cli/command/command.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "policy/did-you-mean.h"

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
        const char *nearest = did_you_mean(words[0], names);
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
        uint64_t foreign = options->given & ~(command->options | CLI_HELP);

        if (foreign)
                return error_set(err, EINVAL,
                                 "%s is not an option of '%s' (see 'cloister %s --help')",
                                 cli_option_name(foreign & -foreign), command->name, command->name);
        if (n_words > command->words_max)
                return error_set(
                        err, E2BIG, "'%s' takes %s (see 'cloister %s --help')", command->name,
                        *command->arguments ? command->arguments : "no arguments", command->name);
        return 0;
}
