#include "policy/limits.h"

#include "tests/unit/test.h"

#define MIB (1024ull * 1024)

static void test_default(void)
{
        struct limits l;

        limits_default(&l);
        check_eq_int(l.memory, 512 * MIB);
        check_eq_int(l.tmp + l.workspace + l.shm, l.memory / 2);
        check_eq_int(l.cpu_milli, 1000);
        struct limits fit = l;
        limits_fit(&fit);
        check(memcmp(&fit, &l, sizeof(l)) == 0);
        check_eq_int(l.tmp_inodes, 16384);
}

static void test_fit_cuts_in_proportion(void)
{
        struct limits l;

        limits_default(&l);
        l.memory = 256 * MIB;
        limits_fit(&l);
        check_eq_int(l.tmp, 32 * MIB);
        check_eq_int(l.workspace, 64 * MIB);
        check_eq_int(l.shm, 32 * MIB);
        check_eq_int(l.workspace_inodes, 16384);
}

static void test_fit_leaves_what_fits(void)
{
        struct limits l;

        limits_default(&l);
        l.memory = 4096 * MIB;
        l.tmp = 64 * 1024;
        limits_fit(&l);
        check_eq_int(l.tmp, 64 * 1024);
        check_eq_int(l.workspace, 128 * MIB);
        check_eq_int(l.tmp_inodes, 1024);
}

static void test_fit_survives_any_numbers(void)
{
        static const uint64_t values[] = {0, 1, 1ull << 46, 1ull << 62, UINT64_MAX};

        for (size_t i = 0; i < 5; i++)
                for (size_t j = 0; j < 5; j++)
                        for (size_t k = 0; k < 5; k++) {
                                struct limits l = {.memory = values[k],
                                                   .tmp = values[i],
                                                   .workspace = values[j],
                                                   .shm = values[i]};
                                limits_fit(&l);
                                unsigned __int128 sum = l.tmp;
                                sum += l.workspace;
                                sum += l.shm;
                                check(sum <= values[k] / 2);
                        }
}

static void test_sessions(void)
{
        check_eq_int(limits_sessions_max(0), 16);
        check_eq_int(limits_sessions_max(8192 * MIB), 512);
        check_eq_int(limits_sessions_max(UINT64_MAX), 1024);
}

int main(void)
{
        run(test_default);
        run(test_fit_cuts_in_proportion);
        run(test_fit_leaves_what_fits);
        run(test_fit_survives_any_numbers);
        run(test_sessions);
        return 0;
}
