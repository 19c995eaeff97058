/* Writes the files of the cache for the broker. */
#include "supervisor/hub/cache-writer.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/hub/catalogue-cache.h"

/* With one descriptor: the content; with none: the file was used. */
struct record {
        uint64_t key;
};

int cache_writer_send(int socket, uint64_t key, const void *content, size_t n)
{
        const struct record record = {key};

        _cleanup_close_ int fd = fd_sealed("cache", content, n, NULL);
        return fd < 0 ? fd : fd_send(socket, &record, sizeof(record), &fd, 1, MSG_DONTWAIT);
}

int cache_writer_touch(int socket, uint64_t key)
{
        const struct record record = {key};

        return fd_send(socket, &record, sizeof(record), NULL, 0, MSG_DONTWAIT);
}

/* What it sends may be anything: a file that is too long or no file is not read. */
static void take(int dir, uint64_t key, int fd)
{
        _cleanup_free_ char *content = NULL;
        struct stat st;
        size_t n = 0;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > HUB_CACHE_FILE_MAX ||
            lseek(fd, 0, SEEK_SET) != 0)
                return;
        if (fd_read_whole(fd, HUB_CACHE_FILE_MAX, &content, &n, NULL) >= 0)
                hub_cache_store(dir, key, content, n);
}

void cache_writer_serve(int socket, int dir)
{
        for (;;) {
                struct record record;
                int fd = -1;
                size_t count = 1;

                ssize_t n = fd_receive(socket, &record, sizeof(record), &fd, &count, NULL, 0);
                if (n == 0 || (n < 0 && n != -EPROTO))
                        return;
                if (n == sizeof(record) && count == 1)
                        take(dir, record.key, fd);
                else if (n == sizeof(record))
                        hub_cache_touch(dir, record.key);
                if (n > 0 && count == 1)
                        close(fd);
        }
}
