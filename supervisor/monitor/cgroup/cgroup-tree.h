/* Directories of control groups: attribute files, and killing and removing a tree. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes one attribute file of a cgroup directory in one write. Returns 0 or negative errno. */
int cgroup_write(int dir_fd, const char *file, const char *text);
int cgroup_write_number(int dir_fd, const char *file, uint64_t value);

/* Reads one, NUL-terminated and cut at size - 1. Returns its length or negative errno. */
int cgroup_read(int dir_fd, const char *file, char *text, size_t size);
uint64_t cgroup_read_number(int dir_fd, const char *file); /* 0 on failure */

/* The number after "key " at the start of a line; 0 when there is none. */
uint64_t cgroup_read_key(int dir_fd, const char *file, const char *key);

/*
 * Kills all processes in a tree, with cgroup.kill where the kernel has it, and removes it, leaves
 * first. Repeats for timeout_ms while processes end. Returns 0 when it was removed, -EBUSY when
 * processes or groups are left, -EACCES when only its topmost directory may not be removed.
 */
int cgroup_tree_remove(int parent_fd, const char *name, int timeout_ms);
