/* One question of a running server at a terminal (docs/questions.md). An answer names the id and the digest of what was shown. */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "policy/control-path.h"
#include "supervisor/cli/sessions/servers.h"

struct question_prompt {
        FILE *in, *out;               /* the caller's */
        char path[CONTROL_PATH_SIZE]; /* of the server */
        yyjson_doc *doc;
        yyjson_val *question; /* as questions/show gives it; NULL: none is open */
};

/* The terminal of this process, or NULL: it has none, or runs in the background. The caller closes it. */
FILE *question_terminal(void);
/* The columns of a terminal; 80 for another file. */
size_t question_columns(int fd);

/* Gets the question. Call question_prompt_close() in any case. */
int question_prompt_open(struct question_prompt *prompt, const char *path, const char *id,
                         struct error *err);
void question_prompt_show(const struct question_prompt *prompt);
/* Prints the prompt. */
void question_prompt_ask(const struct question_prompt *prompt);
/* Reads a line: "ANSWER [NOTE]". Returns 1: the question is answered; 0: the line is not an answer, and the prompt was printed again; or negative
 * errno, and the question cannot be answered. */
int question_prompt_take(struct question_prompt *prompt, struct error *err);
/* Sends an answer. Returns 0, -EINVAL if the text is not an answer, or another negative errno. */
int question_prompt_send(struct question_prompt *prompt, const char *word, const char *note,
                         struct error *err);
void question_prompt_close(struct question_prompt *prompt);
