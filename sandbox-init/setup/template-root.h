/*
 * The first half of a template: mounts the image and execs the program that serves as the template. Static, C only.
 */
#pragma once

#include "base/error.h"

/*
 * Returns only on failure, with the exit status; the error was sent on the control socket. write_modules: writes the
 * modules of the JavaScript worker into an empty directory.
 */
int template_root_main(int (*write_modules)(int directory, struct error *err));
