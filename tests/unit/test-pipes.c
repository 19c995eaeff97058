/* The queue of messages to a process: their order, that large texts are not copied, and a turn's bound. */
#include "supervisor/hub/transport/pipes.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

static struct event_base *base;

static const char *name(void *data)
{
        return "s";
}

static void no_memory(void *data)
{
        check(false);
}

static void cut(void *data)
{
        (*(int *)data)++;
}

static const struct connection_host host = {.name = name, .no_memory = no_memory, .cut = cut};

/* in: becomes its stdin. */
static struct transport *open_pipes(int in, int *cuts)
{
        struct transport *t = pipes_new(base, &host, cuts);
        int fds[3] = {in}, ends[2][2];

        check(t);
        for (int i = 0; i < 2; i++) {
                check_eq_int(pipe2(ends[i], O_CLOEXEC), 0);
                fds[i + 1] = ends[i][0];
        }
        pipes_open(t, fds);
        for (int i = 0; i < 2; i++)
                close(ends[i][1]);
        return t;
}

static void add(struct transport *t, const char *before, struct shared_text *text,
                const char *after)
{
        const struct outgoing m = {.kind = OUTGOING_REQUEST, .text = text, .after = after};
        struct buffer *to;

        check_eq_int(t->kind->prepare(t, 0, &to), 0);
        check_eq_int(buffer_append_text(to, before), 0);
        check_eq_int(t->kind->commit(t, &m), 0);
}

static struct shared_text *make_text(char c, size_t n)
{
        char *bytes = malloc(n);

        check(bytes);
        memset(bytes, c, n);
        return shared_text_new(bytes, n);
}

/* Runs the loop until all is written, and reads it as it comes. */
static void pump(struct transport *t, int fd, struct buffer *got)
{
        while (t->kind->queued(t) > 0) {
                event_base_loop(base, EVLOOP_NONBLOCK);
                while (buffer_read_fd(got, fd, 65536) > 0)
                        ;
        }
}

static void test_order(void)
{
        enum { LONG = 300000, COUNT = 100000 };
        _cleanup_buffer_ struct buffer got = BUFFER_INIT(4 * 1024 * 1024);
        struct shared_text *text = make_text('x', LONG);
        int ends[2], cuts = 0;

        check_eq_int(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        struct transport *t = open_pipes(ends[1], &cuts);
        add(t, "a", NULL, NULL);
        add(t, "b", text, "c");
        add(t, "d", NULL, NULL);
        add(t, "e", text, "f");
        check_eq_int(t->kind->queued(t), 6 + 2 * LONG);
        check_eq_int(text->refs, 3);
        pump(t, ends[0], &got);
        check_eq_int(text->refs, 1);
        check_eq_int(got.length, 6 + 2 * LONG);
        const char *bytes = buffer_bytes(&got);
        check_eq_int(strncmp(bytes, "abx", 3), 0);
        check_eq_int(strncmp(bytes + LONG + 1, "xcdex", 5), 0);
        check_eq_bytes(bytes + got.length - 2, 2, "xf");
        buffer_consume(&got, got.length);
        for (int i = 0; i < COUNT; i++)
                add(t, i % 2 ? "odd\n" : "even\n", NULL, NULL);
        pump(t, ends[0], &got);
        check_eq_int(got.length, COUNT / 2 * 9);
        check_eq_int(strncmp(buffer_bytes(&got), "even\nodd\neven\n", 14), 0);
        transport_free(t);
        shared_text_unref(text);
        close(ends[0]);
}

/* A text that was not written is released, at the end and when the process has closed its stdin. */
static void test_not_written(void)
{
        struct shared_text *text = make_text('x', 100);
        int ends[2], cuts = 0;

        check_eq_int(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        struct transport *t = open_pipes(ends[1], &cuts);
        add(t, "b", text, "c");
        check_eq_int(text->refs, 2);
        t->kind->close(t);
        check_eq_int(text->refs, 1);
        transport_free(t);
        close(ends[0]);

        check_eq_int(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        t = open_pipes(ends[1], &cuts);
        add(t, "b", text, "c");
        close(ends[0]);
        check(t->kind->has_input(t));
        cuts = 0;
        while (t->kind->has_input(t))
                event_base_loop(base, EVLOOP_NONBLOCK);
        check_eq_int(text->refs, 1);
        check(cuts > 0);
        transport_free(t);
        shared_text_unref(text);
}

/* A reader that is fast does not keep the loop. */
static void test_turn(void)
{
        struct shared_text *text = make_text('x', 5 * PIPES_TURN);
        int cuts = 0;
        struct transport *t = open_pipes(open("/dev/null", O_WRONLY | O_CLOEXEC), &cuts);

        add(t, "", text, "");
        event_base_loop(base, EVLOOP_NONBLOCK);
        check_eq_int(t->kind->queued(t), 4 * PIPES_TURN);
        transport_free(t);
        check_eq_int(text->refs, 1);
        shared_text_unref(text);
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        base = event_base_new();
        run(test_order);
        run(test_not_written);
        run(test_turn);
        event_base_free(base);
        return 0;
}
