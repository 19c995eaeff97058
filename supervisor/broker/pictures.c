/* Checks of pictures. */
#include "supervisor/broker/pictures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "supervisor/session/machine/principal.h"

enum { START_MS = 1000, ANSWER_MS = PICTURE_WALL_MS + 1000 };

struct running {
        struct picture_request request; /* serial 0: a free place */
        struct picture_check *check;    /* NULL: it was cancelled */
};

struct pictures {
        struct event_base *base;
        int (*start)(void *data);
        void *data;
        int socket; /* -1: there is no process */
        bool is_starting;
        uint64_t started_us, turn;
        uint32_t last_serial;
        struct event *readable, *late;
        TAILQ_HEAD(, picture_check) waiting;
        struct running running[PICTURE_CHILDREN_MAX];
};

static void refuse(struct picture_check *check)
{
        const struct picture_answer answer = {.verdict = PICTURE_REFUSED,
                                              .reason = PICTURE_REASON_ENDED};

        check->done(check, &answer, NULL);
}

/* done() may ask for the next check. */
static void refuse_waiting(struct pictures *p)
{
        TAILQ_HEAD(, picture_check) list = TAILQ_HEAD_INITIALIZER(list);

        TAILQ_CONCAT(&list, &p->waiting, link);
        while (!TAILQ_EMPTY(&list)) {
                struct picture_check *check = TAILQ_FIRST(&list);
                TAILQ_REMOVE(&list, check, link);
                refuse(check);
        }
}

static void on_readable(evutil_socket_t fd, short what, void *data);

static void drop_process(struct pictures *p, const char *why)
{
        struct running running[PICTURE_CHILDREN_MAX];

        if (p->socket < 0)
                return;
        log_warning("cloister-pictures %s", why);
        loop_event_free(&p->readable);
        close(take_fd(p->socket));
        evtimer_del(p->late);
        memcpy(running, p->running, sizeof(running));
        memset(p->running, 0, sizeof(p->running));
        for (size_t i = 0; i < PICTURE_CHILDREN_MAX; i++)
                if (running[i].check)
                        refuse(running[i].check);
}

/* The check whose principal had its last one the longest ago. */
static struct picture_check *choose(struct pictures *p)
{
        struct picture_check *check, *best = NULL;

        TAILQ_FOREACH (check, &p->waiting, link)
                if (!best || check->principal->picture_turn < best->principal->picture_turn)
                        best = check;
        return best;
}

static struct running *find_running(struct pictures *p, uint32_t serial)
{
        for (size_t i = 0; i < PICTURE_CHILDREN_MAX; i++)
                if (p->running[i].request.serial == serial)
                        return &p->running[i];
        return NULL;
}

/* Returns negative errno if the process has ended. */
static int send_one(struct pictures *p, struct running *place, struct picture_check *check)
{
        static const struct timeval late = {.tv_sec = ANSWER_MS / 1000};
        struct picture_request request = check->limits;

        TAILQ_REMOVE(&p->waiting, check, link);
        check->principal->picture_turn = ++p->turn;
        _cleanup_close_ int fd = check->open(check, &request.length);
        if (fd < 0) {
                refuse(check);
                return 0;
        }
        p->last_serial += p->last_serial == UINT32_MAX ? 2 : 1;
        request.serial = p->last_serial;
        *place = (struct running){.request = request, .check = check};
        evtimer_add(p->late, &late);
        return fd_send(p->socket, &request, sizeof(request), &fd, 1, MSG_DONTWAIT);
}

static void request_process(struct pictures *p)
{
        uint64_t now = clock_us();

        if (p->is_starting)
                return;
        if (p->started_us > 0 && now - p->started_us < START_MS * UINT64_C(1000)) {
                refuse_waiting(p);
                return;
        }
        p->started_us = now;
        p->is_starting = true;
        if (p->start(p->data) < 0)
                pictures_started(p, -1);
}

static void pump(struct pictures *p)
{
        struct picture_check *check;
        struct running *place;

        while ((place = find_running(p, 0)) && (check = choose(p))) {
                if (p->socket < 0) {
                        request_process(p);
                        return;
                }
                if (send_one(p, place, check) < 0)
                        drop_process(p, "has ended");
        }
}

void pictures_started(struct pictures *p, int socket)
{
        p->is_starting = false;
        p->socket = socket;
        p->readable = socket < 0 ? NULL
                                 : event_new(p->base, socket, EV_READ | EV_PERSIST, on_readable, p);
        if (!p->readable || event_add(p->readable, NULL) < 0) {
                drop_process(p, "cannot be read");
                refuse_waiting(p);
                return;
        }
        pump(p);
}

/* ---- answers ---- */

/* Reads the base64 of a picture from a memfd of this length that cannot change any more. */
static char *read_made(int fd, uint32_t length)
{
        const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
        char *made = malloc((size_t)length + 1);
        struct stat st;

        if (made && (fcntl(fd, F_GET_SEALS) & seals) == seals && fstat(fd, &st) == 0 &&
            st.st_size == (off_t)length && pread(fd, made, length, 0) == (ssize_t)length)
                return made;
        free(made);
        return NULL;
}

/* Returns false if it is not the answer to a request. */
static bool take_answer(struct pictures *p, const struct picture_answer *answer, int fd)
{
        struct running *running = answer->serial > 0 ? find_running(p, answer->serial) : NULL;
        bool has_made = answer->verdict == PICTURE_MADE;

        if (!running || !picture_answer_valid(answer, &running->request) || has_made != (fd >= 0))
                return false;
        struct picture_check *check = running->check;
        *running = (struct running){};
        char *made = has_made && check ? read_made(fd, answer->made_length) : NULL;
        if (check && has_made && !made)
                refuse(check);
        else if (check)
                check->done(check, answer, made);
        return true;
}

static void on_readable(evutil_socket_t socket, short what, void *data)
{
        struct pictures *p = data;
        struct picture_answer answer;
        int fds[1];
        size_t n_fds = 1;

        ssize_t n = fd_receive(socket, &answer, sizeof(answer), fds, &n_fds, NULL, MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EINTR)
                return;
        _cleanup_close_ int fd = n > 0 && n_fds == 1 ? fds[0] : -1;
        if (n <= 0)
                drop_process(p, "has ended");
        else if (n != sizeof(answer) || !take_answer(p, &answer, fd))
                drop_process(p, "broke the protocol");
        pump(p);
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        struct pictures *p = data;

        for (size_t i = 0; i < PICTURE_CHILDREN_MAX; i++)
                if (p->running[i].request.serial != 0) {
                        drop_process(p, "does not answer");
                        break;
                }
        pump(p);
}

/* ---- the provider ---- */

static void ask(void *data, struct picture_check *check)
{
        struct pictures *p = data;

        TAILQ_INSERT_TAIL(&p->waiting, check, link);
        pump(p);
}

static void cancel(void *data, struct picture_check *check)
{
        struct pictures *p = data;
        struct picture_check *waiting;

        TAILQ_FOREACH (waiting, &p->waiting, link) {
                if (waiting == check) {
                        TAILQ_REMOVE(&p->waiting, check, link);
                        return;
                }
        }
        for (size_t i = 0; i < PICTURE_CHILDREN_MAX; i++)
                if (p->running[i].check == check)
                        p->running[i].check = NULL;
}

struct picture_provider pictures_provider(struct pictures *pictures)
{
        return (struct picture_provider){.data = pictures, .ask = ask, .cancel = cancel};
}

int pictures_new(struct pictures **ret, struct event_base *base, int (*start)(void *data),
                 void *data, struct error *err)
{
        struct pictures *p = calloc(1, sizeof(*p));

        if (!p)
                return error_errno(err, ENOMEM, "pictures");
        *p = (struct pictures){.base = base, .start = start, .data = data, .socket = -1};
        TAILQ_INIT(&p->waiting);
        p->late = evtimer_new(base, on_late, p);
        if (!p->late) {
                free(p);
                return error_errno(err, ENOMEM, "pictures");
        }
        *ret = p;
        return 0;
}

void pictures_free(struct pictures *p)
{
        if (!p)
                return;
        loop_event_free(&p->readable);
        loop_event_free(&p->late);
        fd_close_many(&p->socket, 1);
        free(p);
}
