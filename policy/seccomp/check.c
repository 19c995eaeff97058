/*
 * Checks compiled filters against their tables.
 *
 * The kernel runs the program that libseccomp made of the rules, not the rules. So this evaluates
 * the program, call by call, and compares its answer with the table's. For an argument that a rule
 * compares, it tries values that match, values that differ in one bit of the mask, and values with
 * the bits set that the kernel ignores (CVE-2019-10063: setting bit 32 evaded a filter that compared
 * 64 bits of an argument that the kernel reads as 32 bits).
 */
#include "policy/seccomp/check.h"

#include <errno.h>
#include <linux/audit.h>

#include "policy/seccomp/bpf-eval.h"

#define X32_BIT 0x40000000

struct check {
        const struct filter_entries *entries;
        const struct sock_filter *program;
        size_t n;
        uint32_t arch;
        struct error *err;
};

static const uint64_t samples[] = {0,          1,          2,          0x7fffffff, 0x80000000,
                                   UINT32_MAX, 1ull << 32, 1ull << 63, UINT64_MAX};

static int differs(const struct check *c, const struct seccomp_data *data, uint32_t want,
                   uint32_t got)
{
        return error_set(
                c->err, EIO,
                "call %d on %#x (%#llx, %#llx, %#llx, %#llx): the program gives %#x, the table %#x: it was miscompiled",
                data->nr, data->arch, (unsigned long long)data->args[0],
                (unsigned long long)data->args[1], (unsigned long long)data->args[2],
                (unsigned long long)data->args[3], got, want);
}

static int check_one(const struct check *c, const struct seccomp_data *data, uint32_t want)
{
        uint32_t got = 0;

        if (bpf_eval(c->program, c->n, data, &got) < 0)
                return error_set(c->err, EIO, "call %d: not a valid program", data->nr);
        return got == want ? 0 : differs(c, data, want, got);
}

static int check_table(const struct check *c, const struct seccomp_data *data)
{
        return check_one(c, data, filter_decide(c->entries, data));
}

static void fit(const struct filter_rule *rule, struct seccomp_data *data)
{
        for (size_t i = 0; i < FILTER_COMPARES_MAX && rule->compares[i].mask != 0; i++)
                data->args[rule->compares[i].argument] = rule->compares[i].value ^
                                                         (rule->compares[i].unequal ? 1 : 0);
}

/* Turns each bit of one argument, one at a time. */
static int check_bits(const struct check *c, const struct seccomp_data *fitting,
                      unsigned int argument)
{
        for (size_t i = 0; i < 64; i++) {
                struct seccomp_data data = *fitting;
                data.args[argument] ^= 1ull << i;
                int r = check_table(c, &data);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_samples(const struct check *c, const struct seccomp_data *fitting,
                         unsigned int argument)
{
        for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
                struct seccomp_data data = *fitting;
                data.args[argument] = samples[i];
                int r = check_table(c, &data);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_rule(const struct check *c, const struct filter_entry *entry)
{
        struct seccomp_data data = {.nr = entry->number, .arch = c->arch};
        int r;

        fit(entry->rule, &data);
        r = check_table(c, &data);
        for (size_t i = 0; i < FILTER_COMPARES_MAX && entry->rule->compares[i].mask != 0 && r == 0;
             i++) {
                r = check_bits(c, &data, entry->rule->compares[i].argument);
                if (r == 0)
                        r = check_samples(c, &data, entry->rule->compares[i].argument);
        }
        return r;
}

/* A call that a rule of another table matches: the answer must be that of this table. */
static int check_other(const struct check *c, const struct filter_entry *entry)
{
        struct seccomp_data data = {.nr = entry->number, .arch = c->arch};

        fit(entry->rule, &data);
        return check_table(c, &data);
}

/* A call with all six arguments equal. */
static int check_call(const struct check *c, int number)
{
        for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
                uint64_t v = samples[i];
                struct seccomp_data data = {number, c->arch, 0, {v, v, v, v, v, v}};
                int r = check_table(c, &data);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* System calls of other architectures, 32-bit ones included, and on x86-64 the x32 numbers. */
static int check_foreign(const struct check *c, int number)
{
        static const uint32_t arches[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_X86_64,
                                          AUDIT_ARCH_AARCH64, 0};
        int r = 0;

        for (size_t i = 0; i < sizeof(arches) / sizeof(arches[0]) && r == 0; i++) {
                struct seccomp_data data = {.nr = number, .arch = arches[i]};
                if (arches[i] != c->arch)
                        r = check_one(c, &data, SECCOMP_RET_KILL_PROCESS);
        }
        if (r == 0 && c->arch == AUDIT_ARCH_X86_64) {
                struct seccomp_data data = {.nr = number | X32_BIT, .arch = c->arch};
                r = check_one(c, &data, SECCOMP_RET_KILL_PROCESS);
        }
        return r;
}

/* Numbers that no call has: a range in the program could end too late. */
static int check_far(const struct check *c)
{
        static const int far[] = {FILTER_CHECK_CALLS, 1023, 4095, INT16_MAX, 0xffff,
                                  X32_BIT - 1,        -1};
        int r = 0;

        for (size_t i = 0; i < sizeof(far) / sizeof(far[0]) && r == 0; i++)
                r = check_call(c, far[i]);
        return r;
}

int filter_check(const struct filter_entries *entries, const struct sock_filter *program, size_t n,
                 uint32_t arch, struct error *err)
{
        const struct check c = {entries, program, n, arch, err};
        int r = 0;

        for (int number = 0; number < FILTER_CHECK_CALLS && r == 0; number++) {
                r = check_call(&c, number);
                if (r == 0)
                        r = check_foreign(&c, number);
        }
        if (r == 0)
                r = check_far(&c);
        for (size_t i = 0; i < entries->n_entries && r == 0; i++)
                r = check_rule(&c, &entries->entries[i]);
        for (size_t i = entries->n_entries; i < entries->n_all && r == 0; i++)
                r = check_other(&c, &entries->entries[i]);
        return r;
}

/* FNV-1a */
static uint64_t add(uint64_t hash, uint64_t value)
{
        for (size_t i = 0; i < sizeof(value); i++)
                hash = (hash ^ (value >> i * 8 & 0xff)) * 0x100000001b3u;
        return hash;
}

static uint64_t add_entry(uint64_t hash, const struct filter_entry *entry)
{
        hash = add(add(hash, (uint64_t)entry->number), entry->rule->action);
        for (size_t i = 0; i < FILTER_COMPARES_MAX; i++) {
                const struct filter_compare *c = &entry->rule->compares[i];
                hash = add(add(hash, c->mask), c->value);
                hash = add(hash, (uint64_t)c->argument << 1 | c->unequal);
        }
        return hash;
}

uint64_t filter_fingerprint(const struct filter_entries *entries, const struct sock_filter *program,
                            size_t n, uint32_t arch)
{
        uint64_t hash = add(0xcbf29ce484222325u, arch);

        hash = add(add(hash, entries->otherwise), entries->n_entries);
        for (size_t i = 0; i < entries->n_all; i++)
                hash = add_entry(hash, &entries->entries[i]);
        for (size_t i = 0; i < n; i++) {
                const struct sock_filter *at = &program[i];
                hash = add(hash, (uint64_t)at->k << 32 | (uint32_t)at->code << 16 |
                                         (uint32_t)at->jt << 8 | at->jf);
        }
        return hash;
}
