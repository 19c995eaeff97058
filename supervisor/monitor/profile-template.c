/* From a profile to the start of its template. */
#include "supervisor/monitor/profile-template.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "policy/seccomp/filter.h"
#include "supervisor/monitor/monitor-internal.h"
#include "supervisor/monitor/template/mount-source.h"

void profile_shared_init(struct monitor *m)
{
        for (size_t i = 0; i < FILTER_KIND_MAX; i++)
                m->filters[i] = -1;
        m->worker_memfd = m->module_memfd = m->init_memfd = -1;
}

void profile_shared_done(struct monitor *m)
{
        int fds[] = {m->worker_memfd, m->module_memfd, m->init_memfd};

        fd_close_many(m->filters, FILTER_KIND_MAX);
        fd_close_many(fds, ARRAY_SIZE(fds));
}

/* Compiled and checked once. */
static int shared_filter(struct monitor *m, enum filter_kind kind, int *ret, struct error *err)
{
        if (m->filters[kind] < 0)
                m->filters[kind] = filter_compile(kind, err);
        *ret = m->filters[kind];
        return *ret < 0 ? *ret : 0;
}

static enum filter_kind worker_filter(const struct config_profile *settings)
{
        if (settings->network == CONFIG_NETWORK_LOOPBACK)
                return settings->n_mounts > 0 ? FILTER_WORKER_LOOPBACK_MOUNTS
                                              : FILTER_WORKER_LOOPBACK;
        return settings->n_mounts > 0 ? FILTER_WORKER_MOUNTS : FILTER_WORKER;
}

static enum filter_kind template_filter(const struct config_profile *settings)
{
        return settings->network == CONFIG_NETWORK_LOOPBACK ? FILTER_TEMPLATE_LOOPBACK
                                                            : FILTER_TEMPLATE;
}

/* What enters a sandbox is a sealed copy, never reachable as a file. */
static int shared_program(const char *name, int file, int *memfd, int *ret, struct error *err)
{
        if (*memfd < 0 && lseek(file, 0, SEEK_SET) < 0)
                return error_errno(err, errno, "%s", name);
        if (*memfd < 0)
                *memfd = fd_sealed_copy(name, file, err);
        *ret = *memfd;
        return *ret < 0 ? *ret : 0;
}

static int gather_parts(const struct profile *p, struct template_parts *parts, struct error *err)
{
        struct monitor *m = p->monitor;
        const struct {
                enum filter_kind kind;
                int *fd;
        } filters[] = {
                {template_filter(p->settings), &parts->template_filter_fd},
                {worker_filter(p->settings), &parts->worker_filter_fd},
                {FILTER_INIT, &parts->init_filter_fd},
                {FILTER_STUB, &parts->stub_filter_fd},
        };

        int r = parts->image->link == TEMPLATE_LINK_MODULE
                        ? shared_program("cloister-module.so", m->module_file, &m->module_memfd,
                                         &parts->worker_fd, err)
                        : shared_program("cloister-worker", m->worker_file, &m->worker_memfd,
                                         &parts->worker_fd, err);
        if (r >= 0)
                r = shared_program("cloister-init", m->init_file, &m->init_memfd, &parts->init_fd,
                                   err);
        for (size_t i = 0; i < ARRAY_SIZE(filters) && r >= 0; i++)
                r = shared_filter(m, filters[i].kind, filters[i].fd, err);
        return r;
}

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

static int gather_guards(const struct monitor *m, struct mount_guards *guards, struct error *err)
{
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

static int open_sources(const struct profile *p, int *fds, struct error *err)
{
        struct monitor *m = p->monitor;
        struct mount_guards *guards = calloc(1, sizeof(*guards));
        int r = guards ? gather_guards(m, guards, err) : error_errno(err, ENOMEM, "mounts");

        for (size_t i = 0; i < p->settings->n_mounts && r >= 0; i++)
                r = fds[i] = mount_source_open(&p->settings->mounts[i], &p->ids, guards, err);
        free(guards);
        return r < 0 ? r : 0;
}

void profile_open_sources(struct profile *p)
{
        if (p->settings->n_mounts > 0 && p->monitor->ids.mode != SANDBOX_ROOTLESS &&
            open_sources(p, p->sources, &p->source_problem) < 0)
                fd_close_many(p->sources, CONFIG_MOUNTS_MAX);
}

int profile_start_template(struct profile *p, const struct image_info *info, int image_fd,
                           struct error *err)
{
        struct template_parts parts = {.image = info, .image_fd = image_fd, .profile = p->settings};
        int fresh[CONFIG_MOUNTS_MAX];
        int r = 0;

        if (error_is_set(&p->source_problem)) {
                *err = p->source_problem;
                return -err->code;
        }
        memset(fresh, -1, sizeof(fresh));
        parts.sources = p->sources;
        if (p->settings->n_mounts > 0 && p->sources[0] < 0) {
                parts.sources = fresh;
                r = open_sources(p, fresh, err);
        }
        if (r >= 0)
                r = gather_parts(p, &parts, err);
        if (r >= 0)
                r = template_start(&p->template_host, &parts, &p->template, err);
        fd_close_many(fresh, CONFIG_MOUNTS_MAX);
        p->network_checked = false;
        return r;
}
