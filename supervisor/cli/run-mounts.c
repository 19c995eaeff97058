/* --mount SOURCE:TARGET[:ro|:rw] */
#include "supervisor/cli/run-mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

/* The target is an absolute path: it begins after the last colon before a slash. */
static const char *find_target(const char *given)
{
        const char *target = NULL;

        for (const char *p = given; (p = strstr(p, ":/")); p++)
                target = p + 1;
        return target;
}

static int add(yyjson_mut_doc *doc, yyjson_mut_val *mounts, const char *given, struct error *err)
{
        char source[PATH_MAX], real[PATH_MAX];
        const char *target = find_target(given);
        const char *mode = target ? strrchr(target, ':') : NULL;
        size_t n = target ? (size_t)(target - given) - 1 : 0;

        if (n == 0 || n >= sizeof(source) ||
            (mode && strcmp(mode, ":ro") != 0 && strcmp(mode, ":rw") != 0))
                return error_set(
                        err, EINVAL,
                        "--mount %.200s: SOURCE:TARGET is needed, with an absolute TARGET, and :ro (the default) or :rw after it",
                        given);
        snprintf(source, sizeof(source), "%.*s", (int)n, given);
        if (!realpath(source, real))
                return error_errno(err, errno, "--mount %s", source);
        yyjson_mut_val *mount = yyjson_mut_arr_add_obj(doc, mounts);
        bool added = mount && yyjson_mut_obj_add_strcpy(doc, mount, "source", real) &&
                     yyjson_mut_obj_add_strncpy(doc, mount, "target", target,
                                                mode ? (size_t)(mode - target) : strlen(target)) &&
                     yyjson_mut_obj_add_strcpy(doc, mount, "mode", mode ? mode + 1 : "ro");
        return added ? 0 : error_errno(err, ENOMEM, "--mount");
}

int run_mounts_text(const struct options *o, char **ret, struct error *err)
{
        _cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
        yyjson_mut_val *root = yyjson_mut_obj(doc);
        yyjson_mut_val *mounts = yyjson_mut_obj_add_arr(doc, root, "mounts");
        int r = 0;

        *ret = NULL;
        if (o->n_mounts == 0)
                return 0;
        yyjson_mut_doc_set_root(doc, root);
        for (size_t i = 0; i < o->n_mounts && r >= 0; i++)
                r = mounts ? add(doc, mounts, o->mounts[i], err)
                           : error_errno(err, ENOMEM, "--mount");
        if (r < 0)
                return r;
        *ret = yyjson_mut_write(doc, 0, NULL);
        return *ret ? 0 : error_set(err, EILSEQ, "--mount: a path is not UTF-8");
}
