/* "run" and "result" of a published tool. */
#include "policy/config/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/image.h"
#include "policy/result-form.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define DIGITS  "0123456789"

enum { RUN_NAME_MAX = 64 };

/* An unknown key of an entry is only a warning, but one of these changes what is run. */
static int check_keys(struct config_reading *r, enum config_place place, yyjson_val *object)
{
        yyjson_val *name, *value;
        enum config_form form;
        size_t i, n;

        yyjson_obj_foreach (object, i, n, name, value) {
                if (!config_find_key(place, yyjson_get_str(name), &form))
                        return config_mistake(r, name, "%s has no \"%.60s\"", r->name,
                                              yyjson_get_str(name));
        }
        return 0;
}

int config_check_run(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (!r->entry->run.code)
                return config_mistake(
                        r, value, "run needs \"code\": the name of the argument that is the code");
        return check_keys(r, CONFIG_RUN, value);
}

int config_check_language(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (yyjson_equals_str(value, "python") || yyjson_equals_str(value, "javascript"))
                return 0;
        return config_mistake(r, value, "%s must be \"python\" or \"javascript\"", r->name);
}

/* A language, or {"argument", "default"}. */
int config_read_run_language(struct config_reading *r, const struct config_key *key,
                             yyjson_val *value)
{
        enum config_form form;

        config_reset(key, r->into);
        if (!yyjson_is_obj(value))
                return config_read_value(r, config_find_key(CONFIG_RUN_LANGUAGE, "default", &form),
                                         value);
        int e = config_read_object(r, key, value);
        return e < 0 || r->wrong ? e : check_keys(r, CONFIG_RUN_LANGUAGE, value);
}

int config_read_run_session(struct config_reading *r, const struct config_key *key,
                            yyjson_val *value)
{
        struct config_run *run = r->into;
        const char *text = config_text(value);

        /* Names of sessions have the same form as those of images. */
        if (!text || !image_name_valid(text) || text[0] == '-')
                return config_mistake(
                        r, value,
                        "session must be \"new\" or the name of a session: letters, digits, _ . - (at most %d)",
                        IMAGE_NAME_SIZE - 1);
        free(take_ptr(run->session));
        if (strcmp(text, "new") == 0)
                return 0;
        return config_set_text(&run->session, text) < 0 ? config_no_memory(r->reader) : 0;
}

int config_check_run_name(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        const char *name = ((const struct config_run *)r->into)->name;
        size_t n = strlen(name);

        if (n <= RUN_NAME_MAX && strspn(name, LETTERS DIGITS ".") == n && strspn(name, LETTERS) > 0)
                return 0;
        return config_mistake(r, value,
                              "name must be a name of Python such as \"__main__\" (at most %d)",
                              RUN_NAME_MAX);
}

/* A time, or {"argument", "default", "min", "max"}. */
int config_read_run_timeout(struct config_reading *r, const struct config_key *key,
                            yyjson_val *value)
{
        struct config_run_timeout *t = &((struct config_run *)r->into)->timeout;
        enum config_form form;

        config_reset(key, r->into);
        if (!yyjson_is_obj(value)) {
                r->into = t;
                return config_read_value(r, config_find_key(CONFIG_RUN_TIMEOUT, "default", &form),
                                         value);
        }
        int e = config_read_object(r, key, value);
        if (e >= 0 && !r->wrong)
                e = check_keys(r, CONFIG_RUN_TIMEOUT, value);
        if (e < 0 || r->wrong)
                return e;
        if (t->most_ms > 0 && (t->least_ms > t->most_ms || t->initial_ms > t->most_ms))
                return config_mistake(r, value, "timeout: min and default must not be above max");
        if (t->initial_ms > 0 && t->initial_ms < t->least_ms)
                return config_mistake(r, value, "timeout: default must not be below min");
        return 0;
}

int config_read_result(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        yyjson_val *at = value;
        struct error err = {};
        char *text = NULL;
        size_t n = 0;

        if (result_form_check(value, &r->entry->result_structured, &at, &err) < 0)
                return config_mistake(r, at, "result: %s", err.text);
        if (json_write(value, &text, &n) < 0)
                return config_no_memory(r->reader);
        free(r->entry->result);
        r->entry->result = text;
        if (n > RESULT_FORM_MAX)
                return config_mistake(r, value, "result: more than %d KiB", RESULT_FORM_MAX / 1024);
        return 0;
}

/* ---- the whole entry ---- */

/* Each argument that "run" names is one of the tool. */
static int check_arguments(struct config_reading *r, yyjson_val *object)
{
        const struct config_published *p = r->entry;
        const struct {
                const char *key, *argument;
        } named[] = {{"code", p->run.code},
                     {"language", p->run.language_argument},
                     {"timeout", p->run.timeout.argument},
                     {"packages", p->run.packages},
                     {"servers", p->run.servers}};
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (!p->input_schema)
                return config_mistake(r, object,
                                      "a tool with run needs an inputSchema with its arguments");
        if (json_parse(p->input_schema, strlen(p->input_schema), &doc, NULL) < 0)
                return config_no_memory(r->reader);
        yyjson_val *properties = yyjson_obj_get(yyjson_doc_get_root(doc), "properties");
        for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
                for (size_t j = 0; named[i].argument && j < i; j++)
                        if (named[j].argument && strcmp(named[i].argument, named[j].argument) == 0)
                                return config_mistake(r, object,
                                                      "run.%s and run.%s name the same argument",
                                                      named[j].key, named[i].key);
                if (named[i].argument && !yyjson_obj_get(properties, named[i].argument))
                        return config_mistake(
                                r, object,
                                "run.%s names \"%.60s\", which is not in the properties of inputSchema",
                                named[i].key, named[i].argument);
        }
        return 0;
}

int config_check_run_of_tool(struct config_reading *r, yyjson_val *object)
{
        const struct config_published *p = r->entry;

        if (!p->run.code)
                return p->result ? config_mistake(r, object, "result belongs to a tool with run")
                                 : 0;
        if (p->timeout_ms > 0)
                return config_mistake(r, object, "the timeout of a tool with run is run.timeout");
        if (!p->output_schema != !p->result_structured)
                return config_mistake(
                        r, object,
                        "a tool with run and outputSchema needs a result with \"structured\" in each case, and a tool without outputSchema must not have it");
        return check_arguments(r, object);
}

/* "NAME=value" of a member of env. */
static int make_variable(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                         char **ret)
{
        const char *key = config_text(name), *text = config_text(value);

        if (!key || !*key || strchr(key, '=') || !text)
                return config_mistake(r, value,
                                      "env must be an object of strings: {\"NAME\": \"value\"}");
        return asprintf(ret, "%s=%s", key, text) < 0 ? (*ret = NULL, 0) : 0;
}

int config_read_run_env(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (!yyjson_is_obj(value) || yyjson_obj_size(value) > key->most)
                return config_mistake(r, value, "env must be an object of at most %llu strings",
                                      (unsigned long long)key->most);
        return config_read_items(r, value, make_variable, config_member(key, r->into));
}
