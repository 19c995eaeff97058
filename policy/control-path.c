/* Where servers listen for their owner. */
#include "policy/control-path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/places.h"

static size_t fits(int n)
{
        return n > 0 && n < CONTROL_DIRECTORY_SIZE;
}

size_t control_directories(uid_t euid, const char *service, const char *runtime_dir,
                           const char *state_dir,
                           char ret[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE])
{
        enum { SIZE = CONTROL_DIRECTORY_SIZE };
        size_t n = 0;

        if (service)
                n += fits(snprintf(ret[n], SIZE, "%s", service));
        if (euid == 0)
                n += fits(snprintf(ret[n], SIZE, CONTROL_SERVICE_DIRECTORY));
        if (euid != 0 && runtime_dir && *runtime_dir == '/')
                n += fits(snprintf(ret[n], SIZE, "%s/cloister", runtime_dir));
        if (euid != 0)
                n += fits(snprintf(ret[n], SIZE, "/run/user/%u/cloister", euid));
        if (state_dir && *state_dir == '/')
                n += fits(snprintf(ret[n], SIZE, "%s/run", state_dir));
        n += fits(snprintf(ret[n], SIZE, "/tmp/cloister-%u", euid));
        return n;
}

size_t control_directories_here(char ret[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE])
{
        char service[CONTROL_DIRECTORY_SIZE], state[CONTROL_DIRECTORY_SIZE];
        bool is_service = control_directory_of_service(service);
        int r = path_in_base(NULL, path_home(), CONTROL_STATE_BELOW, "cloister", state,
                             sizeof(state));

        return control_directories(geteuid(), is_service ? service : NULL,
                                   getenv("XDG_RUNTIME_DIR"), r < 0 ? NULL : state, ret);
}

bool control_directory_is_private(const struct stat *st, uid_t euid)
{
        return S_ISDIR(st->st_mode) && st->st_uid == euid && (st->st_mode & 077) == 0;
}

bool control_directory_of_service(char ret[CONTROL_DIRECTORY_SIZE])
{
        return place_runtime(ret, CONTROL_DIRECTORY_SIZE);
}

bool control_directory_is_sound(const struct stat *st)
{
        return S_ISDIR(st->st_mode) && (st->st_mode & 022) == 0;
}

void control_path(const char *directory, pid_t pid, char ret[CONTROL_PATH_SIZE])
{
        snprintf(ret, CONTROL_PATH_SIZE, "%s/%d.sock", directory, (int)pid);
}

void control_path_remove(const char *path)
{
        char service[CONTROL_DIRECTORY_SIZE];
        const char *name = strrchr(path, '/');

        if (name && control_directory_of_service(service) &&
            strlen(service) == (size_t)(name - path) && memcmp(path, service, strlen(service)) == 0)
                unlink(path);
        else
                path_remove_with_directory(path);
}

pid_t control_pid_of(const char *name)
{
        char *end;
        long pid = name[0] >= '1' && name[0] <= '9' ? strtol(name, &end, 10) : 0;

        return pid > 0 && pid <= 0x7fffffff && strcmp(end, ".sock") == 0 ? (pid_t)pid : 0;
}
