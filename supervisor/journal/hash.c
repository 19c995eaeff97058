/* SHA-256, and bytes as hexadecimal digits. */
#include "supervisor/journal/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

void journal_hex(const unsigned char *bytes, size_t n, char *ret)
{
        for (size_t i = 0; i < n; i++) {
                ret[2 * i] = digits[bytes[i] >> 4];
                ret[2 * i + 1] = digits[bytes[i] & 15];
        }
        ret[2 * n] = '\0';
}

int journal_unhex(const char *text, size_t n, unsigned char *ret)
{
        for (size_t i = 0; i < 2 * n; i++) {
                const char *found = text[i] ? strchr(digits, text[i]) : NULL;
                if (!found)
                        return -EBADMSG;
                unsigned value = (unsigned)(found - digits);
                ret[i / 2] = (unsigned char)(i % 2 ? ret[i / 2] | value : value << 4);
        }
        return text[2 * n] ? -EBADMSG : 0;
}

int journal_hash(const void *bytes, size_t n, char ret[JOURNAL_HASH_SIZE])
{
        /* Looking the algorithm up takes longer than the hash of a record. */
        static EVP_MD_CTX *context;
        static EVP_MD *sha256;
        unsigned char digest[EVP_MAX_MD_SIZE];

        if (!context)
                context = EVP_MD_CTX_new();
        if (!sha256)
                sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
        if (!context || !sha256 || EVP_DigestInit_ex(context, sha256, NULL) != 1 ||
            EVP_DigestUpdate(context, bytes, n) != 1 ||
            EVP_DigestFinal_ex(context, digest, NULL) != 1)
                return -ENOMEM;
        journal_hex(digest, (JOURNAL_HASH_SIZE - 1) / 2, ret);
        return 0;
}
