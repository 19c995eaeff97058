/* Base64 encoding and decoding, and text that is not base64. */
#include "base/base64.h"

#include <errno.h>

#include "tests/unit/test.h"

/* RFC 4648, section 10. */
static void test_vectors(void)
{
        static const char *const vectors[][2] = {
                {"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
                _cleanup_buffer_ struct buffer text = BUFFER_INIT(100), bytes = BUFFER_INIT(100);
                size_t n = 0;
                check_eq_int(base64_append(&text, vectors[i][0], strlen(vectors[i][0])), 0);
                check_eq_bytes(text.length ? buffer_bytes(&text) : "", text.length, vectors[i][1]);
                check(base64_valid(vectors[i][1], strlen(vectors[i][1]), &n));
                check_eq_int(n, strlen(vectors[i][0]));
                check_eq_int(base64_decode(&bytes, vectors[i][1], strlen(vectors[i][1])), 0);
                check_eq_bytes(bytes.length ? buffer_bytes(&bytes) : "", bytes.length,
                               vectors[i][0]);
        }
}

static void test_every_byte(void)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(1000), bytes = BUFFER_INIT(1000);
        unsigned char all[256];

        for (size_t i = 0; i < sizeof(all); i++)
                all[i] = (unsigned char)(255 - i);
        check_eq_int(base64_append(&text, all, sizeof(all)), 0);
        check_eq_int(base64_decode(&bytes, buffer_bytes(&text), text.length), 0);
        check_eq_int(bytes.length, sizeof(all));
        check(memcmp(buffer_bytes(&bytes), all, sizeof(all)) == 0);
}

static void test_refused(void)
{
        static const char *const wrong[] = {"Z",     "Zg",   "Zg=",  "Z===", "====", "Zg==Zg==",
                                            "Zm9\n", "Zm-_", "Zh==", "Zm9=", "=m9v", "Zm 9vYg="};
        _cleanup_buffer_ struct buffer bytes = BUFFER_INIT(100);

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                check(!base64_valid(wrong[i], strlen(wrong[i]), NULL));
                check_eq_int(base64_decode(&bytes, wrong[i], strlen(wrong[i])), -EBADMSG);
        }
        check_eq_int(bytes.length, 0);
}

/* Each character at each place, with and without padding: exactly those of the alphabet are accepted. */
static void test_every_character(void)
{
        static const char *const texts[] = {"AAAABBBBCCCC", "AAAABBBBCCA=", "AAAABBBBCA=="};
        static const char alphabet[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                size_t n = strlen(texts[i]),
                       whole = i == 0 ? n : n - 1 - i; /* without unused bits */
                for (size_t at = 0; at < whole; at++) {
                        for (int c = 0; c < 256; c++) {
                                _cleanup_buffer_ struct buffer bytes = BUFFER_INIT(100);
                                _cleanup_buffer_ struct buffer again = BUFFER_INIT(100);
                                char text[16];
                                memcpy(text, texts[i], n + 1);
                                text[at] = (char)c;
                                bool good = c != 0 && strchr(alphabet, c);
                                check_eq_int(base64_decode(&bytes, text, n), good ? 0 : -EBADMSG);
                                if (!good)
                                        continue;
                                base64_append(&again, buffer_bytes(&bytes), bytes.length);
                                check(again.length == n &&
                                      memcmp(buffer_bytes(&again), text, n) == 0);
                        }
                }
        }
}

static void test_bound(void)
{
        _cleanup_buffer_ struct buffer small = BUFFER_INIT(3);

        check_eq_int(base64_append(&small, "f", 1), -EMSGSIZE);
        check_eq_int(base64_decode(&small, "Zm9vYg==", 8), -EMSGSIZE);
        check_eq_int(base64_decode(&small, "Zm9v", 4), 0);
}

int main(void)
{
        run(test_vectors);
        run(test_every_byte);
        run(test_refused);
        run(test_every_character);
        run(test_bound);
        return 0;
}
