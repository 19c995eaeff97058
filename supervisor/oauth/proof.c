/* Signs assertions, makes verifiers. Keys are in memory while a login or a renewal runs. */
#include "supervisor/oauth/proof.h"

#include <errno.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json-out.h"

enum {
        DER_MAX = OAUTH_KEY_MAX / 4 * 3,
        PART_MAX = 8 * 1024, /* of a JWT: id and issuer are the long ones */
        SIGNATURE_MAX = 2048,
        COORDINATE = 32, /* bytes of P-256 */
        LIFE_SECONDS = 300,
        RSA_BITS_MIN = 2048,
};

static void free_key(EVP_PKEY **key)
{
        EVP_PKEY_free(*key);
}
#define _cleanup_key_ _cleanup_(free_key)

/* The "alg" of a key (RFC 7518, RFC 8037), or NULL. */
static const char *algorithm_of(const EVP_PKEY *key)
{
        char group[32] = "";

        switch (EVP_PKEY_get_base_id(key)) {
        case EVP_PKEY_EC:
                EVP_PKEY_get_group_name(key, group, sizeof(group), NULL);
                return strcmp(group, "prime256v1") == 0 ? "ES256" : NULL;
        case EVP_PKEY_RSA:
                return EVP_PKEY_get_bits(key) >= RSA_BITS_MIN ? "RS256" : NULL;
        case EVP_PKEY_ED25519:
                return "EdDSA";
        default:
                return NULL;
        }
}

/* ---- keys ---- */

static int no_passphrase(char *buffer, int size, int writing, void *data)
{
        return -1;
}

static int encode_key(EVP_PKEY *key, char ret[OAUTH_KEY_MAX + 1], struct error *err)
{
        struct buffer text = BUFFER_INIT(OAUTH_KEY_MAX);
        unsigned char *der = NULL;
        int n = i2d_PrivateKey(key, &der);

        int r = n <= 0 ? -ENOMEM : base64_append(&text, der, (size_t)n);
        if (r >= 0) {
                memcpy(ret, buffer_bytes(&text), text.length);
                ret[text.length] = '\0';
        }
        if (text.data)
                explicit_bzero(text.data, text.allocated);
        buffer_done(&text);
        if (n > 0)
                OPENSSL_clear_free(der, (size_t)n);
        return r == -EMSGSIZE ? error_set(err, EFBIG, "its key is too long")
               : r < 0        ? error_errno(err, -r, "key")
                              : 0;
}

int oauth_key_read(const char *pem, size_t n, char ret[OAUTH_KEY_MAX + 1], struct error *err)
{
        BIO *bio = BIO_new_mem_buf(pem, (int)n);
        _cleanup_key_ EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL)
                                          : NULL;

        BIO_free(bio);
        if (!key)
                return error_set(err, EINVAL,
                                 "it has no private key in PEM, or one with a passphrase");
        if (!algorithm_of(key))
                return error_set(
                        err, EINVAL,
                        "its key is of another kind than P-256, RSA of at least %d bits, or Ed25519",
                        RSA_BITS_MIN);
        return encode_key(key, ret, err);
}

static EVP_PKEY *decode_key(const char *text)
{
        struct buffer der = BUFFER_INIT(DER_MAX);
        EVP_PKEY *key = NULL;

        if (base64_decode(&der, text, strlen(text)) >= 0 && der.length > 0) {
                const unsigned char *at = (const unsigned char *)buffer_bytes(&der);
                key = d2i_AutoPrivateKey(NULL, &at, (long)der.length);
        }
        if (der.data)
                explicit_bzero(der.data, der.allocated);
        buffer_done(&der);
        return key;
}

/* base64url without padding. */
static int append_url(struct buffer *to, const void *data, size_t n)
{
        size_t from = to->length;

        int r = base64_append(to, data, n);
        if (r < 0)
                return r;
        char *text = buffer_bytes(to) + from;
        for (size_t i = 0; i < to->length - from; i++)
                text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
        while (to->length > from && buffer_bytes(to)[to->length - 1] == '=')
                to->length--;
        return 0;
}

/* Of 32 bytes. */
static int encode(const unsigned char *bytes, char ret[PKCE_LENGTH + 1], struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(64);

        if (append_url(&text, bytes, 32) < 0)
                return error_errno(err, ENOMEM, "base64");
        memcpy(ret, buffer_bytes(&text), PKCE_LENGTH);
        ret[PKCE_LENGTH] = '\0';
        return 0;
}

int pkce_random(char ret[PKCE_LENGTH + 1], struct error *err)
{
        unsigned char bytes[32];

        if (RAND_bytes(bytes, sizeof(bytes)) != 1)
                return error_set(err, EIO, "there are no random bytes");
        return encode(bytes, ret, err);
}

int pkce_challenge(const char *verifier, char ret[PKCE_LENGTH + 1], struct error *err)
{
        unsigned char digest[EVP_MAX_MD_SIZE];

        if (EVP_Digest(verifier, strlen(verifier), digest, NULL, EVP_sha256(), NULL) != 1)
                return error_errno(err, ENOMEM, "SHA-256");
        return encode(digest, ret, err);
}

/* ---- JSON Web Signatures (RFC 7515) ---- */

/* RFC 7518, section 3.4: both numbers in full length, instead of DER. */
static int split_signature(unsigned char *signature, size_t *n)
{
        const unsigned char *at = signature;
        ECDSA_SIG *numbers = d2i_ECDSA_SIG(NULL, &at, (long)*n);

        bool good = numbers && BN_bn2binpad(ECDSA_SIG_get0_r(numbers), signature, COORDINATE) > 0 &&
                    BN_bn2binpad(ECDSA_SIG_get0_s(numbers), signature + COORDINATE, COORDINATE) > 0;
        ECDSA_SIG_free(numbers);
        *n = (size_t)2 * COORDINATE;
        return good ? 0 : -EIO;
}

static int sign(EVP_PKEY *key, const struct buffer *text, struct buffer *to)
{
        bool ed = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519;
        unsigned char signature[SIGNATURE_MAX];
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        size_t n = sizeof(signature);

        bool good = context &&
                    EVP_DigestSignInit(context, NULL, ed ? NULL : EVP_sha256(), NULL, key) == 1 &&
                    EVP_DigestSign(context, signature, &n,
                                   (const unsigned char *)buffer_bytes(text), text->length) == 1;
        EVP_MD_CTX_free(context);
        if (good && EVP_PKEY_get_base_id(key) == EVP_PKEY_EC)
                good = split_signature(signature, &n) == 0;
        return good ? append_url(to, signature, n) : -EIO;
}

static int append_header(const char *algorithm, const char *key_id, struct buffer *to)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(PART_MAX);
        struct json_out out = {.to = &text};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "alg", algorithm);
        json_out_text(&out, "typ", "JWT");
        if (*key_id)
                json_out_text(&out, "kid", key_id);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : append_url(to, buffer_bytes(&text), text.length);
}

static int append_claims(const struct oauth_client *client, const char *issuer, const char *jti,
                         struct buffer *to)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(PART_MAX);
        struct json_out out = {.to = &text};
        int64_t now = time(NULL);

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "iss", client->id);
        json_out_text(&out, "sub", client->id);
        json_out_text(&out, "aud", issuer);
        json_out_int(&out, "iat", now);
        json_out_int(&out, "exp", now + LIFE_SECONDS);
        json_out_text(&out, "jti", jti);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : append_url(to, buffer_bytes(&text), text.length);
}

int oauth_assertion_append(const struct oauth_client *client, const char *issuer, struct buffer *to,
                           struct error *err)
{
        _cleanup_key_ EVP_PKEY *key = decode_key(client->key);
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(4 * PART_MAX);
        const char *algorithm = key ? algorithm_of(key) : NULL;
        char jti[PKCE_LENGTH + 1];

        if (!algorithm)
                return error_set(err, EBADMSG, "the client's key cannot be used: log in again");
        int r = pkce_random(jti, err);
        if (r < 0)
                return r;
        r = append_header(algorithm, client->key_id, &text);
        buffer_append_text(&text, ".");
        if (r >= 0)
                r = append_claims(client, issuer, jti, &text);
        buffer_append(to, buffer_bytes(&text), text.length);
        buffer_append_text(to, ".");
        if (r >= 0)
                r = text.error < 0 ? text.error : to->error;
        if (r >= 0)
                r = sign(key, &text, to);
        return r < 0 ? error_errno(err, -r, "sign with the client's key") : 0;
}
