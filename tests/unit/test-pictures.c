/* Checks of pictures: cut, damaged and too large ones; the process that forks a child for each, its limits and its filter. */
#include "supervisor/pictures/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/fd.h"
#include "policy/seccomp/filter.h"
#include "supervisor/pictures/canvas.h"
#include "supervisor/pictures/serve.h"
#include "tests/unit/test.h"

enum { SIDE = 2000, MOST = LIMITS_PICTURE_BYTES_MAX };

static const char hostile[] = "half an answer";

struct bytes {
        uint8_t *data;
        size_t n;
};

static struct bytes picture(const char *name)
{
        char path[512];
        struct error err = {};
        struct bytes ret;
        char *data;

        snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/pictures/accept/%s",
                 getenv("CLOISTER_SOURCE"), name);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        check(fd >= 0 && fd_read_whole(fd, 1 << 20, &data, &ret.n, &err) >= 0);
        ret.data = (uint8_t *)data;
        return ret;
}

/* A PNG of one colour. */
static struct bytes blank(uint32_t width, uint32_t height)
{
        struct canvas canvas;
        struct bytes ret;
        uint8_t *row = calloc(width, CANVAS_OPAQUE);

        check(canvas_open(&canvas, width, height, width > height ? width : height, CANVAS_OPAQUE));
        for (uint32_t y = 0; y < height; y++)
                canvas_add(&canvas, row);
        check(canvas_write_png(&canvas, &ret.data, &ret.n));
        free(canvas.pixels);
        free(canvas.sums);
        free(row);
        return ret;
}

/* In a child: a check frees nothing. */
static struct picture_answer ask(const uint8_t *data, size_t n, uint32_t side, uint32_t most)
{
        struct picture_answer answer = {};
        int ends[2], status;

        check(pipe2(ends, O_CLOEXEC) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                uint8_t *made;
                size_t n_made;
                picture_check(data, n, side, most, &answer, &made, &n_made);
                answer.made_length = (uint32_t)n_made;
                _exit(write(ends[1], &answer, sizeof(answer)) != sizeof(answer));
        }
        close(ends[1]);
        check_eq_int(read(ends[0], &answer, sizeof(answer)), sizeof(answer));
        close(ends[0]);
        check(waitpid(pid, &status, 0) == pid && status == 0);
        return answer;
}

static void test_whole(void)
{
        static const struct {
                const char *name;
                enum picture_type type;
                enum picture_verdict verdict;
        } cases[] = {
                {"plain.png", PICTURE_PNG, PICTURE_FINE},
                {"texts.png", PICTURE_PNG, PICTURE_FINE},
                {"palette.png", PICTURE_PNG, PICTURE_FINE},
                {"moving.png", PICTURE_PNG, PICTURE_MADE},
                {"plain.jpg", PICTURE_JPEG, PICTURE_FINE},
                {"progressive.jpg", PICTURE_JPEG, PICTURE_FINE},
                {"plain.gif", PICTURE_GIF, PICTURE_FINE},
                {"interlaced.gif", PICTURE_GIF, PICTURE_FINE},
                {"moving.gif", PICTURE_GIF, PICTURE_MADE},
                {"loop.gif", PICTURE_GIF, PICTURE_MADE}, /* of one frame */
                {"plain.webp", PICTURE_WEBP, PICTURE_FINE},
                {"lossless.webp", PICTURE_WEBP, PICTURE_FINE},
                {"moving.webp", PICTURE_WEBP, PICTURE_MADE},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct bytes b = picture(cases[i].name);
                struct picture_answer a = ask(b.data, b.n, SIDE, MOST);
                check_eq_int(a.verdict, cases[i].verdict);
                check_eq_int(a.type, cases[i].type);
                check_eq_int(a.is_animated, cases[i].verdict == PICTURE_MADE);
                check(a.width == 5 && a.height == 6);
                /* Each begins as another one ends: the end of a file is part of it. */
                for (size_t n = 0; n < b.n; n++)
                        check_eq_int(ask(b.data, n, SIDE, MOST).verdict == PICTURE_FINE, 0);
                free(b.data);
        }
}

static void test_every_bit_of_a_png_counts(void)
{
        struct bytes b = picture("plain.png");

        for (size_t bit = 0; bit < 8 * b.n; bit++) {
                b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
                check_eq_int(ask(b.data, b.n, SIDE, MOST).verdict, PICTURE_REFUSED);
                b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        check_eq_int(ask(b.data, b.n, SIDE, MOST).verdict, PICTURE_FINE);
        free(b.data);
}

static void test_limits(void)
{
        struct bytes b = blank(9000, 20);
        struct picture_answer a = ask(b.data, b.n, SIDE, MOST);

        check_eq_int(a.verdict, PICTURE_MADE);
        check(a.made == PICTURE_PNG && a.made_width == 2000 && a.made_height == 4);
        a = ask(b.data, b.n, 9000, MOST);
        check_eq_int(a.verdict, PICTURE_FINE);
        a = ask(b.data, b.n, 1, MOST);
        check(a.made_width == 1 && a.made_height == 1);
        a = ask(b.data, b.n, 9000, 10);
        check(a.verdict == PICTURE_REFUSED && a.reason == PICTURE_REASON_BYTES);
        a = ask(b.data, b.n - 40, SIDE, MOST);
        check(a.verdict == PICTURE_REFUSED && a.reason == PICTURE_REASON_CUT && a.height == 20);
        free(b.data);
}

/* ---- the process ---- */

/* The process has less address space than that sanitizer needs. */
#ifdef __SANITIZE_ADDRESS__
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

static pid_t start(int *socket)
{
        struct error err = {};
        int pair[2], filter = filter_compile(FILTER_PICTURE, &err);

        check(filter >= 0);
        check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                close(pair[0]);
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                _exit(pictures_serve(pair[1], filter, &err) < 0);
        }
        close(pair[1]);
        close(filter);
        *socket = pair[0];
        return pid;
}

static void send_picture(int socket, struct picture_request request, const struct bytes *b,
                         bool sealed)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(PICTURE_INPUT_MAX);
        struct error err = {};

        check(base64_append(&text, b->data, b->n) == 0);
        request.length = request.length ? request.length : (uint32_t)text.length;
        _cleanup_close_ int fd = sealed ? fd_sealed("picture", buffer_bytes(&text), text.length,
                                                    &err)
                                        : memfd_create("open", MFD_CLOEXEC);
        check(fd >= 0);
        if (!sealed)
                check(fd_write_all(fd, buffer_bytes(&text), text.length) == 0);
        check(fd_send(socket, &request, sizeof(request), &fd, 1, 0) == 0);
}

static struct picture_answer receive(int socket, int *fd)
{
        struct picture_answer answer = {};
        size_t n = 1;

        *fd = -1;
        check_eq_int(fd_receive(socket, &answer, sizeof(answer), fd, &n, NULL, 0), sizeof(answer));
        return answer;
}

static void test_serves(void)
{
        struct bytes wide = blank(3000, 10), fine = blank(1000, 1000), none = {(uint8_t *)"", 0};
        struct picture_request request = {.serial = 7, .side = SIDE, .bytes = MOST};
        int socket, fd, status;
        pid_t pid = start(&socket);

        send_picture(socket, request, &wide, true);
        struct picture_answer a = receive(socket, &fd);
        check(picture_answer_valid(&a, &(struct picture_request){7, SIDE, MOST, 0}));
        check(a.verdict == PICTURE_MADE && a.made_width == 2000 && fd >= 0);
        check(fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE);
        close(fd);
        request.serial = 8;
        send_picture(socket, request, &fine, true);
        a = receive(socket, &fd);
        check(a.serial == 8 && a.verdict == PICTURE_FINE && fd < 0);
        send_picture(socket, request, &none, true);
        a = receive(socket, &fd);
        check(a.verdict == PICTURE_REFUSED && a.reason == PICTURE_REASON_EMPTY);
        /* A memfd that could change, and one that is shorter than its request says. */
        send_picture(socket, request, &fine, false);
        check_eq_int(receive(socket, &fd).reason, PICTURE_REASON_ENDED);
        request.length = 1000000;
        send_picture(socket, request, &wide, true);
        check_eq_int(receive(socket, &fd).reason, PICTURE_REASON_ENDED);
        close(socket);
        check(waitpid(pid, &status, 0) == pid && status == 0);
        free(wide.data);
        free(fine.data);
}

/* 7,900 x 7,900 pixels unpack to 187 MB. */
static void test_time_is_limited(void)
{
        struct bytes large = blank(7900, 7900), fine = blank(10, 10);
        struct picture_request request = {.serial = 1, .side = SIDE, .bytes = MOST};
        int socket, fd, status;
        pid_t pid = start(&socket);

        send_picture(socket, request, &large, true);
        struct picture_answer a = receive(socket, &fd);
        check(a.verdict == PICTURE_REFUSED && a.reason == PICTURE_REASON_TIME);
        send_picture(socket, request, &fine, true);
        check_eq_int(receive(socket, &fd).verdict, PICTURE_FINE);
        close(socket);
        check(waitpid(pid, &status, 0) == pid && status == 0);
        free(large.data);
        free(fine.data);
}

/* A child that was taken over by its picture writes a part of an answer, and waits. */
void __real_picture_check(const uint8_t *bytes, size_t n, uint32_t side, uint32_t most,
                          struct picture_answer *answer, uint8_t **made, size_t *n_made);
void __wrap_picture_check(const uint8_t *bytes, size_t n, uint32_t side, uint32_t most,
                          struct picture_answer *answer, uint8_t **made, size_t *n_made);

void __wrap_picture_check(const uint8_t *bytes, size_t n, uint32_t side, uint32_t most,
                          struct picture_answer *answer, uint8_t **made, size_t *n_made)
{
        enum { ANSWER_FD = 3 };
        const uint32_t word = 0;

        if (n == sizeof(hostile) - 1 && memcmp(bytes, hostile, n) == 0) {
                if (write(ANSWER_FD, &word, 1) == 1)
                        syscall(SYS_futex, &word, FUTEX_WAIT, word, NULL);
        }
        __real_picture_check(bytes, n, side, most, answer, made, n_made);
}

static void test_half_an_answer_holds_nobody(void)
{
        struct bytes part = {(uint8_t *)hostile, sizeof(hostile) - 1}, fine = blank(10, 10);
        struct picture_request request = {.serial = 1, .side = SIDE, .bytes = MOST};
        struct pollfd answered = {.events = POLLIN};
        int fd, status;
        pid_t pid = start(&answered.fd);

        send_picture(answered.fd, request, &part, true);
        check_eq_int(poll(&answered, 1, 10000), 1);
        struct picture_answer a = receive(answered.fd, &fd);
        check(a.serial == 1 && a.verdict == PICTURE_REFUSED && a.reason == PICTURE_REASON_ENDED);
        request.serial = 2;
        send_picture(answered.fd, request, &fine, true);
        check_eq_int(receive(answered.fd, &fd).verdict, PICTURE_FINE);
        close(answered.fd);
        check(waitpid(pid, &status, 0) == pid && status == 0);
        free(fine.data);
}

int main(void)
{
        run(test_whole);
        run(test_every_bit_of_a_png_counts);
        run(test_limits);
        if (!IS_SANITIZED) {
                run(test_serves);
                run(test_time_is_limited);
                run(test_half_an_answer_holds_nobody);
        }
        return 0;
}
