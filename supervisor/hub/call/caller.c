/* The kinds of outcomes, and the methods. */
#include "supervisor/hub/call/caller.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const outcome_kinds[] = {
        [HUB_OK] = "ToolError", /* with isError; the tool itself says that it failed */
        [HUB_NOT_FOUND] = "ToolNotFound",
        [HUB_UNAVAILABLE] = "ToolUnavailable",
        [HUB_TIMEOUT] = "ToolTimeout",
        [HUB_PROTOCOL] = "ToolProtocolError",
        [HUB_INPUT] = "ToolInputRequired",
};
static_assert(ARRAY_SIZE(outcome_kinds) == HUB_OUTCOME_MAX, "a kind for each outcome");

const char *hub_outcome_kind(enum hub_outcome outcome)
{
        return outcome < HUB_OUTCOME_MAX ? outcome_kinds[outcome] : "ToolError";
}

const char *hub_result_fault(yyjson_val *result)
{
        yyjson_val *content = yyjson_obj_get(result, "content");
        yyjson_val *is_error = yyjson_obj_get(result, "isError");
        yyjson_val *block;
        size_t i, n;

        if (!yyjson_is_obj(result))
                return "the result is not an object";
        if (is_error && !yyjson_is_bool(is_error))
                return "isError is not a boolean";
        if (content && !yyjson_is_arr(content))
                return "the content is not an array";
        yyjson_arr_foreach (content, i, n, block) {
                if (!json_string(block, "type", NULL))
                        return "a block of the content has no type";
        }
        return NULL;
}

static const struct hub_method methods[] = {
        {"resources/list", false}, {"resources/templates/list", false},
        {"resources/read", false}, {"prompts/list", true},
        {"prompts/get", true},
};

const struct hub_method *hub_method_find(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (strcmp(methods[i].name, name) == 0)
                        return &methods[i];
        }
        return NULL;
}
