#include "policy/seccomp/bpf-eval.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

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
