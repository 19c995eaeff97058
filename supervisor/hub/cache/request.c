/* Requests to the process that writes the cache. */
#include "supervisor/hub/cache/request.h"

#include "base/cleanup.h"
#include "base/fd.h"

int cache_request_store(int socket, uint64_t key, const void *content, size_t n)
{
        const struct cache_request request = {key};

        _cleanup_close_ int fd = fd_sealed("cache", content, n, NULL);
        return fd < 0 ? fd : fd_send(socket, &request, sizeof(request), &fd, 1, MSG_DONTWAIT);
}

int cache_request_touch(int socket, uint64_t key)
{
        const struct cache_request request = {key};

        return fd_send(socket, &request, sizeof(request), NULL, 0, MSG_DONTWAIT);
}
