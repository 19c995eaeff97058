/*
 * `cloister doctor --attack`: runs the probe (probe.py) in a sandbox of a profile, by `cloister run`,
 * and looks at the processes of that sandbox from the host.
 *
 * The probe's rows are what the image's Python says. The rows of the host's view come from the
 * kernel alone. Each row (attack-rows.h) has what is expected of this profile and what was found.
 */
#pragma once

struct options;

/* Uses configs, profile, image, python, store and json. Returns the exit status: 0 when nothing is open, EXIT_NO_SANDBOX where no sandbox can be created,
 * else 1. */
int attack_main(const struct options *options);
