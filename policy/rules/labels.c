/* Labels of tools. */
#include "policy/rules/labels.h"

#include <errno.h>
#include <string.h>

#include "policy/rules/rule.h"
#include "policy/rules/selector.h"

enum { PATTERN_MAX = 256 };

const char *const label_names[] = {"private", "untrusted", NULL};

unsigned label_find(const char *name)
{
        for (size_t i = 0; name && label_names[i]; i++)
                if (strcmp(name, label_names[i]) == 0)
                        return 1U << i;
        return 0;
}

static int check_returns(yyjson_val *value, yyjson_val **at, struct error *err)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(value);
        yyjson_val *item;

        *at = value;
        if (!yyjson_is_arr(value))
                return error_set(err, EINVAL,
                                 "returns must be an array of \"private\" and \"untrusted\"");
        while ((item = yyjson_arr_iter_next(&iter))) {
                *at = item;
                if (!label_find(yyjson_get_str(item)))
                        return error_set(err, EINVAL,
                                         "returns: a label is \"private\" or \"untrusted\"");
        }
        return 0;
}

static int check_sends(yyjson_val *value, yyjson_val **at, struct error *err)
{
        *at = value;
        return yyjson_equals_str(value, "open") || yyjson_equals_str(value, "closed")
                       ? 0
                       : error_set(err, EINVAL, "sends must be \"open\" or \"closed\"");
}

static int check_object(yyjson_val *value, bool is_server, yyjson_val **at, struct error *err);

static int check_tools(yyjson_val *value, yyjson_val **at, struct error *err)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        yyjson_val *name;
        int r = 0;

        *at = value;
        if (!yyjson_is_obj(value) || yyjson_obj_size(value) > LABELS_TOOLS_MAX)
                return error_set(err, EINVAL,
                                 "tools must be an object of at most %d patterns of names",
                                 LABELS_TOOLS_MAX);
        while (r >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                size_t n = yyjson_get_len(name);
                *at = name;
                if (n == 0 || n > PATTERN_MAX || strlen(yyjson_get_str(name)) != n)
                        return error_set(err, EINVAL, "a pattern of tools has 1 to %d bytes",
                                         PATTERN_MAX);
                r = check_object(yyjson_obj_iter_get_val(name), false, at, err);
        }
        return r;
}

/* of a server, or of a pattern of its tools. */
static int check_object(yyjson_val *value, bool is_server, yyjson_val **at, struct error *err)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        yyjson_val *name;
        int r = 0;

        *at = value;
        if (!yyjson_is_obj(value))
                return error_set(
                        err, EINVAL,
                        "must be an object: {\"returns\": [\"private\"], \"sends\": \"closed\"}");
        while (r >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                yyjson_val *inner = yyjson_obj_iter_get_val(name);
                *at = name;
                if (yyjson_equals_str(name, "returns"))
                        r = check_returns(inner, at, err);
                else if (yyjson_equals_str(name, "sends"))
                        r = check_sends(inner, at, err);
                else if (is_server && yyjson_equals_str(name, "tools"))
                        r = check_tools(inner, at, err);
                else
                        return error_set(err, EINVAL,
                                         "unknown key \"%.64s\"; there are returns, sends%s",
                                         yyjson_get_str(name), is_server ? " and tools" : "");
        }
        return r;
}

int labels_check(yyjson_val *value, yyjson_val **at, struct error *err)
{
        return check_object(value, true, at, err);
}

struct said {
        yyjson_val *returns, *sends;
};

static void take(struct said *said, yyjson_val *from)
{
        if (!said->returns)
                said->returns = yyjson_obj_get(from, "returns");
        if (!said->sends)
                said->sends = yyjson_obj_get(from, "sends");
}

static struct said find(yyjson_val *root, const char *tool)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_obj_get(root, "tools"));
        struct said said = {};
        yyjson_val *pattern;

        while ((pattern = yyjson_obj_iter_next(&iter)))
                if (selector_matches(yyjson_get_str(pattern), tool))
                        take(&said, yyjson_obj_iter_get_val(pattern));
        take(&said, root);
        return said;
}

struct labels labels_of(const char *text, const char *tool, yyjson_val *annotations)
{
        bool is_open = !yyjson_is_false(yyjson_obj_get(annotations, "openWorldHint"));
        struct labels labels = {.returns = is_open ? RULES_UNTRUSTED : 0, .is_open = is_open};
        yyjson_doc *document = text ? yyjson_read(text, strlen(text), 0) : NULL;

        if (text && !document) /* no memory: the strictest */
                return (struct labels){.returns = RULES_PRIVATE | RULES_UNTRUSTED, .is_open = true};
        struct said said = find(yyjson_doc_get_root(document), tool);
        if (said.returns) {
                yyjson_arr_iter iter = yyjson_arr_iter_with(said.returns);
                yyjson_val *item;
                labels.returns = 0;
                while ((item = yyjson_arr_iter_next(&iter)))
                        labels.returns |= label_find(yyjson_get_str(item));
        }
        if (said.sends)
                labels.is_open = yyjson_equals_str(said.sends, "open");
        yyjson_doc_free(document);
        return labels;
}
