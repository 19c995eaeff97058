/* The methods that code can call besides tools/call. */
#include "supervisor/hub/call/method.h"

#include <string.h>

#include "base/cleanup.h"

static const struct hub_method methods[] = {
        {"resources/list", false}, {"resources/templates/list", false},
        {"resources/read", false}, {"prompts/list", true},
        {"prompts/get", true},
};

const struct hub_method *hub_method_of(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (strcmp(methods[i].name, name) == 0)
                        return &methods[i];
        }
        return NULL;
}

const char *hub_method_find(const char *name)
{
        const struct hub_method *method = hub_method_of(name);

        return method ? method->name : NULL;
}
