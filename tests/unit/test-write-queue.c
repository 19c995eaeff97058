/* Bytes that wait for a pipe: their order, that large ones are not copied, and a turn's bound. */
#include "rpc/write-queue.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/test.h"

static void add(struct write_queue *q, const char *before, struct shared_text *text,
                const char *after)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(1024 * 1024);

        check_eq_int(buffer_append_text(&b, before), 0);
        check_eq_int(write_queue_add(q, &b, text, after, strlen(after)), 0);
}

static struct shared_text *make_text(char c, size_t n)
{
        char *bytes = malloc(n);

        check(bytes);
        memset(bytes, c, n);
        return shared_text_new(bytes, n);
}

/* Writes all of it, and reads it as it comes. */
static void pump(struct write_queue *q, struct buffer *got)
{
        int ends[2], r = 0;

        check_eq_int(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        while (r == 0) {
                r = write_queue_write(q, ends[1]);
                check(r >= 0);
                while (buffer_read_fd(got, ends[0], 65536) > 0)
                        ;
        }
        check_eq_int(q->length, 0);
        close(ends[0]);
        close(ends[1]);
}

static void test_order(void)
{
        enum { LONG = 300000 };
        _cleanup_buffer_ struct buffer got = BUFFER_INIT(4 * 1024 * 1024);
        struct shared_text *text = make_text('x', LONG);
        struct write_queue q;

        write_queue_init(&q);
        add(&q, "a", NULL, "");
        add(&q, "b", text, "c");
        add(&q, "d", NULL, "");
        add(&q, "e", text, "f");
        check_eq_int(q.length, 6 + 2 * LONG);
        check_eq_int(text->refs, 3);
        pump(&q, &got);
        check_eq_int(text->refs, 1);
        check_eq_int(got.length, 6 + 2 * LONG);
        const char *bytes = buffer_bytes(&got);
        check_eq_int(strncmp(bytes, "abx", 3), 0);
        check_eq_int(strncmp(bytes + LONG + 1, "xcdex", 5), 0);
        check_eq_bytes(bytes + got.length - 2, 2, "xf");
        shared_text_unref(text);
}

/* What was not written is given back. */
static void test_done(void)
{
        struct shared_text *text = make_text('x', 100);
        struct write_queue q;

        write_queue_init(&q);
        add(&q, "b", text, "c");
        check_eq_int(text->refs, 2);
        write_queue_done(&q);
        check_eq_int(text->refs, 1);
        check_eq_int(write_queue_write(&q, -1), 1);
        shared_text_unref(text);
}

/* A reader that is fast does not keep the loop. */
static void test_turn(void)
{
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        struct shared_text *text = make_text('x', 5 * WRITE_QUEUE_TURN);
        struct write_queue q;

        write_queue_init(&q);
        add(&q, "", text, "");
        check_eq_int(write_queue_write(&q, null), 0);
        check_eq_int(q.length, 4 * WRITE_QUEUE_TURN);
        write_queue_done(&q);
        shared_text_unref(text);
        close(null);
}

static void test_many_small(void)
{
        enum { COUNT = 100000 };
        _cleanup_buffer_ struct buffer got = BUFFER_INIT(4 * 1024 * 1024);
        struct write_queue q;

        write_queue_init(&q);
        for (int i = 0; i < COUNT; i++)
                add(&q, i % 2 ? "odd\n" : "even\n", NULL, "");
        pump(&q, &got);
        check_eq_int(got.length, COUNT / 2 * 9);
        check_eq_int(strncmp(buffer_bytes(&got), "even\nodd\neven\n", 14), 0);
}

int main(void)
{
        run(test_order);
        run(test_done);
        run(test_turn);
        run(test_many_small);
        return 0;
}
