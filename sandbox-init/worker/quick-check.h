/*
 * Quick checks after a cell, one system call each. Nearly always they find that there is nothing to
 * do; otherwise the Python code does a full check.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether descriptors 0, 1 and 2 are open. */
bool quick_check_standard(void);

/* The size of a directory as lstat() returns it; -1 if it is not a directory or does not exist. */
int64_t quick_check_directory(const char *path);

/* Whether the path is on a tmpfs, where the size of a directory depends on its entries. */
bool quick_check_is_tmpfs(const char *path);
