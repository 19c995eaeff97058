/*
 * The cache of the servers' tools. The first byte:
 *
 *     f   a file of the cache, as it is read. Accepted when it is valid; written again it reads
 *         the same
 *     w   messages of a hostile broker to the process that writes the cache: for each a byte of length
 *         and one that says how many descriptors, and which. Accepted when a file was written
 */
#include "supervisor/hub/cache/cache.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/fuzz.h"

enum { KEY = 0x1234, MESSAGES_MAX = 16, NAME_LENGTH = 16 + 5 };

static char folder[64];
static int dir = -1;
static int files[4]; /* what the messages carry */

/* Returns how many files there were. Only the writer's names occur. */
static int empty_folder(void)
{
        int n = 0;

        DIR *d = opendir(folder);
        assert(d);
        for (const struct dirent *e; (e = readdir(d));) {
                if (e->d_name[0] == '.')
                        continue;
                assert(strlen(e->d_name) == NAME_LENGTH && strcmp(e->d_name + 16, ".json") == 0);
                assert(unlinkat(dir, e->d_name, 0) == 0);
                n++;
        }
        closedir(d);
        return n;
}

static void remove_all(void)
{
        empty_folder();
        rmdir(folder);
}

static void make_folder(void)
{
        static const char text[] = "{}";
        int ends[2];

        snprintf(folder, sizeof(folder), "/dev/shm/fuzz-cache-XXXXXX");
        assert(mkdtemp(folder));
        atexit(remove_all);
        dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert(dir >= 0 && pipe2(ends, O_CLOEXEC) == 0);
        files[0] = fd_sealed("cache", text, strlen(text), NULL);
        files[1] = memfd_create("large", MFD_CLOEXEC);
        assert(files[0] >= 0 && ftruncate(files[1], HUB_CACHE_FILE_MAX + 1) == 0);
        files[2] = ends[0];
        files[3] = dir;
}

static void entry_done(struct hub_cache_entry *entry)
{
        hub_tools_free(entry->tools);
        free(entry->instructions);
}

static bool read_file(const uint8_t *data, size_t n)
{
        struct hub_cache_entry entry = {}, again = {};

        assert(hub_cache_store(dir, KEY, (const char *)data, n) == 0);
        if (!hub_cache_load(dir, KEY, "server", &entry))
                return false;
        assert(!entry.instructions || strlen(entry.instructions) <= HUB_INSTRUCTIONS_MAX);
        assert(hub_cache_save(dir, KEY, &entry) == 0);
        assert(hub_cache_load(dir, KEY, "server", &again) == 1);
        assert(hub_tools_equal(entry.tools, again.tools) && entry.era == again.era);
        entry_done(&entry);
        entry_done(&again);
        return true;
}

static void send_messages(int socket, const uint8_t *at, const uint8_t *end)
{
        for (int i = 0; i < MESSAGES_MAX && end - at >= 2; i++) {
                size_t n = at[0] % (2 * sizeof(struct cache_request)), n_fds = at[1] % 4;
                int fds[] = {files[at[1] / 4 % 4], files[at[1] / 16 % 4], files[at[1] / 64]};
                at += 2;
                if (n > (size_t)(end - at))
                        n = (size_t)(end - at);
                fd_send(socket, at, n, fds, n_fds, MSG_DONTWAIT);
                at += n;
        }
}

static void write_files(const uint8_t *data, size_t n)
{
        int pair[2];

        assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        send_messages(pair[0], data, data + n);
        close(pair[0]);
        cache_writer_serve(pair[1], dir);
        close(pair[1]);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        bool good = false;

        if (n < 1)
                return false;
        if (!*folder)
                make_folder();
        int before = count_descriptors();
        if (data[0] == 'f')
                good = read_file(data + 1, n - 1);
        else if (data[0] == 'w')
                write_files(data + 1, n - 1);
        int left = empty_folder();
        assert(count_descriptors() == before);
        return data[0] == 'w' ? left > 0 : good;
}

FUZZ_TARGET
