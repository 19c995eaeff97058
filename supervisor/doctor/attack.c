/* Runs the probe in a sandbox, by `cloister run`, and reports. */
#include "supervisor/doctor/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/program.h"
#include "base/unguessable.h"
#include "policy/config/add.h"
#include "policy/config/keys.h"
#include "supervisor/config/config-files.h"
#include "supervisor/doctor/attack-posture.h"
#include "supervisor/doctor/attack-rows.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/options/options.h"

enum {
        SCRIPT_MAX = 256 * 1024,
        LINE_MAX_BYTES = 4096,
        BATTERY_S = 120, /* the image may have to be built first */
        END_S = 20,
        HOLD_S = 60,
        PROBE_ROWS_MIN = 200, /* there are some 260; a kernel may lack kinds of namespaces */
        WORDS_MAX = 2 * CONFIG_PATHS_MAX + 16,
};

#define MARKER_NAME "CLOISTER_ATTACK_MARKER"

static const unsigned char probe[] = {
#include "supervisor/doctor/probe.inc"
};
static const unsigned char probe_network[] = {
#include "supervisor/doctor/probe-network.inc"
};

struct battery {
        const struct options *options;
        struct config *config;
        const struct config_profile *profile; /* of config */
        char marker[UNGUESSABLE_LENGTH + 1];
        pid_t pid;  /* of `cloister run`; 0: not started */
        bool ended; /* it has closed its output */
        int status; /* of waitpid() */
        int output;
        struct buffer in;
        struct attack_rows rows;
};

/* ---- the script: what is expected, then the probe ---- */

static void put_namespaces(struct json_out *out)
{
        static const char *const kinds[] = {"cgroup", "ipc",  "mnt",  "net",
                                            "pid",    "time", "user", "uts"};

        json_out_begin(out, "namespaces", '{');
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                char path[64], link[64] = "";
                snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
                /* A kind that the kernel does not have is left out. */
                if (readlink(path, link, sizeof(link) - 1) > 0)
                        json_out_text(out, kinds[i], link);
        }
        json_out_end(out, '}');
}

/* Mirrors policy/seccomp/rules-sockets.c. */
static const char *families(const struct config_profile *p)
{
        if (p->network != CONFIG_NETWORK_NONE)
                return p->n_mounts > 0 ? "[2, 10]" : "[1, 2, 10]";
        return p->n_mounts > 0 ? "[]" : "[1]";
}

static void put_profile(struct json_out *out, const struct config_profile *p)
{
        struct limits limits = p->limits;
        bool has_network = p->network == CONFIG_NETWORK_ALLOW;

        json_out_raw(out, "families", families(p), strlen(families(p)));
        json_out_begin(out, "network", '[');
        for (char *const *rule = p->egress.allow; has_network && rule && *rule; rule++)
                json_out_text(out, NULL, *rule);
        json_out_end(out, ']');
        json_out_begin(out, "mounts", '{');
        for (size_t i = 0; i < p->n_mounts; i++) {
                json_out_key(out, p->mounts[i].target, strlen(p->mounts[i].target));
                json_out_text(out, NULL, p->mounts[i].writable ? "rw" : "ro");
        }
        json_out_end(out, '}');
        limits_fit(&limits);
        json_out_int(out, "processes", limits.pids);
        json_out_begin(out, "bytes", '{');
        json_out_int(out, "/tmp", (int64_t)limits.tmp);
        json_out_int(out, "/workspace", (int64_t)limits.workspace);
        json_out_int(out, "/dev/shm", (int64_t)limits.shm);
        json_out_end(out, '}');
}

/* JSON without null, true and false is also an expression of Python. */
static int append_expected(struct buffer *b, const struct battery *battery)
{
        struct json_out out = {.to = b};
        char host[256] = "";
        struct utsname kernel;

        gethostname(host, sizeof(host) - 1);
        uname(&kernel);
        int r = buffer_append_text(b, "EXPECTED = ");
        if (r < 0)
                return r;
        json_out_begin(&out, NULL, '{');
        put_namespaces(&out);
        json_out_text(&out, "kernel", kernel.release);
        json_out_text(&out, "hostname", host);
        json_out_int(&out, "pid", getpid());
        json_out_text(&out, "marker", battery->marker);
        json_out_int(&out, "hold", HOLD_S);
        put_profile(&out, battery->profile);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(b, "\n", 1);
}

static int make_script(const struct battery *battery, struct error *err)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(SCRIPT_MAX);

        int r = append_expected(&b, battery);
        if (r >= 0)
                r = buffer_append(&b, probe_network, sizeof(probe_network) - 1);
        if (r >= 0)
                r = buffer_append(&b, probe, sizeof(probe) - 1);
        if (r < 0)
                return error_errno(err, -r, "make the probe");
        return fd_sealed("probe", buffer_bytes(&b), b.length, err);
}

/* ---- the config ---- */

static int read_config(struct battery *battery, struct error *err)
{
        const struct options *o = battery->options;
        struct config_files *files = NULL;
        struct ids ids;

        battery->config = config_new();
        if (!battery->config)
                return error_errno(err, ENOMEM, "read the config");
        bool trusted_only = ids_choose(0, 0, 2, &ids, NULL) < 0 ? geteuid() == 0
                                                                : ids.mode != SANDBOX_ROOTLESS;
        int r = config_files_open(o->configs, o->n_configs, trusted_only, NULL, battery->config,
                                  &files, err);
        if (r >= 0)
                r = config_finish(battery->config, err);
        config_files_free(files);
        if (r >= 0 && o->profile)
                r = config_find_profile(battery->config, o->profile, err);
        if (r < 0)
                return r;
        battery->profile = o->profile ? &battery->config->profiles[r]
                                      : config_usual_profile(battery->config);
        return battery->profile ? 0 : error_set(err, ENOENT, "the config has no profile");
}

/* ---- the run ---- */

static void add_option(const char **words, size_t *n, const char *option, const char *value)
{
        if (!value)
                return;
        words[(*n)++] = option;
        words[(*n)++] = value;
}

static void exec_run(const struct battery *battery, const char *path, int script, int output)
{
        const struct options *o = battery->options;
        const char *words[WORDS_MAX + 1] = {"cloister", "run"};
        char timeout[16];
        size_t n = 2;

        uint32_t most = battery->config->cell_timeout_max_ms / 1000;
        snprintf(timeout, sizeof(timeout), "%u", most > 0 && most < BATTERY_S ? most : BATTERY_S);
        for (size_t i = 0; i < o->n_configs; i++)
                add_option(words, &n, "--config", o->configs[i]);
        add_option(words, &n, "--profile", o->profile);
        add_option(words, &n, "--image", o->image);
        add_option(words, &n, "--python", o->python);
        add_option(words, &n, "--store", o->store);
        add_option(words, &n, "--timeout", timeout);
        words[n++] = "-"; /* what follows it is for the script */
        setenv(MARKER_NAME, battery->marker, 1);
        if (dup2(script, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0)
                execv(path, (char *const *)words);
        _exit(127);
}

static int start(struct battery *battery, struct error *err)
{
        char path[4096];
        int pipes[2];

        int r = program_path("cloister", path, sizeof(path), err);
        if (r < 0)
                return r;
        _cleanup_close_ int script = make_script(battery, err);
        if (script < 0)
                return script;
        if (pipe2(pipes, O_CLOEXEC) < 0)
                return error_errno(err, errno, "start the probe");
        battery->pid = fork();
        if (battery->pid == 0)
                exec_run(battery, path, script, pipes[1]);
        int code = errno;
        close(pipes[1]);
        battery->output = pipes[0];
        return battery->pid < 0 ? error_errno(err, code, "start the probe") : 0;
}

/* Takes whole lines. Returns as attack_take_line(), 0 if there is no whole line. */
static int take_lines(struct battery *battery, size_t *count, struct error *err)
{
        struct buffer *in = &battery->in;
        char *end;
        int r = 0;

        while (r == 0 && in->length > 0 && (end = memchr(buffer_bytes(in), '\n', in->length))) {
                char *line = buffer_bytes(in);
                char text[128];
                *end = '\0';
                snprintf(text, sizeof(text), "%s", line);
                size_t n = (size_t)(end - line) + 1;
                r = attack_take_line(&battery->rows, line, count);
                buffer_consume(in, n);
                if (r < 0)
                        error_set(err, -r, "the probe answered: %s", text);
        }
        return r;
}

static int read_rows(struct battery *battery, struct error *err)
{
        uint64_t deadline = clock_ms() + BATTERY_S * 1000;
        size_t count = 0;
        int r = 0;

        while (r == 0) {
                struct pollfd p = {.fd = battery->output, .events = POLLIN};
                int64_t left = (int64_t)(deadline - clock_ms());
                if (left <= 0)
                        return error_set(err, ETIMEDOUT, "the probe did not end in %d s",
                                         BATTERY_S);
                if (poll(&p, 1, (int)left) <= 0)
                        continue;
                ssize_t n = buffer_read_fd(&battery->in, battery->output, LINE_MAX_BYTES);
                if (n < 0)
                        return error_errno(err, (int)-n, "read the probe's rows");
                battery->ended = n == 0;
                if (n == 0)
                        return error_set(err, EPROTO,
                                         "the sandbox ended before the probe did (rows: %zu)",
                                         battery->rows.n);
                r = take_lines(battery, &count, err);
        }
        if (r > 0 && count != battery->rows.n)
                return error_set(err, EPROTO, "the probe's rows are incomplete: %zu of %zu",
                                 battery->rows.n, count);
        return r < 0 ? r : 0;
}

/* SIGTERM, which `cloister run` passes on, unless it ends by itself; then SIGKILL. */
static void stop(struct battery *battery)
{
        if (battery->pid <= 0)
                return;
        if (!battery->ended)
                kill(battery->pid, SIGTERM);
        for (int i = 0; i < END_S * 100; i++) {
                if (waitpid(battery->pid, &battery->status, WNOHANG) != 0)
                        return;
                usleep(10000);
        }
        kill(battery->pid, SIGKILL);
        waitpid(battery->pid, &battery->status, 0);
}

static int run(struct battery *battery, struct error *err)
{
        unguessable(battery->marker);
        int r = read_config(battery, err);
        if (r >= 0)
                r = start(battery, err);
        if (r >= 0)
                r = read_rows(battery, err);
        size_t tried = battery->rows.n;
        if (r >= 0)
                r = attack_posture(&battery->rows, battery->pid,
                                   battery->profile->network == CONFIG_NETWORK_ALLOW, err);
        /* An image whose interpreter ends the probe early must not pass. */
        if (r >= 0 && tried < PROBE_ROWS_MIN)
                r = error_set(err, EPROTO, "the probe tried %zu things only", tried);
        if (r >= 0 && !battery->profile->speculation_disabled)
                attack_allow_speculation(&battery->rows);
        stop(battery);
        return r;
}

/* Whether the config itself has "speculation": "shared", in the profile or at the top level. */
static bool says_shared(const struct battery *battery)
{
        enum config_form form;
        const struct config_key *key = config_find_key(CONFIG_PROFILE, "speculation", &form);
        uint64_t said = battery->config->top.said | battery->profile->said;

        return !battery->profile->speculation_disabled && (said & config_key_bit(key)) != 0;
}

int attack_main(const struct options *options)
{
        struct battery battery = {.options = options, .output = -1, .in = BUFFER_INIT(1024 * 1024)};
        struct error error = {};

        int r = run(&battery, &error);
        if (r < 0) {
                log_error("doctor --attack: %s", error.text);
        } else {
                const char *name = battery.profile->name;
                r = options->json ? attack_print_json(&battery.rows, name, says_shared(&battery))
                                  : attack_print_table(&battery.rows, name, isatty(STDOUT_FILENO));
                if (r < 0)
                        log_error("doctor --attack: the report cannot be written");
        }
        int status = r < 0 || battery.rows.of[ATTACK_OPEN] > 0;
        if (WIFEXITED(battery.status) && WEXITSTATUS(battery.status) == EXIT_NO_SANDBOX)
                status = EXIT_NO_SANDBOX;
        if (battery.output >= 0)
                close(battery.output);
        buffer_done(&battery.in);
        attack_rows_done(&battery.rows);
        config_free(battery.config);
        return status;
}
