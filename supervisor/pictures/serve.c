/* Forks a child for each picture, and passes its answer on. */
#include "supervisor/pictures/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "rpc/picture-messages.h"
#include "supervisor/pictures/check.h"

enum { CHILD_MEMORY = 192 * 1024 * 1024, SEALS = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK };

/* Of a child. 2 gets the messages of libraries: the memfd is sealed, so they are lost. */
enum { PICTURE_FD, MADE_FD, NOWHERE_FD, ANSWER_FD, FILTER_FD, CHILD_FDS };

struct check {
        pid_t pid;  /* 0: a free place */
        int answer; /* the pipe */
        int made;   /* the memfd */
        struct picture_request request;
        uint64_t until_us;
};

struct server {
        int socket, filter;
        struct check checks[PICTURE_CHILDREN_MAX];
};

/* ---- the child ---- */

static void limit(int what, rlim_t most)
{
        setrlimit(what, &(struct rlimit){most, most});
}

/* The picture to send, as base64. */
static void put_made(const uint8_t *made, size_t n, struct picture_answer *answer)
{
        struct buffer text = BUFFER_INIT(PICTURE_INPUT_MAX);

        if (base64_append(&text, made, n) < 0 ||
            fd_write_all(MADE_FD, buffer_bytes(&text), text.length) < 0)
                _exit(1);
        answer->made_length = (uint32_t)text.length;
}

static _Noreturn void run_child(const struct server *s, const struct picture_request *request,
                                int picture, int made, int answer_pipe)
{
        const struct itimerval cpu = {.it_value.tv_usec = PICTURE_CPU_MS * 1000};
        int fds[CHILD_FDS] = {picture, made, picture, answer_pipe, s->filter};
        struct buffer bytes = BUFFER_INIT(PICTURE_INPUT_MAX);
        struct picture_answer answer = {};
        struct error error = {};
        uint8_t *to_send = NULL;
        size_t n_to_send = 0;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fd_arrange(fds, CHILD_FDS) < 0)
                _exit(1);
        limit(RLIMIT_AS, CHILD_MEMORY);
        limit(RLIMIT_FSIZE, PICTURE_INPUT_MAX);
        limit(RLIMIT_NOFILE, 0);
        const char *text = request->length > 0 ? mmap(NULL, request->length, PROT_READ, MAP_PRIVATE,
                                                      PICTURE_FD, 0)
                                               : "";
        if (text == MAP_FAILED || setitimer(ITIMER_PROF, &cpu, NULL) < 0 ||
            filter_load(FILTER_FD, &error) < 0)
                _exit(1);
        close(FILTER_FD);
        close(PICTURE_FD);
        if (base64_decode(&bytes, text, request->length) < 0)
                _exit(1);
        picture_check((const uint8_t *)buffer_bytes(&bytes), bytes.length, request->side,
                      request->bytes, &answer, &to_send, &n_to_send);
        if (to_send)
                put_made(to_send, n_to_send, &answer);
        answer.serial = request->serial;
        _exit(write(ANSWER_FD, &answer, sizeof(answer)) != sizeof(answer));
}

/* ---- the process that forks it ---- */

static void refuse(const struct server *s, uint32_t serial, enum picture_reason reason)
{
        const struct picture_answer answer = {
                .serial = serial, .verdict = PICTURE_REFUSED, .reason = (uint8_t)reason};

        fd_send(s->socket, &answer, sizeof(answer), NULL, 0, 0);
}

static struct check *find_place(struct server *s)
{
        for (size_t i = 0; i < PICTURE_CHILDREN_MAX; i++)
                if (s->checks[i].pid == 0)
                        return &s->checks[i];
        return NULL;
}

/* The memfd must not change while it is read, or the child would get SIGBUS. */
static bool is_picture(const struct picture_request *request, int fd)
{
        struct stat st;

        return request->serial > 0 && request->length <= PICTURE_INPUT_MAX && request->side > 0 &&
               request->side <= LIMITS_PICTURE_SIDE_MAX &&
               request->bytes <= LIMITS_PICTURE_BYTES_MAX && fstat(fd, &st) == 0 &&
               st.st_size == (off_t)request->length && (fcntl(fd, F_GET_SEALS) & SEALS) == SEALS;
}

static bool start(struct server *s, struct check *c, const struct picture_request *request,
                  int picture)
{
        int ends[2];

        _cleanup_close_ int made = memfd_create("picture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (made < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return false;
        _cleanup_close_ int ours = ends[0], theirs = ends[1];
        pid_t pid = fork();
        if (pid == 0)
                run_child(s, request, picture, made, theirs);
        if (pid < 0)
                return false;
        *c = (struct check){.pid = pid,
                            .answer = take_fd(ours),
                            .made = take_fd(made),
                            .request = *request,
                            .until_us = clock_us() + PICTURE_WALL_MS * UINT64_C(1000)};
        return true;
}

/* Passes on a valid answer with its memfd. */
static void pass(struct server *s, struct check *c, const struct picture_answer *answer)
{
        bool has_made = answer->verdict == PICTURE_MADE;
        struct stat st;

        if (!picture_answer_valid(answer, &c->request) ||
            (has_made && (fcntl(c->made, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0 ||
                          fstat(c->made, &st) < 0 || st.st_size != (off_t)answer->made_length)))
                refuse(s, c->request.serial, PICTURE_REASON_ENDED);
        else
                fd_send(s->socket, answer, sizeof(*answer), &c->made, has_made ? 1 : 0, 0);
}

/* The child has answered, ended, or run too long. */
static void finish(struct server *s, struct check *c)
{
        struct picture_answer answer;
        int status = 0;

        /* Shorter than PIPE_BUF, so a child that is not hostile writes it whole. */
        bool has_answered = clock_us() < c->until_us &&
                            read(c->answer, &answer, sizeof(answer)) == sizeof(answer);
        bool is_late = clock_us() >= c->until_us;
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (has_answered)
                pass(s, c, &answer);
        else
                refuse(s, c->request.serial,
                       is_late || (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
                               ? PICTURE_REASON_TIME
                               : PICTURE_REASON_ENDED);
        close(c->answer);
        close(c->made);
        *c = (struct check){};
}

/* Returns 1, 0 at the end, negative errno. */
static int take_request(struct server *s)
{
        struct picture_request request;
        int fds[1];
        size_t n_fds = 1;

        ssize_t n = fd_receive(s->socket, &request, sizeof(request), fds, &n_fds, NULL,
                               MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EINTR)
                return 1;
        if (n <= 0)
                return n == -ECONNRESET ? 0 : (int)n;
        _cleanup_close_ int picture = n_fds == 1 ? fds[0] : -1;
        if (n != sizeof(request))
                return -EPROTO;
        struct check *place = find_place(s);
        if (picture < 0 || !place || !is_picture(&request, picture) ||
            !start(s, place, &request, picture))
                refuse(s, request.serial, PICTURE_REASON_ENDED);
        return 1;
}

/* Of the next deadline, in ms; -1: there is none. */
static int time_left(const struct server *s)
{
        uint64_t now = clock_us(), least = UINT64_MAX;

        for (size_t i = 0; i < PICTURE_CHILDREN_MAX; i++)
                if (s->checks[i].pid != 0 && s->checks[i].until_us < least)
                        least = s->checks[i].until_us;
        if (least == UINT64_MAX)
                return -1;
        return least > now ? (int)((least - now) / 1000) + 1 : 0;
}

int pictures_serve(int socket, int filter, struct error *err)
{
        struct server s = {.socket = socket, .filter = filter};

        for (;;) {
                struct pollfd polled[PICTURE_CHILDREN_MAX + 1] = {{.fd = socket, .events = POLLIN}};
                for (size_t i = 0; i < PICTURE_CHILDREN_MAX; i++)
                        polled[i + 1] = (struct pollfd){
                                .fd = s.checks[i].pid != 0 ? s.checks[i].answer : -1,
                                .events = POLLIN};
                if (poll(polled, PICTURE_CHILDREN_MAX + 1, time_left(&s)) < 0 && errno != EINTR)
                        return error_errno(err, errno, "poll");
                for (size_t i = 0; i < PICTURE_CHILDREN_MAX; i++)
                        if (s.checks[i].pid != 0 &&
                            (polled[i + 1].revents || clock_us() >= s.checks[i].until_us))
                                finish(&s, &s.checks[i]);
                int r = polled[0].revents ? take_request(&s) : 1;
                if (r <= 0)
                        return r < 0 ? error_errno(err, -r, "read a request") : 0;
        }
}
