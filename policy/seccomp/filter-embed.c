/* Compiles and checks the filters, and writes them as a C table (filter.h). Run by meson:
 * filter-embed > FILE */
#include <inttypes.h>
#include <seccomp.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "policy/seccomp/check.h"
#include "policy/seccomp/filter-compile.h"

static int write_one(enum filter_kind kind, uint64_t *fingerprint, struct error *err)
{
        _cleanup_(filter_entries_done) struct filter_entries entries = {};
        _cleanup_free_ char *program = NULL;
        size_t size = 0;

        int r = filter_entries_init(&entries, kind, filter_native_number, err);
        if (r >= 0)
                r = filter_program(&entries, &program, &size, err);
        if (r < 0)
                return r;
        const struct sock_filter *filter = (const struct sock_filter *)program;
        size_t n = size / sizeof(*filter);
        r = filter_check(&entries, filter, n, filter_native_arch(), err);
        if (r < 0)
                return r;
        *fingerprint = filter_fingerprint(&entries, filter, n, filter_native_arch());
        printf("static const struct sock_filter program_%d[] = {\n", (int)kind);
        for (size_t i = 0; i < n; i++)
                printf("        {%u, %u, %u, %#x},\n", filter[i].code, filter[i].jt, filter[i].jf,
                       filter[i].k);
        printf("};\n\n");
        return 0;
}

int main(void)
{
        uint64_t fingerprints[FILTER_KIND_MAX];
        struct error err = {};

        /* The filters are for another kernel than that of the build, whose own seccomp(2) libseccomp would ask whether
         * it knows SECCOMP_RET_KILL_PROCESS: QEMU's user emulation has none. Level 5 is Linux 5.0. */
        if (seccomp_api_set(5) < 0) {
                fprintf(stderr, "filter-embed: libseccomp has no level 5\n");
                return 1;
        }
        printf("#include \"policy/seccomp/filter.h\"\n\n");
        for (int kind = 0; kind < FILTER_KIND_MAX; kind++) {
                if (write_one((enum filter_kind)kind, &fingerprints[kind], &err) < 0) {
                        fprintf(stderr, "filter-embed: %s: %s\n",
                                filter_kind_name((enum filter_kind)kind), err.text);
                        return 1;
                }
        }
        printf("const struct filter_ready filters_ready[] = {\n");
        for (int kind = 0; kind < FILTER_KIND_MAX; kind++)
                printf("        {%d, sizeof(program_%d) / sizeof(program_%d[0]), program_%d, %#" PRIx64
                       "u},\n",
                       kind, kind, kind, kind, fingerprints[kind]);
        printf("};\n\nconst size_t filters_ready_count = %d;\n", FILTER_KIND_MAX);
        return fflush(stdout) == 0 ? 0 : 1;
}
