/* `cloister tools`: lists the tools of the user's servers, as text or as JSON. */
#include "supervisor/broker/modes/mode-tools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json-out.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/printable.h"
#include "supervisor/broker/writer.h"
#include "supervisor/mcp/tool.h"

enum {
        WAIT_MS = 30000,
        TEXT_MAX = 256 * 1024 * 1024,
        DESCRIPTION_SHOWN = 100, /* characters */
        LAST_FLUSH_MS = 5000,
};

struct mode_tools {
        struct writer out;
        struct hub_wait *wait;
        int status;
        bool done;
};

/* The first line of a description, shortened. */
static int append_summary(struct buffer *to, yyjson_val *tool)
{
        size_t n = 0;
        const char *text = json_string(tool, "description", &n);

        if (!text || n == 0)
                return 0;
        const char *newline = memchr(text, '\n', n);
        size_t line = newline ? (size_t)(newline - text) : n;
        size_t shown = utf8_skip(text, line, DESCRIPTION_SHOWN);
        int r = buffer_append(to, "      ", 6);
        if (r >= 0)
                r = terminal_escape_line(text, shown, to);
        return r < 0 ? r : buffer_printf(to, shown < line ? " ...\n" : "\n");
}

static int append_tool(struct buffer *to, yyjson_val *tool)
{
        _cleanup_buffer_ struct buffer signature = BUFFER_INIT(TEXT_MAX);

        int r = tool_append_signature(tool, &signature);
        if (r >= 0)
                r = tool_append_asks(tool, &signature);
        if (r >= 0)
                r = buffer_append(to, "  ", 2);
        if (r >= 0)
                r = terminal_escape_line(buffer_bytes(&signature), signature.length, to);
        if (r >= 0)
                r = buffer_append(to, "\n", 1);
        return r < 0 ? r : append_summary(to, tool);
}

static int append_server(struct buffer *to, yyjson_val *server)
{
        const char *name = json_string(server, "name", NULL),
                   *state = json_string(server, "state", NULL);
        const char *error = json_string(server, "error", NULL);
        yyjson_val *tools = yyjson_obj_get(server, "tools"), *tool;
        size_t i, n;

        int r = terminal_escape_line(name ? name : "?", name ? strlen(name) : 1, to);
        if (r >= 0 && error) {
                r = buffer_printf(to, ": %s: ", state ? state : "failed");
                if (r >= 0)
                        r = terminal_escape_line(error, strlen(error), to);
        } else if (r >= 0) {
                r = buffer_printf(to, ": %s, %zu tools", state ? state : "?",
                                  yyjson_arr_size(tools));
        }
        if (r >= 0)
                r = buffer_append(to, "\n", 1);
        yyjson_arr_foreach (tools, i, n, tool) {
                if (r >= 0)
                        r = append_tool(to, tool);
        }
        return r;
}

struct count {
        size_t all,
                changing; /* tools; the latter may do more than read, and no rule asks about them */
        size_t unknown;   /* servers whose tools no start has noted */
};

static struct count count_tools(yyjson_val *servers)
{
        yyjson_val *server, *tool;
        struct count count = {};
        size_t i, n, j, m;

        yyjson_arr_foreach (servers, i, n, server) {
                const char *state = json_string(server, "state", NULL);
                count.unknown += state && strcmp(state, "starting") == 0;
                yyjson_arr_foreach (yyjson_obj_get(server, "tools"), j, m, tool) {
                        yyjson_val *annotations = yyjson_obj_get(tool, "annotations");
                        count.all++;
                        count.changing += !yyjson_get_bool(
                                                  yyjson_obj_get(annotations, "readOnlyHint")) &&
                                          !yyjson_obj_get(tool, "asks");
                }
        }
        return count;
}

static int append_count(struct buffer *to, const struct count *count)
{
        if (count->changing == 0)
                return 0;
        return buffer_printf(
                to,
                "%zu of %zu tools may change things (no readOnlyHint), and no rule asks about them: add \"rules\" (docs/rules.md), or"
                " leave out with \"tools\": {\"deny\": [\"NAME\"]} of the server, or of a profile\n",
                count->changing, count->all);
}

/* --count: of the tools that the cache has. */
static int append_known(struct buffer *to, yyjson_val *servers)
{
        const struct count count = count_tools(servers);
        int r = append_count(to, &count);

        if (r >= 0 && count.unknown > 0)
                r = buffer_printf(
                        to,
                        "the tools of %zu server%s are not known before the first start: 'cloister tools' starts the servers, and says how"
                        " many tools may change things\n",
                        count.unknown, plural(count.unknown));
        return r;
}

/* The named profile, otherwise the default one. */
static const struct config_profile *profile_of(const struct broker *broker)
{
        const char *name = broker->options.profile;
        int i = name ? config_find_profile(broker->config, name, NULL) : -ENOENT;

        return i < 0 ? config_usual_profile(broker->config) : &broker->config->profiles[i];
}

static int append_none(struct buffer *to, const struct broker *broker)
{
        const struct config *config = broker->config;
        const struct config_profile *profile = profile_of(broker);
        size_t i = 0;

        if (config->n_servers == 0)
                return buffer_printf(
                        to, "no servers: name some in a config file (cloister tools --help)\n");
        while (i < config->n_servers && config->servers[i].disabled)
                i++;
        if (i == config->n_servers || !profile)
                return buffer_printf(to, "no servers: all of the config are disabled\n");
        return buffer_printf(
                to, "no servers: profile \"%s\" may use none of the config's (\"servers\" in it)\n",
                profile->name);
}

static int append_table(struct buffer *to, const struct broker *broker, yyjson_val *servers)
{
        yyjson_val *server;
        const struct count count = count_tools(servers);
        size_t i, n;
        int r = 0;

        if (yyjson_arr_size(servers) == 0)
                return append_none(to, broker);
        yyjson_arr_foreach (servers, i, n, server) {
                if (r >= 0)
                        r = append_server(to, server);
        }
        if (r >= 0 && count.changing > 0)
                r = buffer_append(to, "\n", 1);
        return r < 0 ? r : append_count(to, &count);
}

/* Writes the members of an object except one, and leaves the object open. Returns the value of that one. */
static yyjson_val *begin_copy(struct json_out *out, yyjson_val *object, const char *except)
{
        yyjson_val *key, *value, *found = NULL;
        size_t i, n;

        json_out_begin(out, NULL, '{');
        yyjson_obj_foreach (object, i, n, key, value) {
                if (yyjson_equals_str(key, except)) {
                        found = value;
                        continue;
                }
                json_out_key(out, yyjson_get_str(key), yyjson_get_len(key));
                json_out_value(out, NULL, value);
        }
        return found;
}

static void append_tool_json(struct json_out *out, yyjson_val *tool)
{
        _cleanup_buffer_ struct buffer signature = BUFFER_INIT(TEXT_MAX);

        begin_copy(out, tool, "signature");
        int r = tool_append_signature(tool, &signature);
        if (r < 0)
                json_out_fail(out, r);
        json_out_string(out, "signature", buffer_bytes(&signature), signature.length);
        json_out_end(out, '}');
}

/* Prints the catalogue as JSON; each tool has its signature too. */
static int append_json(struct buffer *to, yyjson_val *root)
{
        _cleanup_buffer_ struct buffer raw = BUFFER_INIT(TEXT_MAX);
        struct json_out out = {.to = &raw};
        yyjson_val *server, *tool;
        size_t i, n, j, m;

        yyjson_val *servers = begin_copy(&out, root, "servers");
        json_out_begin(&out, "servers", '[');
        yyjson_arr_foreach (servers, i, n, server) {
                yyjson_val *tools = begin_copy(&out, server, "tools");
                json_out_begin(&out, "tools", '[');
                yyjson_arr_foreach (tools, j, m, tool)
                        append_tool_json(&out, tool);
                json_out_end(&out, ']');
                json_out_end(&out, '}');
        }
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        int r = out.error ? out.error : printable_json(to, buffer_bytes(&raw), raw.length);
        return r < 0 ? r : buffer_append(to, "\n", 1);
}

static bool any_failed(yyjson_val *servers)
{
        yyjson_val *server;
        size_t i, n;

        yyjson_arr_foreach (servers, i, n, server) {
                const char *state = json_string(server, "state", NULL);
                if (!state || (strcmp(state, "ready") != 0 && strcmp(state, "disabled") != 0))
                        return true;
        }
        return false;
}

static void end_when_written(struct broker *broker)
{
        struct mode_tools *mode = broker->data;

        if (mode->done && writer_is_empty(&mode->out))
                broker_end(broker, mode->status);
}

static void on_waited(void *data)
{
        struct broker *broker = data;
        struct mode_tools *mode = broker->data;
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        uint64_t version;

        mode->wait = NULL;
        mode->done = true;
        const struct buffer *catalogue = hub_catalogue(broker->hub, profile_of(broker), &version);
        int r = json_parse(buffer_bytes(catalogue), catalogue->length, &doc, NULL);
        yyjson_val *root = yyjson_doc_get_root(doc), *servers = yyjson_obj_get(root, "servers");
        if (r >= 0)
                r = broker->options.json    ? append_json(&text, root)
                    : broker->options.count ? append_known(&text, servers)
                                            : append_table(&text, broker, servers);
        mode->status = r < 0 || (!broker->options.count && any_failed(servers)) ? 1 : 0;
        writer_write(&mode->out, buffer_bytes(&text), text.length);
        end_when_written(broker);
}

static void on_drained(void *data)
{
        end_when_written(data);
}

static void on_broken(void *data, int code)
{
        if (code != EPIPE)
                log_error("write the list: %s", strerror(code));
        broker_end(data, 1);
}

static void on_counted(int fd, short events, void *data)
{
        on_waited(data);
}

static int start(struct broker *broker, struct error *err)
{
        const struct timeval at_once = {};
        const struct writer_owner owner = {broker, on_drained, on_broken};
        struct mode_tools *mode = calloc(1, sizeof(*mode));

        if (!mode)
                return error_errno(err, ENOMEM, "tools");
        broker->data = mode;
        int r = writer_open(&mode->out, broker->base, STDOUT_FILENO, &owner, err);
        if (r < 0)
                return r;
        if (broker->options.count)
                return event_base_once(broker->base, -1, EV_TIMEOUT, on_counted, broker, &at_once) <
                                       0
                               ? error_errno(err, ENOMEM, "tools")
                               : 0;
        hub_start(broker->hub, profile_of(broker), HUB_ALL);
        mode->wait = hub_wait(broker->hub, profile_of(broker), WAIT_MS, on_waited, broker);
        return mode->wait ? 0 : error_errno(err, ENOMEM, "tools");
}

static void stop(struct broker *broker)
{
        struct mode_tools *mode = broker->data;

        writer_flush(&mode->out, LAST_FLUSH_MS);
        if (mode->wait)
                hub_wait_cancel(mode->wait);
}

static void mode_free(struct broker *broker)
{
        struct mode_tools *mode = broker->data;

        if (mode)
                writer_close(&mode->out);
        free(mode);
}

const struct broker_mode broker_mode_tools = {
        .start = start,
        .stop = stop,
        .free = mode_free,
};
