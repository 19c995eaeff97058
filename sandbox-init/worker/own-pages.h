/*
 * Pages that cells write to, made the worker's own again after it was copied.
 *
 * A fork shares all pages. The next cell would take a page fault for each page that it writes to: some 270 for `1+1`,
 * because CPython counts references in its objects, and 3 us each. The worker copies them while no cell waits.
 *
 * Which pages these are, it learns between two copies: those that are shared with no other process were written to
 * since the copy before.
 */
#pragma once

enum {
        OWN_PAGES_MAX = 512,   /* the rest is left to the cell: a session at rest has few MiB */
        OWN_PAGES_LEARN = 32,  /* copies from one time to the next */
        OWN_PAGES_LOOK = 8192, /* how many pages are looked at */
};

/* Before each fork that makes a copy. */
void own_pages_before(void);
/* After it, in the worker. */
void own_pages_after(void);
/* In a copy that is the worker now: all of its pages are shared with no other process. It learns again. */
void own_pages_forget(void);
