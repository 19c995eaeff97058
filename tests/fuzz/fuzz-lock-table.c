/*
 * A table of locks that code wrote, which init takes over, and calls after it. The input is one byte for the number of locks that init
 * has already, struct local_locks, and then calls of 17 bytes: type, start, end. Accepted when init has a lock at the end.
 */
#include <assert.h>
#include <string.h>

#include "sandbox-init/lock-table.h"
#include "tests/fuzz/fuzz.h"

enum { PLACES = 96, CALL = 17 };

static struct {
        struct file_lock locks[PLACES];
        unsigned char after[sizeof(struct file_lock)];
} table;
static size_t n_locks;

static void check_table(void)
{
        assert(n_locks <= PLACES);
        for (size_t i = 0; i < sizeof(table.after); i++)
                assert(table.after[i] == 0xa5);
        for (size_t i = 0; i < n_locks; i++) {
                const struct file_lock *l = &table.locks[i];
                assert(l->type == F_RDLCK || l->type == F_WRLCK);
                assert(l->start >= 0 && l->start <= l->end);
                for (size_t j = 0; j < i; j++)
                        assert(!lock_is_of(l, &table.locks[j]) ||
                               l->process != table.locks[j].process ||
                               l->start > table.locks[j].end || l->end < table.locks[j].start);
        }
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static struct local_locks from;
        struct file_lock wanted = {.device = 1, .inode = 2, .process = 3};

        if (n < 1 + sizeof(from))
                return false;
        memcpy(&from, data + 1, sizeof(from));
        memset(&table, 0xa5, sizeof(table));
        for (n_locks = 0; n_locks < data[0] % PLACES; n_locks++)
                table.locks[n_locks] = (struct file_lock){.process = 1, .start = (int64_t)n_locks};
        for (size_t i = 0; i < n_locks; i++)
                table.locks[i].end = table.locks[i].start;
        lock_table_take(table.locks, &n_locks, PLACES, &from, 3);
        check_table();
        for (size_t at = 1 + sizeof(from); n - at >= CALL; at += CALL) {
                wanted.type = data[at] % 3;
                memcpy(&wanted.start, data + at + 1, 8);
                memcpy(&wanted.end, data + at + 9, 8);
                if (wanted.start < 0 || wanted.start > wanted.end)
                        continue;
                int r = lock_table_set(table.locks, &n_locks, PLACES, wanted);
                assert(r == 0 || r == -ENOLCK);
                check_table();
        }
        return n_locks > 0;
}

FUZZ_TARGET
