/* cloister image build, list, path, and the builder that the monitor starts. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/image.h"
#include "rootfs/image-build.h"
#include "rootfs/store.h"
#include "supervisor/cli/commands.h"
#include "supervisor/cli/handover.h"

enum { MIB = 1024 * 1024 };

int cli_image_build(const struct cli_options *o, const char *const *words, size_t n)
{
        struct handover handover;
        struct error error = {};

        if (handover_init(&handover, "image-build", o, &error) < 0)
                return cli_fail(1, &error);
        if (o->given & CLI_QUIET)
                handover_add(&handover, "--quiet");
        handover_exec(&handover, &error);
        handover_done(&handover);
        return cli_fail(1, &error);
}

int cli_image_builder(const struct cli_options *o, const char *const *words, size_t n)
{
        struct image_build_options options = {
                .store = o->store,
                .python = o->python,
                .name = o->name,
                .link = INTERPRETER_LINK_ANY,
                .quiet = o->given & CLI_QUIET,
        };
        struct image_info info = {};
        struct error error = {};

        if (!o->store) {
                error_set(&error, EINVAL, "image-builder needs --store");
                return cli_fail(2, &error);
        }
        int r = image_build(&options, &info, &error);
        if (r < 0)
                return cli_fail(1, &error);
        if (r == 0 && !options.quiet)
                fprintf(stderr, "cloister: image %s is there already: Python %s of %s\n", info.name,
                        info.version, info.source);
        return 0;
}

/* Where images are, for this user. */
static int store_path(const struct cli_options *o, char ret[PATH_MAX], struct error *err)
{
        const char *home = getenv("HOME");
        const struct passwd *entry = home ? NULL : getpwuid(getuid());
        struct image_store_env env = {
                .store = getenv("CLOISTER_IMAGE_STORE"),
                .data_home = getenv("XDG_DATA_HOME"),
                .home = home    ? home
                        : entry ? entry->pw_dir
                                : NULL,
        };

        if (o->store)
                return realpath(o->store, ret) ? 0
                                               : error_errno(err, errno, "--store %s", o->store);
        return image_store_path(geteuid(), &env, ret, PATH_MAX, err);
}

/* Returns the number of images; none when there is no store yet. */
static int load(const struct cli_options *o, char path[PATH_MAX], struct image_info **ret,
                struct error *err)
{
        int r = store_path(o, path, err);
        if (r < 0)
                return r;
        struct error why = {};
        _cleanup_close_ int store = store_open(path, false, &why);
        if (store == -ENOENT)
                return 0;
        if (store < 0) {
                *err = why;
                return store;
        }
        return store_list(store, ret, err);
}

static int print_json(const struct image_info *images, int n, const char *store)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * MIB);
        int r = buffer_append(&b, "[", 1);

        for (int i = 0; i < n && r >= 0; i++) {
                char path[PATH_MAX + IMAGE_NAME_SIZE];
                snprintf(path, sizeof(path), "%s/%s", store, images[i].name);
                r = buffer_printf(&b, "%s{\"path\": ", i > 0 ? ",\n " : "");
                if (r >= 0)
                        r = json_append_string(&b, path, strlen(path));
                if (r >= 0)
                        r = buffer_append(&b, ", ", 2);
                size_t at = b.length;
                if (r >= 0)
                        r = image_info_append(&b, &images[i]);
                if (r >= 0) {
                        /* Without its own opening brace and newline it goes on with the object
                         * begun above. */
                        memmove(buffer_bytes(&b) + at, buffer_bytes(&b) + at + 1,
                                b.length - at - 1);
                        b.length -= 2;
                }
        }
        if (r >= 0)
                r = buffer_append(&b, "]\n", 2);
        if (r >= 0 && fwrite(buffer_bytes(&b), 1, b.length, stdout) != b.length)
                r = -EIO;
        return r;
}

static void print_table(const struct image_info *images, int n)
{
        int width = 4;

        for (int i = 0; i < n; i++)
                if ((int)strlen(images[i].name) > width)
                        width = (int)strlen(images[i].name);
        printf("%-*s  %-8s %6s  %-20s  %s\n", width, "NAME", "PYTHON", "MIB", "CREATED",
               "MADE FROM");
        for (int i = 0; i < n; i++)
                printf("%-*s  %-8s %6" PRIu64 "  %-20s  %s\n", width, images[i].name,
                       images[i].version, images[i].bytes / MIB, images[i].created,
                       images[i].source);
}

int cli_image_list(const struct cli_options *o, const char *const *words, size_t n)
{
        _cleanup_free_ struct image_info *images = NULL;
        struct error error = {};
        char path[PATH_MAX];

        int count = load(o, path, &images, &error);
        if (count < 0)
                return cli_fail(1, &error);
        if (o->given & CLI_JSON) {
                int r = print_json(images, count, path);
                if (r < 0)
                        return cli_fail(1, (error_errno(&error, -r, "list images"), &error));
        } else if (count == 0) {
                fprintf(stderr,
                        "No images in %s yet: 'cloister image build' makes one, and so does the "
                        "first use.\n",
                        path);
        } else {
                print_table(images, count);
        }
        return 0;
}

int cli_image_names(void)
{
        static const struct cli_options none = {};
        _cleanup_free_ struct image_info *images = NULL;
        struct error error = {};
        char path[PATH_MAX];

        int count = load(&none, path, &images, &error);
        for (int i = 0; i < count; i++)
                puts(images[i].name);
        return count < 0 ? 1 : 0;
}

int cli_image_path(const struct cli_options *o, const char *const *words, size_t n)
{
        struct image_info info;
        struct error error = {};
        char path[PATH_MAX];

        if (store_path(o, path, &error) < 0)
                return cli_fail(1, &error);
        if (n == 0) {
                puts(path);
                return 0;
        }
        if (!image_name_valid(words[0])) {
                error_set(&error, EINVAL, "'%s' is no name of an image", words[0]);
                return cli_fail(2, &error);
        }
        _cleanup_close_ int store = store_open(path, false, &error);
        if (store < 0)
                return cli_fail(1, &error);
        int r = store_find(store, words[0], &info, &error);
        if (r == 0)
                error_set(&error, ENOENT, "there is no image '%s' (see 'cloister image list')",
                          words[0]);
        if (r <= 0)
                return cli_fail(1, &error);
        printf("%s/%s\n", path, words[0]);
        return 0;
}
