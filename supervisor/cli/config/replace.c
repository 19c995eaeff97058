/*
 * `cloister setup CLIENT --replace NAME`.
 *
 * Theory of operation. The file is parsed; each entry's command and args are one list of words, of which the first ones start the
 * old system (old-command.c). The text of these words is replaced, and nothing else (value-text.c finds it). The new text is
 * parsed again: both documents must be equal except for "command" and "args" of these entries, which must be what was wanted.
 * The old texts are recorded before the file is written (replaced.c). To bring them back, the values must still be what was
 * put there; the client may have laid the file out anew meanwhile.
 */
#include "supervisor/cli/config/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/printable.h"
#include "supervisor/cli/config/old-command.h"
#include "supervisor/cli/config/replaced.h"
#include "supervisor/cli/config/value-text.h"

enum {
        FILE_MAX = 32 * 1024 * 1024,
        TEXT_MAX = FILE_MAX + 1024 * 1024,
        ENTRIES_MAX = 64,
        WORDS_MAX = 128,
        VALUE_MAX = 256 * 1024,
};

/* An entry that is changed. Texts are owned. */
struct change {
        const char *keys[REPLACED_KEYS_MAX + 1]; /* borrowed: of the document, or of a record */
        yyjson_val *entry;
        struct span command, args;    /* args.to 0: it has none */
        char *old_command, *old_args; /* old_args NULL: none */
        char *new_command, *new_args; /* new_args NULL: none, or they are taken out */
        char *put_command, *put_args; /* the new values, as JSON */
        size_t record;                /* of --remove */
};

struct edit {
        size_t from, to;
        char *text; /* owned; NULL: nothing */
};

struct job {
        const struct options *options;
        const struct replace_place *place;
        const struct old_system *system;
        const char *self;
        struct entry_text file;
        char *real; /* path of the file, without links */
        struct value_text text;
        struct change changes[ENTRIES_MAX];
        size_t n;
        struct edit edits[2 * ENTRIES_MAX];
        size_t n_edits;
        struct buffer to;
        struct replaced_list records;
        struct error *err;
};

static void job_done(struct job *job)
{
        for (size_t i = 0; i < job->n; i++) {
                free(job->changes[i].old_command);
                free(job->changes[i].old_args);
                free(job->changes[i].new_command);
                free(job->changes[i].new_args);
                free(job->changes[i].put_command);
                free(job->changes[i].put_args);
        }
        for (size_t i = 0; i < job->n_edits; i++)
                free(job->edits[i].text);
        entry_text_done(&job->file);
        replaced_done(&job->records);
        buffer_done(&job->to);
        free(job->real);
}

static int no_memory(struct job *job)
{
        return error_errno(job->err, ENOMEM, "setup");
}

static int by_hand(struct job *job, const char *const *keys)
{
        size_t n = 0;

        while (keys[n + 1])
                n++;
        return error_set(
                job->err, EBADMSG,
                "%s: the layout of the entry \"%s\" cannot be edited without a risk: edit it by hand",
                job->place->path, keys[n]);
}

/* ---- where the values are ---- */

static char *copy_span(const struct job *job, struct span span)
{
        return strndup(job->text.text + span.from, span.to - span.from);
}

static bool has_once(yyjson_val *object, const char *name)
{
        yyjson_val *key, *value;
        size_t i, n, found = 0;

        yyjson_obj_foreach (object, i, n, key, value)
                found += yyjson_equals_str(key, name);
        return found <= 1;
}

static int find_spans(struct job *job, struct change *change)
{
        yyjson_val *command = yyjson_obj_get(change->entry, "command"),
                   *args = yyjson_obj_get(change->entry, "args");

        if (job->place->is_toml) {
                if (value_text_toml(&job->text, change->keys[0], change->keys[1], "command", "args",
                                    &change->command, &change->args) == 0 ||
                    !args != !change->args.to)
                        return by_hand(job, change->keys);
                return 0;
        }
        if (!has_once(change->entry, "command") || !has_once(change->entry, "args"))
                return by_hand(job, change->keys);
        change->command.from = entry_text_position(&job->file, command);
        change->command.to = value_text_end(&job->text, change->command.from);
        if (args) {
                change->args.from = entry_text_position(&job->file, args);
                change->args.to = value_text_end(&job->text, change->args.from);
        }
        return 0;
}

static int add_edit(struct job *job, size_t from, size_t to, const char *text)
{
        char *copy = text ? strdup(text) : NULL;

        if (text && !copy)
                return no_memory(job);
        job->edits[job->n_edits++] = (struct edit){from, to, copy};
        return 0;
}

/* ---- the new command ---- */

/* The words of an entry; 0: they are not all strings, or too many. */
static size_t read_words(yyjson_val *entry, const char *words[WORDS_MAX])
{
        yyjson_val *command = yyjson_obj_get(entry, "command"),
                   *args = yyjson_obj_get(entry, "args"), *list = args, *item;
        size_t n = 0, i, count;

        if (yyjson_is_arr(command))
                list = command;
        else if (yyjson_is_str(command))
                words[n++] = yyjson_get_str(command);
        yyjson_arr_foreach (list, i, count, item) {
                if (!yyjson_is_str(item) || n == WORDS_MAX)
                        return 0;
                words[n++] = yyjson_get_str(item);
        }
        return (args && !yyjson_is_arr(args)) || (yyjson_is_arr(command) && args) ? 0 : n;
}

static int append_words(struct job *job, struct buffer *to, bool with_program, const char *between)
{
        const char *const words[] = {job->self, "mcp", "--as", job->options->replace};
        int r = 0;

        for (size_t i = with_program ? 0 : 1, first = i; i < ARRAY_SIZE(words) && r >= 0; i++) {
                r = i > first ? buffer_append_text(to, between) : 0;
                if (r >= 0)
                        r = json_append_string(to, words[i], strlen(words[i]));
        }
        return r;
}

/* The text of a list in which our words replace the first n ones. list.to 0: there is none yet. */
static char *new_list(struct job *job, struct span list, size_t n, bool with_program)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(VALUE_MAX);
        _cleanup_buffer_ struct buffer between = BUFFER_INIT(VALUE_MAX);
        struct span items[WORDS_MAX];
        const char *text = job->text.text;
        size_t count = list.to > 0 ? value_text_items(&job->text, list.from, items, WORDS_MAX) : 0;

        if (count == SIZE_MAX || n > count)
                return NULL;
        size_t first = count > 0 ? items[0].from : list.from + 1;
        size_t rest = n > 0 ? items[n - 1].to : first;
        size_t blank = first - list.from - 1;
        /* One word a line, if the list has that form. */
        bool lines = count > 0 && memchr(text + list.from, '\n', first - list.from) &&
                     strspn(text + list.from + 1, " \t\r\n") >= blank;
        int r = buffer_append_text(&between, ",");
        if (r >= 0)
                r = buffer_append(&between, lines ? text + list.from + 1 : " ", lines ? blank : 1);
        if (r >= 0)
                r = buffer_append(&between, "", 1);
        if (r >= 0)
                r = list.to > 0 ? buffer_append(&b, text + list.from, first - list.from)
                                : buffer_append_text(&b, "[");
        if (r >= 0)
                r = append_words(job, &b, with_program, buffer_bytes(&between));
        if (r >= 0 && n == 0 && count > 0)
                r = buffer_append_text(&b, buffer_bytes(&between));
        if (r >= 0)
                r = list.to > 0 ? buffer_append(&b, text + rest, list.to - rest)
                                : buffer_append_text(&b, "]");
        return r < 0 ? NULL : strndup(buffer_bytes(&b), b.length);
}

/* The line break and the spaces before a member, or " " if it does not begin its line. */
static char *indentation(const struct job *job, size_t at)
{
        size_t begin = at;

        while (begin > 0 && strchr(" \t", job->text.text[begin - 1]))
                begin--;
        if (begin == 0 || job->text.text[begin - 1] != '\n')
                return strdup(" ");
        begin -= 1 + (begin > 1 && job->text.text[begin - 2] == '\r');
        return strndup(job->text.text + begin, at - begin);
}

/* The end of a line, before its line break. */
static size_t end_of_line(const struct job *job, size_t at)
{
        const char *end = memchr(job->text.text + at, '\n', job->text.n - at);
        size_t ret = end ? (size_t)(end - job->text.text) : job->text.n;

        return ret - (ret > at && job->text.text[ret - 1] == '\r');
}

/* "args" behind "command". */
static int insert_args(struct job *job, const struct change *change)
{
        _cleanup_free_ char *before = NULL, *text = NULL;
        size_t at = change->command.to;

        if (job->place->is_toml) {
                at = end_of_line(job, at);
                bool crlf = at < job->text.n && job->text.text[at] == '\r';
                if (asprintf(&text, "%s\nargs = %s", crlf ? "\r" : "", change->new_args) < 0)
                        text = NULL;
        } else {
                yyjson_obj_iter members = yyjson_obj_iter_with(change->entry);
                yyjson_val *key;
                while ((key = yyjson_obj_iter_next(&members)) && !yyjson_equals_str(key, "command"))
                        ;
                before = indentation(job, entry_text_position(&job->file, key));
                if (!before || asprintf(&text, ",%s\"args\": %s", before, change->new_args) < 0)
                        text = NULL;
        }
        return text ? add_edit(job, at, at, text) : no_memory(job);
}

static int change_entry(struct job *job, struct change *change, size_t length)
{
        bool is_list = yyjson_is_arr(yyjson_obj_get(change->entry, "command"));
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(VALUE_MAX);

        int r = find_spans(job, change);
        if (r < 0)
                return r;
        change->old_command = copy_span(job, change->command);
        if (change->args.to > 0)
                change->old_args = copy_span(job, change->args);
        if (!change->old_command || (change->args.to > 0 && !change->old_args))
                return no_memory(job);
        if (is_list) {
                change->new_command = new_list(job, change->command, length, true);
                return change->new_command ? add_edit(job, change->command.from, change->command.to,
                                                      change->new_command)
                                           : by_hand(job, change->keys);
        }
        if (json_append_string(&b, job->self, strlen(job->self)) < 0 ||
            !(change->new_command = strndup(buffer_bytes(&b), b.length)))
                return no_memory(job);
        change->new_args = new_list(job, change->args, length - 1, false);
        if (!change->new_args)
                return by_hand(job, change->keys);
        r = add_edit(job, change->command.from, change->command.to, change->new_command);
        if (r >= 0)
                r = change->args.to > 0
                            ? add_edit(job, change->args.from, change->args.to, change->new_args)
                            : insert_args(job, change);
        return r;
}

/* ---- the entries ---- */

static void tell_unknown(const struct job *job, const char *name, const char *const *words,
                         size_t n)
{
        char command[256] = "";

        for (size_t i = 0; i < n && strlen(command) < sizeof(command) - 2; i++)
                snprintf(command + strlen(command), sizeof(command) - strlen(command), "%s%s",
                         i ? " " : "", words[i]);
        cli_fail_text(0, "the entry \"%s\" stays: '%s' is not a known way to start %s", name,
                      command, job->options->replace);
}

/* Whether the words after the program are those that --replace puts there. */
static bool is_replaced(const char *const *words, size_t n, const char *as)
{
        return n >= 4 && strcmp(words[1], "mcp") == 0 && strcmp(words[2], "--as") == 0 &&
               strcmp(words[3], as) == 0;
}

static int take_entry(struct job *job, const char *const *keys, yyjson_val *entry)
{
        yyjson_val *env = yyjson_obj_get(entry, "env"), *key, *value;
        const char *words[WORDS_MAX], *variables[WORDS_MAX + 1] = {};
        struct old_entry seen = {.variables = variables};
        size_t n_keys = 0, i, count, n_variables = 0;

        while (keys[n_keys])
                seen.name = keys[n_keys++];
        yyjson_obj_foreach (env ? env : yyjson_obj_get(entry, "environment"), i, count, key, value)
                if (n_variables < WORDS_MAX)
                        variables[n_variables++] = yyjson_get_str(key);
        size_t n = read_words(entry, words);
        size_t length = old_command_length(job->system, words, n, &seen);
        if (length == 0) {
                if (is_replaced(words, n, job->options->replace))
                        cli_fail_text(0, "the entry \"%s\" starts Cloister already", seen.name);
                else if (old_command_names(job->system, words, n, &seen))
                        tell_unknown(job, seen.name, words, n);
                return 0;
        }
        if (job->n == ENTRIES_MAX)
                return error_set(job->err, E2BIG, "%s: more than %d entries start %s",
                                 job->place->path, ENTRIES_MAX, job->options->replace);
        struct change *change = &job->changes[job->n++];
        *change = (struct change){.entry = entry};
        memcpy(change->keys, keys, n_keys * sizeof(keys[0]));
        return change_entry(job, change, length);
}

/* The entries of one object of servers. */
static int take_servers(struct job *job, yyjson_val *in, const char *const *above)
{
        const char *keys[REPLACED_KEYS_MAX + 1] = {};
        size_t n = 0, i, count;
        yyjson_val *key, *value;
        int r = 0;

        for (; above && above[n]; n++)
                keys[n] = above[n];
        for (size_t k = 0; job->place->keys[k] && n < REPLACED_KEYS_MAX - 1; k++) {
                keys[n++] = job->place->keys[k];
                in = yyjson_obj_get(in, job->place->keys[k]);
        }
        yyjson_obj_foreach (in, i, count, key, value) {
                keys[n] = yyjson_get_str(key);
                if (r >= 0 && yyjson_is_obj(value))
                        r = take_entry(job, keys, value);
        }
        return r;
}

static int take_all(struct job *job)
{
        yyjson_val *root = yyjson_doc_get_root(job->file.doc), *key, *value;
        size_t i, n;

        int r = take_servers(job, root, NULL);
        if (!job->place->projects)
                return r;
        yyjson_obj_foreach (yyjson_obj_get(root, job->place->projects), i, n, key, value) {
                const char *const above[] = {job->place->projects, yyjson_get_str(key), NULL};
                if (r >= 0)
                        r = take_servers(job, value, above);
        }
        return r;
}

/* ---- bringing the old text back ---- */

static yyjson_val *entry_at(yyjson_val *at, const char *const *keys)
{
        for (; *keys; keys++)
                at = yyjson_obj_get(at, *keys);
        return at;
}

/* Whether a value is what a text of JSON says; without a text, that there is none. */
static bool is_value(yyjson_val *value, const char *text)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (!text)
                return !value;
        return json_parse(text, strlen(text), &doc, NULL) >= 0 &&
               yyjson_equals(value, yyjson_doc_get_root(doc));
}

/* Cuts the "args" that were put behind "command". */
static int cut_args(struct job *job, const struct change *change)
{
        const struct value_text *t = &job->text;
        size_t from = change->command.to, at;

        if (job->place->is_toml) {
                from = end_of_line(job, from);
                at = value_text_skip_blank(t, from);
                size_t name = strlen("args");
                if (at + name > t->n || memcmp(t->text + at, "args", name) != 0 ||
                    at + name + strspn(t->text + at + name, " \t=") != change->args.from)
                        return by_hand(job, change->keys);
                return add_edit(job, from, change->args.to, NULL);
        }
        at = value_text_skip_blank(t, from);
        at = at < t->n && t->text[at] == ',' ? value_text_skip_blank(t, at + 1) : t->n;
        at = at < t->n && t->text[at] == '"' ? value_text_end(t, at) : t->n;
        at = value_text_skip_blank(t, at);
        at = at < t->n && t->text[at] == ':' ? value_text_skip_blank(t, at + 1) : t->n;
        return at == change->args.from ? add_edit(job, from, change->args.to, NULL)
                                       : by_hand(job, change->keys);
}

static int restore_entry(struct job *job, size_t record)
{
        const struct replaced *item = &job->records.items[record];
        yyjson_val *entry = entry_at(yyjson_doc_get_root(job->file.doc), item->keys);
        const char *name = NULL;

        for (size_t i = 0; item->keys[i]; i++)
                name = item->keys[i];
        if (!is_value(yyjson_obj_get(entry, "command"), item->put_command) ||
            !is_value(yyjson_obj_get(entry, "args"), item->put_args)) {
                cli_fail_text(0, "the entry \"%s\" was changed or removed since: it stays", name);
                return 0;
        }
        if (job->n == ENTRIES_MAX)
                return error_set(job->err, E2BIG, "%s: more than %d entries", job->place->path,
                                 ENTRIES_MAX);
        struct change *change = &job->changes[job->n++];
        *change = (struct change){.entry = entry, .record = record};
        memcpy(change->keys, item->keys, sizeof(change->keys));
        int r = find_spans(job, change);
        if (r < 0)
                return r;
        change->old_command = copy_span(job, change->command);
        change->old_args = change->args.to > 0 ? copy_span(job, change->args) : NULL;
        change->new_command = strdup(item->command);
        change->new_args = item->args ? strdup(item->args) : NULL;
        if (!change->old_command || !change->new_command || (item->args && !change->new_args))
                return no_memory(job);
        r = add_edit(job, change->command.from, change->command.to, item->command);
        if (r >= 0 && change->args.to > 0)
                r = item->args ? add_edit(job, change->args.from, change->args.to, item->args)
                               : cut_args(job, change);
        return r;
}

static int restore_all(struct job *job)
{
        size_t found = 0;
        int r = 0;

        for (size_t i = 0; i < job->records.n && r >= 0; i++) {
                const struct replaced *item = &job->records.items[i];
                if (strcmp(item->file, job->real) != 0 ||
                    strcmp(item->as, job->options->replace) != 0)
                        continue;
                found++;
                r = restore_entry(job, i);
        }
        if (r >= 0 && found == 0)
                return error_set(job->err, ENOENT,
                                 "%s: no entry of it was replaced by --replace %s",
                                 job->place->path, job->options->replace);
        return r;
}

/* ---- the new text ---- */

static int by_place(const void *a, const void *b)
{
        const struct edit *one = a, *other = b;

        return one->from < other->from ? -1 : one->from > other->from;
}

static int apply(struct job *job)
{
        size_t at = 0;
        int r = 0;

        qsort(job->edits, job->n_edits, sizeof(job->edits[0]), by_place);
        for (size_t i = 0; i < job->n_edits && r >= 0; i++) {
                const struct edit *edit = &job->edits[i];
                if (edit->from < at || edit->to < edit->from || edit->to > job->text.n)
                        return error_set(
                                job->err, EBADMSG,
                                "%s: its layout cannot be edited without a risk: edit it by hand",
                                job->place->path);
                r = buffer_append(&job->to, job->text.text + at, edit->from - at);
                if (r >= 0 && edit->text)
                        r = buffer_append_text(&job->to, edit->text);
                at = edit->to;
        }
        if (r >= 0)
                r = buffer_append(&job->to, job->text.text + at, job->text.n - at);
        return r < 0 ? error_errno(job->err, -r, "setup") : 0;
}

static int parse(const struct job *job, const struct buffer *text, yyjson_doc **ret)
{
        struct error ignored = {};
        char path[64];

        if (!job->place->is_toml)
                return json_parse_config(buffer_bytes(text), text->length, ret, &ignored);
        _cleanup_close_ int fd = memfd_create("setup", MFD_CLOEXEC);
        if (fd < 0)
                return -errno;
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
        int r = fd_write_all(fd, buffer_bytes(text), text->length);
        return r < 0 ? r : entry_text_parse_toml(path, ret, &ignored);
}

/* The document without "command" and "args" of the changed entries. */
static struct json_tree *rest_of(const struct job *job, yyjson_doc *doc)
{
        struct json_tree *ret = json_tree_new(yyjson_doc_get_root(doc));

        for (size_t i = 0; ret && i < job->n; i++) {
                json_tree_remove(ret, job->changes[i].keys, "command");
                json_tree_remove(ret, job->changes[i].keys, "args");
        }
        return ret;
}

/* The new text has these changes and no other. */
static int check(struct job *job)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        bool good = parse(job, &job->to, &doc) >= 0;

        struct json_tree *before = rest_of(job, job->file.doc);
        struct json_tree *after = good ? rest_of(job, doc) : NULL;
        good = before && after && json_tree_equals(before, after);
        for (size_t i = 0; good && i < job->n && !job->options->remove; i++) {
                struct change *change = &job->changes[i];
                yyjson_val *entry = entry_at(yyjson_doc_get_root(doc), change->keys);
                yyjson_val *args = yyjson_obj_get(entry, "args");
                const char *words[WORDS_MAX] = {};
                size_t n_words = read_words(entry, words), n = 0;
                good = is_replaced(words, n_words, job->options->replace) &&
                       strcmp(words[0], job->self) == 0 &&
                       json_write(yyjson_obj_get(entry, "command"), &change->put_command, &n) >=
                               0 &&
                       (!args || json_write(args, &change->put_args, &n) >= 0);
        }
        json_tree_free(before);
        json_tree_free(after);
        return good ? 0
                    : error_set(job->err, EBADMSG,
                                "%s: its layout cannot be edited without a risk: edit it by hand",
                                job->place->path);
}

/* ---- the command ---- */

static void show_text(char sign, const char *key, const char *text)
{
        if (!text)
                return;
        printf("%c %s: ", sign, key);
        for (const char *line = text; line; line = strchr(line, '\n')) {
                char shown[2048], cut[512];
                line += *line == '\n';
                snprintf(cut, sizeof(cut), "%.*s", (int)strcspn(line, "\r\n"), line);
                printable_escape(shown, sizeof(shown), cut);
                printf("%s%s\n", line == text ? "" : (const char[]){sign, ' ', '\0'}, shown);
        }
}

static void show(const struct job *job)
{
        for (size_t i = 0; i < job->n; i++) {
                const struct change *change = &job->changes[i];
                fputs(job->place->path, stdout);
                for (size_t k = 0; change->keys[k]; k++) {
                        char shown[512];
                        printable_escape(shown, sizeof(shown), change->keys[k]);
                        printf("%s%s", k ? "." : ", ", shown);
                }
                puts(":");
                show_text('-', "command", change->old_command);
                show_text('-', "args", change->old_args);
                show_text('+', "command", change->new_command);
                show_text('+', "args", change->new_args);
        }
        fflush(stdout);
}

static int record_all(struct job *job)
{
        int r = 0;

        for (size_t i = 0; i < job->n && r >= 0; i++) {
                const struct change *change = &job->changes[i];
                struct replaced item = {.file = job->real,
                                        .as = job->options->replace,
                                        .command = change->old_command,
                                        .args = change->old_args,
                                        .put_command = change->put_command,
                                        .put_args = change->put_args};
                memcpy(item.keys, change->keys, sizeof(item.keys));
                r = replaced_add(&job->records, &item, job->err);
        }
        return r < 0 ? r : replaced_write(&job->records, job->err);
}

static int forget_all(struct job *job)
{
        for (size_t i = job->n; i > 0; i--)
                replaced_drop(&job->records, job->changes[i - 1].record);
        return replaced_write(&job->records, job->err);
}

static int read_file(struct job *job)
{
        const char *path = job->place->path;

        int r = entry_text_check_owner(path, job->err);
        if (r >= 0)
                r = entry_text_read(&job->file, path, FILE_MAX, job->err);
        if (r == 0)
                return error_set(job->err, ENOENT, "%s does not exist", path);
        if (r < 0)
                return r;
        job->real = realpath(path, NULL);
        job->text = (struct value_text){job->file.text, job->file.n, job->place->is_toml};
        return job->real ? replaced_read(&job->records, job->err)
                         : error_errno(job->err, errno, "%s", path);
}

static int write_all(struct job *job)
{
        const struct options *o = job->options;
        /* A record without its change does no harm; a change without its record could not be undone. */
        int r = o->remove ? 0 : record_all(job);

        if (r >= 0)
                r = entry_text_unchanged(&job->file, job->place->path, job->err);
        if (r >= 0)
                r = entry_text_write(job->place->path, &job->to, false, job->err);
        if (r >= 0)
                printf("wrote %s: restart %s\n", job->place->path, job->place->title);
        return r >= 0 && o->remove ? forget_all(job) : r;
}

static int nothing_found(struct job *job)
{
        if (job->options->remove)
                return error_set(job->err, ENOENT, "%s: nothing was brought back",
                                 job->place->path);
        return error_set(
                job->err, ENOENT,
                "%s has no entry that starts %s; for the file of a project: cloister setup %s --replace %s FILE",
                job->place->path, job->options->replace, job->place->word, job->options->replace);
}

int replace_entries(const struct options *o, const struct replace_place *place, const char *self,
                    int (*confirm)(const struct options *o, struct error *err), struct error *err)
{
        _cleanup_(job_done) struct job job = {
                .options = o,
                .place = place,
                .self = self,
                .file = {.keys = place->keys, .is_toml = place->is_toml},
                .to = BUFFER_INIT(TEXT_MAX),
                .err = err,
        };

        job.system = old_system_find(o->replace, err);
        if (!job.system)
                return -EINVAL;
        int r = read_file(&job);
        if (r >= 0)
                r = o->remove ? restore_all(&job) : take_all(&job);
        if (r >= 0 && job.n == 0)
                return nothing_found(&job);
        if (r >= 0)
                r = apply(&job);
        if (r >= 0)
                r = check(&job);
        if (r < 0)
                return r;
        show(&job);
        if (o->dry_run)
                return 0;
        r = confirm(o, err);
        return r < 0 ? r : write_all(&job);
}
