/* The command that lifts what keeps Cloister from running. */
#include "supervisor/doctor/remedy.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/doctor/findings.h"

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
