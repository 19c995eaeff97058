/* Reads proposals. */
#include "supervisor/cli/rules/proposals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/places.h"
#include "base/program.h"
#include "supervisor/cli/command/process.h"
#include "supervisor/cli/config/entry-text.h"

enum {
        RECORDS_MAX = 64 * 1024 * 1024,
        DECIDED_MAX = 256 * 1024,
        ID_DIGITS = 8,
        ROW_MAX = 1000,
        KEY_DIGITS = 16,
};

#define DECIDED "proposals.json"

/* ---- records ---- */

static bool is_hexadecimal(const char *text, size_t digits)
{
        return text && strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static const char *text_of(yyjson_val *record, const char *name)
{
        const char *text = json_string(record, name, NULL);

        return text ? text : "";
}

/* A * in a name would make a pattern of it. */
static bool is_tool(const struct proposal *p)
{
        return *p->server && *p->tool && !strchr(p->server, '*') && !strchr(p->server, '.') &&
               !strchr(p->tool, '*');
}

static bool read_proposal(yyjson_doc *doc, struct proposal *ret)
{
        yyjson_val *record = yyjson_doc_get_root(doc);
        const char *id = json_string(record, "id", NULL), *key = json_string(record, "key", NULL);
        int64_t row = 0;

        *ret = (struct proposal){.doc = doc,
                                 .time = text_of(record, "t"),
                                 .principal = text_of(record, "principal"),
                                 .session = text_of(record, "session"),
                                 .profile = text_of(record, "profile"),
                                 .rule = text_of(record, "rule"),
                                 .server = text_of(record, "server"),
                                 .tool = text_of(record, "tool"),
                                 .arguments = yyjson_obj_get(record, "arguments")};
        if (!is_hexadecimal(id, ID_DIGITS) || !is_hexadecimal(key, KEY_DIGITS) || !is_tool(ret) ||
            !yyjson_is_obj(ret->arguments) || json_check_names(ret->arguments, NULL, NULL) < 0 ||
            json_int64(yyjson_obj_get(record, "row"), &row) < 0 || row < 1 || row > ROW_MAX)
                return false;
        ret->key = strtoull(key, NULL, 16);
        snprintf(ret->id, sizeof(ret->id), "%s-%d", id, (int)row);
        return true;
}

/* Of too many, the newest stay. */
static void add(struct proposals *all, const struct proposal *proposal)
{
        if (all->n == PROPOSALS_MAX) {
                yyjson_doc_free(all->list[0].doc);
                memmove(&all->list[0], &all->list[1], --all->n * sizeof(all->list[0]));
                all->n_left_out++;
        }
        all->list[all->n++] = *proposal;
}

static void read_records(struct proposals *all, const char *text, size_t n)
{
        const char *end = text + n;

        for (const char *line = text, *next; line < end; line = next + 1) {
                yyjson_doc *doc = NULL;
                struct proposal proposal;

                next = memchr(line, '\n', (size_t)(end - line));
                if (!next)
                        return;
                if (json_parse(line, (size_t)(next - line), &doc, NULL) < 0)
                        continue;
                if (read_proposal(doc, &proposal))
                        add(all, &proposal);
                else
                        yyjson_doc_free(doc);
        }
}

/* cloister-journal has the parser of the journal, and confines itself before it reads. */
static void run_journal(const void *data, int out)
{
        char *const argv[] = {(char[]){"cloister-journal"}, (char[]){"show"},   (char[]){"--kind"},
                              (char[]){"proposed"},         (char[]){"--json"}, NULL};

        if (dup2(out, STDOUT_FILENO) >= 0)
                execv(data, argv);
        _exit(127);
}

/* ---- decisions ---- */

static void mark(struct proposals *all, const char *id)
{
        for (size_t i = 0; id && i < all->n; i++)
                all->list[i].is_decided |= strcmp(all->list[i].id, id) == 0;
}

static int read_decided(struct proposals *all, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        _cleanup_free_ char *text = NULL;
        char path[PATH_MAX];
        yyjson_val *id;
        size_t n = 0, i, count;

        if (place_state(DECIDED, path, sizeof(path)) < 0)
                return error_set(err, ENOENT, PLACE_STATE_MISSING);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return errno == ENOENT ? 0 : error_errno(err, errno, "%s", path);
        int r = fd_read_whole(fd, DECIDED_MAX, &text, &n, err);
        if (r >= 0)
                r = json_parse(text, n, &doc, err);
        if (r < 0)
                return error_context(err, "%s", path);
        yyjson_arr_foreach (yyjson_doc_get_root(doc), i, count, id)
                mark(all, yyjson_get_str(id));
        return 0;
}

static bool is_same(const struct proposal *a, const struct proposal *b)
{
        return a->key == b->key && strcmp(a->server, b->server) == 0 &&
               strcmp(a->tool, b->tool) == 0 && strcmp(a->profile, b->profile) == 0 &&
               yyjson_equals(a->arguments, b->arguments);
}

int proposals_decide(struct proposals *all, const struct proposal *proposal, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(DECIDED_MAX);
        struct json_out out = {.to = &text};
        char path[PATH_MAX];

        if (place_state(DECIDED, path, sizeof(path)) < 0)
                return error_set(err, ENOENT, PLACE_STATE_MISSING);
        json_out_begin(&out, NULL, '[');
        for (size_t i = 0; i < all->n; i++) {
                all->list[i].is_decided |= is_same(&all->list[i], proposal);
                if (all->list[i].is_decided)
                        json_out_text(&out, NULL, all->list[i].id);
        }
        json_out_end(&out, ']');
        int r = out.error < 0 ? out.error : buffer_append_text(&text, "\n");
        return r < 0 ? error_errno(err, -r, "%s", path) : entry_text_write(path, &text, true, err);
}

/* ---- all of them ---- */

struct proposals *proposals_read(struct error *err)
{
        struct proposals *all = calloc(1, sizeof(*all));
        _cleanup_free_ char *text = NULL;
        char path[PATH_MAX + 32];
        size_t n = 0;

        int r = all ? program_path("cloister-journal", path, sizeof(path), err)
                    : error_errno(err, ENOMEM, "proposals");
        if (r >= 0) {
                r = process_read(run_journal, path, "read the journal", RECORDS_MAX, &text, &n,
                                 err);
                r = r > 0 ? -EIO : r;
        }
        if (r >= 0) {
                read_records(all, text, n);
                r = read_decided(all, err);
        }
        return r < 0 ? proposals_free(all) : all;
}

struct proposals *proposals_free(struct proposals *all)
{
        for (size_t i = 0; all && i < all->n; i++)
                yyjson_doc_free(all->list[i].doc);
        free(all);
        return NULL;
}

int proposal_rule(const struct proposal *p, struct buffer *to)
{
        _cleanup_buffer_ struct buffer name = BUFFER_INIT(4096), why = BUFFER_INIT(256);
        struct json_out out = {.to = to};

        if (buffer_printf(&name, "%s.%s", p->server, p->tool) < 0 ||
            buffer_printf(&why, "always: question %.*s", ID_DIGITS, p->id) < 0)
                return -ENOMEM;
        json_out_begin(&out, NULL, '{');
        json_out_string(&out, "allow", buffer_bytes(&name), name.length);
        json_out_begin(&out, "when", '{');
        json_out_begin(&out, "", '{');
        json_out_value(&out, "equals", p->arguments);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        json_out_string(&out, "why", buffer_bytes(&why), why.length);
        json_out_end(&out, '}');
        return out.error;
}
