/* Shorter filters answer as before: made by hand, and of many random ones each number near an edge.
 */
#include "policy/seccomp/bpf-shrink.h"

#include <stddef.h>

#include "base/cleanup.h"
#include "policy/seccomp/bpf-eval.h"
#include "tests/unit/test.h"

#define LD(field)        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define AND(k)           BPF_STMT(BPF_ALU | BPF_AND | BPF_K, k)
#define JEQ(k, yes, no)  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define JGE(k, yes, no)  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, k, yes, no)
#define JGT(k, yes, no)  BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, k, yes, no)
#define JSET(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k, yes, no)
#define JA(k)            BPF_STMT(BPF_JMP | BPF_JA, k)
#define RET(k)           BPF_STMT(BPF_RET | BPF_K, k)

enum { ARCH = 7, NUMBERS = 300, PROGRAMS = 3000 };

static uint32_t eval(const struct sock_filter *program, size_t n, uint32_t number,
                     uint64_t argument)
{
        const struct seccomp_data data = {
                .nr = (int)number,
                .arch = ARCH,
                .args = {argument, argument},
        };
        uint32_t ret = 0;

        check_eq_int(bpf_eval(program, n, &data, &ret), 0);
        return ret;
}

static void check_same(const struct sock_filter *before, size_t n, const struct sock_filter *after,
                       size_t m)
{
        static const uint32_t far[] = {0x3fffffff, 0x40000000, 0x7fffffff, 0x80000000, UINT32_MAX};
        static const uint64_t arguments[] = {0, 1, 6, 7, 8, UINT32_MAX, 1ull << 32, UINT64_MAX};

        for (size_t i = 0; i < NUMBERS + ARRAY_SIZE(far); i++)
                for (size_t k = 0; k < ARRAY_SIZE(arguments); k++) {
                        uint32_t number = i < NUMBERS ? (uint32_t)i : far[i - NUMBERS];
                        check_eq_int(eval(after, m, number, arguments[k]),
                                     eval(before, n, number, arguments[k]));
                }
}

/* Returns the new length, of a program that answers as before. */
static size_t shrunk(const struct sock_filter *program, size_t n)
{
        struct sock_filter copy[BPF_MAXINSNS];

        memcpy(copy, program, n * sizeof(*program));
        size_t m = bpf_shrink(copy, n);
        check(m <= n);
        if (m == n)
                check(memcmp(copy, program, n * sizeof(*program)) == 0);
        check_same(program, n, copy, m);
        return m;
}
#define SHRUNK(...)                                                                                \
        shrunk((struct sock_filter[]){__VA_ARGS__},                                                \
               ARRAY_SIZE(((struct sock_filter[]){__VA_ARGS__})))

#define HEAD LD(arch), JEQ(ARCH, 1, 0), RET(9), LD(nr) /* four instructions */

static void test_neighbours_become_a_range(void)
{
        /* HEAD, one comparison for two edges more, two leaves */
        check_eq_int(SHRUNK(HEAD, JEQ(10, 5, 0), JEQ(11, 4, 0), JEQ(12, 3, 0), JEQ(13, 2, 0),
                            JEQ(14, 1, 0), RET(1), RET(2)),
                     4 + 2 + 2);
        /* in whatever order, by whatever comparison, to whichever copy */
        check_eq_int(SHRUNK(HEAD, JGE(12, 0, 3), JGT(13, 1, 0), RET(2), RET(1), JEQ(11, 3, 0),
                            JEQ(10, 2, 0), JA(0), RET(1), RET(2)),
                     4 + 2 + 2);
        /* one number alone */
        check_eq_int(SHRUNK(HEAD, JEQ(10, 3, 0), JEQ(20, 1, 0), JEQ(30, 0, 0), RET(1), RET(2)),
                     4 + 1 + 2);
        /* none at all */
        check_eq_int(SHRUNK(HEAD, JEQ(10, 1, 0), JEQ(20, 0, 0), RET(1)), 4 + 1);
        /* to the last number that there is */
        check_eq_int(SHRUNK(HEAD, JEQ(UINT32_MAX, 2, 0), JGE(0x80000000, 1, 0), RET(1), RET(2)),
                     4 + 1 + 2);
}

static void test_half_that_is_not_compared(void)
{
        check_eq_int(SHRUNK(HEAD, JEQ(5, 0, 6), LD(args[0]), AND(0), JEQ(0, 0, 3), LD(args[1]),
                            JEQ(7, 0, 1), RET(1), RET(2)),
                     4 + 1 + 2 + 4);
        /* Of another half something is asked. */
        check_eq_int(SHRUNK(HEAD, JEQ(5, 0, 6), LD(args[0]), AND(1), JEQ(0, 0, 3), LD(args[1]),
                            JEQ(7, 0, 1), RET(1), RET(2)),
                     12);
        check_eq_int(SHRUNK(HEAD, JEQ(5, 0, 6), LD(args[0]), AND(0), JEQ(1, 0, 3), LD(args[1]),
                            JEQ(7, 0, 1), RET(1), RET(2)),
                     12);
        /* What is left in the accumulator is looked at. */
        check_eq_int(SHRUNK(HEAD, JEQ(5, 0, 5), LD(args[0]), AND(0), JEQ(0, 0, 2), JEQ(0, 0, 1),
                            RET(1), RET(2)),
                     11);
}

static void test_other_shapes_stay(void)
{
        /* no number */
        check_eq_int(SHRUNK(LD(arch), JEQ(ARCH, 1, 0), JEQ(3, 0, 0), RET(1)), 4);
        /* out of the program; not evaluated, which refuses it */
        struct sock_filter out[] = {HEAD, JEQ(5, 9, 0), JEQ(6, 0, 0), RET(1)};
        check_eq_int(bpf_shrink(out, ARRAY_SIZE(out)), ARRAY_SIZE(out));
        struct sock_filter far[] = {HEAD, JEQ(5, 1, 0), JEQ(6, 0, 1), JA(0x7fffffff), RET(1)};
        check_eq_int(bpf_shrink(far, ARRAY_SIZE(far)), ARRAY_SIZE(far));
        struct sock_filter end[] = {LD(nr)};
        check_eq_int(bpf_shrink(end, 1), 1);
        check_eq_int(bpf_shrink(NULL, 0), 0);
}

/* With an argument in its place it stays a comparison. */
static void test_comparison_of_two(void)
{
        check_eq_int(SHRUNK(HEAD, JEQ(20, 12, 0), JEQ(21, 11, 0), JEQ(22, 10, 0), JEQ(23, 9, 0),
                            JEQ(24, 8, 0), JEQ(25, 7, 0), JEQ(26, 6, 0), JEQ(27, 5, 0),
                            JEQ(28, 4, 0), JEQ(29, 3, 0), JEQ(5, 0, 1), LD(args[0]), JEQ(6, 0, 1),
                            RET(1), RET(2)),
                     4 + 5 + 3 + 4);
}

/* What is no comparison of the number by a constant still finds it in the accumulator. */
static void test_number_stays_loaded(void)
{
        check_eq_int(SHRUNK(HEAD, JEQ(10, 6, 0), JEQ(11, 5, 0), JEQ(12, 4, 0), JEQ(13, 3, 0),
                            JEQ(14, 2, 0), JSET(4, 0, 1), RET(1), RET(2)),
                     4 + 2 + 2 + 3);
}

/* More ranges than a jump reaches, more exits: it stays. */
static void test_too_many(void)
{
        struct sock_filter program[600] = {HEAD};
        size_t n = 4;

        for (uint32_t number = 0; number < 290; number++) {
                program[n++] = (struct sock_filter)JEQ(number, 0, 1);
                program[n++] = (struct sock_filter)RET(number / 2 % 2);
        }
        program[n++] = (struct sock_filter)RET(3);
        check_eq_int(shrunk(program, n), 4 + 145 + 3);
        for (size_t i = 5; i < n - 1; i += 2)
                program[i].k = (uint32_t)(i / 2) % 3;
        check_eq_int(shrunk(program, n), n);
        for (size_t i = 5; i < n - 1; i += 2)
                program[i].k = (uint32_t)i;
        check_eq_int(shrunk(program, n), n);
}

static uint32_t random_state = 1;

static uint32_t below(uint32_t n)
{
        random_state = random_state * 1664525 + 1013904223;
        return (random_state >> 8) % n;
}

/* Forward jumps to anywhere, of all the kinds that libseccomp writes and some more. */
static size_t random_program(struct sock_filter program[static 64])
{
        static const struct sock_filter head[] = {HEAD};
        size_t n = 12 + below(50);

        memcpy(program, head, sizeof(head));
        for (size_t i = ARRAY_SIZE(head); i < n; i++) {
                uint32_t left = (uint32_t)(n - i) - 1, k = below(NUMBERS);
                uint8_t yes = (uint8_t)below(left ? left : 1), no = (uint8_t)below(left ? left : 1);
                const struct sock_filter kinds[] = {
                        JEQ(k, yes, no), JEQ(k, yes, no), JEQ(k, 0, no),  JGE(k, yes, no),
                        JGT(k, yes, 0),  JA(yes),         LD(args[0]),    AND(0),
                        JEQ(0, yes, no), RET(k % 3),      JSET(k, 0, no), LD(args[1]),
                };
                program[i] = kinds[below(ARRAY_SIZE(kinds))];
                /* the three in a row, and an end */
                if (i + 4 < n && below(6) == 0) {
                        program[i++] = (struct sock_filter)LD(args[0]);
                        program[i++] = (struct sock_filter)AND(0);
                        program[i] = (struct sock_filter)JEQ(0, below(2), below(2));
                }
                if (i >= n - 3)
                        program[i] = (struct sock_filter)RET(below(3));
        }
        program[n - 1] = (struct sock_filter)RET(4);
        return n;
}

static void test_random_programs(void)
{
        struct sock_filter program[64];
        size_t shorter = 0;

        for (size_t i = 0; i < PROGRAMS; i++) {
                size_t n = random_program(program);
                shorter += shrunk(program, n) < n;
        }
        printf("  %zu of %d became shorter\n", shorter, PROGRAMS);
        check(shorter > PROGRAMS / 4);
}

int main(void)
{
        run(test_neighbours_become_a_range);
        run(test_half_that_is_not_compared);
        run(test_other_shapes_stay);
        run(test_comparison_of_two);
        run(test_number_stays_loaded);
        run(test_too_many);
        run(test_random_programs);
        return 0;
}
