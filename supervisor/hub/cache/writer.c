/* Writes the files of the cache for the broker. */
#include "supervisor/hub/cache/writer.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/hub/cache/cache.h"
#include "supervisor/hub/cache/request.h"

/* The broker is not trusted: a file that is too long, and a descriptor of another type, are not read. */
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
                struct cache_request request;
                int fd = -1;
                size_t count = 1;

                ssize_t n = fd_receive(socket, &request, sizeof(request), &fd, &count, NULL, 0);
                if (n == 0 || (n < 0 && n != -EPROTO))
                        return;
                if (n == sizeof(request) && count == 1)
                        take(dir, request.key, fd);
                else if (n == sizeof(request))
                        hub_cache_touch(dir, request.key);
                if (n > 0 && count == 1)
                        close(fd);
        }
}
