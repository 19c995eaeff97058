/* The filters that the build compiled: used if their fingerprint is right, never otherwise. */
#include "policy/seccomp/check.h"
#include "tests/unit/filter-program.h"

/* filter_check() finds each program wrong for every other table. */
static void test_no_program_passes_as_another(void)
{
        for (enum filter_kind kind = 0; kind < FILTER_KIND_MAX; kind++) {
                struct filter_entries e;
                struct error err = {};
                check_ok(filter_entries_init(&e, kind, number, &err));
                for (enum filter_kind other = 0; other < FILTER_KIND_MAX; other++) {
                        const struct filter_ready *p = &filters_ready[other];
                        int r = filter_check(&e, p->program, p->n, seccomp_arch_native(), &err);
                        if (r != (other == kind ? 0 : -EIO))
                                test_fail_("%s as %s: %d", filter_kind_name(other),
                                           filter_kind_name(kind), r);
                }
                filter_entries_done(&e);
        }
}

static bool same(const struct program *a, const struct sock_filter *b, size_t n)
{
        return a->n == n && memcmp(a->code, b, n * sizeof(*b)) == 0;
}

static struct program seal(enum filter_kind kind, const struct filter_ready *ready)
{
        struct error err = {};
        int fd = filter_seal(kind, ready, &err);

        check_ok(fd);
        return read_program(fd);
}

/* The program of the build with every call allowed: no compiler makes it. */
static struct program allow_all(enum filter_kind kind)
{
        struct program p = compile(kind);

        for (size_t i = 0; i < p.n; i++)
                if (p.code[i].code == (BPF_RET | BPF_K))
                        p.code[i].k = SECCOMP_RET_ALLOW;
        return p;
}

static uint64_t fingerprint(const struct filter_entries *e, const struct filter_ready *p)
{
        return filter_fingerprint(e, p->program, p->n, seccomp_arch_native());
}

static void test_build_programs_are_used(void)
{
        check_eq_int(filters_ready_count, FILTER_KIND_MAX);
        for (enum filter_kind kind = 0; kind < FILTER_KIND_MAX; kind++) {
                const struct filter_ready *ready = &filters_ready[kind];
                struct program compiled = seal(kind, NULL), used = seal(kind, ready);

                check_eq_int(ready->kind, kind);
                check(same(&used, ready->program, ready->n));
                check(same(&compiled, ready->program, ready->n));
                free(compiled.code);
                free(used.code);
        }
}

/* A program with a wrong fingerprint: libseccomp compiles the table instead. The control is the same
 * program with its own fingerprint. */
static void test_other_programs_are_not_used(void)
{
        for (enum filter_kind kind = 0; kind < FILTER_KIND_MAX; kind++) {
                const struct filter_ready *ready = &filters_ready[kind];
                struct program open = allow_all(kind);
                struct filter_ready changed = {kind, open.n, open.code, ready->fingerprint};
                struct filter_entries e;
                struct error err = {};

                struct program made = seal(kind, &changed);
                check(same(&made, ready->program, ready->n));
                free(made.code);

                made = seal(kind, &filters_ready[(kind + 1) % FILTER_KIND_MAX]);
                check(same(&made, ready->program, ready->n));
                free(made.code);

                check_ok(filter_entries_init(&e, kind, number, &err));
                changed.fingerprint = fingerprint(&e, &changed);
                made = seal(kind, &changed);
                check(same(&made, open.code, open.n));
                free(made.code);
                filter_entries_done(&e);
                free(open.code);
        }
}

/* The fingerprint changes with every bit of the program, every field of the table, every number and
 * the architecture. */
static void test_fingerprint(void)
{
        struct filter_entries e;
        struct error err = {};
        const struct filter_ready *ready = &filters_ready[FILTER_INIT]; /* the others take longer */
        struct sock_filter program[BPF_MAXINSNS];
        struct filter_ready changed = *ready;

        check_ok(filter_entries_init(&e, FILTER_INIT, number, &err));
        check(fingerprint(&e, ready) == ready->fingerprint);
        check(filter_fingerprint(&e, ready->program, ready->n, ~seccomp_arch_native()) !=
              ready->fingerprint);
        changed.n--;
        check(fingerprint(&e, &changed) != ready->fingerprint);
        changed = (struct filter_ready){FILTER_INIT, ready->n, program, ready->fingerprint};
        for (size_t i = 0; i < ready->n; i++)
                /* A seventh of the bits of each, every bit in seven in a row. */
                for (size_t bit = i % 7; bit < 64; bit += 7) {
                        memcpy(program, ready->program, ready->n * sizeof(*program));
                        ((uint8_t *)&program[i])[bit / 8] ^= (uint8_t)(1 << bit % 8);
                        check(fingerprint(&e, &changed) != ready->fingerprint);
                }
        for (size_t i = 0; i < e.n_all; i++) {
                struct filter_entry was = e.entries[i];
                struct filter_rule *rule = &e.entries[i].rule;
                e.entries[i].number++;
                check(fingerprint(&e, ready) != ready->fingerprint);
                e.entries[i] = was;
                check(fingerprint(&e, ready) == ready->fingerprint);
                rule->action ^= 1;
                check(fingerprint(&e, ready) != ready->fingerprint);
                *rule = was.rule;
                for (size_t k = 0; k < FILTER_COMPARES_MAX; k++) {
                        rule->compares[k].mask ^= 1;
                        check(fingerprint(&e, ready) != ready->fingerprint);
                        *rule = was.rule;
                        rule->compares[k].value ^= 1ull << 63;
                        check(fingerprint(&e, ready) != ready->fingerprint);
                        *rule = was.rule;
                        rule->compares[k].argument ^= 1;
                        check(fingerprint(&e, ready) != ready->fingerprint);
                        *rule = was.rule;
                        rule->compares[k].unequal ^= true;
                        check(fingerprint(&e, ready) != ready->fingerprint);
                        *rule = was.rule;
                }
                e.entries[i] = was;
        }
        e.otherwise ^= 1;
        check(fingerprint(&e, ready) != ready->fingerprint);
        filter_entries_done(&e);
}

int main(void)
{
        run(test_no_program_passes_as_another);
        run(test_build_programs_are_used);
        run(test_other_programs_are_not_used);
        run(test_fingerprint);
        return 0;
}
