/*
 * Inserts entries into the text of a config.
 *
 * New entries are inserted after the brace that opens mcpServers. If there is no mcpServers, a new
 * one is inserted after the brace that opens the file. No existing byte changes, so that comments
 * stay.
 */
#include "supervisor/cli/config/import-write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/lines.h"

/* Writes "NAME": {…}, each line with this indentation. */
static int append_entry(struct buffer *to, const struct import_item *item, const char *indent)
{
        _cleanup_free_ char *text = yyjson_mut_val_write(item->entry,
                                                         YYJSON_WRITE_PRETTY_TWO_SPACES, NULL);
        if (!text)
                return -ENOMEM;
        int r = buffer_append(to, indent, strlen(indent));
        if (r >= 0)
                r = json_append_string(to, item->name, strlen(item->name));
        if (r >= 0)
                r = buffer_append(to, ": ", 2);
        for (const char *line = text; r >= 0;) {
                size_t n = strcspn(line, "\n");
                r = buffer_append(to, line, n);
                if (line[n] == '\0' || r < 0)
                        break;
                line += n + 1;
                r = buffer_append(to, "\n", 1);
                if (r >= 0)
                        r = buffer_append(to, indent, strlen(indent));
        }
        return r;
}

static int append_entries(struct buffer *to, const struct import *import, bool more)
{
        int r = 0;

        for (size_t i = 0; i < import->n_taken && r >= 0; i++) {
                r = buffer_append(to, "\n", 1);
                if (r >= 0)
                        r = append_entry(to, &import->taken[i], "    ");
                if (r >= 0 && (more || i + 1 < import->n_taken))
                        r = buffer_append(to, ",", 1);
        }
        return r;
}

static int append_object(struct buffer *to, const struct import *import, bool more)
{
        static const char begin[] = "\n  \"mcpServers\": {", end[] = "\n  }";

        int r = buffer_append(to, begin, strlen(begin));
        if (r >= 0)
                r = append_entries(to, import, false);
        if (r >= 0)
                r = buffer_append(to, end, strlen(end));
        return r >= 0 && more ? buffer_append(to, ",", 1) : r;
}

static int append_new(struct buffer *to, const struct import *import)
{
        int r = buffer_append(to, "{", 1);

        if (r >= 0)
                r = append_object(to, import, false);
        return r < 0 ? r : buffer_append(to, "\n}\n", 3);
}

/* Inserts into the existing text, after the brace at `at`. */
static int append_into(struct buffer *to, const struct import *import, size_t at, bool whole,
                       bool empty)
{
        int r = buffer_append(to, import->existing, at);

        if (r >= 0)
                r = whole ? append_object(to, import, !empty) : append_entries(to, import, !empty);
        /* What followed the brace on its line gets a line of its own. */
        if (r >= 0 && import->existing[at] != '\n')
                r = buffer_append(to, empty && !whole ? "\n  " : "\n", empty && !whole ? 3 : 1);
        return r < 0 ? r : buffer_append(to, import->existing + at, import->existing_length - at);
}

int import_text(const struct import *import, struct buffer *to, struct error *err)
{
        yyjson_val *root = yyjson_doc_get_root(import->existing_doc);
        yyjson_val *servers = yyjson_obj_get(root, "mcpServers");
        struct config_lines lines;
        int r;

        if (!import->existing_doc)
                return append_new(to, import) < 0 ? error_errno(err, ENOMEM, "import") : 0;
        if (!yyjson_is_obj(root) || (servers && !yyjson_is_obj(servers)))
                return error_set(
                        err, EINVAL,
                        "the config that is there has no room for servers: correct it first ('cloister config check')");
        config_lines_init(&lines, import->existing, import->existing_length, root);
        yyjson_val *into = servers ? servers : root;
        config_line_of(&lines, into);
        r = append_into(to, import, (size_t)(lines.p - import->existing) + 1, !servers,
                        yyjson_obj_size(into) == 0);
        return r < 0 ? error_errno(err, -r, "import") : 0;
}
