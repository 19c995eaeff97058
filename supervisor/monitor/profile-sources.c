/* The host directories that a profile mounts. */
#include "supervisor/monitor/profile-sources.h"

#include <errno.h>
#include <stdlib.h>

int profile_sources_open(const struct config_profile *settings, const struct ids *ids,
                         int (*add_guards)(void *data, struct mount_guards *guards,
                                           struct error *err),
                         void *data, int *fds, struct error *err)
{
        struct mount_guards *guards = calloc(1, sizeof(*guards));
        int r = guards ? add_guards(data, guards, err) : error_errno(err, ENOMEM, "mounts");

        for (size_t i = 0; i < settings->n_mounts && r >= 0; i++)
                r = fds[i] = mount_source_open(&settings->mounts[i], ids, guards, err);
        free(guards);
        return r < 0 ? r : 0;
}
