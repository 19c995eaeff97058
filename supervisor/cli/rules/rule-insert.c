/* Inserts a rule into the text of a config file. */
#include "supervisor/cli/rules/rule-insert.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static yyjson_val *find_rules(yyjson_doc *doc, const char *profile)
{
        yyjson_val *at = yyjson_doc_get_root(doc);

        if (profile)
                at = yyjson_obj_get(yyjson_obj_get(at, "profiles"), profile);
        return yyjson_obj_get(at, "rules");
}

/* The new rule exists, and all others are as before. */
static bool is_right(yyjson_val *before, yyjson_val *after, size_t index, yyjson_val *rule)
{
        size_t n = yyjson_arr_size(before);

        if (yyjson_arr_size(after) != n + 1 || !yyjson_equals(yyjson_arr_get(after, index), rule))
                return false;
        for (size_t i = 0; i < n; i++)
                if (!yyjson_equals(yyjson_arr_get(before, i),
                                   yyjson_arr_get(after, i + (i >= index))))
                        return false;
        return true;
}

/* Appends the rule and what separates it from the next one: a line break and the same indentation, where the next one begins a
 * line. */
static int put_rule(const char *text, size_t at, const char *rule, struct buffer *to)
{
        size_t line = at;

        while (line > 0 && (text[line - 1] == ' ' || text[line - 1] == '\t'))
                line--;
        bool begins_line = line > 0 && text[line - 1] == '\n';
        int r = buffer_append_text(to, rule);
        if (r >= 0)
                r = buffer_append_text(to, begins_line ? ",\n" : ", ");
        return r >= 0 && begins_line ? buffer_append(to, text + line, at - line) : r;
}

int rule_insert(const struct entry_text *file, const char *profile, size_t index, const char *rule,
                struct buffer *to, struct error *err)
{
        _cleanup_json_ yyjson_doc *after = NULL, *wanted = NULL;
        yyjson_val *rules = find_rules(file->doc, profile), *next = yyjson_arr_get(rules, index);

        if (!next)
                return error_set(err, ENOENT, "the rule that asked is not in the file any more");
        size_t at = entry_text_position(file, next);
        int r = buffer_append(to, file->text, at);
        if (r >= 0)
                r = put_rule(file->text, at, rule, to);
        if (r >= 0)
                r = buffer_append(to, file->text + at, file->n - at);
        if (r < 0)
                return error_errno(err, -r, "the new text");
        r = json_parse(rule, strlen(rule), &wanted, err);
        if (r >= 0)
                r = json_parse_config(buffer_bytes(to), to->length, &after, err);
        if (r < 0)
                return r;
        return is_right(rules, find_rules(after, profile), index, yyjson_doc_get_root(wanted))
                       ? 0
                       : error_set(err, EBADMSG, "the place of the rule was not found in the text");
}
