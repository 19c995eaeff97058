/* The table of known problems. */
#include "supervisor/doctor/findings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static bool is_refused(int code)
{
        return code != 0 && code != DOCTOR_UNTRIED;
}

static bool userns_sysctl(const struct doctor_system *f)
{
        return f->ordinary && f->userns_clone == 0 && is_refused(f->userns);
}

static bool userns_limit(const struct doctor_system *f)
{
        return f->userns_least == 0 && (is_refused(f->userns) || is_refused(f->others));
}

static bool apparmor_userns(const struct doctor_system *f)
{
        return f->ordinary && f->apparmor_restricts != 0 &&
               (is_refused(f->userns) || is_refused(f->mounting));
}

static size_t refused_calls(const struct doctor_system *f, bool needed)
{
        char text[1024];

        return refused_calls_list(&f->calls, needed, text, sizeof(text));
}

/* Docker's default profile, RuntimeDefault of Kubernetes and RestrictNamespaces= of systemd make the
 * calls fail with EPERM or ENOSYS. Without notifications this is a guess. */
static bool container_seccomp(const struct doctor_system *f)
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

static bool optional_calls(const struct doctor_system *f)
{
        return refused_calls(f, false) > 0;
}

static bool chroot_around(const struct doctor_system *f)
{
        return f->chrooted && f->userns == EPERM && !userns_sysctl(f) && !container_seccomp(f);
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

static bool apparmor_profile(const struct doctor_system *f)
{
        return !apparmor_userns(f) && label_refuses(f, DOCTOR_LABEL_APPARMOR);
}

static bool selinux_label(const struct doctor_system *f)
{
        return label_refuses(f, DOCTOR_LABEL_SELINUX);
}

static bool masked_proc(const struct doctor_system *f)
{
        return (is_refused(f->proc) || is_open(f, f->proc)) && f->proc_masks > 0;
}

static bool hidden_proc(const struct doctor_system *f)
{
        return f->ordinary && f->proc_hides > 0;
}

static bool noexec_store(const struct doctor_system *f)
{
        return f->image == EACCES;
}

static bool noexec_memfd(const struct doctor_system *f)
{
        return f->memfd_noexec >= 2;
}

static bool no_delegation(const struct doctor_system *f)
{
        return f->limits == DOCTOR_LIMITS_UNDELEGATED;
}

static bool no_cpu_delegation(const struct doctor_system *f)
{
        return f->limits == DOCTOR_LIMITS_NO_CPU;
}

static bool no_nsdelegate(const struct doctor_system *f)
{
        return f->ordinary && f->own_id && f->limits_own;
}

static bool no_cgroup(const struct doctor_system *f)
{
        return f->limits == DOCTOR_LIMITS_NONE;
}

static bool no_subordinate_ids(const struct doctor_system *f)
{
        return f->ordinary && f->own_id;
}

static bool no_landlock(const struct doctor_system *f)
{
        return f->landlock == 0;
}

static bool core_socket(const struct doctor_system *f)
{
        return f->core_pattern == '@';
}

static bool open_ptrace(const struct doctor_system *f)
{
        return f->ptrace_scope == 0;
}

const struct doctor_problem doctor_problems[] = {
        {"userns-sysctl", DOCTOR_MISSING, userns_sysctl,
         "kernel.unprivileged_userns_clone is 0: ordinary users may make no user namespace",
         "sysctl -w kernel.unprivileged_userns_clone=1, and the same in /etc/sysctl.d"},
        {"userns-limit", DOCTOR_MISSING, userns_limit,
         "one of user.max_*_namespaces is 0: namespaces of that kind may not be made here",
         "raise it: sysctl -w user.max_user_namespaces=15000 (and its siblings that are 0)"},
        {"apparmor-userns", DOCTOR_MISSING, apparmor_userns,
         "AppArmor takes the privileges of user namespaces from programs without a profile (kernel.apparmor_restrict_unprivileged_userns, Ubuntu 23.10 and later)",
         "load a profile that allows them to Cloister alone (examples/apparmor-cloister says how), or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
        {"container-seccomp", DOCTOR_MISSING, container_seccomp,
         "a seccomp filter around this process refuses system calls that make a sandbox, as Docker's default profile, Kubernetes' RuntimeDefault and systemd's RestrictNamespaces= do",
         "docker run --security-opt seccomp=examples/containers/seccomp.json, the same for podman; Kubernetes: examples/containers/pod.yaml; in a systemd unit no RestrictNamespaces="},
        {"apparmor-profile", DOCTOR_MISSING, apparmor_profile,
         "an AppArmor profile confines this process and forbids mounts, as docker-default does",
         "docker run --security-opt apparmor=unconfined; Kubernetes appArmorProfile: {type: Unconfined}"},
        {"selinux-label", DOCTOR_MISSING, selinux_label,
         "SELinux confines this process and forbids mounts, as it does in containers",
         "podman run --security-opt label=disable"},
        {"chroot", DOCTOR_MISSING, chroot_around,
         "this process is in a chroot, and the kernel gives no user namespace to one",
         "start Cloister outside of it, or enter that root with systemd-nspawn -D, bwrap or a container instead of chroot"},
        {"masked-proc", DOCTOR_MISSING, masked_proc,
         "parts of /proc are covered by mounts, and the kernel then gives no fresh /proc to a user namespace",
         "docker run --security-opt systempaths=unconfined; podman run --security-opt unmask=ALL; Kubernetes procMount: Unmasked; in a systemd unit no ProtectKernelTunables=, ProtectKernelLogs= or ProtectHostname="},
        {"hidden-proc", DOCTOR_MISSING, hidden_proc,
         "/proc is mounted with hidepid, so that Cloister does not see its own sandboxes",
         "mount -o remount,hidepid=0 /proc, or give your group sight: mount -o remount,hidepid=2,gid=GROUP /proc"},
        {"noexec-store", DOCTOR_MISSING, noexec_store,
         "the store of images lies on a file system mounted noexec: nothing in it can run",
         "CLOISTER_IMAGE_STORE=/a/folder/elsewhere, or remount it with exec"},
        {"noexec-memfd", DOCTOR_MISSING, noexec_memfd,
         "vm.memfd_noexec is 2: programs cannot run from sealed memory",
         "sysctl -w vm.memfd_noexec=1"},
        {"no-delegation", DOCTOR_DEGRADED, no_delegation,
         "no control group was delegated to Cloister and systemd gave none: the monitor ends sessions over their memory limit a few milliseconds later; processor time and kernel memory are not bounded",
         "loginctl enable-linger USER starts the user manager that gives one; or start Cloister with systemd-run --user --scope -p Delegate=yes; a service unit: Delegate=yes"},
        {"no-cpu-delegation", DOCTOR_DEGRADED, no_cpu_delegation,
         "the user manager has no cpu controller to give: a session's share of the processors is not bounded",
         "systemctl edit user@.service, add [Service] Delegate=cpu memory pids, systemctl daemon-reload, and log in again"},
        {"no-nsdelegate", DOCTOR_DEGRADED, no_nsdelegate,
         "cgroup version 2 is mounted without nsdelegate, and sandboxes have your own uid: hostile code of an image can change the limits of its control group",
         "mount -o remount,nsdelegate /sys/fs/cgroup, on the host and as root, as systemd does; or add subordinate ids (no-subordinate-ids)"},
        {"no-cgroup", DOCTOR_DEGRADED, no_cgroup,
         "there is no control group hierarchy that this user may use: the monitor ends sessions over their memory limit a few milliseconds later; processor time and kernel memory are not bounded",
         "boot with cgroup version 2 (systemd.unified_cgroup_hierarchy=1); in a container mount /sys/fs/cgroup writable (docker run --cgroupns=private with a runtime that allows it), or start Cloister as root"},
        {"no-subordinate-ids", DOCTOR_DEGRADED, no_subordinate_ids,
         "all sessions run as your own uid; namespaces and filters keep them apart, distinct ids would as well",
         "apt install uidmap, then usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER"},
        {"optional-calls", DOCTOR_DEGRADED, optional_calls,
         "a seccomp filter around this process refuses system calls that Cloister can do without: without sethostname sandboxes show this machine's host name; without openat2 no host directory can be mounted, and --out and the import of images fail; without close_range sessions start more slowly; without landlock_create_ruleset a layer is missing",
         "use examples/containers/seccomp.json as the container's profile"},
        {"no-landlock", DOCTOR_DEGRADED, no_landlock,
         "this kernel has no Landlock, or it is off: one layer less",
         "boot a kernel of 5.13 or later with landlock in lsm="},
        {"core-pattern-socket", DOCTOR_DEGRADED, core_socket,
         "core_pattern begins with @, a socket: a crash inside sends a sandbox's memory to it, which no limit stops",
         "sysctl -w kernel.core_pattern=core, or a handler that begins with |"},
        {"yama-off", DOCTOR_DEGRADED, open_ptrace,
         "kernel.yama.ptrace_scope is 0: any program of yours can read the memory, so the credentials, of your MCP servers (not of Cloister)",
         "sysctl -w kernel.yama.ptrace_scope=1"},
};

const size_t doctor_n_problems = sizeof(doctor_problems) / sizeof(doctor_problems[0]);

/* ---- the command that lifts what keeps Cloister from running ---- */

static bool has(const struct doctor_system *f, const char *name)
{
        for (size_t i = 0; i < doctor_n_problems; i++)
                if (strcmp(doctor_problems[i].name, name) == 0)
                        return doctor_problems[i].holds(f);
        return false;
}

static void append(char *text, size_t size, const char *more)
{
        size_t used = strlen(text);

        snprintf(text + used, size - used, "%s", more);
}

#define PROFILE "examples/containers/seccomp.json"

/* The option of each runtime against each problem. */
static const struct {
        const char *problem, *docker, *podman, *unit;
} options[] = {
        {"container-seccomp", " --security-opt seccomp=" PROFILE,
         " --security-opt seccomp=" PROFILE, " RestrictNamespaces=no SystemCallFilter="},
        {"apparmor-profile", " --security-opt apparmor=unconfined",
         " --security-opt apparmor=unconfined", " AppArmorProfile="},
        {"selinux-label", " --security-opt label=disable", " --security-opt label=disable", ""},
        {"masked-proc", " --security-opt systempaths=unconfined", " --security-opt unmask=ALL",
         " ProtectKernelTunables=no ProtectKernelLogs=no ProtectHostname=no"},
};

static const struct {
        const char *problem, *setting;
} settings[] = {
        {"userns-sysctl", " kernel.unprivileged_userns_clone=1"},
        {"userns-limit", " user.max_user_namespaces=15000"},
        {"apparmor-userns", " kernel.apparmor_restrict_unprivileged_userns=0"},
        {"noexec-memfd", " vm.memfd_noexec=1"},
};

static void append_options(const struct doctor_system *f, char *text, size_t size)
{
        for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
                if (!has(f, options[i].problem))
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
                [DOCTOR_PLACE_HOST] = "docker run",      [DOCTOR_PLACE_DOCKER] = "docker run",
                [DOCTOR_PLACE_PODMAN] = "podman run",    [DOCTOR_PLACE_KUBERNETES] = "",
                [DOCTOR_PLACE_CONTAINER] = "docker run", [DOCTOR_PLACE_UNIT] = "systemd-run",
        };
        char chosen[512] = "", sysctls[256] = "";

        ret[0] = '\0';
        append_options(f, chosen, sizeof(chosen));
        for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
                if (has(f, settings[i].problem))
                        append(sysctls, sizeof(sysctls), settings[i].setting);
        if (sysctls[0])
                snprintf(ret, size, "sysctl -w%s", sysctls);
        if (!chosen[0])
                return;
        if (sysctls[0])
                append(ret, size, " && ");
        append(ret, size,
               f->place == DOCTOR_PLACE_KUBERNETES ? "kubectl apply -f examples/containers/pod.yaml"
                                                   : starts[f->place]);
        if (f->place == DOCTOR_PLACE_KUBERNETES)
                return;
        if (f->place != DOCTOR_PLACE_UNIT) {
                append(ret, size, chosen);
                append(ret, size, " IMAGE");
                return;
        }
        for (char *word = strtok(chosen, " "); word; word = strtok(NULL, " ")) {
                append(ret, size, " -p ");
                append(ret, size, word);
        }
        append(ret, size, " cloister mcp");
}
