/*
 * The broker: serves a client, owns sessions and hub, and parses all untrusted input.
 * cloister-monitor starts it in its own namespaces, with a socket to the monitor at MONITOR_FD:
 *
 *     cloister-broker --filter-fd N [--uid N] [--state-path PATH] [--log-level L]
 *                     mcp | serve --listen-fd N | run --code-fd N --name FILENAME [--timeout S] | tools [--json]
 */
#pragma once

/* argv[0] is skipped. Returns the exit status. */
int broker_main(int argc, char **argv);
