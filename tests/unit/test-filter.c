/* The filters: the tables are consistent, and the compiled programs do what the tables specify. */
#include "policy/seccomp/filter.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "policy/seccomp/check.h"
#include "tests/unit/filter-program.h"
#include "tests/unit/test.h"

#define BIT32 (1ull << 32)
#define BIT63 (1ull << 63)

#ifdef SYS_open
#define check_open(program, flags, want) check_eq_int(ask(program, SYS_open, 0, flags, 0, 0), want)
#else /* aarch64 has openat() only */
#define check_open(program, flags, want) ((void)(program), (void)(flags))
#endif

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
                                if (a->rule.action != b->rule.action &&
                                    can_hold_at_once(&a->rule, &b->rule))
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
                /* Only the low 32 bits of an argument that the kernel reads as 32 bits; else all. */
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

static void test_programs_match_the_tables(void)
{
        for (enum filter_kind kind = 0; kind < FILTER_KIND_MAX; kind++) {
                struct filter_entries e;
                struct error err = {};
                struct program p = compile(kind);
                check_ok(filter_entries_init(&e, kind, number, &err));
                check_ok(filter_check(&e, p.code, p.n, seccomp_arch_native(), &err));
                printf("  %s: %zu instructions\n", filter_kind_name(kind), p.n);
                filter_entries_done(&e);
                free(p.code);
        }
}

/* In every seventh instruction, the targets of a jump are swapped or the result is changed: the check
 * detects each. */
static void test_check_detects_changed_programs(void)
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
                } else if (BPF_CLASS(was.code) == BPF_RET && was.k != SECCOMP_RET_KILL_PROCESS) {
                        p.code[i].k ^= 1; /* which a kill would not read */
                } else {
                        continue;
                }
                changed++;
                seen += filter_check(&e, p.code, p.n, seccomp_arch_native(), &err) == -EIO;
                p.code[i] = was;
        }
        check(changed > 30);
        check_eq_int(seen, changed);
        check_has(err.text, "it was miscompiled");
        filter_entries_done(&e);
        free(p.code);
}

/* Numbers above the last system call that exists. */
static void test_check_detects_unknown_numbers(void)
{
        struct filter_entries e;
        struct error err = {};
        struct program p = compile(FILTER_INIT);
        struct sock_filter open[BPF_MAXINSNS] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, 0),
        };
        static const uint32_t far[] = {FILTER_CHECK_CALLS, 0x3fffffff, UINT32_MAX};

        memcpy(open + 3, p.code, p.n * sizeof(*p.code));
        check_ok(filter_entries_init(&e, FILTER_INIT, number, &err));
        for (size_t i = 0; i < ARRAY_SIZE(far); i++) {
                open[1].k = far[i];
                open[2].k = e.otherwise;
                check_ok(filter_check(&e, open, p.n + 3, seccomp_arch_native(), &err));
                open[2].k = SECCOMP_RET_ALLOW;
                check_eq_int(filter_check(&e, open, p.n + 3, seccomp_arch_native(), &err), -EIO);
        }
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

/* The intended rules, written a second time without the table. */

static void test_worker_calls(void)
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
        free(p.code);
}

static void test_worker_sockets(void)
{
        struct program p = compile(FILTER_WORKER);

        for (unsigned int family = 0; family < 64; family++)
                for (uint64_t high = 0; high <= BIT32; high += BIT32)
                        check_eq_int(ask(&p, SYS_socket, family | high, SOCK_STREAM | SOCK_CLOEXEC,
                                         0, 0),
                                     family == AF_UNIX ? ALLOW : FAIL(EPERM));
        check_eq_int(ask(&p, SYS_socket, AF_UNIX, SOCK_RAW, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&p, SYS_socket, AF_UNIX, SOCK_STREAM, 6, 0), FAIL(ENOSYS));
        check_eq_int(ask(&p, SYS_socket, 65, SOCK_STREAM, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&p, SYS_socketpair, AF_INET, SOCK_STREAM, 0, 0), FAIL(ENOSYS));
        free(p.code);
}

/* The families and types of the sockets that each kind of worker can create, beside AF_UNIX pairs. */
static void check_sockets(enum filter_kind kind, bool with_unix, bool with_internet)
{
        static const struct {
                int type, protocol;
                bool internet;
        } list[] = {
                {SOCK_STREAM, 0, true},  {SOCK_STREAM, 6, true},    {SOCK_DGRAM, 0, true},
                {SOCK_DGRAM, 17, true},  {SOCK_STREAM, 262, false}, {SOCK_STREAM, 132, false},
                {SOCK_DGRAM, 1, false},  {SOCK_DGRAM, 58, false},   {SOCK_DGRAM, 136, false},
                {SOCK_RAW, 255, false},  {SOCK_RAW, 1, false},      {SOCK_SEQPACKET, 132, false},
                {SOCK_STREAM, 17, false}};
        struct program p = compile(kind);

        for (unsigned int family = 0; family < 64; family++) {
                bool internet = with_internet && (family == AF_INET || family == AF_INET6);
                for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                        bool allowed = (internet && list[i].internet) ||
                                       (with_unix && family == AF_UNIX && list[i].protocol == 0);
                        for (uint64_t high = 0; high <= BIT32; high += BIT32) {
                                uint32_t did = ask(&p, SYS_socket, family | high,
                                                   (uint64_t)list[i].type | SOCK_CLOEXEC,
                                                   (uint64_t)list[i].protocol | high, 0);
                                check_eq_int(did == ALLOW, allowed);
                                if (!internet && family != AF_UNIX)
                                        check_eq_int(did, FAIL(EPERM));
                        }
                }
        }
        check_eq_int(ask(&p, SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0), ALLOW);
        check_eq_int(ask(&p, SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, 0) == ALLOW, with_unix);
        check_eq_int(ask(&p, SYS_ioctl, 0, SIOCSIFFLAGS, 0, 0), FAIL(ENOSYS));
        free(p.code);
}

static void test_sockets_of_profiles(void)
{
        check_sockets(FILTER_WORKER, true, false);
        check_sockets(FILTER_WORKER_LOOPBACK, true, true);
        check_sockets(FILTER_WORKER_MOUNTS, false, false);
        check_sockets(FILTER_WORKER_LOOPBACK_MOUNTS, false, true);
        check_sockets(FILTER_WORKER_WRITABLE, false, false);
        check_sockets(FILTER_WORKER_LOOPBACK_WRITABLE, false, true);
}

/* Memory that belongs to no process can be made only where a control group counts it. */
static void test_memory_that_rlimits_do_not_count(void)
{
        static const enum filter_kind kinds[] = {FILTER_WORKER, FILTER_TEMPLATE,
                                                 FILTER_TEMPLATE_RLIMITS,
                                                 FILTER_TEMPLATE_LOOPBACK_RLIMITS};

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                struct program p = compile(kinds[i]);
                uint32_t refused = i < 2 ? ALLOW : FAIL(EPERM);

                for (unsigned int flags = 0; flags < 0x200; flags++) {
                        bool shared = flags & MAP_SHARED && flags & MAP_ANONYMOUS;
                        bool grows = flags & MAP_GROWSDOWN;
                        check_eq_int(ask(&p, SYS_mmap, 0, 4096, 0, flags | BIT32),
                                     shared || grows ? refused : ALLOW);
                        check_eq_int(ask(&p, SYS_mmap, 0, 4096, 0, flags | MAP_HUGETLB),
                                     FAIL(ENOMEM));
                }
                check_eq_int(ask(&p, SYS_memfd_create, 0, MFD_CLOEXEC, 0, 0),
                             i < 2 ? ALLOW : FAIL(ENOSYS));
                check_eq_int(ask(&p, SYS_memfd_create, 0, MFD_HUGETLB, 0, 0), FAIL(ENOSYS));
                free(p.code);
        }
}

/* Mounts cannot be moved or changed once the image's code runs. */
static void test_template_mounts(void)
{
        static const enum filter_kind kinds[] = {FILTER_TEMPLATE, FILTER_TEMPLATE_LOOPBACK};

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                struct program p = compile(kinds[i]);
                bool loopback = kinds[i] == FILTER_TEMPLATE_LOOPBACK;

                check_eq_int(ask(&p, SYS_mount, 0, 0, 0, MS_REC | MS_PRIVATE), ALLOW);
                check_eq_int(ask(&p, SYS_mount, 0, 0, 0, MS_REMOUNT | MS_BIND), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_mount, 0, 0, 0, MS_BIND), FAIL(EPERM));
                check(ask(&p, SYS_mount, 0, 0, 0, MS_REC | MS_PRIVATE | MS_REMOUNT) != ALLOW);
                check_eq_int(ask(&p, SYS_mount_setattr, 0, 0, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_umount2, 0, 0, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_pivot_root, 0, 0, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_socket, AF_INET, SOCK_DGRAM, 0, 0),
                             loopback ? ALLOW : FAIL(EPERM));
                check_eq_int(ask(&p, SYS_ioctl, 0, SIOCSIFFLAGS, 0, 0),
                             loopback ? ALLOW : FAIL(ENOSYS));
                free(p.code);
        }
}

static void test_worker_clone(void)
{
        struct program p = compile(FILTER_WORKER);

        check_eq_int(ask(&p, SYS_clone, SIGCHLD, 0, 0, 0), ALLOW);
        check_eq_int(ask(&p, SYS_clone, SIGCHLD | BIT32 | BIT63, 0, 0, 0), ALLOW);
        for (int bit = 0; bit < 32; bit++) {
                uint64_t flag = 1ull << bit;
                bool namespace = flag &
                                 (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                  CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET);
                check_eq_int(ask(&p, SYS_clone, flag | BIT32, 0, 0, 0),
                             namespace || flag == CLONE_THREAD ? FAIL(EPERM) : ALLOW);
        }
        check_eq_int(ask(&p, SYS_clone, CLONE_THREAD | CLONE_FILES, 0, 0, 0), ALLOW);
        for (unsigned flags = 0; flags < 8; flags++)
                check_eq_int(ask(&p, SYS_close_range, 3, 9, flags, 0),
                             flags & CLOSE_RANGE_UNSHARE ? FAIL(EINVAL) : ALLOW);
        free(p.code);
}

static void test_worker_arguments(void)
{
        struct program p = compile(FILTER_WORKER);

        for (uint64_t high = 0; high <= BIT32; high += BIT32) {
                check_eq_int(ask(&p, SYS_ioctl, 0, TIOCSTI | high, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_ioctl, 0, 0x541c | high, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_ioctl, 0, TIOCGWINSZ | high, 0, 0), ALLOW);
                check_eq_int(ask(&p, SYS_ioctl, 0, FICLONE | high, 0, 0), FAIL(EOPNOTSUPP));
                check_eq_int(ask(&p, SYS_fcntl, 0, F_SETLEASE | high, 0, 0), FAIL(EINVAL));
                check_eq_int(ask(&p, SYS_fcntl, 0, F_NOTIFY | high, 0, 0), FAIL(EINVAL));
                check_eq_int(ask(&p, SYS_fcntl, 0, F_SETPIPE_SZ | high, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_fcntl, 0, F_GETPIPE_SZ | high, 0, 0), ALLOW);
                check_eq_int(ask(&p, SYS_fcntl, 0, F_DUPFD_CLOEXEC | high, 0, 0), ALLOW);
                check_eq_int(ask(&p, SYS_fcntl, 0, F_OFD_SETLKW | high, 0, 0), FAIL(EINVAL));
                check_eq_int(ask(&p, SYS_fcntl, 0, F_SETLKW | high, 0, 0), SECCOMP_RET_USER_NOTIF);
                check_eq_int(ask(&p, SYS_fcntl, 0, F_ADD_SEALS | high, 0, 0), ALLOW);
                check_eq_int(ask(&p, SYS_sendto, 3, 0, 0, MSG_NOSIGNAL | high), ALLOW);
                check_eq_int(ask(&p, SYS_sendto, 3, 0, 0, MSG_OOB | high), FAIL(EOPNOTSUPP));
                check_eq_int(ask(&p, SYS_recvmsg, 3, 0, MSG_OOB | high, 0), FAIL(EOPNOTSUPP));
                check_eq_int(ask(&p, SYS_sendmsg, 3, 0, MSG_ZEROCOPY | high, 0), FAIL(EOPNOTSUPP));
                check_eq_int(ask(&p, SYS_setsockopt, 3, SOL_SOCKET | high, SO_RCVLOWAT | high, 0),
                             ALLOW);
                check_eq_int(ask(&p, SYS_setsockopt, 3, SOL_SOCKET | high, SO_RCVBUF | high, 0),
                             FAIL(0));
                check_eq_int(ask(&p, SYS_setsockopt, 3, SOL_SOCKET | high, SO_SNDBUF | high, 0),
                             FAIL(0));
                check_eq_int(ask(&p, SYS_setsockopt, 3, SOL_SOCKET | high, SO_LINGER | high, 0),
                             FAIL(0));
                check_eq_int(ask(&p, SYS_setsockopt, 3, SOL_SOCKET | high, SO_OOBINLINE | high, 0),
                             FAIL(0));
                check_eq_int(
                        ask(&p, SYS_setsockopt, 3, SOL_SOCKET | high, SO_RCVBUFFORCE | high, 0),
                        FAIL(ENOSYS));
                check_eq_int(
                        ask(&p, SYS_setsockopt, 3, SOL_SOCKET | high, SO_ATTACH_FILTER | high, 0),
                        FAIL(ENOSYS));
                check_eq_int(ask(&p, SYS_setsockopt, 3, 6 | high, 31 | high, 0),
                             FAIL(ENOSYS)); /* TCP_ULP */
                for (uint64_t option = 1; option < 80; option++)
                        check_eq_int(
                                ask(&p, SYS_getsockopt, 3, SOL_SOCKET | high, option | high, 0),
                                option == SO_COOKIE || option == SO_NETNS_COOKIE ? FAIL(ENOPROTOOPT)
                                                                                 : ALLOW);
                check_eq_int(ask(&p, SYS_getsockopt, 3, 6 | high, SO_COOKIE, 0), ALLOW);
                check_eq_int(ask(&p, SYS_prctl, PR_SET_NAME | high, 0, 0, 0), ALLOW);
                check_eq_int(ask(&p, SYS_prctl, PR_SET_DUMPABLE | high, 0, 0, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_prctl, 0x53564d41 | high, 0, 0, 0), /* PR_SET_VMA */
                             FAIL(EINVAL));
                check_eq_int(ask(&p, SYS_mknodat, 0, 0, S_IFIFO | 0600 | high, 0), ALLOW);
                check_eq_int(ask(&p, SYS_mknodat, 0, 0, S_IFCHR | 0600 | high, 0), FAIL(EPERM));
                check_eq_int(ask(&p, SYS_mknodat, 0, 0, S_IFSOCK | high, 0), FAIL(EPERM));
        }
        free(p.code);
}

/* Locks of open files: EINVAL, except for init with a mount with locks, which has its template's filter too. */
static void test_locks_of_open_files(void)
{
        static const struct {
                enum filter_kind kind;
                uint32_t take, wait;
        } list[] = {
                {FILTER_WORKER, FAIL(EINVAL), FAIL(EINVAL)},
                {FILTER_WORKER_WRITABLE, FAIL(EINVAL), FAIL(EINVAL)},
                {FILTER_TEMPLATE, FAIL(EINVAL), FAIL(EINVAL)},
                {FILTER_TEMPLATE_LOOPBACK_RLIMITS, FAIL(EINVAL), FAIL(EINVAL)},
                {FILTER_TEMPLATE + FILTER_TEMPLATE_LOCKS, ALLOW, FAIL(EINVAL)},
                {FILTER_TEMPLATE_LOOPBACK_RLIMITS + FILTER_TEMPLATE_LOCKS, ALLOW, FAIL(EINVAL)},
                {FILTER_INIT, FAIL(ENOSYS), FAIL(ENOSYS)},
                {FILTER_INIT_LOCKS, ALLOW, FAIL(ENOSYS)},
        };

        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                struct program p = compile(list[i].kind);
                check_eq_int(ask(&p, SYS_fcntl, 0, F_OFD_GETLK, 0, 0), list[i].take);
                check_eq_int(ask(&p, SYS_fcntl, 0, F_OFD_SETLK, 0, 0), list[i].take);
                check_eq_int(ask(&p, SYS_fcntl, 0, F_OFD_SETLKW, 0, 0), list[i].wait);
                free(p.code);
        }
        struct program i = compile(FILTER_INIT), l = compile(FILTER_INIT_LOCKS);
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_RDWR | O_CLOEXEC, 0), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_WRONLY | O_CLOEXEC, 0), ALLOW);
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_WRONLY | O_CLOEXEC | O_CREAT, 0), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_WRONLY | O_CLOEXEC | O_TRUNC, 0), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_RDWR | O_TMPFILE | O_CLOEXEC, 0444), ALLOW);
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_WRONLY | O_TMPFILE, 0444), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_RDWR | O_DIRECTORY, 0), FAIL(ENOSYS));
        check_eq_int(ask(&l, SYS_openat, 0, 0, O_RDWR | O_CLOEXEC, 0), ALLOW);
        check_eq_int(ask(&l, SYS_openat, 0, 0, O_RDWR | O_TRUNC, 0), FAIL(ENOSYS));
        check_eq_int(ask(&l, SYS_openat, 0, 0, O_RDWR | O_CREAT, 0), FAIL(ENOSYS));
        free(i.code);
        free(l.code);
}

/* Calls that read or change state that sessions share: the page cache, inodes of the image, the disk. */
static void test_shared_files(void)
{
        struct program p = compile(FILTER_WORKER), r = compile(FILTER_WORKER_MOUNTS),
                       m = compile(FILTER_WORKER_WRITABLE), t = compile(FILTER_TEMPLATE);
        static const int figures[] = {SYS_sysinfo, SYS_statfs, SYS_fstatfs};
        static const int syncs[] = {SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_fadvise64,
                                    SYS_readahead};

        for (uint64_t high = 0; high <= BIT32; high += BIT32) {
                check_open(&p, O_RDONLY | high, FILTER_ASK_OR_ALLOW);
                check_eq_int(ask(&m, SYS_openat, AT_FDCWD, 0, O_NOCTTY | high, 0),
                             FILTER_ASK_OR_ALLOW);
                check_eq_int(ask(&p, SYS_openat, 0, 0, O_CLOEXEC | high, 0), ALLOW);
                check_open(&m, O_WRONLY | high, ALLOW);
                check_open(&t, O_RDONLY | high, ALLOW);
                check_open(&p, O_DIRECT | high, FAIL(EINVAL));
                check_eq_int(ask(&p, SYS_openat, 0, 0, O_RDWR | O_CREAT | high, 0), ALLOW);
                check_eq_int(ask(&p, SYS_openat, 0, 0, O_DIRECT | high, 0), FAIL(EINVAL));
                check_eq_int(ask(&p, SYS_fcntl, 0, F_SETFL | high, O_NONBLOCK | high, 0), ALLOW);
                check_eq_int(ask(&p, SYS_fcntl, 0, F_SETFL | high, O_DIRECT | high, 0),
                             FAIL(EINVAL));
                for (uint64_t hint = F_GET_RW_HINT; hint <= F_SET_FILE_RW_HINT; hint++)
                        check_eq_int(ask(&p, SYS_fcntl, 0, hint | high, 0, 0), FAIL(EINVAL));
                for (uint64_t command = 0; command < 64; command++) {
                        uint32_t want = ALLOW;
                        if (command >= F_GETLK && command <= F_SETLKW)
                                want = SECCOMP_RET_USER_NOTIF;
                        else if (command >= F_OFD_GETLK && command <= F_OFD_SETLKW + 1)
                                want = FAIL(EINVAL);
                        if (command != F_SETFL)
                                check_eq_int(ask(&p, SYS_fcntl, 0, command | high, O_DIRECT, 0),
                                             want);
                }
                check_eq_int(ask(&p, SYS_msync, 0, 0, MS_ASYNC | high, 0), ALLOW);
                check_eq_int(ask(&p, SYS_msync, 0, 0, MS_SYNC | MS_INVALIDATE | high, 0), FAIL(0));
                check_eq_int(ask(&r, SYS_msync, 0, 0, MS_SYNC | high, 0), FAIL(0));
                check_eq_int(ask(&m, SYS_msync, 0, 0, MS_SYNC | high, 0), SECCOMP_RET_USER_NOTIF);
                check_eq_int(ask(&m, SYS_msync, 0, 0, MS_ASYNC | high, 0), ALLOW);
                for (unsigned flags = O_DSYNC; flags <= O_SYNC; flags += O_SYNC - O_DSYNC) {
                        check_open(&p, flags | O_RDWR | high, ALLOW);
                        check_eq_int(ask(&r, SYS_openat, 0, 0, flags | O_RDWR | high, 0), ALLOW);
                        check_open(&m, flags | high, FAIL(EINVAL));
                        check_eq_int(ask(&m, SYS_openat, 0, 0, flags | high, 0), FAIL(EINVAL));
                }
                check_eq_int(ask(&m, SYS_openat, 0, 0, O_RDWR | O_CREAT | high, 0), ALLOW);
                check_eq_int(ask(&m, SYS_openat, 0, 0, O_DIRECT | high, 0), FAIL(EINVAL));
        }
        for (size_t i = 0; i < ARRAY_SIZE(syncs); i++) {
                check_eq_int(ask(&p, syncs[i], 0, 0, 0, 0), FAIL(0));
                check_eq_int(ask(&r, syncs[i], 0, 0, 0, 0), FAIL(0));
                bool is_hint = syncs[i] == SYS_fadvise64 || syncs[i] == SYS_readahead;
                check_eq_int(ask(&m, syncs[i], 0, 0, 0, 0),
                             is_hint ? FAIL(0) : SECCOMP_RET_USER_NOTIF);
                check_eq_int(ask(&t, syncs[i], 0, 0, 0, 0), ALLOW);
        }
        for (unsigned advice = 0; advice < 128; advice++)
                check_eq_int(ask(&p, SYS_madvise, 0, 0, advice, 0),
                             (advice & 30) == MADV_COLD ? FAIL(EINVAL) : ALLOW);
        check_eq_int(ask(&p, SYS_mincore, 0, 0, 0, 0), FAIL(EPERM));
        for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
                check_eq_int(ask(&p, figures[i], 0, 0, 0, 0), SECCOMP_RET_USER_NOTIF);
                check_eq_int(ask(&t, figures[i], 0, 0, 0, 0), ALLOW);
        }
        check_eq_int(ask(&p, SYS_openat2, 0, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_openat2, 0, 0, 0, 0), ALLOW); /* opens mount points */
        check_eq_int(ask(&t, SYS_openat, 0, 0, O_DIRECT, 0), FAIL(EINVAL));
        /* The flags are the sixth argument. */
        for (unsigned flags = 0; flags < 256; flags++) {
                struct seccomp_data data = {
                        .nr = SYS_preadv2, .arch = seccomp_arch_native(), .args = {[5] = flags}};
                uint32_t ret = 0, refused = RWF_NOWAIT | 0x80;
                check_eq_int(bpf_eval(p.code, p.n, &data, &ret), 0);
                check_eq_int(ret, flags & refused ? FAIL(EOPNOTSUPP) : ALLOW);
                data.nr = SYS_pwritev2;
                check_eq_int(bpf_eval(p.code, p.n, &data, &ret), 0);
                check_eq_int(ret, flags & refused ? FAIL(EOPNOTSUPP) : ALLOW);
                refused |= RWF_DSYNC | RWF_SYNC;
                check_eq_int(bpf_eval(m.code, m.n, &data, &ret), 0);
                check_eq_int(ret, flags & refused ? FAIL(EOPNOTSUPP) : ALLOW);
        }
        free(p.code);
        free(r.code);
        free(m.code);
        free(t.code);
}

static void test_worker_limits(void)
{
        struct program p = compile(FILTER_WORKER);

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

static void test_unpacker_policy(void)
{
        struct program u = compile(FILTER_UNPACKER);
        static const int denied[] = {SYS_socket,  SYS_clone,  SYS_execve,   SYS_mknodat,
                                     SYS_linkat,  SYS_ptrace, SYS_fchownat, SYS_setxattr,
                                     SYS_sendmsg, SYS_mount,  SYS_fchmodat, SYS_unshare};

        check_eq_int(ask(&u, SYS_openat, 5, 0, O_WRONLY | O_CREAT | O_EXCL, 0755), ALLOW);
        check_eq_int(ask(&u, SYS_openat, 5, 0, O_WRONLY | O_CREAT | O_EXCL, 04755), FAIL(ENOSYS));
        check_eq_int(ask(&u, SYS_openat, 5, 0, O_WRONLY | O_CREAT | O_EXCL, 02755), FAIL(ENOSYS));
        check_eq_int(ask(&u, SYS_mkdirat, 5, 0, 0755, 0), ALLOW);
        check_eq_int(ask(&u, SYS_fchmod, 5, 0755, 0, 0), ALLOW);
        check_eq_int(ask(&u, SYS_fchmod, 5, 04755, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&u, SYS_symlinkat, 0, 5, 0, 0), ALLOW);
        check_eq_int(ask(&u, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, 0), FAIL(ENOSYS));
        for (size_t at = 0; at < ARRAY_SIZE(denied); at++)
                check_eq_int(ask(&u, denied[at], 0, 0, 0, 0), FAIL(ENOSYS));
        free(u.code);
}

static void test_journal_policy(void)
{
        struct program j = compile(FILTER_JOURNAL);
        static const int denied[] = {SYS_socket,   SYS_clone,    SYS_execve,  SYS_connect,
                                     SYS_mknodat,  SYS_linkat,   SYS_ptrace,  SYS_fchownat,
                                     SYS_kill,     SYS_renameat, SYS_mkdirat, SYS_mount,
                                     SYS_pwrite64, SYS_unshare};

        check_eq_int(ask(&j, SYS_openat, 5, 0, O_RDWR | O_APPEND | O_CREAT | O_EXCL, 0600), ALLOW);
        check_eq_int(ask(&j, SYS_openat, 5, 0, O_RDWR | O_APPEND | O_CREAT | O_EXCL, 04600),
                     FAIL(ENOSYS));
        check_eq_int(ask(&j, SYS_fdatasync, 5, 0, 0, 0), ALLOW);
        check_eq_int(ask(&j, SYS_unlinkat, 5, 0, 0, 0), ALLOW);
        check_eq_int(ask(&j, SYS_fcntl, 5, F_SETFL, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&j, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, 0), FAIL(ENOSYS));
        for (size_t at = 0; at < ARRAY_SIZE(denied); at++)
                check_eq_int(ask(&j, denied[at], 0, 0, 0, 0), FAIL(ENOSYS));
        free(j.code);
}

static void test_inject_policy(void)
{
        struct program j = compile(FILTER_INJECT), e = compile(FILTER_EGRESS);
        static const int denied[] = {SYS_socket,  SYS_socketpair, SYS_clone, SYS_execve,
                                     SYS_connect, SYS_openat,     SYS_bind,  SYS_ptrace,
                                     SYS_kill,    SYS_accept4,    SYS_dup,   SYS_prctl,
                                     SYS_unshare, SYS_setsockopt};

        check_eq_int(ask(&j, SYS_recvmsg, 5, 0, 0, 0), ALLOW);
        check_eq_int(ask(&j, SYS_write, 5, 0, 0, 0), ALLOW);
        check_eq_int(ask(&j, SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, 0), ALLOW);
        check_eq_int(ask(&j, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, 0), FAIL(ENOSYS));
        check_eq_int(ask(&j, SYS_fcntl, 5, F_SETOWN, 0, 0), FAIL(ENOSYS));
        for (size_t at = 0; at < ARRAY_SIZE(denied); at++)
                check_eq_int(ask(&j, denied[at], 0, 0, 0, 0), FAIL(ENOSYS));
        check_open(&j, O_RDONLY, FAIL(ENOSYS));
        check_eq_int(ask(&e, SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0), ALLOW);
        check_eq_int(ask(&e, SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, 0), FAIL(ENOSYS));
        free(j.code);
        free(e.code);
}

static void test_other_policies(void)
{
        struct program t = compile(FILTER_TEMPLATE), b = compile(FILTER_BROKER),
                       s = compile(FILTER_STUB), i = compile(FILTER_INIT),
                       r = compile(FILTER_READER), h = compile(FILTER_BROKER_HTTP),
                       p = compile(FILTER_PICTURE);

        check_eq_int(ask(&p, SYS_write, 3, 0, 0, 0), ALLOW);
        check_eq_int(ask(&p, SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, 0), ALLOW);
        check_eq_int(ask(&p, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, 0), FAIL(ENOSYS));
        static const int denied[] = {SYS_read,      SYS_openat,   SYS_socket,   SYS_sendmsg,
                                     SYS_recvmsg,   SYS_clone,    SYS_execve,   SYS_kill,
                                     SYS_ptrace,    SYS_prctl,    SYS_mprotect, SYS_memfd_create,
                                     SYS_setitimer, SYS_prlimit64};
        for (size_t at = 0; at < ARRAY_SIZE(denied); at++)
                check_eq_int(ask(&p, denied[at], 0, 0, 0, 0), FAIL(ENOSYS));
        free(p.code);

        check_eq_int(ask(&r, SYS_openat, AT_FDCWD, 0, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0), ALLOW);
        check_eq_int(ask(&r, SYS_openat, AT_FDCWD, 0, O_WRONLY, 0), FAIL(ENOSYS));
        check_eq_int(ask(&r, SYS_openat, AT_FDCWD, 0, O_RDWR, 0), FAIL(ENOSYS));
        check_eq_int(ask(&r, SYS_openat, AT_FDCWD, 0, O_RDONLY | O_CREAT, 0), FAIL(ENOSYS));
        check_eq_int(ask(&r, SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, 0), ALLOW);
        check_eq_int(ask(&r, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, 0), FAIL(ENOSYS));
        check_eq_int(ask(&r, SYS_getdents64, 3, 0, 4096, 0), ALLOW);
        check_eq_int(ask(&r, SYS_fcntl, 3, F_GETFL, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&r, SYS_execve, 0, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&r, SYS_clone, SIGCHLD, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&r, SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&r, SYS_kill, 1, 9, 0, 0), FAIL(ENOSYS));
        free(r.code);

        check_eq_int(ask(&t, SYS_clone3, 0, 0, 0, 0), ALLOW);
        check_eq_int(ask(&t, SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0, 0), ALLOW);
        check_eq_int(ask(&t, SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                         0, 0),
                     ALLOW);
        check_eq_int(ask(&t, SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                         SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0, 0),
                     FAIL(ENOSYS));
        check_eq_int(
                ask(&t, SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0, 0),
                FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_unshare, CLONE_NEWCGROUP, 0, 0, 0), ALLOW);
        check_eq_int(ask(&t, SYS_unshare, CLONE_NEWNET, 0, 0, 0), ALLOW);
        check_eq_int(ask(&t, SYS_unshare, CLONE_NEWNET | CLONE_NEWUSER, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_unshare, CLONE_NEWIPC, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_unshare, CLONE_NEWUTS, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_unshare, CLONE_NEWCGROUP | CLONE_NEWUSER, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_socket, AF_INET, SOCK_STREAM, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&t, SYS_ptrace, 0, 0, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&t, SYS_setns, 5, CLONE_NEWNET, 0, 0), ALLOW);
        check_eq_int(ask(&t, SYS_setns, 0, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_setns, 5, CLONE_NEWNET | CLONE_NEWNS, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_setns, 5, CLONE_NEWIPC, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&t, SYS_process_madvise, 0, 0, 0, 0), FAIL(ENOSYS));

        check_eq_int(ask(&b, SYS_execve, 0, 0, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0, 0), ALLOW);
        check_eq_int(ask(&b, SYS_clone, SIGCHLD, 0, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_clone, CLONE_THREAD | CLONE_NEWUSER, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&b, SYS_clone3, 0, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&b, SYS_socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 6, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_connect, 0, 0, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&h, SYS_socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 6, 0), ALLOW);
        check_eq_int(ask(&h, SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0, 0), ALLOW);
        check_eq_int(ask(&h, SYS_connect, 0, 0, 0, 0), ALLOW);
        check_eq_int(ask(&h, SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&h, SYS_socket, AF_UNIX | BIT32, SOCK_STREAM, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0), FAIL(EPERM));
        check_eq_int(ask(&b, SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, 0), ALLOW);
        check_eq_int(ask(&b, SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&b, SYS_prlimit64, 1, 0, 0, 0), FAIL(ENOSYS));

        for (int nr = 0; nr < FILTER_CHECK_CALLS; nr++) {
                bool allowed = nr == SYS_read || nr == SYS_exit || nr == SYS_exit_group ||
                               nr == SYS_rt_sigreturn;
                check_eq_int(ask(&s, nr, 0, 0, 0, 0), allowed ? ALLOW : FAIL(ENOSYS));
        }
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), ALLOW);
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_WRONLY, 0), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_openat, 0, 0, O_RDONLY | O_CREAT, 0), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_unlinkat, 0, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_clone, CLONE_VM | SIGCHLD, 0, 0, 0), ALLOW);
        check_eq_int(ask(&i, SYS_clone, SIGCHLD, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_clone, CLONE_VM | CLONE_NEWUSER | SIGCHLD, 0, 0, 0), FAIL(ENOSYS));
        check_eq_int(ask(&i, SYS_kill, 2, SIGINT, 0, 0), ALLOW);
        free(t.code);
        free(b.code);
        free(h.code);
        free(s.code);
        free(i.code);
}

int main(void)
{
        run(test_rules_of_a_call_exclude_each_other);
        run(test_names_and_comparisons);
        run(test_programs_match_the_tables);
        run(test_check_detects_changed_programs);
        run(test_check_detects_unknown_numbers);
        run(test_worker_calls);
        run(test_worker_sockets);
        run(test_sockets_of_profiles);
        run(test_memory_that_rlimits_do_not_count);
        run(test_template_mounts);
        run(test_worker_clone);
        run(test_worker_arguments);
        run(test_locks_of_open_files);
        run(test_shared_files);
        run(test_worker_limits);
        run(test_unpacker_policy);
        run(test_journal_policy);
        run(test_inject_policy);
        run(test_other_policies);
        return 0;
}
