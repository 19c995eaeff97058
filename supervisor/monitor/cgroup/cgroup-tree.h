/* The directories of control groups: attribute files, and how a tree of them is killed and removed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes one attribute file of a cgroup directory in one write. Returns 0 or negative errno. */
int cgroup_write(int dir_fd, const char *file, const char *text);
int cgroup_write_number(int dir_fd, const char *file, uint64_t value);

/* Reads one as text, NUL-terminated (size counts it; more is cut). Returns its length or negative
 * errno. */
int cgroup_read(int dir_fd, const char *file, char *text, size_t size);
uint64_t cgroup_read_number(int dir_fd, const char *file); /* 0 where there is none */

/* The number behind "key " at the start of a line; 0 where there is none. */
uint64_t cgroup_read_key(int dir_fd, const char *file, const char *key);

/*
 * Kills all processes in a tree, by cgroup.kill where there is one, and removes it, leaves first,
 * trying again for timeout_ms while processes die. -EBUSY: some of it is left. -EACCES: its
 * processes and leaves may be gone, but not it. That it is gone already is success.
 */
int cgroup_tree_remove(int parent_fd, const char *name, int timeout_ms);
