/*
 * The monitor: the only holder of host privilege, if there is any. Starts the broker, makes,
 * interrupts and kills sandboxes and starts upstream servers for it; no JSON from the broker, no
 * paths, no network.
 */
#pragma once

#include "supervisor/options/options.h"

/* Serves until the broker ends. Returns the exit status of the program. */
int monitor_serve(const struct options *options);

/* `cloister image build`: builds and waits. Returns the exit status of the program. */
int monitor_build_image(const struct options *options);
