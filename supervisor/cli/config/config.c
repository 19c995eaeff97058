/* cloister config path, check, show, schema. */
#include "supervisor/cli/config/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mask.h"
#include "base/path.h"
#include "base/plural.h"
#include "base/printable.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/config/keys.h"
#include "policy/config/network-keys.h"
#include "policy/config/publish.h"
#include "policy/config/rule-test-keys.h"
#include "policy/image.h"
#include "supervisor/cli/command/url-reader.h"
#include "supervisor/cli/config/python-check.h"
#include "supervisor/cli/config/secrets.h"
#include "supervisor/cli/images/images.h"
#include "supervisor/config/config-files.h"
#include "supervisor/config/packages-check.h"

enum { CONFIG_OUTPUT_MAX = 64 * 1024 * 1024 };

/* A config that is only inspected, with all its problems. */
struct checked_config {
        struct config *config;
        struct config_files *files; /* NULL when they could not be opened */
        struct config_findings findings;
        struct python_check pythons;
};

static int checked_config_open(struct checked_config *checked, const struct options *o,
                               struct error *err)
{
        struct error why = {};

        *checked = (struct checked_config){.config = config_new()};
        if (!checked->config)
                return error_errno(err, ENOMEM, "config");
        checked->config->findings = &checked->findings;
        const struct config_layers layers = {.table_fd = o->table_fd,
                                             .settings_fd = o->settings_fd,
                                             .table = o->as,
                                             .servers = o->servers_from};
        if (config_files_open_layers(o->configs, o->n_configs, &layers, geteuid() == 0, NULL,
                                     checked->config, &checked->files, &why) < 0)
                config_report(checked->config, true, why.text);
        if (config_finish(checked->config, &why) < 0 ||
            config_check_rule_tests(checked->config, url_reader, &why) < 0)
                config_report(checked->config, true, why.text);
        return 0;
}

static void checked_config_done(struct checked_config *checked)
{
        python_check_done(&checked->pythons);
        config_files_free(checked->files);
        config_findings_done(&checked->findings);
        config_free(checked->config);
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
                status = cli_print_json(out, "config");
        }
        checked_config_done(&checked);
        return status;
}

/* ---- check: what the config names and this machine lacks ---- */

enum { TEXT_MAX = 1024, DEPTH_MAX = 12, FOLDERS_MAX = 4096 };

static void warn(struct config *config, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
static void warn(struct config *config, const char *format, ...)
{
        char text[TEXT_MAX];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        config_report(config, false, text);
}

/* Modules are searched by name, because code of an image runs in sandboxes only. */

/* Modules that have no file in some builds of CPython. Names with an underscore are not listed. */
static const char *const built_in[] = {
        "array",  "atexit",  "binascii",    "builtins",  "cmath",    "errno",  "faulthandler",
        "fcntl",  "gc",      "grp",         "itertools", "marshal",  "math",   "mmap",
        "posix",  "pwd",     "pyexpat",     "readline",  "resource", "select", "sys",
        "syslog", "termios", "unicodedata", "time",      "zlib",
};

struct search {
        const char *name; /* the first part of the module's name */
        size_t length;
        size_t folders; /* that were read */
        bool found;
        bool unsure; /* a .pth file names further folders, or not all was read */
};

/* Folders that sys.path names; packages in them are not searched. */
static bool is_place(const char *name)
{
        return strncmp(name, "python", 6) == 0 || strcmp(name, "lib-dynload") == 0 ||
               strcmp(name, "site-packages") == 0 || strcmp(name, "dist-packages") == 0;
}

static void look_at(struct search *s, const char *name)
{
        size_t n = strlen(name);

        if (strncmp(name, s->name, s->length) == 0 &&
            (name[s->length] == '\0' || name[s->length] == '.'))
                s->found = true;
        if (n > 4 && (strcmp(name + n - 4, ".pth") == 0 || strcmp(name + n - 4, ".zip") == 0 ||
                      strcmp(name + n - 4, ".egg") == 0))
                s->unsure = true;
}

/* Takes ownership of fd. Links are not followed. */
static void search_folder(struct search *s, int fd, bool is_searched, int depth)
{
        DIR *folder = fdopendir(fd);
        struct dirent *entry;

        if (!folder) {
                close(fd);
                return;
        }
        s->folders++;
        while (!s->found && (entry = readdir(folder))) {
                const char *name = entry->d_name;
                bool place = is_place(name);
                if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                        continue;
                if (is_searched)
                        look_at(s, name);
                if ((is_searched && !place) || depth == DEPTH_MAX || s->folders == FOLDERS_MAX)
                        continue;
                int below = openat(dirfd(folder), name,
                                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
                if (below >= 0)
                        search_folder(s, below, place, depth + 1);
        }
        closedir(folder);
}

static bool is_built_in(const char *name, size_t length)
{
        for (size_t i = 0; i < ARRAY_SIZE(built_in); i++)
                if (strlen(built_in[i]) == length && memcmp(built_in[i], name, length) == 0)
                        return true;
        return name[0] == '_';
}

/* Opens the root of the image, or of the one that was made of the profile's interpreter. */
static int open_image(int store, const char *image, const char *python)
{
        _cleanup_free_ char *data = NULL;
        char path[IMAGE_NAME_SIZE + 16];
        struct image_info info;
        size_t length;

        snprintf(path, sizeof(path), "%s/image.json", image);
        _cleanup_close_ int fd = openat(store, path,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fd_read_whole(fd, IMAGE_JSON_MAX, &data, &length, NULL) < 0 ||
            image_info_parse(data, length, &info, NULL) < 0 ||
            (python && strcmp(info.source, python) != 0))
                return -1;
        snprintf(path, sizeof(path), "%s/root", image);
        return openat(store, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_default_image(int store, const char *python)
{
        const char *source = python ? python : IMAGE_PYTHON_DEFAULT;
        DIR *folder = fd_open_directory(store, ".");
        struct dirent *entry;
        int root = -1;

        while (folder && root < 0 && (entry = readdir(folder)))
                if (strncmp(entry->d_name, "default-", 8) == 0 &&
                    strlen(entry->d_name) < IMAGE_NAME_SIZE)
                        root = open_image(store, entry->d_name, source);
        if (folder)
                closedir(folder);
        return root;
}

/* Reports as warnings the modules of "preload" that the image lacks. store: the image store, or -1. */
static void check_preload(struct config *config, const struct config_profile *profile,
                          const struct python_check *pythons, int store)
{
        if (!profile->preload || store < 0)
                return;
        _cleanup_close_ int root = profile->image
                                           ? open_image(store, profile->image, NULL)
                                           : open_default_image(
                                                     store,
                                                     python_check_path(pythons, profile->python));
        for (size_t i = 0; root >= 0 && profile->preload[i]; i++) {
                const char *name = profile->preload[i];
                struct search s = {.name = name, .length = strcspn(name, ".")};
                int again = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (again >= 0)
                        search_folder(&s, again, false, 0);
                if (s.found || s.unsure || s.folders == FOLDERS_MAX || is_built_in(name, s.length))
                        continue;
                warn(config, "profile \"%s\": preload: the image has no module \"%.*s\"",
                     profile->name, (int)s.length, name);
        }
}

static bool is_program(const char *command, const char *cwd)
{
        char file[PATH_MAX];

        if (!strchr(command, '/'))
                return packages_check_path(command);
        if (command[0] == '/' || !cwd)
                return access(command, X_OK) == 0;
        snprintf(file, sizeof(file), "%s/%s", cwd, command);
        return access(file, X_OK) == 0;
}

static void check_server(struct config *config, const struct config_server *s)
{
        size_t word = s->command ? strcspn(s->command, " ") : 0;

        if (s->disabled || s->problem || !s->command)
                return;
        if (s->cwd && access(s->cwd, X_OK) < 0)
                warn(config, "%s: server \"%s\": its cwd %s: %s", s->place, s->name, s->cwd,
                     strerror(errno));
        else if (is_program(s->command, s->cwd))
                return;
        else if (s->command[word])
                warn(config,
                     "%s: server \"%s\": there is no program \"%s\": \"command\" is the program alone (%.*s), \"args\" has the rest",
                     s->place, s->name, s->command, (int)word, s->command);
        else
                warn(config, "%s: server \"%s\": there is no program %s%s", s->place, s->name,
                     s->command, strchr(s->command, '/') ? "" : " in PATH");
}

static void check_mount(struct config *config, const struct config_profile *profile,
                        const struct config_mount *mount)
{
        const char *home = path_home();
        char path[PATH_MAX];
        struct stat st;

        snprintf(path, sizeof(path), "%s%s", mount->source[0] == '~' && home ? home : "",
                 mount->source + (mount->source[0] == '~'));
        int r = stat(path, &st);
        if (r == 0 && S_ISDIR(st.st_mode))
                return;
        warn(config, "profile \"%s\": mount %s: %s", profile->name, mount->source,
             r < 0 ? strerror(errno) : "is no directory");
}

/* An image is made at the first use, unless it has a name. */
static void check_image(struct config *config, const struct config_profile *profile,
                        const struct python_check *pythons, int store)
{
        char file[PATH_MAX];

        if (profile->image) {
                snprintf(file, sizeof(file), "%s/image.json", profile->image);
                if (store >= 0 && faccessat(store, file, F_OK, 0) == 0)
                        return;
                warn(config,
                     "profile \"%s\": there is no image '%s' (make it with 'cloister image build --name %s')",
                     profile->name, profile->image, profile->image);
        } else if (profile->python) {
                struct error error = {};
                const char *why = python_check_problem(pythons, profile, store, &error);
                if (why)
                        warn(config, "profile \"%s\": %s", profile->name, why);
        }
}

static void check_packages(struct config *config, const struct config_profile *profile, int store)
{
        const char *why = packages_check(config, profile, store);

        if (why)
                warn(config, "profile \"%s\": packages: %s", profile->name, why);
}

/* Root gives its own store to the config's user at the first use. */
static void check_store(struct config *config, int store, const char *path)
{
        uid_t uid = packages_check_uid(config);
        struct owner_difference other;
        struct error error = {};
        struct stat st;

        if (store < 0 || geteuid() != 0 || fstat(store, &st) < 0 || (st.st_uid == 0 && uid != 0))
                return;
        if (image_store_owned(path, owner_compare(store, uid, &other), &other, &error) < 0)
                config_report(config, false, error.text);
}

/* Reports programs, interpreters, images, directories and users that do not exist. */
static void config_check_present(const struct options *o, struct config *config,
                                 struct python_check *pythons)
{
        char path[PATH_MAX];
        _cleanup_close_ int store = images_open(o, path, NULL);

        check_store(config, store, path);
        python_check_init(pythons, config);
        for (size_t i = 0; i < config->n_servers; i++)
                check_server(config, &config->servers[i]);
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *profile = &config->profiles[i];
                check_image(config, profile, pythons, store);
                check_packages(config, profile, store);
                check_preload(config, profile, pythons, store);
                for (size_t j = 0; j < profile->n_mounts; j++)
                        check_mount(config, profile, &profile->mounts[j]);
        }
        if (config->user && geteuid() == 0 && !getpwnam(config->user) &&
            packages_check_uid(config) == 0)
                warn(config, "user \"%s\": there is no such user", config->user);
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
        python_check_put(&checked->pythons, out);
        json_out_end(out, '}');
}

static void print_findings(const struct checked_config *checked)
{
        size_t n = checked->files ? config_files_count(checked->files) : 0;
        size_t n_errors = checked->findings.n_errors, n_warnings = checked->findings.n - n_errors;

        for (size_t i = 0; i < checked->findings.n; i++) {
                fputs(checked->findings.items[i].is_error ? "error: " : "warning: ", stdout);
                /* Names and texts come from the file: escapes control characters. */
                printable_print(stdout, checked->findings.items[i].text);
                putchar('\n');
        }
        python_check_print(&checked->pythons);
        if (checked->files && n == 0)
                puts("no config file is there ('cloister config path' says where it would be)");
        else
                printf("%zu file%s, %zu server%s: %zu error%s, %zu warning%s\n", n, plural(n),
                       checked->config->n_servers, plural(checked->config->n_servers), n_errors,
                       plural(n_errors), n_warnings, plural(n_warnings));
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
                config_check_present(o, checked.config, &checked.pythons);
        int status = checked.findings.n_errors > 0 || (o->strict && checked.findings.n > 0);
        if (o->json) {
                put_findings(&out, &checked);
                status |= cli_print_json(&out, "config");
        } else {
                print_findings(&checked);
        }
        checked_config_done(&checked);
        return status;
}

/* ---- show: in the format of a config file, the rows of keys.def in order ---- */

static const char masked[] = "***";

static char *masked_url(const char *url)
{
        unsigned keep, rest;
        char *ret = NULL;

        if (!secret_in_url(url, &keep, &rest))
                return strdup(url);
        return asprintf(&ret, "%.*s%s%s", (int)keep, url, masked, url + strlen(url) - rest) < 0
                       ? NULL
                       : ret;
}

static char *masked_argument(const char *after, const char *argument)
{
        unsigned keep;
        char *ret = NULL;

        if (secret_in_argument(after, argument, &keep))
                return asprintf(&ret, "%.*s%s", (int)keep, argument, masked) < 0 ? NULL : ret;
        ret = masked_url(argument);
        if (ret)
                mask_text(ret);
        return ret;
}

static void put_text(struct json_out *out, const char *name, const char *text)
{
        if (text)
                json_out_text(out, name, text);
}

static void put_list(struct json_out *out, const char *name, char *const *list, bool arguments)
{
        json_out_begin(out, name, '[');
        for (size_t i = 0; list[i]; i++) {
                _cleanup_free_ char *text = arguments ? masked_argument(i ? list[i - 1] : NULL,
                                                                        list[i])
                                                      : NULL;
                json_out_text(out, NULL, text ? text : arguments ? masked : list[i]);
        }
        json_out_end(out, ']');
}

/* "NAME=value" of env, "NAME: value" of headers. */
/* Of the texts of rules the part that the user wrote (policy/rules/rules.h). */
static void put_rules(struct json_out *out, const char *name, const char *part, char *const *texts)
{
        json_out_begin(out, name, '[');
        for (; *texts; texts++) {
                _cleanup_json_ yyjson_doc *doc = NULL;
                if (json_parse(*texts, strlen(*texts), &doc, NULL) >= 0)
                        json_out_value(out, NULL, yyjson_obj_get(yyjson_doc_get_root(doc), part));
        }
        json_out_end(out, ']');
}

static void put_pairs(struct json_out *out, const char *name, char *const *list, char separator)
{
        json_out_begin(out, name, '{');
        for (; *list; list++) {
                size_t n = strcspn(*list, (const char[]){separator, '\0'});
                const char *value = *list + n + (separator == ':' ? 2 : 1);
                json_out_key(out, *list, n);
                json_out_text(out, NULL,
                              *value == '\0' || secret_is_reference(value) ? value : masked);
        }
        json_out_end(out, '}');
}

static void put_members(struct json_out *out, enum config_place place, const void *in);

static bool has_value(const struct config_key *key, const void *in)
{
        const void *member = config_member(key, in);

        if (!key->name || key->kind == CONFIG_NOTHING)
                return false;
        if (config_is_number(key))
                return key->flags & CONFIG_ALWAYS || config_number(key, in) != key->initial;
        if (key->code == CODE_OAUTH)
                return ((const struct config_oauth *)member)->is_set;
        if (key->kind != CONFIG_OBJECT || key->flags & CONFIG_ALWAYS)
                return key->flags & CONFIG_ALWAYS || *(void *const *)member;
        for (const struct config_key *inner = NULL; (inner = config_next_key(key->inside, inner));)
                if (has_value(inner, member))
                        return true;
        return false;
}

static void put_array(struct json_out *out, const struct config_key *key, const void *in)
{
        const char *items = *(char *const *)config_member(key, in);
        size_t n = ((const size_t *)config_member(key, in))[1];

        json_out_begin(out, key->name, '[');
        for (size_t i = 0; i < n; i++) {
                json_out_begin(out, NULL, '{');
                put_members(out, key->inside, items + i * config_place_size(key->inside));
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}

/* The options, or the variables, of a table. */
static void put_settings(struct json_out *out, const struct config_as *as, bool options)
{
        json_out_begin(out, options ? "options" : "environment", '{');
        for (size_t i = 0; i < as->n_settings; i++) {
                const struct config_setting *s = &as->settings[i];
                if ((s->name[0] == '-') != options)
                        continue;
                json_out_key(out, s->name, strlen(s->name));
                if (s->same_as) {
                        json_out_text(out, NULL, s->same_as);
                        continue;
                }
                json_out_begin(out, NULL, '{');
                put_members(out, CONFIG_SETTING, s);
                json_out_end(out, '}');
        }
        json_out_end(out, '}');
}

static void put_hosts(struct json_out *out, const char *name, const struct config_egress *egress)
{
        json_out_begin(out, name, '[');
        for (char *const *host = egress->allow; *host; host++) {
                if (!config_inspects(egress, *host)) {
                        json_out_text(out, NULL, *host);
                        continue;
                }
                json_out_begin(out, NULL, '{');
                json_out_text(out, "host", *host);
                json_out_bool(out, "inspect", true);
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}

static void put_secret_arguments(struct json_out *out, const struct config_secret *secret)
{
        json_out_begin(out, "arguments", '{');
        for (size_t i = 0; i < secret->n_arguments; i++)
                put_list(out, secret->arguments[i].tool, secret->arguments[i].pointers, false);
        json_out_end(out, '}');
}

static void put_secrets(struct json_out *out, const struct config_profile *profile)
{
        json_out_begin(out, "secrets", '{');
        for (size_t i = 0; i < profile->n_secrets; i++) {
                json_out_begin(out, profile->secrets[i].name, '{');
                put_members(out, CONFIG_SECRETS, &profile->secrets[i]);
                json_out_end(out, '}');
        }
        json_out_end(out, '}');
}

static void put_key(struct json_out *out, const struct config_key *key, const void *in)
{
        const void *member = config_member(key, in);
        const struct config_profile *profile = in;

        if (key->code == CODE_NETWORK && profile->network != CONFIG_NETWORK_ALLOW) {
                json_out_text(out, key->name,
                              profile->network == CONFIG_NETWORK_LOOPBACK ? "loopback" : "none");
        } else if (config_is_number(key)) {
                config_put_number(out, key->name, key, config_number(key, in));
        } else if (key->code == CODE_SETTINGS) {
                put_settings(out, in, true);
                put_settings(out, in, false);
        } else if (key->code == CODE_KEEP_JSON || key->code == CODE_LABELS) {
                const char *json = *(char *const *)member;
                json_out_raw(out, key->name, json, strlen(json));
        } else if (config_is_text(key)) {
                const char *text = *(char *const *)member;
                _cleanup_free_ char *url = key->flags & CONFIG_URL ? masked_url(text) : NULL;
                json_out_text(out, key->name, url ? url : key->flags & CONFIG_URL ? masked : text);
        } else if (key->code == CODE_ENV || key->code == CODE_RUN_ENV ||
                   key->code == CODE_HEADERS) {
                put_pairs(out, key->name, *(char **const *)member,
                          key->code == CODE_HEADERS ? ':' : '=');
        } else if (key->code == CODE_CALL_RULES) {
                put_rules(out, key->name, "rule", *(char **const *)member);
        } else if (key->code == CODE_RULE_TESTS) {
                put_rules(out, key->name, "test", *(char **const *)member);
        } else if (key->code == CODE_HOSTS) {
                put_hosts(out, key->name, &profile->egress);
        } else if (key->code == CODE_SECRETS) {
                put_secrets(out, in);
        } else if (key->code == CODE_SECRET_ARGUMENTS) {
                put_secret_arguments(out, in);
        } else if (key->kind == CONFIG_LIST) {
                put_list(out, key->name, *(char **const *)member,
                         key->place == CONFIG_SERVER || key->place == CONFIG_TOKEN ||
                                 key->place == CONFIG_SECRET_FROM);
        } else if (key->kind == CONFIG_ARRAY) {
                put_array(out, key, in);
        } else {
                json_out_begin(out, key->name, '{');
                put_members(out, key->inside, member);
                json_out_end(out, '}');
        }
}

static void put_members(struct json_out *out, enum config_place place, const void *in)
{
        for (const struct config_key *key = NULL; (key = config_next_key(place, key));)
                if (key->place == place && has_value(key, in))
                        put_key(out, key, in);
}

static void put_server(struct json_out *out, const struct config_server *s, bool places)
{
        json_out_key(out, s->name, strlen(s->name));
        json_out_begin(out, NULL, '{');
        put_members(out, CONFIG_SERVER, s);
        put_text(out, "type", s->transport == CONFIG_SSE ? "sse" : NULL);
        put_text(out, "place", places ? s->place : NULL);
        put_text(out, "problem", places ? s->problem : NULL);
        json_out_end(out, '}');
}

/* A second server of the same name is not used, and an object must not repeat a key. */
static bool is_second(const struct config *config, size_t i)
{
        for (size_t k = 0; k < i; k++)
                if (strcmp(config->servers[k].name, config->servers[i].name) == 0)
                        return true;
        return false;
}

static void put_servers(struct json_out *out, const struct config *config, bool places)
{
        for (size_t i = 0; i < config->n_servers; i++)
                if (!is_second(config, i))
                        put_server(out, &config->servers[i], places);
}

static void put_profiles(struct json_out *out, const struct config *config)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                json_out_begin(out, config->profiles[i].name, '{');
                put_members(out, CONFIG_PROFILE, &config->profiles[i]);
                json_out_end(out, '}');
        }
}

static void put_clients(struct json_out *out, const struct config *config)
{
        for (size_t i = 0; i < config->n_clients; i++) {
                const struct config_client *client = &config->clients[i];
                json_out_key(out, client->name, strlen(client->name));
                json_out_text(out, NULL, config->profiles[client->profile].name);
        }
}

/* The part of an entry that clients see is JSON; the rest is in members. */
static void put_entry(struct json_out *out, const struct config_published *p)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error ignored = {};

        if (json_parse(p->entry, strlen(p->entry), &doc, &ignored) < 0)
                json_out_fail(out, -ENOMEM);
        json_out_key(out, p->name, strlen(p->name));
        json_out_begin(out, NULL, '{');
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_PUBLISHED, key));) {
                yyjson_val *value = key->flags & CONFIG_LISTED
                                            ? yyjson_obj_get(yyjson_doc_get_root(doc), key->name)
                                            : NULL;
                bool own = !key->published || key->published & 1u << p->kind;
                if (key->flags & CONFIG_LISTED && value && own)
                        json_out_value(out, key->name, value);
                else if (key->code == CODE_COMPLETE && p->completes)
                        json_out_bool(out, key->name, true);
                else if (key->code == CODE_COMPLETE && p->completions)
                        json_out_raw(out, key->name, p->completions, strlen(p->completions));
                else if (key->code == CODE_RESULT && p->result)
                        json_out_raw(out, key->name, p->result, strlen(p->result));
                else if (!(key->flags & CONFIG_LISTED) && key->code != CODE_COMPLETE &&
                         key->code != CODE_RESULT && has_value(key, p) &&
                         !(key->code == CODE_OF_ENTRY && p->file))
                        put_key(out, key, p);
        }
        json_out_end(out, '}');
}

static void put_published(struct json_out *out, const struct config *config)
{
        for (unsigned kind = 0; kind < PUBLISHED_KINDS; kind++) {
                json_out_begin(out, config_published_plural((enum config_published_kind)kind), '{');
                for (size_t i = 0; i < config->n_published; i++)
                        if (config->published[i].kind == kind)
                                put_entry(out, &config->published[i]);
                json_out_end(out, '}');
        }
}

static void put_by_code(struct json_out *out, const struct config_key *key,
                        const struct config *config, bool places)
{
        if (key->code == CODE_PROFILE) {
                json_out_text(out, key->name, config->profiles[config->profile].name);
        } else if (key->code == CODE_ID_RANGE && config->id_count > 0) {
                json_out_begin(out, key->name, '[');
                json_out_int(out, NULL, config->id_first);
                json_out_int(out, NULL, config->id_count);
                json_out_end(out, ']');
        } else if (key->code == CODE_SERVERS || key->code == CODE_PROFILES ||
                   key->code == CODE_CLIENTS || key->code == CODE_PUBLISH) {
                json_out_begin(out, key->name, '{');
                if (key->code == CODE_SERVERS)
                        put_servers(out, config, places);
                else if (key->code == CODE_PROFILES)
                        put_profiles(out, config);
                else if (key->code == CODE_CLIENTS)
                        put_clients(out, config);
                else
                        put_published(out, config);
                json_out_end(out, '}');
        }
}

/* Writes the whole config, with secrets masked. places: adds file, line and problem of each server. */
static void config_show(struct json_out *out, const struct config *config, bool places)
{
        json_out_begin(out, NULL, '{');
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_TOP, key));) {
                if (key->place != CONFIG_TOP || !key->name)
                        continue;
                if (key->kind == CONFIG_NOTHING)
                        put_by_code(out, key, config, places);
                else if (has_value(key, config))
                        put_key(out, key, config);
        }
        json_out_end(out, '}');
}

int cli_config_show(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(CONFIG_OUTPUT_MAX);
        struct json_out out = {.to = &text, .indent = !o->json};
        struct checked_config checked;
        struct error err = {};
        int status = 1;

        if (checked_config_open(&checked, o, &err) < 0)
                return cli_fail(1, &err);
        for (size_t i = 0; i < checked.findings.n; i++)
                if (checked.findings.items[i].is_error)
                        cli_fail_text(1, "%s", checked.findings.items[i].text);
        if (checked.findings.n_errors == 0) {
                config_show(&out, checked.config, o->json);
                status = cli_print_json(&out, "config");
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
        return cli_print_json(&out, "config");
}
