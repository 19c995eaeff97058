/* The first half of a template: mounts the image and execs cloister-worker in it. Static, C only. */
#pragma once

/* Returns only on failure, with the exit status; the error was sent on the control socket. */
int template_root_main(void);
