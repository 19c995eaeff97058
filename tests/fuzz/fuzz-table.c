/* A table of another system, and its settings with values made of the input. */
#include "base/json.h"
#include "policy/config/add.h"
#include "policy/config/settings.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

static char value[64];

static const char *lookup(const char *name)
{
        return strlen(name) % 2 ? value : NULL;
}

/* Settings become a config, or are refused with a reason and a status. */
static void apply(const struct config *config, const uint8_t *data, size_t n)
{
        struct settings_given given = {.variable = lookup, .home = "/home/a"};
        struct settings_result result = {};
        struct error err = {};
        yyjson_doc *doc = NULL;
        int status = 0;

        for (size_t i = 0; i < config->as.n_settings; i++) {
                char *words[] = {config->as.settings[i].name, value};
                int used = settings_take_option(&config->as, 2, words, &given, &err);
                assert(used <= 2);
        }
        assert(json_parse_config((const char *)data, n, &doc, &err) >= 0);
        struct json_tree *table = json_tree_new(yyjson_doc_get_root(doc));
        assert(table);
        int r = settings_apply(&config->as, &given, table, &result, &status, &err);
        assert(r >= 0 || (status > 0 && status <= SETTINGS_STATUS_TABLE));
        if (r >= 0) {
                struct config *whole = config_new();
                size_t length = 0;
                char *text = NULL;
                assert(whole && json_tree_write(result.settings, &text, &length) == 0);
                config_add_layer(whole, CONFIG_LAYER_TABLE, "t", (const char *)data, n, &err);
                config_add_layer(whole, CONFIG_LAYER_SETTINGS, "s", text, length, &err);
                config_finish(whole, &err);
                free(text);
                config_free(whole);
        }
        settings_done(&result);
        json_tree_free(table);
        yyjson_doc_free(doc);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct error err = {};
        struct config *config = config_new();

        assert(config);
        memcpy(value, data, n < sizeof(value) - 1 ? n : sizeof(value) - 1);
        for (size_t i = 0; i < sizeof(value) - 1; i++)
                value[i] = value[i] ? value[i] : '1';
        int r = config_add_layer(config, CONFIG_LAYER_TABLE, "file", (const char *)data, n, &err);
        if (r >= 0)
                apply(config, data, n);
        bool accepted = r >= 0 && config->as.name;
        config_free(config);
        return accepted;
}

FUZZ_TARGET
