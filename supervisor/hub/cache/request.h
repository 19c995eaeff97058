/* The requests of the broker to the process that writes the cache (writer.h), over a SOCK_SEQPACKET
 * socket. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* With one descriptor: the content of the key's file; with none: the file was used. */
struct cache_request {
        uint64_t key;
};

/* Both return 0 or negative errno; -EAGAIN: the process does not keep up. */
int cache_request_store(int socket, uint64_t key, const void *content, size_t n);
/* The file's age counts from now. */
int cache_request_touch(int socket, uint64_t key);
