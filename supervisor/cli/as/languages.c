/* Finds the languages that have an image. */
#include "supervisor/cli/as/languages.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/json-out.h"
#include "base/path.h"
#include "policy/image.h"

enum { LIST_MAX = 64 * 1024 };

static bool has_image(const struct config_profile *p, const char *store)
{
        char path[PATH_MAX];

        /* Without a name it is the default image, which is built when it is missing. */
        if (!p->image)
                return true;
        return snprintf(path, sizeof(path), "%s/%s/image.json", store, p->image) < PATH_MAX &&
               access(path, F_OK) == 0;
}

int languages_put(const struct config *config, struct json_tree *settings, struct error *err)
{
        const struct image_store_env env = {.store = getenv("CLOISTER_IMAGE_STORE"),
                                            .data_home = getenv("XDG_DATA_HOME"),
                                            .home = path_home()};
        _cleanup_buffer_ struct buffer list = BUFFER_INIT(LIST_MAX);
        struct json_out out = {.to = &list};
        char store[PATH_MAX] = "";

        bool known = image_store_path(geteuid(), &env, store, sizeof(store), NULL) >= 0;
        json_out_begin(&out, NULL, '[');
        for (int i = 0; i < LANGUAGE_MAX; i++)
                json_out_text(&out, NULL, language_names[i]);
        for (size_t i = 0; known && i < config->n_profiles; i++)
                if (config->profiles[i].program.language && has_image(&config->profiles[i], store))
                        json_out_text(&out, NULL, config->profiles[i].program.language);
        json_out_end(&out, ']');
        int r = out.error < 0 ? out.error
                              : json_tree_put(settings, "/as/values/languages", buffer_bytes(&list),
                                              list.length);
        return r < 0 ? error_errno(err, -r, "languages") : 0;
}
