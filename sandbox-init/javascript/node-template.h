/*
 * The template of a profile with JavaScript: cloister-init, a second time. It makes sessions as any template does, and runs
 * no byte of the image itself: Node is executed in each worker, which is confined by then (README.md).
 */
#pragma once

#include "base/error.h"

/* Writes the modules of the worker into an empty directory. Before the template's filter is loaded. */
int node_template_write_modules(int directory, struct error *err);

/* Serves as the template. Returns the exit status. */
int node_template_main(void);
