/*
 * Runs a fuzz target without a fuzzer: fuzz-NAME CORPUS [ROUNDS]
 *
 * Each file of CORPUS/accept must be accepted, each of CORPUS/reject refused; then every file is
 * mutated ROUNDS times, always in the same way, for the sanitizers to watch.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/fuzz/fuzz.h"

enum { FILE_MAX = 1024 * 1024, ROUNDS = 2000 };

static uint64_t state = 0x9e3779b97f4a7c15;

/* xorshift64* (Vigna 2016) */
static uint64_t next(void)
{
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return state * 0x2545f4914f6cdd1d;
}

static size_t mutate_once(uint8_t *data, size_t n)
{
        static const char tokens[] = "{}[]\",:\\/*-0e.\n\t \x80\xff";
        size_t at = n ? next() % n : 0;
        size_t length = n ? next() % (n - at) % 32 : 0;

        switch (next() % 5) {
        case 0:
                if (n)
                        data[at] ^= (uint8_t)(1 << next() % 8);
                return n;
        case 1:
                if (n)
                        data[at] = (uint8_t)tokens[next() % (sizeof(tokens) - 1)];
                return n;
        case 2: /* remove a piece */
                memmove(data + at, data + at + length, n - at - length);
                return n - length;
        case 3: /* duplicate a piece */
                if (n + length > FILE_MAX)
                        return n;
                memmove(data + at + length, data + at, n - at);
                return n + length;
        default:
                return next() % 16 ? n : at;
        }
}

static void mutate(const uint8_t *data, size_t n, long rounds)
{
        static uint8_t work[FILE_MAX];

        for (long i = 0; i < rounds; i++) {
                size_t length = n;
                memcpy(work, data, n);
                for (uint64_t times = 1 + next() % 6; times > 0; times--)
                        length = mutate_once(work, length);
                /* Of the exact size, so that the sanitizer detects a read beyond it. */
                _cleanup_free_ uint8_t *exact = malloc(length ? length : 1);
                memcpy(exact, work, length);
                fuzz_accepts(exact, length);
        }
}

static int run_file(const char *path, bool accept, long rounds)
{
        FILE *file = fopen(path, "re");
        if (!file) {
                perror(path);
                return 1;
        }
        _cleanup_free_ uint8_t *data = malloc(FILE_MAX);
        size_t n = fread(data, 1, FILE_MAX, file);
        fclose(file);
        if (fuzz_accepts(data, n) != accept) {
                fprintf(stderr, "%s: %s\n", path, accept ? "refused" : "accepted");
                return 1;
        }
        mutate(data, n, rounds);
        return 0;
}

static int run_folder(const char *corpus, const char *name, bool accept, long rounds)
{
        char path[4096];
        struct dirent *entry;
        int failed = 0, count = 0;

        snprintf(path, sizeof(path), "%s/%s", corpus, name);
        DIR *folder = opendir(path);
        if (!folder) {
                perror(path);
                return 1;
        }
        while ((entry = readdir(folder))) {
                if (entry->d_name[0] == '.')
                        continue;
                snprintf(path, sizeof(path), "%s/%s/%s", corpus, name, entry->d_name);
                failed += run_file(path, accept, rounds);
                count++;
        }
        closedir(folder);
        printf("%s: %d files, %d wrong\n", name, count, failed);
        return failed || count == 0;
}

int main(int argc, char **argv)
{
        if (argc < 2)
                return 2;
        long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : ROUNDS;
        int failed = run_folder(argv[1], "accept", true, rounds);
        failed += run_folder(argv[1], "reject", false, rounds);
        return failed != 0;
}
