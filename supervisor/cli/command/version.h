/* The version that `cloister --version` prints. */
#pragma once

/* "cloister 0.1.0 (0123abcdef)", with "-dirty" where files differ from the commit; "cloister 0.1.0"
 * when it was built outside a git repository. */
const char *cli_version(void);
