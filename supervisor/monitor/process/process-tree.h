/* A process and its descendants. Processes of other pid namespaces are among them. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Appends the children of all threads of a process to pids, at most `most` altogether. Returns how many there are then. */
size_t process_children(pid_t of, pid_t *pids, size_t n, size_t most);

/* The resident bytes of a process and of its descendants, 128 at most. A page that several share counts for each. */
uint64_t process_tree_memory(pid_t root);
