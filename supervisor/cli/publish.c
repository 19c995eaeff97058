/*
 * `cloister publish`: adds a script to the tools that the config publishes.
 *
 * A Python of the machine parses the script, without running it, and says what is known of it
 * (publish.py).
 */
#include "supervisor/cli/publish.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/json.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/published-name.h"
#include "supervisor/cli/command/process.h"
#include "supervisor/cli/config/entry-text.h"

enum { TEXT_MAX = 16 * 1024 * 1024 };

static const unsigned char program[] = {
#include "supervisor/cli/publish.inc"
};

/* ---- the entry ---- */

static int ask_python(const char *path, char **ret, size_t *n, struct error *err)
{
        static const char *const pythons[] = {"python3", "/usr/bin/python3", NULL};
        _cleanup_free_ char *text = NULL;
        int r = python_program_run(pythons, (const char *)program, path, &text, n, err);

        if (r == 0)
                *ret = take_ptr(text);
        if (r == PYTHON_WRONG)
                return error_set(err, EINVAL, "%s: %.300s", path, text ? text : "");
        return r <= 0 ? r
                      : error_set(err, ENOENT, "%s: reading a script needs a python3 in PATH",
                                  path);
}

/* The file's name without .py, in characters of a tool's name. */
static void name_of(const char *path, char to[PUBLISHED_NAME_MAX + 1])
{
        const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
        size_t n = strlen(base);

        if (n > 3 && strcmp(base + n - 3, ".py") == 0)
                n -= 3;
        snprintf(to, PUBLISHED_NAME_MAX + 1, "%.*s", (int)n, base);
        for (char *c = to; *c; c++) {
                char text[] = {*c, '\0'};
                if (published_name_problem(text))
                        *c = '_';
        }
}

/* Writes what Python said about the script, with the file and the profile. */
static int make_entry(const struct options *o, const char *script, struct buffer *to,
                      struct error *err)
{
        _cleanup_free_ char *text = NULL, *real = realpath(script, NULL);
        _cleanup_json_ yyjson_doc *known = NULL;
        struct json_out out = {.to = to, .indent = true};
        yyjson_val *key, *value;
        size_t n = 0, i;

        if (!real)
                return error_errno(err, errno, "%s", script);
        int r = ask_python(real, &text, &n, err);
        if (r >= 0)
                r = json_parse(text, n, &known, err);
        if (r < 0)
                return r;
        yyjson_val *entry = yyjson_doc_get_root(known);
        if (yyjson_equals_str(yyjson_obj_get(entry, "description"), ""))
                return error_set(
                        err, EINVAL,
                        "%s has no docstring: begin it with one, which says what the tool does",
                        script);
        json_out_begin(&out, NULL, '{');
        yyjson_obj_foreach (entry, i, n, key, value) {
                json_out_key(&out, yyjson_get_str(key), yyjson_get_len(key));
                json_out_value(&out, NULL, value);
        }
        json_out_text(&out, "file", real);
        if (o->profile)
                json_out_text(&out, "profile", o->profile);
        json_out_end(&out, '}');
        if (out.error == 0)
                out.error = buffer_append(to, "", 1);
        return out.error < 0 ? error_errno(err, -out.error, "publish") : 0;
}

/* ---- the text of the config ---- */

static const char *const keys[] = {"publish", "tools", NULL};

static int make_text(const char *path, const char *name, const char *entry, struct buffer *to,
                     struct error *err)
{
        _cleanup_(entry_text_done) struct entry_text file = {.keys = keys};
        int r = entry_text_read(&file, path, CONFIG_FILE_SIZE_MAX, err);

        if (r < 0)
                return r;
        if (entry_text_find(&file, name))
                return error_set(
                        err, EEXIST,
                        "%s publishes a tool \"%s\" already: remove it there, or choose another --name",
                        path, name);
        r = entry_text_add(&file, name, entry, to, err);
        return r < 0 ? error_context(err, "%s", path) : 0;
}

/* Parses the new text as Cloister will, before it is written. */
static int check_text(const struct buffer *text, const char *path, struct error *err)
{
        struct config *config = config_new();
        int r = config ? config_add(config, path, buffer_bytes(text), text->length, err)
                       : error_errno(err, ENOMEM, "publish");

        if (r >= 0)
                r = config_finish(config, err);
        config_free(config);
        return r;
}

/* ---- the command ---- */

static int publish(const struct options *o, const char *script, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        _cleanup_buffer_ struct buffer entry = BUFFER_INIT(TEXT_MAX);
        char path[PATH_MAX], name[PUBLISHED_NAME_MAX + 1];

        name_of(o->name ? o->name : script, name);
        const char *problem = published_name_problem(o->name ? o->name : name);
        if (problem)
                return error_set(err, EINVAL, "%s: %s", o->name ? o->name : name, problem);
        int r = entry_text_path(o, "published.json", path, err);
        if (r >= 0)
                r = make_entry(o, script, &entry, err);
        if (r >= 0)
                r = make_text(path, name, buffer_bytes(&entry), &text, err);
        if (r >= 0)
                r = check_text(&text, path, err);
        if (r >= 0 && !o->dry_run)
                r = entry_text_write(path, &text, false, err);
        if (r < 0)
                return r;
        if (o->dry_run)
                printf("%s would be:\n%.*s", path, (int)text.length, buffer_bytes(&text));
        else
                printf("wrote %s: the tool %s\n", path, name);
        return 0;
}

int cli_publish(const struct options *o, const char *const *words, size_t n)
{
        struct error err = {};

        if (n == 0)
                error_set(&err, EINVAL,
                          "publish needs the path of a script (see 'cloister publish --help')");
        return n == 0 || publish(o, words[0], &err) < 0 ? cli_fail(1, &err) : 0;
}
