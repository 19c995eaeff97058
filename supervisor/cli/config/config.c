/* cloister config path, check, show. */
#include "supervisor/cli/config/config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "policy/config/add.h"
#include "supervisor/cli/command/fail.h"
#include "supervisor/cli/config/config-present.h"
#include "supervisor/cli/config/config-show.h"

int checked_config_open(struct checked_config *checked, const struct options *o, struct error *err)
{
        struct error why = {};

        *checked = (struct checked_config){.config = config_new()};
        if (!checked->config)
                return error_errno(err, ENOMEM, "config");
        config_collect(checked->config, &checked->findings);
        if (config_files_open(o->configs, o->n_configs, geteuid() == 0, NULL, checked->config,
                              &checked->files, &why) < 0)
                config_report(checked->config, true, why.text);
        if (config_finish(checked->config, &why) < 0)
                config_report(checked->config, true, why.text);
        return 0;
}

void checked_config_done(struct checked_config *checked)
{
        config_files_free(checked->files);
        config_findings_done(&checked->findings);
        config_free(checked->config);
}

int config_print(yyjson_mut_val *value, bool pretty)
{
        _cleanup_free_ char *text = yyjson_mut_val_write(
                value, pretty ? YYJSON_WRITE_PRETTY_TWO_SPACES : YYJSON_WRITE_NOFLAG, NULL);
        struct error err = {};

        if (text)
                return puts(text) < 0;
        error_errno(&err, ENOMEM, "config");
        return cli_fail(1, &err);
}

/* ---- path ---- */

struct place {
        const char *path, *state, *why;
};

static void add_place(yyjson_mut_doc *doc, yyjson_mut_val *list, const struct place *place)
{
        if (!doc) {
                printf("%-9s %s (%s)\n", place->state, place->path, place->why);
                return;
        }
        yyjson_mut_val *item = yyjson_mut_arr_add_obj(doc, list);
        yyjson_mut_obj_add_strcpy(doc, item, "path", place->path);
        yyjson_mut_obj_add_bool(doc, item, "read", strcmp(place->state, "read") == 0);
        yyjson_mut_obj_add_str(doc, item, "why", place->why);
}

static bool is_read(const struct checked_config *checked, const char *path)
{
        for (size_t i = 0; checked->files && i < config_files_count(checked->files); i++)
                if (strcmp(config_files_path(checked->files, i), path) == 0)
                        return true;
        return false;
}

static void add_default(const struct checked_config *checked, yyjson_mut_doc *doc,
                        yyjson_mut_val *list)
{
        char own[PATH_MAX];
        struct place user = {own, "absent", "yours; it would be read if it were there"};
        struct place machine = {CONFIG_SYSTEM_PATH, "absent", "the machine's, where you have none"};
        bool there = config_files_user_path(own, sizeof(own)) && access(own, F_OK) == 0;

        if (!config_files_user_path(own, sizeof(own)))
                user.path = NULL;
        if (there)
                user = (struct place){own, is_read(checked, own) ? "read" : "refused", "yours"};
        if (there && access(CONFIG_SYSTEM_PATH, F_OK) == 0)
                machine = (struct place){CONFIG_SYSTEM_PATH, "unread", "yours is there instead"};
        else if (is_read(checked, CONFIG_SYSTEM_PATH))
                machine.state = "read";
        else if (!there && access(CONFIG_SYSTEM_PATH, F_OK) == 0)
                machine.state = "refused";
        if (user.path)
                add_place(doc, list, &user);
        add_place(doc, list, &machine);
}

/* Which files of a directory were read and which were skipped, according to the findings. */
static void add_named(const struct checked_config *checked, const char *path, yyjson_mut_doc *doc,
                      yyjson_mut_val *list)
{
        struct stat st;
        size_t n = strlen(path);

        if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
                add_place(doc, list,
                          &(struct place){path, is_read(checked, path) ? "read" : "refused",
                                          "named by --config"});
                return;
        }
        for (size_t i = 0; checked->files && i < config_files_count(checked->files); i++) {
                const char *file = config_files_path(checked->files, i);
                if (strncmp(file, path, n) == 0 && file[n] == '/')
                        add_place(doc, list,
                                  &(struct place){file, "read",
                                                  "in a directory that --config names"});
        }
}

int cli_config_path(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_json_mut_ yyjson_mut_doc *doc = NULL;
        struct checked_config checked;
        struct error err = {};
        int status = 0;

        if (checked_config_open(&checked, o, &err) < 0)
                return cli_fail(1, &err);
        doc = o->json ? yyjson_mut_doc_new(NULL) : NULL;
        yyjson_mut_val *list = doc ? yyjson_mut_arr(doc) : NULL;
        for (size_t i = 0; i < o->n_configs; i++)
                add_named(&checked, o->configs[i], doc, list);
        if (o->n_configs == 0)
                add_default(&checked, doc, list);
        if (list)
                status = config_print(list, true);
        checked_config_done(&checked);
        return status;
}

/* ---- check ---- */

/* Splits "FILE: line 3: text" into file, line and text if it begins with the name of a file. */
static void split_finding(const struct checked_config *checked, const char *text, const char **file,
                          size_t *line, const char **rest)
{
        *file = NULL;
        *line = 0;
        *rest = text;
        for (size_t i = 0; checked->files && i < config_files_count(checked->files); i++) {
                const char *path = config_files_path(checked->files, i);
                size_t n = strlen(path);
                if (strncmp(text, path, n) != 0 || strncmp(text + n, ": ", 2) != 0)
                        continue;
                *file = path;
                *rest = text + n + 2;
                if (sscanf(*rest, "line %zu", line) == 1 && strstr(*rest, ": "))
                        *rest = strstr(*rest, ": ") + 2;
                return;
        }
}

static yyjson_mut_val *findings_json(yyjson_mut_doc *doc, const struct checked_config *checked)
{
        yyjson_mut_val *root = yyjson_mut_obj(doc);
        yyjson_mut_val *files = yyjson_mut_obj_add_arr(doc, root, "files");

        for (size_t i = 0; checked->files && i < config_files_count(checked->files); i++)
                yyjson_mut_arr_add_strcpy(doc, files, config_files_path(checked->files, i));
        yyjson_mut_obj_add_uint(doc, root, "errors", checked->findings.n_errors);
        yyjson_mut_obj_add_uint(doc, root, "warnings",
                                checked->findings.n - checked->findings.n_errors);
        yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "findings");
        for (size_t i = 0; i < checked->findings.n; i++) {
                const struct config_finding *finding = &checked->findings.items[i];
                yyjson_mut_val *item = yyjson_mut_arr_add_obj(doc, list);
                const char *file, *text;
                size_t line;
                split_finding(checked, finding->text, &file, &line, &text);
                yyjson_mut_obj_add_str(doc, item, "severity",
                                       finding->is_error ? "error" : "warning");
                if (file)
                        yyjson_mut_obj_add_strcpy(doc, item, "file", file);
                if (line)
                        yyjson_mut_obj_add_uint(doc, item, "line", line);
                yyjson_mut_obj_add_strcpy(doc, item, "message", text);
        }
        return root;
}

/* Names and texts come from the file: escapes control characters. */
static void print_line(const char *text)
{
        printable_print(stdout, text);
        putchar('\n');
}

static void print_findings(const struct checked_config *checked)
{
        size_t n = checked->files ? config_files_count(checked->files) : 0;
        size_t n_errors = checked->findings.n_errors, n_warnings = checked->findings.n - n_errors;

        for (size_t i = 0; i < checked->findings.n; i++) {
                fputs(checked->findings.items[i].is_error ? "error: " : "warning: ", stdout);
                print_line(checked->findings.items[i].text);
        }
        if (checked->files && n == 0)
                puts("no config file is there ('cloister config path' says where it would be)");
        else
                printf("%zu file%s, %zu server%s: %zu error%s, %zu warning%s\n", n,
                       n == 1 ? "" : "s", checked->config->n_servers,
                       checked->config->n_servers == 1 ? "" : "s", n_errors,
                       n_errors == 1 ? "" : "s", n_warnings, n_warnings == 1 ? "" : "s");
}

int cli_config_check(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_json_mut_ yyjson_mut_doc *doc = NULL;
        struct checked_config checked;
        struct error err = {};

        if (checked_config_open(&checked, o, &err) < 0)
                return cli_fail(1, &err);
        if (checked.findings.n_errors == 0)
                config_check_present(o, checked.config);
        bool strict = o->strict;
        int status = checked.findings.n_errors > 0 || (strict && checked.findings.n > 0);
        if (o->json) {
                doc = yyjson_mut_doc_new(NULL);
                status |= config_print(findings_json(doc, &checked), true);
        } else {
                print_findings(&checked);
        }
        checked_config_done(&checked);
        return status;
}

/* ---- show ---- */

int cli_config_show(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
        struct checked_config checked;
        struct error err = {};
        int status = 1;

        if (checked_config_open(&checked, o, &err) < 0)
                return cli_fail(1, &err);
        for (size_t i = 0; i < checked.findings.n; i++) {
                if (!checked.findings.items[i].is_error)
                        continue;
                error_set(&err, EINVAL, "%s", checked.findings.items[i].text);
                cli_fail(1, &err);
        }
        if (checked.findings.n_errors == 0) {
                bool json = o->json;
                status = config_print(config_show(doc, checked.config, json), !json);
        }
        checked_config_done(&checked);
        return status;
}
