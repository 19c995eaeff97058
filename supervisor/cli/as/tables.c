/* Finds and reads the table of another system. */
#include "supervisor/cli/as/tables.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cloister-config.h"
#include "policy/config/config.h"
#include "policy/image.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/config/config-files.h"

enum { LIST_MAX = 300 };

/* In the privileged modes a config file has to be root's (supervisor/config/config-files.h). */
static bool is_privileged(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

        if (geteuid() == 0 || syscall(SYS_capget, &header, data) < 0)
                return true;
        return data[0].effective & (1u << CAP_SETUID);
}

/* The directory of the installed tables: beside the executable in a build tree, else in share. */
static int find_directory(char ret[PATH_MAX], struct error *err)
{
        static const char *const relative[] = {"policy/as", CLOISTER_BIN_TO_SHARE "/as"};
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (n < 0)
                return error_errno(err, errno, "read /proc/self/exe");
        self[n] = '\0';
        *strrchr(self, '/') = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(relative); i++)
                if (snprintf(ret, PATH_MAX, "%s/%s", self, relative[i]) < PATH_MAX &&
                    access(ret, X_OK) == 0)
                        return 0;
        snprintf(ret, PATH_MAX, "%s/as", CLOISTER_DATADIR);
        return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
        return strcmp((*a)->d_name, (*b)->d_name);
}

/* "codemode-lite, llm-sandbox" */
static void list_tables(const char *directory, char ret[LIST_MAX])
{
        struct dirent **entries = NULL;
        int n = scandir(directory, &entries, NULL, by_name);
        size_t used = 0;

        ret[0] = '\0';
        for (int i = 0; i < n; i++) {
                const char *name = entries[i]->d_name, *end = strrchr(name, '.');
                if (end && strcmp(end, ".json") == 0 && used < LIST_MAX)
                        used += (size_t)snprintf(ret + used, LIST_MAX - used, "%s%.*s",
                                                 used > 0 ? ", " : "", (int)(end - name), name);
                free(entries[i]);
        }
        free(entries);
}

static int find(const char *name, char **ret, struct error *err)
{
        char directory[PATH_MAX], list[LIST_MAX];

        if (strchr(name, '/'))
                return monitor_command_absolute(name, ret, err);
        int r = find_directory(directory, err);
        if (r < 0)
                return r;
        if (image_name_valid(name)) {
                if (asprintf(ret, "%s/%s.json", directory, name) < 0) {
                        *ret = NULL;
                        return error_errno(err, ENOMEM, "--as");
                }
                if (access(*ret, F_OK) == 0)
                        return 0;
                free(take_ptr(*ret));
        }
        list_tables(directory, list);
        return error_set(err, ENOENT,
                         "there is no table of this name (%s); the path of a file has a /",
                         *list ? list : "none is installed");
}

int tables_read(const char *name, char **path, char **data, size_t *n, struct error *err)
{
        _cleanup_free_ char *found = NULL;

        int r = find(name, &found, err);
        if (r >= 0)
                r = config_files_read(found, is_privileged(), data, n, err);
        if (r < 0)
                return error_context(err, "--as %.100s", name);
        *path = take_ptr(found);
        return 0;
}
