/* The commands of `cloister`: their options, handlers and help texts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/cli/options.h"

struct cli_command {
        const char *name;      /* one word, or two: "image build" */
        const char *arguments; /* for the usage line */
        const char *summary;   /* NULL: hidden */
        uint64_t options;      /* CLI_… that it accepts, besides --help */
        size_t words_max;      /* arguments that are not options */
        int (*run)(const struct cli_options *options, const char *const *words, size_t n_words);
        const char *help; /* paragraphs and examples below the usage line */
};

extern const struct cli_command cli_commands[];
extern const size_t cli_n_commands;

struct cli_option_text {
        uint64_t option;
        const char *spelling; /* "-q, --quiet", "--image NAME" */
        const char *text;
};
extern const struct cli_option_text cli_option_texts[];
extern const size_t cli_n_option_texts;
/* Help texts of the image commands. */
extern const char cli_help_image_build[], cli_help_image_list[], cli_help_image_show[],
        cli_help_image_path[], cli_help_image_remove[], cli_help_image_prune[];

extern const char cli_help_bench[], cli_help_publish[], cli_help_setup[];
extern const char cli_help_exec[], cli_help_cp[], cli_help_sessions[];
extern const char cli_help_login[], cli_help_logout[];

/* Finds the command that the words start with; *used is how many of them are its name. NULL: not
 * found; the error names the nearest command. */
const struct cli_command *cli_find_command(const char *const *words, size_t n, size_t *used,
                                           struct error *err);

/* Checks that the command accepts these options and this many words. */
int cli_check_command(const struct cli_command *command, const struct cli_options *options,
                      size_t n_words, struct error *err);

/* Help on standard output: of all, of a command, or of a group ("image"). */
void cli_help(void);
void cli_help_command(const struct cli_command *command);
bool cli_help_group(const char *word);

/* The commands. Each returns the exit status. */
int cli_run(const struct cli_options *o, const char *const *words, size_t n);
int cli_mcp(const struct cli_options *o, const char *const *words, size_t n);
int cli_serve(const struct cli_options *o, const char *const *words, size_t n);
int cli_login(const struct cli_options *o, const char *const *words, size_t n);
int cli_logout(const struct cli_options *o, const char *const *words, size_t n);
int cli_tools(const struct cli_options *o, const char *const *words, size_t n);
int cli_publish(const struct cli_options *o, const char *const *words, size_t n);
int cli_setup(const struct cli_options *o, const char *const *words, size_t n);
int cli_bench(const struct cli_options *o, const char *const *words, size_t n);
int cli_doctor(const struct cli_options *o, const char *const *words, size_t n);
int cli_sessions(const struct cli_options *o, const char *const *words, size_t n);
int cli_exec(const struct cli_options *o, const char *const *words, size_t n);
int cli_cp(const struct cli_options *o, const char *const *words, size_t n);
int cli_sessions_end(const struct cli_options *o, const char *const *words, size_t n);
int cli_sessions_undo(const struct cli_options *o, const char *const *words, size_t n);
int cli_sessions_reset(const struct cli_options *o, const char *const *words, size_t n);
int cli_config_path(const struct cli_options *o, const char *const *words, size_t n);
int cli_config_check(const struct cli_options *o, const char *const *words, size_t n);
int cli_config_show(const struct cli_options *o, const char *const *words, size_t n);
int cli_config_import(const struct cli_options *o, const char *const *words, size_t n);
int cli_image_build(const struct cli_options *o, const char *const *words, size_t n);
int cli_image_list(const struct cli_options *o, const char *const *words, size_t n);
int cli_image_show(const struct cli_options *o, const char *const *words, size_t n);
int cli_image_remove(const struct cli_options *o, const char *const *words, size_t n);
int cli_image_prune(const struct cli_options *o, const char *const *words, size_t n);
int cli_image_path(const struct cli_options *o, const char *const *words, size_t n);
int cli_package_installer(const struct cli_options *o, const char *const *words, size_t n);
int cli_image_builder(const struct cli_options *o, const char *const *words, size_t n);
int cli_completion(const struct cli_options *o, const char *const *words, size_t n);
int cli_manual(const struct cli_options *o, const char *const *words, size_t n);
int cli_names(const struct cli_options *o, const char *const *words, size_t n);
int cli_help_words(const struct cli_options *o, const char *const *words, size_t n);

/* Print names, one a line. */
int cli_image_names(void);
int cli_session_names(void);
