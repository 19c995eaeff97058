/* The pipes of a server: long lines, which are parsed in the background. */
#include "supervisor/hub/server/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc/memfd-frame.h"
#include "rpc/memory-reservation.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

struct rig {
        struct event_base *base;
        struct connection connection;
        int out; /* the server's stdout */
        int others[2];
        int lines, parsed, late, cut, r;
        bool had_memfd;
        char begin[16], why[256];
};

static const char *name(void *data)
{
        return "s";
}

static bool on_line(void *data, const char *line, size_t n)
{
        ((struct rig *)data)->lines++;
        return true;
}

static bool on_parsed(void *data, struct large_line *line)
{
        struct rig *r = data;

        r->parsed++;
        r->r = line->r;
        r->had_memfd = line->memfd >= 0;
        snprintf(r->why, sizeof(r->why), "%s", line->err.text);
        return true;
}

static void on_late(void *data, const char *line, size_t n)
{
        struct rig *r = data;

        r->late++;
        snprintf(r->begin, sizeof(r->begin), "%.*s", (int)(n < 15 ? n : 15), line);
}

static void on_oversized(void *data, const char *line, size_t n)
{
        check(false);
}

static void on_cut(void *data)
{
        ((struct rig *)data)->cut++;
}

static void on_no_memory(void *data)
{
        check(false);
}

static const struct connection_host host = {name,         on_line, on_parsed,   on_late,
                                            on_oversized, on_cut,  on_no_memory};

static void open_rig(struct rig *r)
{
        int in[2], out[2], err[2];

        *r = (struct rig){.base = event_base_new()};
        check(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
              pipe2(err, O_CLOEXEC) == 0);
        r->out = out[1];
        fcntl(r->out, F_SETFL, O_NONBLOCK);
        r->others[0] = in[0];
        r->others[1] = err[1];
        check_eq_int(connection_init(&r->connection, r->base, &host, r), 0);
        connection_open(&r->connection, (const int[]){in[1], out[0], err[0]});
}

static void close_rig(struct rig *r)
{
        connection_done(&r->connection);
        event_base_free(r->base);
        close(r->others[0]);
        close(r->others[1]);
        if (r->out >= 0)
                close(r->out);
}

static void spin(struct rig *r)
{
        for (int i = 0; i < 5; i++)
                event_base_loop(r->base, EVLOOP_NONBLOCK);
}

/* Returns how much the connection has read of it before it stopped. */
static size_t put(struct rig *r, const char *bytes, size_t n)
{
        size_t at = 0;

        for (int idle = 0; at < n && idle < 20;) {
                ssize_t sent = write(r->out, bytes + at, n - at);
                at += sent > 0 ? (size_t)sent : 0;
                idle = sent > 0 ? 0 : idle + 1;
                spin(r);
        }
        return at;
}

static void wait_for(struct rig *r, const int *count)
{
        for (int i = 0; i < 5000 && *count == 0; i++) {
                usleep(1000);
                spin(r);
        }
        check_eq_int(*count, 1);
}

/* A response whose result is a text of n bytes, without the newline. */
static char *make_line(size_t n)
{
        static const char before[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"",
                          after[] = "\"}}";
        char *text = malloc(n + 1);

        check(text && n > sizeof(before) + sizeof(after));
        memset(text, 'x', n);
        memcpy(text, before, sizeof(before) - 1);
        memcpy(text + n - sizeof(after) + 1, after, sizeof(after));
        return text;
}

/* The lines behind a long one are handled after it; at its end, the pipe is. */
static void test_long_line(void)
{
        enum { N = 2 * MEMFD_FRAME_MIN };
        _cleanup_free_ char *text = make_line(N);
        struct rig r;

        for (int at_end = 0; at_end <= 1; at_end++) {
                open_rig(&r);
                check_eq_int(put(&r, text, N), N);
                if (at_end) {
                        close(r.out);
                        r.out = -1;
                } else {
                        check_eq_int(put(&r, "\n{\"a\":1}\n", 9), 9);
                }
                wait_for(&r, &r.parsed);
                check(r.r == 0 && r.had_memfd);
                wait_for(&r, at_end ? &r.cut : &r.lines);
                close_rig(&r);
        }
}

static void test_closed_meanwhile(void)
{
        enum { N = 8 * 1024 * 1024 };
        _cleanup_free_ char *text = make_line(N);
        struct rig r;

        for (int i = 0; i < 3; i++) {
                open_rig(&r);
                check_eq_int(put(&r, text, N), N);
                put(&r, "\n", 1);
                close_rig(&r);
                check_eq_int(r.parsed, 0);
        }
}

/* A line of which much has arrived must be complete in time; a short one need not. */
static void test_late(void)
{
        enum { N = 300 * 1024 };
        _cleanup_free_ char *text = make_line(N);
        struct rig r;

        open_rig(&r);
        put(&r, text, 1000);
        fake_clock_advance_ms(CONNECTION_LINE_MS + 1000);
        spin(&r);
        check_eq_int(r.late, 0);
        put(&r, text + 1000, N - 1001);
        fake_clock_advance_ms(CONNECTION_LINE_MS - 1000);
        spin(&r);
        check_eq_int(r.late, 0);
        fake_clock_advance_ms(2000);
        spin(&r);
        check_eq_int(r.late, 1);
        check_eq_str(r.begin, "{\"jsonrpc\":\"2.0");
        put(&r, "}\n{\"b\":1}\n", 10);
        spin(&r);
        check_eq_int(r.lines, 1);
        check_eq_int(r.parsed, 0);
        close_rig(&r);
}

/* Two long lines are received at a time; a third peer is read when one of them has ended. */
static void test_claims(void)
{
        enum { N = 1024 * 1024, BEGUN = 2 * RESERVATION_MIN };
        _cleanup_free_ char *text = make_line(N);
        struct rig r[3];

        for (int i = 0; i < 3; i++) {
                open_rig(&r[i]);
                size_t n = put(&r[i], text, BEGUN + 256 * 1024);
                check(i < 2 ? n == BEGUN + 256 * 1024 : n < BEGUN + 256 * 1024);
                if (i < 2)
                        continue;
                close_rig(&r[0]);
                check_eq_int(put(&r[2], text + n, N - n), N - n);
                put(&r[2], "\n", 1);
                wait_for(&r[2], &r[2].parsed);
                check_eq_int(r[2].r, 0);
        }
        close_rig(&r[1]);
        close_rig(&r[2]);
}

/* Two servers begin long lines and do not finish them. A third server's line is complete a second
 * later, and its next line soon, because the two do not get a reservation again. */
static void test_stalled(void)
{
        enum { N = 1024 * 1024, BEGUN = 3 * RESERVATION_MIN };
        _cleanup_free_ char *text = make_line(N);
        struct rig stalled[2], r;

        for (int i = 0; i < 2; i++) {
                open_rig(&stalled[i]);
                check_eq_int(put(&stalled[i], text, BEGUN), BEGUN);
        }
        open_rig(&r);
        size_t n = put(&r, text, N);
        check(n < N);
        fake_clock_advance_ms(RESERVATION_LINES_MS);
        spin(&r);
        spin(&stalled[0]);
        check_eq_int(stalled[0].late, 1);
        check_eq_int(put(&r, text + n, N - n), N - n);
        put(&r, "\n", 1);
        wait_for(&r, &r.parsed);
        check_eq_int(r.r, 0);
        /* The rest of the line is skipped; the next one counts. */
        put(&stalled[0], "\n{\"b\":1}\n", 9);
        spin(&stalled[0]);
        check_eq_int(stalled[0].lines, 1);
        close_rig(&stalled[0]);
        close_rig(&stalled[1]);
        close_rig(&r);
}

/* Lines that are not messages, such as many values, take little memory and time of the loop. */
static void test_no_message(void)
{
        enum { N = 4 * 1024 * 1024 };
        _cleanup_free_ char *text = malloc(N);
        struct rig r;

        open_rig(&r);
        for (size_t i = 0; i < N; i++)
                text[i] = i % 2 == 0 ? '0' : ',';
        text[0] = '[';
        check_eq_int(put(&r, text, N), N);
        put(&r, "\n", 1);
        wait_for(&r, &r.parsed);
        check_eq_int(r.r, -EBADMSG);
        check_has(r.why, "JSON of more than 1000000 values");
        close_rig(&r);
}

int main(void)
{
        signal(SIGPIPE, SIG_IGN);
        run(test_long_line);
        run(test_closed_meanwhile);
        run(test_late);
        run(test_claims);
        run(test_stalled);
        run(test_no_message);
        return 0;
}
