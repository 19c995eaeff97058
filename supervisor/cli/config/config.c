/* cloister config path, check, show, schema. */
#include "supervisor/cli/config/config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"
#include "policy/config/add.h"
#include "policy/config/keys.h"
#include "supervisor/cli/config/config-present.h"
#include "supervisor/cli/config/config-show.h"

enum { CONFIG_OUTPUT_MAX = 64 * 1024 * 1024 };

int checked_config_open(struct checked_config *checked, const struct options *o, struct error *err)
{
        struct error why = {};

        *checked = (struct checked_config){.config = config_new()};
        if (!checked->config)
                return error_errno(err, ENOMEM, "config");
        checked->config->findings = &checked->findings;
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

int config_print(const struct json_out *out)
{
        struct error err = {};

        if (out->error == 0)
                return printf("%.*s\n", (int)out->to->length, buffer_bytes(out->to)) < 0;
        error_errno(&err, -out->error, "config");
        return cli_fail(1, &err);
}

/* ---- path ---- */

struct place {
        const char *path, *state, *why;
};

/* out: NULL for text. */
static void add_place(struct json_out *out, const struct place *place)
{
        if (!out) {
                printf("%-9s %s (%s)\n", place->state, place->path, place->why);
                return;
        }
        json_out_begin(out, NULL, '{');
        json_out_text(out, "path", place->path);
        json_out_bool(out, "read", strcmp(place->state, "read") == 0);
        json_out_text(out, "why", place->why);
        json_out_end(out, '}');
}

static bool is_read(const struct checked_config *checked, const char *path)
{
        for (size_t i = 0; checked->files && i < config_files_count(checked->files); i++)
                if (strcmp(config_files_path(checked->files, i), path) == 0)
                        return true;
        return false;
}

static void add_default(const struct checked_config *checked, struct json_out *out)
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
                add_place(out, &user);
        add_place(out, &machine);
}

/* Which files of a directory were read and which were skipped, according to the findings. */
static void add_named(const struct checked_config *checked, const char *path, struct json_out *out)
{
        struct stat st;
        size_t n = strlen(path);

        if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
                add_place(out, &(struct place){path, is_read(checked, path) ? "read" : "refused",
                                               "named by --config"});
                return;
        }
        for (size_t i = 0; checked->files && i < config_files_count(checked->files); i++) {
                const char *file = config_files_path(checked->files, i);
                if (strncmp(file, path, n) == 0 && file[n] == '/')
                        add_place(out, &(struct place){file, "read",
                                                       "in a directory that --config names"});
        }
}

int cli_config_path(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(CONFIG_OUTPUT_MAX);
        struct json_out json = {.to = &text, .indent = true};
        struct json_out *out = o->json ? &json : NULL;
        struct checked_config checked;
        struct error err = {};
        int status = 0;

        if (checked_config_open(&checked, o, &err) < 0)
                return cli_fail(1, &err);
        if (out)
                json_out_begin(out, NULL, '[');
        for (size_t i = 0; i < o->n_configs; i++)
                add_named(&checked, o->configs[i], out);
        if (o->n_configs == 0)
                add_default(&checked, out);
        if (out) {
                json_out_end(out, ']');
                status = config_print(out);
        }
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

static void put_findings(struct json_out *out, const struct checked_config *checked)
{
        json_out_begin(out, NULL, '{');
        json_out_begin(out, "files", '[');
        for (size_t i = 0; checked->files && i < config_files_count(checked->files); i++)
                json_out_text(out, NULL, config_files_path(checked->files, i));
        json_out_end(out, ']');
        json_out_int(out, "errors", (int64_t)checked->findings.n_errors);
        json_out_int(out, "warnings", (int64_t)(checked->findings.n - checked->findings.n_errors));
        json_out_begin(out, "findings", '[');
        for (size_t i = 0; i < checked->findings.n; i++) {
                const struct config_finding *finding = &checked->findings.items[i];
                const char *file, *text;
                size_t line;
                split_finding(checked, finding->text, &file, &line, &text);
                json_out_begin(out, NULL, '{');
                json_out_text(out, "severity", finding->is_error ? "error" : "warning");
                if (file)
                        json_out_text(out, "file", file);
                if (line)
                        json_out_int(out, "line", (int64_t)line);
                json_out_text(out, "message", text);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
        json_out_end(out, '}');
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
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(CONFIG_OUTPUT_MAX);
        struct json_out out = {.to = &text, .indent = true};
        struct checked_config checked;
        struct error err = {};

        if (checked_config_open(&checked, o, &err) < 0)
                return cli_fail(1, &err);
        if (checked.findings.n_errors == 0)
                config_check_present(o, checked.config);
        bool strict = o->strict;
        int status = checked.findings.n_errors > 0 || (strict && checked.findings.n > 0);
        if (o->json) {
                put_findings(&out, &checked);
                status |= config_print(&out);
        } else {
                print_findings(&checked);
        }
        checked_config_done(&checked);
        return status;
}

/* ---- show ---- */

int cli_config_show(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(CONFIG_OUTPUT_MAX);
        struct json_out out = {.to = &text, .indent = !o->json};
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
                config_show(&out, checked.config, o->json);
                status = config_print(&out);
        }
        checked_config_done(&checked);
        return status;
}

/* ---- schema ---- */

int cli_config_schema(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(CONFIG_OUTPUT_MAX);
        struct json_out out = {.to = &text, .indent = true};

        config_schema(&out);
        return config_print(&out);
}
