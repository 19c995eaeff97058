/* The broker's end of the checks of pictures: whose turn it is, and a process that lies, ends or does not answer. */
#include "supervisor/broker/pictures.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "supervisor/session/machine/principal.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

enum { SIDE = 100, MOST = 1000, MADE_LENGTH = 8, CHECKS_MAX = 6, SECOND_MS = 1000 };

struct one {
        struct picture_check check;
        int n_done;
        struct picture_answer answer;
        char *made;
};

static struct {
        struct event_base *base;
        struct pictures *pictures;
        struct picture_provider provider;
        struct session_principal principals[2];
        struct one all[CHECKS_MAX];
        unsigned int n_starts;
        int process; /* its end of the socket */
} t;

static int start(void *data)
{
        t.n_starts++;
        return 0;
}

static int open_picture(struct picture_check *check, uint32_t *length)
{
        *length = 4;
        return fd_sealed("picture", "AAAA", 4, NULL);
}

static void on_done(struct picture_check *check, const struct picture_answer *answer, char *made)
{
        struct one *one = check->data;

        one->n_done++;
        one->answer = *answer;
        one->made = made;
}

static void turn(void)
{
        for (int i = 0; i < 4; i++)
                event_base_loop(t.base, EVLOOP_NONBLOCK);
}

static struct one *ask(size_t i, size_t principal)
{
        struct one *one = &t.all[i];

        free(one->made);
        *one = (struct one){.check = {.principal = &t.principals[principal],
                                      .limits = {.side = SIDE, .bytes = MOST},
                                      .open = open_picture,
                                      .done = on_done,
                                      .data = one}};
        t.provider.ask(t.provider.data, &one->check);
        return one;
}

static void give_process(void)
{
        int pair[2];

        check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        t.process = pair[1];
        pictures_started(t.pictures, pair[0]);
}

static void begin(void)
{
        struct error err = {};

        memset(&t, 0, sizeof(t));
        fake_clock_stop(true);
        t.base = event_base_new();
        check(t.base && pictures_new(&t.pictures, t.base, start, NULL, &err) == 0);
        t.provider = pictures_provider(t.pictures);
}

static void end(void)
{
        pictures_free(t.pictures);
        event_base_free(t.base);
        close(t.process);
        for (size_t i = 0; i < CHECKS_MAX; i++)
                free(t.all[i].made);
}

/* Returns the serial of the next request, 0: there is none. */
static uint32_t take_request(void)
{
        struct picture_request request;
        size_t n_fds = 1;
        int fd = -1;

        turn();
        if (fd_receive(t.process, &request, sizeof(request), &fd, &n_fds, NULL, MSG_DONTWAIT) !=
            sizeof(request))
                return 0;
        close(fd);
        return request.serial;
}

static void answer(struct picture_answer a, int made)
{
        check(fd_send(t.process, &a, sizeof(a), &made, made >= 0 ? 1 : 0, 0) == 0);
        turn();
}

static struct picture_answer fine(uint32_t serial)
{
        return (struct picture_answer){.serial = serial,
                                       .verdict = PICTURE_FINE,
                                       .type = PICTURE_PNG,
                                       .width = 1,
                                       .height = 1};
}

static struct picture_answer made(uint32_t serial)
{
        return (struct picture_answer){.serial = serial,
                                       .verdict = PICTURE_MADE,
                                       .type = PICTURE_PNG,
                                       .made = PICTURE_PNG,
                                       .made_width = 1,
                                       .made_height = 1,
                                       .made_length = MADE_LENGTH};
}

static bool has_ended(const struct one *one)
{
        return one->n_done == 1 && one->answer.verdict == PICTURE_REFUSED &&
               one->answer.reason == PICTURE_REASON_ENDED && !one->made;
}

/* One principal asks for five pictures, then another one for one: it does not wait for the five. */
static void test_principals_take_turns(void)
{
        uint32_t serials[PICTURE_CHILDREN_MAX];

        begin();
        for (size_t i = 0; i < 5; i++)
                ask(i, 0);
        ask(5, 1);
        check(t.n_starts == 1);
        give_process();
        for (size_t i = 0; i < PICTURE_CHILDREN_MAX; i++)
                check((serials[i] = take_request()) > 0);
        check(take_request() == 0);
        /* Neither had one before. So one place is the first one's, and the second place the other's. */
        answer(fine(serials[0]), -1);
        answer(fine(serials[1]), -1);
        check(t.all[0].n_done == 1 && t.all[5].n_done == 1);
        check(t.all[0].answer.verdict == PICTURE_FINE && t.all[1].n_done == 0);
        for (uint32_t serial; (serial = take_request()) > 0;)
                answer(fine(serial), -1);
        for (size_t i = 0; i < CHECKS_MAX; i++)
                check_eq_int(t.all[i].n_done, 1);
        end();
}

/* The control is sealed, and is taken. */
static void test_made_pictures_cannot_change(void)
{
        struct one *open_one, *sealed_one;

        begin();
        open_one = ask(0, 0);
        sealed_one = ask(1, 0);
        give_process();
        uint32_t first = take_request(), second = take_request();
        _cleanup_close_ int open_fd = memfd_create("open", MFD_CLOEXEC);
        check(fd_write_all(open_fd, "AAAAAAAA", MADE_LENGTH) == 0);
        answer(made(first), open_fd);
        check(has_ended(open_one));
        _cleanup_close_ int sealed = fd_sealed("made", "BBBBBBBB", MADE_LENGTH, NULL);
        answer(made(second), sealed);
        check(sealed_one->n_done == 1 && sealed_one->made);
        check_eq_bytes(sealed_one->made, MADE_LENGTH, "BBBBBBBB");
        end();
}

/* What it had is refused; the next process comes a second after the last at the earliest. */
static void expect_dropped(struct one *first, struct one *second)
{
        check(has_ended(first) && has_ended(second));
        check_eq_int(t.n_starts, 1);
        check(has_ended(ask(2, 1)));
        check_eq_int(t.n_starts, 1);
        fake_clock_advance_ms(SECOND_MS);
        check(ask(3, 1)->n_done == 0);
        check_eq_int(t.n_starts, 2);
        close(t.process);
        give_process();
        answer(fine(take_request()), -1);
        check(t.all[3].answer.verdict == PICTURE_FINE);
}

static void test_a_process_that_lies(void)
{
        struct picture_answer wide = fine(0);

        for (int lie = 0; lie < 4; lie++) {
                begin();
                struct one *first = ask(0, 0), *second = ask(1, 1);
                give_process();
                wide.serial = take_request();
                wide.width = SIDE + 1;
                uint32_t other = take_request();
                if (lie == 0)
                        answer(wide, -1);
                else if (lie == 1)
                        answer(fine(other + 7), -1);
                else if (lie == 2)
                        answer(made(other), -1);
                else
                        check(fd_send(t.process, "x", 1, NULL, 0, 0) == 0);
                turn();
                expect_dropped(first, second);
                end();
        }
}

static void test_a_process_that_ends(void)
{
        begin();
        struct one *first = ask(0, 0), *second = ask(1, 1);
        give_process();
        check(take_request() > 0);
        shutdown(t.process, SHUT_RDWR);
        turn();
        expect_dropped(first, second);
        end();
}

static void test_a_process_that_does_not_answer(void)
{
        begin();
        struct one *first = ask(0, 0), *second = ask(1, 1);
        give_process();
        check(take_request() > 0);
        fake_clock_advance_ms(PICTURE_WALL_MS - 1);
        turn();
        check(first->n_done == 0 && second->n_done == 0);
        fake_clock_advance_ms(SECOND_MS + 1);
        turn();
        check(has_ended(first) && has_ended(second));
        end();
}

/* Its answer is read, and goes to nobody. */
static void test_cancelled(void)
{
        begin();
        struct one *running = ask(0, 0), *waiting = ask(1, 0), *other = ask(2, 0);
        t.provider.cancel(t.provider.data, &waiting->check);
        give_process();
        uint32_t first = take_request(), second = take_request();
        t.provider.cancel(t.provider.data, &running->check);
        answer(fine(first), -1);
        answer(fine(second), -1);
        check(running->n_done == 0 && waiting->n_done == 0 && other->n_done == 1);
        check(ask(3, 0)->n_done == 0 && take_request() > 0);
        end();
}

int main(void)
{
        run(test_principals_take_turns);
        run(test_made_pictures_cannot_change);
        run(test_a_process_that_lies);
        run(test_a_process_that_ends);
        run(test_a_process_that_does_not_answer);
        run(test_cancelled);
        return 0;
}
