/* The certificate authority, by OpenSSL. */
#include "supervisor/inject/authority.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"

enum {
        DAY_S = 24 * 3600,
        YEAR_S = 366 * DAY_S,
        EARLY_S = 3600, /* clocks differ */
        RENEW_S = DAY_S / 2,
        SERIAL_BYTES = 16,
        READ_BYTES = 64 * 1024,
        NAMES_MAX = INJECT_HOSTS_MAX * (INJECT_HOST_SIZE + 16) + 256,
};

struct authority {
        const struct inject_settings *settings;
        EVP_PKEY *key, *host_key;
        X509 *certificate;
        struct {
                X509 *certificate;
                time_t made;
        } hosts[INJECT_HOSTS_MAX];
        SSL_CTX *accepting, *connecting;
};

static int set_serial(X509 *x)
{
        unsigned char bytes[SERIAL_BYTES];
        BIGNUM *number = RAND_bytes(bytes, sizeof(bytes)) == 1
                                 ? BN_bin2bn(bytes, sizeof(bytes) - 1, NULL)
                                 : NULL;
        int ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x)) != NULL;

        BN_free(number);
        return ok;
}

static int add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
        X509V3_CTX context;

        X509V3_set_ctx_nodb(&context);
        X509V3_set_ctx(&context, issuer, x, NULL, NULL, 0);
        X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
        int ok = extension && X509_add_ext(x, extension, -1);
        X509_EXTENSION_free(extension);
        return ok;
}

static X509 *begin(const char *name, EVP_PKEY *key, long seconds)
{
        X509 *x = X509_new();
        X509_NAME *subject = x ? X509_get_subject_name(x) : NULL;

        if (x && X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
            X509_gmtime_adj(X509_getm_notBefore(x), -EARLY_S) &&
            X509_gmtime_adj(X509_getm_notAfter(x), seconds) && X509_set_pubkey(x, key) &&
            X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                                       -1, 0))
                return x;
        X509_free(x);
        return NULL;
}

/* Without a constraint for addresses, a certificate for one would be good (RFC 5280, 4.2.1.10). */
static int constrain(struct authority *a, X509 *x)
{
        _cleanup_buffer_ struct buffer names = BUFFER_INIT(NAMES_MAX);

        buffer_printf(&names, "critical,excluded;IP:0.0.0.0/0.0.0.0,"
                              "excluded;IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0");
        for (size_t i = 0; i < a->settings->n_hosts; i++)
                buffer_printf(&names, ",permitted;DNS:%s", a->settings->hosts[i].name);
        return buffer_append(&names, "", 1) >= 0 && !names.error &&
               add_extension(x, x, NID_name_constraints, buffer_bytes(&names));
}

static int make_authority(struct authority *a)
{
        X509 *x = a->certificate = begin("Cloister, for hosts of secrets and inspect", a->key,
                                         YEAR_S);

        return x && X509_set_issuer_name(x, X509_get_subject_name(x)) &&
               add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
               add_extension(x, x, NID_key_usage, "critical,keyCertSign") &&
               add_extension(x, x, NID_ext_key_usage, "serverAuth") &&
               add_extension(x, x, NID_subject_key_identifier, "hash") && constrain(a, x) &&
               X509_sign(x, a->key, EVP_sha256());
}

static X509 *make_host(struct authority *a, size_t host)
{
        char names[INJECT_HOST_SIZE + 8];
        /* A common name has 64 characters at most, and no program needs it. */
        X509 *x = begin("a host of Cloister", a->host_key, DAY_S);

        snprintf(names, sizeof(names), "DNS:%s", a->settings->hosts[host].name);
        if (x && X509_set_issuer_name(x, X509_get_subject_name(a->certificate)) &&
            add_extension(x, a->certificate, NID_basic_constraints, "critical,CA:FALSE") &&
            add_extension(x, a->certificate, NID_key_usage, "critical,digitalSignature") &&
            add_extension(x, a->certificate, NID_ext_key_usage, "serverAuth") &&
            add_extension(x, a->certificate, NID_subject_key_identifier, "hash") &&
            add_extension(x, a->certificate, NID_authority_key_identifier, "keyid:always") &&
            add_extension(x, a->certificate, NID_subject_alt_name, names) &&
            X509_sign(x, a->key, EVP_sha256()))
                return x;
        X509_free(x);
        return NULL;
}

static X509 *host_certificate(struct authority *a, size_t host)
{
        time_t now = time(NULL), made = a->hosts[host].made;
        X509 *x = a->hosts[host].certificate;

        if (x && now >= made && now - made < RENEW_S)
                return x;
        X509_free(x);
        a->hosts[host].certificate = make_host(a, host);
        a->hosts[host].made = now;
        return a->hosts[host].certificate;
}

/* Only HTTP/1.1 is offered and taken. */
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *n,
                           const unsigned char *in, unsigned in_n, void *data)
{
        static const unsigned char ours[] = "\x08http/1.1";
        unsigned char *found = NULL;

        if (SSL_select_next_proto(&found, n, ours, sizeof(ours) - 1, in, in_n) !=
            OPENSSL_NPN_NEGOTIATED)
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        *out = found;
        return SSL_TLSEXT_ERR_OK;
}

static void set_both(SSL_CTX *context)
{
        SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
        SSL_CTX_set_options(context,
                            SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
        SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                          SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        /* Several records by one read(2). */
        SSL_CTX_set_read_ahead(context, 1);
        SSL_CTX_set_default_read_buffer_len(context, READ_BYTES);
}

static int add_trusted(SSL_CTX *context, int fd)
{
        X509_STORE *store = SSL_CTX_get_cert_store(context);
        FILE *file = fdopen(dup(fd), "re");
        X509 *x;
        int n = 0;

        while (file && (x = PEM_read_X509_AUX(file, NULL, NULL, NULL))) {
                n += X509_STORE_add_cert(store, x) == 1;
                X509_free(x);
        }
        ERR_clear_error();
        if (file)
                fclose(file);
        return n > 0;
}

static int make_contexts(struct authority *a, int certificates, struct error *err)
{
        static const unsigned char protocols[] = "\x08http/1.1";

        a->accepting = SSL_CTX_new(TLS_server_method());
        a->connecting = SSL_CTX_new(TLS_client_method());
        if (!a->accepting || !a->connecting)
                return error_errno(err, ENOMEM, "TLS");
        set_both(a->accepting);
        set_both(a->connecting);
        SSL_CTX_set_num_tickets(a->accepting, 0);
        SSL_CTX_set_alpn_select_cb(a->accepting, select_protocol, NULL);
        SSL_CTX_set_alpn_protos(a->connecting, protocols, sizeof(protocols) - 1);
        SSL_CTX_set_verify(a->connecting, SSL_VERIFY_PEER, NULL);
        if (!add_trusted(a->connecting, certificates))
                return error_set(err, ENOENT,
                                 "no certificates of authorities were found: set SSL_CERT_FILE");
        return 0;
}

int authority_new(struct authority **ret, const struct inject_settings *settings, int certificates,
                  struct error *err)
{
        struct authority *a = calloc(1, sizeof(*a));

        if (!a)
                return error_errno(err, ENOMEM, "authority");
        a->settings = settings;
        a->key = EVP_EC_gen("P-256");
        a->host_key = EVP_EC_gen("P-256");
        bool is_made = a->key && a->host_key && make_authority(a);
        for (size_t i = 0; i < settings->n_hosts && is_made; i++)
                is_made = host_certificate(a, i);
        if (!is_made)
                return error_set(err, EIO, "the certificates of hosts could not be made: %s",
                                 ERR_reason_error_string(ERR_peek_last_error()));
        *ret = a;
        return make_contexts(a, certificates, err);
}

int authority_print(const struct authority *a, char *to, size_t size)
{
        BIO *bio = BIO_new(BIO_s_mem());
        char *text = NULL;
        long n = 0;

        if (bio && PEM_write_bio_X509(bio, a->certificate))
                n = BIO_get_mem_data(bio, &text);
        bool fits = n > 0 && (size_t)n < size;
        if (fits) {
                memcpy(to, text, (size_t)n);
                to[n] = '\0';
        }
        BIO_free(bio);
        return fits ? 0 : -E2BIG;
}

SSL *authority_accept(struct authority *a, size_t host, int fd)
{
        SSL *ssl = SSL_new(a->accepting);
        X509 *x = host_certificate(a, host);

        if (ssl && x && SSL_use_certificate(ssl, x) == 1 &&
            SSL_use_PrivateKey(ssl, a->host_key) == 1 && SSL_set_fd(ssl, fd) == 1) {
                SSL_set_accept_state(ssl);
                return ssl;
        }
        SSL_free(ssl);
        return NULL;
}

SSL *authority_connect(struct authority *a, const char *host, int fd)
{
        SSL *ssl = SSL_new(a->connecting);

        if (ssl) {
                SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
                SSL_set_connect_state(ssl);
        }
        if (ssl && SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1 &&
            SSL_set_fd(ssl, fd) == 1)
                return ssl;
        SSL_free(ssl);
        return NULL;
}
