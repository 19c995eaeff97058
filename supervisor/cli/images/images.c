/* cloister image build, remove, prune, and the builder that the monitor starts. */
#include "supervisor/cli/images/images.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "rootfs/image-build.h"
#include "rootfs/packages.h"
#include "rootfs/store.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/cli/images/images-list.h"

int cli_image_build(const struct options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct error error = {};

        if (o->rootfs && (!o->name || !package_set_empty(&o->set))) {
                error_set(
                        &error, EINVAL,
                        !o->name
                                ? "--rootfs needs --name: what the image is to be called"
                                : "--rootfs and packages do not go together: install them in the directory");
                return cli_fail(2, &error);
        }

        if (monitor_command_init(&command, o, &error) < 0)
                return cli_fail(1, &error);
        monitor_command_exec(&command, PROGRAM_MONITOR, "image-build", &error);
        monitor_command_done(&command);
        return cli_fail(1, &error);
}

int cli_image_builder(const struct options *o, const char *const *words, size_t n)
{
        struct image_build_options options = {
                .store = o->store,
                .python = o->python,
                .name = o->name,
                .rootfs = o->rootfs,
                .link = o->link ? image_link_parse(o->link) : INTERPRETER_LINK_ANY,
                .set = &o->set,
                .quiet = o->quiet,
        };
        struct image_info info = {};
        struct error error = {};

        if (!o->store) {
                error_set(&error, EINVAL, "image-builder needs --store");
                return cli_fail(2, &error);
        }
        int r = o->rootfs ? image_import(&options, &info, &error)
                          : image_build(&options, &info, &error);
        if (r < 0)
                return cli_fail(1, &error);
        if (r == 0 && !options.quiet)
                fprintf(stderr, "cloister: image %s is there already: Python %s of %s\n", info.name,
                        info.version, info.source);
        return 0;
}

int cli_package_installer(const struct options *o, const char *const *words, size_t n)
{
        struct error error = {};

        if (!o->store || !o->python)
                error_set(&error, EINVAL, "package-installer needs --store and --python");
        else
                packages_become_installer(o->python, o->store, &error);
        return cli_fail(1, &error);
}

int cli_image_remove(const struct options *o, const char *const *words, size_t n)
{
        struct error error = {};
        char path[PATH_MAX];
        int status = 0;

        if (n == 0) {
                error_set(&error, EINVAL, "image remove needs the NAME of an image");
                return cli_fail(2, &error);
        }
        _cleanup_close_ int store = images_open(o, path, &error);
        if (store < 0 || images_become_owner(store, &error) < 0)
                return cli_fail(1, &error);
        for (size_t i = 0; i < n; i++) {
                error = (struct error){};
                int r = image_name_valid(words[i]) ? store_remove(store, words[i], &error) : 0;
                if (r == 0)
                        error_set(&error, ENOENT,
                                  "there is no image '%s' (see 'cloister image list')", words[i]);
                if (r == -EBUSY)
                        error_set(
                                &error, EBUSY,
                                "image %s is in use, or being built: end what uses it first (see 'cloister sessions')",
                                words[i]);
                if (r <= 0)
                        status = cli_fail(1, &error);
        }
        return status;
}

static void tell(const struct image_info *info, bool busy)
{
        printf("%s %s: Python %s of %s\n", busy ? "in use, stays:" : "removed", info->name,
               info->version, info->source);
}

static void tell_nothing(const struct image_info *info, bool busy)
{
}

int cli_image_prune(const struct options *o, const char *const *words, size_t n)
{
        struct error error = {};
        char path[PATH_MAX];
        uint64_t bytes = 0;

        _cleanup_close_ int store = images_open(o, path, &error);
        if (store == -ENOENT)
                return 0;
        if (store < 0 || images_become_owner(store, &error) < 0)
                return cli_fail(1, &error);
        bool quiet = o->quiet;
        int removed = housekeeping_prune(store, quiet ? tell_nothing : tell, &bytes, &error);
        if (removed < 0)
                return cli_fail(1, &error);
        if (!quiet)
                printf("%d image%s and %" PRIu64 " KiB of wheels removed\n", removed,
                       removed == 1 ? "" : "s", bytes / 1024);
        return 0;
}
