/* The doctor's checks of the kernel: version, ids, namespaces, proc, filters, memfd, core dumps. */
#include "supervisor/doctor/kernel.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/limits.h"
#include "supervisor/doctor/findings.h"
#include "supervisor/doctor/trial.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/ids/ids.h"

/* mount_setattr(2) came with 5.12, cgroup.kill with 5.14. */
enum { KERNEL_MAJOR = 5, KERNEL_MINOR = 12, KERNEL_MINOR_KILL = 14 };

static void check_version(struct doctor *d)
{
        struct utsname name;
        int major = 0, minor = 0;

        uname(&name);
        sscanf(name.release, "%d.%d", &major, &minor);
        enum doctor_state state = DOCTOR_EFFECTIVE;
        if (major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR))
                state = DOCTOR_MISSING;
        else if (major == KERNEL_MAJOR && minor < KERNEL_MINOR_KILL)
                state = DOCTOR_DEGRADED;
        doctor_add(d, "kernel", state, true,
                   "boot a kernel of 5.14 or later (5.12 is the least that works)",
                   "Linux %s on %s", name.release, name.machine);
}

static void check_privilege(struct doctor *d, const struct ids *ids)
{
        if (ids->by_helper)
                doctor_add(
                        d, "privilege", DOCTOR_EFFECTIVE, true, NULL,
                        "rootless: each session runs as a host id of its own, from %u of your subordinate ids such as %u (chosen at each start)",
                        ids->count, ids->first);
        else if (ids->mode == SANDBOX_ROOTLESS)
                doctor_add(
                        d, "privilege", DOCTOR_EFFECTIVE, true, NULL,
                        "rootless: every session runs as your own uid %u in a user namespace of its own (%s)",
                        ids->first, ids->note);
        else
                doctor_add(
                        d, "privilege", DOCTOR_EFFECTIVE, true, NULL,
                        "%s: each session runs as a host id of its own, from %u ids such as %u (chosen at each start)",
                        ids_mode_name(ids->mode), ids->count, ids->first);
}

static void append_failure(char *text, size_t size, const char *name, int code)
{
        size_t used = strlen(text);

        /* The text of a step ends with that of its error. */
        if (code != 0 && code != TRIAL_NOT_DONE)
                snprintf(text + used, size - used, strchr(name, ':') ? "%s%s" : "%s%s: %s",
                         used ? ", " : "", name, strerrordesc_np(code));
}

static void check_namespaces(struct doctor *d, const struct trial *t)
{
        const struct {
                const char *name;
                int code;
        } items[] = {
                {"mount namespace", t->mount_namespace},
                {"mount of a tmpfs", t->mount},
                {"net", t->net_namespace},
                {"ipc", t->ipc_namespace},
                {"uts", t->uts_namespace},
                {"cgroup", t->cgroup_namespace},
                {"pid", t->pid_namespace},
                {t->root_step, t->root},
        };
        char failed[400] = "";
        int first = 0;

        for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
                append_failure(failed, sizeof(failed), items[i].name, items[i].code);
                first = first ? first : items[i].code;
        }
        if (failed[0])
                doctor_add(d, "namespaces", DOCTOR_MISSING, true, ids_namespace_hint(first),
                           "refused: %s", failed);
        else
                doctor_add(d, "namespaces", DOCTOR_EFFECTIVE, true, NULL,
                           "user, pid, mount, net, ipc, uts and cgroup, and mounts inside");
}

static void check_proc(struct doctor *d, const struct trial *t)
{
        int code = t->proc ? t->proc : t->proc_subset;

        if (code == 0)
                doctor_add(d, "proc", DOCTOR_EFFECTIVE, true, NULL,
                           "a fresh one in a pid namespace, restricted with subset=pid");
        else
                doctor_add(
                        d, "proc", DOCTOR_MISSING, true,
                        "the kernel requires an unmasked /proc here: docker run --security-opt systempaths=unconfined; in a systemd unit no ProtectKernelTunables=, ProtectKernelLogs= or ProtectHostname=",
                        "no fresh /proc can be mounted: %s", strerrordesc_np(code));
}

static void check_filters(struct doctor *d, const struct trial *t)
{
        if (t->no_new_privs == 0 && t->seccomp == 0)
                doctor_add(d, "seccomp", DOCTOR_EFFECTIVE, true, NULL,
                           "filters load and deny; no_new_privs holds");
        else
                doctor_add(
                        d, "seccomp", DOCTOR_MISSING, true,
                        "a kernel with CONFIG_SECCOMP_FILTER, and no policy that forbids seccomp(2)",
                        "no filter can be loaded: %s",
                        strerrordesc_np(t->seccomp ? t->seccomp : t->no_new_privs));
        if (t->landlock_abi > 0)
                doctor_add(d, "landlock", DOCTOR_EFFECTIVE, false, NULL, "ABI %d", t->landlock_abi);
        else
                doctor_add(
                        d, "landlock", DOCTOR_MISSING, false,
                        "boot with landlock in the lsm= list (kernel 5.13 or later); the other layers hold without it",
                        "this kernel has none, or it is off");
}

static void check_memfd(struct doctor *d)
{
        struct error error = {0};
        struct stat st;
        _cleanup_close_ int fd = fd_sealed("cloister-doctor", "", 0, &error);

        if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & S_IXUSR))
                doctor_add(d, "memfd", DOCTOR_EFFECTIVE, true, NULL,
                           "sealed memory files can be executed");
        else
                doctor_add(d, "memfd", DOCTOR_MISSING, true, "sysctl vm.memfd_noexec=0 (or 1)",
                           "programs cannot run from sealed memory: %s",
                           fd < 0 ? error.text : "it is not executable");
}

/* RLIMIT_CORE 1 stops a pipe handler. No limit stops a handler that starts with @, a socket (Linux
 * 6.16). */
static void check_core_pattern(struct doctor *d)
{
        char pattern[256] = "";

        cgroup_read(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof(pattern));
        pattern[strcspn(pattern, "\n")] = '\0';
        doctor_add(d, "core dumps", pattern[0] == '@' ? DOCTOR_DEGRADED : DOCTOR_EFFECTIVE, false,
                   "sysctl kernel.core_pattern=core, or a handler that starts with |",
                   pattern[0] == '@'
                           ? "a sandbox's memory may go to the socket of core_pattern \"%s\""
                           : "none leaves a sandbox (core_pattern \"%s\")",
                   pattern);
}

static void take_results(struct doctor_system *system, const struct trial *t)
{
        const int others[] = {t->mount_namespace, t->net_namespace,    t->ipc_namespace,
                              t->uts_namespace,   t->cgroup_namespace, t->pid_namespace};

        system->userns = 0;
        system->mounting = t->mount;
        system->proc = t->proc ? t->proc : t->proc_subset;
        system->root = t->root;
        system->landlock = t->landlock_abi;
        system->others = 0;
        for (size_t i = 0; i < ARRAY_SIZE(others) && system->others == 0; i++)
                system->others = others[i];
}

static void check_calls(struct doctor *d)
{
        struct refused_calls *calls = &d->system->calls;
        char refused[500], optional[500];

        refused_calls_try(calls);
        size_t n = refused_calls_list(calls, true, refused, sizeof(refused));
        size_t n_optional = refused_calls_list(calls, false, optional, sizeof(optional));
        if (!calls->known)
                doctor_add(d, "system calls", DOCTOR_EFFECTIVE, false, NULL,
                           "this kernel cannot tell which calls a filter refuses");
        else if (n > 0)
                doctor_add(d, "system calls", DOCTOR_MISSING, true,
                           "a seccomp profile that allows them: examples/containers/seccomp.json",
                           "a seccomp filter around this process refuses %s", refused);
        else if (n_optional > 0)
                doctor_add(d, "system calls", DOCTOR_DEGRADED, false,
                           "a seccomp profile that allows them: examples/containers/seccomp.json",
                           "a seccomp filter around this process refuses %s", optional);
        else
                doctor_add(d, "system calls", DOCTOR_EFFECTIVE, true, NULL,
                           "no filter refuses one that makes a sandbox");
}

static uint32_t ids_needed(void)
{
        struct sysinfo info;

        if (sysinfo(&info) < 0)
                return 2;
        return limits_sessions_max((uint64_t)info.totalram * info.mem_unit) + 2;
}

void doctor_check_kernel(struct doctor *d)
{
        struct error error = {0};
        struct trial trial;
        struct ids ids;

        check_version(d);
        check_calls(d);
        if (ids_choose(0, 0, ids_needed(), &ids, &error) < 0) {
                doctor_add(d, "privilege", DOCTOR_MISSING, true, NULL, "%s", error.text);
                d->system->ordinary = geteuid() != 0;
                d->system->userns = error.code;
        } else {
                check_privilege(d, &ids);
                d->system->ordinary = ids.mode == SANDBOX_ROOTLESS;
                d->system->own_id = ids.count == 1;
                if (trial_run(&ids, &trial, &error) < 0) {
                        doctor_add(d, "namespaces", DOCTOR_MISSING, true,
                                   ids_namespace_hint(error.code), "%s", error.text);
                        d->system->userns = error.code;
                } else {
                        take_results(d->system, &trial);
                        check_namespaces(d, &trial);
                        check_proc(d, &trial);
                        check_filters(d, &trial);
                }
        }
        check_memfd(d);
        check_core_pattern(d);
}
