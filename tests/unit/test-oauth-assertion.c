/* Assertions of a client with a private key: what is signed, and that the key's other half confirms it. */
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "supervisor/oauth/proof.h"
#include "tests/unit/test.h"

static size_t pem_of(EVP_PKEY *key, char *to, size_t size)
{
        BIO *bio = BIO_new(BIO_s_mem());

        check_eq_int(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
        int n = BIO_read(bio, to, (int)size);
        check(n > 0);
        BIO_free(bio);
        return (size_t)n;
}

/* base64url without padding. */
static void decode(const char *text, size_t n, struct buffer *to)
{
        char padded[8192];

        check(n + 4 < sizeof(padded));
        for (size_t i = 0; i < n; i++)
                padded[i] = (char)(text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i]);
        while (n % 4)
                padded[n++] = '=';
        check_eq_int(base64_decode(to, padded, n), 0);
}

/* A raw signature of P-256 as DER. */
static size_t join(const unsigned char *raw, unsigned char *der)
{
        ECDSA_SIG *numbers = ECDSA_SIG_new();

        ECDSA_SIG_set0(numbers, BN_bin2bn(raw, 32, NULL), BN_bin2bn(raw + 32, 32, NULL));
        int n = i2d_ECDSA_SIG(numbers, &der);
        ECDSA_SIG_free(numbers);
        return (size_t)n;
}

static bool confirms(EVP_PKEY *key, const char *text, size_t n, const struct buffer *signature)
{
        bool ed = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519;
        const unsigned char *bytes = (const unsigned char *)buffer_bytes(signature);
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        size_t length = signature->length;
        unsigned char der[128];

        if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC) {
                check_eq_int((int)length, 64);
                length = join(bytes, der);
                bytes = der;
        }
        bool good = EVP_DigestVerifyInit(context, NULL, ed ? NULL : EVP_sha256(), NULL, key) == 1 &&
                    EVP_DigestVerify(context, bytes, length, (const unsigned char *)text, n) == 1;
        EVP_MD_CTX_free(context);
        return good;
}

static void check_claims(const char *text, size_t n)
{
        _cleanup_buffer_ struct buffer claims = BUFFER_INIT(8192);
        _cleanup_json_ yyjson_doc *doc = NULL;
        int64_t from = 0, until = 0;

        decode(text, n, &claims);
        check_eq_int(json_parse(buffer_bytes(&claims), claims.length, &doc, NULL), 0);
        yyjson_val *root = yyjson_doc_get_root(doc);
        check_eq_str(json_string(root, "iss", NULL), "a \"client\"");
        check_eq_str(json_string(root, "sub", NULL), "a \"client\"");
        check_eq_str(json_string(root, "aud", NULL), "https://as.example");
        check_eq_int((int)strlen(json_string(root, "jti", NULL)), 43);
        json_int64(yyjson_obj_get(root, "iat"), &from);
        json_int64(yyjson_obj_get(root, "exp"), &until);
        check_eq_int((int)(until - from), 300);
}

static void check_kind(EVP_PKEY *key, const char *algorithm)
{
        struct oauth_client client = {.id = "a \"client\"", .key_id = "k"};
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(32768), signature = BUFFER_INIT(4096),
                                       header = BUFFER_INIT(4096);
        char pem[8192], expected[64];

        check_eq_int(oauth_key_read(pem, pem_of(key, pem, sizeof(pem)), client.key, NULL), 0);
        check_eq_int(oauth_assertion_append(&client, "https://as.example", &text, NULL), 0);
        const char *start = buffer_bytes(&text);
        const char *claims = (const char *)memchr(start, '.', text.length) + 1;
        const char *end = memchr(claims, '.', text.length - (size_t)(claims - start));
        decode(start, (size_t)(claims - start) - 1, &header);
        snprintf(expected, sizeof(expected), "{\"alg\":\"%s\",\"typ\":\"JWT\",\"kid\":\"k\"}",
                 algorithm);
        check(header.length == strlen(expected) &&
              memcmp(buffer_bytes(&header), expected, header.length) == 0);
        check_claims(claims, (size_t)(end - claims));
        decode(end + 1, text.length - (size_t)(end + 1 - start), &signature);
        check(confirms(key, start, (size_t)(end - start), &signature));
        /* The control: another text has another signature. */
        check(!confirms(key, start, (size_t)(end - start) - 1, &signature));
        EVP_PKEY_free(key);
}

static void test_kinds(void)
{
        for (int i = 0; i < 20; i++) /* numbers of a signature have leading zeros now and then */
                check_kind(EVP_EC_gen("P-256"), "ES256");
        check_kind(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), "EdDSA");
        check_kind(EVP_RSA_gen(2048), "RS256");
}

static void check_refused(EVP_PKEY *key, const char *why)
{
        struct oauth_client client = {};
        struct error err = {};
        char pem[8192];

        check(oauth_key_read(pem, pem_of(key, pem, sizeof(pem)), client.key, &err) < 0);
        check(strstr(err.text, why));
        EVP_PKEY_free(key);
}

static void test_refusals(void)
{
        struct oauth_client client = {.id = "c"};
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(32768);

        check_refused(EVP_EC_gen("P-384"), "another kind");
        check_refused(EVP_RSA_gen(1024), "another kind");
        check(oauth_key_read("", 0, client.key, NULL) < 0);
        check(oauth_key_read("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 57,
                             client.key, NULL) < 0);
        for (size_t i = 0; i < 3; i++) {
                static const char *const odd[] = {"", "AAAA", "not base64"};
                snprintf(client.key, sizeof(client.key), "%s", odd[i]);
                check(oauth_assertion_append(&client, "https://as.example", &text, NULL) < 0);
        }
}

int main(void)
{
        run(test_kinds);
        run(test_refusals);
        return 0;
}
