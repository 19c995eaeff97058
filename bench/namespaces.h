/* The namespaces of a template, for the floors. A failure ends the program. */
#pragma once

/* Writes one id to the maps of this process's user namespace. */
void namespaces_map_ids(unsigned inside, unsigned uid, unsigned gid);

void namespaces_write(int dir, const char *path, const char *text);

/* Enters new ones with id 0 and returns in a child, as PID 1. The parent waits for it and exits as it did. */
void namespaces_enter(void);
