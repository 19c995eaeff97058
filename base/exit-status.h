/* Exit statuses that docs/troubleshooting.md names. */
#pragma once

enum {
        EXIT_CLOISTER = 125, /* of `cloister run`: Cloister failed, not the code */
        EXIT_NO_SANDBOX =
                126, /* of `run`, `mcp` and `doctor`: no sandbox can be created on this machine */
};
