/* The labels that a session has. */
#include "supervisor/session/machine/session-labels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "policy/rules/labels.h"

enum { LABELS = 2, NAME_SIZE = 72 };

struct label_origins {
        struct origin {
                uint64_t n; /* results that brought it */
                struct origin_call {
                        char name[NAME_SIZE];
                        uint64_t cell, call;
                } calls[LABELS_CALLS_MAX];
        } of[LABELS];
};

void session_labels_done(struct session_labels *labels)
{
        free(labels->origins);
        *labels = (struct session_labels){};
}

static void note(struct origin *origin, const char *name, uint64_t cell, uint64_t call)
{
        size_t i = 0;

        /* A tool that is called in a loop is named once. */
        for (; i < LABELS_CALLS_MAX && i < origin->n && *origin->calls[i].name; i++)
                if (strcmp(origin->calls[i].name, name) == 0)
                        break;
        origin->n++;
        if (i == LABELS_CALLS_MAX || *origin->calls[i].name)
                return;
        snprintf(origin->calls[i].name, sizeof(origin->calls[i].name), "%s", name);
        utf8_trim(origin->calls[i].name);
        origin->calls[i].cell = cell;
        origin->calls[i].call = call;
}

void session_labels_add(struct session_labels *labels, unsigned bits, const char *name,
                        uint64_t cell, uint64_t call)
{
        char cut[NAME_SIZE];

        labels->seen |= bits;
        if (bits && !labels->origins)
                labels->origins = calloc(1, sizeof(*labels->origins));
        if (!bits || !labels->origins)
                return;
        snprintf(cut, sizeof(cut), "%s", name);
        utf8_trim(cut);
        for (size_t i = 0; i < LABELS; i++)
                if (bits & 1U << i)
                        note(&labels->origins->of[i], cut, cell, call);
}

void session_labels_merge(struct session_labels *to, const struct session_labels *from)
{
        unsigned added = from->seen & ~to->seen;

        to->seen |= from->seen;
        if (!from->origins || !added)
                return;
        if (!to->origins)
                to->origins = calloc(1, sizeof(*to->origins));
        for (size_t i = 0; to->origins && i < LABELS; i++)
                if (added & 1U << i)
                        to->origins->of[i] = from->origins->of[i];
}

static void append(char *to, size_t size, const char *text)
{
        size_t n = strlen(to);

        snprintf(to + n, size - n, "%s", text);
}

static void describe_one(const struct origin *origin, char *to, size_t size)
{
        char text[NAME_SIZE + 64];
        uint64_t named = 0;

        for (size_t i = 0; i < LABELS_CALLS_MAX && *origin->calls[i].name; i++) {
                const struct origin_call *call = &origin->calls[i];
                if (call->call)
                        snprintf(text, sizeof(text), "%s%s (cell %" PRIu64 ", call %" PRIu64 ")",
                                 i ? ", " : "", call->name, call->cell, call->call);
                else
                        snprintf(text, sizeof(text), "%s%s", i ? ", " : "", call->name);
                append(to, size, text);
                named++;
        }
        if (origin->n > named) {
                snprintf(text, sizeof(text), " and %" PRIu64 " more", origin->n - named);
                append(to, size, text);
        }
}

void session_labels_describe(const struct session_labels *labels, unsigned bits, char *to,
                             size_t size)
{
        to[0] = '\0';
        for (size_t i = 0; i < LABELS; i++) {
                if (!(labels->seen & bits & 1U << i))
                        continue;
                append(to, size, *to ? "; " : "");
                append(to, size, label_names[i]);
                append(to, size, ": ");
                if (labels->origins && labels->origins->of[i].n)
                        describe_one(&labels->origins->of[i], to, size);
                else
                        append(to, size, "earlier results");
        }
}
