#include "policy/seccomp/check.h"

#include "base/cleanup.h"
#include "tests/unit/test.h"

static const struct seccomp_data data = {
        .nr = 7,
        .arch = 0xc000003e,
        .args = {0x1122334455667788, UINT64_MAX},
};

/* The program's result; -1 if it is refused. */
static int64_t eval(const struct sock_filter *program, size_t n)
{
        uint32_t ret = 0;
        int r = bpf_eval(program, n, &data, &ret);

        if (r < 0) {
                check_eq_int(r, -EINVAL);
                return -1;
        }
        return ret;
}
#define EVAL(...)                                                                                  \
        eval((struct sock_filter[]){__VA_ARGS__},                                                  \
             sizeof((struct sock_filter[]){__VA_ARGS__}) / sizeof(struct sock_filter))

#define LD(k)       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, k)
#define LI(k)       BPF_STMT(BPF_LD | BPF_IMM, k)
#define LXI(k)      BPF_STMT(BPF_LDX | BPF_IMM, k)
#define ALU(op, k)  BPF_STMT(BPF_ALU | (op) | BPF_K, k)
#define ALUX(op)    BPF_STMT(BPF_ALU | (op) | BPF_X, 0)
#define JUMP(op, k) BPF_JUMP(BPF_JMP | (op) | BPF_K, k, 0, 1)
#define RET(k)      BPF_STMT(BPF_RET | BPF_K, k)
#define RETA        BPF_STMT(BPF_RET | BPF_A, 0)

static void test_loads(void)
{
        check_eq_int(EVAL(LD(0), RETA), 7);
        check_eq_int(EVAL(LD(4), RETA), 0xc000003e);
        check_eq_int(EVAL(LD(16), RETA), 0x55667788); /* little-endian */
        check_eq_int(EVAL(LD(20), RETA), 0x11223344);
        check_eq_int(EVAL(BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), RETA), 64);
        check_eq_int(EVAL(LI(5), BPF_STMT(BPF_ST, 3), LI(0), BPF_STMT(BPF_LDX | BPF_MEM, 3),
                          BPF_STMT(BPF_MISC | BPF_TXA, 0), RETA),
                     5);
        check_eq_int(EVAL(LI(9), BPF_STMT(BPF_MISC | BPF_TAX, 0), LI(1), BPF_STMT(BPF_STX, 0),
                          BPF_STMT(BPF_LD | BPF_MEM, 0), RETA),
                     9);
}

static void test_arithmetic(void)
{
        check_eq_int(EVAL(LI(7), ALU(BPF_ADD, 0xffffffff), RETA), 6);
        check_eq_int(EVAL(LI(7), ALU(BPF_SUB, 8), RETA), 0xffffffff);
        check_eq_int(EVAL(LI(7), ALU(BPF_MUL, 3), RETA), 21);
        check_eq_int(EVAL(LI(7), ALU(BPF_DIV, 2), RETA), 3);
        check_eq_int(EVAL(LI(6), ALU(BPF_AND, 3), RETA), 2);
        check_eq_int(EVAL(LI(6), ALU(BPF_OR, 1), RETA), 7);
        check_eq_int(EVAL(LI(6), ALU(BPF_XOR, 3), RETA), 5);
        check_eq_int(EVAL(LI(1), ALU(BPF_LSH, 31), RETA), 0x80000000);
        check_eq_int(EVAL(LI(8), LXI(2), ALUX(BPF_RSH), RETA), 2);
        check_eq_int(EVAL(LI(1), BPF_STMT(BPF_ALU | BPF_NEG, 0), RETA), 0xffffffff);
}

static void test_jumps(void)
{
        check_eq_int(EVAL(LI(5), JUMP(BPF_JEQ, 5), RET(1), RET(2)), 1);
        check_eq_int(EVAL(LI(5), JUMP(BPF_JEQ, 6), RET(1), RET(2)), 2);
        check_eq_int(EVAL(LI(5), JUMP(BPF_JGT, 4), RET(1), RET(2)), 1);
        check_eq_int(EVAL(LI(5), JUMP(BPF_JGT, 5), RET(1), RET(2)), 2);
        check_eq_int(EVAL(LI(5), JUMP(BPF_JGE, 5), RET(1), RET(2)), 1);
        check_eq_int(EVAL(LI(5), JUMP(BPF_JSET, 4), RET(1), RET(2)), 1);
        check_eq_int(EVAL(LI(5), JUMP(BPF_JSET, 2), RET(1), RET(2)), 2);
        check_eq_int(EVAL(BPF_STMT(BPF_JMP | BPF_JA, 1), RET(1), RET(2)), 2);
        check_eq_int(
                EVAL(LI(5), LXI(5), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1), RET(1), RET(2)),
                1);
}

/* Programs that the kernel would not load, above all those that read or jump out of bounds. */
static void test_refused(void)
{
        check_eq_int(EVAL(LD(64), RETA), -1);
        check_eq_int(EVAL(LD(2), RETA), -1);
        check_eq_int(EVAL(BPF_STMT(BPF_LD | BPF_MEM, 16), RETA), -1);
        check_eq_int(EVAL(BPF_STMT(BPF_ST, 16), RETA), -1);
        check_eq_int(EVAL(LI(1), ALU(BPF_DIV, 0), RETA), -1);
        check_eq_int(EVAL(LI(1)), -1);
        check_eq_int(EVAL(BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff), RET(1)), -1);
        check_eq_int(EVAL(BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0), RETA), -1);
        check_eq_int(eval(NULL, 0), -1);
}

int main(void)
{
        run(test_loads);
        run(test_arithmetic);
        run(test_jumps);
        run(test_refused);
        return 0;
}
