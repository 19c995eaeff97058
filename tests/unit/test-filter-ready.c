/* The filters that the build has compiled: used where they are this machine's, and no other. */
#include "tests/unit/filter-program.h"

#define ALLOW SECCOMP_RET_ALLOW

/* Whichever takes another's place: the check that a start makes is enough to see it. */
static void test_no_program_passes_as_another(void)
{
        for (enum filter_kind kind = 0; kind < FILTER_KIND_MAX; kind++) {
                struct filter_entries e;
                struct error err = {};
                check_ok(filter_entries_init(&e, kind, number, &err));
                for (enum filter_kind other = 0; other < FILTER_KIND_MAX; other++) {
                        const struct filter_ready *p = &filters_ready[other];
                        int r = filter_check(&e, p->program, p->n, seccomp_arch_native(), false,
                                             &err);
                        if (r != (other == kind ? 0 : -EIO))
                                test_fail_("%s as %s: %d", filter_kind_name(other),
                                           filter_kind_name(kind), r);
                }
                filter_entries_done(&e);
        }
}

/* The build's is as good as one made now; another one than the table's is not used. */
static void test_ready_programs(void)
{
        check_eq_int(filters_ready_count, FILTER_KIND_MAX);
        for (enum filter_kind kind = 0; kind < FILTER_KIND_MAX; kind++) {
                struct program fresh = compile_from(kind, NULL, 0), used = compile(kind);

                check_eq_int(filters_ready[kind].kind, kind);
                check_eq_int(used.n, filters_ready[kind].n);
                check(memcmp(used.code, filters_ready[kind].program, used.n * sizeof(*used.code)) ==
                      0);
                enum filter_kind other = (kind + 1) % FILTER_KIND_MAX;
                struct program made = compile_from(kind, filters_ready[other].program,
                                                   filters_ready[other].n);
                check(made.n == fresh.n &&
                      memcmp(made.code, fresh.code, made.n * sizeof(*made.code)) == 0);
                free(made.code);
                for (size_t i = 0; i < used.n; i++)
                        if (used.code[i].code == (BPF_RET | BPF_K))
                                used.code[i].k = ALLOW;
                made = compile_from(kind, used.code, used.n);
                check(made.n == fresh.n &&
                      memcmp(made.code, fresh.code, made.n * sizeof(*made.code)) == 0);
                free(made.code);
                free(fresh.code);
                free(used.code);
        }
}

static uint64_t fingerprint(const struct filter_entries *e, const struct filter_ready *p)
{
        return filter_fingerprint(e, p->program, p->n, seccomp_arch_native());
}

/* Whatever the check goes by is in it, and the build's is this machine's: at a start it stands for
 * the check. */
static void test_fingerprint(void)
{
        struct filter_entries e;
        struct error err = {};
        const struct filter_ready *ready = &filters_ready[FILTER_WORKER];
        struct sock_filter program[BPF_MAXINSNS];
        struct filter_ready changed = *ready;

        check_ok(filter_entries_init(&e, FILTER_WORKER, number, &err));
        check(fingerprint(&e, ready) == ready->fingerprint);
        check(filter_fingerprint(&e, ready->program, ready->n, ~seccomp_arch_native()) !=
              ready->fingerprint);
        changed.n--;
        check(fingerprint(&e, &changed) != ready->fingerprint);
        changed = (struct filter_ready){FILTER_WORKER, ready->n, program, ready->fingerprint};
        for (size_t i = 0; i < ready->n; i++)
                for (size_t bit = 0; bit < 64; bit++) {
                        memcpy(program, ready->program, ready->n * sizeof(*program));
                        ((uint8_t *)&program[i])[bit / 8] ^= (uint8_t)(1 << bit % 8);
                        check(fingerprint(&e, &changed) != ready->fingerprint);
                }
        for (size_t i = 0; i < e.n_all; i++) {
                struct filter_entry was = e.entries[i];
                struct filter_rule rule = *was.rule;
                e.entries[i].number++;
                check(fingerprint(&e, ready) != ready->fingerprint);
                e.entries[i] = (struct filter_entry){was.number, &rule};
                check(fingerprint(&e, ready) == ready->fingerprint);
                rule.action ^= 1;
                check(fingerprint(&e, ready) != ready->fingerprint);
                rule = *was.rule;
                for (size_t k = 0; k < FILTER_COMPARES_MAX; k++) {
                        rule.compares[k].mask ^= 1;
                        check(fingerprint(&e, ready) != ready->fingerprint);
                        rule = *was.rule;
                        rule.compares[k].value ^= 1ull << 63;
                        check(fingerprint(&e, ready) != ready->fingerprint);
                        rule = *was.rule;
                        rule.compares[k].argument ^= 1;
                        check(fingerprint(&e, ready) != ready->fingerprint);
                        rule = *was.rule;
                        rule.compares[k].unequal ^= true;
                        check(fingerprint(&e, ready) != ready->fingerprint);
                        rule = *was.rule;
                }
                e.entries[i] = was;
        }
        e.otherwise ^= 1;
        check(fingerprint(&e, ready) != ready->fingerprint);
        filter_entries_done(&e);

        /* Another program with the fingerprint of the build's is not used. */
        memcpy(program, ready->program, ready->n * sizeof(*program));
        for (size_t i = 0; i < ready->n; i++)
                if (program[i].code == (BPF_RET | BPF_K))
                        program[i].k = SECCOMP_RET_ALLOW;
        int fd = filter_seal(FILTER_WORKER, &changed, &err);
        check_ok(fd);
        struct program made = read_program(fd);
        check(memcmp(made.code, program, made.n * sizeof(*program)) != 0);
        free(made.code);
}

int main(void)
{
        run(test_no_program_passes_as_another);
        run(test_ready_programs);
        run(test_fingerprint);
        return 0;
}
