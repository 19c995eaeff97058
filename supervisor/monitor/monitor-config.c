/*
 * The monitor's config, which is read at the start and again when a file changes.
 *
 * An invalid config changes nothing: the previous one stays in use, and one log line says what is
 * wrong. A valid one is the next generation. Sessions and servers of earlier generations live on. A
 * request of an earlier generation is refused with ESTALE; the broker, which has received the new
 * config before that answer, repeats it.
 */
#include "supervisor/monitor/monitor-config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/plural.h"
#include "policy/config/add.h"
#include "policy/config/keys.h"
#include "policy/config/rule-test-keys.h"
#include "policy/config/secret-keys.h"
#include "supervisor/config/table-file.h"
#include "supervisor/monitor/monitor-limits.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-secrets.h"
#include "supervisor/monitor/monitor-sessions.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-sums.h"

DEFINE_CLEANUP(struct config *, config_free)

static bool has_setuid(void)
{
        cap_flag_value_t value = CAP_CLEAR;
        cap_t caps = cap_get_proc();

        if (caps)
                cap_get_flag(caps, CAP_SETUID, CAP_EFFECTIVE, &value);
        cap_free(caps);
        return value == CAP_SET;
}

/* `cloister run --env`, whose values are not here. */
static int check_variables(const struct options *o, const struct config *config, struct error *err)
{
        for (const char *name = o->variables; name && *name;) {
                size_t n = strcspn(name, ",");
                const struct config_secret *s = config_secret_of_variable(config, name, n);
                if (s)
                        return error_set(
                                err, EPERM,
                                "--env %.*s: this variable is the source of the secret %s, and code must not have it: leave the option out",
                                (int)n, name, s->name);
                name += n + (name[n] == ',');
        }
        return 0;
}

static int read_config(const struct monitor *m, struct config **ret_config,
                       struct config_files **ret_files, struct error *err)
{
        _cleanup_(cleanup_config_free) struct config *config = config_new();
        struct config_files *files = NULL;

        if (!config)
                return error_errno(err, ENOMEM, "config");
        const struct config_layers layers = {.table_fd = m->table_fd,
                                             .settings_fd = m->options->settings_fd,
                                             .table = m->options->as,
                                             .servers = m->options->servers_from};
        int r = config_files_open_layers(m->options->configs, m->options->n_configs, &layers,
                                         geteuid() == 0 || has_setuid(), m->files, config, &files,
                                         err);
        if (r >= 0)
                r = config_finish(config, err);
        if (r >= 0)
                r = check_variables(m->options, config, err);
        /* Entries that need a parser of URLs are run by the broker at the start, and by a child of the monitor at a reload. */
        if (r >= 0)
                r = config_check_rule_tests(config, NULL, err);
        if (r >= 0 && m->options->language)
                config_set_language(config, m->options->profile,
                                    (enum language)language_parse(m->options->language));
        if (r >= 0 && m->options->mounts_text)
                r = config_add_mounts(config, m->options->profile, "--mount",
                                      m->options->mounts_text, err);
        if (r < 0) {
                config_files_free(files);
                return r;
        }
        *ret_config = take_ptr(config);
        *ret_files = files;
        return 0;
}

static void warn(const struct config *config)
{
        for (size_t i = 0; i < config->n_warnings; i++)
                log_warning("%s", config->warnings[i]);
        for (size_t i = 0; i < config->n_servers; i++) {
                const struct config_server *s = &config->servers[i];
                if (s->problem)
                        log_warning("%s: server \"%s\": %s", s->place, s->name, s->problem);
        }
}

static void take_log_level(const struct monitor *m)
{
        if (m->config->log_level >= 0 && m->options->log_level < 0)
                log_set_level((enum log_level)m->config->log_level);
}

int monitor_load_config(struct monitor *m, struct error *err)
{
        struct sysinfo machine;

        m->table_fd = m->options->table_fd;
        int r = read_config(m, &m->config, &m->files, err);
        if (r < 0)
                return r;
        m->generation = 1;
        take_log_level(m);
        warn(m->config);
        if (sysinfo(&machine) < 0)
                return error_errno(err, errno, "sysinfo");
        m->sessions_max = m->config->sessions_max;
        if (m->sessions_max == 0)
                m->sessions_max = limits_sessions_max((uint64_t)machine.totalram *
                                                      machine.mem_unit);
        return 0;
}

/* A lower number counts at once; places above that of the start have no ids. */
static uint32_t sessions_now(const struct monitor *m)
{
        uint32_t n = m->config->sessions_max;

        return n > 0 && n < m->sessions_max ? n : m->sessions_max;
}

void monitor_send_config(struct monitor *m)
{
        size_t n = config_files_count(m->files);
        struct monitor_event hello = {
                .kind = MONITOR_HELLO,
                .hello = {.generation = m->generation,
                          .config_files = (uint32_t)n,
                          .mode = m->ids.mode,
                          .log_level = (uint32_t)log_get_level(),
                          .usage = monitor_limits_usage(m),
                          .sessions_max = sessions_now(m),
                          .memory_max = profiles_early_limits(m->profiles)->memory,
                          .memory_total = monitor_sums_memory(m)},
        };

        monitor_send(m, &hello, NULL, 0);
        for (size_t i = 0; i < n; i++) {
                uint32_t code = (uint32_t)config_files_code(m->files, i);
                enum config_layer layer = config_files_layer(m->files, i);
                struct monitor_event event = {.kind = MONITOR_CONFIG_FILE, .target = code};
                int fd = config_files_fd(m->files, i);

                if (code == 0 && layer != CONFIG_LAYER_USER)
                        event.target = CONFIG_TARGET_LAYER + (uint32_t)layer;
                snprintf(event.path, sizeof(event.path), "%s", config_files_path(m->files, i));
                monitor_send(m, &event, &fd, 1);
        }
        monitor_send(m, &(struct monitor_event){.kind = MONITOR_READY}, NULL, 0);
}

/* They were used while there was privilege, or by processes that were made then. */
static void warn_of_fixed_settings(const struct config *now, const struct config *before,
                                   uint32_t most)
{
        char names[CONFIG_CHANGED_MAX];

        if (config_changed_at_restart(before, now, names) > 0)
                log_warning("config: changes of %s take effect at the next start", names);
        if (now->sessions_max > most && now->sessions_max != before->sessions_max)
                log_warning("config: until the next start, at most %u sessions are live", most);
}

/* The processes that have it are made at the start (supervisor/broker/network.h). */
static void warn_of_network(const struct monitor *m, const struct config *config)
{
        for (size_t i = 0; i < config->n_profiles && !m->has_network; i++) {
                if (config->profiles[i].network != CONFIG_NETWORK_ALLOW)
                        continue;
                log_warning(
                        "config: profile \"%s\" has a network, and Cloister was started without one: restart Cloister to use it",
                        config->profiles[i].name);
                return;
        }
}

static int take(struct monitor *m, struct config *config, struct config_files *files,
                struct error *err)
{
        struct config_files *before = m->files;

        m->files = files;
        int r = monitor_sessions_load(m, config, err);
        if (r < 0) {
                m->files = before;
                return r;
        }
        warn(config);
        warn_of_fixed_settings(config, m->config, m->sessions_max);
        warn_of_network(m, config);
        config_free(m->config);
        config_files_free(before);
        m->config = config;
        m->generation++;
        monitor_secrets_forget(m);
        struct error late = {};
        if (monitor_sums_set(m, &late) < 0)
                log_warning("%s: takes effect when sessions have ended, at the next reload",
                            late.text);
        take_log_level(m);
        log_info("config: reloaded, %zu file%s, %zu server%s", config_files_count(files),
                 plural(config_files_count(files)), config->n_servers, plural(config->n_servers));
        monitor_send_config(m);
        return 0;
}

/* A file that was changed, found invalid and is read once more is not refused twice. */
static void refuse(struct monitor *m, const struct error *err)
{
        const struct monitor_event event = {.kind = MONITOR_CONFIG_REFUSED, .error = *err};

        if (strcmp(err->text, m->config_error.text) != 0) {
                log_error("%s; the previous config stays in use", err->text);
                monitor_send(m, &event, NULL, 0);
        }
        m->config_error = *err;
}

/* Reads the table of --as again. Settings that options and variables wrote outside the table stay as they were at the start. */
static int read_table(struct monitor *m, struct error *err)
{
        if (m->options->table_fd < 0)
                return 0;
        int fd = table_file_again(m->options->as, m->options->table_options,
                                  geteuid() == 0 || has_setuid(), err);
        if (fd < 0)
                return error_context(err, "config");
        if (m->table_fd != m->options->table_fd)
                close(m->table_fd);
        m->table_fd = fd;
        return 0;
}

/* r: the files are used now, or, negative, the config is as it was before. */
static void end_reload(struct monitor *m, int r, const struct error *err)
{
        uint32_t serial = m->reload_serial;

        m->reload_serial = 0;
        if (r >= 0)
                m->config_error = (struct error){};
        if (serial == 0 && r < 0)
                refuse(m, err);
        if (serial == 0)
                return;
        if (r < 0) {
                monitor_send_failed(m, serial, err);
                return;
        }
        /* Also if the files are the same. */
        monitor_secrets_forget(m);
        monitor_send_done(m, serial);
}

/* Takes config and files, also on error. */
static int use(struct monitor *m, struct config *config, struct config_files *files,
               struct error *err)
{
        int r = take(m, config, files, err);

        if (r < 0) {
                config_files_free(files);
                config_free(config);
        } else if (m->config_watch) {
                config_watch_files(m->config_watch, m->files);
        }
        return r;
}

void monitor_drop_candidate(struct monitor *m)
{
        m->candidate.tests.task = child_task_cancel(m->candidate.tests.task);
        m->candidate.config = config_free(m->candidate.config);
        m->candidate.files = config_files_free(m->candidate.files);
}

static void on_tests_done(void *data, const struct error *error)
{
        struct monitor *m = data;
        struct error err = {};
        int r = 0;

        if (!error) {
                r = use(m, take_ptr(m->candidate.config), take_ptr(m->candidate.files), &err);
        } else {
                err = *error;
                r = -err.code;
                monitor_drop_candidate(m);
        }
        end_reload(m, r, &err);
}

/* Takes config and files, also on error. Returns 1 if the child has to answer first. */
static int judge(struct monitor *m, struct config *config, struct config_files *files,
                 struct error *err)
{
        if (!monitor_rule_tests_need_urls(config))
                return use(m, config, files, err);
        m->candidate.config = config;
        m->candidate.files = files;
        m->candidate.tests.done = on_tests_done;
        m->candidate.tests.data = m;
        int r = monitor_rule_tests_start(&m->candidate.tests, m->tasks, config, err);
        if (r < 0)
                monitor_drop_candidate(m);
        return r < 0 ? r : 1;
}

void monitor_reload_config(struct monitor *m, uint32_t serial)
{
        struct config *config = NULL;
        struct config_files *files = NULL;
        struct error err = {};

        /* The files may have changed since. A request that waits gets the answer about the files as they are now. */
        monitor_drop_candidate(m);
        if (serial != 0 && m->reload_serial != 0)
                end_reload(m, error_set(&err, ECANCELED, "config: another reload has begun"), &err);
        if (serial != 0)
                m->reload_serial = serial;
        err = (struct error){};
        int r = read_table(m, &err);
        if (r >= 0)
                r = read_config(m, &config, &files, &err);
        if (r >= 0 && !config_files_same(files, m->files)) {
                r = judge(m, config, files, &err);
        } else if (r >= 0) {
                config_files_free(files);
                config_free(config);
        }
        if (r <= 0)
                end_reload(m, r, &err);
}

static void on_changed(void *data)
{
        struct monitor *m = data;

        config_watch_files(m->config_watch, m->files);
        /* SIGHUP ends a server of stdio: only a change can make it reload. */
        if (!m->config->reload_by_signal || m->options->mode != MODE_SERVE)
                monitor_reload_config(m, 0);
}

void monitor_watch_config(struct monitor *m)
{
        struct error err = {};

        if (config_watch_new(&m->config_watch, m->base, m->options->configs, m->options->n_configs,
                             on_changed, m, &err) < 0)
                log_warning("%s: a changed config takes effect at the next start", err.text);
}
