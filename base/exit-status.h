/* The exit status of `cloister run`, `mcp` and `doctor` that says: no sandbox can be created on this
 * machine. docs/troubleshooting.md names it. */
#pragma once

enum { EXIT_NO_SANDBOX = 126 };
