/* The journal of the broker: when a record is written, and what becomes of one that is written later. */
#include "supervisor/trust/records/journal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "supervisor/service/sha256.h"
#include "tests/unit/test.h"

/* The test is cloister-journal. */
static struct {
        struct event_base *base;
        int socket, segment, next;
        struct event *probe;
        int n_seen; /* records, as the probe found them */
} world;

static int on_start(void *data)
{
        return 0;
}

static void on_doubt(void *data, const char *call, size_t n)
{
}

static void turn(void)
{
        event_base_loop(world.base, EVLOOP_NONBLOCK);
}

static void give_segment(uint32_t number, int fd)
{
        const struct journal_event event = {.kind = JOURNAL_SEGMENT, .segment = number};

        check_eq_int(fd_send(world.socket, &event, sizeof(event), &fd, 1, 0), 0);
}

static void begin_world(void)
{
        const struct journal_owner owner = {NULL, on_start, on_doubt};
        struct error err = {};
        int pair[2];

        world.base = loop_new();
        check_ok(journal_new(world.base, &owner, &err));
        journal_need();
        check_eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        journal_started(pair[0], NULL);
        world.socket = pair[1];
        world.segment = memfd_create("1.jsonl", MFD_CLOEXEC);
        world.next = memfd_create("2.jsonl", MFD_CLOEXEC);
        give_segment(1, world.segment);
        turn();
        check(journal_is_open());
}

static void end_world(void)
{
        journal_free();
        loop_event_free(&world.probe);
        event_base_free(world.base);
        fd_close_many((int[]){world.socket, world.segment, world.next}, 3);
}

/* Checks the chain of a segment. kinds: of its records, with a blank after each. Returns their number. */
static int read_segment(int fd, char kinds[256])
{
        static char text[64 * 1024];
        char digest[SHA256_TEXT_SIZE] = "";
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        int count = 0;

        check(n >= 0);
        text[n] = *kinds = '\0';
        for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, count++) {
                _cleanup_json_ yyjson_doc *doc = NULL;
                size_t length = (size_t)(end - line) + 1;

                check_eq_int(json_parse(line, length, &doc, NULL), 0);
                yyjson_val *root = yyjson_doc_get_root(doc);
                if (*digest)
                        check_eq_str(json_string(root, "prev", NULL), digest);
                sha256_text(line, length, digest);
                strcat(strcat(kinds, json_string(root, "kind", NULL)), " ");
        }
        return count;
}

static void write_later(const char *kind)
{
        struct error err = {};

        check(journal_begin(kind));
        check_ok(journal_end_later(kind, &err));
}

static uint64_t write_call(void)
{
        struct error err = {};
        uint64_t n = 0;

        check(journal_begin("call"));
        check_ok(journal_end(&n, &err));
        return n;
}

static void on_probe(evutil_socket_t fd, short what, void *data)
{
        char kinds[256];

        world.n_seen = read_segment(world.segment, kinds);
}

/* The order of a tool's answer: its record is made, then the write to the worker is scheduled. */
static void test_after_what_is_scheduled(void)
{
        char kinds[256];

        begin_world();
        check_eq_int(write_call(), 2);
        read_segment(world.segment, kinds);
        check_eq_str(kinds, "start call ");
        world.probe = event_new(world.base, -1, 0, on_probe, NULL);
        write_later("answer");
        event_active(world.probe, EV_WRITE, 0);
        turn();
        check_eq_int(world.n_seen, 2);
        check_eq_int(read_segment(world.segment, kinds), 3);
        end_world();
}

static void test_before_the_next_one(void)
{
        char kinds[256];

        begin_world();
        write_later("answer");
        write_later("answer");
        check_eq_int(write_call(), 4);
        read_segment(world.segment, kinds);
        check_eq_str(kinds, "start answer answer call ");
        turn();
        check_eq_int(read_segment(world.segment, kinds), 4);
        end_world();
}

static void test_at_the_end(void)
{
        char kinds[256];
        int fd;

        begin_world();
        fd = dup(world.segment);
        write_later("answer");
        end_world();
        read_segment(fd, kinds);
        check_eq_str(kinds, "start answer end ");
        close(fd);

        begin_world();
        write_later("answer");
        journal_abandon();
        read_segment(world.segment, kinds);
        check_eq_str(kinds, "start answer ");
        turn();
        check(!journal_is_open());
        end_world();
}

static void on_write_later(evutil_socket_t fd, short what, void *data)
{
        char byte;

        check_eq_int(read(fd, &byte, 1), 1);
        write_later("answer");
}

/* The segment changes after the record was made and before it is written. */
static void test_next_segment(void)
{
        char kinds[256];
        int pipe_fds[2];

        begin_world();
        check_eq_int(pipe(pipe_fds), 0);
        world.probe = event_new(world.base, pipe_fds[0], EV_READ, on_write_later, NULL);
        event_add(world.probe, NULL);
        check_eq_int(write(pipe_fds[1], "x", 1), 1);
        give_segment(2, world.next);
        turn();
        write_call();
        read_segment(world.segment, kinds);
        check_eq_str(kinds, "start answer ");
        read_segment(world.next, kinds);
        check_eq_str(kinds, "start call ");
        end_world();
        fd_close_many(pipe_fds, 2);
}

/* A full disk: the answer is lost, and no call is sent. */
static void test_failure(void)
{
        struct rlimit before, full;
        struct error err = {};
        char kinds[256];

        begin_world();
        signal(SIGXFSZ, SIG_IGN);
        check_eq_int(getrlimit(RLIMIT_FSIZE, &before), 0);
        full = before;
        full.rlim_cur = (rlim_t)lseek(world.segment, 0, SEEK_CUR);
        check_eq_int(setrlimit(RLIMIT_FSIZE, &full), 0);
        write_later("answer");
        turn();
        check(journal_begin("call"));
        check(journal_end(NULL, &err) < 0);
        check_has(err.text, "journal: write 1.jsonl: File too large");
        check_eq_int(setrlimit(RLIMIT_FSIZE, &before), 0);
        check_eq_int(write_call(), 2);
        read_segment(world.segment, kinds);
        check_eq_str(kinds, "start call ");
        end_world();
}

int main(void)
{
        run(test_after_what_is_scheduled);
        run(test_before_the_next_one);
        run(test_at_the_end);
        run(test_next_segment);
        run(test_failure);
        return 0;
}
