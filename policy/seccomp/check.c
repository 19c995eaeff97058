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
#include <stdbool.h>
#include <string.h>

/* ---- the evaluator ---- */

struct machine {
        uint32_t a, x;
        uint32_t memory[BPF_MEMWORDS];
};

/* filter_check() runs thousands of evaluations; function calls would be a third of their time. */
#define INSIDE static inline __attribute__((always_inline))

INSIDE bool load(struct machine *m, const struct sock_filter *i, const struct seccomp_data *data,
                 uint32_t *to)
{
        switch (BPF_MODE(i->code)) {
        case BPF_IMM:
                *to = i->k;
                return true;
        case BPF_MEM:
                if (i->k >= BPF_MEMWORDS)
                        return false;
                *to = m->memory[i->k];
                return true;
        case BPF_LEN:
                *to = sizeof(*data);
                return true;
        case BPF_ABS:
                if (BPF_CLASS(i->code) != BPF_LD || i->k % 4 != 0 || i->k >= sizeof(*data))
                        return false;
                memcpy(to, (const char *)data + i->k, sizeof(*to));
                return true;
        default:
                return false;
        }
}

static bool arithmetic(struct machine *m, const struct sock_filter *i)
{
        uint32_t by = BPF_SRC(i->code) == BPF_X ? m->x : i->k;

        switch (BPF_OP(i->code)) {
        case BPF_ADD:
                m->a += by;
                return true;
        case BPF_SUB:
                m->a -= by;
                return true;
        case BPF_MUL:
                m->a *= by;
                return true;
        case BPF_DIV:
                if (by == 0)
                        return false;
                m->a /= by;
                return true;
        case BPF_OR:
                m->a |= by;
                return true;
        case BPF_AND:
                m->a &= by;
                return true;
        case BPF_XOR:
                m->a ^= by;
                return true;
        case BPF_LSH:
                m->a = by < 32 ? m->a << by : 0;
                return true;
        case BPF_RSH:
                m->a = by < 32 ? m->a >> by : 0;
                return true;
        case BPF_NEG:
                m->a = -m->a;
                return true;
        default:
                return false;
        }
}

/* The number of instructions to skip; negative for an unknown operation. */
INSIDE int64_t jump(const struct machine *m, const struct sock_filter *i)
{
        uint32_t with = BPF_SRC(i->code) == BPF_X ? m->x : i->k;

        switch (BPF_OP(i->code)) {
        case BPF_JA:
                return i->k;
        case BPF_JEQ:
                return m->a == with ? i->jt : i->jf;
        case BPF_JGT:
                return m->a > with ? i->jt : i->jf;
        case BPF_JGE:
                return m->a >= with ? i->jt : i->jf;
        case BPF_JSET:
                return m->a & with ? i->jt : i->jf;
        default:
                return -1;
        }
}

static bool store(struct machine *m, const struct sock_filter *i, uint32_t value)
{
        if (i->k >= BPF_MEMWORDS)
                return false;
        m->memory[i->k] = value;
        return true;
}

INSIDE bool step(struct machine *m, const struct sock_filter *i, const struct seccomp_data *data,
                 uint64_t *pc)
{
        int64_t skip;

        switch (BPF_CLASS(i->code)) {
        case BPF_LD:
                return load(m, i, data, &m->a);
        case BPF_LDX:
                return load(m, i, data, &m->x);
        case BPF_ST:
                return store(m, i, m->a);
        case BPF_STX:
                return store(m, i, m->x);
        case BPF_ALU:
                return arithmetic(m, i);
        case BPF_JMP:
                skip = jump(m, i);
                *pc += skip > 0 ? (uint64_t)skip : 0;
                return skip >= 0;
        case BPF_MISC:
                if (BPF_MISCOP(i->code) == BPF_TAX)
                        m->x = m->a;
                else
                        m->a = m->x;
                return true;
        default:
                return false;
        }
}

int bpf_eval(const struct sock_filter *program, size_t n, const struct seccomp_data *data,
             uint32_t *ret)
{
        struct machine m = {};

        if (n == 0 || n > BPF_MAXINSNS)
                return -EINVAL;
        /* Jumps go forward only, so this ends. */
        for (uint64_t pc = 0; pc < n; pc++) {
                const struct sock_filter *i = &program[pc];
                if (BPF_CLASS(i->code) == BPF_RET) {
                        *ret = BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
                        return 0;
                }
                if (!step(&m, i, data, &pc))
                        return -EINVAL;
        }
        return -EINVAL;
}

/* ---- the check ---- */

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

/* Turns each bit of one argument, one at a time, and tries the samples. */
static int check_argument(const struct check *c, const struct seccomp_data *fitting,
                          unsigned int argument)
{
        struct seccomp_data data = *fitting;
        int r = 0;

        for (size_t i = 0; i < 64 && r == 0; i++) {
                data.args[argument] = fitting->args[argument] ^ 1ull << i;
                r = check_table(c, &data);
        }
        for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]) && r == 0; i++) {
                data.args[argument] = samples[i];
                r = check_table(c, &data);
        }
        return r;
}

/* is_other: a call that a rule of another table matches: the answer must be that of this table. */
static int check_rule(const struct check *c, const struct filter_entry *entry, bool is_other)
{
        struct seccomp_data data = {.nr = entry->number, .arch = c->arch};

        fit(&entry->rule, &data);
        int r = check_table(c, &data);
        for (size_t i = 0;
             !is_other && i < FILTER_COMPARES_MAX && entry->rule.compares[i].mask != 0 && r == 0;
             i++)
                r = check_argument(c, &data, entry->rule.compares[i].argument);
        return r;
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
        for (size_t i = 0; i < entries->n_all && r == 0; i++)
                r = check_rule(&c, &entries->entries[i], i >= entries->n_entries);
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
        hash = add(add(hash, (uint64_t)entry->number), entry->rule.action);
        for (size_t i = 0; i < FILTER_COMPARES_MAX; i++) {
                const struct filter_compare *c = &entry->rule.compares[i];
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
