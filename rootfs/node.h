/* The host's Node as a part of an image (docs/javascript.md). */
#pragma once

#include <limits.h>

#include "base/error.h"
#include "rootfs/plan.h"

enum { NODE_MAJOR_MIN = 20 };

struct node {
        char real
                [PATH_MAX]; /* the program itself, as it names itself: node may be a script or a link */
        char version[32]; /* "22.20.0" */
        const char
                *pyodide; /* directory of npm's package, which is added too; or NULL (borrowed) */
};

/* Runs it. A program that cannot be used is refused with a line that says what to do. node: an absolute path. */
int node_ask(const char *node, struct node *ret, struct error *err);

/* Adds it to the plan, with its name in PATH. Its libraries are listed with those of all other programs. */
int node_plan(struct plan *plan, const struct node *node, struct error *err);
