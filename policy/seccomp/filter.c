/*
 * From a table of policy/seccomp/rules.h to BPF.
 *
 * Theory of operation. Compiling takes libseccomp longer than anything else at a start takes, and
 * holding the result against the table is next. So the build does both, the second with every bit
 * of every argument, and leaves a fingerprint of all that went into it: program, table, and the
 * numbers that its libseccomp knew. Where that is the same here, so is the outcome. Otherwise the
 * build's program is held against the table with the numbers of this machine's libseccomp, and if
 * it does not do what that says libseccomp is asked again, and its answer is checked.
 */
#include "policy/seccomp/filter.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "policy/seccomp/filter-compile.h"
#include "policy/seccomp/filter-ready.h"

static void cleanup_entries(struct filter_entries *entries)
{
        filter_entries_done(entries);
}

static int check(const struct filter_entries *entries, const struct sock_filter *program, size_t n,
                 struct error *err)
{
        return filter_check(entries, program, n, filter_native_arch(), false, err);
}

static bool is_checked(const struct filter_entries *entries, const struct filter_ready *ready)
{
        return filter_fingerprint(entries, ready->program, ready->n, filter_native_arch()) ==
               ready->fingerprint;
}

/* Returns the descriptor, -ENOENT when the build's is none for this machine. */
static int seal_ready(const struct filter_entries *entries, const struct filter_ready *ready,
                      struct error *err)
{
        struct error why = {};

        if (!ready ||
            (!is_checked(entries, ready) && check(entries, ready->program, ready->n, &why) < 0)) {
                log_debug("seccomp filter compiled anew: %s", ready ? why.text : "none was built");
                return -ENOENT;
        }
        return fd_sealed(filter_kind_name(ready->kind), ready->program,
                         ready->n * sizeof(*ready->program), err);
}

static int seal_compiled(const struct filter_entries *entries, enum filter_kind kind,
                         struct error *err)
{
        _cleanup_free_ char *program = NULL;
        size_t size = 0;

        int r = filter_program(entries, &program, &size, err);
        if (r >= 0)
                r = check(entries, (const struct sock_filter *)program,
                          size / sizeof(struct sock_filter), err);
        return r < 0 ? r : fd_sealed(filter_kind_name(kind), program, size, err);
}

int filter_seal(enum filter_kind kind, const struct filter_ready *ready, struct error *err)
{
        _cleanup_(cleanup_entries) struct filter_entries entries = {};

        int r = filter_entries_init(&entries, kind, filter_native_number, err);
        if (r >= 0)
                r = seal_ready(&entries, ready, err);
        if (r == -ENOENT)
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
