/*
 * The broker: serves a client, owns sessions and hub, and parses all untrusted input.
 * cloister-monitor starts it in its own namespaces, with a socket to the monitor at MONITOR_FD:
 *
 *     cloister-broker {mcp | serve | run | tools} [OPTION]...
 *
 * supervisor/options/options.def has the options.
 */
#pragma once

/* Returns the exit status. */
int broker_main(int argc, char **argv);
