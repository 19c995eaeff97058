/* The state of the system: sysctls, mounts of proc, the filter of this process. */
#include "supervisor/doctor/system.h"

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

void doctor_proc_mounts(const char *mountinfo, int *masks, int *hides)
{
        *masks = *hides = 0;
        for (const char *line = mountinfo; *line;) {
                size_t n = strcspn(line, "\n");
                char text[2048], point[1024] = "", type[64] = "";
                snprintf(text, sizeof(text), "%.*s", (int)n, line);
                const char *rest = strstr(text, " - ");
                if (rest && sscanf(text, "%*s %*s %*s %*s %1023s", point) == 1 &&
                    sscanf(rest, " - %63s", type) == 1) {
                        if (strcmp(point, "/proc") == 0 && strcmp(type, "proc") == 0)
                                *hides = hidepid_of(text);
                        /* binfmt_misc is mounted everywhere and does not count: it covers an empty
                         * directory that exists for it. */
                        else if (strncmp(point, "/proc/", 6) == 0 &&
                                 strcmp(point, "/proc/sys/fs/binfmt_misc") != 0)
                                ++*masks;
                }
                line += n + (line[n] == '\n');
        }
}

/* "docker-default (enforce)": what is in parentheses says whether the profile forbids anything. */
static enum doctor_label apparmor_label(const char *mode)
{
        return strncmp(mode, " (enforce)", 10) == 0 || strncmp(mode, " (kill)", 7) == 0 ||
                               strncmp(mode, " (mixed)", 8) == 0
                       ? DOCTOR_LABEL_APPARMOR
                       : DOCTOR_LABEL_NONE;
}

/* user:role:type:level, of which the type decides: a container of Podman without root has
 * unconfined_u:system_r:container_t. spc_t is that of a privileged container. */
static enum doctor_label selinux_label(const char *text)
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
        return mode ? apparmor_label(mode) : selinux_label(text);
}

static enum doctor_place find_place(int seccomp_mode, int proc_masks)
{
        if (access("/var/run/secrets/kubernetes.io", F_OK) == 0 ||
            getenv("KUBERNETES_SERVICE_HOST"))
                return DOCTOR_PLACE_KUBERNETES;
        if (access("/run/.containerenv", F_OK) == 0)
                return DOCTOR_PLACE_PODMAN;
        if (access("/.dockerenv", F_OK) == 0)
                return DOCTOR_PLACE_DOCKER;
        if (getenv("INVOCATION_ID") && getppid() == 1)
                return DOCTOR_PLACE_UNIT;
        return seccomp_mode == 2 || proc_masks > 0 ? DOCTOR_PLACE_CONTAINER : DOCTOR_PLACE_HOST;
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
        };
        if (cgroup_read(AT_FDCWD, "/proc/self/status", status, sizeof(status)) > 0)
                ret->seccomp_mode = doctor_seccomp_mode(status);
        _cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && fd_read_whole(fd, MOUNTINFO_MAX, &mountinfo, &length, NULL) >= 0)
                doctor_proc_mounts(mountinfo, &ret->proc_masks, &ret->proc_hides);
        if (cgroup_read(AT_FDCWD, "/proc/self/attr/current", ret->label_text,
                        sizeof(ret->label_text)) > 0)
                ret->label = doctor_label_kind(ret->label_text);
        ret->label_text[strcspn(ret->label_text, "\n")] = '\0';
        ret->place = find_place(ret->seccomp_mode, ret->proc_masks);
        /* Privileged processes and the group of the mount option gid= still see all processes. */
        if (ret->proc_hides && access("/proc/1/status", R_OK) == 0)
                ret->proc_hides = 0;
}
