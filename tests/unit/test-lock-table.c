/* The table of POSIX locks: against one that has an entry for each byte, at its bound, and with a table that code wrote. */
#include "sandbox-init/lock-table.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

enum { BYTES = 24, PLACES = 64 };

/* The word after the last place shows what is written there. */
static struct {
        struct file_lock locks[PLACES], after;
} table;
static size_t n_locks;

static struct file_lock lock_of(int type, int64_t start, int64_t end)
{
        return (struct file_lock){
                .device = 1, .inode = 2, .start = start, .end = end, .process = 3, .type = type};
}

static void clear(void)
{
        memset(&table, 0, sizeof(table));
        memset(&table.after, 0xa5, sizeof(table.after));
        n_locks = 0;
}

static int set_of(size_t max, int type, int64_t start, int64_t end)
{
        int r = lock_table_set(table.locks, &n_locks, max, lock_of(type, start, end));

        check(n_locks <= max);
        return r;
}

static int set(int type, int64_t start, int64_t end)
{
        return set_of(PLACES, type, start, end);
}

static void check_untouched(void)
{
        const unsigned char *bytes = (const unsigned char *)&table.after;

        for (size_t i = 0; i < sizeof(table.after); i++)
                check_eq_int(bytes[i], 0xa5);
}

/* The type that the table has for this byte; F_UNLCK: none. No byte is in two locks. */
static int type_at(int64_t at)
{
        int found = F_UNLCK;

        for (size_t i = 0; i < n_locks; i++)
                if (table.locks[i].start <= at && at <= table.locks[i].end) {
                        check_eq_int(found, F_UNLCK);
                        found = table.locks[i].type;
                }
        return found;
}

static void test_each_byte(void)
{
        static const int types[] = {F_RDLCK, F_WRLCK, F_UNLCK};
        int bytes[BYTES];

        srandom(1);
        clear();
        for (int i = 0; i < BYTES; i++)
                bytes[i] = F_UNLCK;
        for (int round = 0; round < 20000; round++) {
                int start = (int)(random() % BYTES), type = types[random() % 3];
                int end = start + (int)(random() % (BYTES - start));
                check_eq_int(set(type, start, end), 0);
                for (int i = start; i <= end; i++)
                        bytes[i] = type;
                for (int i = 0; i < BYTES; i++)
                        check_eq_int(type_at(i), bytes[i]);
                for (size_t i = 0; i < n_locks; i++)
                        for (size_t j = 0; j < n_locks; j++)
                                check(table.locks[i].end + 1 != table.locks[j].start ||
                                      table.locks[i].type != table.locks[j].type);
        }
        check_untouched();
}

/* SQLite unlocks all bytes at each close. Offsets end at INT64_MAX. */
static void test_the_last_byte(void)
{
        clear();
        check_eq_int(set(F_WRLCK, 5, 9), 0);
        check_eq_int(set(F_UNLCK, 0, INT64_MAX), 0);
        check_eq_int(n_locks, 0);
        check_eq_int(set(F_WRLCK, 0, INT64_MAX), 0);
        check_eq_int(set(F_RDLCK, 0, INT64_MAX), 0);
        check_eq_int(set(F_UNLCK, 0, INT64_MAX - 1), 0);
        check_eq_int(n_locks, 1);
        check(table.locks[0].start == INT64_MAX && table.locks[0].end == INT64_MAX);
}

static void test_others(void)
{
        struct file_lock l = lock_of(F_WRLCK, 0, 9);

        clear();
        check_eq_int(set(F_RDLCK, 0, 9), 0);
        l.process = 4;
        check_eq_int(lock_table_set(table.locks, &n_locks, PLACES, l), 0);
        l.process = 3;
        l.inode = 5;
        check_eq_int(lock_table_set(table.locks, &n_locks, PLACES, l), 0);
        check_eq_int(n_locks, 3);
        check_eq_int(set(F_UNLCK, 0, 9), 0);
        check_eq_int(n_locks, 2);
}

static void test_its_bound(void)
{
        clear();
        for (int i = 0; i < PLACES - 1; i++)
                check_eq_int(set(F_RDLCK, 10 * i, 10 * i + 5), 0);
        check_eq_int(set(F_RDLCK, 8000, 8001), -ENOLCK);
        check_eq_int(set(F_WRLCK, 1, 2), -ENOLCK);
        check_eq_int(n_locks, PLACES - 1);
        check_eq_int(type_at(1), F_RDLCK);
        check_eq_int(set(F_UNLCK, 1, 1), 0);
        check_eq_int(set(F_UNLCK, 11, 11), -ENOLCK);
        check_eq_int(type_at(11), F_RDLCK);
        check_eq_int(set(F_UNLCK, 0, INT64_MAX), 0);
        check_eq_int(n_locks, 0);
        check_untouched();
}

/* Two entries that overlap would become four. */
static void test_a_table_of_code(void)
{
        static struct local_locks from;
        size_t used = 0;

        clear();
        for (int i = 0; i < 2; i++)
                from.locks[used++] = lock_of(F_RDLCK, 0, 100);
        from.locks[used++] = lock_of(F_WRLCK, 100, 200);
        from.locks[used++] = lock_of(F_UNLCK, 300, 400);
        from.locks[used++] = lock_of(77, 300, 400);
        from.locks[used++] = lock_of(F_WRLCK, -5, 400);
        from.locks[used++] = lock_of(F_WRLCK, INT64_MIN, INT64_MIN);
        from.locks[used++] = lock_of(F_WRLCK, 400, 300);
        from.locks[used++] = lock_of(F_WRLCK, 300, -9);
        from.n = (uint32_t)used;
        lock_table_take(table.locks, &n_locks, PLACES, &from, 3);
        check_eq_int(n_locks, 2);
        check_eq_int(type_at(99), F_RDLCK);
        check_eq_int(type_at(100), F_WRLCK);
        check_eq_int(type_at(300), F_UNLCK);
        from.n = UINT32_MAX; /* the rest is one more, of inode 0 */
        lock_table_take(table.locks, &n_locks, PLACES, &from, 3);
        check_eq_int(n_locks, 3);
        while (set(F_RDLCK, 1000 * (int64_t)n_locks, 1000 * (int64_t)n_locks) == 0)
                ;
        check_eq_int(n_locks, PLACES - 1);
        check_eq_int(set(F_WRLCK, 50, 50), -ENOLCK);
        lock_table_take(table.locks, &n_locks, PLACES, &from, 4);
        check_eq_int(n_locks, PLACES - 1);
        check_untouched();
}

/* A table whose locks overlap, which nothing makes, still has its bound. */
static void test_no_write_after_it(void)
{
        clear();
        for (int i = 0; i < PLACES - 2; i++)
                table.locks[n_locks++] = lock_of(F_RDLCK, 0, 100);
        for (size_t max = PLACES - 2; max <= PLACES; max++)
                set_of(max, F_WRLCK, 50, 50);
        check_untouched();
}

int main(void)
{
        test_each_byte();
        test_the_last_byte();
        test_others();
        test_its_bound();
        test_a_table_of_code();
        test_no_write_after_it();
        return 0;
}
