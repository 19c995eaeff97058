/* Reads the table of another system. */
#include "supervisor/config/table-file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/path.h"
#include "policy/config/add.h"
#include "supervisor/config/config-files.h"

DEFINE_CLEANUP(struct config *, config_free)

enum { OPTIONS_TEXT_MAX = 64 * 1024 * 1024 };

int table_file_check(const char *path, const char *data, size_t n, struct config **ret,
                     struct error *err)
{
        struct config_findings findings = {};
        struct config *config = *ret = config_new();

        if (!config)
                return error_errno(err, ENOMEM, "%s", path);
        config->findings = &findings;
        int r = config_add_layer(config, CONFIG_LAYER_TABLE, path, data, n, err);
        config->findings = NULL;
        if (r >= 0 && findings.n > 0)
                r = error_set(err, EINVAL, "%s", findings.items[0].text);
        else if (r >= 0 && !config->as.name)
                r = error_set(err, EINVAL, "%s: is not a table: \"as\" with a \"name\" is missing",
                              path);
        config_findings_done(&findings);
        return r;
}

int table_file_check_merged(const char *path, const struct config_as *as, struct json_tree *table,
                            struct error *err)
{
        _cleanup_(cleanup_config_free) struct config *config = NULL;
        bool merges = false;
        char *text = NULL;
        size_t n = 0;

        for (size_t i = 0; i < as->n_settings; i++)
                merges |= as->settings[i].merge != NULL;
        if (!merges)
                return 0;
        if (json_tree_write(table, &text, &n) < 0)
                return error_errno(err, ENOMEM, "%s", path);
        int r = table_file_check(path, text, n, &config, err);
        explicit_bzero(text, n);
        free(text);
        return r;
}

char *table_file_options(const struct settings_given *given)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(OPTIONS_TEXT_MAX);
        struct json_out out = {.to = &text};

        json_out_begin(&out, NULL, '{');
        for (size_t i = 0; i < given->n; i++) {
                if (given->values[i])
                        json_out_text(&out, given->names[i], given->values[i]);
                else
                        json_out_raw(&out, given->names[i], "null", strlen("null"));
        }
        json_out_end(&out, '}');
        return out.error < 0 ? NULL : strndup(buffer_bytes(&text), text.length);
}

static const char *variable(const char *name)
{
        return getenv(name);
}

static void read_options(yyjson_val *options, struct settings_given *given)
{
        yyjson_val *name, *value;
        size_t i, n;

        given->variable = variable;
        given->home = path_home();
        yyjson_obj_foreach (options, i, n, name, value) {
                if (given->n == SETTINGS_GIVEN_MAX)
                        return;
                given->names[given->n] = yyjson_get_str(name);
                given->values[given->n++] = yyjson_get_str(value);
        }
}

static int seal(const struct json_tree *table, struct error *err)
{
        char *text = NULL;
        size_t n = 0;

        if (json_tree_write(table, &text, &n) < 0)
                return error_errno(err, ENOMEM, "table");
        int fd = fd_sealed("cloister-table", text, n, err);
        explicit_bzero(text, n);
        free(text);
        return fd;
}

int table_file_again(const char *path, const char *options, bool trusted_only, struct error *err)
{
        _cleanup_(cleanup_config_free) struct config *config = NULL;
        _cleanup_json_ yyjson_doc *doc = NULL, *given_doc = NULL;
        _cleanup_free_ char *data = NULL;
        struct settings_given given = {};
        struct settings_result result = {};
        int status;
        size_t n = 0;

        int r = config_files_read(path, trusted_only, &data, &n, err);
        if (r >= 0)
                r = table_file_check(path, data, n, &config, err);
        if (r >= 0)
                r = json_parse_config(data, n, &doc, err);
        if (r >= 0 && options)
                r = json_parse(options, strlen(options), &given_doc, err);
        if (r < 0)
                return r;
        read_options(yyjson_doc_get_root(given_doc), &given);
        struct json_tree *table = json_tree_new(yyjson_doc_get_root(doc));
        r = table ? settings_apply(&config->as, &given, table, &result, &status, err)
                  : error_errno(err, ENOMEM, "%s", path);
        if (r >= 0)
                r = table_file_check_merged(path, &config->as, table, err);
        if (r >= 0)
                r = seal(table, err);
        json_tree_free(table);
        settings_done(&result);
        return r;
}
