/* Reads a ClientHello. */
#include "supervisor/egress/client-hello.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum {
        RECORD_HEADER = 5,
        RECORD_MAX = 16384, /* RFC 8446, 5.1 */
        MESSAGE_HEADER = 4,
        CLIENT_HELLO = 1,
        EXTENSION_SERVER_NAME = 0,
        EXTENSION_ECH = 0xfe0d,
        HOST_NAME = 0,
        RANDOM = 32,
};

/* Bytes that are taken from the front. */
struct input {
        const unsigned char *at;
        size_t n;
        bool is_short; /* more was taken than there was */
};

static struct input take(struct input *from, size_t n)
{
        struct input part = {from->at, n, false};

        if (n > from->n || from->is_short) {
                from->is_short = true;
                return (struct input){from->at, 0, true};
        }
        from->at += n;
        from->n -= n;
        return part;
}

static size_t take_number(struct input *from, unsigned bytes)
{
        struct input part = take(from, bytes);
        size_t value = 0;

        for (size_t i = 0; i < part.n; i++)
                value = value << 8 | part.at[i];
        return value;
}

static struct input take_vector(struct input *from, unsigned length_bytes)
{
        size_t n = take_number(from, length_bytes);

        return take(from, n);
}

/*
 * Puts the handshake bytes of the records together. Returns the length of the message with its header when it is
 * complete, 0: more is needed, -EINVAL.
 */
static int join_records(const unsigned char *data, size_t n, unsigned char *to)
{
        size_t length = 0, wanted = MESSAGE_HEADER;

        while (n >= RECORD_HEADER) {
                size_t size = (size_t)data[3] << 8 | data[4];
                if (data[0] != TLS_HANDSHAKE || data[1] != 3 || size == 0 || size > RECORD_MAX)
                        return -EINVAL;
                size_t has = n - RECORD_HEADER < size ? n - RECORD_HEADER : size;
                if (length + has > CLIENT_HELLO_MAX)
                        return -EINVAL;
                memcpy(to + length, data + RECORD_HEADER, has);
                length += has;
                if (length >= MESSAGE_HEADER) {
                        if (to[0] != CLIENT_HELLO)
                                return -EINVAL;
                        wanted = MESSAGE_HEADER +
                                 ((size_t)to[1] << 16 | (size_t)to[2] << 8 | to[3]);
                }
                if (wanted > CLIENT_HELLO_MAX)
                        return -EINVAL;
                if (length >= wanted)
                        return (int)wanted;
                if (has < size)
                        return 0;
                data += RECORD_HEADER + size;
                n -= RECORD_HEADER + size;
        }
        return 0;
}

/* One name of type host_name, and no other. */
static bool is_server_name(struct input extension, const struct network_host *host)
{
        struct network_host named;
        struct input list = take_vector(&extension, 2);
        size_t type = take_number(&list, 1);
        struct input name = take_vector(&list, 2);

        return !extension.is_short && !list.is_short && extension.n == 0 && list.n == 0 &&
               type == HOST_NAME && network_host_parse((const char *)name.at, name.n, &named) &&
               network_host_equal(&named, host);
}

static int check_extensions(struct input all, const struct network_host *host,
                            enum egress_reason *why)
{
        bool has_name = false;

        while (all.n > 0) {
                size_t type = take_number(&all, 2);
                struct input extension = take_vector(&all, 2);
                if (all.is_short)
                        return -EINVAL;
                *why = EGRESS_NO_NAME;
                if (type == EXTENSION_ECH || (type == EXTENSION_SERVER_NAME && has_name))
                        return -EINVAL;
                if (type != EXTENSION_SERVER_NAME)
                        continue;
                *why = EGRESS_OTHER_NAME;
                if (host->kind != NETWORK_NAME || !is_server_name(extension, host))
                        return -EINVAL;
                has_name = true;
        }
        *why = EGRESS_NO_NAME;
        return has_name || host->kind != NETWORK_NAME ? 1 : -EINVAL;
}

int client_hello_check(const unsigned char *data, size_t n, const struct network_host *host,
                       enum egress_reason *why)
{
        unsigned char message[CLIENT_HELLO_MAX];

        *why = EGRESS_NOT_TLS;
        int length = join_records(data, n, message);
        if (length == 0 && n >= CLIENT_HELLO_MAX)
                return -EINVAL;
        if (length <= 0)
                return length;
        struct input hello = {message + MESSAGE_HEADER, (size_t)length - MESSAGE_HEADER, false};
        take(&hello, 2 + RANDOM);
        take_vector(&hello, 1); /* session id */
        take_vector(&hello, 2); /* cipher suites */
        take_vector(&hello, 1); /* compression */
        if (hello.n == 0 && !hello.is_short) {
                *why = EGRESS_NO_NAME;
                return host->kind == NETWORK_NAME ? -EINVAL : 1;
        }
        struct input extensions = take_vector(&hello, 2);
        if (hello.is_short || hello.n > 0)
                return -EINVAL;
        return check_extensions(extensions, host, why);
}
