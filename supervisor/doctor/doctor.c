/* The doctor: its checks of the machine's set-up (control groups, executables, config, Python, image), and all of them. */
#include "supervisor/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/program.h"
#include "policy/config/add.h"
#include "supervisor/config/config-files.h"
#include "supervisor/config/packages-check.h"
#include "supervisor/doctor/findings.h"
#include "supervisor/doctor/journal.h"
#include "supervisor/doctor/kernel.h"
#include "supervisor/doctor/trust-rows.h"
#include "supervisor/monitor/cgroup/cgroup-scope.h"
#include "supervisor/monitor/cgroup/cgroup-total.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/image/image-reader.h"
#include "supervisor/monitor/process/child.h"
#include "supervisor/options/options.h"
#include "supervisor/pythons/pythons.h"

enum {
        ATTEMPT_SECONDS = 60,
        /* Each step has its own deadline. This one ends a step that the kernel blocks. */
        DOCTOR_SECONDS = ATTEMPT_SECONDS + 60,
        PYTHON_TIMEOUT_S = 10,
        PYTHON_ANSWER_MAX = 4096,
        PROFILES_MAX = 24,     /* that are tried */
        PROFILES_SECONDS = 30, /* after this time, no more are tried */
        CODE_FD = OPTION_FD_FIRST,
        STEP_MS = 20,
        KILLED_MS = 2000,
        OUTPUT_SIZE = 4096,
};

/* ---- a real sandbox, made as `cloister run` makes one ---- */

/* Prints 2 in Python and in JavaScript, where "%" is a remainder: the config that names the language is not read yet. */
static const char code[] = "eval([\"console.log(1+1)\", \"print(1+1)\"][+(\"%d\" % 1 == \"1\")])";
static const char expected[] = "2\n";

struct output {
        int fd;
        char text[OUTPUT_SIZE];
        size_t length;
};

_Noreturn static void become_monitor(const char *program, const char *const *configs, size_t n,
                                     const char *profile, int code_fd, int out, int err)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        struct command_line line;
        struct options options;

        options_init(&options);
        for (size_t i = 0; i < n && i < CONFIG_PATHS_MAX; i++)
                options.configs[options.n_configs++] = configs[i];
        options.profile = profile;
        options.log_level = LOG_LEVEL_ERROR;
        options.code_fd = CODE_FD;
        options.code_name = "doctor";
        options.no_tools = !profile;
        command_line_init(&line, "cloister-monitor", options_mode_name(MODE_RUN), &options,
                          PROGRAM_MONITOR);
        child_reset_signals();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (child_place_fd(null, STDIN_FILENO) == 0 && child_place_fd(out, STDOUT_FILENO) == 0 &&
            child_place_fd(err, STDERR_FILENO) == 0 && child_place_fd(code_fd, CODE_FD) == 0)
                execv(program, (char *const *)line.words);
        dprintf(err, "start %s: %s\n", program, strerrordesc_np(errno));
        _exit(EXIT_NO_SANDBOX);
}

/* Bytes that do not fit are read and dropped. */
static void read_some(struct output *o)
{
        char more[OUTPUT_SIZE];

        ssize_t n = read(o->fd, more, sizeof(more));
        if (n <= 0)
                return;
        size_t room = sizeof(o->text) - 1 - o->length;
        size_t taken = (size_t)n < room ? (size_t)n : room;
        memcpy(o->text + o->length, more, taken);
        o->length += taken;
}

/* Returns the wait status, -ETIME after the deadline, or the error of waitpid(), which a filter may
 * refuse. */
static int follow(pid_t pid, struct output outputs[2])
{
        uint64_t end = clock_us() + (uint64_t)ATTEMPT_SECONDS * 1000000;
        int status = -1;
        bool ended = false;

        while (!ended) {
                struct pollfd fds[2] = {{.fd = outputs[0].fd, .events = POLLIN},
                                        {.fd = outputs[1].fd, .events = POLLIN}};
                /* First, so that what the process wrote before it ended is read below. */
                pid_t gone = waitpid(pid, &status, WNOHANG);
                ended = gone == pid;
                if (gone < 0 && errno != EINTR) {
                        int refused = errno;
                        kill(pid, SIGKILL);
                        return -refused;
                }
                if (poll(fds, 2, ended ? 0 : STEP_MS) < 0 && errno != EINTR)
                        usleep(STEP_MS * 1000);
                for (int i = 0; i < 2; i++) {
                        if (fds[i].revents & POLLIN)
                                read_some(&outputs[i]);
                        else if (fds[i].revents)
                                outputs[i].fd = -1; /* the end */
                }
                if (!ended && clock_us() > end) {
                        kill(pid, SIGKILL);
                        for (int i = 0; i < KILLED_MS && waitpid(pid, NULL, WNOHANG) == 0; i++)
                                usleep(1000);
                        return -ETIME;
                }
        }
        return status;
}

/* The last line says most; "cloister: error: " is left out. */
static void take_reason(struct output *err, struct attempt *ret)
{
        char *line = err->text;

        while (err->length > 0 && err->text[err->length - 1] == '\n')
                err->text[--err->length] = '\0';
        if (strrchr(line, '\n'))
                line = strrchr(line, '\n') + 1;
        for (size_t i = 0; i < 2; i++) {
                const char *const before[] = {"cloister: ", "error: "};
                if (strncmp(line, before[i], strlen(before[i])) == 0)
                        line += strlen(before[i]);
        }
        snprintf(ret->why, sizeof(ret->why), "%s", *line ? line : "it gave no reason");
}

static void judge(int status, struct output outputs[2], struct attempt *ret)
{
        ret->done = true;
        if (status < 0 && status != -ETIME) {
                ret->status = EXIT_NO_SANDBOX;
                snprintf(ret->why, sizeof(ret->why), "wait for it: %s", strerrordesc_np(-status));
        } else if (status < 0) {
                ret->status = EXIT_NO_SANDBOX;
                snprintf(ret->why, sizeof(ret->why),
                         "it did not end within %d seconds and was killed", ATTEMPT_SECONDS);
        } else if (WIFSIGNALED(status)) {
                ret->status = EXIT_NO_SANDBOX;
                snprintf(ret->why, sizeof(ret->why), "the monitor was killed by signal %d",
                         WTERMSIG(status));
        } else if (WEXITSTATUS(status) != 0) {
                ret->status = WEXITSTATUS(status);
                take_reason(&outputs[1], ret);
        } else if (strcmp(outputs[0].text, expected) != 0) {
                ret->status = EXIT_NO_SANDBOX;
                snprintf(ret->why, sizeof(ret->why), "the code printed something else than 2");
        }
}

static int start(const char *const *configs, size_t n_configs, const char *profile, int out,
                 int err, struct error *error)
{
        char program[PATH_MAX + 32];

        int r = program_path("cloister-monitor", program, sizeof(program), error);
        if (r < 0)
                return r;
        _cleanup_close_ int sealed = fd_sealed("code", code, strlen(code), error);
        if (sealed < 0)
                return sealed;
        /* The numbers of standard streams and of the code are set in the child; none may be in use
         * by another. */
        _cleanup_close_ int high_code = fcntl(sealed, F_DUPFD_CLOEXEC, CODE_FD + 1);
        _cleanup_close_ int high_out = fcntl(out, F_DUPFD_CLOEXEC, CODE_FD + 1);
        _cleanup_close_ int high_err = fcntl(err, F_DUPFD_CLOEXEC, CODE_FD + 1);
        if (high_code < 0 || high_out < 0 || high_err < 0)
                return error_errno(error, errno, "descriptors");
        pid_t pid = fork();
        if (pid < 0)
                return error_errno(error, errno, "fork");
        if (pid == 0)
                become_monitor(program, configs, n_configs, profile, high_code, high_out, high_err);
        return pid;
}

/* Runs 1+1 in a sandbox with the config of these files, and without their servers, in a profile
 * (NULL: the default one). Takes at most ATTEMPT_SECONDS: then the monitor is killed, which ends all
 * that it started. */
static void attempt_run(const char *const *configs, size_t n_configs, const char *profile,
                        struct attempt *ret)
{
        static struct output outputs[2];
        int out[2], err[2];
        struct error error = {};

        *ret = (struct attempt){.status = EXIT_NO_SANDBOX};
        memset(outputs, 0, sizeof(outputs));
        if (pipe2(out, O_CLOEXEC) < 0)
                return;
        _cleanup_close_ int out_read = out[0], out_write = out[1];
        if (pipe2(err, O_CLOEXEC) < 0)
                return;
        _cleanup_close_ int err_read = err[0], err_write = err[1];
        uint64_t began = clock_us();
        pid_t pid = start(configs, n_configs, profile, out_write, err_write, &error);
        close(take_fd(out_write));
        close(take_fd(err_write));
        if (pid < 0) {
                snprintf(ret->why, sizeof(ret->why), "%s", error.text);
                return;
        }
        outputs[0].fd = out_read;
        outputs[1].fd = err_read;
        ret->status = 0;
        judge(follow(pid, outputs), outputs, ret);
        ret->seconds = (double)(clock_us() - began) / 1e6;
}

/* ---- limits ---- */

static void check_cgroups(struct doctor *d, const struct cgroups *cgroups)
{
        int version = cgroups_version(cgroups) == CGROUP_V1 ? 1 : 2;

        d->system->limits = cgroups_bounds_cpu(cgroups) ? DOCTOR_LIMITS_CGROUP
                                                        : DOCTOR_LIMITS_NO_CPU;
        d->system->limits_own = !cgroups_hold_owner(cgroups);

        if (cgroups_bounds_cpu(cgroups))
                doctor_add(d, "limits", DOCTOR_EFFECTIVE, true, NULL,
                           "memory, pids and cpu of a session by cgroup version %d", version);
        else
                doctor_add(
                        d, "limits", DOCTOR_DEGRADED, true,
                        "have the cpu controller delegated as well (systemd: Delegate=cpu memory pids)",
                        "memory and pids of a session by cgroup version %d, but not its cpu",
                        version);
}

/* As the monitor does: an existing group, else a scope from systemd. */
static int open_limits(struct cgroups **ret, struct error *why, struct error *err)
{
        struct error no_scope = {0};
        pid_t pid;
        int answer;

        int r = cgroups_open(false, ret, why, err);
        if (r < 0 || cgroups_version(*ret) != CGROUP_NONE || !cgroups_want_delegation(*ret))
                return r;
        bool may_stay = cgroups_may_stay(*ret);
        r = cgroup_scope_ask(may_stay, &pid, &answer, &no_scope);
        if (r >= 0)
                r = cgroup_scope_take(pid, answer, &no_scope);
        if (r < 0 && !may_stay) {
                error_context(why, "%s", no_scope.text);
                return 0;
        }
        cgroups_free(*ret);
        *ret = NULL;
        *why = (struct error){0};
        return cgroups_open(true, ret, why, err);
}

/* The row of this machine in the table of docs/threat-model.md, "Rules and modes". */
static void check_accounting(struct doctor *d, enum cgroup_version version)
{
        static const char *const held[] = {
                [CGROUP_V2] = "what sessions keep, share and leave is counted, apart and at rest",
                [CGROUP_V1] =
                        "what sessions keep, share and leave is counted, apart and at rest; of TCP and UDP, 10 MiB of a session are beside its memory",
                [CGROUP_NONE] =
                        "descriptions of mappings and looked-up names are not counted; what a call leaves gets a 200th of a processor",
        };

        doctor_add(d, "accounting", version == CGROUP_NONE ? DOCTOR_DEGRADED : DOCTOR_EFFECTIVE,
                   false, "as for the limits", "%s (docs/threat-model.md)", held[version]);
}

static void check_limits(struct doctor *d)
{
        uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        struct cgroups *cgroups = NULL;
        struct error error = {0}, why = {0};

        d->system->is_bounded = cgroup_total_here().memory < machine;

        if (open_limits(&cgroups, &why, &error) < 0) {
                doctor_add(d, "limits", DOCTOR_MISSING, true, "mount /proc", "%s", error.text);
                return;
        }
        switch (cgroups_version(cgroups)) {
        case CGROUP_V1:
        case CGROUP_V2:
                check_cgroups(d, cgroups);
                break;
        case CGROUP_NONE:
                d->system->limits = cgroups_want_delegation(cgroups) ? DOCTOR_LIMITS_UNDELEGATED
                                                                     : DOCTOR_LIMITS_NONE;
                doctor_add(
                        d, "limits", DOCTOR_DEGRADED, true,
                        geteuid() == 0
                                ? "let this machine or container have writable cgroups"
                                : "start Cloister where it may use a cgroup: systemd-run --user --scope -p Delegate=yes …, or as root",
                        "without a cgroup: processes are limited, and the monitor ends sessions over their memory limit; processor time and kernel memory have no limit: %s",
                        why.text);
                break;
        }
        check_accounting(d, cgroups_version(cgroups));
        cgroups_free(cgroups);
}

/* ---- programs ---- */

static void check_programs(struct doctor *d)
{
        static const char *const names[] = {"cloister", "cloister-init", "cloister-worker",
                                            "cloister-module.so"};
        struct error error = {0};
        char path[512];

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (program_path(names[i], path, sizeof(path), &error) < 0) {
                        doctor_add(d, "programs", DOCTOR_MISSING, true,
                                   "install all files of Cloister", "%s", error.text);
                        return;
                }
        }
        doctor_add(d, "programs", DOCTOR_EFFECTIVE, true, NULL, "all executables exist");
}

/* ---- config ---- */

static void add_problems(struct doctor *d, const struct config *config)
{
        for (size_t i = 0; i < config->n_warnings; i++)
                doctor_add(d, "config", DOCTOR_DEGRADED, false, NULL, "%s", config->warnings[i]);
        for (size_t i = 0; i < config->n_servers; i++) {
                const struct config_server *s = &config->servers[i];
                if (s->problem)
                        doctor_add(d, "config", DOCTOR_DEGRADED, false, NULL,
                                   "%s: server \"%s\": %s", s->place, s->name, s->problem);
        }
}

static void check_config(struct doctor *d, const char *const *paths, size_t n, bool trusted_only,
                         struct config *config)
{
        struct config_files *files = NULL;
        struct error error = {0};

        int r = config_files_open(paths, n, trusted_only, NULL, config, &files, &error);
        if (r >= 0)
                r = config_finish(config, &error);
        if (r < 0) {
                config_files_free(files);
                doctor_add(d, "config", DOCTOR_MISSING, true, "correct the file", "%s", error.text);
                return;
        }
        size_t count = config_files_count(files);
        if (count == 0)
                doctor_add(
                        d, "config", DOCTOR_EFFECTIVE, false, NULL,
                        "no config file, so no tools: ~/.config/cloister/config.json or --config");
        else
                doctor_add(d, "config", DOCTOR_EFFECTIVE, false, NULL, "%zu server%s in %s%s",
                           config->n_servers, plural(config->n_servers),
                           config_files_path(files, 0), count > 1 ? " and other files" : "");
        add_problems(d, config);
        config_files_free(files);
}

static void check_apart(struct doctor *d, const struct config *config)
{
        char names[256];
        size_t n = 0, length = 0;

        for (size_t i = 0; i < config->n_servers; i++) {
                const struct config_server *s = &config->servers[i];
                if (s->apart || s->disabled)
                        continue;
                if (length < sizeof(names))
                        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
                                                   n > 0 ? ", " : "", s->name);
                n++;
        }
        if (n > 0)
                doctor_add(d, "servers", DOCTOR_DEGRADED, false,
                           "remove \"apart\": false where a server starts without it",
                           "%zu can read the variables of other servers: %s%s", n, names,
                           length < sizeof(names) ? "" : "…");
}

static void check_user(struct doctor *d, enum sandbox_mode mode, const struct config *config)
{
        struct upstream_user user = {0};
        struct error error = {0};
        int r = upstream_user_choose(mode, config->user, getenv("SUDO_UID"), &user, &error);

        if (r < 0)
                doctor_add(d, "servers", DOCTOR_MISSING, true, NULL, "%s", error.text);
        else if (r == 1)
                doctor_add(d, "servers", DOCTOR_DEGRADED, false,
                           "name an ordinary user in the config: \"user\": \"…\"",
                           "MCP servers would run as root without capabilities");
        else
                doctor_add(d, "servers", DOCTOR_EFFECTIVE, false, NULL,
                           "MCP servers run as uid %u%s%s%s", user.uid, user.name ? " (" : "",
                           user.name ? user.name : "", user.name ? ")" : "");
        upstream_user_done(&user);
        check_apart(d, config);
}

/* ---- Python and the image ---- */

/* Prints its version, then the path of libpython or an empty line. The image builder searches in the
 * same way. */
static const char python_question[] =
        "import os, sys, sysconfig\n"
        "v = lambda n: sysconfig.get_config_var(n) or ''\n"
        "n = 'libpython%d.%d%s.so.1.0' % (sys.version_info[:2] + (getattr(sys, 'abiflags', ''),))\n"
        "b, l, m = sys.base_prefix, v('LIBDIR'), v('MULTIARCH')\n"
        "f = [l, os.path.join(l, m), os.path.join(b, 'lib'), os.path.join(b, 'lib', m), os.path.join(b, 'lib64')]\n"
        "p = [os.path.join(d, x) for x in (n, n[:-2]) for d in f if os.path.isfile(os.path.join(d, x))]\n"
        "print('%d.%d.%d' % sys.version_info[:3])\n"
        "print(p[0] if p else '')\n";

_Noreturn static void run_python(const char *python, int out)
{
        char *argv[] = {(char *)(uintptr_t)python, (char[]){"-I"}, (char[]){"-c"},
                        (char *)(uintptr_t)python_question, NULL};
        char *env[] = {(char[]){"LC_ALL=C.UTF-8"}, NULL};
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

        child_reset_signals();
        alarm(PYTHON_TIMEOUT_S);
        if (child_place_fd(nothing, STDIN_FILENO) == 0 && child_place_fd(out, STDOUT_FILENO) == 0 &&
            child_place_fd(nothing, STDERR_FILENO) == 0)
                execve(python, argv, env);
        _exit(127);
}

/* Returns its output (owned by the caller), or NULL. */
static char *ask_python(const char *python)
{
        _cleanup_free_ char *answer = NULL;
        size_t length = 0;
        int ends[2], status = -1;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return NULL;
        pid_t pid = fork();
        if (pid == 0)
                run_python(python, ends[1]);
        close(ends[1]);
        int r = pid < 0 ? -1 : fd_read_whole(ends[0], PYTHON_ANSWER_MAX, &answer, &length, NULL);
        close(ends[0]);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return r >= 0 && status == 0 ? take_ptr(answer) : NULL;
}

static void check_python(struct doctor *d, const char *python)
{
        _cleanup_free_ char *answer = ask_python(python);
        char version[16] = "", library[512] = "";

        int n = answer ? sscanf(answer, "%15s %511[^\n]", version, library) : 0;
        if (n < 1)
                doctor_add(d, "python", DOCTOR_MISSING, true,
                           "apt install python3, or --python PATH for another interpreter",
                           "%s does not run", python);
        else if (n < 2)
                doctor_add(d, "python", DOCTOR_EFFECTIVE, true, NULL,
                           "%s (%s), without libpython: it loads Cloister as a module", python,
                           version);
        else
                doctor_add(d, "python", DOCTOR_EFFECTIVE, true, NULL, "%s (%s) with %s", python,
                           version, library);
}

/* The interpreter of a choice, of which python may be a version; says why if there is none. */
static bool find_python(const struct image_choice *choice, const char *home, const char **ret,
                        char path[PYTHON_PATH_SIZE], struct error *err)
{
        static struct pythons found;
        struct python_version wanted;

        *ret = choice->python;
        if (!python_version_is_meant(choice->python))
                return true;
        *ret = path;
        if (python_version_parse(choice->python, &wanted, err) < 0)
                return false;
        if (pythons_find(&wanted, home, path))
                return true;
        pythons_list(home, &found);
        pythons_missing(choice->python, &found, err);
        return false;
}

/* Those that a config can name by version. */
static void list_pythons(struct doctor *d, const char *home)
{
        static struct pythons found;
        char text[400] = "";
        size_t n = 0;

        pythons_list(home, &found);
        for (size_t i = 0; i < found.n && n < sizeof(text) - 100; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s3.%d.%d (%.64s)",
                                      n ? ", " : "", found.items[i].version.minor,
                                      found.items[i].version.patch, found.items[i].path);
        doctor_add(d, "pythons", DOCTOR_EFFECTIVE, false, NULL, "%s",
                   n ? text : "none in PATH, of pyenv or of uv that a config can name by version");
        if (*found.late)
                doctor_add(d, "pythons", DOCTOR_DEGRADED, false, "remove it, or repair it",
                           "%s did not answer", found.late);
}

/* Checks the store, or the nearest directory above it that exists. */
static bool is_noexec(const char *store)
{
        char path[PATH_MAX];
        struct statvfs fs;

        snprintf(path, sizeof(path), "%s", store);
        for (;;) {
                if (statvfs(path, &fs) == 0)
                        return fs.f_flag & ST_NOEXEC;
                char *slash = strrchr(path, '/');
                if (!slash || slash == path)
                        return false;
                *slash = '\0';
        }
}

static void check_image(struct doctor *d, enum sandbox_mode mode, const struct config *config)
{
        struct image_choice choice;
        struct image_found found = {.root = -1, .packages = -1};
        struct upstream_user user = {};
        struct error error = {0}, missing = {0};
        char path[PYTHON_PATH_SIZE];
        const char *python;

        bool needs_node = config->top.language == LANGUAGE_JAVASCRIPT && !config->top.image;

        if (image_choose(config->top.image, config->top.python, &choice, &error) < 0 ||
            (needs_node && image_choose_node(&choice, config->top.nodejs, NULL, &error) < 0) ||
            image_choice_check(&choice, &error) < 0) {
                doctor_add(d, "image", DOCTOR_MISSING, true,
                           "apt install python3, or \"python\" in the config", "%s", error.text);
                return;
        }
        d->system->image = is_noexec(choice.store) ? EACCES : 0;
        if (upstream_user_choose(mode, config->user, getenv("SUDO_UID"), &user, NULL) < 0)
                user = (struct upstream_user){
                        .uid = geteuid(), .gid = getegid(), .drop_capabilities = 1};
        int r = image_read(&choice, &user, &found, &error);
        list_pythons(d, user.home);
        bool has_python = r >= 0 || find_python(&choice, user.home, &python, path, &missing);
        upstream_user_done(&user);
        if (r >= 0) {
                doctor_add(d, "image", DOCTOR_EFFECTIVE, true, NULL, "%s in %s: Python %s",
                           found.info.name, choice.store, found.info.version);
                close(found.root);
                return;
        }
        /* The interpreter is needed for a build only. */
        if (choice.is_default && has_python)
                check_python(d, python);
        if (choice.is_default && !has_python && !config->top.python_downloads)
                doctor_add(d, "python", DOCTOR_MISSING, true, "as it says", "%s", missing.text);
        else if (r == -ENOENT && choice.is_default)
                doctor_add(
                        d, "image", DOCTOR_EFFECTIVE, true, NULL,
                        "not made yet: at first use, in a few seconds (or `cloister image build`)");
        else
                doctor_add(d, "image", DOCTOR_MISSING, true,
                           r == -EPERM ? "as it says, or CLOISTER_IMAGE_STORE=/another/folder"
                                       : "cloister image build",
                           "%s", error.text);
}

/* ---- packages for sessions ---- */

/* One row, if any profile allows it. */
static void check_packages(struct doctor *d, const struct config *config)
{
        struct image_choice choice;
        char names[200] = "";
        size_t n = 0;

        if (image_choose(NULL, NULL, &choice, NULL) < 0)
                return;
        _cleanup_close_ int store = open(choice.store, O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *p = &config->profiles[i];
                const char *why = packages_check(config, p, store);
                if (why) {
                        doctor_add(d, "packages", DOCTOR_DEGRADED, false,
                                   "set that right, or \"packages\": {\"install\": \"never\"}",
                                   "profile \"%s\": %s", p->name, why);
                        return;
                }
                if (!p->packages.install)
                        continue;
                size_t used = strlen(names);
                snprintf(names + used, sizeof(names) - used, "%s\"%s\"", used ? ", " : "", p->name);
                n++;
        }
        if (n > 0)
                doctor_add(d, "packages", DOCTOR_EFFECTIVE, false, NULL,
                           "sessions of %s can have packages installed (no index was queried)",
                           names);
}

/* ---- network namespaces of ended sessions ---- */

/* Whether this kernel counts sockets as the monitor needs it (supervisor/monitor/template/networks.h). */
static bool counts_sockets(void)
{
        static const char start[] = "sockets: used ";
        char text[sizeof(start) - 1];
        _cleanup_close_ int fd = open("/proc/self/net/sockstat", O_RDONLY | O_CLOEXEC);

        return fd >= 0 && read(fd, text, sizeof(text)) == sizeof(text) &&
               memcmp(text, start, sizeof(text)) == 0;
}

static void check_recycling(struct doctor *d, const struct config *config)
{
        char names[200] = "";
        size_t n = 0;

        if (!counts_sockets()) {
                doctor_add(
                        d, "recycling", DOCTOR_EFFECTIVE, false, NULL,
                        "none: /proc/net/sockstat cannot prove that a network namespace is empty");
                return;
        }
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *p = &config->profiles[i];
                if (!p->recycle || p->network != CONFIG_NETWORK_NONE)
                        continue;
                size_t used = strlen(names);
                snprintf(names + used, sizeof(names) - used, "%s\"%s\"", used ? ", " : "", p->name);
                n++;
        }
        if (n == 0)
                doctor_add(d, "recycling", DOCTOR_EFFECTIVE, false, NULL,
                           "none: each session has a new network namespace");
        else
                doctor_add(
                        d, "recycling", DOCTOR_EFFECTIVE, false, NULL,
                        "sessions of %s may have the empty network namespace of an ended one of the same principal and profile",
                        names);
}

/* ---- JavaScript ---- */

/* The image that the profile has without "image". */
static int choose_image(const struct config_profile *profile, struct image_choice *ret,
                        struct error *err)
{
        int r = image_choose(NULL, profile->python, ret, err);

        if (r >= 0 && profile->language == LANGUAGE_JAVASCRIPT)
                r = image_choose_node(ret, profile->nodejs, profile->pyodide, err);
        return r < 0 ? r : image_choice_check(ret, err);
}

/* Rows for the profiles with JavaScript. */
static void check_javascript(struct doctor *d, const struct config *config)
{
        size_t n = 0;

        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *p = &config->profiles[i];
                struct image_choice choice;
                struct error error = {};
                if (p->language != LANGUAGE_JAVASCRIPT)
                        continue;
                n++;
                if (p->image)
                        doctor_add(d, "javascript", DOCTOR_EFFECTIVE, false, NULL,
                                   "profile \"%s\": the Node of image %s", p->name, p->image);
                else if (choose_image(p, &choice, &error) < 0)
                        doctor_add(d, "javascript", DOCTOR_DEGRADED, false,
                                   "install Node 20 or later, or \"nodejs\" in the config",
                                   "profile \"%s\": %s", p->name, error.text);
                else
                        doctor_add(d, "javascript", DOCTOR_EFFECTIVE, false, NULL,
                                   "profile \"%s\": %s", p->name, choice.node);
        }
        bool is_counted = d->system->limits != DOCTOR_LIMITS_UNDELEGATED &&
                          d->system->limits != DOCTOR_LIMITS_NONE;
        if (n > 0 && !is_counted)
                doctor_add(
                        d, "javascript", DOCTOR_DEGRADED, false, "as for the limits",
                        "without a cgroup only the monitor's scans bound the memory of a process below limits.memory + %lu MiB, and a session has at most %d isolates (threads with JavaScript)",
                        LANGUAGE_ISOLATES_MAX * (LANGUAGE_ISOLATE_BYTES >> 20),
                        LANGUAGE_ISOLATES_MAX);
}

static enum sandbox_mode current_mode(void)
{
        struct ids ids;

        if (ids_choose(0, 0, 2, &ids, NULL) < 0)
                return geteuid() == 0 ? SANDBOX_ROOT : SANDBOX_ROOTLESS;
        return ids.mode;
}

void doctor_check_host(struct doctor *d, const char *const *configs, size_t n_configs)
{
        struct config *config = config_new();
        enum sandbox_mode mode = current_mode();

        if (!config)
                return;
        check_limits(d);
        check_programs(d);
        check_config(d, configs, n_configs, mode != SANDBOX_ROOTLESS, config);
        check_user(d, mode, config);
        check_image(d, mode, config);
        check_packages(d, config);
        check_javascript(d, config);
        check_recycling(d, config);
        doctor_add_trust(d, config);
        doctor_check_journal(d, config);
        config_free(config);
}

/* ---- the other profiles, each in a real sandbox ---- */

/* An image that the first session would make is not made here. Returns false where one can't be
 * made, with the reason. */
static bool image_is_there(const struct config *config, const struct config_profile *profile,
                           bool *there, struct error *err)
{
        struct image_found found = {.root = -1};
        const enum sandbox_mode mode = geteuid() == 0 ? SANDBOX_ROOT : SANDBOX_ROOTLESS;
        struct upstream_user user = {.uid = geteuid(), .gid = getegid()};
        struct image_choice choice;
        char path[PYTHON_PATH_SIZE];
        const char *python;

        *there = true;
        if (profile->image || (!profile->python && profile->language == LANGUAGE_PYTHON))
                return true;
        if (choose_image(profile, &choice, err) < 0)
                return false;
        upstream_user_choose(mode, config->user, getenv("SUDO_UID"), &user, NULL);
        *there = image_read(&choice, &user, &found, NULL) >= 0;
        bool can = *there || profile->python_downloads ||
                   find_python(&choice, user.home, &python, path, err);
        upstream_user_done(&user);
        if (*there)
                close(found.root);
        return can;
}

static void try_profile(struct doctor *d, const char *const *configs, size_t n,
                        const struct config *config, const struct config_profile *profile)
{
        static struct attempt attempt;
        struct error error = {0};
        bool there;

        if (!image_is_there(config, profile, &there, &error)) {
                doctor_add(d, "profile", DOCTOR_DEGRADED, false,
                           "correct \"python\" or \"nodejs\" of the profile", "\"%s\" fails: %s",
                           profile->name, error.text);
                return;
        }
        if (!there) {
                doctor_add(d, "profile", DOCTOR_EFFECTIVE, false, NULL,
                           "\"%s\" was not tried: its image is made at the first use",
                           profile->name);
                return;
        }
        attempt_run(configs, n, profile->name, &attempt);
        const char *fix = attempt_fix(&attempt);
        if (attempt.done && attempt.status == 0)
                doctor_add(d, "profile", DOCTOR_EFFECTIVE, false, NULL,
                           "\"%s\": a sandbox ran 1+1, in %.2f s", profile->name, attempt.seconds);
        else if (profile->image && strstr(attempt.why, "there is no image")) {
                char text[300];
                snprintf(text, sizeof(text), "make it: cloister image build --name %s",
                         profile->image);
                doctor_add(d, "profile", DOCTOR_DEGRADED, false, text, "\"%s\" fails: %s",
                           profile->name, attempt.why);
        } else
                doctor_add(d, "profile", DOCTOR_DEGRADED, false,
                           fix ? fix : "`cloister -vv run --profile NAME -c 1` logs each step",
                           "\"%s\" fails: %s", profile->name, attempt.why);
}

/* Tries them, as far as their images exist. */
static void check_profiles(struct doctor *d, const char *const *configs, size_t n_configs)
{
        uint64_t end = clock_us() + (uint64_t)PROFILES_SECONDS * 1000000;
        struct config *config = config_new();
        struct config_files *files = NULL;

        if (!config)
                return;
        /* The default profile ran with these files: they can be read. */
        if (config_files_open(configs, n_configs, geteuid() == 0, NULL, config, &files, NULL) >=
                    0 &&
            config_finish(config, NULL) >= 0)
                for (size_t i = 0; i < config->n_profiles && i < PROFILES_MAX; i++)
                        if (i != config->profile && clock_us() < end)
                                try_profile(d, configs, n_configs, config, &config->profiles[i]);
        config_files_free(files);
        config_free(config);
}

/* ---- all of it ---- */

static void on_alarm(int number)
{
        static const char text[] = "cloister: doctor: a check did not end in time\n";

        (void)number;
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        _exit(EXIT_NO_SANDBOX);
}

int doctor_main(bool json, const char *const *configs, size_t n_configs)
{
        static struct doctor_system state;
        static struct doctor d = {.system = &state};
        static struct attempt attempt;

        signal(SIGALRM, on_alarm);
        alarm(DOCTOR_SECONDS);
        doctor_system_read(&state);
        /* Before the other checks, of which one may move this process into a control group. */
        attempt_run(configs, n_configs, NULL, &attempt);
        doctor_check_kernel(&d);
        doctor_check_host(&d, configs, n_configs);
        doctor_take_attempt(&d, &attempt);
        if (attempt.done && attempt.status == 0)
                check_profiles(&d, configs, n_configs);
        int r = json ? doctor_print_json(&d) : doctor_print_table(&d, isatty(STDOUT_FILENO));
        if (r < 0)
                log_error("doctor: the report cannot be written");
        if (doctor_usable(&d))
                return r < 0;
        return d.tried && d.status > 0 ? d.status : EXIT_NO_SANDBOX;
}
