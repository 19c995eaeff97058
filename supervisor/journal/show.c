/* Records on a terminal. Code chose their texts, which are escaped. */
#include "supervisor/journal/show.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/printable.h"
#include "supervisor/journal/chain.h"
#include "supervisor/journal/lines.h"
#include "supervisor/journal/recover.h"
#include "supervisor/journal/segments.h"

enum { CELL_MAX = 60 };

/* A chain whose server has not ended in an orderly way; its calls without an answer. */
struct open_chain {
        char id[40];
        bool is_owned;
        struct recover_pending pending;
};

struct shown {
        const struct show *how;
        struct open_chain *chains;
        size_t n_chains;
};

int show_since(const char *text, struct show *ret)
{
        static const struct {
                char unit;
                long seconds;
        } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 24 * 3600}};
        size_t digits = strspn(text, "0123456789"), n = strlen(text);
        struct tm tm;

        for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                if (digits == 0 || digits > 6 || digits + 1 != n || text[digits] != units[i].unit)
                        continue;
                time_t at = time(NULL) - atol(text) * units[i].seconds;
                strftime(ret->since, sizeof(ret->since), "%Y-%m-%dT%H:%M:%S", gmtime_r(&at, &tm));
                return 0;
        }
        if (digits != 4 || text[4] != '-' || n >= sizeof(ret->since) ||
            strspn(text, "0123456789-:.TZ") != n)
                return -EINVAL;
        memcpy(ret->since, text, n + 1);
        return 0;
}

static const char *text_of(yyjson_val *root, const char *name)
{
        const char *text = json_string(root, name, NULL);

        return text ? text : "";
}

static bool is_wanted(const struct show *how, yyjson_val *root)
{
        char name[600];

        if (*how->since && strcmp(text_of(root, "t"), how->since) < 0)
                return false;
        if (how->kind && strcmp(text_of(root, "kind"), how->kind) != 0)
                return false;
        if (how->session) {
                const char *principal = text_of(root, "principal");
                snprintf(name, sizeof(name), "%s:%s", principal, text_of(root, "session"));
                if (strcmp(how->session, name + (*principal ? 0 : 1)) != 0 &&
                    strcmp(how->session, text_of(root, "session")) != 0)
                        return false;
        }
        if (!how->tool)
                return true;
        snprintf(name, sizeof(name), "%s.%s", text_of(root, "server"), text_of(root, "tool"));
        return fnmatch(how->tool, name, 0) == 0;
}

/* ---- one line ---- */

static void print_number(yyjson_val *root, const char *name, const char *unit)
{
        int64_t number = 0;

        if (json_int64(yyjson_obj_get(root, name), &number) >= 0)
                printf(" %s%lld%s", *unit ? "" : "#", (long long)number, unit);
}

static void print_text(yyjson_val *root, const char *name, const char *before)
{
        char copy[CELL_MAX + 4];
        const char *text = text_of(root, name);

        if (!*text)
                return;
        bool is_cut = strlen(text) > CELL_MAX;
        snprintf(copy, sizeof(copy), "%.*s", CELL_MAX, text);
        utf8_trim(copy);
        printf("%s", before);
        printable_print(stdout, copy);
        printf("%s", is_cut ? "…" : "");
}

/* Of a question, or of those that an answer allows. */
static void print_calls(const char *before, size_t n)
{
        if (n > 0)
                printf("%s%zu call%s", before, n, plural(n));
}

static void print_line(yyjson_val *root)
{
        const char *principal = text_of(root, "principal");
        int64_t calls = 0;

        print_text(root, "t", "");
        printf("  ");
        if (*principal) {
                printable_print(stdout, principal);
                printf(":");
        }
        print_text(root, "session", "");
        print_text(root, "kind", "  ");
        print_text(root, "server", "  ");
        print_text(root, "tool", *text_of(root, "server") ? "." : "  ");
        print_number(root, strcmp(text_of(root, "kind"), "call") == 0 ? "n" : "of", "");
        json_int64(yyjson_obj_get(root, "calls"), &calls);
        print_calls(" ", (size_t)calls);
        print_text(root, "outcome", " ");
        print_text(root, "status", "  ");
        print_text(root, "command", "  ");
        print_text(root, "id", "  ");
        print_text(root, "by", "  by ");
        print_text(root, "scope", ": ");
        print_calls(", for ", yyjson_arr_size(yyjson_obj_get(root, "rows")));
        print_text(root, "refused", ": refused: ");
        print_text(root, "phase", "  ");
        print_number(root, "bytes", " bytes");
        print_number(root, "ms", " ms");
        print_text(root, "rule", "  ");
        print_text(root, "why", "  ");
        print_text(root, "arguments", "  ");
        printf("\n");
}

static void print_record(const struct show *how, yyjson_val *root, const char *line, size_t n)
{
        if (how->json)
                fwrite(line, 1, n, stdout);
        else
                print_line(root);
}

/* ---- calls without an answer ---- */

static struct open_chain *chain_of(struct shown *s, const char *id)
{
        for (size_t i = 0; i < s->n_chains; i++)
                if (strcmp(s->chains[i].id, id) == 0)
                        return &s->chains[i];
        void *more = realloc(s->chains, (s->n_chains + 1) * sizeof(*s->chains));
        if (!more)
                return NULL;
        s->chains = more;
        struct open_chain *chain = &s->chains[s->n_chains++];
        *chain = (struct open_chain){};
        snprintf(chain->id, sizeof(chain->id), "%s", id);
        return chain;
}

static int print_pending(const struct shown *s, const struct open_chain *chain)
{
        for (size_t i = 0; i < chain->pending.n && !chain->is_owned; i++) {
                const struct recover_call *call = &chain->pending.list[i];
                _cleanup_json_ yyjson_doc *doc = NULL;
                if (json_parse(call->call, strlen(call->call), &doc, NULL) < 0)
                        continue;
                yyjson_val *root = yyjson_doc_get_root(doc);
                if (!is_wanted(s->how, root))
                        continue;
                if (s->how->json) {
                        printf("%s\n", call->call);
                        continue;
                }
                print_text(root, "t", "");
                print_text(root, "session", "  ");
                print_text(root, "server", "  in doubt  ");
                print_text(root, "tool", ".");
                printf(" #%llu\n", (unsigned long long)call->n);
        }
        return 0;
}

/* ---- segments ---- */

static int show_line(struct shown *s, struct open_chain **chain, bool is_owned, const char *line,
                     size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t number = 0, of = 0;

        if (json_parse_bounded(line, n, 4096, &doc, NULL) < 0)
                return 0;
        yyjson_val *root = yyjson_doc_get_root(doc);
        const char *kind = text_of(root, "kind"), *outcome = text_of(root, "outcome");
        if (strcmp(kind, "start") == 0)
                *chain = chain_of(s, text_of(root, "chain"));
        if (*chain) {
                (*chain)->is_owned |= is_owned;
                json_int64(yyjson_obj_get(root, "n"), &number);
                json_int64(yyjson_obj_get(root, "of"), &of);
                const struct chain_record record = {
                        .root = root, .kind = kind, .n = (uint64_t)number, .of = (uint64_t)of};
                int r = recover_note(&(*chain)->pending, &record);
                if (r < 0)
                        return r;
        }
        if (s->how->in_doubt && strcmp(outcome, "in doubt") != 0)
                return 0;
        if (is_wanted(s->how, root))
                print_record(s->how, root, line, n);
        return 0;
}

static int show_segment(struct shown *s, int directory, uint32_t number, struct error *err)
{
        static struct journal_lines lines;
        struct open_chain *chain = NULL;
        const char *line;
        size_t n;
        int r;

        _cleanup_close_ int fd = segment_open(directory, number, false, err);
        if (fd < 0)
                return fd;
        bool is_owned = segment_is_owned(fd);
        journal_lines_init(&lines, fd);
        while ((r = journal_lines_next(&lines, &line, &n, err)) > 0) {
                r = show_line(s, &chain, is_owned, line, n);
                if (r < 0)
                        return error_errno(err, -r, "%u.jsonl", number);
        }
        return r < 0 ? error_context(err, "%u.jsonl", number) : 0;
}

int journal_show(int directory, const struct show *how, struct error *err)
{
        struct shown s = {.how = how};
        struct segments segments;

        int r = segments_list(directory, &segments, err);
        for (size_t i = 0; r >= 0 && i < segments.n; i++)
                r = show_segment(&s, directory, segments.list[i].number, err);
        if (r >= 0 && how->in_doubt)
                for (size_t i = 0; i < s.n_chains; i++)
                        print_pending(&s, &s.chains[i]);
        if (r >= 0 || segments.list)
                segments_done(&segments);
        for (size_t i = 0; i < s.n_chains; i++)
                recover_pending_done(&s.chains[i].pending);
        free(s.chains);
        return r;
}
