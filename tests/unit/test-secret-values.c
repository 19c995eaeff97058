/* Secrets: their place in arguments, and the forms of values that messages must not contain. */
#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config/config.h"
#include "supervisor/secrets/arguments.h"
#include "supervisor/secrets/mask.h"
#include "supervisor/secrets/values.h"
#include "tests/unit/test.h"

static char password[] = "/password", deep[] = "/deep/1/a~1b", connect_tool[] = "mail.connect",
            other_tool[] = "mail.a.b", smtp[] = "SMTP", other[] = "OTHER";
static char *pointers[] = {password, deep, NULL}, *others[] = {password, NULL};
static struct config_secret_argument tools[] = {{connect_tool, pointers}},
                                     more_tools[] = {{connect_tool, others}, {other_tool, others}};
static struct config_secret secrets[] = {
        {.name = smtp, .arguments = tools, .n_arguments = 1},
        {.name = other, .arguments = more_tools, .n_arguments = 2},
};
static const struct config_profile profile = {.secrets = secrets, .n_secrets = 2};

static struct secret_mask *sent_mask;
static size_t size; /* that the arguments are said to have */

/* Returns the arguments as they are sent, or the error. */
static const char *sent(const char *values_text, const char *tool, const char *arguments)
{
        static char text[4096];
        struct secret_values *values = NULL;
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_doc *with = NULL;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(sizeof(text));
        struct error err = {};

        if (values_text)
                check_eq_int(secret_values_parse(values_text, strlen(values_text), &values, &err),
                             0);
        check_eq_int(json_parse(arguments, strlen(arguments), &doc, &err), 0);
        const struct secret_arguments given = {
                &profile, values, sent_mask, "mail", tool, yyjson_doc_get_root(doc), size};
        int r = secret_arguments_replace(&given, &with, &err);
        secret_values_free(values);
        if (r < 0) {
                snprintf(text, sizeof(text), "%s", err.text);
                return text;
        }
        check_eq_int(json_append(&b, yyjson_doc_get_root(r > 0 ? with : doc)), 0);
        snprintf(text, sizeof(text), "%d %.*s", r, (int)b.length, buffer_bytes(&b));
        secret_arguments_free(with);
        return text;
}

static void test_arguments(void)
{
        sent_mask = secret_mask_new();
        static const char values[] = "{\"SMTP\":\"a\\\"b\\u00fc\",\"OTHER\":\"second\"}";

        check_eq_str(sent(values, "connect", "{\"password\":\"${secret:SMTP}\",\"n\":1.50}"),
                     "1 {\"password\":\"a\\\"b\u00fc\",\"n\":1.50}");
        check_eq_str(sent(values, "connect", "{\"deep\":[0,{\"a/b\":\"${secret:SMTP}\"}]}"),
                     "1 {\"deep\":[0,{\"a/b\":\"a\\\"b\u00fc\"}]}");
        check_eq_str(sent(values, "connect", "{\"password\":\"${secret:OTHER}\"}"),
                     "1 {\"password\":\"second\"}");
        check_eq_str(sent(values, "a.b", "{\"password\":\"${secret:OTHER}\"}"),
                     "1 {\"password\":\"second\"}");
        /* Another pointer, another tool, a part of a string, a name. */
        static const char *const same[] = {
                "{\"note\":\"${secret:SMTP}\"}",
                "{\"password\":\"x${secret:SMTP}\"}",
                "{\"password\":\"${secret:SMTP} \"}",
                "{\"password\":[\"${secret:SMTP}\"]}",
                "{\"${secret:SMTP}\":1,\"password\":2}",
                "{\"password\":\"${secret:NONE}\"}",
                "{\"deep\":[{\"a/b\":\"${secret:SMTP}\"}]}",
        };
        for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
                check_eq_str(sent(values, "connect", same[i]) + 2, same[i]);
                check_eq_str(sent(values, "send", same[i]) + 2, same[i]);
        }
        check_eq_str(sent(values, "a.b", "{\"password\":\"${secret:SMTP}\"}"),
                     "0 {\"password\":\"${secret:SMTP}\"}");
        /* A value is not replaced again, whatever it is. */
        check_eq_str(
                sent("{\"SMTP\":\"${secret:OTHER}\",\"OTHER\":\"second\"}", "connect",
                     "{\"password\":\"${secret:OTHER}\",\"deep\":[1,{\"a/b\":\"${secret:SMTP}\"}]}"),
                "1 {\"password\":\"second\",\"deep\":[1,{\"a/b\":\"${secret:OTHER}\"}]}");
        size = SECRET_ARGUMENTS_MAX + 1;
        check_has(sent(values, "connect", "{\"password\":\"${secret:SMTP}\"}"),
                  "arguments with a secret have at most 1024 KiB");
        check_eq_str(sent(values, "connect", same[0]) + 2, same[0]);
        size = SECRET_ARGUMENTS_MAX;
        check_has(sent(values, "connect", "{\"password\":\"${secret:SMTP}\"}"), "1 {");
        check(secret_mask_is_for(sent_mask, "mail"));
        check_has(sent(NULL, "connect", "{\"password\":\"${secret:SMTP}\"}"),
                  "the secret SMTP was not read");
        check_has(sent("{}", "connect", "{\"password\":\"${secret:SMTP}\"}"),
                  "the secret SMTP was not read");
        sent_mask = secret_mask_free(sent_mask);
        check(secret_arguments_concern(&profile, "mail", "connect"));
        check(secret_arguments_concern(&profile, "mail", "a.b"));
        check(!secret_arguments_concern(&profile, "mail", "b"));
        check(!secret_arguments_concern(&profile, "mai", "connect"));
}

static void test_values(void)
{
        static const char *const wrong[] = {"", "[]", "{\"A\":1}", "{\"A\":\"x\"", "null"};
        struct secret_values *values = NULL;
        struct error err = {};
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                check(secret_values_parse(wrong[i], strlen(wrong[i]), &values, &err) < 0);
        check(!values);
        check_eq_int(secret_values_parse("{\"A\":\"xyz\"}\n", 12, &values, &err), 0);
        check_eq_str(secret_values_find(values, "A", &n), "xyz");
        check_eq_int(n, 3);
        check(!secret_values_find(values, "B", &n));
        check(!secret_values_find(NULL, "A", &n));
        secret_values_free(values);
}

static struct secret_mask *mask;

static const char *masked(const char *server, const char *json)
{
        static char text[8192];
        _cleanup_json_ yyjson_doc *doc = NULL;
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(sizeof(text));
        struct error err = {};

        check_eq_int(json_parse(json, strlen(json), &doc, &err), 0);
        int r = secret_mask_json(mask, server, yyjson_doc_get_root(doc), &b);
        check(r >= 0 && (r == 1) == (b.length > 0));
        snprintf(text, sizeof(text), "%.*s", (int)b.length, r ? buffer_bytes(&b) : "");
        if (r > 0) { /* still JSON */
                _cleanup_json_ yyjson_doc *again = NULL;
                check_eq_int(json_parse(text, strlen(text), &again, &err), 0);
        }
        return text;
}

static void test_mask(void)
{
        mask = secret_mask_new();
        check(mask && !secret_mask_is_for(mask, "s") && !secret_mask_is_for(NULL, "s"));
        check_eq_int(secret_mask_add(mask, "s", "P", "pass\"wort \u00fc", 12), 0);
        check_eq_int(secret_mask_add(mask, "s", "P", "pass\"wort \u00fc", 12), 0);
        check_eq_int(secret_mask_add(mask, "s", "N", "nabcde", 6), 0);
        check_eq_int(secret_mask_add(mask, "s", "PIN", "123456", 6), 0);
        check(secret_mask_is_for(mask, "s") && !secret_mask_is_for(mask, "t"));
        check_eq_str(masked("s", "{\"a\":\"xpass\\\"wort \\u00FCy\",\"b\":[1]}"),
                     "{\"a\":\"x${secret:P}y\",\"b\":[1]}");
        check_eq_str(masked("t", "{\"a\":\"xpass\\\"wort \\u00FCy\"}"), "");
        check_eq_str(masked("s", "{\"a\":\"pass\"}"), "");
        /* JSON inside a string, as it is and in ASCII; percent-encoding. */
        check_eq_str(masked("s", "[\"{\\\"p\\\":\\\"pass\\\\\\\"wort \u00fc\\\"}\"]"),
                     "[\"{\\\"p\\\":\\\"${secret:P}\\\"}\"]");
        check_eq_str(masked("s", "[\"pass\\\\\\\"wort \\\\u00fc\"]"), "[\"${secret:P}\"]");
        check_eq_str(masked("s", "[\"pass%22wort%20%C3%BC\",\"pass%22wort+%c3%bc\"]"),
                     "[\"${secret:P}\",\"${secret:P}\"]");
        /* The end of an escape is not the beginning of a value; a name; numbers. */
        check_eq_str(masked("s", "[\"\\nabcde\"]"), "");
        check_eq_str(masked("s", "[\"\\\\nabcde\"]"), "[\"\\\\${secret:N}\"]");
        check_eq_str(masked("s", "[\"\\u0001nabcde\"]"), "[\"\\u0001${secret:N}\"]");
        check_eq_str(masked("s", "{\"xnabcde\":0}"), "{\"x${secret:N}\":0}");
        check_eq_str(masked("s", "[-9123456.5e3,123457]"), "[\"${secret:PIN}\",123457]");
        /* Base64 at each offset, in both alphabets. */
        for (size_t before = 0; before < 6; before++) {
                _cleanup_buffer_ struct buffer b = BUFFER_INIT(256), t = BUFFER_INIT(256);
                buffer_append(&b, "......", before);
                buffer_append(&b, "pass\"wort \u00fc", 12);
                buffer_append(&b, "?>tail", 6);
                buffer_append(&t, "[\"", 2);
                check_eq_int(base64_append(&t, buffer_bytes(&b), b.length), 0);
                buffer_append(&t, "\"]", 3);
                check_has(masked("s", buffer_bytes(&t)), "${secret:P}");
                for (char *c = buffer_bytes(&t); *c; c++)
                        *c = (char)(*c == '+' ? '-' : *c == '/' ? '_' : *c);
                check_has(masked("s", buffer_bytes(&t)), "${secret:P}");
        }
        mask = secret_mask_free(mask);
}

static void test_mask_is_bounded(void)
{
        char value[32];
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(256);

        mask = secret_mask_new();
        for (int i = 0; i <= SECRET_MASK_MAX; i++) {
                snprintf(value, sizeof(value), "value-%d-end", 1000 + i);
                check_eq_int(secret_mask_add(mask, "s", "V", value, strlen(value)),
                             i < SECRET_MASK_MAX ? 0 : -ENOSPC);
        }
        check_eq_int(secret_mask_add(mask, "s", "V", "value-1000-end", 14), 0);
        check_eq_int(secret_mask_text(mask, "s", "value-1000-end", 14, &b), 1);
        check_eq_int(secret_mask_text(mask, "s", "value-9999-end", 14, &b), 0);
        check_eq_str((buffer_append(&b, "", 1), buffer_bytes(&b)), "${secret:V}");
        mask = secret_mask_free(mask);
}

int main(void)
{
        run(test_arguments);
        run(test_values);
        run(test_mask);
        run(test_mask_is_bounded);
        return 0;
}
