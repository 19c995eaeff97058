/* The filters: that the tables are sound, that what is compiled does as they say, and what the
 * kernel makes of it. */
#include "supervisor/monitor/filter.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "policy/bpf-eval.h"
#include "tests/unit/test.h"

#define BIT32 (1ull << 32)
#define BIT63 (1ull << 63)

static int number(const char *name)
{
        return seccomp_syscall_resolve_name(name);
}

struct program {
        struct sock_filter *code;
        size_t n;
};

static struct program compile(enum filter_kind kind)
{
        struct error err = {};
        size_t size = 0;
        char *data = NULL;

        _cleanup_close_ int fd = filter_compile(kind, &err);
        check_ok(fd);
        check((fcntl(fd, F_GET_SEALS) & (F_SEAL_SEAL | F_SEAL_WRITE)) ==
              (F_SEAL_SEAL | F_SEAL_WRITE));
        check_eq_int(lseek(fd, 0, SEEK_SET), 0);
        check_ok(fd_read_whole(fd, BPF_MAXINSNS * sizeof(struct sock_filter), &data, &size, &err));
        return (struct program){(struct sock_filter *)data, size / sizeof(struct sock_filter)};
}

/* The tables */

static bool can_hold_at_once(const struct filter_rule *a, const struct filter_rule *b)
{
        for (size_t i = 0; i < FILTER_COMPARES_MAX && a->compares[i].mask; i++)
                for (size_t j = 0; j < FILTER_COMPARES_MAX && b->compares[j].mask; j++) {
                        const struct filter_compare *x = &a->compares[i], *y = &b->compares[j];
                        if (x->argument != y->argument)
                                continue;
                        if (x->unequal != y->unequal) {
                                if (x->mask == y->mask && x->value == y->value)
                                        return false;
                        } else if (!x->unequal && ((x->value ^ y->value) & x->mask & y->mask)) {
                                return false;
                        }
                }
        return true;
}

static void test_rules_of_a_call_exclude_each_other(void)
{
        for (enum filter_kind kind = 0; kind < FILTER_KIND_MAX; kind++) {
                struct filter_entries e;
                struct error err = {};
                check_ok(filter_entries_init(&e, kind, number, &err));
                for (size_t i = 0; i < e.n_entries; i++)
                        for (size_t j = i + 1; j < e.n_entries; j++) {
                                const struct filter_entry *a = &e.entries[i], *b = &e.entries[j];
                                if (a->number != b->number)
                                        break;
                                if (a->rule->action != b->rule->action &&
                                    can_hold_at_once(a->rule, b->rule))
                                        test_fail_("%s: call %d: two answers",
                                                   filter_kind_name(kind), a->number);
                        }
                filter_entries_done(&e);
        }
}

static void check_rule_is_sane(const struct filter_rule *rule, uint32_t otherwise)
{
        char name[FILTER_NAME_MAX];

        check(rule->action != otherwise); /* libseccomp refuses it */
        for (const char *calls = rule->calls; filter_next_call(&calls, name) > 0;)
                if (number(name) == __NR_SCMP_ERROR && filter_recent_number(name) < 0)
                        test_fail_("no call is named %s", name);
        for (size_t i = 0; i < FILTER_COMPARES_MAX && rule->compares[i].mask; i++) {
                const struct filter_compare *c = &rule->compares[i];
                check(c->argument < 6);
                check((c->value & ~c->mask) == 0);
                check(!c->unequal || c->mask == UINT64_MAX);
                /* Of what the kernel reads as 32 bits, only those; else all. */
                check(c->mask <= UINT32_MAX || c->mask == UINT64_MAX);
        }
}

static void test_names_and_comparisons(void)
{
        for (enum filter_kind kind = 0; kind < FILTER_KIND_MAX; kind++) {
                const struct filter_table *table = filter_table(kind);
                for (const struct filter_rule *const *part = table->parts; *part; part++)
                        for (const struct filter_rule *rule = *part; rule->calls; rule++)
                                check_rule_is_sane(rule, table->otherwise);
        }
}

/* The programs */

static void test_compiled_does_as_the_table_says(void)
{
        for (enum filter_kind kind = 0; kind < FILTER_KIND_MAX; kind++) {
                struct filter_entries e;
                struct error err = {};
                struct program p = compile(kind);
                check_ok(filter_entries_init(&e, kind, number, &err));
                check_ok(filter_check(&e, p.code, p.n, seccomp_arch_native(), true, &err));
                printf("  %s: %zu instructions\n", filter_kind_name(kind), p.n);
                filter_entries_done(&e);
                free(p.code);
        }
}

/* Whether the check would see it: each constant of the program is changed in turn. What then does
 * the same is a jump that decides nothing. */
static void test_check_sees_changed_programs(void)
{
        struct filter_entries e;
        struct error err = {};
        struct program p = compile(FILTER_WORKER);
        size_t seen = 0, changed = 0;

        check_ok(filter_entries_init(&e, FILTER_WORKER, number, &err));
        for (size_t i = 0; i < p.n; i += 7) {
                struct sock_filter was = p.code[i];
                if (BPF_CLASS(was.code) == BPF_JMP && BPF_OP(was.code) != BPF_JA &&
                    was.jt != was.jf) {
                        p.code[i].jt = was.jf;
                        p.code[i].jf = was.jt;
                } else if (BPF_CLASS(was.code) == BPF_RET) {
                        p.code[i].k ^= 1;
                } else {
                        continue;
                }
                changed++;
                seen += filter_check(&e, p.code, p.n, seccomp_arch_native(), false, &err) == -EIO;
                p.code[i] = was;
        }
        check(changed > 30);
        check_eq_int(seen, changed);
        check_has(err.text, "libseccomp miscompiled it");
        filter_entries_done(&e);
        free(p.code);
}

static uint32_t ask(const struct program *p, int nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
        struct seccomp_data data = {.nr = nr, .arch = seccomp_arch_native(), .args = {a, b, c, d}};
        uint32_t ret = 0;

        check_eq_int(bpf_eval(p->code, p->n, &data, &ret), 0);
        return ret;
}

#define ALLOW      SECCOMP_RET_ALLOW
#define FAIL(code) (SECCOMP_RET_ERRNO | (code))

/* What was wanted, said once more without the table. */
static void test_worker_policy(void)
{
        struct program p = compile(FILTER_WORKER);
        static const int denied[] = {SYS_unshare,
                                     SYS_setns,
                                     SYS_mount,
                                     SYS_umount2,
                                     SYS_pivot_root,
                                     SYS_chroot,
                                     SYS_ptrace,
                                     SYS_keyctl,
                                     SYS_add_key,
                                     SYS_request_key,
                                     SYS_bpf,
                                     SYS_kcmp,
                                     SYS_setresuid,
                                     SYS_capset,
                                     SYS_perf_event_open,
                                     SYS_personality,
                                     SYS_process_vm_writev,
                                     SYS_open_by_handle_at};
        static const int unknown[] = {SYS_clone3,
                                      SYS_io_uring_setup,
                                      SYS_io_uring_enter,
                                      SYS_userfaultfd,
                                      SYS_splice,
                                      SYS_tee,
                                      SYS_vmsplice,
                                      SYS_fsopen,
                                      SYS_open_tree,
                                      SYS_move_mount,
                                      SYS_mount_setattr,
                                      SYS_landlock_create_ruleset,
                                      SYS_seccomp,
                                      SYS_pidfd_getfd,
                                      SYS_memfd_secret,
                                      SYS_process_madvise,
                                      SYS_msgget,
                                      SYS_shmget,
                                      SYS_mq_open,
                                      SYS_sync,
                                      457,
                                      458,
                                      599};

        for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
                check_eq_int(ask(&p, denied[i], 0, 0, 0, 0), FAIL(EPERM));
        for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
                check_eq_int(ask(&p, unknown[i], 0, 0, 0, 0), FAIL(ENOSYS));

        for (unsigned int family = 0; family < 64; family++)
                for (uint64_t high = 0; high <= BIT32; high += BIT32)
                        check_eq_int(ask(&p, SYS_socket, family | high, SOCK_STREAM | SOCK_CLOEXEC,
                                         0, 0),
                                     family == AF_UNIX ? ALLOW : FAIL(EPERM));
        check_eq_int(ask(&p, SYS_socket, AF_UNIX, SOCK_RAW, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&p, SYS_socket, AF_UNIX, SOCK_STREAM, 6, 0), FAIL(ENOSYS));
        check_eq_int(ask(&p, SYS_socket, 65, SOCK_STREAM, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&p, SYS_socketpair, AF_INET, SOCK_STREAM, 0, 0), FAIL(ENOSYS));

        check_eq_int(ask(&p, SYS_clone, SIGCHLD, 0, 0, 0), ALLOW);
        check_eq_int(ask(&p, SYS_clone, SIGCHLD | BIT32 | BIT63, 0, 0, 0), ALLOW);
        for (int bit = 0; bit < 32; bit++) {
                uint64_t flag = 1ull << bit;
                bool namespace = flag &
                                 (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                  CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET);
                check_eq_int(ask(&p, SYS_clone, flag | BIT32, 0, 0, 0),
                             namespace ? FAIL(EPERM) : ALLOW);
        }

        for (uint64_t high = 0; high <= BIT32; high += BIT32) {
                check_eq_int(ask(&p, SYS_ioctl, 0, TIOCSTI | high, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_ioctl, 0, 0x541c | high, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_ioctl, 0, TIOCGWINSZ | high, 0, 0), ALLOW);
                check_eq_int(ask(&p, SYS_ioctl, 0, FICLONE | high, 0, 0), FAIL(EOPNOTSUPP));
                check_eq_int(ask(&p, SYS_sendto, 3, 0, 0, MSG_NOSIGNAL | high), ALLOW);
                check_eq_int(ask(&p, SYS_sendto, 3, 0, 0, MSG_OOB | high), FAIL(EOPNOTSUPP));
                check_eq_int(ask(&p, SYS_recvmsg, 3, 0, MSG_OOB | high, 0), FAIL(EOPNOTSUPP));
                check_eq_int(ask(&p, SYS_sendmsg, 3, 0, MSG_ZEROCOPY | high, 0), FAIL(EOPNOTSUPP));
                check_eq_int(ask(&p, SYS_setsockopt, 3, SOL_SOCKET | high, SO_RCVBUF | high, 0),
                             ALLOW);
                check_eq_int(
                        ask(&p, SYS_setsockopt, 3, SOL_SOCKET | high, SO_ATTACH_FILTER | high, 0),
                        FAIL(ENOSYS));
                check_eq_int(ask(&p, SYS_setsockopt, 3, 6 | high, 31 | high, 0),
                             FAIL(ENOSYS)); /* TCP_ULP */
                check_eq_int(ask(&p, SYS_prctl, PR_SET_NAME | high, 0, 0, 0), ALLOW);
                check_eq_int(ask(&p, SYS_prctl, PR_SET_DUMPABLE | high, 0, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_mknodat, 0, 0, S_IFIFO | 0600 | high, 0), ALLOW);
                check_eq_int(ask(&p, SYS_mknodat, 0, 0, S_IFCHR | 0600 | high, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_mknodat, 0, 0, S_IFSOCK | high, 0), FAIL(EPERM));
        }

        for (unsigned int resource = 0; resource < 16; resource++) {
                bool core = resource == RLIMIT_CORE;
                check_eq_int(ask(&p, SYS_prlimit64, 0, resource | BIT32, 0x7fff0000, 0),
                             core ? FAIL(0) : ALLOW);
                check_eq_int(ask(&p, SYS_prlimit64, 0, resource, BIT32, 0), core ? FAIL(0) : ALLOW);
                check_eq_int(ask(&p, SYS_prlimit64, 0, resource, 0, 0x7fff0000), ALLOW);
                check_eq_int(ask(&p, SYS_prlimit64, 1, resource, 0, 0), FAIL(ENOSYS));
                check_eq_int(ask(&p, SYS_setrlimit, resource, 0x7fff0000, 0, 0),
                             core ? FAIL(0) : ALLOW);
        }
        check_eq_int(ask(&p, SYS_sendfile, 0, 0, 0, 0), FAIL(EINVAL));
        check_eq_int(ask(&p, SYS_copy_file_range, 0, 0, 0, 0), FAIL(EXDEV));
        free(p.code);
}

static void test_other_policies(void)
{
        struct program t = compile(FILTER_TEMPLATE), b = compile(FILTER_BROKER),
                       s = compile(FILTER_STUB), i = compile(FILTER_INIT);

        check_eq_int(ask(&t, SYS_clone3, 0, 0, 0, 0), ALLOW);
        check_eq_int(ask(&t, SYS_mount, 0, 0, 0, 0), ALLOW);
        check_eq_int(ask(&t, SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0, 0), ALLOW);
        check_eq_int(ask(&t, SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                         0, 0),
                     FAIL(ENOSYS));
        check_eq_int(
                ask(&t, SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0, 0),
                FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_unshare, CLONE_NEWCGROUP, 0, 0, 0), ALLOW);
        check_eq_int(ask(&t, SYS_unshare, CLONE_NEWCGROUP | CLONE_NEWUSER, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_socket, AF_INET, SOCK_STREAM, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&t, SYS_ptrace, 0, 0, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&t, SYS_setns, 0, 0, 0, 0), FAIL(ENOSYS));

        check_eq_int(ask(&b, SYS_execve, 0, 0, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0, 0), ALLOW);
        check_eq_int(ask(&b, SYS_clone, SIGCHLD, 0, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_clone, CLONE_THREAD | CLONE_NEWUSER, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&b, SYS_clone3, 0, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&b, SYS_socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 6, 0), ALLOW);
        check_eq_int(ask(&b, SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0, 0), ALLOW);
        check_eq_int(ask(&b, SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_socket, AF_UNIX | BIT32, SOCK_STREAM, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, 0), ALLOW);
        check_eq_int(ask(&b, SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&b, SYS_prlimit64, 1, 0, 0, 0), FAIL(ENOSYS));

        for (int nr = 0; nr < FILTER_CHECK_CALLS; nr++) {
                bool allowed = nr == SYS_read || nr == SYS_exit || nr == SYS_exit_group ||
                               nr == SYS_rt_sigreturn;
                check_eq_int(ask(&s, nr, 0, 0, 0, 0), allowed ? ALLOW : FAIL(ENOSYS));
        }
        check_eq_int(ask(&i, SYS_openat, 0, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_kill, 2, SIGINT, 0, 0), ALLOW);
        free(t.code);
        free(b.code);
        free(s.code);
        free(i.code);
}

/* The kernel. Each probe is harmless wherever it runs: its arguments are wrong for the call itself,
 * so that without the filter it fails in another way. */

struct probe {
        const char *name;
        long (*call)(void);
        int denied; /* the errno under the filter; negative: the signal that ends it */
};

static long probe_unshare(void)
{
        return syscall(SYS_unshare, 0);
}
static long probe_setns(void)
{
        return syscall(SYS_setns, -1, 0);
}
static long probe_mount(void)
{
        return syscall(SYS_mount, NULL, (void *)-1, NULL, 0, NULL);
}
static long probe_ptrace(void)
{
        return syscall(SYS_ptrace, 1 /* PTRACE_PEEKTEXT */, 999999999, 0, 0);
}
static long probe_personality(void)
{
        return syscall(SYS_personality, 0xffffffff);
}
static long probe_clone3(void)
{
        return syscall(SYS_clone3, NULL, 0);
}
static long probe_clone_user(void)
{
        return syscall(SYS_clone, CLONE_NEWUSER | CLONE_FS, 0, 0, 0, 0);
}
static long probe_clone_user_high(void)
{
        return syscall(SYS_clone, BIT32 | CLONE_NEWUSER | CLONE_FS, 0, 0, 0, 0);
}
static long probe_userfaultfd(void)
{
        return syscall(SYS_userfaultfd, -1);
}
static long probe_io_uring(void)
{
        return syscall(SYS_io_uring_register, -1, 0, NULL, 0);
}
static long probe_splice(void)
{
        return syscall(SYS_splice, -1, NULL, -1, NULL, 1, 0);
}
static long probe_inet(void)
{
        return socket(AF_INET, SOCK_STREAM, 0);
}
static long probe_inet_high(void)
{
        return syscall(SYS_socket, AF_INET | BIT32, SOCK_STREAM, 0);
}
static long probe_netlink(void)
{
        return socket(AF_NETLINK, SOCK_RAW, 0);
}
static long probe_alg(void)
{
        /* The kernel may lack it: either way its answer is EAFNOSUPPORT or a socket. */
        return socket(AF_ALG, SOCK_SEQPACKET, 0);
}
static long probe_vsock(void)
{
        return socket(AF_VSOCK, SOCK_STREAM, 0);
}
static long probe_tiocsti(void)
{
        return syscall(SYS_ioctl, -1, TIOCSTI, "x");
}
static long probe_tiocsti_high(void)
{
        return syscall(SYS_ioctl, -1, BIT32 | TIOCSTI, "x");
}
static long probe_tioclinux(void)
{
        return syscall(SYS_ioctl, -1, BIT32 | 0x541c, "x");
}
static long probe_dumpable(void)
{
        return prctl(PR_SET_DUMPABLE, 99);
}
static long probe_sendfile(void)
{
        return syscall(SYS_sendfile, -1, -1, NULL, 1);
}
static long probe_copy_range(void)
{
        return syscall(SYS_copy_file_range, -1, NULL, -1, NULL, 1, 0);
}
static long probe_mknod(void)
{
        return syscall(SYS_mknodat, -1, "x", S_IFCHR | 0600, 0x103);
}
static long probe_limit_of_another(void)
{
        return syscall(SYS_prlimit64, getpid(), RLIMIT_NOFILE, NULL, NULL);
}
static long probe_oob(void)
{
        return syscall(SYS_sendto, -1, "x", 1, MSG_OOB, NULL, 0);
}
static long probe_handle(void)
{
        return syscall(SYS_name_to_handle_at, -1, "x", NULL, NULL, -1);
}
#ifdef __x86_64__
static long probe_x32(void)
{
        return syscall(0x40000000 | SYS_getpid);
}
static long probe_int80(void)
{
        long r;
        /* 20 is getpid of 32-bit programs */
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
        return r;
}
#endif

static const struct probe probes[] = {
        {"unshare", probe_unshare, EPERM},
        {"setns", probe_setns, EPERM},
        {"mount", probe_mount, EPERM},
        {"ptrace", probe_ptrace, EPERM},
        {"personality", probe_personality, EPERM},
        {"clone3", probe_clone3, ENOSYS},
        {"clone NEWUSER", probe_clone_user, EPERM},
        {"clone NEWUSER, bit 32", probe_clone_user_high, EPERM},
        {"userfaultfd", probe_userfaultfd, ENOSYS},
        {"io_uring_register", probe_io_uring, ENOSYS},
        {"splice", probe_splice, ENOSYS},
        {"AF_INET", probe_inet, EPERM},
        {"AF_INET, bit 32", probe_inet_high, EPERM},
        {"AF_NETLINK", probe_netlink, EPERM},
        {"AF_ALG", probe_alg, EPERM},
        {"AF_VSOCK", probe_vsock, EPERM},
        {"TIOCSTI", probe_tiocsti, EPERM},
        {"TIOCSTI, bit 32", probe_tiocsti_high, EPERM},
        {"TIOCLINUX, bit 32", probe_tioclinux, EPERM},
        {"PR_SET_DUMPABLE", probe_dumpable, EPERM},
        {"sendfile", probe_sendfile, EINVAL},
        {"copy_file_range", probe_copy_range, EXDEV},
        {"mknod", probe_mknod, EPERM},
        {"prlimit64 of a pid", probe_limit_of_another, ENOSYS},
        {"MSG_OOB", probe_oob, EOPNOTSUPP},
        {"name_to_handle_at", probe_handle, EPERM},
#ifdef __x86_64__
        {"x32", probe_x32, -SIGSYS},
        {"int 0x80", probe_int80, -SIGSYS},
#endif
};

/* Runs the call in a child, under a filter where fd >= 0. Returns its errno (0: it worked), or
 * minus the signal. */
static int outcome(long (*call)(void), int fd)
{
        int status = 0;

        fflush(stdout);
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0) {
                struct error err = {};
                setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                    (fd >= 0 && filter_load(fd, &err) < 0))
                        _exit(255);
                errno = 0;
                _exit(call() < 0 ? errno : 0);
        }
        check_eq_int(waitpid(pid, &status, 0), pid);
        if (WIFSIGNALED(status))
                return -WTERMSIG(status);
        check(WEXITSTATUS(status) != 255);
        return WEXITSTATUS(status);
}

static void test_kernel_denies(void)
{
        struct error err = {};

        _cleanup_close_ int fd = filter_compile(FILTER_WORKER, &err);
        check_ok(fd);
        for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
                int with = outcome(probes[i].call, fd), without = outcome(probes[i].call, -1);
                if (with != probes[i].denied)
                        test_fail_("%s: %d under the filter, not %d", probes[i].name, with,
                                   probes[i].denied);
                /* A kernel without the call, or that refuses it itself, says nothing about the
                 * filter. */
                if (without == with)
                        printf("  %s: the same without the filter (%d)\n", probes[i].name, without);
        }
}

/* Controls that must hold on any kernel: the filter, and nothing else, denies these. */
static void test_kernel_allows_without(void)
{
        long (*const calls[])(void) = {probe_unshare,  probe_setns,     probe_personality,
                                       probe_inet,     probe_inet_high, probe_tiocsti,
                                       probe_dumpable, probe_clone3,    probe_clone_user};

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                int r = outcome(calls[i], -1);
                check(r != EPERM && r != ENOSYS);
        }
}

static long core_limit_stays(void)
{
        struct rlimit before, after;

        if (getrlimit(RLIMIT_CORE, &before) < 0 ||
            setrlimit(RLIMIT_CORE, &(struct rlimit){77, 77}) < 0 ||
            getrlimit(RLIMIT_CORE, &after) < 0)
                return -1;
        errno = ERANGE;
        return before.rlim_cur == after.rlim_cur && before.rlim_max == after.rlim_max ? 0 : -1;
}

static void test_core_limit(void)
{
        struct error err = {};

        _cleanup_close_ int fd = filter_compile(FILTER_WORKER, &err);
        check_ok(fd);
        check_eq_int(outcome(core_limit_stays, fd), 0);
}

/* Filters stack: the worker's on the template's. */
static int template_fd = -1, worker_fd = -1;

static long stack_and_clone3(void)
{
        struct error err = {};

        if (syscall(SYS_clone3, NULL, 0) >= 0 || errno != EINVAL)
                return -1;
        if (filter_load(worker_fd, &err) < 0)
                return -1;
        if (syscall(SYS_clone3, NULL, 0) >= 0 || errno != ENOSYS)
                return -1;
        /* and nothing can be loaded any more */
        if (filter_load(worker_fd, &err) >= 0 || err.code != ENOSYS)
                return -1;
        return 0;
}

static void test_worker_stacks_on_template(void)
{
        struct error err = {};

        template_fd = filter_compile(FILTER_TEMPLATE, &err);
        check_ok(template_fd);
        worker_fd = filter_compile(FILTER_WORKER, &err);
        check_ok(worker_fd);
        check_eq_int(outcome(stack_and_clone3, template_fd), 0);
        close(template_fd);
        close(worker_fd);
}

int main(void)
{
        run(test_rules_of_a_call_exclude_each_other);
        run(test_names_and_comparisons);
        run(test_compiled_does_as_the_table_says);
        run(test_check_sees_changed_programs);
        run(test_worker_policy);
        run(test_other_policies);
        run(test_kernel_denies);
        run(test_kernel_allows_without);
        run(test_core_limit);
        run(test_worker_stacks_on_template);
        return 0;
}
