/* Compiles a table of policy/seccomp/rules.h to BPF with libseccomp. */
#include "policy/seccomp/filter-compile.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { PROGRAM_SIZE_MAX = BPF_MAXINSNS * sizeof(struct sock_filter) };

static void cleanup_context(scmp_filter_ctx *context)
{
        if (*context)
                seccomp_release(*context);
}

int filter_native_number(const char *name)
{
        return seccomp_syscall_resolve_name(name);
}

/* libseccomp's architectures are the audit numbers of the kernel. */
uint32_t filter_native_arch(void)
{
        return seccomp_arch_native();
}

static int add_rule(scmp_filter_ctx context, const struct filter_entry *entry, bool native)
{
        struct scmp_arg_cmp compares[FILTER_COMPARES_MAX];
        unsigned int n = 0;

        for (; n < FILTER_COMPARES_MAX && entry->rule.compares[n].mask != 0; n++) {
                const struct filter_compare *c = &entry->rule.compares[n];
                compares[n] = c->unequal ? SCMP_CMP64(c->argument, SCMP_CMP_NE, c->value)
                                         : SCMP_CMP64(c->argument, SCMP_CMP_MASKED_EQ, c->mask,
                                                      c->value);
        }
        if (native)
                return seccomp_rule_add_exact_array(context, entry->rule.action, entry->number, n,
                                                    compares);
        /* libseccomp translates the numbers that it knows. */
        seccomp_rule_add_array(context, entry->rule.action, entry->number, n, compares);
        return 0;
}

static int build(scmp_filter_ctx context, const struct filter_entries *entries, bool native,
                 struct error *err)
{
        int r = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
        if (r >= 0) /* a binary tree over the numbers instead of a list */
                r = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
        if (r < 0)
                return error_errno(err, -r, "set up libseccomp");
        for (size_t i = 0; i < entries->n_entries; i++) {
                r = add_rule(context, &entries->entries[i], native);
                if (r < 0)
                        return error_errno(err, -r, "libseccomp: rule for %s",
                                           entries->entries[i].rule.calls);
        }
        return 0;
}

/* libseccomp 2.5 writes to descriptors only. */
static int export(scmp_filter_ctx context, char **ret, size_t *ret_size, struct error *err)
{
        _cleanup_close_ int fd = memfd_create("filter", MFD_CLOEXEC);
        if (fd < 0)
                return error_errno(err, errno, "memfd");
        int r = seccomp_export_bpf(context, fd);
        if (r < 0)
                return error_errno(err, -r, "libseccomp: export");
        if (lseek(fd, 0, SEEK_SET) < 0)
                return error_errno(err, errno, "memfd: seek");
        return fd_read_whole(fd, PROGRAM_SIZE_MAX, ret, ret_size, err);
}

int filter_program(const struct filter_entries *entries, char **ret, size_t *ret_size,
                   struct error *err)
{
        return filter_program_for(seccomp_arch_native(), entries, ret, ret_size, err);
}

static int choose_arch(scmp_filter_ctx context, uint32_t arch)
{
        int r = seccomp_arch_add(context, arch);

        return r < 0 ? r : seccomp_arch_remove(context, seccomp_arch_native());
}

int filter_program_for(uint32_t arch, const struct filter_entries *entries, char **ret,
                       size_t *ret_size, struct error *err)
{
        bool native = arch == seccomp_arch_native();
        _cleanup_(cleanup_context) scmp_filter_ctx context = seccomp_init(entries->otherwise);
        if (!context)
                return error_errno(err, ENOMEM, "libseccomp");
        int r = native ? 0 : choose_arch(context, arch);
        if (r < 0)
                return error_errno(err, -r, "libseccomp: architecture");
        r = build(context, entries, native, err);
        if (r >= 0)
                r = export(context, ret, ret_size, err);
        return r < 0 ? r : 0;
}
