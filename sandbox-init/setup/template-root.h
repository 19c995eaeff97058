/* The first half of a template: mounts the image and becomes cloister-worker in it. Static, C only.
 */
#pragma once

/* Ends only by exec or by an error told on the control socket; returns the exit status then. */
int template_root_main(void);
