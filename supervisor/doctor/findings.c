/* The state of the system (sysctls, mounts of proc, the filter of this process), and the table of known problems. */
#include "supervisor/doctor/findings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"

enum { MOUNTINFO_MAX = 16 * 1024 * 1024, OVERFLOW_ID = 65534 };

/* ---- the state of the system ---- */

int doctor_seccomp_mode(const char *status)
{
        const char *line = strstr(status, "\nSeccomp:");

        return line ? atoi(line + strlen("\nSeccomp:")) : 0;
}

/* The kernel shows a name since 5.8, a number before. */
static int hidepid_of(const char *options)
{
        static const char *const names[] = {"off", "noaccess", "invisible", NULL, "ptraceable"};
        const char *at = strstr(options, "hidepid=");

        if (!at)
                return 0;
        at += strlen("hidepid=");
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (names[i] && strncmp(at, names[i], strlen(names[i])) == 0)
                        return (int)i;
        }
        return atoi(at);
}

void doctor_proc_mounts(const char *mountinfo, struct mount_proc_covers *covers, int *hides)
{
        *covers = (struct mount_proc_covers){};
        *hides = 0;
        for (const char *line = mountinfo; *line;) {
                size_t n = strcspn(line, "\n");
                char text[2048], point[1024] = "", type[64] = "";
                snprintf(text, sizeof(text), "%.*s", (int)n, line);
                const char *rest = strstr(text, " - ");
                mount_note_proc(covers, text);
                if (rest && sscanf(text, "%*s %*s %*s %*s %1023s", point) == 1 &&
                    sscanf(rest, " - %63s", type) == 1 && strcmp(point, "/proc") == 0 &&
                    strcmp(type, "proc") == 0)
                        *hides = hidepid_of(text);
                line += n + (line[n] == '\n');
        }
}

/* "docker-default (enforce)": what is in parentheses says whether the profile forbids anything. */
static enum doctor_label label_of_apparmor(const char *mode)
{
        return strncmp(mode, " (enforce)", 10) == 0 || strncmp(mode, " (kill)", 7) == 0 ||
                               strncmp(mode, " (mixed)", 8) == 0
                       ? DOCTOR_LABEL_APPARMOR
                       : DOCTOR_LABEL_NONE;
}

/* user:role:type:level, of which the type decides: a container of Podman without root has
 * unconfined_u:system_r:container_t. spc_t is that of a privileged container. */
static enum doctor_label label_of_selinux(const char *text)
{
        char type[64] = "";

        if (sscanf(text, "%*[^:]:%*[^:]:%63[^:\n]", type) != 1)
                return DOCTOR_LABEL_NONE;
        return strncmp(type, "unconfined", 10) == 0 || strcmp(type, "spc_t") == 0 ||
                               strcmp(type, "kernel_t") == 0
                       ? DOCTOR_LABEL_NONE
                       : DOCTOR_LABEL_SELINUX;
}

enum doctor_label doctor_label_kind(const char *text)
{
        const char *mode = NULL;

        /* A profile's name can have any character, so that the last one counts. */
        for (const char *p = text; (p = strstr(p, " (")); p++)
                mode = p;
        return mode ? label_of_apparmor(mode) : label_of_selinux(text);
}

static bool is_set(const char *variable)
{
        const char *value = getenv(variable);

        return value && strcmp(value, "true") == 0;
}

static enum doctor_place find_place(int seccomp_mode, unsigned proc_covers)
{
        bool is_contained = seccomp_mode == 2 || proc_covers > 0;

        if (is_contained && is_set("GITLAB_CI"))
                return DOCTOR_PLACE_GITLAB;
        if (is_contained && is_set("GITHUB_ACTIONS"))
                return DOCTOR_PLACE_GITHUB;
        if (access("/var/run/secrets/kubernetes.io", F_OK) == 0 ||
            getenv("KUBERNETES_SERVICE_HOST"))
                return DOCTOR_PLACE_KUBERNETES;
        if (access("/run/.containerenv", F_OK) == 0)
                return DOCTOR_PLACE_PODMAN;
        if (access("/.dockerenv", F_OK) == 0)
                return DOCTOR_PLACE_DOCKER;
        if (getenv("INVOCATION_ID") && getppid() == 1)
                return DOCTOR_PLACE_UNIT;
        return is_contained ? DOCTOR_PLACE_CONTAINER : DOCTOR_PLACE_HOST;
}

static long sysctl_number(const char *name, long otherwise)
{
        char path[128], text[32];

        snprintf(path, sizeof(path), "/proc/sys/%s", name);
        return cgroup_read(AT_FDCWD, path, text, sizeof(text)) > 0 ? strtol(text, NULL, 10)
                                                                   : otherwise;
}

static long least_namespaces(void)
{
        static const char *const kinds[] = {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};
        long least = LONG_MAX;

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                char name[64];
                snprintf(name, sizeof(name), "user/max_%s_namespaces", kinds[i]);
                long n = sysctl_number(name, LONG_MAX);
                least = n < least ? n : least;
        }
        return least;
}

/* Whether making a user namespace is EPERM for a process whose ids have a mapping: the kernel returns EPERM in a chroot only.
 * A filter or a security module may return it too: the findings about those come first. */
static bool is_chrooted(void)
{
        int status = 0;

        pid_t pid = fork();
        if (pid == 0)
                _exit(unshare(CLONE_NEWUSER) < 0 && errno == EPERM);
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return false;
        return WIFEXITED(status) && WEXITSTATUS(status) == 1 && geteuid() != OVERFLOW_ID &&
               getegid() != OVERFLOW_ID;
}

static char first_of(const char *path)
{
        char text[2] = "";

        return cgroup_read(AT_FDCWD, path, text, sizeof(text)) > 0 ? text[0] : '\0';
}

void doctor_system_read(struct doctor_system *ret)
{
        _cleanup_free_ char *mountinfo = NULL;
        char status[8192] = "";
        size_t length;

        *ret = (struct doctor_system){
                .userns = DOCTOR_UNTRIED,
                .mounting = DOCTOR_UNTRIED,
                .others = DOCTOR_UNTRIED,
                .proc = DOCTOR_UNTRIED,
                .root = DOCTOR_UNTRIED,
                .image = DOCTOR_UNTRIED,
                .userns_clone = sysctl_number("kernel/unprivileged_userns_clone", 1),
                .userns_least = least_namespaces(),
                .apparmor_restricts = sysctl_number("kernel/apparmor_restrict_unprivileged_userns",
                                                    0),
                .memfd_noexec = sysctl_number("vm/memfd_noexec", 0),
                .ptrace_scope = sysctl_number("kernel/yama/ptrace_scope", -1),
                .core_pattern = first_of("/proc/sys/kernel/core_pattern"),
                .landlock = 1,
                .chrooted = is_chrooted(),
                .proc_is_foreign = mount_check_proc(NULL) < 0,
        };
        if (cgroup_read(AT_FDCWD, "/proc/self/status", status, sizeof(status)) > 0)
                ret->seccomp_mode = doctor_seccomp_mode(status);
        _cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && fd_read_whole(fd, MOUNTINFO_MAX, &mountinfo, &length, NULL) >= 0)
                doctor_proc_mounts(mountinfo, &ret->proc_covers, &ret->proc_hides);
        if (cgroup_read(AT_FDCWD, "/proc/self/attr/current", ret->label_text,
                        sizeof(ret->label_text)) > 0)
                ret->label = doctor_label_kind(ret->label_text);
        ret->label_text[strcspn(ret->label_text, "\n")] = '\0';
        ret->place = find_place(ret->seccomp_mode, ret->proc_covers.n);
        /* Privileged processes and the group of the mount option gid= still see all processes. */
        if (ret->proc_hides && access("/proc/1/status", R_OK) == 0)
                ret->proc_hides = 0;
}

/* ---- the problems ---- */

static bool is_refused(int code)
{
        return code != 0 && code != DOCTOR_UNTRIED;
}

static size_t refused_calls(const struct doctor_system *f, bool needed)
{
        char text[1024];

        return refused_calls_list(&f->calls, needed, text, sizeof(text));
}

#define PROBLEM(function, ...) static bool function(const struct doctor_system *f);
#include "supervisor/doctor/problems.def"
#undef PROBLEM

/* Docker's default profile, RuntimeDefault of Kubernetes and RestrictNamespaces= of systemd make the
 * calls fail with EPERM or ENOSYS. Without notifications this is a guess. */
static bool is_container_seccomp(const struct doctor_system *f)
{
        int code = is_refused(f->userns) ? f->userns : f->others;

        if (f->calls.known)
                return refused_calls(f, true) > 0;
        /* Filters usually answer EPERM or ENOSYS, AppArmor EACCES. */
        if (code == EACCES && f->label != DOCTOR_LABEL_NONE)
                return false;
        return f->seccomp_mode == 2 && (code == EPERM || code == ENOSYS || code == EACCES) &&
               !userns_sysctl(f) && !userns_limit(f) && !apparmor_userns(f);
}

/* Something before it failed, so that it was not tried. */
static bool is_open(const struct doctor_system *f, int code)
{
        return code == DOCTOR_UNTRIED && container_seccomp(f);
}

static bool mounts_refused(const struct doctor_system *f)
{
        return is_refused(f->mounting) || is_refused(f->root) || is_open(f, f->mounting);
}

/* The trial of host ids mounts too. When that is refused, no other mount is tried. */
static bool label_refuses(const struct doctor_system *f, enum doctor_label label)
{
        return f->label == label && (f->userns == EACCES || mounts_refused(f));
}

#define PROBLEM(function, name, state, condition, why, fix)                                        \
        static bool function(const struct doctor_system *f)                                        \
        {                                                                                          \
                return condition;                                                                  \
        }
#include "supervisor/doctor/problems.def"
#undef PROBLEM

const struct doctor_problem doctor_problems[] = {
#define PROBLEM(function, name, state, condition, why, fix)                                        \
        {(name), DOCTOR_##state, function, (why), (fix)},
#include "supervisor/doctor/problems.def"
#undef PROBLEM
};

const size_t doctor_n_problems = sizeof(doctor_problems) / sizeof(doctor_problems[0]);

/* ---- the command that lifts what keeps Cloister from running ---- */

static void append(char *text, size_t size, const char *more)
{
        size_t used = strlen(text);

        snprintf(text + used, size - used, "%s", more);
}

#define PROFILE "examples/containers/seccomp.json"

/* The option of each runtime against each problem. */
static const struct {
        bool (*holds)(const struct doctor_system *f);
        const char *docker, *podman, *unit;
} options[] = {
        {container_seccomp, " --security-opt seccomp=" PROFILE, " --security-opt seccomp=" PROFILE,
         " RestrictNamespaces=no SystemCallFilter="},
        {apparmor_profile, " --security-opt apparmor=unconfined",
         " --security-opt apparmor=unconfined", " AppArmorProfile="},
        {selinux_label, " --security-opt label=disable", " --security-opt label=disable", ""},
        {masked_proc, " --security-opt systempaths=unconfined", " --security-opt unmask=ALL",
         " ProtectKernelTunables=no ProtectKernelLogs=no ProtectHostname=no"},
};

static const struct {
        bool (*holds)(const struct doctor_system *f);
        const char *setting;
} settings[] = {
        {userns_sysctl, " kernel.unprivileged_userns_clone=1"},
        {userns_limit, " user.max_user_namespaces=15000"},
        {apparmor_userns, " kernel.apparmor_restrict_unprivileged_userns=0"},
        {noexec_memfd, " vm.memfd_noexec=1"},
};

static void append_options(const struct doctor_system *f, char *text, size_t size)
{
        for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
                if (!options[i].holds(f))
                        continue;
                append(text, size,
                       f->place == DOCTOR_PLACE_PODMAN ? options[i].podman
                       : f->place == DOCTOR_PLACE_UNIT ? options[i].unit
                                                       : options[i].docker);
        }
}

void doctor_remedy(const struct doctor_system *f, char *ret, size_t size)
{
        static const char *const starts[] = {
                [DOCTOR_PLACE_HOST] = "docker run",
                [DOCTOR_PLACE_DOCKER] = "docker run",
                [DOCTOR_PLACE_PODMAN] = "podman run",
                [DOCTOR_PLACE_KUBERNETES] = "",
                [DOCTOR_PLACE_CONTAINER] = "docker run",
                [DOCTOR_PLACE_UNIT] = "systemd-run",
                [DOCTOR_PLACE_GITLAB] = "",
                [DOCTOR_PLACE_GITHUB] = "container.options:",
        };
        char chosen[512] = "", sysctls[256] = "";

        ret[0] = '\0';
        append_options(f, chosen, sizeof(chosen));
        for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
                if (settings[i].holds(f))
                        append(sysctls, sizeof(sysctls), settings[i].setting);
        if (sysctls[0])
                snprintf(ret, size, "sysctl -w%s", sysctls);
        if (!chosen[0])
                return;
        if (sysctls[0])
                append(ret, size, " && ");
        append(ret, size,
               f->place == DOCTOR_PLACE_KUBERNETES ? "kubectl apply -f examples/containers/pod.yaml"
               : f->place == DOCTOR_PLACE_GITLAB
                       ? "in config.toml of a runner that only these jobs use: [runners.docker] privileged = true (docs/ci.md)"
                       : starts[f->place]);
        if (f->place == DOCTOR_PLACE_KUBERNETES || f->place == DOCTOR_PLACE_GITLAB)
                return;
        if (f->place != DOCTOR_PLACE_UNIT) {
                append(ret, size, chosen);
                append(ret, size, f->place == DOCTOR_PLACE_GITHUB ? "" : " IMAGE");
                return;
        }
        for (char *word = strtok(chosen, " "); word; word = strtok(NULL, " ")) {
                append(ret, size, " -p ");
                append(ret, size, word);
        }
        append(ret, size, " cloister mcp");
}
