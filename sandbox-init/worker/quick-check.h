/*
 * Cheap looks at what a cell may have left behind, one system call each. They tell that nothing is
 * to be done, which is so after nearly every cell; what there is to do else is Python's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether descriptors 0, 1 and 2 are open. */
bool quick_check_standard(void);

/* What lstat() calls the size, if it is a directory; -1: it is none, or not there. */
int64_t quick_check_directory(const char *path);

/* Whether it is on a tmpfs, where a directory's size counts its entries. */
bool quick_check_is_tmpfs(const char *path);
