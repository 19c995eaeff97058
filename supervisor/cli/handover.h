/* Handing over to cloister-monitor: its command line is collected, then this process becomes it. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "supervisor/cli/options.h"

enum { HANDOVER_WORDS_MAX = 2 * CLI_CONFIGS_MAX + 160, HANDOVER_OWNED_MAX = CLI_CONFIGS_MAX + 32 };

struct handover {
        const char *words[HANDOVER_WORDS_MAX + 1]; /* NULL-terminated; [0] is the program */
        size_t n;
        char *owned[HANDOVER_OWNED_MAX]; /* words that were made here */
        size_t n_owned;
};

/* `verb` with the options that all verbs of the monitor share: config, image, python, packages, log
 * level. Paths are made absolute; --python may be a name in PATH or the directory of a virtual
 * environment. */
int handover_init(struct handover *handover, const char *verb, const struct cli_options *options,
                  struct error *err);
void handover_done(struct handover *handover);

void handover_add(struct handover *handover, const char *word);
/* "--option value", when there is a value. */
void handover_add_option(struct handover *handover, const char *option, const char *value);

/* A part of ours: in a build tree beside us, installed in libexec. It must be executable. */
int handover_find(const char *name, char *ret, size_t size, struct error *err);

/* Becomes the monitor; returns only when that fails. */
int handover_exec(struct handover *handover, struct error *err);

/* An interpreter as people name it, as an absolute path, owned by the caller. */
int handover_python(const char *given, char **ret, struct error *err);
