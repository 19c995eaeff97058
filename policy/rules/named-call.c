/* A call as people write it. */
#include "policy/rules/named-call.h"

#include <errno.h>
#include <string.h>

#include "policy/rules/labels.h"

static const char network[] = "@network";

static const struct rules_server *find_server(const char *name, const struct rules_server *servers,
                                              size_t n)
{
        const struct rules_server *found = NULL;
        size_t longest = 0;

        for (size_t i = 0; i < n; i++) {
                size_t length = strlen(servers[i].name);
                if (length >= longest && strncmp(name, servers[i].name, length) == 0 &&
                    name[length] == '.') {
                        found = &servers[i];
                        longest = length;
                }
        }
        return found;
}

int named_call_init(struct named_call *named, const char *name, yyjson_val *arguments,
                    yyjson_val *annotations, const struct rules_server *servers, size_t n_servers,
                    struct error *err)
{
        const struct rules_server *server = find_server(name, servers, n_servers);
        size_t n = server ? strlen(server->name) : strcspn(name, ".");

        if (name[n] != '.' || name[n + 1] == '\0' || n == 0 || strlen(name) > RULES_NAME_MAX)
                return error_set(err, EINVAL, "\"%.100s\" must be a server and a tool: %s", name,
                                 "files.write_file");
        if (arguments && !yyjson_is_obj(arguments))
                return error_set(err, EINVAL, "the arguments must be an object");
        if (annotations && !yyjson_is_obj(annotations))
                return error_set(err, EINVAL, "the annotations must be an object");
        memcpy(named->server, name, n);
        named->server[n] = '\0';
        named->tool = name + n + 1;
        bool is_network = strcmp(named->server, network) == 0;
        struct labels labels = labels_of(server ? server->labels : NULL, named->tool, annotations);
        named->call = (struct rules_call){
                .server = named->server,
                .tool = named->tool,
                .arguments = arguments,
                .annotations = annotations,
                .is_method = !is_network && strchr(named->tool, '/'),
                .is_network = is_network,
                .trusts_hints = server && server->trusts_hints,
                .is_open = is_network || labels.is_open,
        };
        return 0;
}
