/* Page tables that forks of the template inherit. */
#pragma once

/*
 * Call in the template, once it has run a cell: a fork then has the pages of the code and constants of CPython and libc
 * mapped, as far as the template used them. Without it, fork() leaves them out, and each worker takes a page fault
 * for every 64 KiB that it runs. Does nothing where the kernel refuses: only the speed differs. python: an address in CPython's code.
 */
void inherit_text(const void *python);
