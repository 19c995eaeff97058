/* Where the body of a request ends: only so much goes to the server, because a second request behind it could be for
 * another host. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum request_body_kind { REQUEST_BODY_LENGTH, REQUEST_BODY_CHUNKED };

struct request_body {
        enum request_body_kind kind;
        uint64_t left;          /* bytes of the body, or of the chunk */
        unsigned state, digits; /* of chunks */
};

/* Whether all of it was taken. A new body with length 0 is complete. */
int request_body_is_complete(const struct request_body *body);

/* Returns how many of the n bytes belong to the body, n unless it ends before; -EINVAL: the chunks are malformed. */
ssize_t request_body_take(struct request_body *body, const char *data, size_t n);
