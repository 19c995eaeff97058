/* Calls in doubt, until a result has named them. */
#include "supervisor/trust/records/doubts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/plural.h"
#include "base/utf8.h"
#include "rpc/journal-messages.h"

enum { KEY_MAX = 300, NAME_MAX_BYTES = 100 };

static struct doubt {
        char key[KEY_MAX], tool[NAME_MAX_BYTES];
        bool is_told;
} * list;
static size_t n_doubts;

static const char *text_of(yyjson_val *root, const char *name)
{
        const char *text = json_string(root, name, NULL);

        return text ? text : "";
}

void doubts_add(const char *call, size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (!list)
                list = calloc(JOURNAL_DOUBTS_MAX, sizeof(*list));
        if (!list || n_doubts == JOURNAL_DOUBTS_MAX || json_parse(call, n, &doc, NULL) < 0)
                return;
        yyjson_val *root = yyjson_doc_get_root(doc);
        struct doubt *doubt = &list[n_doubts++];
        const char *principal = text_of(root, "principal");
        *doubt = (struct doubt){};
        snprintf(doubt->key, sizeof(doubt->key), "%s%s%s", principal, *principal ? ":" : "",
                 text_of(root, "session"));
        snprintf(doubt->tool, sizeof(doubt->tool), "%.40s.%.40s", text_of(root, "server"),
                 text_of(root, "tool"));
        utf8_trim(doubt->tool);
}

void doubts_tell(const char *session_key, char *to, size_t size)
{
        size_t used = strlen(to), n = 0;

        for (size_t i = 0; i < n_doubts; i++)
                n += strcmp(list[i].key, session_key) == 0;
        if (n == 0 || used + 1 >= size)
                return;
        used += (size_t)snprintf(
                to + used, size - used,
                "%s%zu call%s of tools that the code of this session had sent before the server was killed may have happened:",
                used > 0 ? "; " : "", n, plural(n));
        for (size_t i = 0, told = 0; i < n_doubts; i++) {
                if (strcmp(list[i].key, session_key) != 0)
                        continue;
                list[i].is_told = true;
                if (used < size)
                        used += (size_t)snprintf(to + used, size - used, "%s %s",
                                                 told++ > 0 ? "," : "", list[i].tool);
        }
        utf8_trim(to);
}

void doubts_forget_told(const char *session_key)
{
        size_t kept = 0;

        for (size_t i = 0; i < n_doubts; i++)
                if (!list[i].is_told || strcmp(list[i].key, session_key) != 0)
                        list[kept++] = list[i];
        n_doubts = kept;
}

void doubts_free(void)
{
        free(list);
        list = NULL;
        n_doubts = 0;
}
