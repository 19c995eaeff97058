/*
 * The command line: `cloister COMMAND …`. Parses arguments, reads the code of `cloister run`, and
 * hands over to cloister-monitor by exec; images are built and listed right here.
 */
#pragma once

/* Everything but the broker. Returns the exit status: 0, 1 when something failed, 2 when the
 * command line is wrong. Does not return where the monitor takes over. */
int cli_main(int argc, char **argv);
