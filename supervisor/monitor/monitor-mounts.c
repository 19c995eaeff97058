/* The paths that no sandbox may mount: they belong to Cloister. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "supervisor/monitor/monitor-internal.h"

static int guard_config_files(const struct monitor *m, struct mount_guards *guards,
                              struct error *err)
{
        int r = 0;

        for (size_t i = 0; i < config_files_count(m->files) && r >= 0; i++)
                r = mount_guards_add(guards, config_files_path(m->files, i), "the config", true,
                                     err);
        return r;
}

static int guard_config_directory(struct mount_guards *guards, struct error *err)
{
        char path[PATH_MAX];

        int r = path_in_user_directory("XDG_CONFIG_HOME", ".config", "cloister", path,
                                       sizeof(path));
        if (r < 0)
                return r == -ENOENT ? 0 : error_errno(err, -r, "Cloister's config");
        return mount_guards_add(guards, path, "Cloister's config", false, err);
}

int monitor_mount_guards(void *data, struct mount_guards *guards, struct error *err)
{
        const struct monitor *m = data;
        char programs[sizeof(m->program)];

        snprintf(programs, sizeof(programs), "%s", m->program);
        char *slash = strrchr(programs, '/');
        if (slash)
                *slash = '\0';
        int r = mount_guards_add(guards, m->image.store, "the image store", false, err);
        if (r >= 0 && *m->state_path)
                r = mount_guards_add(guards, m->state_path, "Cloister's state", false, err);
        if (r >= 0)
                r = mount_guards_add(guards, "/etc/cloister", "Cloister's config", false, err);
        if (r >= 0)
                r = guard_config_directory(guards, err);
        if (r >= 0 && slash)
                r = mount_guards_add(guards, programs, "where Cloister's programs are", true, err);
        return r < 0 ? r : guard_config_files(m, guards, err);
}
