/* Ed25519 by libcrypto. */
#include "supervisor/journal/key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/host-file.h"
#include "supervisor/journal/hash.h"

enum { KEY_BYTES = 32, SIGNATURE_BYTES = 64, KEY_TEXT = 2 * KEY_BYTES, PREFIX_BYTES = 12 };
#define BEGIN "-----BEGIN PUBLIC KEY-----\n"
#define END   "\n-----END PUBLIC KEY-----\n"

struct journal_key {
        EVP_PKEY *key;
        char name[JOURNAL_HASH_SIZE];
};

/* SubjectPublicKeyInfo of Ed25519, before the key (RFC 8410, 4). */
static const unsigned char prefix[PREFIX_BYTES] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                   0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

static int make(int directory, unsigned char seed[KEY_BYTES], struct error *err)
{
        char text[KEY_TEXT + 2];

        if (RAND_priv_bytes(seed, KEY_BYTES) != 1)
                return error_set(err, EIO, "no random bytes");
        _cleanup_close_ int fd = host_file_open(HOST_FILE_JOURNAL_KEY, directory, "key", err);
        if (fd < 0)
                return error_context(err, "make key");
        journal_hex(seed, KEY_BYTES, text);
        memcpy(text + KEY_TEXT, "\n", 2);
        int r = fd_write_all(fd, text, KEY_TEXT + 1);
        if (r >= 0 && fsync(fd) < 0)
                r = -errno;
        OPENSSL_cleanse(text, sizeof(text));
        /* A key that was not written whole would be refused at each start. */
        if (r < 0)
                (void)unlinkat(directory, "key", 0);
        return r < 0 ? error_errno(err, -r, "write key") : 0;
}

static int check(int fd, struct error *err)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "key");
        if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid())
                return error_set(err, EPERM,
                                 "key is not a regular file of this user with one name");
        if (st.st_mode & 077)
                return error_set(
                        err, EPERM,
                        "key is open to other users (mode %04o): remove it, and a new one is made",
                        st.st_mode & 07777);
        return 0;
}

static int read_seed(int directory, unsigned char seed[KEY_BYTES], struct error *err)
{
        char text[KEY_TEXT + 2] = "";

        _cleanup_close_ int fd = openat(directory, "key",
                                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return error_errno(err, errno, "open key");
        int r = check(fd, err);
        if (r < 0)
                return r;
        ssize_t n = fd_read_full(fd, text, sizeof(text));
        if (n != KEY_TEXT + 1 || text[KEY_TEXT] != '\n')
                return error_set(err, EBADMSG,
                                 "key is not a key: remove it, and a new one is made");
        text[KEY_TEXT] = '\0';
        r = journal_unhex(text, KEY_BYTES, seed);
        OPENSSL_cleanse(text, sizeof(text));
        return r < 0 ? error_set(err, EBADMSG, "key is not a key: remove it, and a new one is made")
                     : 0;
}

static int take(const unsigned char seed[KEY_BYTES], struct journal_key **ret, struct error *err)
{
        unsigned char bytes[KEY_BYTES];
        size_t n = sizeof(bytes);

        struct journal_key *key = calloc(1, sizeof(*key));
        if (key)
                key->key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, KEY_BYTES);
        if (!key || !key->key || EVP_PKEY_get_raw_public_key(key->key, bytes, &n) != 1) {
                journal_key_free(key);
                return error_set(err, ENOTSUP, "libcrypto has no Ed25519");
        }
        journal_hex(bytes, KEY_BYTES, key->name);
        *ret = key;
        return 0;
}

int journal_key_open(int directory, struct journal_key **ret, struct error *err)
{
        unsigned char seed[KEY_BYTES];

        int r = read_seed(directory, seed, err);
        if (r == -ENOENT) {
                if (err)
                        *err = (struct error){};
                r = make(directory, seed, err);
        }
        if (r >= 0)
                r = take(seed, ret, err);
        OPENSSL_cleanse(seed, sizeof(seed));
        return r;
}

int journal_key_public(int directory, char ret[JOURNAL_HASH_SIZE], struct error *err)
{
        unsigned char seed[KEY_BYTES];
        struct journal_key *key = NULL;

        int r = read_seed(directory, seed, err);
        if (r >= 0)
                r = take(seed, &key, err);
        OPENSSL_cleanse(seed, sizeof(seed));
        if (r >= 0)
                memcpy(ret, key->name, sizeof(key->name));
        journal_key_free(key);
        return r;
}

void journal_key_free(struct journal_key *key)
{
        if (key)
                EVP_PKEY_free(key->key);
        free(key);
}

const char *journal_key_name(const struct journal_key *key)
{
        return key->name;
}

int journal_key_sign(struct journal_key *key, const void *bytes, size_t n, struct buffer *to)
{
        unsigned char signature[SIGNATURE_BYTES];
        size_t length = sizeof(signature);

        EVP_MD_CTX *context = EVP_MD_CTX_new();
        bool ok = context && EVP_DigestSignInit(context, NULL, NULL, NULL, key->key) == 1 &&
                  EVP_DigestSign(context, signature, &length, bytes, n) == 1;
        EVP_MD_CTX_free(context);
        return ok ? base64_append(to, signature, length) : -ENOMEM;
}

bool journal_key_verify(const char *name, const void *bytes, size_t n, const char *signature,
                        size_t n_signature)
{
        _cleanup_buffer_ struct buffer decoded = BUFFER_INIT(SIGNATURE_BYTES);
        unsigned char public[KEY_BYTES];

        if (journal_unhex(name, KEY_BYTES, public) < 0 ||
            base64_decode(&decoded, signature, n_signature) < 0 ||
            decoded.length != SIGNATURE_BYTES)
                return false;
        EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public, KEY_BYTES);
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        bool ok = key && context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
                  EVP_DigestVerify(context, (const unsigned char *)buffer_bytes(&decoded),
                                   decoded.length, bytes, n) == 1;
        EVP_MD_CTX_free(context);
        EVP_PKEY_free(key);
        return ok;
}

int journal_key_pem(const char *name, struct buffer *to)
{
        unsigned char der[PREFIX_BYTES + KEY_BYTES];

        memcpy(der, prefix, PREFIX_BYTES);
        int r = journal_unhex(name, KEY_BYTES, der + PREFIX_BYTES);
        if (r >= 0)
                r = buffer_append_text(to, BEGIN);
        if (r >= 0)
                r = base64_append(to, der, sizeof(der));
        return r < 0 ? r : buffer_append_text(to, END);
}

int journal_key_parse(const char *text, char ret[JOURNAL_HASH_SIZE], struct error *err)
{
        _cleanup_buffer_ struct buffer der = BUFFER_INIT(PREFIX_BYTES + KEY_BYTES);
        unsigned char bytes[KEY_BYTES];
        size_t n = strcspn(text, "\r\n");

        if (strncmp(text, BEGIN, strlen(BEGIN)) == 0) {
                text += strlen(BEGIN);
                n = strcspn(text, "\r\n");
                if (base64_decode(&der, text, n) < 0 || der.length != PREFIX_BYTES + KEY_BYTES ||
                    memcmp(buffer_bytes(&der), prefix, PREFIX_BYTES) != 0)
                        return error_set(err, EBADMSG, "it is not a public key of Ed25519");
                memcpy(bytes, buffer_bytes(&der) + PREFIX_BYTES, KEY_BYTES);
                journal_hex(bytes, KEY_BYTES, ret);
                return 0;
        }
        if (n != KEY_TEXT)
                return error_set(
                        err, EBADMSG,
                        "PEM or 64 hexadecimal digits are needed, as 'cloister journal key' prints them");
        memcpy(ret, text, KEY_TEXT);
        ret[KEY_TEXT] = '\0';
        return journal_unhex(ret, KEY_BYTES, bytes) < 0
                       ? error_set(err, EBADMSG, "it is not a public key of Ed25519")
                       : 0;
}
