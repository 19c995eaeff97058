/*
 * Completion scripts, generated from the table of commands.
 *
 * bash gets a function that contains all words. zsh runs the same function through its bashcompinit
 * (zshcompsys(1)). fish gets one line for each option.
 */
#include "supervisor/cli/completion.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/cli/config/old-command.h"
#include "supervisor/cli/images/images.h"
#include "supervisor/cli/sessions/sessions.h"

/* How an argument of this name is completed: an action of compgen, or one of ours. */
static const char *action_of(const char *argument)
{
        static const char *const actions[][2] = {
                {"FILE", "file"},     {"PATH", "file"},     {"DIRECTORY", "directory"},
                {"PYTHON", "file"},   {"DIR", "directory"}, {"LEVEL", "level"},
                {"FORMAT", "format"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
                if (strcmp(actions[i][0], argument) == 0)
                        return actions[i][1];
        return "nothing";
}

/* The long or only name. */
static const char *name_of(const struct option *option)
{
        static char letter[3] = "-";

        letter[1] = option->letter;
        return option->name ? option->name : letter;
}

static const char *option_action(const struct option *option)
{
        static const struct {
                enum option_id id;
                const char *action;
        } own[] = {
                {OPTION_ID_REPLACE, "systems"},  {OPTION_ID_IMAGE, "images"},
                {OPTION_ID_SESSION, "sessions"}, {OPTION_ID_ANSWER, "answers"},
                {OPTION_ID_KIND, "kinds"},       {OPTION_ID_LABEL, "labels"},
                {OPTION_ID_SEEN, "labels"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(own); i++)
                if (option == &option_rows[own[i].id])
                        return own[i].action;
        return action_of(option->argument);
}

static const char *command_action(const struct cli_command *command)
{
        if (strncmp(command->name, "sessions ", 9) == 0 || strcmp(command->name, "exec") == 0)
                return "sessions";
        if (strncmp(command->name, "image ", 6) == 0 && command->words_max > 0)
                return "images";
        return strcmp(command->name, "completion") == 0 ? "shells"
               : strcmp(command->name, "help") == 0     ? "commands"
               : command->words_max > 0                 ? "file"
                                                        : "nothing";
}

static bool is_first_with(const struct cli_commands *all, size_t at, size_t length)
{
        for (size_t i = 0; i < at; i++)
                if (strncmp(all->rows[i].name, all->rows[at].name, length) == 0 &&
                    (all->rows[i].name[length] == ' ' || all->rows[i].name[length] == '\0'))
                        return false;
        return true;
}

/* Prints the first word of each visible command, without repetitions. */
static void print_first_words(const struct cli_commands *all)
{
        bool begun = false;

        for (size_t i = 0; i < all->n; i++) {
                size_t n = strcspn(all->rows[i].name, " ");
                if (!all->rows[i].summary || !is_first_with(all, i, n))
                        continue;
                printf("%s%.*s", begun ? " " : "", (int)n, all->rows[i].name);
                begun = true;
        }
}

static void print_second_words(const struct cli_commands *all, const char *first)
{
        size_t n = strlen(first);
        bool begun = false;

        for (size_t i = 0; i < all->n; i++) {
                const char *name = all->rows[i].name;
                if (strncmp(name, first, n) != 0 || name[n] != ' ' || !all->rows[i].summary)
                        continue;
                printf("%s%s", begun ? " " : "", name + n + 1);
                begun = true;
        }
}

static void bash_options(const struct cli_command *command)
{
        printf("        '%s') action=%s options='", command->name, command_action(command));
        for (const struct option *o = NULL; (o = cli_option_next(o, command));)
                printf("%s ", name_of(o));
        puts("' ;;");
}

/* Prints how the argument of each option is completed. An option means the same in each command. */
static void bash_arguments(void)
{
        for (const struct option *o = NULL; (o = cli_option_next(o, NULL));)
                if (o->argument)
                        printf("        '%s') action=%s ;;\n", name_of(o), option_action(o));
}

static void bash_groups(const struct cli_commands *all)
{
        for (size_t i = 0; i < all->n; i++) {
                size_t n = strcspn(all->rows[i].name, " ");
                char first[64];
                if (!all->rows[i].summary || all->rows[i].name[n] != ' ' ||
                    (i > 0 && strncmp(all->rows[i - 1].name, all->rows[i].name, n + 1) == 0))
                        continue;
                snprintf(first, sizeof(first), "%.*s", (int)n, all->rows[i].name);
                printf("        '%s') seconds='", first);
                print_second_words(all, first);
                puts("' ;;");
        }
}

static void print_bash(const struct cli_commands *all)
{
        fputs("# Completion of cloister for bash.\n"
              "_cloister() {\n"
              "    local word=${COMP_WORDS[COMP_CWORD]} before= first= second= seconds= command= action=nothing options= i\n"
              "    COMPREPLY=()\n"
              "    [ \"$COMP_CWORD\" -gt 0 ] && before=${COMP_WORDS[COMP_CWORD-1]}\n"
              "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
              "        case ${COMP_WORDS[i]} in -*) continue ;; esac\n"
              "        if [ -z \"$first\" ]; then first=${COMP_WORDS[i]}\n"
              "        elif [ -z \"$second\" ]; then second=${COMP_WORDS[i]}; fi\n"
              "    done\n"
              "    case $first in\n",
              stdout);
        bash_groups(all);
        fputs("    esac\n"
              "    command=$first\n"
              "    case \" $seconds \" in *\" $second \"*) [ -z \"$second\" ] || command=\"$first $second\" ;; esac\n"
              "    case $command in\n",
              stdout);
        for (size_t i = 0; i < all->n; i++)
                if (all->rows[i].summary)
                        bash_options(&all->rows[i]);
        fputs("    esac\n"
              "    case $word in -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")); return ;; esac\n"
              "    case $before in\n",
              stdout);
        bash_arguments();
        fputs("    *)\n"
              "        if [ -z \"$first\" ]; then action=commands; fi\n"
              "        if [ \"$first\" = \"$before\" ] && [ -n \"$seconds\" ]; then action=seconds; fi ;;\n"
              "    esac\n"
              "    case $action in\n"
              "        file) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
              "        directory) COMPREPLY=($(compgen -d -- \"$word\")) ;;\n"
              "        images | sessions | systems) COMPREPLY=($(compgen -W \"$(cloister names $action 2>/dev/null)\" -- \"$word\")) ;;\n"
              "        answers) COMPREPLY=($(compgen -W '" OPTION_ANSWERS "' -- \"$word\")) ;;\n"
              "        kinds) COMPREPLY=($(compgen -W '" OPTION_KINDS "' -- \"$word\")) ;;\n"
              "        labels) COMPREPLY=($(compgen -W '" OPTION_LABELS "' -- \"$word\")) ;;\n"
              "        level) COMPREPLY=($(compgen -W 'error warning info debug' -- \"$word\")) ;;\n"
              "        format) COMPREPLY=($(compgen -W 'text json' -- \"$word\")) ;;\n"
              "        shells) COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$word\")) ;;\n"
              "        seconds) COMPREPLY=($(compgen -W \"$seconds\" -- \"$word\")) ;;\n"
              "        commands) COMPREPLY=($(compgen -W '",
              stdout);
        print_first_words(all);
        fputs("' -- \"$word\")) ;;\n"
              "    esac\n"
              "}\n"
              "complete -o filenames -F _cloister cloister\n",
              stdout);
}

static void print_zsh(const struct cli_commands *all)
{
        puts("#compdef cloister\n"
             "# Completion of cloister for zsh: bash's, by bashcompinit.\n"
             "autoload -Uz bashcompinit && bashcompinit");
        print_bash(all);
        puts("[ \"$funcstack[1]\" != _cloister ] || _bash_complete -o filenames -F _cloister");
}

static void fish_quoted(const char *text)
{
        putchar('\'');
        for (; *text; text++) {
                if (*text == '\'' || *text == '\\')
                        putchar('\\');
                putchar(*text);
        }
        putchar('\'');
}

/* The condition that the command line contains this command's words. */
static void fish_condition(const char *name)
{
        const char *space = strchr(name, ' ');

        if (!space)
                printf(" -n '__fish_seen_subcommand_from %s'", name);
        else
                printf(" -n '__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s'",
                       (int)(space - name), name, space + 1);
}

static void fish_values(const char *action)
{
        static const char *const values[][2] = {
                {"file", "-F"},
                {"directory", "-a '(__fish_complete_directories)'"},
                {"images", "-a '(cloister names images 2>/dev/null)'"},
                {"sessions", "-a '(cloister names sessions 2>/dev/null)'"},
                {"systems", "-a '(cloister names systems 2>/dev/null)'"},
                {"answers", "-a '" OPTION_ANSWERS "'"},
                {"kinds", "-a '" OPTION_KINDS "'"},
                {"labels", "-a '" OPTION_LABELS "'"},
                {"level", "-a 'error warning info debug'"},
                {"format", "-a 'text json'"},
                {"shells", "-a 'bash zsh fish'"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(values); i++)
                if (strcmp(values[i][0], action) == 0)
                        printf(" %s", values[i][1]);
}

static void fish_options(const struct cli_command *command)
{
        for (const struct option *o = NULL; (o = cli_option_next(o, command));) {
                fputs("complete -c cloister", stdout);
                fish_condition(command->name);
                if (o->letter)
                        printf(" -s %c", o->letter);
                if (o->name)
                        printf(" -l %s", o->name + 2);
                if (o->argument) {
                        const char *action = option_action(o);
                        fputs(strcmp(action, "file") == 0 ? " -r" : " -x", stdout);
                        fish_values(action);
                }
                fputs(" -d ", stdout);
                fish_quoted(o->text);
                putchar('\n');
        }
}

static void fish_command(const struct cli_command *command)
{
        const char *space = strchr(command->name, ' ');

        if (space)
                printf("complete -c cloister -n '__fish_seen_subcommand_from %.*s' -a %s",
                       (int)(space - command->name), command->name, space + 1);
        else
                printf("complete -c cloister -n __fish_use_subcommand -a %s", command->name);
        fputs(" -d ", stdout);
        fish_quoted(command->summary);
        putchar('\n');
        if (strcmp(command_action(command), "nothing") == 0)
                return;
        fputs("complete -c cloister", stdout);
        fish_condition(command->name);
        fish_values(command_action(command));
        putchar('\n');
}

static void print_fish(const struct cli_commands *all)
{
        puts("# Completion of cloister for fish.\ncomplete -c cloister -f");
        for (size_t i = 0; i < all->n; i++) {
                if (!all->rows[i].summary)
                        continue;
                fish_command(&all->rows[i]);
                fish_options(&all->rows[i]);
        }
        /* The first word of a group that is not a command itself. */
        for (size_t i = 0; i < all->n; i++) {
                size_t n = strcspn(all->rows[i].name, " ");
                if (all->rows[i].summary && all->rows[i].name[n] == ' ' && is_first_with(all, i, n))
                        printf("complete -c cloister -n __fish_use_subcommand -a %.*s\n", (int)n,
                               all->rows[i].name);
        }
}

int completion_print(const struct cli_commands *all, const char *shell)
{
        static const struct {
                const char *name;
                void (*print)(const struct cli_commands *all);
        } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

        for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
                if (strcmp(shell, shells[i].name) == 0) {
                        shells[i].print(all);
                        return 0;
                }
        }
        return cli_fail_text(2, "completion needs the name of a shell: bash, zsh or fish");
}

int cli_names(const struct options *o, const char *const *words, size_t n)
{
        if (n > 0 && strcmp(words[0], "images") == 0)
                return cli_image_names();
        if (n > 0 && strcmp(words[0], "systems") == 0)
                return old_system_print_names();
        return n > 0 && strcmp(words[0], "sessions") == 0 ? cli_session_names() : 2;
}
