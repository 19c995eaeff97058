/* The plan that a template gets. */
#include "supervisor/monitor/template/template-plan.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "policy/package-set.h"

/* The packages that are installed for sessions (docs/packages.md). */
static int plan_packages(const struct template_parts *parts, struct template_plan *plan, int *fds,
                         struct error *err)
{
        struct template_mount *planned = &plan->mounts[plan->n_mounts];

        for (uint32_t i = 0; i < plan->n_mounts; i++) {
                const char *target = plan->mounts[i].target;
                size_t n = strlen(target);
                if ((strncmp(PACKAGES_TARGET, target, n) == 0 && strchr("/", PACKAGES_TARGET[n])) ||
                    strncmp(target, PACKAGES_TARGET "/", sizeof(PACKAGES_TARGET)) == 0)
                        return error_set(err, EINVAL,
                                         "mount on %s: packages.install needs " PACKAGES_TARGET
                                         ": mount it elsewhere",
                                         target);
        }
        snprintf(planned->target, sizeof(planned->target), "%s", PACKAGES_TARGET);
        fds[plan->n_mounts++] = parts->packages_fd;
        return 0;
}

static int plan_mounts(const struct template_parts *parts, struct template_plan *plan, int *fds,
                       struct error *err)
{
        const struct config_profile *profile = parts->profile;

        static_assert(TEMPLATE_MOUNTS_MAX > (int)CONFIG_MOUNTS_MAX, "room for all mounts");
        for (size_t i = 0; i < profile->n_mounts; i++) {
                const struct config_mount *mount = &profile->mounts[i];
                struct template_mount *planned = &plan->mounts[i];
                if ((size_t)snprintf(planned->target, sizeof(planned->target), "%s",
                                     mount->target) >= sizeof(planned->target))
                        return error_errno(err, ENAMETOOLONG, "mount on %s", mount->target);
                planned->writable = mount->writable;
                fds[i] = parts->sources[i];
        }
        plan->n_mounts = (uint32_t)profile->n_mounts;
        return parts->packages_fd >= 0 ? plan_packages(parts, plan, fds, err) : 0;
}

static int plan_profile(const struct template_parts *parts, struct template_plan *plan, int *fds,
                        struct error *err)
{
        const struct config_profile *profile = parts->profile;
        size_t n = 0;

        if (!profile)
                return 0;
        for (char *const *name = profile->preload; name && *name; name++) {
                n += (size_t)snprintf(plan->preload + n, sizeof(plan->preload) - n, "%s\n", *name);
                if (n >= sizeof(plan->preload))
                        return error_errno(err, E2BIG, "the names in preload");
        }
        plan->no_speculation = profile->speculation_disabled;
        plan->loopback = profile->network != CONFIG_NETWORK_NONE;
        plan->proxy = profile->network == CONFIG_NETWORK_ALLOW;
        return plan_mounts(parts, plan, fds, err);
}

int template_plan_send(int control, enum sandbox_mode mode, const struct template_parts *parts,
                       struct error *err)
{
        struct template_message message = {.kind = TEMPLATE_PLAN};
        int fds[TEMPLATE_FD_COUNT + TEMPLATE_MOUNTS_MAX] = {
                [TEMPLATE_FD_IMAGE] = parts->image_fd,
                [TEMPLATE_FD_WORKER] = parts->worker_fd,
                [TEMPLATE_FD_INIT] = parts->init_fd,
                [TEMPLATE_FD_TEMPLATE_FILTER] = parts->template_filter_fd,
                [TEMPLATE_FD_WORKER_FILTER] = parts->worker_filter_fd,
                [TEMPLATE_FD_INIT_FILTER] = parts->init_filter_fd,
        };

        message.plan.mode = mode;
        message.plan.link = parts->image->link;
        message.plan.rlimits = parts->rlimits;
        static_assert(sizeof(message.plan.python) == sizeof(parts->image->python), "same size");
        memcpy(message.plan.python, parts->image->python, sizeof(message.plan.python));
        memcpy(message.plan.libpython, parts->image->libpython, sizeof(message.plan.libpython));
        int r = plan_profile(parts, &message.plan, fds + TEMPLATE_FD_COUNT, err);
        if (r < 0)
                return r;
        r = fd_send(control, &message, sizeof(message), fds,
                    TEMPLATE_FD_COUNT + message.plan.n_mounts, 0);
        return r < 0 ? error_errno(err, -r, "send the template its plan") : 0;
}
