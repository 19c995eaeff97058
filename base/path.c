/* Files and directories by path. */
#include "base/path.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void path_remove_with_directory(const char *path)
{
        char directory[PATH_MAX];
        const char *name = strrchr(path, '/');

        if (!name)
                return;
        unlink(path);
        snprintf(directory, sizeof(directory), "%.*s", (int)(name - path), path);
        rmdir(directory);
}
