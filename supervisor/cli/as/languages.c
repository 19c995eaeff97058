/* Finds the languages that have an image. */
#include "supervisor/cli/as/languages.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/path.h"
#include "policy/image.h"

static bool has_image(const struct config_profile *p, const char *store)
{
        char path[PATH_MAX];

        /* Without a name it is the default image, which is built when it is missing. */
        if (!p->image)
                return true;
        return snprintf(path, sizeof(path), "%s/%s/image.json", store, p->image) < PATH_MAX &&
               access(path, F_OK) == 0;
}

int languages_put(const struct config *config, yyjson_mut_doc *settings, struct error *err)
{
        const struct image_store_env env = {.store = getenv("CLOISTER_IMAGE_STORE"),
                                            .data_home = getenv("XDG_DATA_HOME"),
                                            .home = path_home()};
        char store[PATH_MAX] = "";

        yyjson_mut_val *as = yyjson_mut_obj_get(yyjson_mut_doc_get_root(settings), "as");
        yyjson_mut_val *list = yyjson_mut_obj_add_arr(settings, yyjson_mut_obj_get(as, "values"),
                                                      "languages");
        bool good = list;
        for (int i = 0; good && i < LANGUAGE_MAX; i++)
                good = yyjson_mut_arr_add_str(settings, list, language_names[i]);
        bool known = image_store_path(geteuid(), &env, store, sizeof(store), NULL) >= 0;
        for (size_t i = 0; good && known && i < config->n_profiles; i++)
                if (config->profiles[i].program.language && has_image(&config->profiles[i], store))
                        good = yyjson_mut_arr_add_strcpy(settings, list,
                                                         config->profiles[i].program.language);
        return good ? 0 : error_errno(err, ENOMEM, "languages");
}
