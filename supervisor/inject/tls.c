/* TLS, by OpenSSL. */
#include "supervisor/inject/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <unistd.h>

void tls_done(struct tls *t)
{
        SSL_free(t->ssl);
        if (t->fd >= 0)
                close(t->fd);
        t->ssl = NULL;
        t->fd = -1;
}

static int failed(struct tls *t, int result)
{
        int code = SSL_get_error(t->ssl, result);

        ERR_clear_error();
        if (code == SSL_ERROR_WANT_READ)
                t->wants_read = true;
        else if (code == SSL_ERROR_WANT_WRITE)
                t->wants_write = true;
        else
                return code == SSL_ERROR_ZERO_RETURN ? -EPIPE : -EIO;
        return 0;
}

int tls_handshake(struct tls *t)
{
        if (t->is_ready)
                return 1;
        int r = SSL_do_handshake(t->ssl);
        t->is_ready = r == 1;
        if (r == 1)
                return 1;
        r = failed(t, r);
        return r < 0 ? -EIO : 0;
}

ssize_t tls_read(struct tls *t, void *to, size_t n)
{
        int r = SSL_read(t->ssl, to, n < INT_MAX ? (int)n : INT_MAX);

        return r > 0 ? r : failed(t, r);
}

ssize_t tls_write(struct tls *t, const void *from, size_t n)
{
        int r = SSL_write(t->ssl, from, n < INT_MAX ? (int)n : INT_MAX);

        if (r > 0)
                return r;
        r = failed(t, r);
        return r == -EPIPE ? -EIO : r;
}

void tls_end(struct tls *t)
{
        if (t->is_ready)
                SSL_shutdown(t->ssl);
        ERR_clear_error();
}

const char *tls_certificate_problem(const struct tls *t)
{
        long code = SSL_get_verify_result(t->ssl);

        return code == X509_V_OK ? NULL : X509_verify_cert_error_string(code);
}
