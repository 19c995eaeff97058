/* Files and directories by path. */
#pragma once

/* Unlinks a file, and removes its directory when it is empty then. What is not there is no error. */
void path_remove_with_directory(const char *path);
