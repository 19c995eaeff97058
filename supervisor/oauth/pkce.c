#include "supervisor/oauth/pkce.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <string.h>

#include "base/base64.h"

/* base64url without padding (RFC 4648, section 5) of 32 bytes. */
static int encode(const unsigned char bytes[32], char ret[PKCE_LENGTH + 1], struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(64);

        if (base64_append(&text, bytes, 32) < 0)
                return error_errno(err, ENOMEM, "base64");
        for (int i = 0; i < PKCE_LENGTH; i++) {
                char c = buffer_bytes(&text)[i];
                ret[i] = (char)(c == '+' ? '-' : c == '/' ? '_' : c);
        }
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
