/* SHA-256 by libcrypto. */
#include "rootfs/oci/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/printable.h"

struct hash {
        EVP_MD *algorithm;
        EVP_MD_CTX *context;
};

static int digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool digest_parse_hex(const char *hex, size_t n, struct digest *ret)
{
        if (n != DIGEST_HEX)
                return false;
        for (size_t i = 0; i < DIGEST_BYTES; i++) {
                int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
                if (high < 0 || low < 0)
                        return false;
                ret->bytes[i] = (uint8_t)(high << 4 | low);
        }
        return true;
}

int digest_parse(const char *text, struct digest *ret, struct error *err)
{
        static const char prefix[] = "sha256:";
        const size_t n = sizeof(prefix) - 1;
        char shown[100];

        if (text && strncmp(text, prefix, n) == 0 &&
            digest_parse_hex(text + n, strlen(text + n), ret))
                return 0;
        printable_escape(shown, sizeof(shown), text ? text : "");
        return error_set(err, EBADMSG, "the digest \"%s\" is not a SHA-256 digest", shown);
}

void digest_hex(const struct digest *digest, char ret[DIGEST_HEX + 1])
{
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < DIGEST_BYTES; i++) {
                ret[2 * i] = digits[digest->bytes[i] >> 4];
                ret[2 * i + 1] = digits[digest->bytes[i] & 15];
        }
        ret[DIGEST_HEX] = '\0';
}

struct hash *hash_new(void)
{
        struct hash *hash = calloc(1, sizeof(*hash));
        struct digest ignored;

        if (!hash)
                return NULL;
        hash->algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
        hash->context = EVP_MD_CTX_new();
        if (!hash->algorithm || !hash->context || hash_begin(hash) < 0 ||
            hash_end(hash, &ignored) < 0)
                return hash_free(hash);
        return hash;
}

struct hash *hash_free(struct hash *hash)
{
        if (!hash)
                return NULL;
        EVP_MD_CTX_free(hash->context);
        EVP_MD_free(hash->algorithm);
        free(hash);
        return NULL;
}

int hash_begin(struct hash *hash)
{
        return EVP_DigestInit_ex2(hash->context, hash->algorithm, NULL) == 1 ? 0 : -ENOMEM;
}

int hash_add(struct hash *hash, const void *data, size_t n)
{
        return EVP_DigestUpdate(hash->context, data, n) == 1 ? 0 : -EIO;
}

int hash_end(struct hash *hash, struct digest *ret)
{
        unsigned length = 0;

        return EVP_DigestFinal_ex(hash->context, ret->bytes, &length) == 1 && length == DIGEST_BYTES
                       ? 0
                       : -EIO;
}
