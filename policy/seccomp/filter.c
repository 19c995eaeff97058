/*
 * From a table of policy/seccomp/rules.h to a sealed BPF program.
 *
 * Theory of operation. The build compiles each filter with libseccomp, checks it against its table
 * (filter_check()) and stores it with a fingerprint of the program, the table, the architecture and
 * the system call numbers that libseccomp knew. At run time filter_seal() computes the fingerprint
 * again, with the numbers of the libseccomp of this machine. If both are equal, the check of the
 * build holds here too, and the program of the build is used. Otherwise libseccomp compiles the
 * table now and filter_check() runs; a program that fails it is never returned.
 */
#include "policy/seccomp/filter.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "policy/seccomp/check.h"
#include "policy/seccomp/filter-compile.h"

#ifdef FILTERS_AT_RUN_TIME
/* A cross build cannot run filter-embed: each filter is compiled at run time. */
const struct filter_ready filters_ready[] = {{0, 0, NULL}};
const size_t filters_ready_count = 0;
#endif

static bool is_usable(const struct filter_entries *entries, const struct filter_ready *ready)
{
        return ready && filter_fingerprint(entries, ready->program, ready->n,
                                           filter_native_arch()) == ready->fingerprint;
}

static int seal_compiled(const struct filter_entries *entries, enum filter_kind kind,
                         struct error *err)
{
        _cleanup_free_ char *program = NULL;
        size_t size = 0;

        log_debug("seccomp filter of %s: compiled at run time", filter_kind_name(kind));
        int r = filter_program(entries, &program, &size, err);
        if (r >= 0)
                r = filter_check(entries, (const struct sock_filter *)program,
                                 size / sizeof(struct sock_filter), filter_native_arch(), err);
        return r < 0 ? r : fd_sealed(filter_kind_name(kind), program, size, err);
}

int filter_seal(enum filter_kind kind, const struct filter_ready *ready, struct error *err)
{
        _cleanup_(filter_entries_done) struct filter_entries entries = {};

        int r = filter_entries_init(&entries, kind, filter_native_number, err);
        if (r >= 0 && is_usable(&entries, ready))
                r = fd_sealed(filter_kind_name(kind), ready->program,
                              ready->n * sizeof(*ready->program), err);
        else if (r >= 0)
                r = seal_compiled(&entries, kind, err);
        return r < 0 ? error_context(err, "seccomp filter of %s", filter_kind_name(kind)) : r;
}

int filter_compile(enum filter_kind kind, struct error *err)
{
        const struct filter_ready *ready = NULL;

        for (size_t i = 0; i < filters_ready_count; i++)
                if (filters_ready[i].kind == kind)
                        ready = &filters_ready[i];
        return filter_seal(kind, ready, err);
}
