/* The files that every template gets. */
#include "supervisor/monitor/template-files.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/program.h"
#include "policy/seccomp/filter.h"

void template_files_init(struct template_files *files)
{
        *files = (struct template_files){.worker = -1,
                                         .module = -1,
                                         .init = -1,
                                         .worker_memfd = -1,
                                         .module_memfd = -1,
                                         .init_memfd = -1};
        for (size_t i = 0; i < FILTER_KIND_MAX; i++)
                files->filters[i] = -1;
}

void template_files_done(struct template_files *files)
{
        int fds[] = {files->worker,       files->module,       files->init,
                     files->worker_memfd, files->module_memfd, files->init_memfd};

        fd_close_many(fds, ARRAY_SIZE(fds));
        fd_close_many(files->filters, FILTER_KIND_MAX);
}

int template_files_open(struct template_files *files, struct error *err)
{
        files->worker = program_open("cloister-worker", err);
        if (files->worker < 0)
                return files->worker;
        files->module = program_open("cloister-module.so", err);
        if (files->module < 0)
                return files->module;
        files->init = program_open("cloister-init", err);
        return files->init < 0 ? files->init : 0;
}

int template_files_filter(struct template_files *files, enum filter_kind kind, struct error *err)
{
        if (files->filters[kind] < 0)
                files->filters[kind] = filter_compile(kind, err);
        return files->filters[kind];
}

static enum filter_kind worker_filter(const struct config_profile *settings)
{
        static const enum filter_kind kinds[2][3] = {
                {FILTER_WORKER, FILTER_WORKER_MOUNTS, FILTER_WORKER_WRITABLE},
                {FILTER_WORKER_LOOPBACK, FILTER_WORKER_LOOPBACK_MOUNTS,
                 FILTER_WORKER_LOOPBACK_WRITABLE},
        };
        int mounts = settings->n_mounts > 0;

        for (size_t i = 0; i < settings->n_mounts; i++)
                if (settings->mounts[i].writable)
                        mounts = 2;
        return kinds[settings->network != CONFIG_NETWORK_NONE][mounts];
}

static bool has_locks(const struct config_profile *settings)
{
        for (size_t i = 0; i < settings->n_mounts; i++)
                if (settings->mounts[i].locks)
                        return true;
        return false;
}

static enum filter_kind template_filter(const struct config_profile *settings, bool rlimits)
{
        bool loopback = settings->network != CONFIG_NETWORK_NONE;
        int kind = rlimits ? (loopback ? FILTER_TEMPLATE_LOOPBACK_RLIMITS : FILTER_TEMPLATE_RLIMITS)
                   : loopback ? FILTER_TEMPLATE_LOOPBACK
                              : FILTER_TEMPLATE;

        return (enum filter_kind)(kind + (has_locks(settings) ? FILTER_TEMPLATE_LOCKS : 0));
}

/* A sandbox gets a sealed copy: it never has a descriptor of the file itself. */
static int get_program(const char *name, int file, int *memfd, int *ret, struct error *err)
{
        if (*memfd < 0 && lseek(file, 0, SEEK_SET) < 0)
                return error_errno(err, errno, "%s", name);
        if (*memfd < 0)
                *memfd = fd_sealed_copy(name, file, err);
        *ret = *memfd;
        return *ret < 0 ? *ret : 0;
}

int template_files_get(struct template_files *files, const struct config_profile *settings,
                       struct template_parts *parts, struct error *err)
{
        const struct {
                enum filter_kind kind;
                int *fd;
        } filters[] = {
                {template_filter(settings, parts->rlimits), &parts->template_filter_fd},
                {worker_filter(settings), &parts->worker_filter_fd},
                {has_locks(settings) ? FILTER_INIT_LOCKS : FILTER_INIT, &parts->init_filter_fd},
                {FILTER_STUB, &parts->stub_filter_fd},
        };

        int r = parts->image->link == TEMPLATE_LINK_MODULE
                        ? get_program("cloister-module.so", files->module, &files->module_memfd,
                                      &parts->worker_fd, err)
                        : get_program("cloister-worker", files->worker, &files->worker_memfd,
                                      &parts->worker_fd, err);
        if (r >= 0)
                r = get_program("cloister-init", files->init, &files->init_memfd, &parts->init_fd,
                                err);
        for (size_t i = 0; i < ARRAY_SIZE(filters) && r >= 0; i++)
                r = *filters[i].fd = template_files_filter(files, filters[i].kind, err);
        return r < 0 ? r : 0;
}
