/* The names of the eras. */
#include "supervisor/hub/cache/era.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const era_names[] = {
        [HUB_ERA_UNKNOWN] = "unknown",
        [HUB_ERA_LEGACY] = "legacy",
        [HUB_ERA_MODERN] = "modern",
};
static_assert(ARRAY_SIZE(era_names) == HUB_ERA_MAX, "a name for each era");

const char *hub_era_name(enum hub_era era)
{
        return era < HUB_ERA_MAX ? era_names[era] : "?";
}

enum hub_era hub_era_find(const char *name)
{
        for (int i = 0; name && i < HUB_ERA_MAX; i++) {
                if (strcmp(name, era_names[i]) == 0)
                        return (enum hub_era)i;
        }
        return HUB_ERA_UNKNOWN;
}
