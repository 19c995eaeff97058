/* The writer sockets of checkpoints: which copy gets a request, the error if no copy answers, and
 * that no end stays open. */
#include "supervisor/session/state/copies.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/fake-client.h"

static bool is_open(int fd)
{
        return fcntl(fd, F_GETFD) >= 0;
}

static void check_refused(struct copy *copy, int fd, int code, const char *why)
{
        struct error err = {};

        check_eq_int(copy_ask_to_write(copy, fd, &err), -code);
        check_eq_int(err.code, code);
        check_has(err.text, why);
}

/* The other end gets the descriptor; code in a sandbox that does not read, or has ended, costs nothing. */
static void test_requests(void)
{
        struct copy copy = {};
        struct error err = {};
        int ends[2], pipe_ends[2], passed, r, n = 0;
        size_t count = 1;
        char byte;

        check_eq_int(pipe(pipe_ends), 0);
        check_refused(&copy, pipe_ends[1], ENOTCONN, "a restore makes another one");

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        copy = (struct copy){.has_writer_socket = true, .writer_socket = ends[0]};
        check_eq_int(copy_ask_to_write(&copy, pipe_ends[1], &err), 0);
        check_eq_int(fd_receive(ends[1], &byte, 1, &passed, &count, NULL, MSG_DONTWAIT), 1);
        check_eq_int(count, 1);
        check_eq_int(write(passed, "x", 1), 1);
        check_eq_int(read(pipe_ends[0], &byte, 1), 1);
        close(passed);

        while ((r = copy_ask_to_write(&copy, pipe_ends[1], &err)) == 0 && n < 100000)
                n++;
        check(n > 0);
        check_eq_int(err.code, -r);
        check_has(err.text, "does not read");
        close(ends[1]);
        check_refused(&copy, pipe_ends[1], EPIPE, "its process has ended");

        copy_close_writer_socket(&copy);
        check(!is_open(ends[0]) && !copy.has_writer_socket);
        copy_close_writer_socket(&copy); /* once */
        check_refused(&copy, pipe_ends[1], ENOTCONN, "does not answer");
        close(pipe_ends[0]);
        close(pipe_ends[1]);
}

static const struct copy *find(struct fake *f, const char *name)
{
        const struct copies *copies = fake_session(f)->copies;

        for (size_t i = 0; i < copies->n; i++) {
                if (strcmp(copies->list[i].name, name) == 0)
                        return &copies->list[i];
        }
        return NULL;
}

/* A cell that ends with the checkpoint "a". Returns its writer socket. */
static int make(struct fake *f, uint32_t pid)
{
        struct end end = {};
        const struct cell_request request = {.code = "1",
                                             .code_length = 1,
                                             .checkpoint = "a",
                                             .done = fake_on_done,
                                             .data = &end};
        struct frame_header header;
        struct cell *cell = NULL;
        struct error err = {};
        char text[64];

        check_ok(sessions_run(f->sessions, "default", &request, &cell, &err));
        fake_spin(f);
        fake_send(f, FRAME_RESULT, fake_take_exec(f, NULL, 0), "{\"status\":\"ok\"}");
        header = fake_read(f, NULL, 0);
        check_eq_str(frame_type_name(header.type), "WRITER");
        header = fake_read(f, NULL, 0);
        check_eq_str(frame_type_name(header.type), "KEEP");
        snprintf(text, sizeof(text), "{\"pid\":%u}", pid);
        fake_send(f, FRAME_KEPT, header.id, text);
        sessions_kept(f->sessions, f->target, NULL);
        fake_spin(f);
        check_eq_int(end.count, 1);
        const struct copy *copy = find(f, "a");
        check(copy && copy->has_writer_socket);
        return copy->writer_socket;
}

/* The broker's end is open as long as the checkpoint exists. */
static void test_its_life(void)
{
        const struct monitor_hello hello = fake_hello;
        struct fake f;

        for (int i = 0; i < 2; i++) {
                struct config *config = fake_config("{}");
                fake_open(&f);
                sessions_reload(f.sessions, config, &hello);
                config_free(config);
                warm_up(&f);
                int socket = make(&f, 51);
                check(is_open(socket));
                if (i == 0) {
                        sessions_gone(f.sessions, f.target, 51);
                        check(!find(&f, "a"));
                } else {
                        int next = make(&f, 52);
                        check(next != socket && is_open(next));
                }
                check(!is_open(socket));
                fake_done(&f);
        }
}

int main(void)
{
        run(test_requests);
        run(test_its_life);
        return 0;
}
