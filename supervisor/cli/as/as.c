/* Applies the table of another system to a command line. */
#include "supervisor/cli/as/as.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/path.h"
#include "policy/config/add.h"
#include "policy/config/settings.h"
#include "supervisor/cli/as/languages.h"
#include "supervisor/cli/as/pyodide.h"
#include "supervisor/cli/as/tables.h"
#include "supervisor/cli/command/command.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/config/config-files.h"
#include "supervisor/config/table-file.h"

enum { NETWORK_MAX = 8 * 1024, HOSTS_TEXT_MAX = 8 * NETWORK_MAX };

/* A table, and what was given for it. It lives as long as the process. */
struct system {
        char *path, *data;
        size_t n;
        struct config *config; /* of the table alone */
        struct settings_given given;
};

static const char *variable(const char *name)
{
        return getenv(name);
}

/* ---- the table ---- */

static int read_table(struct system *s, const char *name, int *status, struct error *err)
{
        int r = tables_read(name, &s->path, &s->data, &s->n, err);

        *status = r == -ENOENT && !strchr(name, '/') ? 2 : EXIT_CLOISTER;
        return r < 0 ? r : table_file_check(s->path, s->data, s->n, &s->config, err);
}

/* ---- the command line ---- */

/* The value of --as, if the command takes it; NULL: none. */
static const char *find_name(int argc, char **argv)
{
        if (argc < 1 || (strcmp(argv[0], "mcp") != 0 && strcmp(argv[0], "serve") != 0 &&
                         strcmp(argv[0], "config") != 0))
                return NULL;
        for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
                if (strncmp(argv[i], "--as=", 5) == 0)
                        return argv[i] + 5;
                if (strcmp(argv[i], "--as") == 0 && i + 1 < argc)
                        return argv[i + 1];
        }
        return NULL;
}

/* Takes the system's options out of the words. Returns how many words stay. */
static int take_options(struct system *s, int argc, char **argv, char **rest, struct error *err)
{
        int n = 0;

        for (int i = 0; i < argc;) {
                bool is_name = strcmp(argv[i], "--as") == 0 && i + 1 < argc;
                int used = is_name ? 0
                                   : settings_take_option(&s->config->as, argc - i, argv + i,
                                                          &s->given, err);
                if (used < 0)
                        return used;
                if (used == 0)
                        rest[n++] = argv[i];
                if (is_name)
                        rest[n++] = argv[i + 1];
                i += used > 0 ? used : 1 + is_name;
        }
        return n;
}

/* The error of an option that neither knows: the system's may have been meant. */
static void suggest(const struct system *s, int argc, char **argv, struct error *err)
{
        for (int i = 0; i < argc; i++) {
                char name[64];
                snprintf(name, sizeof(name), "%.*s", (int)strcspn(argv[i], "="), argv[i]);
                const char *nearest = strncmp(name, "--", 2) == 0 && strstr(err->text, name)
                                              ? settings_nearest(&s->config->as, name)
                                              : NULL;
                if (nearest && strcmp(nearest, name) != 0) {
                        error_set(err, EINVAL, "unknown option %s: did you mean %s?", name,
                                  nearest);
                        return;
                }
        }
}

/* ---- the config files ---- */

static int seal(const char *name, const struct json_tree *tree, int *ret, struct error *err)
{
        char *text = NULL;
        size_t n = 0;

        if (json_tree_write(tree, &text, &n) < 0)
                return error_errno(err, ENOMEM, "%s", name);
        int fd = monitor_command_fd(fd_sealed(name, text, n, err), err);
        explicit_bzero(text, n);
        free(text);
        *ret = fd;
        return fd < 0 ? fd : 0;
}

/* --network HOST[,HOST]: {"network": {"allow": […]}}. */
static int put_network(const struct options *o, struct json_tree *settings, struct error *err)
{
        _cleanup_buffer_ struct buffer hosts = BUFFER_INIT(HOSTS_TEXT_MAX);
        struct json_out out = {.to = &hosts};

        if (strlen(o->network) > NETWORK_MAX)
                return error_set(err, EINVAL, "--network: too long");
        json_out_begin(&out, NULL, '[');
        for (const char *p = o->network; *p;) {
                size_t n = strcspn(p, ",");
                if (n == 0)
                        return error_set(err, EINVAL,
                                         "--network %s: hosts separated by commas are needed",
                                         o->network);
                json_out_string(&out, NULL, p, n);
                p += n + (p[n] == ',');
        }
        json_out_end(&out, ']');
        int r = out.error;
        if (r >= 0)
                r = json_tree_put(settings, "/network/allow", buffer_bytes(&hosts), hosts.length);
        return r < 0 ? error_errno(err, -r, "--network") : 0;
}

/* --also run_python, beside the tools of the table. */
static int put_also(const struct options *o, const struct system *s, struct json_tree *settings,
                    struct error *err)
{
        if (strcmp(o->also, "run_python") != 0)
                return error_set(err, EINVAL,
                                 "--also %s: run_python is the only tool that can be added",
                                 o->also);
        for (size_t i = 0; i < s->config->n_published; i++)
                if (s->config->published[i].kind == PUBLISHED_TOOL &&
                    strcmp(s->config->published[i].name, o->also) == 0)
                        return error_set(err, EINVAL,
                                         "--also run_python: %s has a tool of this name",
                                         s->config->as.name);
        return json_tree_put(settings, "/as/also", "true", strlen("true")) < 0
                       ? error_errno(err, ENOMEM, "--also")
                       : 0;
}

/* An option of Cloister's that the system's setting gives, unless it was given itself. */
static int set_cloister(struct options *o, const char *name, const char *value, struct error *err)
{
        for (size_t i = 0; i < OPTION_IDS; i++) {
                const struct option *option = &option_rows[i];
                if (!option->name || strcmp(option->name, name) != 0)
                        continue;
                if (option->is_user && o->given[i])
                        return 0;
                return option_set(option, value, o) < 0
                               ? error_set(err, EINVAL, "%s %.100s: %s is needed", name, value,
                                           option->text ? option->text : "another value")
                               : 0;
        }
        return error_set(err, EINVAL, "%s: no such option", name);
}

/* Variables are passed on to code: then only their owner may reach the server. */
static bool passes_variables(const struct config_as *as, const struct settings_given *given)
{
        for (size_t i = 0; i < as->n_settings; i++) {
                const struct config_setting *row = &as->settings[i];
                for (size_t j = 0; j < as->n_settings; j++) {
                        const struct config_setting *s = &as->settings[j];
                        if (row->type != SETTING_VARIABLES || row->same_as ||
                            (s != row && !(s->same_as && strcmp(s->same_as, row->name) == 0)))
                                continue;
                        const char *value = s->name[0] == '-' ? NULL : given->variable(s->name);
                        if (value && *value)
                                return true;
                        for (size_t k = 0; k < given->n; k++)
                                if (strcmp(given->names[k], s->name) == 0)
                                        return true;
                }
        }
        return false;
}

/* ---- what the machine has ---- */

/* The table has languages that need an image, or another runtime for a value of a setting. */
static bool depends_on_machine(const struct config *table)
{
        for (size_t i = 0; i < table->n_profiles; i++)
                if (table->profiles[i].program.language)
                        return true;
        for (size_t i = 0; i < table->as.n_settings; i++)
                if (table->as.settings[i].merge)
                        return true;
        return false;
}

/* The whole config, as the server reads it afterwards. That reports what is wrong in it. */
static int read_served(const struct system *s, const struct options *o, struct config *config)
{
        const struct config_layers layers = {
                .table_fd = o->table_fd, .settings_fd = o->settings_fd, .table = s->path};
        struct config_findings findings = {};
        struct config_files *files = NULL;
        struct error ignored = {};

        config->findings = &findings;
        int r = config_files_open_layers(o->configs, o->n_configs, &layers, geteuid() == 0, NULL,
                                         config, &files, &ignored);
        if (r >= 0)
                r = config_finish(config, &ignored);
        config_files_free(files);
        config->findings = NULL;
        config_findings_done(&findings);
        return r;
}

/* Adds to the settings what they make of this machine. */
static int add_machine(const struct system *s, struct options *o, struct json_tree *settings,
                       int *status, struct error *err)
{
        struct config *config = config_new();
        int r = config ? 0 : error_errno(err, ENOMEM, "config");

        if (r >= 0 && read_served(s, o, config) >= 0) {
                *status = 1;
                r = languages_put(config, settings, err);
                if (r >= 0)
                        r = pyodide_put(config, settings, err);
        }
        config_free(config);
        if (r < 0)
                return r;
        *status = EXIT_CLOISTER;
        close(o->settings_fd);
        return seal("cloister-settings", settings, &o->settings_fd, err);
}

static int apply_table(struct system *s, struct options *o, int *status, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct settings_result result = {};
        struct json_tree *table = NULL;

        *status = EXIT_CLOISTER;
        int r = json_parse_config(s->data, s->n, &doc, err);
        if (r < 0)
                return r;
        table = json_tree_new(yyjson_doc_get_root(doc));
        r = table ? settings_apply(&s->config->as, &s->given, table, &result, status, err)
                  : error_errno(err, ENOMEM, "%s", s->path);
        if (r >= 0)
                r = table_file_check_merged(s->path, &s->config->as, table, err);
        for (size_t i = 0; i < result.n_cloister && r >= 0; i++) {
                r = set_cloister(o, result.cloister[i].name, take_ptr(result.cloister[i].value),
                                 err);
                if (r < 0)
                        *status = 1;
        }
        if (r >= 0) {
                *status = 2;
                r = o->also ? put_also(o, s, result.settings, err) : 0;
        }
        if (r >= 0)
                r = o->network ? put_network(o, result.settings, err) : 0;
        if (r >= 0) {
                *status = EXIT_CLOISTER;
                r = seal("cloister-table", table, &o->table_fd, err);
        }
        if (r >= 0)
                r = seal("cloister-settings", result.settings, &o->settings_fd, err);
        if (r >= 0 && depends_on_machine(s->config))
                r = add_machine(s, o, result.settings, status, err);
        json_tree_free(table);
        settings_done(&result);
        return r;
}

static int apply_network(struct options *o, struct error *err)
{
        struct json_tree *settings = json_tree_new(NULL);

        int r = settings ? put_network(o, settings, err) : error_errno(err, ENOMEM, "--network");
        if (r >= 0)
                r = seal("cloister-settings", settings, &o->settings_fd, err);
        json_tree_free(settings);
        return r;
}

int as_options_parse(int argc, char **argv, struct options *ret, int *status, struct error *err)
{
        static struct system s;
        const char *name = find_name(argc, argv);

        *status = 2;
        if (!name) {
                int r = cli_options_parse(argc, argv, ret, err);
                return r >= 0 && ret->network ? apply_network(ret, err) : r;
        }
        s.given.variable = variable;
        s.given.home = path_home();
        int r = read_table(&s, name, status, err);
        if (r < 0)
                return r;
        *status = 2;
        char **rest = calloc((size_t)argc + 1, sizeof(*rest));
        int n = rest ? take_options(&s, argc, argv, rest, err) : error_errno(err, ENOMEM, "--as");
        if (n < 0)
                return n;
        r = cli_options_parse(n, rest, ret, err);
        if (r < 0) {
                suggest(&s, n, rest, err);
                return r;
        }
        ret->private_variables = passes_variables(&s.config->as, &s.given);
        ret->as = s.path;
        ret->table_options = table_file_options(&s.given);
        if (!ret->table_options)
                return error_errno(err, ENOMEM, "--as");
        return apply_table(&s, ret, status, err);
}
