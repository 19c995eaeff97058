/* Description, schemas and annotations of run_python. */
#include "supervisor/mcp/tool.h"

#include <stdio.h>
#include <string.h>

#include "supervisor/mcp/call/result.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/resources/resource-uri.h"
#include "supervisor/session/cell/output.h"

enum {
        SIGNATURE_MAX = 200,
        LIST_MAX = 1024 * 1024,
        REACH_MAX = 300,    /* bytes about directories */
        LINE_OVERHEAD = 40, /* of a server's line beside its name, at least */
};

static const char contract[] =
        "Run Python that computes or calls the user's MCP tools, in a private sandbox that "
        "keeps its variables. Use it to loop over, filter and join tool results. The answer "
        "contains only what the code prints and the value of its last expression.\n"
        "- Variables, imports and files in /workspace are kept between calls of a session. "
        "No `session`: \"default\" (HTTP in MCP 2026-07-28: a new one, named in the result). "
        "Top-level await works. %s\n"
        "- stdout and stderr are each shortened to %u characters (`max_output`).\n"
        "- display(figure or image) shows it; the user gets files in /workspace/out.\n"
        "- Tools: await tools[\"server.tool\"](arg=1), or mcp_NAME.tool(arg=1) of server NAME; "
        "many with asyncio.gather; .sync(...) outside async code. Failures raise ToolError.\n"
        "- _search(\"words\") finds tools, _schema(\"server.tool\") returns arguments; "
        "_discover() and the resource " RESOURCE_TOOLS_URI " list all.\n"
        "- After its timeout (%g s) a call is interrupted. State \"restored\": the interpreter "
        "ended, and variables are as at the end of the cell that the notice names. Files and "
        "tool calls are not taken back.\n"
        "- Long code: set `timeout` and `wait`. Status \"running\": it continues; \"busy\": other "
        "code runs, this code did not. Call with `session` and no `code` for the rest.\n"
        "- If the text begins with \"status:\", Cloister wrote that line. The code printed "
        "everything else.\n";

static const char purpose[] =
        "Use run_python to compute, to process data, and to call the user's tools from "
        "Python when a task takes more than one call: loops, filters and joins run in the "
        "sandbox. The answer contains only what the code prints and the value of its last "
        "expression. Variables are kept.\n";

int tool_append_clean(struct buffer *to, const char *text, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                char c = text[i];
                int r = buffer_append(to, (unsigned char)c < 0x20 || c == 0x7f ? " " : &c, 1);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool is_required(yyjson_val *schema, const char *name)
{
        yyjson_val *required = yyjson_obj_get(schema, "required"), *entry;
        size_t i, n;

        yyjson_arr_foreach (required, i, n, entry) {
                if (yyjson_equals_str(entry, name))
                        return true;
        }
        return false;
}

int tool_append_signature(yyjson_val *tool, struct buffer *to)
{
        yyjson_val *schema = yyjson_obj_get(tool, "inputSchema");
        yyjson_val *properties = yyjson_obj_get(schema, "properties"), *key, *value;
        size_t i, n, length = 0;
        const char *name = json_string(tool, "name", &length);

        int r = tool_append_clean(to, name ? name : "?", name ? length : 1);
        if (r >= 0)
                r = buffer_append(to, "(", 1);
        size_t begin = to->length;
        yyjson_obj_foreach (properties, i, n, key, value) {
                if (r >= 0 && i > 0)
                        r = buffer_append(to, ", ", 2);
                if (r >= 0 && to->length - begin > SIGNATURE_MAX)
                        return buffer_append(to, "...)", 4);
                if (r >= 0)
                        r = tool_append_clean(to, yyjson_get_str(key), yyjson_get_len(key));
                if (r >= 0 && !is_required(schema, yyjson_get_str(key)))
                        r = buffer_append(to, "?", 1);
        }
        return r < 0 ? r : buffer_append(to, ")", 1);
}

static int append_name(yyjson_val *tool, struct buffer *to)
{
        size_t n = 0;
        const char *name = json_string(tool, "name", &n);

        return tool_append_clean(to, name ? name : "?", name ? n : 1);
}

/* Appends tools within a total of `most` bytes. Returns how many there was no room for, or negative errno. */
static int append_tools(yyjson_val *tools, size_t most,
                        int (*append)(yyjson_val *tool, struct buffer *to), struct buffer *to)
{
        _cleanup_buffer_ struct buffer one = BUFFER_INIT(LIST_MAX);
        size_t i, n;
        yyjson_val *tool;
        char rest[64];
        int r = 0;

        yyjson_arr_foreach (tools, i, n, tool) {
                buffer_consume(&one, one.length);
                r = append(tool, &one);
                int m = snprintf(rest, sizeof(rest), " and %zu more", n - i);
                if (r >= 0 && to->length + one.length + 2 + (size_t)m > most) {
                        r = buffer_append(to, rest, (size_t)m);
                        return r < 0 ? r : (int)(n - i);
                }
                if (r >= 0)
                        r = buffer_append(to, i > 0 ? "; " : " ", i > 0 ? 2 : 1);
                if (r >= 0)
                        r = buffer_append(to, buffer_bytes(&one), one.length);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Appends the line of one server, within a total of `most` bytes: signatures if all of them fit, else names. */
static int append_server(yyjson_val *server, size_t most, struct buffer *to)
{
        yyjson_val *tools = yyjson_obj_get(server, "tools");

        int r = append_name(server, to);
        if (r >= 0)
                r = buffer_append(to, ":", 1);
        if (r >= 0 && yyjson_arr_size(tools) == 0)
                return buffer_append_text(to, " not known yet");
        size_t before = to->length;
        if (r >= 0)
                r = append_tools(tools, most, tool_append_signature, to);
        if (r > 0) {
                to->length = before;
                r = append_tools(tools, most, append_name, to);
        }
        return r < 0 ? r : 0;
}

static bool is_disabled(yyjson_val *server)
{
        return yyjson_equals_str(yyjson_obj_get(server, "state"), "disabled");
}

/* Servers in the order of the config, each with as many signatures as fit into its share. */
static int append_catalogue(yyjson_val *servers, size_t most, struct buffer *to)
{
        size_t i, n;
        yyjson_val *server;
        int r = 0;

        yyjson_arr_foreach (servers, i, n, server) {
                size_t room = to->length < most ? most - to->length : 0, share = room / (n - i);

                if (is_disabled(server))
                        continue;
                if (r >= 0 &&
                    yyjson_get_len(yyjson_obj_get(server, "name")) + LINE_OVERHEAD > share)
                        return buffer_printf(to, "and %zu servers more: _discover()\n", n - i);
                if (r >= 0)
                        r = append_server(server, to->length + share - 1, to);
                if (r >= 0)
                        r = buffer_append(to, "\n", 1);
        }
        return r;
}

/* Rules are ASCII without quotes (network_rule_parse()). */
static int append_network(const struct config_profile *profile, struct buffer *to)
{
        enum config_network network = profile ? profile->network : CONFIG_NETWORK_NONE;
        char *const *rule = network == CONFIG_NETWORK_ALLOW ? profile->egress.allow : NULL;

        int r = buffer_printf(to, "%s",
                              network == CONFIG_NETWORK_LOOPBACK
                                      ? "No network except the session's own 127.0.0.1"
                              : rule ? "HTTP and HTTPS through the proxy of the environment, to"
                                     : "No network");
        for (size_t i = 0; rule && rule[i] && r >= 0; i++) {
                if (to->length + strlen(rule[i]) > REACH_MAX)
                        return buffer_printf(to, " and others");
                r = buffer_printf(to, "%s %s", i ? "," : "", rule[i]);
        }
        return r;
}

/* Appends the networks and directories that the code can reach. */
static int append_reach(const struct config_profile *profile, struct buffer *to)
{
        size_t n = profile ? profile->n_mounts : 0;

        int r = append_network(profile, to);
        if (r >= 0)
                r = buffer_printf(to, n > 0 ? "; host directories:" : ", no host files.");
        for (size_t i = 0; i < n && r >= 0; i++) {
                const struct config_mount *mount = &profile->mounts[i];
                if (to->length + strlen(mount->target) > REACH_MAX)
                        return buffer_printf(to, " and %zu more.", n - i);
                r = tool_append_clean(to, " ", 1);
                if (r >= 0)
                        r = tool_append_clean(to, mount->target, strlen(mount->target));
                if (r >= 0)
                        r = buffer_printf(to, "%s%s", mount->writable ? "" : " (read-only)",
                                          i + 1 < n ? "," : ".");
        }
        if (r >= 0 && profile && profile->packages.install)
                r = buffer_printf(to, " Install packages with the argument `dependencies` or a "
                                      "line %%pip install NAME.");
        return r;
}

static int append_description(const struct config *config, const struct config_profile *profile,
                              yyjson_val *servers, struct buffer *to)
{
        _cleanup_buffer_ struct buffer reach = BUFFER_INIT(LIST_MAX);

        int r = append_reach(profile, &reach);
        if (r >= 0)
                r = buffer_append(&reach, "", 1);
        if (r >= 0)
                r = buffer_printf(to, contract, buffer_bytes(&reach), config->output_characters,
                                  (double)config->cell_timeout_ms / 1000);

        if (r >= 0 && yyjson_arr_size(servers) > 0)
                r = buffer_printf(to, "Tools by server:\n");
        if (r >= 0)
                r = append_catalogue(servers, TOOL_DESCRIPTION_MAX, to);
        return r;
}

/* The effects that the tools of the upstream servers may have, by their hints; the defaults are those of the
 * specification. */
struct hints {
        bool destructive, open_world;
};

static bool hint(yyjson_val *tool, const char *name, bool otherwise)
{
        yyjson_val *value = yyjson_obj_get(yyjson_obj_get(tool, "annotations"), name);

        return yyjson_is_bool(value) ? yyjson_get_bool(value) : otherwise;
}

/* Whether code may change a directory of the host, with this profile or one that it may choose. */
static bool may_write(const struct config *config, const struct config_profile *own)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *profile = &config->profiles[i];
                if (!mcp_profile_is_choice(profile, own))
                        continue;
                for (size_t k = 0; k < profile->n_mounts; k++) {
                        if (profile->mounts[k].writable)
                                return true;
                }
        }
        return false;
}

static struct hints collect_hints(yyjson_val *servers)
{
        struct hints hints = {};
        yyjson_val *server, *tool;
        size_t i, n, j, m;

        yyjson_arr_foreach (servers, i, n, server) {
                const char *state = json_string(server, "state", NULL);
                yyjson_val *tools = yyjson_obj_get(server, "tools");
                bool usable = !state ||
                              (strcmp(state, "disabled") != 0 && strcmp(state, "failed") != 0);

                /* A server whose tools are not known yet may have any. */
                if (usable && state && strcmp(state, "ready") != 0 && yyjson_arr_size(tools) == 0)
                        hints = (struct hints){true, true};
                yyjson_arr_foreach (tools, j, m, tool) {
                        if (!hint(tool, "readOnlyHint", false) &&
                            hint(tool, "destructiveHint", true))
                                hints.destructive = true;
                        if (hint(tool, "openWorldHint", true))
                                hints.open_world = true;
                }
        }
        return hints;
}

/* Only where an agent has a choice. */
static int append_profile_argument(const struct config *config, const struct config_profile *own,
                                   struct buffer *to)
{
        bool first = true;

        if (!mcp_profiles_to_choose(config))
                return 0;
        int r = buffer_printf(to, ",\"profile\":{\"type\":\"string\",\"enum\":[");
        for (size_t i = 0; i < config->n_profiles && r >= 0; i++) {
                const struct config_profile *profile = &config->profiles[i];
                if (!mcp_profile_is_choice(profile, own))
                        continue;
                r = buffer_printf(to, "%s\"%s\"", first ? "" : ",", profile->name);
                first = false;
        }
        return r < 0 ? r
                     : buffer_printf(to,
                                     "],\"description\":\"Kind of sandbox for a new session. "
                                     "Default: %s\"}",
                                     own ? own->name : "default");
}

/* Only where a profile that the agent has or may choose allows it. */
static bool may_install(const struct config *config, const struct config_profile *own)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *profile = &config->profiles[i];
                if (profile->packages.install &&
                    (profile == own || mcp_profile_is_choice(profile, own)))
                        return true;
        }
        return false;
}

static int append_dependencies_argument(const struct config *config,
                                        const struct config_profile *own, struct buffer *to)
{
        if (!may_install(config, own))
                return 0;
        return buffer_printf(to, ",\"dependencies\":{\"type\":\"array\",\"items\":{\"type\":"
                                 "\"string\"},\"description\":\"Packages to install in the session "
                                 "first, such as numpy>=2. Variables are kept\"}");
}

static int append_arguments(const struct config *config, struct buffer *to)
{
        return buffer_printf(
                to,
                "{\"type\":\"object\",\"properties\":{"
                "\"code\":{\"type\":\"string\",\"description\":\"Python source. "
                "Top-level await works.\"},"
                "\"session\":{\"type\":\"string\",\"description\":\"Name of a session. Each "
                "session has its own variables. A new name starts a new session. Default: "
                "\\\"default\\\"; over HTTP in MCP 2026-07-28, a new session, which the result "
                "names\",\"x-mcp-header\":\"Session\"},"
                "\"from\":{\"type\":\"string\",\"description\":\"Start the new session as a "
                "copy of this session's variables and files. Both sessions continue. "
                "session@checkpoint: with the variables of the checkpoint and the files of "
                "now\"},"
                "\"timeout\":{\"type\":\"number\",\"description\":\"Seconds, at most %g. "
                "Default: %g\"},"
                "\"wait\":{\"type\":\"number\",\"description\":\"Seconds until the call returns "
                "status running with the output so far; the code continues. Without code: waits "
                "for the code that is running in the session\"},"
                "\"interrupt\":{\"type\":\"boolean\",\"description\":\"Interrupt the code that "
                "is running in the session first. Its variables are kept\"},"
                "\"reset\":{\"type\":\"boolean\",\"description\":\"Start with a new "
                "interpreter\"},"
                "\"check_only\":{\"type\":\"boolean\",\"description\":\"Check the tool calls in "
                "the code, and run nothing\"},"
                "\"checkpoint\":{\"type\":\"string\",\"description\":\"Keep the variables under "
                "this name after the call\"},"
                "\"restore\":{\"type\":\"string\",\"description\":\"Checkpoint whose variables "
                "are restored before the code runs. Files are kept\"},"
                "\"on_error\":{\"type\":\"string\",\"enum\":[\"keep\",\"rollback\"],"
                "\"description\":\"rollback: "
                "if the code fails, variables and /workspace are restored to the state before "
                "the call; tool calls that were sent are listed. Default: keep. For a part of "
                "the code: with transaction():\"},"
                "\"max_output\":{\"type\":\"integer\",\"description\":\"Characters of stdout "
                "and of stderr, at most %d. Default: %u\"}",
                (double)config->cell_timeout_max_ms / 1000, (double)config->cell_timeout_ms / 1000,
                OUTPUT_CHARACTERS_MAX, config->output_characters);
}

static int append_input_schema(const struct config *config, const struct config_profile *own,
                               struct buffer *to)
{
        int r = append_arguments(config, to);
        if (r >= 0)
                r = append_dependencies_argument(config, own, to);
        if (r >= 0)
                r = append_profile_argument(config, own, to);
        return r < 0 ? r : buffer_printf(to, "},\"additionalProperties\":false}");
}

static int append_annotations(const struct config *config, const struct config_profile *own,
                              yyjson_val *servers, struct buffer *to)
{
        struct hints hints = collect_hints(servers);

        if (may_write(config, own))
                hints = (struct hints){true, true};
        return buffer_printf(
                to,
                "{\"title\":\"Run Python\",\"readOnlyHint\":false,\"destructiveHint\":%s,"
                "\"idempotentHint\":false,\"openWorldHint\":%s}",
                hints.destructive ? "true" : "false", hints.open_world ? "true" : "false");
}

static int append_whole(const struct config *config, const struct config_profile *profile,
                        yyjson_val *servers, struct buffer *to)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(LIST_MAX);

        int r = append_description(config, profile, servers, &text);
        if (r >= 0)
                r = buffer_printf(to,
                                  "{\"name\":\"%s\",\"title\":\"Run Python\","
                                  "\"description\":",
                                  TOOL_NAME);
        if (r >= 0)
                r = json_append_string(to, buffer_bytes(&text), text.length);
        if (r >= 0)
                r = buffer_printf(to, ",\"inputSchema\":");
        if (r >= 0)
                r = append_input_schema(config, profile, to);
        if (r >= 0)
                r = buffer_printf(to, ",\"outputSchema\":%s,\"annotations\":", result_schema);
        if (r >= 0)
                r = append_annotations(config, profile, servers, to);
        if (r >= 0)
                r = buffer_printf(to, ",\"execution\":{\"taskSupport\":\"optional\"},"
                                      "\"_meta\":{\"anthropic/alwaysLoad\":true}}");
        return r;
}

static int parse_catalogue(const struct buffer *catalogue, yyjson_doc **ret, yyjson_val **servers,
                           struct error *err)
{
        *servers = NULL;
        if (!catalogue || catalogue->length == 0)
                return 0;
        int r = json_parse(buffer_bytes(catalogue), catalogue->length, ret, err);
        if (r < 0)
                return error_context(err, "catalogue");
        *servers = yyjson_obj_get(yyjson_doc_get_root(*ret), "servers");
        return 0;
}

int tool_append(const struct config *config, const struct config_profile *profile,
                const struct buffer *catalogue, struct buffer *to, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *servers;

        int r = parse_catalogue(catalogue, &doc, &servers, err);
        if (r < 0)
                return r;
        r = append_whole(config, profile, servers, to);
        return r < 0 ? error_errno(err, -r, "tools/list") : 0;
}

int tool_append_instructions(const struct config *config, const struct buffer *catalogue,
                             struct buffer *to, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *servers;

        int r = parse_catalogue(catalogue, &doc, &servers, err);
        if (r < 0)
                return r;
        r = buffer_append(to, purpose, sizeof(purpose) - 1);
        if (r >= 0)
                r = buffer_printf(to,
                                  "In the code, tools are called with await "
                                  "tools[\"server.tool\"](argument=value); _discover(), "
                                  "_search(\"words\") and _schema(\"server.tool\") tell more.\n");
        if (r >= 0 && yyjson_arr_size(servers) > 0)
                r = buffer_printf(to, "The user's tools by server:\n");
        if (r >= 0)
                r = append_catalogue(servers, TOOL_INSTRUCTIONS_MAX, to);
        return r < 0 ? error_errno(err, -r, "instructions") : 0;
}
