/* Buffers: the bound holds, no operation takes quadratic time, an empty buffer keeps no memory. */
#include "base/buffer.h"

#include <fcntl.h>
#include <time.h>

#include "base/fd.h"
#include "tests/unit/test.h"

static void test_append_and_consume(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(100);

        check_eq_int(buffer_append(&b, "hello", 5), 0);
        check_eq_int(buffer_printf(&b, " %d%s", 42, "!"), 0);
        check_eq_bytes(buffer_bytes(&b), b.length, "hello 42!");
        buffer_consume(&b, 6);
        check_eq_bytes(buffer_bytes(&b), b.length, "42!");
        check_eq_int(buffer_append(&b, NULL, 0), 0);
        buffer_consume(&b, 3);
        check_eq_int(b.length, 0);
        check_eq_int(b.start, 0);
}

static void test_bound(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(10);

        check_eq_int(buffer_append(&b, "12345678", 8), 0);
        check_eq_int(b.error, 0);
        check_eq_int(buffer_append(&b, "abc", 3), -EMSGSIZE);
        check_eq_bytes(buffer_bytes(&b), b.length, "12345678");
        check_eq_int(buffer_append(&b, "ab", 2), 0);
        check_eq_int(buffer_append(&b, "c", 1), -EMSGSIZE);
        check_eq_int(buffer_reserve(&b, SIZE_MAX), -EMSGSIZE);
        buffer_consume(&b, 5);
        check_eq_int(buffer_append(&b, "vwxyz", 5), 0);
        check_eq_bytes(buffer_bytes(&b), b.length, "678abvwxyz");
        check_eq_int(b.error, -EMSGSIZE);
}

static void test_printf_is_whole_or_nothing(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(6);

        check_eq_int(buffer_printf(&b, "%s", "1234567"), -EMSGSIZE);
        check_eq_int(b.length, 0);
        check_eq_int(buffer_printf(&b, "%s", "12345"), 0);
        check_eq_int(b.length, 5);
}

/* A queue that is never quite empty is as fast as one that is emptied, and no larger than its content
 * needs. */
static void test_queue(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024 * 1024);
        char piece[1000];

        memset(piece, 'x', sizeof(piece));
        check_eq_int(buffer_append(&b, piece, sizeof(piece)), 0);
        for (int i = 0; i < 100000; i++) {
                check_eq_int(buffer_append(&b, piece, sizeof(piece)), 0);
                buffer_consume(&b, sizeof(piece));
        }
        check_eq_int(b.length, sizeof(piece));
        check(b.allocated <= 64 * 1024);
}

static void test_large_memory_is_freed(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64UL * 1024 * 1024);

        check_eq_int(buffer_reserve(&b, 32UL * 1024 * 1024), 0);
        check(buffer_room(&b) >= 32UL * 1024 * 1024);
        memset(buffer_tail(&b), 0, 1024);
        buffer_produced(&b, 1024);
        buffer_consume(&b, 1024);
        check_eq_int(b.allocated, 0);
}

static void test_descriptors(void)
{
        _cleanup_buffer_ struct buffer in = BUFFER_INIT(8), out = BUFFER_INIT(1024 * 1024);
        static char much[1024 * 1024];
        int fds[2];

        check_eq_int(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
        check_eq_int(buffer_read_fd(&in, fds[0], 100), -EAGAIN);
        check_eq_int(buffer_append(&out, "0123456789", 10), 0);
        check_eq_int(buffer_write_fd(&out, fds[1]), 1);
        check_eq_int(buffer_read_fd(&in, fds[0], 3), 3);
        check_eq_int(buffer_read_fd(&in, fds[0], 100), 5);
        check_eq_bytes(buffer_bytes(&in), in.length, "01234567");
        check_eq_int(buffer_read_fd(&in, fds[0], 100), -EMSGSIZE);
        buffer_consume(&in, 8);
        check_eq_int(buffer_read_fd(&in, fds[0], 100), 2);

        check_eq_int(buffer_append(&out, much, sizeof(much)), 0);
        check_eq_int(buffer_write_fd(&out, fds[1]), 0);
        check(out.length > 0 && out.length < sizeof(much));
        close(fds[1]);
        buffer_done(&in);
        buffer_init(&in, sizeof(much));
        while (buffer_read_fd(&in, fds[0], 100000) > 0)
                ;
        check_eq_int(in.length + out.length, sizeof(much));
        check_eq_int(buffer_read_fd(&in, fds[0], 1), 0);
        close(fds[0]);
        check_eq_int(buffer_write_fd(&out, -1), -EBADF);
}

int main(void)
{
        run(test_append_and_consume);
        run(test_bound);
        run(test_printf_is_whole_or_nothing);
        run(test_queue);
        run(test_large_memory_is_freed);
        run(test_descriptors);
        return 0;
}
