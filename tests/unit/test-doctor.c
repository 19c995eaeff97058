/* The doctor: its report of this machine, and of a namespace that lacks something. */
#include "supervisor/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "supervisor/doctor/attack-rows.h"
#include "supervisor/doctor/findings.h"
#include "supervisor/doctor/kernel.h"
#include "supervisor/doctor/report.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "tests/unit/test.h"

/* Runs fn in a child and returns its standard output. */
static char *output_of(void (*fn)(void))
{
        int ends[2], status;
        char *text;
        size_t length;
        struct error err = {0};

        check_eq_int(pipe2(ends, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (pid == 0) {
                dup2(ends[1], STDOUT_FILENO);
                fn();
                _exit(0);
        }
        close(ends[1]);
        check_ok(fd_read_whole(ends[0], 1 << 20, &text, &length, &err));
        close(ends[0]);
        check_eq_int(waitpid(pid, &status, 0), pid);
        check_eq_int(status, 0);
        return text;
}

static struct doctor_system state;
static struct doctor doctor = {.system = &state};

static const struct doctor_finding *find(const char *name)
{
        for (size_t i = 0; i < doctor.count; i++) {
                if (strcmp(doctor.items[i].name, name) == 0)
                        return &doctor.items[i];
        }
        return NULL;
}

static const struct doctor_system healthy = {.userns_clone = 1,
                                             .userns_least = 100,
                                             .ptrace_scope = 1,
                                             .landlock = 7,
                                             .core_pattern = 'c'};

/* The names of the findings that hold, each with a space behind it. */
static const char *found(const struct doctor_system *f)
{
        static char names[512];

        names[0] = '\0';
        for (size_t i = 0; i < doctor_n_problems; i++) {
                if (doctor_problems[i].holds(f))
                        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s ",
                                 doctor_problems[i].name);
        }
        return names;
}

#define check_found(expected, ...)                                                                 \
        do {                                                                                       \
                struct doctor_system facts_ = healthy;                                             \
                struct doctor_system *f = &facts_;                                                 \
                __VA_ARGS__;                                                                       \
                check_eq_str(found(f), expected);                                                  \
        } while (0)

static size_t index_of(const char *call)
{
        size_t i = 0;

        while (strcmp(refused_call_name(i), call) != 0)
                i++;
        return i;
}

static void test_findings(void)
{
        check_found("", (void)f);
        check_found("userns-sysctl ", f->ordinary = true; f->userns_clone = 0; f->userns = EPERM);
        check_found("", f->userns_clone = 0); /* does not restrict root */
        check_found("userns-limit ", f->userns_least = 0; f->userns = ENOSPC);
        check_found("", f->userns_least = 0); /* a limit of a namespace that is not used */
        check_found("userns-limit ", f->userns_least = 0; f->others = ENOSPC);
        check_found("apparmor-userns ", f->ordinary = true; f->apparmor_restricts = 1;
                    f->mounting = EACCES);
        check_found("", f->ordinary = true; f->apparmor_restricts = 1); /* a profile allows it */
        check_found("container-seccomp ", f->seccomp_mode = 2; f->userns = EPERM);
        check_found("container-seccomp ", f->seccomp_mode = 2; f->others = ENOSYS);
        check_found("", f->seccomp_mode = 2);
        check_found("container-seccomp ", f->calls = (struct refused_calls){true, {EPERM}});
        check_found("", f->calls.known = true; f->seccomp_mode = 2; f->userns = EPERM);
        check_found("optional-calls ", f->calls.known = true;
                    f->calls.codes[index_of("sethostname")] = ENOSYS);
        check_found("apparmor-profile ", f->label = DOCTOR_LABEL_APPARMOR; f->mounting = EACCES);
        check_found("", f->label = DOCTOR_LABEL_APPARMOR);
        /* It refused the mount by which host ids are tried: nothing after it was tried. */
        check_found("apparmor-profile ", f->label = DOCTOR_LABEL_APPARMOR; f->userns = EACCES;
                    f->mounting = DOCTOR_UNTRIED; f->root = DOCTOR_UNTRIED);
        check_found("", f->label = DOCTOR_LABEL_APPARMOR; f->userns = EPERM;
                    f->mounting = DOCTOR_UNTRIED; f->root = DOCTOR_UNTRIED);
        /* Where filters cannot be asked, the error tells who refuses. */
        check_found("apparmor-profile ", f->seccomp_mode = 2; f->others = EACCES;
                    f->label = DOCTOR_LABEL_APPARMOR; f->mounting = EACCES);
        check_found("container-seccomp ", f->seccomp_mode = 2; f->others = EACCES);
        check_found("apparmor-profile ", f->label = DOCTOR_LABEL_APPARMOR; f->root = EACCES);
        check_found("selinux-label ", f->label = DOCTOR_LABEL_SELINUX; f->mounting = EACCES);
        /* A filter keeps the rest from being tried: what is likely is named as well. */
        check_found("container-seccomp apparmor-profile masked-proc ",
                    f->calls = (struct refused_calls){true, {EPERM}};
                    f->label = DOCTOR_LABEL_APPARMOR; f->proc_covers.n = 3;
                    f->mounting = f->proc = DOCTOR_UNTRIED);
        check_found("chroot ", f->chrooted = true; f->userns = EPERM);
        check_found("", f->chrooted = true); /* root's mode may do without */
        check_found("", f->userns = EPERM);
        check_found("container-seccomp ", f->chrooted = true; f->seccomp_mode = 2;
                    f->userns = EPERM);
        check_found("masked-proc ", f->proc = EPERM; f->proc_covers.n = 3);
        check_found("foreign-proc ", f->proc_is_foreign = true);
        check_found("read-only-proc ", f->userns = EROFS; f->proc_covers.is_read_only = true);
        check_found("", f->proc_covers.is_read_only = true);
        check_found("", f->proc_covers.n = 3); /* root of this machine can mount /proc */
        check_found("hidden-proc ", f->ordinary = true; f->proc_hides = 2);
        check_found("noexec-store ", f->image = EACCES);
        check_found("noexec-memfd ", f->memfd_noexec = 2);
        check_found("no-delegation ", f->limits = DOCTOR_LIMITS_UNDELEGATED);
        check_found("no-cpu-delegation ", f->limits = DOCTOR_LIMITS_NO_CPU);
        check_found("no-nsdelegate no-subordinate-ids ", f->ordinary = true; f->own_id = true;
                    f->limits_own = true);
        check_found("", f->limits_own = true); /* sandboxes have other ids */
        check_found("no-cgroup ", f->limits = DOCTOR_LIMITS_NONE);
        check_found("unit-memory ", f->place = DOCTOR_PLACE_UNIT; f->is_bounded = true);
        check_found("", f->is_bounded = true); /* a container's limit is its machine */
        check_found("", f->place = DOCTOR_PLACE_UNIT);
        check_found("no-subordinate-ids ", f->ordinary = true; f->own_id = true);
        check_found("no-landlock ", f->landlock = 0);
        check_found("core-pattern-socket ", f->core_pattern = '@');
        check_found("", f->core_pattern = '|');
        check_found("yama-off ", f->ptrace_scope = 0);
}

static const char *remedy_of(const struct doctor_system *f)
{
        static char command[1024];

        doctor_remedy(f, command, sizeof(command));
        return command;
}

static void test_remedy(void)
{
        struct doctor_system f = healthy;

        check_eq_str(remedy_of(&f), "");
        f.calls = (struct refused_calls){true, {EPERM}};
        f.proc_covers.n = 3;
        f.proc = f.mounting = DOCTOR_UNTRIED;
        f.place = DOCTOR_PLACE_DOCKER;
        check_eq_str(
                remedy_of(&f),
                "docker run --security-opt seccomp=examples/containers/seccomp.json --security-opt systempaths=unconfined IMAGE");
        f.place = DOCTOR_PLACE_PODMAN;
        f.label = DOCTOR_LABEL_SELINUX;
        check_eq_str(
                remedy_of(&f),
                "podman run --security-opt seccomp=examples/containers/seccomp.json --security-opt label=disable --security-opt unmask=ALL IMAGE");
        f.place = DOCTOR_PLACE_KUBERNETES;
        check_eq_str(remedy_of(&f), "kubectl apply -f examples/containers/pod.yaml");
        f.place = DOCTOR_PLACE_GITLAB;
        check_eq_str(
                remedy_of(&f),
                "in config.toml of a runner that only these jobs use: [runners.docker] privileged = true (docs/ci.md)");
        f.place = DOCTOR_PLACE_GITHUB;
        f.label = DOCTOR_LABEL_NONE;
        check_eq_str(
                remedy_of(&f),
                "container.options: --security-opt seccomp=examples/containers/seccomp.json --security-opt systempaths=unconfined");
        f.label = DOCTOR_LABEL_SELINUX;
        f.place = DOCTOR_PLACE_UNIT;
        f.label = DOCTOR_LABEL_NONE;
        check_eq_str(
                remedy_of(&f),
                "systemd-run -p RestrictNamespaces=no -p SystemCallFilter= -p ProtectKernelTunables=no -p ProtectKernelLogs=no -p ProtectHostname=no cloister mcp");
        f = healthy;
        f.ordinary = true;
        f.userns_clone = 0;
        f.userns = EPERM;
        check_eq_str(remedy_of(&f), "sysctl -w kernel.unprivileged_userns_clone=1");
}

static void test_label(void)
{
        check_eq_int(doctor_label_kind("docker-default (enforce)\n"), DOCTOR_LABEL_APPARMOR);
        check_eq_int(doctor_label_kind("unconfined\n"), DOCTOR_LABEL_NONE);
        check_eq_int(doctor_label_kind(""), DOCTOR_LABEL_NONE);
        check_eq_int(doctor_label_kind("system_u:system_r:container_t:s0:c1,c2"),
                     DOCTOR_LABEL_SELINUX);
        check_eq_int(doctor_label_kind("unconfined_u:unconfined_r:unconfined_t:s0"),
                     DOCTOR_LABEL_NONE);
        /* Labels of AppArmor: Docker, containerd, Podman, LXD's namespace, Ubuntu's profiles for
         * programs with user namespaces, a name with parentheses. */
        check_eq_int(doctor_label_kind("cri-containerd.apparmor.d (enforce)\n"),
                     DOCTOR_LABEL_APPARMOR);
        check_eq_int(doctor_label_kind("containers-default-0.50.1 (enforce)\n"),
                     DOCTOR_LABEL_APPARMOR);
        check_eq_int(
                doctor_label_kind("lxd-c1_</var/lib/lxd>//&:lxd-c1_<var-lib-lxd>:p (enforce)\n"),
                DOCTOR_LABEL_APPARMOR);
        check_eq_int(doctor_label_kind("firefox//&unprivileged_userns (mixed)\n"),
                     DOCTOR_LABEL_APPARMOR);
        check_eq_int(doctor_label_kind("/opt/a (b)/c (enforce)\n"), DOCTOR_LABEL_APPARMOR);
        check_eq_int(doctor_label_kind("/usr/sbin/named (complain)\n"), DOCTOR_LABEL_NONE);
        check_eq_int(doctor_label_kind("chrome (unconfined)\n"), DOCTOR_LABEL_NONE);
        /* SELinux: no end of line. Podman without root, a user's shell, a privileged container, a
         * service, the kernel's first label. */
        check_eq_int(doctor_label_kind("unconfined_u:system_r:container_t:s0:c152,c739"),
                     DOCTOR_LABEL_SELINUX);
        check_eq_int(doctor_label_kind("unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023"),
                     DOCTOR_LABEL_NONE);
        check_eq_int(doctor_label_kind("system_u:system_r:spc_t:s0"), DOCTOR_LABEL_NONE);
        check_eq_int(doctor_label_kind("system_u:system_r:unconfined_service_t:s0"),
                     DOCTOR_LABEL_NONE);
        check_eq_int(doctor_label_kind("system_u:system_r:httpd_t:s0"), DOCTOR_LABEL_SELINUX);
        check_eq_int(doctor_label_kind("kernel"), DOCTOR_LABEL_NONE);
}

static void test_attempt(void)
{
        const struct attempt worked = {.done = true};
        const struct attempt failed = {.done = true, .status = 126, .why = "pivot_root"};

        state = healthy;
        doctor = (struct doctor){.system = &state};
        doctor_add(&doctor, "a", DOCTOR_MISSING, true, "mend it", "it seems to be missing");
        check(!doctor_usable(&doctor));
        doctor_take_attempt(&doctor, &worked);
        check(doctor_usable(&doctor));
        check_eq_int(find("a")->state, DOCTOR_DEGRADED);
        doctor = (struct doctor){.system = &state};
        check(doctor_usable(&doctor));
        doctor_take_attempt(&doctor, &failed);
        check(!doctor_usable(&doctor));
        check_has(find("sandbox")->detail, "pivot_root");
        doctor = (struct doctor){.system = &state};
}

static void test_files_of_proc(void)
{
        struct mount_proc_covers covers;
        int hides;

        check_eq_int(doctor_seccomp_mode("Name:\tx\nNoNewPrivs:\t0\nSeccomp:\t2\n"), 2);
        check_eq_int(doctor_seccomp_mode("Name:\tx\n"), 0);
        doctor_proc_mounts("22 1 0:21 / /proc rw,nosuid - proc proc rw\n"
                           "30 22 0:30 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n"
                           "31 22 0:31 / /proc/fs/nfsd rw - nfsd nfsd rw\n"
                           "32 1 0:32 /proc/acpi /process/x rw - tmpfs tmpfs rw\n",
                           &covers, &hides);
        check_eq_int((int)covers.n, 0);
        check(!covers.is_read_only);
        check_eq_int(hides, 0);
        doctor_proc_mounts("22 1 0:21 / /proc ro,nosuid - proc proc rw,hidepid=invisible\n"
                           "31 22 0:5 /null /proc/kcore rw - devtmpfs udev rw\n"
                           "32 22 0:40 / /proc/acpi ro - tmpfs tmpfs ro\n",
                           &covers, &hides);
        check_eq_int((int)covers.n, 2);
        check_eq_str(covers.first, "/proc/kcore");
        check(covers.is_read_only);
        check_eq_int(hides, 2);
        doctor_proc_mounts("22 1 0:21 / /proc rw - proc proc rw,hidepid=1\n", &covers, &hides);
        check_eq_int(hides, 1);
        doctor_proc_mounts("nonsense\n - \n1 2 3 / /proc\n", &covers, &hides);
        check_eq_int((int)covers.n + hides, 0);
}

/* Processors that leave it to each process, those that do not, and processes that have it disabled. */
static void test_speculation(void)
{
#define STATUS(value) "Name:\tx\nSpeculation_Store_Bypass:\t" value "\nThreads:\t1\n"
        static const struct {
                const char *role, *status;
                enum attack_verdict verdict, if_shared;
        } table[] = {
                {"worker", STATUS("thread vulnerable"), ATTACK_OPEN, ATTACK_KNOWN},
                {"identity", STATUS("thread vulnerable"), ATTACK_OPEN, ATTACK_KNOWN},
                {"init", STATUS("thread vulnerable"), ATTACK_OPEN, ATTACK_OPEN},
                {"init", STATUS("thread force mitigated"), ATTACK_HELD, ATTACK_HELD},
                {"worker", STATUS("thread force mitigated"), ATTACK_HELD, ATTACK_HELD},
                {"worker", STATUS("not vulnerable"), ATTACK_HELD, ATTACK_HELD},
                {"worker", STATUS("vulnerable"), ATTACK_HELD, ATTACK_HELD},
                {"worker", "Name:\tx\n", ATTACK_UNTRIED, ATTACK_UNTRIED},
        };
        struct attack_rows rows = {};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                attack_add_speculation(&rows, table[i].role, table[i].status);
                check_eq_int(rows.items[i].verdict, table[i].verdict);
        }
        attack_add(&rows, 127, "identity", "indirect branches", "", "conditional enabled",
                   ATTACK_OPEN);
        attack_add(&rows, 4, "worker", "ptrace", "", "conditional enabled", ATTACK_OPEN);
        check_eq_int(rows.error, 0);
        attack_allow_speculation(&rows);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                check_eq_int(rows.items[i].verdict, table[i].if_shared);
        check_eq_int(rows.items[ARRAY_SIZE(table)].verdict, ATTACK_KNOWN);
        check_eq_int((int)rows.of[ATTACK_OPEN], 2);
        check_eq_int((int)rows.of[ATTACK_KNOWN], 3);
        check_eq_str(rows.items[0].found,
                     "not mitigated for this process: set \"speculation\": \"disabled\"");
        attack_rows_done(&rows);
}

static void test_a_finding_makes_it_unusable(void)
{
        doctor.count = 0;
        state = healthy;
        check(doctor_usable(&doctor));
        state.limits = DOCTOR_LIMITS_NONE;
        check(doctor_usable(&doctor));
        state.image = EACCES;
        check(!doctor_usable(&doctor));
        state = healthy;
}

static void test_usable(void)
{
        state = healthy;
        doctor.count = 0;
        doctor_add(&doctor, "a", DOCTOR_EFFECTIVE, true, "no fix is shown", "fine");
        doctor_add(&doctor, "b", DOCTOR_DEGRADED, true, NULL, "weak");
        doctor_add(&doctor, "c", DOCTOR_MISSING, false, NULL, "absent");
        check(doctor_usable(&doctor));
        check_eq_str(doctor.items[0].fix, "");
        doctor_add(&doctor, "d", DOCTOR_MISSING, true, "do this", "absent \"%s\"",
                   "x\033[2J\302\2332J");
        check(!doctor_usable(&doctor));
}

static void print_json(void)
{
        doctor_print_json(&doctor);
}

static void print_table(void)
{
        doctor_print_table(&doctor, false);
}

static void print_coloured(void)
{
        doctor_print_table(&doctor, true);
}

static void test_json(void)
{
        _cleanup_free_ char *text = output_of(print_json);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {0};

        check_ok(json_parse(text, strlen(text), &doc, &err));
        yyjson_val *root = yyjson_doc_get_root(doc);
        check(yyjson_is_false(yyjson_obj_get(root, "usable")));
        yyjson_val *layers = yyjson_obj_get(root, "layers");
        check_eq_int(yyjson_arr_size(layers), 4);
        check(!yyjson_obj_get(yyjson_arr_get(layers, 0), "fix"));
        yyjson_val *last = yyjson_arr_get(layers, 3);
        check_eq_str(json_string(last, "state", NULL), "missing");
        check_eq_str(json_string(last, "detail", NULL), "absent \"x\033[2J\302\2332J\"");
        check_eq_str(json_string(last, "fix", NULL), "do this");
}

static void test_table(void)
{
        _cleanup_free_ char *plain = output_of(print_table);
        _cleanup_free_ char *coloured = output_of(print_coloured);

        check_has(plain, "fix: do this\n");
        check_has(plain, "cannot run here");
        /* An escape in a detail is masked as well, and its form as U+009B. */
        check(!strchr(plain, '\033'));
        check(!strstr(plain, "\302\233"));
        check_has(coloured, "\033[31mmissing");
}

static void test_this_machine(void)
{
        static const char *const required[] = {"kernel", "privilege", "namespaces",
                                               "proc",   "seccomp",   "memfd"};

        doctor.count = 0;
        doctor_check_kernel(&doctor);
        for (size_t i = 0; i < ARRAY_SIZE(required); i++) {
                const struct doctor_finding *f = find(required[i]);
                check(f);
                if (f->state != DOCTOR_EFFECTIVE)
                        fprintf(stderr, "%s: %s\n", f->name, f->detail);
                check_eq_int(f->state, DOCTOR_EFFECTIVE);
        }
        check(find("landlock"));
        check(doctor_usable(&doctor));
}

static void test_trial(void)
{
        struct error err = {0};
        struct trial trial;
        struct ids ids;

        check_ok(ids_choose(0, 0, 10, &ids, &err));
        check_ok(trial_run(&ids, &trial, &err));
        check_eq_int(trial.mount, 0);
        check_eq_int(trial.namespaces[TRIAL_NET], 0);
        check_eq_int(trial.proc, 0);
        check_eq_int(trial.proc_subset, 0);
        check_eq_int(trial.seccomp, 0);
        check_eq_str(trial.root_step, "");
        check_eq_int(trial.root, 0);
        check_eq_int(trial.host_name, 0);
}

enum { ORDINARY = 65533 };

/* In a user namespace where no further user namespace, or no network namespace, can be created. */
static int inside_limited(const char *limit)
{
        char path[64], map[64], groups[64];

        /* Sandboxes never run as root of the host. */
        if (geteuid() == 0 &&
            (setresgid(ORDINARY, ORDINARY, ORDINARY) < 0 ||
             setresuid(ORDINARY, ORDINARY, ORDINARY) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0))
                return 9;
        snprintf(map, sizeof(map), "0 %u 1", geteuid());
        snprintf(groups, sizeof(groups), "0 %u 1", getegid());
        if (unshare(CLONE_NEWUSER) < 0 ||
            cgroup_write(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
            cgroup_write(AT_FDCWD, "/proc/self/uid_map", map) < 0 ||
            cgroup_write(AT_FDCWD, "/proc/self/gid_map", groups) < 0)
                return 10;
        snprintf(path, sizeof(path), "/proc/sys/user/%s", limit);
        if (cgroup_write(AT_FDCWD, path, "0") < 0)
                return 11;
        doctor.count = 0;
        doctor_check_kernel(&doctor);
        return doctor_usable(&doctor) ? 12 : 0;
}

static int no_user_namespaces(void)
{
        int r = inside_limited("max_user_namespaces");
        const struct doctor_finding *f = find("privilege");

        if (r != 0)
                return r;
        return f && f->state == DOCTOR_MISSING && strstr(f->detail, "max_user_namespaces") ? 0 : 1;
}

static int no_network_namespaces(void)
{
        int r = inside_limited("max_net_namespaces");
        const struct doctor_finding *f = find("namespaces");

        if (r != 0)
                return r;
        return f && f->state == DOCTOR_MISSING && strstr(f->detail, "net: ") ? 0 : 1;
}

static void check_child(int (*fn)(void))
{
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(fn());
        check_eq_int(waitpid(pid, &status, 0), pid);
        check(WIFEXITED(status));
        check_eq_int(WEXITSTATUS(status), 0);
}

static void test_sees_what_is_missing(void)
{
        check_child(no_user_namespaces);
        check_child(no_network_namespaces);
}

static void test_broken_config(void)
{
        char path[] = "/tmp/test-doctor-XXXXXX";
        const char *paths[] = {path};
        int fd = mkstemp(path);

        check(fd >= 0);
        check_eq_int(fd_write_all(fd, "{\"mcpServers\": {", 16), 0);
        close(fd);
        doctor.count = 0;
        doctor_check_host(&doctor, paths, 1);
        check_eq_int(find("config")->state, DOCTOR_MISSING);
        check_has(find("config")->detail, "line 1");
        check(find("limits"));
        check(find("servers"));
        check(find("image"));
        unlink(path);
}

int main(void)
{
        run(test_findings);
        run(test_remedy);
        run(test_label);
        run(test_attempt);
        run(test_files_of_proc);
        run(test_a_finding_makes_it_unusable);
        run(test_usable);
        run(test_json);
        run(test_table);
        run(test_speculation);
        run(test_this_machine);
        run(test_trial);
        run(test_sees_what_is_missing);
        run(test_broken_config);
        return 0;
}
