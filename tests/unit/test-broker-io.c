/* Standard input and output of the broker: pipes, sockets and files, without touching their flags.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "supervisor/broker/reader.h"
#include "supervisor/broker/writer.h"
#include "tests/unit/test.h"

static struct event_base *base;
static int drained, broken, ended;
static struct buffer lines_got;

static void on_drained(void *data)
{
        drained++;
}

static void on_broken(void *data, int code)
{
        broken = code;
}

static const struct writer_owner writer_owner = {NULL, on_drained, on_broken};

static void spin(void)
{
        for (int i = 0; i < 50; i++)
                event_base_loop(base, EVLOOP_NONBLOCK);
}

static void open_sink(struct writer *writer, int fd)
{
        struct error err = {};

        drained = broken = 0;
        check_ok(writer_open(writer, base, fd, &writer_owner, &err));
}

/* Much more data than the pipe's capacity arrives in order, and the open file description stays
 * blocking. */
static void check_sink(int to, int from, bool has_nowait)
{
        enum { TOTAL = 6 * 1024 * 1024 };
        struct writer writer;
        char *bytes = malloc(TOTAL), *got = malloc(TOTAL);
        size_t n = 0;

        for (size_t i = 0; i < TOTAL; i++)
                bytes[i] = (char)(i * 31 >> 8);
        open_sink(&writer, to);
        writer.has_nowait = writer.has_nowait && has_nowait;
        writer_write(&writer, bytes, TOTAL);
        check(writer_is_full(&writer));
        check(!writer_is_empty(&writer));
        fd_set_nonblocking(from, 1);
        for (int i = 0; n < TOTAL && i < 1000000; i++) {
                ssize_t r = read(from, got + n, TOTAL - n);
                if (r > 0)
                        n += (size_t)r;
                event_base_loop(base, EVLOOP_NONBLOCK);
        }
        check_eq_int(n, TOTAL);
        check_eq_int(memcmp(bytes, got, TOTAL), 0);
        check(drained >= 1);
        check(writer_is_empty(&writer));
        check(!(fcntl(to, F_GETFL) & O_NONBLOCK));
        writer_close(&writer);
        free(bytes);
        free(got);
}

static void test_writer_pipe(void)
{
        int fds[2];

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        check_sink(fds[1], fds[0], true);
        close(fds[0]);
        close(fds[1]);
}

/* As on a kernel that does not support non-blocking writes to a pipe (RWF_NOWAIT). */
static void test_writer_pipe_by_polling(void)
{
        int fds[2];

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        check_sink(fds[1], fds[0], false);
        close(fds[0]);
        close(fds[1]);
}

static void test_writer_socket(void)
{
        int fds[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        check_sink(fds[1], fds[0], true);
        close(fds[0]);
        close(fds[1]);
}

static void test_writer_file(void)
{
        struct writer writer;
        int fd = memfd_create("out", MFD_CLOEXEC);
        char got[6];

        open_sink(&writer, fd);
        writer_write(&writer, "abc", 3);
        writer_write(&writer, "def", 3);
        check(writer_is_empty(&writer));
        check_eq_int(pread(fd, got, 6, 0), 6);
        check_eq_bytes(got, 6, "abcdef");
        writer_close(&writer);
        close(fd);
}

static void test_writer_broken(void)
{
        struct writer writer;
        int fds[2];

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        open_sink(&writer, fds[1]);
        close(fds[0]);
        writer_write(&writer, "x", 1);
        check_eq_int(broken, EPIPE);
        broken = 0;
        writer_write(&writer, "y", 1); /* dropped; the error is reported once */
        check_eq_int(broken, 0);
        writer_close(&writer);
        close(fds[1]);
}

/* The other end reads nothing: what waits is bounded, and the writer breaks when more comes. */
static void test_writer_bound(void)
{
        static char bytes[1024 * 1024];
        const int most = WRITER_MAX / (int)sizeof(bytes);
        struct writer writer;
        int fds[2], n = 0;

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        open_sink(&writer, fds[1]);
        for (; broken == 0 && n < 2 * most; n++)
                writer_write(&writer, bytes, sizeof(bytes));
        check(n > most && n <= most + 3);
        check_eq_int(broken, ENOBUFS);
        check(writer_is_empty(&writer)); /* nothing is kept */
        broken = 0;
        writer_write(&writer, bytes, sizeof(bytes));
        check_eq_int(broken, 0);
        writer_close(&writer);
        close(fds[0]);
        close(fds[1]);
}

static void test_writer_flush(void)
{
        struct writer writer;
        int fds[2];
        char bytes[4096] = {};

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        open_sink(&writer, fds[1]);
        for (int i = 0; i < 100; i++)
                writer_write(&writer, bytes, sizeof(bytes));
        check(!writer_is_empty(&writer));
        writer_flush(&writer, 20); /* no process reads: it returns after the timeout */
        check(!writer_is_empty(&writer));
        writer_close(&writer);
        close(fds[0]);
        close(fds[1]);
}

static void on_line(void *data, const char *line, size_t n)
{
        check_eq_int(buffer_append(&lines_got, line, n), 0);
        check_eq_int(buffer_append(&lines_got, "|", 1), 0);
        struct reader *source = data;
        if (n == 5 && memcmp(line, "pause", 5) == 0)
                reader_pause(source, true);
}

static void on_too_long(void *data, size_t most)
{
        buffer_printf(&lines_got, "<too long: %zu>|", most);
}

static void on_ended(void *data)
{
        ended++;
}

static void open_source(struct reader *source, int fd, size_t most)
{
        const struct reader_owner owner = {source, on_line, NULL, on_too_long, on_ended};
        struct error err = {};

        ended = 0;
        buffer_consume(&lines_got, lines_got.length);
        check_ok(reader_open(source, base, fd, most, &owner, &err));
}

static void check_lines(const char *expected)
{
        check_eq_bytes(lines_got.length ? buffer_bytes(&lines_got) : "", lines_got.length,
                       expected);
}

static void test_reader_pipe(void)
{
        struct reader source;
        int fds[2];

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        open_source(&source, fds[0], 100);
        spin();
        check_lines("");
        check_eq_int(write(fds[1], "one\ntw", 6), 6);
        spin();
        check_lines("one|");
        check_eq_int(write(fds[1], "o\r\n\nrest", 8), 8);
        spin();
        check_lines("one|two|");
        close(fds[1]);
        spin();
        check_lines("one|two|rest|");
        check_eq_int(ended, 1);
        check(!(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
        reader_close(&source);
        close(fds[0]);
}

static void test_reader_file(void)
{
        struct reader source;
        int fd = memfd_create("in", MFD_CLOEXEC);

        check_eq_int(write(fd, "a\nb\n", 4), 4);
        check_eq_int(lseek(fd, 0, SEEK_SET), 0);
        open_source(&source, fd, 100);
        spin();
        check_lines("a|b|");
        check_eq_int(ended, 1);
        reader_close(&source);
        close(fd);
}

static void test_reader_null(void)
{
        struct reader source;
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        open_source(&source, fd, 100);
        spin();
        check_eq_int(ended, 1);
        reader_close(&source);
        close(fd);
}

static void test_reader_line_too_long(void)
{
        struct reader source;
        int fds[2];

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        open_source(&source, fds[0], 4);
        check_eq_int(write(fds[1], "12345678\nok\n", 12), 12);
        spin();
        check_lines("<too long: 4>|ok|");
        reader_close(&source);
        close(fds[0]);
        close(fds[1]);
}

/* Lines that arrived before the pause are delivered after it, and data sent meanwhile stays in the
 * pipe. */
static void test_reader_pause(void)
{
        struct reader source;
        int fds[2];

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        open_source(&source, fds[0], 100);
        check_eq_int(write(fds[1], "a\npause\nb\n", 10), 10);
        spin();
        check_lines("a|pause|");
        check_eq_int(write(fds[1], "c\n", 2), 2);
        spin();
        check_lines("a|pause|");
        reader_pause(&source, false);
        spin();
        check_lines("a|pause|b|c|");
        reader_close(&source);
        close(fds[0]);
        close(fds[1]);
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        base = event_base_new();
        buffer_init(&lines_got, 1024 * 1024);
        run(test_writer_pipe);
        run(test_writer_pipe_by_polling);
        run(test_writer_socket);
        run(test_writer_file);
        run(test_writer_bound);
        run(test_writer_broken);
        run(test_writer_flush);
        run(test_reader_pipe);
        run(test_reader_file);
        run(test_reader_null);
        run(test_reader_line_too_long);
        run(test_reader_pause);
        buffer_done(&lines_got);
        event_base_free(base);
        return 0;
}
