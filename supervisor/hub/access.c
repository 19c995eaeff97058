/* Which servers and tools a profile may use. */
#include "supervisor/hub/access.h"
#include "policy/config/rules.h"

#include <stdio.h>
#include <string.h>

bool hub_access_server(const struct config_profile *profile, const struct config_server *server)
{
        if (!profile || !profile->servers)
                return true;
        for (char **name = profile->servers; *name; name++) {
                if (strcmp(*name, server->name) == 0)
                        return true;
        }
        return false;
}

bool hub_access_tool(const struct config_profile *profile, const struct config_server *server,
                     const char *tool)
{
        return hub_access_server(profile, server) &&
               config_tool_allowed(&server->tools, NULL, tool) &&
               (!profile || config_tool_allowed(&profile->tools, server->name, tool));
}

static bool are_limits(const struct config_tool_rules *rules)
{
        return rules->allow || rules->deny;
}

bool hub_access_is_limited(const struct config_profile *profile, const struct config_server *server)
{
        return are_limits(&server->tools) || (profile && are_limits(&profile->tools));
}

const char *hub_access_name_rule(const struct config_profile *profile,
                                 const struct config_server *server, const char *tool, char *to,
                                 size_t size)
{
        if (!config_tool_allowed(&server->tools, NULL, tool))
                snprintf(to, size, "\"tools\" of server \"%s\" in the config", server->name);
        else
                snprintf(to, size, "profile \"%s\"", profile ? profile->name : "default");
        return to;
}
