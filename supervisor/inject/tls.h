/* One side of a connection: TLS over a socket that does not block. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tls {
        SSL *ssl;
        int fd;
        bool is_ready;                /* the handshake is complete */
        bool wants_read, wants_write; /* of the last calls; the owner clears them */
};

void tls_done(struct tls *tls);

/* 1: complete; 0: not yet; -EIO. */
int tls_handshake(struct tls *tls);
/* Bytes; 0: none now; -EPIPE: the peer has ended the connection in order; -EIO. */
ssize_t tls_read(struct tls *tls, void *to, size_t n);
/* Bytes; 0: none now; -EIO. */
ssize_t tls_write(struct tls *tls, const void *from, size_t n);
/* Says that nothing more comes. */
void tls_end(struct tls *tls);
/* Why the certificate of the server is not good, or NULL. */
const char *tls_certificate_problem(const struct tls *tls);
