/*
 * Whether processes have run.
 *
 * Theory of operation. A thread that runs is in state R, or is switched out again, which its counters
 * of context switches show. So a thread that is not in state R, and has the same counters as before, has
 * not run; and what none of them has started is not there.
 */
#include "supervisor/monitor/process/process-rest.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/monitor/process/process-cursor.h"

enum { THREADS_MAX = 48, PATH_SIZE = 64 };

/* FNV-1a, by numbers. */
static const uint64_t HASH_START = 0xcbf29ce484222325, HASH_PRIME = 0x100000001b3;

static uint64_t mix(uint64_t hash, uint64_t number)
{
        return (hash ^ number) * HASH_PRIME;
}

static bool read_number(const char *text, const char *key, uint64_t *ret)
{
        const char *at = strstr(text, key);

        *ret = at ? strtoull(at + strlen(key), NULL, 10) : 0;
        return at != NULL;
}

static bool add_thread(int proc, const char *thread, uint64_t *hash)
{
        char text[PROCESS_TEXT_SIZE] _uninitialized_;
        uint64_t by_itself, others;

        if (!process_read(proc, thread, "status", text) || strstr(text, "\nState:\tR") ||
            !read_number(text, "\nvoluntary_ctxt_switches:", &by_itself) ||
            !read_number(text, "\nnonvoluntary_ctxt_switches:", &others))
                return false;
        *hash = mix(mix(*hash, by_itself), others);
        return true;
}

static bool add_process(int proc, long pid, int *left, uint64_t *hash)
{
        char path[PATH_SIZE];
        long thread;

        snprintf(path, sizeof(path), "%ld/task", pid);
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(proc, path);
        while ((thread = process_cursor_next(&c)) > 0) {
                snprintf(path, sizeof(path), "%ld/task/%ld", pid, thread);
                *hash = mix(*hash, (uint64_t)thread);
                if (--*left < 0 || !add_thread(proc, path, hash))
                        return false;
        }
        return true;
}

uint64_t process_rest(int proc)
{
        _cleanup_(process_cursor_close) struct process_cursor c = process_cursor_open(proc, ".");
        uint64_t hash = HASH_START;
        int left = THREADS_MAX;
        long pid;

        while ((pid = process_cursor_next(&c)) > 0) {
                hash = mix(hash, (uint64_t)pid);
                if (!add_process(proc, pid, &left, &hash))
                        return 0;
        }
        return hash == 0 ? 1 : hash;
}
