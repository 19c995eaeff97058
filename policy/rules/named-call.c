/* A call as people write it. */
#include "policy/rules/named-call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "policy/rules/labels.h"
#include "policy/rules/server-names.h"

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

static int unknown_server(const char *name, size_t n, const struct rules_server *servers,
                          size_t n_servers, struct error *err)
{
        char server[RULES_NAME_MAX + 1], what[RULES_NAME_MAX + 16];
        const char *names[SERVER_NAMES_MAX + 1] = {};

        for (size_t i = 0; i < n_servers && i < SERVER_NAMES_MAX; i++)
                names[i] = servers[i].name;
        snprintf(server, sizeof(server), "%.*s", (int)n, name);
        snprintf(what, sizeof(what), "%s: ", name);
        return server_names_unknown(what, server, names, err);
}

/* The names of MCP; others would be taken for the defaults. */
static int check_annotations(yyjson_val *annotations, struct error *err)
{
        static const char *const names[] = {"title",          "readOnlyHint",  "destructiveHint",
                                            "idempotentHint", "openWorldHint", NULL};
        yyjson_val *key, *value;
        size_t i, n;

        yyjson_obj_foreach (annotations, i, n, key, value) {
                const char *name = yyjson_get_str(key);
                bool is_known = false;
                for (size_t k = 0; names[k]; k++)
                        is_known |= strcmp(name, names[k]) == 0;
                if (!is_known)
                        return error_set(
                                err, EINVAL,
                                "annotations: unknown name \"%.64s\"; there are title, readOnlyHint, destructiveHint, idempotentHint and openWorldHint",
                                name);
        }
        return 0;
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
        if (strchr(name, '*'))
                return error_set(err, EINVAL, "\"%.100s\" must be one tool, without *", name);
        bool is_network = strncmp(name, network, n) == 0 && network[n] == '\0';
        if (!server && n_servers > 0 && !is_network)
                return unknown_server(name, n, servers, n_servers, err);
        if (arguments && !yyjson_is_obj(arguments))
                return error_set(err, EINVAL, "the arguments must be an object");
        if (annotations && !yyjson_is_obj(annotations))
                return error_set(err, EINVAL, "the annotations must be an object");
        int r = check_annotations(annotations, err);
        if (r < 0)
                return r;
        memcpy(named->server, name, n);
        named->server[n] = '\0';
        named->tool = name + n + 1;
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
