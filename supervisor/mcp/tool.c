/* Description, schemas and annotations of run_python and run_javascript, and their lists. */
#include "supervisor/mcp/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "base/log.h"
#include "policy/rules/rules.h"
#include "supervisor/mcp/call/result.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/resources/resource-uri.h"
#include "supervisor/mcp/state.h"
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

/* Where a rule asks. At most 120 characters. */
static const char about_plan[] =
        "- plan=true: trial run in a copy, one question about all calls that ask, then the run. "
        "\"only\": only the list.\n";

static const char contract_javascript[] =
        "Run JavaScript (Node.js; TypeScript types are removed) that computes or calls the user's "
        "MCP tools, in a private sandbox that keeps its variables. Use it to loop over, filter and "
        "join tool results. The answer contains only what the code prints and the value of its "
        "last expression.\n"
        "- Variables, functions, classes and files in /workspace are kept between calls of a "
        "session. No `session`: \"javascript\" (HTTP in MCP 2026-07-28: a new one, named in the "
        "result). Top-level await works. %s\n"
        "- stdout and stderr are each shortened to %u characters (`max_output`).\n"
        "- display(value) shows an image or HTML; the user gets files in /workspace/out.\n"
        "- Tools: await tools[\"server.tool\"]({arg: 1}), or mcp_NAME.tool({arg: 1}) of server "
        "NAME; many with Promise.all. Failures throw ToolError.\n"
        "- await _search(\"words\") finds tools, _schema(\"server.tool\") returns arguments; "
        "_discover() and the resource " RESOURCE_TOOLS_URI " list all.\n"
        "- After its timeout (%g s) a call is interrupted, and variables are kept. If Node ends, "
        "they are lost: there are no checkpoints.\n"
        "- Long code: set `timeout` and `wait`. Status \"running\": it continues; \"busy\": other "
        "code runs, this code did not. Call with `session` and no `code` for the rest.\n"
        "- If the text begins with \"status:\", Cloister wrote that line. The code printed "
        "everything else.\n";

const char *const tool_names[LANGUAGE_MAX] = {"run_python", "run_javascript"};
static const char *const titles[LANGUAGE_MAX] = {"Run Python", "Run JavaScript"};

int tool_language(const char *name)
{
        for (int i = 0; i < LANGUAGE_MAX; i++)
                if (strcmp(tool_names[i], name) == 0)
                        return i;
        return -1;
}

static const char purpose[] =
        "Use run_python to compute, to process data, and to call the user's tools from "
        "Python when a task takes more than one call: loops, filters and joins run in the "
        "sandbox. The answer contains only what the code prints and the value of its last "
        "expression. Variables are kept.\n"
        "In the code, tools are called with await tools[\"server.tool\"](argument=value); "
        "_discover(), _search(\"words\") and _schema(\"server.tool\") tell more.\n";

void tool_append_clean(struct buffer *to, const char *text, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                char c = text[i];
                buffer_append(to, (unsigned char)c < 0x20 || c == 0x7f ? " " : &c, 1);
        }
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

static void append_name(yyjson_val *tool, struct buffer *to)
{
        size_t n = 0;
        const char *name = json_string(tool, "name", &n);

        tool_append_clean(to, name ? name : "?", name ? n : 1);
}

int tool_append_signature(yyjson_val *tool, struct buffer *to)
{
        yyjson_val *schema = yyjson_obj_get(tool, "inputSchema");
        yyjson_val *properties = yyjson_obj_get(schema, "properties"), *key, *value;
        size_t i, n;

        append_name(tool, to);
        buffer_append(to, "(", 1);
        size_t begin = to->length;
        yyjson_obj_foreach (properties, i, n, key, value) {
                if (i > 0)
                        buffer_append(to, ", ", 2);
                if (to->length - begin > SIGNATURE_MAX) {
                        buffer_append(to, "...", 3);
                        break;
                }
                tool_append_clean(to, yyjson_get_str(key), yyjson_get_len(key));
                if (!is_required(schema, yyjson_get_str(key)))
                        buffer_append(to, "?", 1);
        }
        buffer_append(to, ")", 1);
        return to->error;
}

int tool_append_asks(yyjson_val *tool, struct buffer *to)
{
        yyjson_val *asks = yyjson_obj_get(tool, "asks");

        if (!asks)
                return to->error;
        return buffer_append_text(to, yyjson_equals_str(asks, "always") ? " [asks a person]"
                                                                        : " [may ask a person]");
}

/* Appends tools, with signatures or by name, within a total of `most` bytes. Returns whether there was room for all. */
static bool append_tools(yyjson_val *tools, size_t most, bool signatures, struct buffer *to)
{
        _cleanup_buffer_ struct buffer one = BUFFER_INIT(LIST_MAX);
        size_t i, n;
        yyjson_val *tool;
        char rest[64];

        yyjson_arr_foreach (tools, i, n, tool) {
                buffer_consume(&one, one.length);
                if (signatures)
                        tool_append_signature(tool, &one);
                else
                        append_name(tool, &one);
                if (one.error < 0)
                        to->error = one.error;
                int m = snprintf(rest, sizeof(rest), " and %zu more", n - i);
                if (to->length + one.length + 2 + (size_t)m > most) {
                        buffer_append(to, rest, (size_t)m);
                        return false;
                }
                buffer_append_text(to, i > 0 ? "; " : " ");
                buffer_append(to, buffer_bytes(&one), one.length);
        }
        return true;
}

/* Appends the line of one server, within a total of `most` bytes: signatures if all of them fit, else names. */
static void append_server(yyjson_val *server, size_t most, struct buffer *to)
{
        yyjson_val *tools = yyjson_obj_get(server, "tools");

        append_name(server, to);
        buffer_append(to, ":", 1);
        size_t before = to->length;
        if (yyjson_arr_size(tools) == 0) {
                buffer_append_text(to, " not known yet");
        } else if (!append_tools(tools, most, true, to)) {
                to->length = before;
                append_tools(tools, most, false, to);
        }
}

/* Servers in the order of the config, each with as many signatures as fit into its share. */
static void append_catalogue(yyjson_val *servers, size_t most, struct buffer *to)
{
        size_t i, n;
        yyjson_val *server;

        yyjson_arr_foreach (servers, i, n, server) {
                size_t room = to->length < most ? most - to->length : 0, share = room / (n - i);

                if (yyjson_equals_str(yyjson_obj_get(server, "state"), "disabled"))
                        continue;
                if (yyjson_get_len(yyjson_obj_get(server, "name")) + LINE_OVERHEAD > share) {
                        buffer_printf(to, "and %zu servers more: _discover()\n", n - i);
                        return;
                }
                append_server(server, to->length + share - 1, to);
                buffer_append(to, "\n", 1);
        }
}

/* Rules are ASCII without quotes (network_rule_parse()). */
static void append_network(const struct config_profile *profile, struct buffer *to)
{
        enum config_network network = profile ? profile->network : CONFIG_NETWORK_NONE;
        char *const *rule = network == CONFIG_NETWORK_ALLOW ? profile->egress.allow : NULL;

        buffer_append_text(to, network == CONFIG_NETWORK_LOOPBACK
                                       ? "No network except the session's own 127.0.0.1"
                               : rule ? "HTTP and HTTPS through the proxy of the environment, to"
                                      : "No network");
        for (size_t i = 0; rule && rule[i]; i++) {
                if (to->length + strlen(rule[i]) > REACH_MAX) {
                        buffer_append_text(to, " and others");
                        return;
                }
                buffer_printf(to, "%s %s", i ? "," : "", rule[i]);
        }
}

/* Appends the networks and directories that the code can reach. */
static void append_reach(const struct config_profile *profile, enum language language,
                         struct buffer *to)
{
        size_t n = profile ? profile->n_mounts : 0;

        append_network(profile, to);
        buffer_append_text(to, n > 0 ? "; host directories:" : ", no host files.");
        for (size_t i = 0; i < n; i++) {
                const struct config_mount *mount = &profile->mounts[i];
                if (to->length + strlen(mount->target) > REACH_MAX) {
                        buffer_printf(to, " and %zu more.", n - i);
                        return;
                }
                buffer_append(to, " ", 1);
                tool_append_clean(to, mount->target, strlen(mount->target));
                buffer_printf(to, "%s%s", mount->writable ? "" : " (read-only)",
                              i + 1 < n ? "," : ".");
        }
        if (profile && profile->packages.install)
                buffer_append_text(to, language == LANGUAGE_JAVASCRIPT
                                               ? " Install packages of npm with the argument "
                                                 "`dependencies`."
                                               : " Install packages with the argument "
                                                 "`dependencies` or a line %pip install NAME.");
}

/* Whether a rule asks in a profile that code may have. */
static bool may_ask(const struct config *config, const struct config_profile *own,
                    enum language language)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct rules *rules = config->profiles[i].compiled_rules;
                if (!mcp_profile_is_choice(&config->profiles[i], own, language))
                        continue;
                for (size_t k = 0; rules && k < rules_count(rules); k++) {
                        if (rules_at(rules, k)->effect == RULES_ASK)
                                return true;
                }
        }
        return false;
}

static void append_description(const struct config *config, const struct config_profile *profile,
                               enum language language, bool has_plans, yyjson_val *servers,
                               struct buffer *to)
{
        _cleanup_buffer_ struct buffer reach = BUFFER_INIT(LIST_MAX);

        append_reach(profile, language, &reach);
        if (buffer_append(&reach, "", 1) < 0 || reach.error < 0)
                to->error = reach.error;
        else
                buffer_printf(to, language == LANGUAGE_JAVASCRIPT ? contract_javascript : contract,
                              buffer_bytes(&reach), config->output_characters,
                              (double)config->cell_timeout_ms / 1000);
        if (has_plans)
                buffer_append_text(to, about_plan);
        if (yyjson_arr_size(servers) > 0)
                buffer_append_text(to, "Tools by server:\n");
        append_catalogue(servers, TOOL_DESCRIPTION_MAX, to);
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

/* The rights of code with this profile or one that it may choose. */
struct abilities {
        bool writes, installs; /* a directory of the host; packages */
};

static struct abilities abilities_of(const struct config *config, const struct config_profile *own,
                                     enum language language)
{
        struct abilities may = {};

        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *profile = &config->profiles[i];
                if (!mcp_profile_is_choice(profile, own, language))
                        continue;
                may.installs |= profile->packages.install;
                for (size_t k = 0; k < profile->n_mounts; k++)
                        may.writes |= profile->mounts[k].writable;
        }
        return may;
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
                        /* A person decides about each call (docs/rules.md). */
                        if (yyjson_equals_str(yyjson_obj_get(tool, "asks"), "always"))
                                continue;
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
static void put_profile_argument(struct json_out *out, const struct config *config,
                                 const struct config_profile *own, enum language language)
{
        const struct config_profile *usual;
        char text[128];

        if (!mcp_profiles_to_choose(config, language))
                return;
        mcp_profile_for(config, own, language, &usual);
        snprintf(text, sizeof(text), "Kind of sandbox for a new session. Default: %s",
                 usual ? usual->name : "default");
        json_out_begin(out, "profile", '{');
        json_out_text(out, "type", "string");
        json_out_begin(out, "enum", '[');
        for (size_t i = 0; i < config->n_profiles; i++) {
                if (mcp_profile_is_choice(&config->profiles[i], own, language))
                        json_out_text(out, NULL, config->profiles[i].name);
        }
        json_out_end(out, ']');
        json_out_text(out, "description", text);
        json_out_end(out, '}');
}

static void put_text(struct json_out *out, const char *key, const char *json)
{
        json_out_raw(out, key, json, strlen(json));
}

/* Arguments that need a copy of the interpreter, which Node cannot make. */
static const char arguments_of_copies[] =
        "\"from\":{\"type\":\"string\",\"description\":\"Start the new session as a "
        "copy of this session's variables and files. Both sessions continue. "
        "session@checkpoint: with the variables of the checkpoint and the files of "
        "now\"},"
        "\"branches\":{\"type\":\"integer\",\"description\":\"With from: run the code "
        "in this many copies, named session-1, session-2 and so on. The variable branch "
        "is the number of the copy\"},";
/* And what is checked before it runs. */
static const char more_arguments_of_python[] =
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
        "the code: with transaction():\"},";

static void append_arguments(const struct config *config, enum language language, struct buffer *to)
{
        static const char *const sources[LANGUAGE_MAX] = {"Python", "JavaScript or TypeScript"};
        static const char *const sessions[LANGUAGE_MAX] = {"default", "javascript"};
        bool has_copies = language == LANGUAGE_PYTHON;

        buffer_printf(
                to,
                "\"code\":{\"type\":\"string\",\"description\":\"%s source. "
                "Top-level await works.\"},"
                "\"session\":{\"type\":\"string\",\"description\":\"Name of a session. Each "
                "session has its own variables. A new name starts a new session. Default: "
                "\\\"%s\\\"; over HTTP in MCP 2026-07-28, a new session, which the result "
                "names\",\"x-mcp-header\":\"Session\"},"
                "%s"
                "\"timeout\":{\"type\":\"number\",\"description\":\"Seconds, at most %g. "
                "Default: %g\"},"
                "\"wait\":{\"type\":\"number\",\"description\":\"Seconds until the call returns "
                "status running with the output so far; the code continues. Without code: waits "
                "for the code that is running in the session\"},"
                "\"interrupt\":{\"type\":\"boolean\",\"description\":\"Interrupt the code that "
                "is running in the session first. Its variables are kept\"},"
                "\"reset\":{\"type\":\"boolean\",\"description\":\"Start with a new "
                "interpreter\"},"
                "%s"
                "\"max_output\":{\"type\":\"integer\",\"description\":\"Characters of stdout "
                "and of stderr, at most %d. Default: %u\"}",
                sources[language], sessions[language], has_copies ? arguments_of_copies : "",
                (double)config->cell_timeout_max_ms / 1000, (double)config->cell_timeout_ms / 1000,
                has_copies ? more_arguments_of_python : "", OUTPUT_CHARACTERS_MAX,
                config->output_characters);
}

static void put_input_schema(struct json_out *out, const struct config *config,
                             const struct config_profile *own, enum language language,
                             bool has_plans)
{
        static const char *const dependencies[LANGUAGE_MAX] = {
                "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"Packages to "
                "install in the session first, such as numpy>=2. Variables are kept\"}",
                "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"Packages of npm to "
                "install in the session first, such as lodash@^4. Variables are kept\"}",
        };

        json_out_begin(out, "inputSchema", '{');
        json_out_text(out, "type", "object");
        json_out_begin(out, "properties", '{');
        append_arguments(config, language, out->to);
        out->more = true;
        if (has_plans)
                put_text(out, "plan", "{\"enum\":[true,false,\"only\"]}");
        if (abilities_of(config, own, language).installs)
                put_text(out, "dependencies", dependencies[language]);
        put_profile_argument(out, config, own, language);
        json_out_end(out, '}');
        json_out_bool(out, "additionalProperties", false);
        json_out_end(out, '}');
}

static void put_annotations(struct json_out *out, const struct config *config,
                            const struct config_profile *own, enum language language,
                            yyjson_val *servers)
{
        struct hints hints = collect_hints(servers);

        if (abilities_of(config, own, language).writes)
                hints = (struct hints){true, true};
        json_out_begin(out, "annotations", '{');
        json_out_text(out, "title", titles[language]);
        json_out_bool(out, "readOnlyHint", false);
        json_out_bool(out, "destructiveHint", hints.destructive);
        json_out_bool(out, "idempotentHint", false);
        json_out_bool(out, "openWorldHint", hints.open_world);
        json_out_end(out, '}');
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

/* own: the connection's profile; used: the one that calls get which name none. */
static void append_tool(const struct config *config, const struct config_profile *own,
                        const struct config_profile *used, enum language language,
                        yyjson_val *servers, struct json_out *out)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(LIST_MAX);

        bool has_plans = language == LANGUAGE_PYTHON && may_ask(config, own, language);
        append_description(config, used, language, has_plans, servers, &text);
        if (text.error < 0)
                out->to->error = text.error;
        json_out_begin(out, NULL, '{');
        json_out_text(out, "name", tool_names[language]);
        json_out_text(out, "title", titles[language]);
        json_out_string(out, "description", buffer_bytes(&text), text.length);
        put_input_schema(out, config, own, language, has_plans);
        put_text(out, "outputSchema", result_schema);
        put_annotations(out, config, own, language, servers);
        put_text(out, "execution", "{\"taskSupport\":\"optional\"}");
        put_text(out, "_meta", "{\"anthropic/alwaysLoad\":true}");
        json_out_end(out, '}');
}

/* Appends the tools, as items of a list. */
static int append_tools_of(const struct config *config, const struct config_profile *own,
                           const struct buffer *catalogue, struct buffer *to, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        const struct config_profile *used;
        struct json_out out = {.to = to};
        yyjson_val *servers;

        int r = parse_catalogue(catalogue, &doc, &servers, err);
        if (r < 0)
                return r;
        for (int i = 0; i < LANGUAGE_MAX; i++) {
                enum language language = (enum language)i;
                if (mcp_profile_for(config, own, language, &used))
                        append_tool(config, own, used, language, servers, &out);
        }
        return to->error < 0 ? error_errno(err, -to->error, "tools/list") : 0;
}

int tool_append_instructions(const struct config *config, const struct buffer *catalogue,
                             struct buffer *to, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *servers;

        int r = parse_catalogue(catalogue, &doc, &servers, err);
        if (r < 0)
                return r;
        buffer_append_text(to, purpose);
        if (yyjson_arr_size(servers) > 0)
                buffer_append_text(to, "The user's tools by server:\n");
        append_catalogue(servers, TOOL_INSTRUCTIONS_MAX, to);
        return to->error < 0 ? error_errno(err, -to->error, "instructions") : 0;
}

/* ---- lists ---- */

struct tool_list {
        struct tool_list *next;
        char *profile; /* its name; "": the config has none */
        struct buffer text;
        uint64_t serial;
        uint64_t made_of; /* the version of the catalogue; 0: it must be made again */
};

static const char *name_of(const struct config_profile *profile)
{
        return profile ? profile->name : "";
}

static struct tool_list *find_list(const struct mcp_server *server, const char *profile)
{
        struct tool_list *list = server->lists;

        while (list && strcmp(list->profile, profile) != 0)
                list = list->next;
        return list;
}

static void list_free(struct tool_list *list)
{
        buffer_done(&list->text);
        free(list->profile);
        free(list);
}

static struct tool_list *find_or_make(struct mcp_server *server, const char *profile)
{
        struct tool_list *list = find_list(server, profile);

        if (list)
                return list;
        list = calloc(1, sizeof(*list));
        if (!list)
                return NULL;
        buffer_init(&list->text, LIST_MAX);
        list->profile = strdup(profile);
        if (!list->profile) {
                list_free(list);
                return NULL;
        }
        list->next = server->lists;
        server->lists = list;
        return list;
}

static const struct buffer *catalogue_of(const struct mcp_server *server,
                                         const struct config_profile *profile, uint64_t *version)
{
        *version = 0;
        return server->tools.catalogue(server->tools.data, profile, version);
}

static int refresh(struct mcp_server *server, const struct config_profile *profile,
                   struct tool_list *list, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(LIST_MAX);
        uint64_t version;
        const struct buffer *catalogue = catalogue_of(server, profile, &version);

        if (version > 0 && list->made_of == version)
                return 0;
        int r = append_tools_of(server->config, profile, catalogue, &text, err);
        if (r < 0)
                return r;
        list->made_of = version;
        if (text.length == list->text.length &&
            memcmp(buffer_bytes(&text), buffer_bytes(&list->text), text.length) == 0)
                return 0;
        buffer_done(&list->text);
        list->text = text;
        text = (struct buffer)BUFFER_INIT(LIST_MAX);
        list->serial++;
        return 0;
}

const struct buffer *tool_list_catalogue(const struct mcp_peer *peer, enum mcp_era era,
                                         uint64_t *version)
{
        uint64_t ignored;

        return catalogue_of(peer->server, mcp_profile(peer, era), version ? version : &ignored);
}

bool tool_list_has_servers(const struct mcp_peer *peer, enum mcp_era era)
{
        static const char none[] = "{\"servers\":[]}";
        const struct buffer *catalogue = tool_list_catalogue(peer, era, NULL);

        return catalogue && catalogue->length > sizeof(none) - 1;
}

const struct buffer *tool_list_get(struct mcp_peer *peer, enum mcp_era era, struct error *err)
{
        const struct config_profile *profile = mcp_profile(peer, era);
        struct tool_list *list = find_or_make(peer->server, name_of(profile));

        if (!list) {
                error_errno(err, ENOMEM, "list of tools");
                return NULL;
        }
        return refresh(peer->server, profile, list, err) < 0 ? NULL : &list->text;
}

uint64_t tool_list_serial(const struct mcp_peer *peer, enum mcp_era era)
{
        const struct tool_list *list = find_list(peer->server, name_of(mcp_profile(peer, era)));

        return list ? list->serial : 0;
}

/* The list of a profile that the config does not have any more is dropped. */
bool tool_lists_refresh(struct mcp_server *server)
{
        const struct config *config = server->config;

        for (struct tool_list **at = &server->lists; *at;) {
                struct tool_list *list = *at;
                struct error err = {};
                int i = config_find_profile(config, list->profile, NULL);

                if (i < 0 && (*list->profile || config->n_profiles > 0)) {
                        *at = list->next;
                        list_free(list);
                        continue;
                }
                if (refresh(server, i < 0 ? NULL : &config->profiles[i], list, &err) < 0)
                        log_warning("the list of tools: %s", err.text);
                at = &list->next;
        }
        return server->lists;
}

void tool_lists_outdated(struct mcp_server *server)
{
        for (struct tool_list *list = server->lists; list; list = list->next)
                list->made_of = 0;
}

void tool_lists_free(struct mcp_server *server)
{
        while (server->lists) {
                struct tool_list *list = server->lists;
                server->lists = list->next;
                list_free(list);
        }
}
